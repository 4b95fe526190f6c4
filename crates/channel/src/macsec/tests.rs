//! What is tested of MACsec beyond single files.

mod expected;
mod flows;
mod fragments;
mod oracle;
mod places;
mod rules;
mod sequences;
pub(super) mod setup;
mod vectors;
mod worlds;

//! Tests of MACsec across files.

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

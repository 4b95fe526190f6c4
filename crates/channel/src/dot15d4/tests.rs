//! Tests of the security procedures.

mod acks;
mod commands;
mod levels;
mod neighbours;
#[cfg(feature = "cojp")]
mod network;
mod prediction;
mod rules;
pub(super) mod setup;
mod vectors;
mod worlds;

//! Tests of the security procedures.

mod acks;
mod commands;
mod levels;
mod neighbours;
mod prediction;
mod rules;
pub(super) mod setup;
mod vectors;
mod worlds;

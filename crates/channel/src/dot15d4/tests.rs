//! Tests of the security procedures.

mod acks;
mod commands;
mod levels;
mod neighbours;
mod rules;
pub(super) mod setup;
mod vectors;
mod worlds;

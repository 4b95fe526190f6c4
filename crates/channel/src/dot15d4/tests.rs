//! Tests of the security procedures.

mod commands;
mod neighbours;
mod rules;
pub(super) mod setup;
mod vectors;
mod worlds;

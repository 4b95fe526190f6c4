//! Tests of the security procedures.

mod commands;
mod neighbours;
mod rules;
mod setup;
mod vectors;
mod worlds;

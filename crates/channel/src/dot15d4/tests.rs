//! What the procedures promise.

mod commands;
mod neighbours;
mod rules;
mod setup;
mod vectors;
mod worlds;

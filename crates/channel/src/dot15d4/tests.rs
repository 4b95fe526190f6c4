//! What the procedures promise.

mod commands;
mod rules;
mod setup;
mod vectors;
mod worlds;

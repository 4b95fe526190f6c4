//! What the procedures promise.

mod rules;
mod setup;
mod vectors;
mod worlds;

//! Tests of the channel as a whole.

mod envelopes;
mod rotations;
mod setup;
mod vectors;

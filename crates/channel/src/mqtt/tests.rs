//! Tests of the channel as a whole.

mod ahead;
mod envelopes;
mod groups;
mod rotations;
mod setup;
mod vectors;

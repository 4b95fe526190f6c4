//! Two devices with stacks on one wire.

mod agreement;
mod frames;
mod settings;
mod world;

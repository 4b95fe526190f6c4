//! The lab: a virtual PLC and IO device, an emulated untrusted wire, and the demonstration with two
//! gateways between them.
//!
//! - [`demo`] runs a plant and gives a verdict,
//! - [`ns`] builds topologies: network namespaces joined by veth pairs,
//! - [`station`] is a Profinet controller or IO device that measures its reception,
//! - [`emulator`] is the wire between the gateways, with faults,
//! - [`tap`] observes the wire like an attacker,
//! - [`roundtrip`] measures single round trips for benchmarks,
//! - [`screen`] draws a live view on a terminal,
//! - [`process`] starts the lab's processes.

pub mod demo;
pub mod emulator;
pub mod histogram;
pub mod ns;
pub mod output;
pub mod process;
pub mod realtime;
pub mod roundtrip;
pub mod screen;
pub mod station;
pub mod sys;
pub mod tap;

//! The lab: a virtual PLC and IO device, an emulated untrusted wire, and the demonstration that puts two
//! gateways between them.
//!
//! - [`demo`] puts all of it together and gives a verdict,
//! - [`experiment`] reproduces the papers, one file an experiment,
//! - [`msp430`] is an emulated mote,
//! - [`ns`] builds the plant: network namespaces joined by veth pairs,
//! - [`station`] is a Profinet controller or IO device that measures what it receives,
//! - [`emulator`] is the wire between the gateways, with faults,
//! - [`tap`] sees what an attacker on the wire sees,
//! - [`roundtrip`] measures single round trips for the benches,
//! - [`process`] is how the lab's processes are started and what they are.

pub mod demo;
pub mod emulator;
#[cfg(feature = "experiments")]
pub mod experiment;
pub mod histogram;
#[cfg(feature = "experiments")]
pub mod msp430;
pub mod ns;
pub mod output;
pub mod process;
pub mod realtime;
pub mod roundtrip;
pub mod station;
#[cfg(feature = "experiments")]
pub mod svg;
pub mod sys;
pub mod tap;

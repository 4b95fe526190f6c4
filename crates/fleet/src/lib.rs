//! A fleet: many devices that are enrolled, configured, re-keyed and watched over NATS with
//! JetStream.
//!
//! NATS carries, stores and replicates. It is trusted with neither keys nor policy: a document is
//! encrypted to the device that it is for, and signed by the authority. A report is encrypted to the
//! authority, and signed by its device.
//!
//! - [`identity`]: the keys of a device
//! - [`authority`]: the keys of the fleet
//! - [`document`]: what the authority tells a device
//! - [`report`]: what a device tells the authority
//! - [`enrol`]: how a device becomes a member
//! - [`nkey`], [`login`]: names and passes of NATS
//! - [`subjects`]: streams, subjects, and who may use them
//! - `engine`: the connection to NATS (feature `nats`)
//! - [`server`]: configurations of NATS servers
//! - [`home`]: the operator's directory
//! - [`cell`]: devices with a common CAK
//! - [`bearer`]: groups of devices, and their keys for WireGuard and DTLS
//! - [`render`]: the files of a device
//! - `rollout`: the way of documents to devices, in waves (feature `nats`)
//! - [`agent`]: the device's side

#![forbid(unsafe_code)]

pub mod agent;
pub mod authority;
pub mod bearer;
pub mod cell;
pub mod document;
#[cfg(feature = "nats")]
pub mod engine;
pub mod enrol;
pub mod home;
pub mod identity;
pub mod login;
pub mod nkey;
pub mod render;
pub mod report;
#[cfg(feature = "nats")]
pub mod rollout;
pub mod server;
pub mod subjects;

/// Seconds since 1970, by this machine's clock. 0 if it is before.
#[must_use]
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The system gives no random numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers: {0}")]
pub struct NoRandom(String);

/// Fills a buffer from the system's generator.
///
/// # Errors
/// When it fails.
pub fn random(out: &mut [u8]) -> Result<(), NoRandom> {
    getrandom::fill(out).map_err(|error| NoRandom(error.to_string()))
}

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

/// Seconds since 1970 as people read them: date and time, UTC. A number stays one that is in no calendar.
#[must_use]
pub fn utc(seconds: u64) -> String {
    let of_calendar = i64::try_from(seconds).ok().map(time::OffsetDateTime::from_unix_timestamp);
    let Some(Ok(at)) = of_calendar else { return format!("{seconds} s after 1970") };
    let (date, hour, minute) = (at.date(), at.hour(), at.minute());
    format!("{date} {hour:02}:{minute:02} UTC")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(1_795_921_935), "2026-11-29 03:12 UTC");
        assert_eq!(utc(u64::MAX), "18446744073709551615 s after 1970");
    }
}

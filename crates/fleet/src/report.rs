//! What a device tells the authority: signed by the device, encrypted to the authority.
//!
//! ```text
//! a sealed message (antedate_channel::sealed), signed by the device, for the reader "authority"
//!   purpose "antedate-fleet report", subject the device's identifier, of JSON: [`Report`]
//! ```

use antedate_channel::sealed::{self, Heading, OpenError, Reader};
use serde::{Deserialize, Serialize};

use crate::NoRandom;
use crate::authority::{Authority, Reading};
use crate::identity::{Identity, Public};
use crate::random;

/// The most octets of a report.
pub const MAX_LEN: usize = 8192;

/// How a gateway is, better ones first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// All is well, or there is nothing to watch.
    #[default]
    Ok,
    /// Something needs the operator.
    Warning,
    /// Nothing passes.
    Critical,
    /// It does not answer.
    Absent,
}

impl Level {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Absent => "absent",
        }
    }
}

/// The health of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Its level.
    pub level: Level,
    /// Why, in a line.
    pub what: String,
    /// The name of the CAK that carries (CKN), or empty.
    pub ckn: String,
    /// Names of CAKs in its file that do not carry.
    pub resting: Vec<String>,
    /// Live members.
    pub members: u64,
    /// Frames out and in.
    pub frames: [u64; 2],
}

/// A report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// How often the agent started. With `number`, it rises from report to report.
    pub start: u64,
    /// The number of the report since the start.
    pub number: u64,
    /// Seconds since 1970 by the device's clock.
    pub time: u64,
    /// The version of Antedate.
    pub antedate: String,
    /// The version of the settings in force, or 0.
    pub settings: u64,
    /// The version of a newer document that was taken and could not be applied, or 0.
    pub failed: u64,
    /// Why a document was refused or could not be applied, or empty.
    pub refused: String,
    /// Whether the device was revoked.
    pub revoked: bool,
    /// When its pass for NATS ends, in seconds since 1970, or 0.
    pub pass_ends: u64,
    /// The gateway.
    pub health: Health,
}

/// An event, in the words of the agent's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since 1970 by the device's clock.
    pub time: u64,
    /// What happened.
    pub what: String,
}

/// The two uses of a message of a device. Their headings differ.
pub trait Message: Serialize + for<'de> Deserialize<'de> {
    /// The heading's purpose.
    const PURPOSE: &'static str;
}

impl Message for Report {
    const PURPOSE: &'static str = "antedate-fleet report";
}

impl Message for Event {
    const PURPOSE: &'static str = "antedate-fleet event";
}

/// Why a message of a device is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// It is cut, or none.
    #[error("is no report")]
    Format,
    /// The device has not signed it.
    #[error("is not signed by the device")]
    Signature,
    /// It is not encrypted to this key.
    #[error("is not encrypted to this fleet's reading key")]
    NotForUs,
}

impl From<OpenError> for ReportError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Format => Self::Format,
            OpenError::Signature => Self::Signature,
            OpenError::NotReader | OpenError::NoReader | OpenError::Unauthentic => Self::NotForUs,
        }
    }
}

const READER: &[u8] = b"authority";

/// Signs and encrypts a message of a device.
///
/// # Errors
/// When the system gives no random numbers.
pub fn seal<T: Message>(
    message: &T,
    identity: &Identity,
    authority: &Authority,
) -> Result<Vec<u8>, NoRandom> {
    let plain = serde_json::to_vec(message).unwrap_or_default();
    let id = identity.public().id();
    let readers = [Reader { name: READER, public: authority.reports }];
    let heading = Heading { purpose: T::PURPOSE, subject: &id };
    sealed::seal(heading, &plain, &identity.signing(), &readers, random).map_err(|error| match error {
        sealed::SealError::Random(error) => error,
        other => NoRandom(other.to_string()),
    })
}

/// Opens a message of a device.
///
/// # Errors
/// [`ReportError`].
pub fn open<T: Message>(octets: &[u8], device: &Public, reading: &Reading) -> Result<T, ReportError> {
    if octets.len() > MAX_LEN {
        return Err(ReportError::Format);
    }
    let id = device.id();
    let heading = Heading { purpose: T::PURPOSE, subject: &id };
    let plain = sealed::open(heading, octets, &device.sign, READER, &reading.secret())?;
    serde_json::from_slice(&plain).map_err(|_| ReportError::Format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Signing;
    use crate::identity::Seed;

    fn reading(octet: u8) -> Reading {
        Reading::of(Seed::of([octet; 32]))
    }

    fn authority() -> Authority {
        Authority::of(&Signing::of(Seed::of([9; 32])), &reading(9))
    }

    fn device(octet: u8) -> Identity {
        Identity::of(Seed::of([octet; 32]))
    }

    #[test]
    fn only_the_device_speaks_for_itself() {
        let report = Report { settings: 7, ..Report::default() };
        let sealed = seal(&report, &device(1), &authority()).unwrap();
        assert_eq!(open::<Report>(&sealed, &device(1).public(), &reading(9)), Ok(report.clone()));
        assert_eq!(open::<Report>(&sealed, &device(2).public(), &reading(9)), Err(ReportError::Signature));
        assert_eq!(open::<Report>(&sealed, &device(1).public(), &reading(8)), Err(ReportError::NotForUs));
        for wrong in [&sealed[..40], &[], &[0; MAX_LEN + 1]] {
            assert_eq!(open::<Report>(wrong, &device(1).public(), &reading(9)), Err(ReportError::Format));
        }
        // An event is no report.
        let event = Event { time: 1, what: "started".into() };
        let sealed = seal(&event, &device(1), &authority()).unwrap();
        assert_eq!(open::<Report>(&sealed, &device(1).public(), &reading(9)), Err(ReportError::Signature));
        assert_eq!(open::<Event>(&sealed, &device(1).public(), &reading(9)), Ok(event));
    }

    #[test]
    fn reports_of_later_versions_are_read() {
        let report: Report = serde_json::from_str(r#"{"settings": 3, "from_the_future": [1]}"#).unwrap();
        assert_eq!(report.settings, 3);
    }
}

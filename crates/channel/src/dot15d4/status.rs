//! Reasons for not securing or accepting a frame, by the standard's names, and their counters.

use core::fmt;

use antedate_wire::dot15d4::FormatError;

/// The status of a security procedure (clauses 9.2.1 and 9.2.3). Only a counter has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// COUNTER_ERROR: the frame counter or slot was used before, or no permitted number is left
    CounterError,
    /// IMPROPER_KEY_TYPE: the key is not for this kind of frame, or not for nonces of this kind
    ImproperKeyType,
    /// IMPROPER_SECURITY_LEVEL: the policy requires another level for this kind of frame
    ImproperSecurityLevel,
    /// SECURITY_ERROR: the MIC is wrong
    SecurityError,
    /// UNAVAILABLE_DEVICE: the sender is not known
    UnavailableDevice,
    /// UNAVAILABLE_KEY: there is no such key
    UnavailableKey,
    /// UNAVAILABLE_SECURITY_LEVEL: the policy has no rule for this kind of frame
    UnavailableSecurityLevel,
    /// UNSUPPORTED_LEGACY: secured by the edition of 2003
    UnsupportedLegacy,
    /// UNSUPPORTED_SECURITY: a level that is off, or no nonce is possible
    UnsupportedSecurity,
    /// FRAME_TOO_LONG: the secured frame exceeds the maximum length, or the caller's buffer
    FrameTooLong,
    /// INVALID_PARAMETER: it is not a valid frame
    Malformed(FormatError),
    /// INVALID_PARAMETER: no frame can have this header
    InvalidHeader,
}

impl Status {
    /// The standard's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CounterError => "COUNTER_ERROR",
            Self::ImproperKeyType => "IMPROPER_KEY_TYPE",
            Self::ImproperSecurityLevel => "IMPROPER_SECURITY_LEVEL",
            Self::SecurityError => "SECURITY_ERROR",
            Self::UnavailableDevice => "UNAVAILABLE_DEVICE",
            Self::UnavailableKey => "UNAVAILABLE_KEY",
            Self::UnavailableSecurityLevel => "UNAVAILABLE_SECURITY_LEVEL",
            Self::UnsupportedLegacy => "UNSUPPORTED_LEGACY",
            Self::UnsupportedSecurity => "UNSUPPORTED_SECURITY",
            Self::FrameTooLong => "FRAME_TOO_LONG",
            Self::Malformed(_) | Self::InvalidHeader => "INVALID_PARAMETER",
        }
    }
}

impl From<FormatError> for Status {
    fn from(invalid: FormatError) -> Self {
        match invalid {
            FormatError::LegacySecurity => Self::UnsupportedLegacy,
            invalid => Self::Malformed(invalid),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(invalid) => write!(f, "{}: {invalid}", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

impl core::error::Error for Status {}

/// A count. A mote's wraps after 4 billion: a year of frames without a pause.
#[cfg(target_pointer_width = "64")]
pub type Count = u64;
/// A count. A mote's wraps after 4 billion: a year of frames without a pause.
#[cfg(not(target_pointer_width = "64"))]
pub type Count = u32;

/// Counters of one direction. Each frame raises one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// frames secured, or accepted with security
    pub secured: Count,
    /// frames sent or accepted without security
    pub unsecured: Count,
    /// by COUNTER_ERROR
    pub counter_error: Count,
    /// by IMPROPER_KEY_TYPE
    pub improper_key_type: Count,
    /// by IMPROPER_SECURITY_LEVEL
    pub improper_security_level: Count,
    /// by SECURITY_ERROR
    pub security_error: Count,
    /// by UNAVAILABLE_DEVICE
    pub unavailable_device: Count,
    /// by UNAVAILABLE_KEY
    pub unavailable_key: Count,
    /// by UNAVAILABLE_SECURITY_LEVEL
    pub unavailable_security_level: Count,
    /// by UNSUPPORTED_LEGACY
    pub unsupported_legacy: Count,
    /// by UNSUPPORTED_SECURITY
    pub unsupported_security: Count,
    /// by FRAME_TOO_LONG
    pub frame_too_long: Count,
    /// by INVALID_PARAMETER
    pub invalid_parameter: Count,
}

impl Counters {
    pub(super) fn refuse(&mut self, status: Status) {
        let counter = match status {
            Status::CounterError => &mut self.counter_error,
            Status::ImproperKeyType => &mut self.improper_key_type,
            Status::ImproperSecurityLevel => &mut self.improper_security_level,
            Status::SecurityError => &mut self.security_error,
            Status::UnavailableDevice => &mut self.unavailable_device,
            Status::UnavailableKey => &mut self.unavailable_key,
            Status::UnavailableSecurityLevel => &mut self.unavailable_security_level,
            Status::UnsupportedLegacy => &mut self.unsupported_legacy,
            Status::UnsupportedSecurity => &mut self.unsupported_security,
            Status::FrameTooLong => &mut self.frame_too_long,
            Status::Malformed(_) | Status::InvalidHeader => &mut self.invalid_parameter,
        };
        *counter += 1;
    }

    /// Each counter of refusals with the standard's name.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, Count)> + use<> {
        [
            ("COUNTER_ERROR", self.counter_error),
            ("IMPROPER_KEY_TYPE", self.improper_key_type),
            ("IMPROPER_SECURITY_LEVEL", self.improper_security_level),
            ("SECURITY_ERROR", self.security_error),
            ("UNAVAILABLE_DEVICE", self.unavailable_device),
            ("UNAVAILABLE_KEY", self.unavailable_key),
            ("UNAVAILABLE_SECURITY_LEVEL", self.unavailable_security_level),
            ("UNSUPPORTED_LEGACY", self.unsupported_legacy),
            ("UNSUPPORTED_SECURITY", self.unsupported_security),
            ("FRAME_TOO_LONG", self.frame_too_long),
            ("INVALID_PARAMETER", self.invalid_parameter),
        ]
        .into_iter()
    }

    /// All refused frames.
    pub fn refused(&self) -> Count {
        self.refusals().map(|(_, count)| count).sum()
    }

    /// All accepted frames.
    pub const fn passed(&self) -> Count {
        self.secured + self.unsecured
    }
}

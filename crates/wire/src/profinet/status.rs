//! The status octets of cyclic data (IEC 61158-6-10): IOPS and IOCS of each object, DataStatus of
//! the frame.

use core::fmt;

/// Provider status (IOPS) or consumer status (IOCS): one octet beside each IO data object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ioxs(pub u8);

/// The status of a provider for its data.
pub type Iops = Ioxs;
/// The status of a consumer for the received data.
pub type Iocs = Ioxs;

impl Ioxs {
    /// The data is good.
    pub const GOOD: Self = Self(0x80);
    /// The data is bad; reported by the subslot.
    pub const BAD: Self = Self(0x00);
}

/// The data status of a cyclic frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataStatus(pub u8);

impl DataStatus {
    const PRIMARY: u8 = 0x01;
    const VALID: u8 = 0x04;
    const RUN: u8 = 0x10;
    const NO_PROBLEM: u8 = 0x20;
    const IGNORE: u8 = 0x80;

    /// Primary, valid, running, no problem: the status of a provider in normal operation.
    pub const OPERATIONAL: Self = Self(Self::PRIMARY | Self::VALID | Self::RUN | Self::NO_PROBLEM);

    const fn with(self, bit: u8, on: bool) -> Self {
        Self(if on { self.0 | bit } else { self.0 & !bit })
    }

    /// With ProviderState as given: run, or stop.
    pub const fn with_run(self, on: bool) -> Self {
        self.with(Self::RUN, on)
    }

    /// Whether the sender is the primary one.
    pub const fn is_primary(self) -> bool {
        self.0 & Self::PRIMARY != 0
    }

    /// Whether the data is valid.
    pub const fn is_valid(self) -> bool {
        self.0 & Self::VALID != 0
    }

    /// Whether the provider is running.
    pub const fn is_run(self) -> bool {
        self.0 & Self::RUN != 0
    }

    /// Whether the station reports a problem.
    pub const fn has_problem(self) -> bool {
        self.0 & Self::NO_PROBLEM == 0
    }

    /// Whether a consumer shall ignore the frame.
    pub const fn is_ignore(self) -> bool {
        self.0 & Self::IGNORE != 0
    }
}

impl fmt::Debug for DataStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataStatus")
            .field("primary", &self.is_primary())
            .field("valid", &self.is_valid())
            .field("run", &self.is_run())
            .field("problem", &self.has_problem())
            .field("ignore", &self.is_ignore())
            .finish()
    }
}

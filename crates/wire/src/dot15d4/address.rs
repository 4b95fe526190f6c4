//! PAN identifiers and addresses (clauses 7.2.3 to 7.2.6).

use core::fmt;
use core::str::FromStr;

use crate::{Error, Result};

macro_rules! sixteen_bits {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:04x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

/// The identifier of a PAN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PanId(pub u16);

impl PanId {
    /// All PANs.
    pub const BROADCAST: Self = Self(0xffff);
}

/// A short address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortAddress(pub u16);

impl ShortAddress {
    /// All devices.
    pub const BROADCAST: Self = Self(0xffff);
    /// A device without a short address.
    pub const NONE: Self = Self(0xfffe);

    /// Whether it is the address of one device.
    pub const fn is_assigned(self) -> bool {
        self.0 < Self::NONE.0
    }
}

sixteen_bits!(PanId);
sixteen_bits!(ShortAddress);

/// An extended address: an EUI-64 in its written order, most significant octet first. The wire has
/// the reverse order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtendedAddress(pub [u8; 8]);

impl ExtendedAddress {
    /// From the octets of a frame.
    pub const fn from_wire(octets: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(octets).to_be_bytes())
    }

    /// As the octets of a frame.
    pub const fn to_wire(self) -> [u8; 8] {
        u64::from_be_bytes(self.0).to_le_bytes()
    }
}

impl fmt::Display for ExtendedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, octet) in self.0.iter().enumerate() {
            write!(f, "{}{octet:02x}", if i > 0 { ":" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for ExtendedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ExtendedAddress {
    type Err = Error;

    /// Reads eight pairs of hexadecimal digits with colons between them.
    fn from_str(text: &str) -> Result<Self> {
        let mut out = [0; 8];
        let mut pairs = text.split(':');
        for octet in &mut out {
            let pair = pairs.next().filter(|pair| pair.len() == 2).ok_or(Error::Value)?;
            if !pair.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(Error::Value);
            }
            *octet = u8::from_str_radix(pair, 16).map_err(|_| Error::Value)?;
        }
        if pairs.next().is_some() { Err(Error::Value) } else { Ok(Self(out)) }
    }
}

/// An address of a frame, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Address {
    /// not in the frame
    #[default]
    Absent,
    /// of 16 bits
    Short(ShortAddress),
    /// of 64 bits
    Extended(ExtendedAddress),
}

impl Address {
    /// Whether there is an address.
    pub const fn is_present(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// Octets in a frame.
    pub const fn len(&self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Short(_) => 2,
            Self::Extended(_) => 8,
        }
    }

    /// Whether there is no address.
    pub const fn is_empty(&self) -> bool {
        !self.is_present()
    }
}

impl From<ShortAddress> for Address {
    fn from(address: ShortAddress) -> Self {
        Self::Short(address)
    }
}

impl From<ExtendedAddress> for Address {
    fn from(address: ExtendedAddress) -> Self {
        Self::Extended(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("-"),
            Self::Short(address) => address.fmt(f),
            Self::Extended(address) => address.fmt(f),
        }
    }
}

//! The known devices (clause 9.5, the device table).

use antedate_wire::dot15d4::{Address, ExtendedAddress, PanId, ShortAddress};

/// A device that may send to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// its PAN
    pub pan: PanId,
    /// its extended address, used in nonces
    pub extended: ExtendedAddress,
    /// its short address, if it has one
    pub short: Option<ShortAddress>,
    /// it may send unsecured frames where a rule lets exempt devices do so
    pub exempt: bool,
}

impl Device {
    /// Whether this address means the device.
    pub(super) fn is(&self, pan: Option<PanId>, address: Address) -> bool {
        match address {
            Address::Absent => false,
            Address::Short(short) => self.short == Some(short) && pan.is_none_or(|pan| pan == self.pan),
            Address::Extended(extended) => self.extended == extended,
        }
    }
}

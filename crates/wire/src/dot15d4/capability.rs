//! The capability information of a device (clause 7.5.2), with which it asks for association: among
//! others, whether it secures frames.
//!
//! The elements of the standard have no bit for link-layer security, so a device that lacks it says so
//! in this field (sciancalepore2016 section 3.4).

/// The command identifier of an association request (table 7-49).
pub const ASSOCIATION_REQUEST: u8 = 0x01;

/// The capability information field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capability(pub u8);

impl Capability {
    /// the device relays for others
    pub const FULL_FUNCTION: u8 = 1 << 1;
    /// it has power from the mains
    pub const MAINS: u8 = 1 << 2;
    /// it listens when idle
    pub const LISTENS: u8 = 1 << 3;
    /// it sends and receives secured frames
    pub const SECURES: u8 = 1 << 6;
    /// it wants a short address
    pub const SHORT_ADDRESS: u8 = 1 << 7;

    /// Whether the device sends and receives secured frames.
    pub const fn secures(self) -> bool {
        self.0 & Self::SECURES != 0
    }

    /// The MAC payload of an association request.
    pub const fn to_request(self) -> [u8; 2] {
        [ASSOCIATION_REQUEST, self.0]
    }

    /// Reads the MAC payload of a command. None for another command, or another length.
    pub const fn of_request(payload: &[u8]) -> Option<Self> {
        match payload {
            [ASSOCIATION_REQUEST, capability] => Some(Self(*capability)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn association_request_tells_capabilities() {
        let of = Capability(Capability::SHORT_ADDRESS | Capability::LISTENS);
        assert_eq!(of.to_request(), [1, 0x88]);
        assert_eq!(Capability::of_request(&[1, 0x88]), Some(of));
        assert!(!of.secures() && Capability(0xc8).secures());
        assert_eq!([&[][..], &[1], &[4, 0x88], &[1, 2, 3]].map(Capability::of_request), [None; 4]);
    }
}

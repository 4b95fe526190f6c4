//! The express channel of a gateway: a second secure channel, for frames with deadlines.

use super::Sci;

/// The bit of the port number that tells the express channel from the ordinary one.
const EXPRESS_PORT: u8 = 0x80;

/// The SCI of the express channel of the gateway with this SCI.
#[must_use]
pub fn express_sci(sci: Sci) -> Sci {
    let Sci([a, b, c, d, e, f, high, low]) = sci;
    Sci([a, b, c, d, e, f, high ^ EXPRESS_PORT, low])
}

/// The SSCI of the express channel of the gateway with this SSCI.
#[must_use]
pub fn express_ssci(ssci: u32) -> u32 {
    ssci ^ 1 << 31
}

//! The express channel of a gateway: a second secure channel beside the one for all other frames.

use antedate_wire::Sci;

/// The bit of the port number by which a gateway's express channel differs from its other one.
const EXPRESS_PORT: u8 = 0x80;

/// The SCI of the express channel of a gateway that otherwise sends under `sci`.
#[must_use]
pub fn express_sci(sci: Sci) -> Sci {
    let Sci([a, b, c, d, e, f, high, low]) = sci;
    Sci([a, b, c, d, e, f, high ^ EXPRESS_PORT, low])
}

/// The short SCI that goes with it.
#[must_use]
pub fn express_ssci(ssci: u32) -> u32 {
    ssci ^ 1 << 31
}

//! The tokens of a frame.

use alloc::vec;

use antedate_channel::macsec::Transmit;
use antedate_wire::macsec::{ICV_LEN, TAG_LEN_LONG};
use smoltcp::phy::{self, PacketMeta};

/// A received frame after its validation.
#[derive(Debug)]
pub struct RxToken<'a> {
    pub(crate) frame: &'a [u8],
}

impl phy::RxToken for RxToken<'_> {
    fn consume<R, F>(self, f: F) -> R
    where
        F: FnOnce(&[u8]) -> R,
    {
        f(self.frame)
    }
}

/// A frame to protect and send.
#[derive(Debug)]
pub struct TxToken<'a, T> {
    /// The driver's token, which is dropped unused if the frame cannot be protected.
    pub(crate) token: T,
    pub(crate) transmit: &'a mut Transmit,
    /// Space for the longest frame, and for SecTAG and ICV around it.
    pub(crate) place: &'a mut [u8],
}

impl<T: phy::TxToken> phy::TxToken for TxToken<'_, T> {
    fn consume<R, F>(self, len: usize, f: F) -> R
    where
        F: FnOnce(&mut [u8]) -> R,
    {
        let Self { token, transmit, place } = self;
        let frame = TAG_LEN_LONG..TAG_LEN_LONG + len;
        if place.len() < frame.end + ICV_LEN {
            // The stack asks for more than the capabilities allow.
            transmit.count_too_long();
            return f(&mut vec![0; len]);
        }
        let result = f(place.get_mut(frame.clone()).unwrap_or_default());
        match transmit.protect_in_place(place, frame.clone()) {
            Ok(protected) => token.consume(protected.len(), |out| out.copy_from_slice(protected)),
            // Counted. Without its packet number the frame must not leave.
            Err(_) => place.fill(0),
        }
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.token.set_meta(meta);
    }
}

//! An expected packet without a handle.

use crate::{
    AuthenticationError, ExpectedFront, Front, FrontSlot, Fronted, Key, Nonce, Opener, RefusedError,
};
use core::fmt;

/// An opener with a slot for the next expected packet: its number, its associated data (up to `AAD`
/// bytes) and the length of its payload (up to `CAP`). For a serial MAC, a [`Slot`](crate::Slot)
/// prepares the key stream alone; this type also prepares the MAC up to the payload.
///
/// Any other packet is opened without the preparation, with the same verdict. A refused packet
/// leaves the preparation for the genuine one.
///
/// ```
/// # use antedate_aead::{CoseCcm16_64_128, Key, Nonce, OpenStandby};
/// # fn nonce_of(number: u64) -> [u8; 13] {
/// #     let mut nonce = [0; 13];
/// #     nonce[5..].copy_from_slice(&number.to_be_bytes());
/// #     nonce
/// # }
/// # let key = || Key::<CoseCcm16_64_128>::new(&[7; 16]).unwrap();
/// # let mut sealed = [0; 4];
/// # let tag = key().seal(Nonce::assume_unique(nonce_of(8)), b"press 7", b"81.5", &mut sealed);
/// let mut standby = OpenStandby::<_, _, 64, 64>::new(key(), nonce_of);
/// standby.expect(8, b"press 7", 4);
/// while standby.idle(8) > 0 {}
/// // Later, when the packet is there:
/// let mut value = [0; 4];
/// standby.open(8, b"press 7", &sealed, &mut value, tag.as_bytes()).unwrap();
/// assert_eq!(&value, b"81.5");
/// ```
pub struct OpenStandby<S: Fronted, F: Fn(u64) -> S::NonceBytes, const AAD: usize, const CAP: usize> {
    opener: Opener<S, F>,
    slot: FrontSlot<S, CAP, 1>,
    /// The number of the packet in the slot.
    number: Option<u64>,
    aad: [u8; AAD],
    aad_len: usize,
    /// Length of its payload.
    len: [usize; 1],
}

impl<S: Fronted, F: Fn(u64) -> S::NonceBytes, const AAD: usize, const CAP: usize>
    OpenStandby<S, F, AAD, CAP>
{
    /// An opener that expects no packet yet.
    pub fn new(key: Key<S>, nonce_of: F) -> Self {
        Self {
            opener: Opener::new(key, nonce_of),
            slot: FrontSlot::new(),
            number: None,
            aad: [0; AAD],
            aad_len: 0,
            len: [0],
        }
    }

    /// Expects packet `number` with this associated data and `len` bytes of payload. The
    /// preparation of another packet is wiped; that of the same one stays. A packet that is too
    /// long for the slot, or has no payload, is not prepared.
    pub fn expect(&mut self, number: u64, aad: &[u8], len: usize) {
        if self.number == Some(number) && self.aad.get(..self.aad_len) == Some(aad) && self.len == [len] {
            return;
        }
        self.slot.wipe();
        self.number = None;
        let Some(place) = self.aad.get_mut(..aad.len()) else { return };
        place.copy_from_slice(aad);
        (self.aad_len, self.len) = (aad.len(), [len]);
        let Some(front) = front(&self.aad, self.aad_len, &self.len) else { return };
        if FrontSlot::<S, CAP, 1>::check(&front).is_ok() {
            // Opening does not use up a nonce: forgeries may carry it before the packet arrives.
            let nonce = Nonce::assume_unique((self.opener.nonce_of)(number));
            self.slot.name(number, nonce, &front, &self.len);
            self.number = Some(number);
        }
    }

    /// Continues the preparation by at most `budget` units (one block of the MAC, or a unit of key
    /// stream), and returns the units done.
    pub fn idle(&mut self, budget: u32) -> u32 {
        let Some(front) = self.number.and_then(|_| front(&self.aad, self.aad_len, &self.len)) else {
            return 0;
        };
        self.slot.step(&self.opener.key, &front, budget)
    }

    /// Whether only the payload is left.
    pub fn is_ready(&self) -> bool {
        self.number.is_some() && self.slot.is_ready()
    }

    /// Decrypts packet `number` from `src` into `dst` if it is authentic; otherwise `dst` is
    /// zeroed.
    ///
    /// # Panics
    /// If `src` and `dst` differ in length.
    #[inline]
    pub fn open(
        &mut self,
        number: u64,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &S::TagBytes,
    ) -> Result<(), AuthenticationError> {
        let expected =
            if self.number == Some(number) { front(&self.aad, self.aad_len, &self.len) } else { None };
        let Some(front) = expected else { return self.opener.open(number, aad, src, dst, tag) };
        match ExpectedFront::new(&self.opener.key, &front, &mut self.slot).open(aad, src, dst, tag) {
            Ok(()) => {
                self.number = None;
                Ok(())
            }
            Err(RefusedError(packet)) => {
                packet.leave();
                Err(AuthenticationError)
            }
        }
    }
}

/// The front of a packet with an unknown payload.
#[inline]
fn front<'t>(aad: &'t [u8], aad_len: usize, len: &'t [usize]) -> Option<Front<'t>> {
    Front::new(aad.get(..aad_len)?, &[], len).ok()
}

impl<S: Fronted, F: Fn(u64) -> S::NonceBytes, const AAD: usize, const CAP: usize> fmt::Debug
    for OpenStandby<S, F, AAD, CAP>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenStandby({}, ..)", S::NAME)
    }
}

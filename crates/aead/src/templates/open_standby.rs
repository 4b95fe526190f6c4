//! A packet that is expected, with all that comes before its payload, without a handle.

use crate::{ExpectedFront, Front, FrontSlot, Fronted, Key, Nonce, Opener, Refused, Unauthentic};
use core::fmt;

/// An opener with a slot for the packet that is expected next: its number, its associated data (up to `AAD` bytes) and the length of
/// its payload (up to `CAP`). Where the MAC is serial, a [`Slot`](crate::Slot) saves the cipherstream alone; here the MAC's beginning
/// is done beforehand too, and the payload is all that is left.
///
/// Any other packet is opened the ordinary way, so the verdict is the same, and one that is refused leaves what is prepared for the
/// genuine one.
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
    /// The number of the packet in the slot, if there is one.
    number: Option<u64>,
    aad: [u8; AAD],
    aad_len: usize,
    /// Bytes of its payload.
    len: [usize; 1],
}

impl<S: Fronted, F: Fn(u64) -> S::NonceBytes, const AAD: usize, const CAP: usize>
    OpenStandby<S, F, AAD, CAP>
{
    /// One that expects nothing yet.
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

    /// Expects packet `number` with this associated data and `len` bytes of payload. What was prepared for another one is wiped; for the
    /// same one it stays. A packet that is too long for the slot, or has no payload, is not prepared.
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
            // A received nonce is not spent by its use: forgeries may come under it before the packet does.
            let nonce = Nonce::assume_unique((self.opener.nonce_of)(number));
            self.slot.name(number, nonce, &front, &self.len);
            self.number = Some(number);
        }
    }

    /// Prepares on, for at most `budget` units (one block of the MAC, or as much cipherstream as the suite makes at once), and
    /// returns the units done.
    pub fn idle(&mut self, budget: u32) -> u32 {
        let Some(front) = self.number.and_then(|_| front(&self.aad, self.aad_len, &self.len)) else {
            return 0;
        };
        self.slot.step(&self.opener.key, &front, budget)
    }

    /// Whether only the payload is left to do.
    pub fn is_ready(&self) -> bool {
        self.number.is_some() && self.slot.is_ready()
    }

    /// Decrypts packet `number` from `src` into `dst` if it is authentic; otherwise `dst` is zeroed.
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
    ) -> Result<(), Unauthentic> {
        let expected =
            if self.number == Some(number) { front(&self.aad, self.aad_len, &self.len) } else { None };
        let Some(front) = expected else { return self.opener.open(number, aad, src, dst, tag) };
        match ExpectedFront::new(&self.opener.key, &front, &mut self.slot).open(aad, src, dst, tag) {
            Ok(()) => {
                self.number = None;
                Ok(())
            }
            Err(Refused(packet)) => {
                packet.leave();
                Err(Unauthentic)
            }
        }
    }
}

/// The front of a packet of which nothing of the payload is known.
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

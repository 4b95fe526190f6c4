//! The pools of an association. The cipher suite is matched once per frame, here.

use alloc::boxed::Box;
use alloc::vec::Vec;

use antedate_aead::research::Morus1280;
use antedate_aead::{
    Aegis128L, Aes128Gcm, Aes128Ocb3, Aes256Gcm, AsconAead128, AuthenticationError, ChaCha20Poly1305, Key,
    OpenPool, SealPool, Suite,
};

use super::flows::{FlowShape, Tables};
use super::packet_number::PacketNumbers;
use super::paged::Paged;
use super::sak::{Fingerprint, Sak};
use super::suite::{CipherSuite, NonceRule, Width};

/// The most prepared packet numbers of one association: 16, which fit the L1 cache with all their
/// key stream. Without an operating system 4, in 7 KB of RAM.
pub const SLOTS: usize = if cfg!(target_os = "none") { 4 } else { 16 };
/// Octets of user data prepared for each packet number. Longer frames take the ordinary path.
pub const PREPARED_LEN: usize = 1600;

// The type of a closure has no name, so an opening pool's rule is boxed. It is called once for each
// number at preparation, not when the frame arrives.
type Rule<B> = Box<dyn Fn(u64) -> B + Send + Sync>;
type Sealing<S> = Box<Paged<SealPool<S, PacketNumbers, SLOTS, PREPARED_LEN>>>;
type Opening<S, B = [u8; 12]> = Box<Paged<OpenPool<S, Rule<B>, SLOTS, PREPARED_LEN>>>;

/// A sealing pool.
#[derive(Debug)]
pub(super) enum Seal {
    Aes128(Box<Paged<Tables<Aes128Gcm>>>),
    Aes256(Box<Paged<Tables<Aes256Gcm>>>),
    ChaCha(Sealing<ChaCha20Poly1305>),
    Aegis(Sealing<Aegis128L>),
    Ascon(Sealing<AsconAead128>),
    Ocb3(Sealing<Aes128Ocb3>),
    Morus(Sealing<Morus1280>),
}

/// An opening pool.
#[derive(Debug)]
pub(super) enum Open {
    Aes128(Opening<Aes128Gcm>),
    Aes256(Opening<Aes256Gcm>),
    ChaCha(Opening<ChaCha20Poly1305>),
    Aegis(Opening<Aegis128L, [u8; 16]>),
    Ascon(Opening<AsconAead128, [u8; 16]>),
    Ocb3(Opening<Aes128Ocb3>),
    Morus(Opening<Morus1280, [u8; 16]>),
}

/// Keys taken out of use, with their prepared material. Dropping them wipes everything, which takes
/// as long as some frames do, so a forwarding thread hands them to another thread.
#[derive(Debug, Default)]
pub struct Retired {
    sealing: Vec<Seal>,
    opening: Vec<Open>,
}

impl Retired {
    pub(super) fn seal(&mut self, pool: Seal) {
        self.sealing.push(pool);
    }

    pub(super) fn open(&mut self, pool: Open) {
        self.opening.push(pool);
    }

    /// Adds the keys of `others`.
    pub fn add(&mut self, others: Self) {
        self.sealing.extend(others.sealing);
        self.opening.extend(others.opening);
    }

    /// The number of keys, one for each channel and association.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.sealing.len() + self.opening.len()
    }
}

/// The SAK as a key of its suite. `None` if the length does not fit, which [`Sak::new`] rules out.
fn key<S: Suite<TagBytes = [u8; 16]>>(sak: &Sak) -> Option<(Key<S>, Fingerprint)>
where
    S::NonceBytes: Width,
{
    let key = Key::new(sak.key()).ok()?;
    let fingerprint = Fingerprint::of(&key);
    Some((key, fingerprint))
}

/// Identifies a SAK.
pub(super) fn fingerprint(sak: &Sak) -> Option<Fingerprint> {
    Some(match sak.suite() {
        CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => key::<Aes128Gcm>(sak)?.1,
        CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => key::<Aes256Gcm>(sak)?.1,
        CipherSuite::ChaCha20Poly1305 => key::<ChaCha20Poly1305>(sak)?.1,
        CipherSuite::Aegis128L => key::<Aegis128L>(sak)?.1,
        CipherSuite::AsconAead128 => key::<AsconAead128>(sak)?.1,
        CipherSuite::Aes128Ocb3 => key::<Aes128Ocb3>(sak)?.1,
        CipherSuite::Morus1280 => key::<Morus1280>(sak)?.1,
    })
}

/// The nonces of an association, in the form for its opening pool.
fn by<B: Width + 'static>(rule: NonceRule) -> Rule<B> {
    Box::new(move |number| B::widen(rule.nonce(number)))
}

macro_rules! with {
    ($this:expr, $pool:ident => $body:expr) => {
        match $this {
            Self::Aes128($pool) => $body,
            Self::Aes256($pool) => $body,
            Self::ChaCha($pool) => $body,
            Self::Aegis($pool) => $body,
            Self::Ascon($pool) => $body,
            Self::Ocb3($pool) => $body,
            Self::Morus($pool) => $body,
        }
    };
}

impl Seal {
    pub(super) fn new(sak: &Sak, numbers: PacketNumbers) -> Option<Self> {
        Some(match sak.suite() {
            CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => {
                Self::Aes128(Paged::boxed(Tables::new(key(sak)?.0, numbers)))
            }
            CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => {
                Self::Aes256(Paged::boxed(Tables::new(key(sak)?.0, numbers)))
            }
            CipherSuite::ChaCha20Poly1305 => Self::ChaCha(Paged::boxed(SealPool::new(key(sak)?.0, numbers))),
            CipherSuite::Aegis128L => Self::Aegis(Paged::boxed(SealPool::new(key(sak)?.0, numbers))),
            CipherSuite::AsconAead128 => Self::Ascon(Paged::boxed(SealPool::new(key(sak)?.0, numbers))),
            CipherSuite::Aes128Ocb3 => Self::Ocb3(Paged::boxed(SealPool::new(key(sak)?.0, numbers))),
            CipherSuite::Morus1280 => Self::Morus(Paged::boxed(SealPool::new(key(sak)?.0, numbers))),
        })
    }

    /// Makes flow tables for frames of these shapes. Returns false if the cipher has none.
    pub(super) fn set_flows(&mut self, shapes: &[FlowShape]) -> bool {
        match self {
            Self::Aes128(tables) => tables.set_shapes(shapes.to_vec()),
            Self::Aes256(tables) => tables.set_shapes(shapes.to_vec()),
            _ => return false,
        }
        true
    }

    /// Sets the length to prepare for, in octets of data.
    pub(super) fn set_reach(&mut self, octets: usize) {
        with!(self, pool => pool.set_reach(octets));
    }

    /// Preparation steps of one packet number for data of up to `reach` octets: one for the tag,
    /// and one per 64 octets of key stream if the cipher has one.
    #[inline]
    pub(super) fn steps_a_slot(&self, reach: usize) -> u32 {
        match self {
            Self::Aes128(_) | Self::Aes256(_) | Self::ChaCha(_) => 1 + reach.div_ceil(64) as u32,
            Self::Aegis(_) | Self::Ascon(_) | Self::Ocb3(_) | Self::Morus(_) => 1,
        }
    }

    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        with!(self, pool => pool.idle(budget))
    }

    /// Works on flow tables only, and prepares no further packet number.
    #[inline]
    pub(super) fn finish(&mut self, budget: u32) -> u32 {
        match self {
            Self::Aes128(tables) => tables.finish(budget),
            Self::Aes256(tables) => tables.finish(budget),
            _ => 0,
        }
    }

    /// Reads the prepared material for the next packet of this length, to warm the cache.
    pub(super) fn touch(&self, octets: usize) {
        with!(self, pool => pool.touch(octets));
    }

    #[inline]
    pub(super) fn prepared(&self) -> usize {
        with!(self, pool => pool.prepared())
    }

    pub(super) fn numbers(&self) -> &PacketNumbers {
        with!(self, pool => pool.sequence())
    }

    pub(super) fn numbers_mut(&mut self) -> &mut PacketNumbers {
        with!(self, pool => pool.sequence_mut())
    }
}

impl Open {
    pub(super) fn new(sak: &Sak, rule: NonceRule, expected: u64) -> Option<Self> {
        let mut this = match sak.suite() {
            CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => {
                Self::Aes128(Paged::boxed(OpenPool::new(key(sak)?.0, by(rule))))
            }
            CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => {
                Self::Aes256(Paged::boxed(OpenPool::new(key(sak)?.0, by(rule))))
            }
            CipherSuite::ChaCha20Poly1305 => Self::ChaCha(Paged::boxed(OpenPool::new(key(sak)?.0, by(rule)))),
            CipherSuite::Aegis128L => Self::Aegis(Paged::boxed(OpenPool::new(key(sak)?.0, by(rule)))),
            CipherSuite::AsconAead128 => Self::Ascon(Paged::boxed(OpenPool::new(key(sak)?.0, by(rule)))),
            CipherSuite::Aes128Ocb3 => Self::Ocb3(Paged::boxed(OpenPool::new(key(sak)?.0, by(rule)))),
            CipherSuite::Morus1280 => Self::Morus(Paged::boxed(OpenPool::new(key(sak)?.0, by(rule)))),
        };
        this.expect_from(expected);
        Some(this)
    }

    /// Sets the length to prepare for, in octets of data.
    pub(super) fn set_reach(&mut self, octets: usize) {
        with!(self, pool => pool.set_reach(octets));
    }

    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        with!(self, pool => pool.idle(budget))
    }

    /// Reads the prepared material for the next expected packet of this length, to warm the cache.
    pub(super) fn touch(&self, octets: usize) {
        with!(self, pool => pool.touch(octets));
    }

    pub(super) fn prepared(&self) -> usize {
        with!(self, pool => pool.prepared())
    }

    #[inline]
    pub(super) fn expect_from(&mut self, number: u64) {
        with!(self, pool => pool.expect_from(number));
    }

    #[inline]
    pub(super) fn open(
        &mut self,
        number: u64,
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        icv: &[u8; 16],
    ) -> Result<(), AuthenticationError> {
        with!(self, pool => pool.open(number, aad, src, dst, icv))
    }

    #[inline]
    pub(super) fn open_in_place(
        &mut self,
        number: u64,
        aad: &[u8],
        data: &mut [u8],
        icv: &[u8; 16],
    ) -> Result<(), AuthenticationError> {
        with!(self, pool => pool.open_in_place(number, aad, data, icv))
    }

    /// Opens data and ICV in one piece, as [`open_in_place`](Self::open_in_place) does. If the
    /// packet is authentic, the following one is expected next.
    #[inline(always)]
    pub(super) fn open_next_in_place(
        &mut self,
        number: u64,
        aad: &[u8],
        packet: &mut [u8],
    ) -> Result<(), AuthenticationError> {
        match self {
            Self::Aes128(pool) => pool.open_next_in_place(number, aad, packet),
            Self::Aes256(pool) => pool.open_next_in_place(number, aad, packet),
            _ => self.open_next_otherwise(number, aad, packet),
        }
    }

    /// Out of line, so that the standard's suites are not selected by a jump table.
    #[inline(never)]
    fn open_next_otherwise(
        &mut self,
        number: u64,
        aad: &[u8],
        packet: &mut [u8],
    ) -> Result<(), AuthenticationError> {
        with!(self, pool => pool.open_next_in_place(number, aad, packet))
    }

    #[inline]
    pub(super) fn verify(
        &mut self,
        number: u64,
        aad: &[&[u8]],
        icv: &[u8; 16],
    ) -> Result<(), AuthenticationError> {
        with!(self, pool => pool.verify(number, aad, icv))
    }
}

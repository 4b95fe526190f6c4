//! The pools of an association, of one cipher or the other. The suite is looked at once a frame, here.

use alloc::boxed::Box;

use antedate_aead::{Aes128Gcm, Aes256Gcm, ChaCha20Poly1305, Key, OpenPool, SealPool, Unauthentic, Usual};

use super::packet_number::PacketNumbers;
use super::sak::{Fingerprint, Sak};
use super::suite::{CipherSuite, NonceRule};

/// Packet numbers that can lie prepared for one association. So many fit the nearest cache with all their cipherstream.
pub const SLOTS: usize = 16;
/// Octets of user data that are prepared for each packet number. Longer frames go the ordinary way.
pub const PREPARED_LEN: usize = 1600;

// A type that implements `Fn` has no name, so the rule of an opening pool lies behind a pointer. It is called once for
// each number when that is prepared, not when its frame comes.
type Rule = Box<dyn Fn(u64) -> [u8; 12] + Send + Sync>;
type Sealing<S> = Box<SealPool<S, PacketNumbers, SLOTS, PREPARED_LEN>>;
type Opening<S> = Box<OpenPool<S, Rule, SLOTS, PREPARED_LEN>>;

/// A sealing pool.
#[derive(Debug)]
pub(super) enum Seal {
    Aes128(Sealing<Aes128Gcm>),
    Aes256(Sealing<Aes256Gcm>),
    ChaCha(Sealing<ChaCha20Poly1305>),
}

/// An opening pool.
#[derive(Debug)]
pub(super) enum Open {
    Aes128(Opening<Aes128Gcm>),
    Aes256(Opening<Aes256Gcm>),
    ChaCha(Opening<ChaCha20Poly1305>),
}

/// A key of the suite that the SAK is for. None if the length does not fit, which [`Sak::new`] has ruled out.
fn key<S: Usual>(sak: &Sak) -> Option<(Key<S>, Fingerprint)> {
    let key = Key::new(sak.key()).ok()?;
    let fingerprint = Fingerprint::of(&key);
    Some((key, fingerprint))
}

/// By which the SAK is known again.
pub(super) fn fingerprint(sak: &Sak) -> Option<Fingerprint> {
    Some(match sak.suite() {
        CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => key::<Aes128Gcm>(sak)?.1,
        CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => key::<Aes256Gcm>(sak)?.1,
        CipherSuite::ChaCha20Poly1305 => key::<ChaCha20Poly1305>(sak)?.1,
    })
}

macro_rules! with {
    ($this:expr, $pool:ident => $body:expr) => {
        match $this {
            Self::Aes128($pool) => $body,
            Self::Aes256($pool) => $body,
            Self::ChaCha($pool) => $body,
        }
    };
}

impl Seal {
    pub(super) fn new(sak: &Sak, numbers: PacketNumbers) -> Option<Self> {
        Some(match sak.suite() {
            CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => {
                Self::Aes128(Box::new(SealPool::new(key(sak)?.0, numbers)))
            }
            CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => {
                Self::Aes256(Box::new(SealPool::new(key(sak)?.0, numbers)))
            }
            CipherSuite::ChaCha20Poly1305 => Self::ChaCha(Box::new(SealPool::new(key(sak)?.0, numbers))),
        })
    }

    /// Prepares for data of up to `octets` from now on.
    pub(super) fn set_reach(&mut self, octets: usize) {
        with!(self, pool => pool.set_reach(octets));
    }

    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        with!(self, pool => pool.idle(budget))
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
        let nonce_of: Rule = Box::new(move |number| rule.nonce(number));
        let mut this = match sak.suite() {
            CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => {
                Self::Aes128(Box::new(OpenPool::new(key(sak)?.0, nonce_of)))
            }
            CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => {
                Self::Aes256(Box::new(OpenPool::new(key(sak)?.0, nonce_of)))
            }
            CipherSuite::ChaCha20Poly1305 => Self::ChaCha(Box::new(OpenPool::new(key(sak)?.0, nonce_of))),
        };
        this.expect_from(expected);
        Some(this)
    }

    /// Prepares for data of up to `octets` from now on.
    pub(super) fn set_reach(&mut self, octets: usize) {
        with!(self, pool => pool.set_reach(octets));
    }

    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        with!(self, pool => pool.idle(budget))
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
    ) -> Result<(), Unauthentic> {
        with!(self, pool => pool.open(number, aad, src, dst, icv))
    }

    #[inline]
    pub(super) fn verify(&mut self, number: u64, aad: &[&[u8]], icv: &[u8; 16]) -> Result<(), Unauthentic> {
        with!(self, pool => pool.verify(number, aad, icv))
    }
}

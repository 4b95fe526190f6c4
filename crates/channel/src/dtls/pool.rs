//! The pools of a direction. The cipher is matched once per record, here.
//!
//! A large pool prepares [`SLOTS`] records, and takes 13 KiB with an expanded key of 5 KiB. A server of
//! thousands of devices gives it to those that speak. The others rest: they have the key as it was
//! agreed on, which is expanded for each record and wiped after it.

use alloc::boxed::Box;

use antedate_aead::{
    Aes128Ccm, Aes128Ccm8, Aes128Gcm, Aes256Ccm, Aes256Ccm8, Aes256Gcm, AuthenticationError,
    ChaCha20Poly1305, Key, Nonce, NonceSequence, OpenPool, SealPool, Suite,
};

use super::keys::{DirectionKeys, Numbers};
use super::suite::Aead;
use crate::sequence::ExhaustedError;

/// The most prepared records in each direction.
pub const SLOTS: usize = 8;
/// Octets of plaintext prepared for each record: an Ethernet datagram. Longer records take the
/// ordinary path.
pub const PREPARED_LEN: usize = 1472;

// The type of a closure has no name, so the rule is boxed. It is called once for each number, at
// preparation.
type Rule = Box<dyn Fn(u64) -> [u8; 12] + Send + Sync>;

/// A sealing pool, or the numbers of one that rests.
enum Sealing<S: Suite<NonceBytes = [u8; 12]>> {
    Resting(Numbers),
    Large(Box<SealPool<S, Numbers, SLOTS, PREPARED_LEN>>),
}

/// An opening pool, unless it rests.
enum Opening<S: Suite<NonceBytes = [u8; 12]>> {
    Resting,
    Large(Box<OpenPool<S, Rule, SLOTS, PREPARED_LEN>>),
}

impl<S: Suite<NonceBytes = [u8; 12]>> Sealing<S> {
    fn new(keys: &DirectionKeys, numbers: Numbers, large: bool) -> Option<Self> {
        Some(match large {
            true => Self::Large(Box::new(SealPool::new(Key::new(keys.key()).ok()?, numbers))),
            false => Self::Resting(numbers),
        })
    }

    /// The numbers that no slot has, which this pool then has no longer.
    fn take_numbers(&mut self) -> Numbers {
        core::mem::replace(self.numbers(), Numbers::none())
    }

    fn set_numbers(&mut self, numbers: Numbers) {
        *self.numbers() = numbers;
    }

    fn numbers(&mut self) -> &mut Numbers {
        match self {
            Self::Resting(numbers) => numbers,
            Self::Large(pool) => pool.sequence_mut(),
        }
    }

    #[inline]
    fn idle(&mut self, budget: u32) -> u32 {
        match self {
            Self::Resting(_) => 0,
            Self::Large(pool) => pool.idle(budget),
        }
    }

    fn prepared(&self) -> usize {
        match self {
            Self::Resting(_) => 0,
            Self::Large(pool) => pool.prepared(),
        }
    }

    fn set_reach(&mut self, octets: usize) {
        if let Self::Large(pool) = self {
            pool.set_reach(octets);
        }
    }

    #[inline]
    fn seal(
        &mut self,
        keys: &DirectionKeys,
        text: &mut [u8],
        tag: &mut [u8],
        aad: impl FnOnce(u64) -> antedate_wire::dtls::Aad,
    ) -> Result<u64, ExhaustedError> {
        let pool = match self {
            Self::Resting(numbers) => {
                let (number, nonce) = numbers.next()?;
                seal_at_rest::<S>(keys, nonce, aad(number).as_slice(), text, tag)?;
                return Ok(number);
            }
            Self::Large(pool) => pool,
        };
        let prepared = pool.next()?;
        let number = prepared.number();
        let aad = aad(number);
        tag.copy_from_slice(prepared.seal_in_place(aad.as_slice(), text).as_bytes().as_ref());
        Ok(number)
    }
}

/// Seals with a key that is expanded for this record. Out of line, since the expanded key is on the
/// stack. Never fails: the key's length was checked by [`DirectionKeys::new`].
#[inline(never)]
fn seal_at_rest<S: Suite<NonceBytes = [u8; 12]>>(
    keys: &DirectionKeys,
    nonce: Nonce<[u8; 12]>,
    aad: &[u8],
    text: &mut [u8],
    tag: &mut [u8],
) -> Result<(), ExhaustedError> {
    let key = Key::<S>::new(keys.key()).map_err(|_| ExhaustedError)?;
    tag.copy_from_slice(key.seal_in_place(nonce, aad, text).as_bytes().as_ref());
    Ok(())
}

/// Opens with a key that is expanded for this record, as [`seal_at_rest`].
#[inline(never)]
fn open_at_rest<S: Suite<NonceBytes = [u8; 12]>>(
    keys: &DirectionKeys,
    number: u64,
    aad: &[u8],
    text: &mut [u8],
    tag: &S::TagBytes,
) -> Result<(), AuthenticationError> {
    let key = Key::<S>::new(keys.key()).map_err(|_| AuthenticationError)?;
    key.open_in_place(keys.rule().nonce(number), aad, text, tag)
}

impl<S: Suite<NonceBytes = [u8; 12]>> Opening<S>
where
    for<'a> &'a S::TagBytes: TryFrom<&'a [u8]>,
{
    fn new(keys: &DirectionKeys, large: bool) -> Option<Self> {
        if !large {
            return Some(Self::Resting);
        }
        let (key, rule) = (Key::new(keys.key()).ok()?, keys.rule());
        let rule: Rule = Box::new(move |number| rule.nonce(number));
        Some(Self::Large(Box::new(OpenPool::new(key, rule))))
    }

    #[inline]
    fn expect_from(&mut self, number: u64) {
        if let Self::Large(pool) = self {
            pool.expect_from(number);
        }
    }

    #[inline]
    fn idle(&mut self, budget: u32) -> u32 {
        match self {
            Self::Resting => 0,
            Self::Large(pool) => pool.idle(budget),
        }
    }

    fn set_reach(&mut self, octets: usize) {
        if let Self::Large(pool) = self {
            pool.set_reach(octets);
        }
    }

    #[inline]
    fn open(
        &mut self,
        keys: &DirectionKeys,
        number: u64,
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8],
    ) -> Result<(), AuthenticationError> {
        let tag = tag.try_into().map_err(|_| AuthenticationError)?;
        match self {
            Self::Resting => open_at_rest::<S>(keys, number, aad, text, tag),
            Self::Large(pool) => pool.open_in_place(number, aad, text, tag),
        }
    }
}

macro_rules! ciphers {
    ($($name:ident)*) => {
        /// A sealing pool of any cipher.
        enum Seals { $( $name(Sealing<$name>), )* }

        /// An opening pool of any cipher.
        enum Opens { $( $name(Opening<$name>), )* }

        impl Seals {
            fn new(keys: &DirectionKeys, numbers: Numbers, large: bool) -> Option<Self> {
                Some(match keys.aead() {
                    $( Aead::$name => Self::$name(Sealing::new(keys, numbers, large)?), )*
                })
            }

            fn take_numbers(&mut self) -> Numbers {
                match self { $( Self::$name(pool) => pool.take_numbers(), )* }
            }

            fn set_numbers(&mut self, numbers: Numbers) {
                match self { $( Self::$name(pool) => pool.set_numbers(numbers), )* }
            }

            #[inline]
            fn seal(
                &mut self,
                keys: &DirectionKeys,
                text: &mut [u8],
                tag: &mut [u8],
                aad: impl FnOnce(u64) -> antedate_wire::dtls::Aad,
            ) -> Result<u64, ExhaustedError> {
                match self { $( Self::$name(pool) => pool.seal(keys, text, tag, aad), )* }
            }

            #[inline]
            fn idle(&mut self, budget: u32) -> u32 {
                match self { $( Self::$name(pool) => pool.idle(budget), )* }
            }

            fn prepared(&self) -> usize {
                match self { $( Self::$name(pool) => pool.prepared(), )* }
            }

            fn set_reach(&mut self, octets: usize) {
                match self { $( Self::$name(pool) => pool.set_reach(octets), )* }
            }
        }

        impl Opens {
            fn new(keys: &DirectionKeys, large: bool) -> Option<Self> {
                Some(match keys.aead() {
                    $( Aead::$name => Self::$name(Opening::new(keys, large)?), )*
                })
            }

            #[inline]
            fn open(
                &mut self,
                keys: &DirectionKeys,
                number: u64,
                aad: &[u8],
                text: &mut [u8],
                tag: &[u8],
            ) -> Result<(), AuthenticationError> {
                match self { $( Self::$name(pool) => pool.open(keys, number, aad, text, tag), )* }
            }

            #[inline]
            fn expect_from(&mut self, number: u64) {
                match self { $( Self::$name(pool) => pool.expect_from(number), )* }
            }

            #[inline]
            fn idle(&mut self, budget: u32) -> u32 {
                match self { $( Self::$name(pool) => pool.idle(budget), )* }
            }

            fn set_reach(&mut self, octets: usize) {
                match self { $( Self::$name(pool) => pool.set_reach(octets), )* }
            }
        }
    };
}

ciphers!(Aes128Ccm8 Aes128Ccm Aes256Ccm8 Aes256Ccm Aes128Gcm Aes256Gcm ChaCha20Poly1305);

/// The sealing pool of a direction.
pub(super) struct Seal {
    keys: DirectionKeys,
    pool: Seals,
    reach: usize,
    large: bool,
}

impl Seal {
    pub(super) fn new(keys: &DirectionKeys, epoch: u16, first: u64, large: bool) -> Option<Self> {
        let pool = Seals::new(keys, Numbers::new(keys.rule(), epoch, first), large)?;
        Some(Self { keys: keys.clone(), pool, reach: PREPARED_LEN, large })
    }

    /// Changes the size. What was prepared is burnt.
    pub(super) fn set_large(&mut self, large: bool) {
        if self.large != large
            // Checked before the numbers are taken: the keys have fitted once.
            && let Some(pool) = Seals::new(&self.keys, Numbers::none(), large)
        {
            let mut old = core::mem::replace(&mut self.pool, pool);
            self.pool.set_numbers(old.take_numbers());
            self.large = large;
            self.pool.set_reach(self.reach);
        }
    }

    /// Seals the next record. Passes its number to `aad`, which lays out the record in place and
    /// returns its additional data; then encrypts `text` in place and writes the tag.
    #[inline]
    pub(super) fn seal(
        &mut self,
        text: &mut [u8],
        tag: &mut [u8],
        aad: impl FnOnce(u64) -> antedate_wire::dtls::Aad,
    ) -> Result<u64, ExhaustedError> {
        self.pool.seal(&self.keys, text, tag, aad)
    }

    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        self.pool.idle(budget)
    }

    pub(super) fn prepared(&self) -> usize {
        self.pool.prepared()
    }

    pub(super) fn set_reach(&mut self, octets: usize) {
        self.reach = octets;
        self.pool.set_reach(octets);
    }
}

/// The opening pool of a direction.
pub(super) struct Open {
    keys: DirectionKeys,
    pool: Opens,
    /// The lowest expected number.
    expected: u64,
    reach: usize,
    large: bool,
}

impl Open {
    pub(super) fn new(keys: &DirectionKeys, large: bool) -> Option<Self> {
        let pool = Opens::new(keys, large)?;
        Some(Self { keys: keys.clone(), pool, expected: 0, reach: PREPARED_LEN, large })
    }

    /// Changes the size. What was prepared is wiped.
    pub(super) fn set_large(&mut self, large: bool) {
        if self.large != large
            && let Some(pool) = Opens::new(&self.keys, large)
        {
            (self.pool, self.large) = (pool, large);
            self.pool.expect_from(self.expected);
            self.pool.set_reach(self.reach);
        }
    }

    #[inline]
    pub(super) fn open(
        &mut self,
        number: u64,
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8],
    ) -> Result<(), AuthenticationError> {
        self.pool.open(&self.keys, number, aad, text, tag)
    }

    #[inline]
    pub(super) fn expect_from(&mut self, number: u64) {
        self.expected = number;
        self.pool.expect_from(number);
    }

    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        self.pool.idle(budget)
    }

    pub(super) fn set_reach(&mut self, octets: usize) {
        self.reach = octets;
        self.pool.set_reach(octets);
    }
}

//! The pools of a direction. The cipher is matched once per record, here.

use alloc::boxed::Box;

use antedate_aead::{
    Aes128Ccm, Aes128Ccm8, Aes128Gcm, Aes256Ccm, Aes256Ccm8, Aes256Gcm, AuthenticationError,
    ChaCha20Poly1305, Key, OpenPool, SealPool, Suite,
};

use super::keys::{DirectionKeys, NonceRule, Numbers};
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
type Sealing<S> = Box<SealPool<S, Numbers, SLOTS, PREPARED_LEN>>;
type Opening<S> = Box<OpenPool<S, Rule, SLOTS, PREPARED_LEN>>;

macro_rules! pools {
    ($($name:ident)*) => {
        /// A sealing pool.
        pub(super) enum Seal { $( $name(Sealing<$name>), )* }

        /// An opening pool.
        pub(super) enum Open { $( $name(Opening<$name>), )* }

        impl Seal {
            pub(super) fn new(keys: &DirectionKeys, epoch: u16, first: u64) -> Option<Self> {
                let numbers = Numbers::new(keys.rule(), epoch, first);
                Some(match keys.aead() {
                    $( Aead::$name => Self::$name(Box::new(SealPool::new(Key::new(keys.key()).ok()?, numbers))), )*
                })
            }

            /// Seals the next record. Passes its number to `aad`, which lays out the record in
            /// place and returns its additional data; then encrypts `text` in place and writes the
            /// tag.
            #[inline]
            pub(super) fn seal(
                &mut self,
                text: &mut [u8],
                tag: &mut [u8],
                aad: impl FnOnce(u64) -> antedate_wire::dtls::Aad,
            ) -> Result<u64, ExhaustedError> {
                match self { $( Self::$name(pool) => seal(pool, text, tag, aad), )* }
            }

            #[inline]
            pub(super) fn idle(&mut self, budget: u32) -> u32 {
                match self { $( Self::$name(pool) => pool.idle(budget), )* }
            }

            pub(super) fn prepared(&self) -> usize {
                match self { $( Self::$name(pool) => pool.prepared(), )* }
            }

            pub(super) fn set_reach(&mut self, octets: usize) {
                match self { $( Self::$name(pool) => pool.set_reach(octets), )* }
            }
        }

        impl Open {
            pub(super) fn new(keys: &DirectionKeys) -> Option<Self> {
                Some(match keys.aead() {
                    $( Aead::$name => Self::$name(Box::new(OpenPool::new(Key::new(keys.key()).ok()?, by(keys.rule())))), )*
                })
            }

            #[inline]
            pub(super) fn open(&mut self, number: u64, aad: &[u8], text: &mut [u8], tag: &[u8]) -> Result<(), AuthenticationError> {
                match self { $( Self::$name(pool) => open(pool, number, aad, text, tag), )* }
            }

            #[inline]
            pub(super) fn expect_from(&mut self, number: u64) {
                match self { $( Self::$name(pool) => pool.expect_from(number), )* }
            }

            #[inline]
            pub(super) fn idle(&mut self, budget: u32) -> u32 {
                match self { $( Self::$name(pool) => pool.idle(budget), )* }
            }

            pub(super) fn set_reach(&mut self, octets: usize) {
                match self { $( Self::$name(pool) => pool.set_reach(octets), )* }
            }
        }
    };
}

pools!(Aes128Ccm8 Aes128Ccm Aes256Ccm8 Aes256Ccm Aes128Gcm Aes256Gcm ChaCha20Poly1305);

fn by(rule: NonceRule) -> Rule {
    Box::new(move |number| rule.nonce(number))
}

#[inline]
fn seal<S: Suite<NonceBytes = [u8; 12]>>(
    pool: &mut SealPool<S, Numbers, SLOTS, PREPARED_LEN>,
    text: &mut [u8],
    tag: &mut [u8],
    aad: impl FnOnce(u64) -> antedate_wire::dtls::Aad,
) -> Result<u64, ExhaustedError> {
    let prepared = pool.next()?;
    let number = prepared.number();
    let aad = aad(number);
    tag.copy_from_slice(prepared.seal_in_place(aad.as_slice(), text).as_bytes().as_ref());
    Ok(number)
}

#[inline]
fn open<S: Suite<NonceBytes = [u8; 12]>>(
    pool: &mut OpenPool<S, Rule, SLOTS, PREPARED_LEN>,
    number: u64,
    aad: &[u8],
    text: &mut [u8],
    tag: &[u8],
) -> Result<(), AuthenticationError>
where
    for<'a> &'a S::TagBytes: TryFrom<&'a [u8]>,
{
    let tag = tag.try_into().map_err(|_| AuthenticationError)?;
    pool.open_in_place(number, aad, text, tag)
}

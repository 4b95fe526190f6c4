//! The engine as a contender: unprepared, prepared with all bytes new, and prepared for a template
//! or a front.

use crate::meter::TURN;
use crate::packet::{AAD, Cipher, NonceBytes, key};
use antedate_aead::{Key, Nonce, NonceSequence, Suite};
use std::convert::Infallible;

mod all_new;
mod front;
mod template;

pub use all_new::{AllNew, AllNewOpen, Prepare};
pub use front::{Ends, EndsOpen, PrepareFront};
pub use template::{Holes, HolesOpen, PrepareTemplate};

/// Our name in the tables.
pub const WHO: &str = "antedate";
/// Payload bytes of a slot.
const CAP: usize = 1536;

/// Nonces in order, starting at number 1.
#[derive(Default)]
pub struct Counter(u64);

impl<B: NonceBytes> NonceSequence<B> for Counter {
    type Error = Infallible;

    #[inline]
    fn next(&mut self) -> Result<(u64, Nonce<B>), Infallible> {
        self.0 += 1;
        Ok((self.0, Nonce::assume_unique(B::of(self.0))))
    }
}

fn new_key<S: Suite>() -> Key<S> {
    Key::new(&key::<64>()[..S::KEY_LEN]).expect("the key is of the suite's length")
}

/// The numbers of a turn, for opening.
fn numbers() -> impl Iterator<Item = u64> {
    1..=TURN as u64
}

/// The key alone, without preparations.
pub struct Plain<S: Suite>(Box<Key<S>>);

impl<S: Suite> Plain<S> {
    /// With the key common to all contenders.
    pub fn new() -> Self {
        Self(Box::new(new_key()))
    }
}

impl<S, const N: usize, const T: usize> Cipher<N, T> for Plain<S>
where
    S: Suite<NonceBytes = [u8; N], TagBytes = [u8; T]>,
{
    #[inline]
    fn seal(&mut self, nonce: &[u8; N], buffer: &mut [u8]) -> [u8; T] {
        *self.0.seal_in_place(Nonce::assume_unique(*nonce), &AAD, buffer).as_bytes()
    }

    #[inline]
    fn open(&mut self, nonce: &[u8; N], buffer: &mut [u8], tag: &[u8; T]) -> bool {
        self.0.open_in_place(*nonce, &AAD, buffer, tag).is_ok()
    }
}

//! Counter mode (NIST SP 800-38A section 6.5) with one key stream across packets (Hiller et al.
//! 2018, section IV-A2): a short packet wastes no prepared block.
//!
//! Counter mode does not authenticate. It serves protocols with a check of their own, and
//! comparisons.

use crate::{Backend, BlockCipher, KeyLengthError, bytes::wipe};
use core::fmt;

/// A packet's position in the key stream: its counter block, which is sent with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CounterBlock(pub [u8; 16]);

impl CounterBlock {
    const fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    const fn new(number: u128) -> Self {
        Self(number.to_be_bytes())
    }
}

/// The key stream is at its end: the packet needs more blocks than are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEndedError {
    /// Blocks that the packet needs.
    pub needed: usize,
    /// Blocks that are left.
    pub left: u64,
}

impl fmt::Display for StreamEndedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the packet needs {} blocks of cipherstream, but {} are left under this key",
            self.needed, self.left
        )
    }
}

impl core::error::Error for StreamEndedError {}

/// A key stream with up to `CAP` prepared blocks of 16 bytes. Each block is used once: encrypting
/// advances the stream, which can't go back and can't be cloned.
///
/// ```
/// use antedate_aead::{Aes128, unauthenticated::{CounterBlock, CtrStream}};
///
/// let first = CounterBlock([0; 16]);
/// let mut sending = CtrStream::<Aes128, 16>::new(b"sixteen byte key", first, 1 << 32)?;
/// let mut receiving = CtrStream::<Aes128, 16>::new(b"sixteen byte key", first, 1 << 32)?;
/// sending.idle(100);
/// receiving.idle(100);
///
/// let mut packet = *b"21.5 deg";
/// let begins = sending.encrypt(&mut packet)?;
/// receiving.decrypt(begins, &mut packet)?;
/// assert_eq!(&packet, b"21.5 deg");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # use antedate_aead::{Aes128, unauthenticated::CtrStream};
/// fn double(stream: CtrStream<Aes128, 64>) {
///     let again = stream.clone(); // the same key stream twice
/// }
/// ```
pub struct CtrStream<C: BlockCipher, const CAP: usize> {
    cipher: C,
    /// A ring of blocks; the block of counter `next` is at `head`.
    stream: [[u8; 16]; CAP],
    head: usize,
    /// Prepared blocks from `head` on.
    ready: usize,
    next: u128,
    end: u128,
}

impl<C: BlockCipher, const CAP: usize> CtrStream<C, CAP> {
    /// A stream of `blocks` blocks under a key, beginning at a counter block. Streams under one key
    /// must not share counter blocks.
    pub fn new(key: &[u8], first: CounterBlock, blocks: u64) -> Result<Self, KeyLengthError> {
        Self::with_backend(key, first, blocks, Backend::detect())
    }

    /// As `new`, for a given backend, for tests.
    #[doc(hidden)]
    pub fn with_backend(
        key: &[u8],
        first: CounterBlock,
        blocks: u64,
        backend: Backend,
    ) -> Result<Self, KeyLengthError> {
        const { assert!(CAP > 0, "a stream has room for a block at least") };
        if key.len() != C::KEY_LEN {
            return Err(KeyLengthError { suite: "ctr", expected: C::KEY_LEN, given: key.len() });
        }
        let next = first.number();
        Ok(Self {
            cipher: C::select(key, backend.min(Backend::detect())),
            stream: [[0; 16]; CAP],
            head: 0,
            ready: 0,
            next,
            // Counters never wrap: the stream ends before.
            end: next.saturating_add(blocks.into()),
        })
    }

    /// Makes at most `budget` units of key stream (one block, or as many as the cipher does at
    /// once) and returns the units made. Less than `budget` means that nothing is left to do.
    pub fn idle(&mut self, budget: u32) -> u32 {
        let mut done = 0;
        while done < budget {
            let free = (CAP - self.ready).min(self.blocks_left() - self.ready);
            let from = (self.head + self.ready) % CAP;
            let count = free.min(C::UNIT / 16).min(CAP - from);
            if count == 0 {
                break;
            }
            let counter = self.next + self.ready as u128;
            let blocks = &mut self.stream[from..from + count];
            for (i, block) in blocks.iter_mut().enumerate() {
                *block = (counter + i as u128).to_be_bytes();
            }
            self.cipher.encrypt_all(blocks);
            self.ready += count;
            done += 1;
        }
        done
    }

    /// Bytes of key stream that are prepared.
    pub const fn ready(&self) -> usize {
        16 * self.ready
    }

    /// The counter block of the next packet.
    pub const fn position(&self) -> CounterBlock {
        CounterBlock::new(self.next)
    }

    /// Encrypts a packet in place and returns its counter block. The next packet begins with the
    /// block after this packet's last one. Blocks that are not prepared are made now.
    ///
    /// # Errors
    /// If too few blocks are left.
    pub fn encrypt(&mut self, data: &mut [u8]) -> Result<CounterBlock, StreamEndedError> {
        let needed = data.len().div_ceil(16);
        let left = self.blocks_left();
        if needed > left {
            return Err(StreamEndedError { needed, left: left as u64 });
        }
        let begins = self.position();
        for chunk in data.chunks_mut(16) {
            let mut made = self.next.to_be_bytes();
            let block = if self.ready > 0 {
                &mut self.stream[self.head]
            } else {
                self.cipher.encrypt(&mut made);
                &mut made
            };
            for (byte, pad) in chunk.iter_mut().zip(block.iter()) {
                *byte ^= pad;
            }
            wipe(block);
            self.next += 1;
            if self.ready > 0 {
                self.ready -= 1;
                self.head = if self.head + 1 == CAP { 0 } else { self.head + 1 };
            }
        }
        Ok(begins)
    }

    /// Decrypts a packet with this counter block in place, and advances the stream. The key stream
    /// of lost packets is dropped.
    ///
    /// # Errors
    /// If the packet is before the stream's position or after its end. Packet and stream stay
    /// unchanged.
    pub fn decrypt(&mut self, begins: CounterBlock, data: &mut [u8]) -> Result<(), OutOfStreamError> {
        let begins = begins.number();
        let Some(skipped) = begins.checked_sub(self.next) else { return Err(OutOfStreamError) };
        if begins > self.end || (data.len().div_ceil(16) as u128) > self.end - begins {
            return Err(OutOfStreamError);
        }
        let lost = usize::try_from(skipped).unwrap_or(usize::MAX).min(self.ready);
        for _ in 0..lost {
            wipe(&mut self.stream[self.head]);
            self.head = (self.head + 1) % CAP;
        }
        self.ready -= lost;
        self.next = begins;
        self.encrypt(data).map(|_| ()).map_err(|_| OutOfStreamError)
    }

    fn blocks_left(&self) -> usize {
        usize::try_from(self.end - self.next).unwrap_or(usize::MAX)
    }
}

/// A packet's counter block is outside the remaining key stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfStreamError;

impl fmt::Display for OutOfStreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the packet's counter block is not of the cipherstream to come")
    }
}

impl core::error::Error for OutOfStreamError {}

impl<C: BlockCipher, const CAP: usize> Drop for CtrStream<C, CAP> {
    fn drop(&mut self) {
        wipe(self.stream.as_flattened_mut());
    }
}

impl<C: BlockCipher, const CAP: usize> fmt::Debug for CtrStream<C, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CtrStream({} of {CAP} blocks prepared)", self.ready)
    }
}

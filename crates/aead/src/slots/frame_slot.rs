//! A frame of a slotted link under CCM\* (IEEE 802.15.4-2015 annex B), prepared as far as its
//! octets are known.
//!
//! Unlike a [`FrontSlot`](crate::FrontSlot), it stays without a handle between two idle times, and
//! the unknown octets may begin anywhere, in the associated data too: acknowledgments have no
//! payload, and at security levels 1 to 3 a frame is associated data only. It owns its nonce until
//! it is sealed, opened, wiped or dropped.

use crate::{
    AesCcm, AuthenticationError, BlockCipher, Key, Nonce,
    backend::blocks::xor_in,
    bytes::{Bytes, wipe},
};
use core::fmt;

const NONCE: usize = 13;

/// The known octets and lengths of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'t> {
    /// Bytes of the MIC: 4, 8 or 16.
    pub mic: usize,
    /// Leading bytes that are authenticated only; `None` if all are.
    pub open: Option<usize>,
    /// The first bytes of the frame.
    pub known: &'t [u8],
    /// Lengths that the frame may have, without its MIC.
    pub lengths: &'t [usize],
}

/// A frame was not prepared or sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The MIC's length is not 4, 8 or 16, the open part is empty or longer than the frame, or
    /// there are too many lengths for the slot.
    Shape,
    /// The frame, or its known part, is longer than the slot or the output.
    TooLong,
    /// The slot has no nonce: it was used.
    Spent,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shape => "no frame has this shape",
            Self::TooLong => "the frame is too long",
            Self::Spent => "the nonce of the slot was used",
        })
    }
}

impl core::error::Error for FrameError {}

/// An unfinished CBC-MAC, in the cipher's own form.
#[derive(Clone, Copy)]
struct Chain {
    block: [u8; 16],
    /// Bytes in the block. A full block is encrypted when more bytes come, or at the end.
    held: u8,
    /// Bytes of the frame that were absorbed.
    taken: u16,
    begun: bool,
}

impl Chain {
    const NEW: Self = Self { block: [0; 16], held: 0, taken: 0, begun: false };

    fn begin<A: BlockCipher>(
        &mut self,
        aes: &A,
        nonce: &[u8; NONCE],
        mic: usize,
        open: usize,
        payload: usize,
    ) {
        let mut block = [0; 16];
        // Flags: associated data, the MIC's length, a length field of two bytes (RFC 3610 section
        // 2.2).
        block[0] = 0x40 | ((mic.wrapping_sub(2) / 2) << 3) as u8 | 1;
        block[1..14].copy_from_slice(nonce);
        block[14..].copy_from_slice(&(payload as u16).to_be_bytes());
        aes.fold(&mut block);
        aes.advance(&mut block);
        for (byte, len) in block.iter_mut().zip((open as u16).to_be_bytes()) {
            *byte ^= len;
        }
        *self = Self { block, held: 2, taken: 0, begun: true };
    }

    /// Absorbs bytes up to the end of a block, and returns their number.
    fn absorb<A: BlockCipher>(&mut self, aes: &A, bytes: &[u8]) -> usize {
        if self.held == 16 {
            aes.advance(&mut self.block);
            self.held = 0;
        }
        let held = usize::from(self.held);
        let taken = match bytes.first_chunk::<16>() {
            Some(whole) if held == 0 => {
                xor_in(&mut self.block, whole);
                16
            }
            _ => {
                let room = &mut self.block[held..];
                let taken = room.len().min(bytes.len());
                for (byte, new) in room.iter_mut().zip(bytes) {
                    *byte ^= new;
                }
                taken
            }
        };
        self.held += taken as u8;
        self.taken += taken as u16;
        taken
    }

    /// Absorbs all bytes; the open part is padded to a whole block.
    fn absorb_all<A: BlockCipher>(&mut self, aes: &A, mut bytes: &[u8], open: usize) {
        while !bytes.is_empty() {
            let before = usize::from(self.taken);
            let end = if before < open { bytes.len().min(open - before) } else { bytes.len() };
            let (now, _) = bytes.split_at(end);
            let taken = self.absorb(aes, now);
            if usize::from(self.taken) == open {
                self.held = 16;
            }
            bytes = &bytes[taken..];
        }
    }
}

/// Memory for one frame with up to `CAP` known bytes and `LENGTHS` possible lengths. Up to `STREAM`
/// bytes (a multiple of 16) may be encrypted. A frame to seal has at most `CAP` bytes with its MIC.
pub struct FrameSlot<const CAP: usize, const STREAM: usize, const LENGTHS: usize> {
    known: [u8; CAP],
    stream: [u8; STREAM],
    mask: [u8; 16],
    chains: [Chain; LENGTHS],
    lengths: [u16; LENGTHS],
    nonce: [u8; NONCE],
    mic: u8,
    /// Unencrypted leading bytes; `OPEN` if all are.
    open: u16,
    known_len: u16,
    stream_ready: u16,
    masked: bool,
    named: bool,
    /// The whole frame was known: it is sealed in `known`, and its MIC is in `mask`.
    sealed: bool,
    /// The slot holds data that must be wiped.
    used: bool,
}

const OPEN: u16 = u16::MAX;

impl<const CAP: usize, const STREAM: usize, const LENGTHS: usize> FrameSlot<CAP, STREAM, LENGTHS> {
    /// An empty slot.
    pub const fn new() -> Self {
        const { assert!(STREAM.is_multiple_of(16) && LENGTHS > 0 && CAP < 0xff00) };
        Self {
            known: [0; CAP],
            stream: [0; STREAM],
            mask: [0; 16],
            chains: [Chain::NEW; LENGTHS],
            lengths: [0; LENGTHS],
            nonce: [0; NONCE],
            mic: 0,
            open: OPEN,
            known_len: 0,
            stream_ready: 0,
            masked: false,
            named: false,
            sealed: false,
            used: false,
        }
    }

    /// Begins to prepare a frame, and replaces the slot's content.
    pub fn begin(&mut self, nonce: Nonce<[u8; NONCE]>, shape: &Shape<'_>) -> Result<(), FrameError> {
        let Shape { mic, open, known, lengths } = *shape;
        let longest = lengths.iter().copied().max().unwrap_or(known.len()).max(known.len());
        let many = longest > usize::from(OPEN);
        let least = open.unwrap_or(1).max(known.len());
        if !matches!(mic, 4 | 8 | 16) || lengths.len() > LENGTHS || open == Some(0) {
            return Err(FrameError::Shape);
        }
        // A longer open part would not fit the 16 bits of `open`.
        if lengths.iter().any(|len| *len < least) || open.is_some_and(|open| open > CAP) {
            return Err(FrameError::Shape);
        }
        if many || known.len() > CAP || open.is_some_and(|open| longest.saturating_sub(open) > STREAM) {
            return Err(FrameError::TooLong);
        }
        self.wipe();
        self.nonce = nonce.0;
        self.known[..known.len()].copy_from_slice(known);
        for (to, from) in self.lengths.iter_mut().zip(lengths) {
            *to = *from as u16;
        }
        self.mic = mic as u8;
        self.open = open.map_or(OPEN, |open| open as u16);
        self.known_len = known.len() as u16;
        (self.named, self.used) = (true, true);
        Ok(())
    }

    /// Whether the slot has no frame.
    pub const fn is_empty(&self) -> bool {
        !self.named
    }

    /// Whether the frame has this nonce, MIC length and open part.
    pub fn is_for(&self, nonce: &[u8; NONCE], mic: usize, open: Option<usize>) -> bool {
        let same = open.map_or(OPEN, |open| open as u16) == self.open && mic == usize::from(self.mic);
        self.named && same && self.nonce == *nonce
    }

    /// Number of the frame's known bytes.
    pub const fn known_len(&self) -> usize {
        self.known_len as usize
    }

    /// Whether these are the known bytes. Compares in constant time.
    pub fn begins_as(&self, front: &[u8]) -> bool {
        let open = self.open_len(front.len()).min(front.len());
        let mut difference = u8::from(front.len() != self.known_len());
        let stream = core::iter::repeat_n(&0, open).chain(if self.sealed { &self.stream[..] } else { &[] });
        let stream = stream.chain(core::iter::repeat(&0));
        for ((known, stream), byte) in self.known.iter().zip(stream).zip(front) {
            difference |= known ^ stream ^ byte;
        }
        core::hint::black_box(difference) == 0
    }

    /// Whether nothing is left to open this frame (without its MIC) but its unknown bytes: it begins as
    /// known, and its length is prepared. The known bytes of a frame to open are public.
    pub fn foresees(&self, frame: &[u8]) -> bool {
        let known = usize::from(self.known_len);
        let len = frame.len();
        let at = self.lengths.iter().position(|of| usize::from(*of) == len);
        let chain = at.and_then(|at| self.chains.get(at));
        let ready = chain.is_some_and(|chain| chain.begun && usize::from(chain.taken) == known);
        let private = len - self.open_len(len).min(len);
        let stream = self.open == OPEN || usize::from(self.stream_ready) >= private;
        let waits = self.named && !self.sealed && self.masked;
        waits && ready && stream && frame.starts_with(&self.known[..known])
    }

    fn open_len(&self, len: usize) -> usize {
        if self.open == OPEN { len } else { usize::from(self.open) }
    }

    /// Continues the preparation by at most `budget` block encryptions, and returns their number: 0
    /// when all is ready.
    pub fn step<A: BlockCipher, const TAG: usize>(
        &mut self,
        key: &Key<AesCcm<A, NONCE, TAG>>,
        budget: u32,
    ) -> u32 {
        let aes = &key.inner;
        let mut left = budget;
        if !self.named || self.sealed {
            return 0;
        }
        if left > 0 && !self.masked {
            self.make_mask(aes);
            left -= 1;
        }
        let count = self.lengths.iter().take_while(|len| **len > 0).count();
        let longest = self.lengths.iter().copied().max().map_or(0, usize::from);
        for i in 0..count {
            let len = usize::from(self.lengths[i]);
            let open = self.open_len(len);
            let known = usize::from(self.known_len);
            let chain = &mut self.chains[i];
            if left > 0 && !chain.begun {
                chain.begin(aes, &self.nonce, usize::from(self.mic), open, len - open);
                left -= 1;
            }
            while left > 0 && chain.begun && usize::from(chain.taken) < known {
                let at = usize::from(chain.taken);
                let end = if at < open { known.min(open) } else { known };
                let fills = chain.held == 16;
                chain.absorb(aes, &self.known[at..end]);
                if usize::from(chain.taken) == open {
                    chain.held = 16;
                }
                left -= u32::from(fills);
            }
            // The key stream comes before the chains of other lengths: every frame needs it.
            if i == 0 && self.open != OPEN {
                let wanted = longest - usize::from(self.open);
                while left > 0 && usize::from(self.stream_ready) < wanted {
                    self.make_stream(aes);
                    left -= 1;
                }
            }
        }
        budget - left
    }

    /// Seals a frame whose bytes are all known. Returns the encryptions done: 0 if a byte is
    /// unknown or the preparation is unfinished.
    pub fn complete<A: BlockCipher, const TAG: usize>(&mut self, key: &Key<AesCcm<A, NONCE, TAG>>) -> u32 {
        let len = usize::from(self.known_len);
        let open = self.open_len(len).min(len);
        let only =
            self.lengths.iter().filter(|of| **of > 0).count() == 1 && usize::from(self.lengths[0]) == len;
        let chain = self.chains[0];
        let ready =
            self.masked && usize::from(chain.taken) == len && usize::from(self.stream_ready) >= len - open;
        if !self.named || self.sealed || !only || !ready {
            return 0;
        }
        let mut mic = [0; 16];
        self.finish(&key.inner, &chain, &mut mic[..usize::from(self.mic)]);
        xor(&mut self.known[open..len], &self.stream);
        self.mask = mic;
        self.sealed = true;
        1
    }

    fn make_mask<A: BlockCipher>(&mut self, aes: &A) {
        self.mask = counter(&self.nonce, 0);
        aes.encrypt(&mut self.mask);
        aes.fold_mask(&mut self.mask);
        self.masked = true;
    }

    fn make_stream<A: BlockCipher>(&mut self, aes: &A) {
        let at = usize::from(self.stream_ready);
        let mut block = counter(&self.nonce, (at / 16 + 1) as u16);
        aes.encrypt(&mut block);
        if let Some(place) = self.stream.get_mut(at..at + 16) {
            place.copy_from_slice(&block);
        }
        wipe(&mut block);
        self.stream_ready += 16;
    }

    /// The chain for a frame of `len` bytes; computed from the start if it was not prepared.
    fn chain<A: BlockCipher>(&self, aes: &A, len: usize) -> Chain {
        let at = self.lengths.iter().position(|of| usize::from(*of) == len);
        let mut chain = at.map_or(Chain::NEW, |at| self.chains[at]);
        let open = self.open_len(len);
        if !chain.begun {
            chain.begin(aes, &self.nonce, usize::from(self.mic), open, len - open);
        }
        let from = usize::from(chain.taken);
        chain.absorb_all(aes, &self.known[from..usize::from(self.known_len)], open);
        chain
    }

    fn finish<A: BlockCipher>(&self, aes: &A, chain: &Chain, mic: &mut [u8]) {
        match self.mic {
            4 => finish::<A, 4>(aes, &chain.block, &self.mask, mic),
            8 => finish::<A, 8>(aes, &chain.block, &self.mask, mic),
            _ => finish::<A, 16>(aes, &chain.block, &self.mask, mic),
        }
    }

    /// Seals the frame, which continues with `rest`: writes it with its MIC into `out` and returns
    /// the length. Completes an unfinished preparation. The nonce is used up; call
    /// [`wipe`](Self::wipe) afterwards.
    pub fn seal<A: BlockCipher, const TAG: usize>(
        &mut self,
        key: &Key<AesCcm<A, NONCE, TAG>>,
        rest: &[u8],
        out: &mut [u8],
    ) -> Result<usize, FrameError> {
        if !self.named {
            return Err(FrameError::Spent);
        }
        let len = self.known_len() + rest.len() + usize::from(self.mic);
        let out = out.get_mut(..len).ok_or(FrameError::TooLong)?;
        self.seal_in_place(key, rest)?;
        out.copy_from_slice(self.frame());
        Ok(len)
    }

    /// The frame that [`seal_in_place`](Self::seal_in_place) sealed.
    pub fn frame(&self) -> &[u8] {
        if self.named { &[] } else { &self.known[..usize::from(self.known_len)] }
    }

    /// Seals the frame, which continues with `rest`, in the slot ([`frame`](Self::frame)). With its MIC
    /// it has at most `CAP` bytes. Completes an unfinished preparation. The nonce is used up; call
    /// [`wipe`](Self::wipe) once the frame is on its way.
    pub fn seal_in_place<A: BlockCipher, const TAG: usize>(
        &mut self,
        key: &Key<AesCcm<A, NONCE, TAG>>,
        rest: &[u8],
    ) -> Result<(), FrameError> {
        if !self.named {
            return Err(FrameError::Spent);
        }
        let aes = &key.inner;
        let (known, len) = (usize::from(self.known_len), usize::from(self.known_len) + rest.len());
        let open = self.open_len(len);
        let mic = usize::from(self.mic);
        if len + mic > CAP || len - open.min(len) > STREAM {
            return Err(FrameError::TooLong);
        }
        if open > len || open == 0 {
            return Err(FrameError::Shape);
        }
        if self.sealed && !rest.is_empty() {
            // The frame continues although `complete` sealed it. It has not left the slot, so the
            // encryption is undone.
            let known_open = open.min(known);
            xor(&mut self.known[known_open..known], &self.stream);
            (self.sealed, self.masked) = (false, false);
        }
        let mut tag = [0; 16];
        let tag = &mut tag[..mic];
        if self.sealed {
            tag.copy_from_slice(&self.mask[..mic]);
            self.known[len..len + mic].copy_from_slice(tag);
            (self.named, self.known_len) = (false, (len + mic) as u16);
            return Ok(());
        }
        let mut chain = self.chain(aes, len);
        chain.absorb_all(aes, rest, open);
        while self.open != OPEN && usize::from(self.stream_ready) < len - open {
            self.make_stream(aes);
        }
        if !self.masked {
            self.make_mask(aes);
        }
        self.finish(aes, &chain, tag);
        self.known[known..len].copy_from_slice(rest);
        xor(&mut self.known[open..len], &self.stream);
        self.known[len..len + mic].copy_from_slice(tag);
        (self.named, self.known_len) = (false, (len + mic) as u16);
        Ok(())
    }

    /// Opens a received frame (without its MIC) into `out`, which has its length, from the matching
    /// part of the preparation. Call [`wipe`](Self::wipe) afterwards. A forgery leaves the
    /// preparation unchanged and zeros in `out`.
    pub fn open<A: BlockCipher, const TAG: usize>(
        &mut self,
        key: &Key<AesCcm<A, NONCE, TAG>>,
        frame: &[u8],
        mic: &[u8],
        out: &mut [u8],
    ) -> Result<(), AuthenticationError> {
        if out.len() != frame.len() {
            return Err(AuthenticationError);
        }
        out.copy_from_slice(frame);
        self.open_in_place(key, out, mic)
    }

    /// As [`open`](Self::open), in place. Any error leaves zeros in `frame`.
    pub fn open_in_place<A: BlockCipher, const TAG: usize>(
        &mut self,
        key: &Key<AesCcm<A, NONCE, TAG>>,
        frame: &mut [u8],
        mic: &[u8],
    ) -> Result<(), AuthenticationError> {
        let opened = self.decrypt_and_verify(&key.inner, frame, mic);
        if opened.is_err() {
            wipe(frame);
        }
        opened
    }

    fn decrypt_and_verify<A: BlockCipher>(
        &mut self,
        aes: &A,
        frame: &mut [u8],
        mic: &[u8],
    ) -> Result<(), AuthenticationError> {
        let open = self.open_len(frame.len());
        let private = frame.len().checked_sub(open).ok_or(AuthenticationError)?;
        let fits = self.named && mic.len() == usize::from(self.mic);
        if !fits || self.sealed || open == 0 || private > STREAM {
            return Err(AuthenticationError);
        }
        if !self.masked {
            self.make_mask(aes);
        }
        while self.open != OPEN && usize::from(self.stream_ready) < private {
            self.make_stream(aes);
        }
        // The predicted bytes are the open part, which is public.
        let known = usize::from(self.known_len);
        let mut chain = if known <= open && frame.starts_with(&self.known[..known]) {
            self.chain(aes, frame.len())
        } else {
            let mut chain = Chain::NEW;
            chain.begin(aes, &self.nonce, usize::from(self.mic), open, private);
            chain
        };
        xor(&mut frame[open..], &self.stream);
        let from = usize::from(chain.taken);
        chain.absorb_all(aes, &frame[from..], open);
        let mut expected = [0; 16];
        self.finish(aes, &chain, &mut expected[..usize::from(self.mic)]);
        let mut received = [0; 16];
        received[..mic.len()].copy_from_slice(mic);
        if !expected.same(&received) {
            return Err(AuthenticationError);
        }
        self.named = false;
        Ok(())
    }

    /// Wipes the frame and its preparation; the nonce is burnt. Call it after sealing or opening,
    /// once the frame is on its way; the next frame or dropping wipes at the latest.
    pub fn wipe(&mut self) {
        if self.used {
            wipe(&mut self.known);
            wipe(&mut self.stream);
            wipe(&mut self.mask);
            for chain in &mut self.chains {
                wipe(&mut chain.block);
                *chain = Chain::NEW;
            }
            self.lengths = [0; LENGTHS];
            (self.known_len, self.stream_ready, self.masked) = (0, 0, false);
            (self.named, self.sealed, self.used) = (false, false, false);
        }
    }
}

fn counter(nonce: &[u8; NONCE], number: u16) -> [u8; 16] {
    let mut block = [0; 16];
    block[0] = 1;
    block[1..14].copy_from_slice(nonce);
    block[14..].copy_from_slice(&number.to_be_bytes());
    block
}

fn xor(data: &mut [u8], with: &[u8]) {
    let (blocks, rest) = data.as_chunks_mut::<16>();
    let (others, last) = with.split_at(with.len().min(16 * blocks.len()));
    for (block, other) in blocks.iter_mut().zip(others.as_chunks::<16>().0) {
        xor_in(block, other);
    }
    for (byte, other) in rest.iter_mut().zip(last) {
        *byte ^= other;
    }
}

fn finish<A: BlockCipher, const TAG: usize>(aes: &A, chain: &[u8; 16], mask: &[u8; 16], mic: &mut [u8]) {
    let mut tag = [0; TAG];
    aes.finish(chain, mask, &mut tag);
    mic.copy_from_slice(&tag);
}

impl<const CAP: usize, const STREAM: usize, const LENGTHS: usize> Default
    for FrameSlot<CAP, STREAM, LENGTHS>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<const CAP: usize, const STREAM: usize, const LENGTHS: usize> Drop for FrameSlot<CAP, STREAM, LENGTHS> {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl<const CAP: usize, const STREAM: usize, const LENGTHS: usize> fmt::Debug
    for FrameSlot<CAP, STREAM, LENGTHS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameSlot({} bytes known, {} of stream)", self.known_len, self.stream_ready)
    }
}

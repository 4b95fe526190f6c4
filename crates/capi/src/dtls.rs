//! Records of DTLS 1.2: the structs of `antedate_dtls.h`.
//!
//! A writer is a head, additional data and a sealer; a reader has an opener. The heads are plain
//! numbers in memory of C, so any of their values is checked before it is used. The additional data
//! of a front is borrowed by the context, so no reference to a head covers it.
#![allow(unsafe_code, reason = "writers and readers are memory of C")]

mod read;
mod write;

pub use read::*;
pub use write::*;

use crate::{Bytes, Code, Front, LENGTHS};
use antedate_wire::dtls::{Aad, ConnectionId, ContentType, Header, MAX_CID, VERSION_1_2};

/// The number of a record: epoch and sequence number.
const SEQUENCE: u64 = (1 << 48) - 1;

/// The cipher of a direction, by its number in `antedate.h`.
#[derive(Clone, Copy)]
struct Cipher {
    iv: usize,
    explicit: usize,
    tag: usize,
}

impl Cipher {
    /// `None` for a suite that DTLS does not have.
    fn of(suite: u8) -> Option<Self> {
        Some(match suite {
            // Salt and explicit nonce (RFC 6655, RFC 5288).
            1 => Self { iv: 4, explicit: 8, tag: 8 },
            2 | 3 | 16 | 17 => Self { iv: 4, explicit: 8, tag: 16 },
            // The number is combined with the IV (RFC 7905).
            18 => Self { iv: 12, explicit: 0, tag: 16 },
            _ => return None,
        })
    }

    /// Key exchange's IV as the initial value of a context.
    fn initial(self, iv: &[u8]) -> Result<[u8; 12], Code> {
        let mut initial = [0; 12];
        if iv.len() != self.iv {
            return Err(Code::NonceLength);
        }
        for (to, from) in initial.iter_mut().zip(iv) {
            *to = *from;
        }
        Ok(initial)
    }
}

/// The beginning of a writer or a reader.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Epoch and sequence number: of the next record to send, or one above the highest received.
    pub next: u64,
    /// Of the record in preparation.
    pub number: u64,
    /// Of a reader: bit `n` tells whether record `next - 1 - n` was received.
    pub window: u64,
    /// The suite.
    pub suite: u8,
    /// Octets of the connection ID.
    pub cid_len: u8,
    /// What is in preparation: 0 nothing, 1 any record, 2 one with a front.
    pub shape: u8,
    /// The content type of a front.
    pub content_type: u8,
    /// Octets of the front.
    pub front_len: u16,
    /// The epoch.
    pub epoch: u16,
    /// Not 0 when all numbers of the epoch are used.
    pub spent: u8,
    /// Zero.
    pub reserved: [u8; 7],
}

/// Octets of additional data behind a head.
const AAD: usize = Aad::MAX.next_multiple_of(8);
/// Octets before the sealer or the opener.
const BEFORE: usize = size_of::<Head>() + AAD;
const _: () = assert!(BEFORE == 12 * 8, "see antedate_dtls.h");
/// Place of the connection ID in the additional data (RFC 9146 section 5.3), also of a direction
/// without one.
const CID_AT: usize = 21;

const NOTHING: u8 = 0;
const ANY: u8 = 1;
const FRONT: u8 = 2;

/// A writer or a reader in memory of C.
struct Direction<'a> {
    head: &'a mut Head,
    aad: *mut u8,
    /// The sealer or the opener.
    context: *mut u64,
}

fn check(code: Code) -> Result<(), Code> {
    if code == Code::Ok { Ok(()) } else { Err(code) }
}

impl Head {
    fn new(suite: u32, number: u64, cid_len: usize) -> Result<Self, Code> {
        let suite = u8::try_from(suite).map_err(|_| Code::Suite)?;
        Cipher::of(suite).ok_or(Code::Suite)?;
        if cid_len > MAX_CID {
            return Err(Code::TooLong);
        }
        Ok(Self {
            next: number,
            number: 0,
            window: 0,
            suite,
            cid_len: cid_len as u8,
            shape: NOTHING,
            content_type: 0,
            front_len: 0,
            epoch: (number >> 48) as u16,
            spent: 0,
            reserved: [0; 7],
        })
    }

    /// The cipher; an error for a head that was never made.
    fn cipher(&self) -> Result<Cipher, Code> {
        Cipher::of(self.suite).ok_or(Code::State)
    }

    /// Octets that a connection ID adds to the plaintext: the inner content type.
    fn inner(&self) -> usize {
        usize::from(self.cid_len > 0)
    }

    /// The header of a record, with the type outside of its encryption.
    fn header(&self, content_type: u8, number: u64) -> Header {
        let outer = if self.cid_len == 0 { ContentType::from(content_type) } else { ContentType::Tls12Cid };
        Header { content_type: outer, version: VERSION_1_2, number }
    }

    /// Lengths of plaintext, with the inner content type.
    fn inner_lengths(&self, lengths: &[usize]) -> [usize; LENGTHS] {
        let mut inner = [0; LENGTHS];
        for (to, from) in inner.iter_mut().zip(lengths) {
            *to = from.saturating_add(self.inner());
        }
        inner
    }
}

impl Direction<'_> {
    /// # Safety
    /// Null, or memory of a writer or a reader that the caller alone uses.
    unsafe fn at(words: *mut u64) -> Result<Self, Code> {
        if words.is_null() || !words.is_aligned() {
            return Err(Code::Argument);
        }
        let at = |offset| words.wrapping_byte_add(offset);
        // SAFETY: guaranteed by the caller; a head is numbers, and any octets are such.
        let head = unsafe { &mut *words.cast::<Head>() };
        Ok(Self { head, aad: at(size_of::<Head>()).cast(), context: at(BEFORE) })
    }

    /// Makes head and additional data; `make` makes the context from its initial value.
    ///
    /// # Safety
    /// As for [`at`](Self::at), with memory of `bytes` bytes.
    unsafe fn make(
        words: *mut u64,
        bytes: usize,
        suite: u32,
        iv: &[u8],
        number: u64,
        cid: &[u8],
        make: impl FnOnce(*mut u64, usize, Bytes) -> Code,
    ) -> Result<(), Code> {
        let head = Head::new(suite, number, cid.len())?;
        let initial = head.cipher()?.initial(iv)?;
        let room = bytes.checked_sub(BEFORE).ok_or(Code::Size)?;
        // SAFETY: guaranteed by the caller; the memory has the additional data.
        unsafe {
            let this = Self::at(words)?;
            check(make(this.context, room, Bytes { data: initial.as_ptr(), len: initial.len() }))?;
            *this.head = head;
            this.aad.write_bytes(0, AAD);
            this.aad.wrapping_add(CID_AT).copy_from(cid.as_ptr(), cid.len());
        }
        Ok(())
    }

    fn cid(&self) -> Result<ConnectionId, Code> {
        let len = usize::from(self.head.cid_len);
        if len > MAX_CID {
            return Err(Code::State);
        }
        // SAFETY: inside the additional data, which is read or written by one call at a time.
        let octets = unsafe { core::slice::from_raw_parts(self.aad.wrapping_add(CID_AT), len) };
        ConnectionId::new(octets).map_err(|_| Code::State)
    }

    /// The front of the record with the number of the head. Its additional data stays in place.
    ///
    /// # Safety
    /// Nothing is prepared: the additional data is not borrowed.
    unsafe fn front(&mut self, content_type: u8, payload: Bytes, lengths: &[usize]) -> Result<Front, Code> {
        let aad = Aad::new(&self.head.header(content_type, self.head.number), &self.cid()?, 0);
        let aad = aad.as_slice();
        // SAFETY: `AAD` octets are there, and not borrowed.
        unsafe { self.aad.copy_from(aad.as_ptr(), aad.len()) };
        Ok(Front {
            aad: Bytes { data: self.aad, len: aad.len() },
            payload,
            lengths: lengths.as_ptr(),
            length_count: lengths.len(),
            length_start: aad.len() - 2,
            length_end: aad.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additional_data_has_the_connection_id_in_place() {
        let mut words = [0u64; (BEFORE + 8) / 8];
        let (at, bytes) = (words.as_mut_ptr(), BEFORE + 8);
        // SAFETY: the memory is large enough, and no context is used.
        unsafe {
            Direction::make(at, bytes, 1, b"salt", 1 << 48, &[7; 20], |_, _, _| Code::Ok).unwrap();
            let mut direction = Direction::at(at).unwrap();
            let before = direction.cid().unwrap();
            direction.head.number = 1 << 48 | 5;
            let front = direction.front(23, Bytes { data: at.cast(), len: 0 }, &[]).unwrap();
            assert_eq!((front.aad.len, front.length_start), (43, 41));
            assert_eq!(direction.cid().unwrap(), before);
            let make =
                |bytes, suite, iv, cid| Direction::make(at, bytes, suite, iv, 0, cid, |_, _, _| Code::Ok);
            assert_eq!(make(bytes, 1, b"salt", &[7; 33]), Err(Code::TooLong));
            assert_eq!(make(bytes, 4, b"salt", &[]), Err(Code::Suite));
            assert_eq!(make(bytes, 18, b"salt", &[]), Err(Code::NonceLength));
            assert_eq!(make(BEFORE - 8, 1, b"salt", &[]), Err(Code::Size));
        }
    }
}

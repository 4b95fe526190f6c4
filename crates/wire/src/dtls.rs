//! DTLS 1.2 records (RFC 6347), with connection IDs (RFC 9146).
//!
//! ```text
//!   content type 1, version 2, epoch 2, sequence number 6, [connection ID n,] length 2, fragment
//! ```
//!
//! A datagram holds one or more records. A record of content type [`ContentType::Tls12Cid`] has a
//! connection ID. Its length is not in the record: the reader assigned the ID and knows it.
//!
//! [`Aad`] is the additional data of a protected record. The handshake's messages are in
//! [`handshake`].

pub mod handshake;

use core::fmt;

use crate::bytes::{array, at_least, be16, put16};
use crate::{Error, Result};

/// The version on the wire of DTLS 1.2.
pub const VERSION_1_2: u16 = 0xfefd;
/// The version on the wire of DTLS 1.0, permitted in the records of a first ClientHello (RFC 6347
/// section 4.2.1).
pub const VERSION_1_0: u16 = 0xfeff;
/// Octets of a record's header without a connection ID.
pub const HEADER_LEN: usize = 13;
/// Octets of the longest supported connection ID. The RFC permits 255.
pub const MAX_CID: usize = 32;
/// Octets of the longest plaintext (RFC 5246 section 6.2.1).
pub const MAX_PLAINTEXT: usize = 1 << 14;
/// Octets of the longest fragment of a record (RFC 5246 section 6.2.3).
pub const MAX_FRAGMENT: usize = MAX_PLAINTEXT + 2048;
/// One above the largest sequence number.
pub const SEQUENCE_END: u64 = 1 << 48;

wire_enum! {
    /// The content of a record.
    pub enum ContentType(u8) {
        /// the later records are protected (in DTLS their epoch shows it too)
        ChangeCipherSpec = 20,
        /// an alert
        Alert = 21,
        /// fragments of handshake messages
        Handshake = 22,
        /// application data
        ApplicationData = 23,
        /// any of these, encrypted, behind a connection ID (RFC 9146)
        Tls12Cid = 25,
    }
}

/// A connection ID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ConnectionId {
    octets: [u8; MAX_CID],
    len: u8,
}

impl ConnectionId {
    /// The empty connection ID; records with it have none.
    pub const EMPTY: Self = Self { octets: [0; MAX_CID], len: 0 };

    /// A connection ID. [`Error::Length`] for more than [`MAX_CID`] octets.
    pub fn new(octets: &[u8]) -> Result<Self> {
        let mut this = Self::EMPTY;
        this.octets.get_mut(..octets.len()).ok_or(Error::Length)?.copy_from_slice(octets);
        this.len = octets.len() as u8;
        Ok(this)
    }

    /// The octets.
    pub fn as_slice(&self) -> &[u8] {
        self.octets.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Number of octets.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no octets.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({})", crate::Hex(self.as_slice()))
    }
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// the content type in the header
    pub content_type: ContentType,
    /// the version
    pub version: u16,
    /// the epoch
    pub epoch: u16,
    /// the sequence number, of 48 bits
    pub sequence: u64,
    /// the connection ID; empty for other content types than [`ContentType::Tls12Cid`]
    pub cid: &'a [u8],
    /// the content, as on the wire
    pub fragment: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads the first record of `bytes` and returns it with the octets behind it. `cid_len` is the
    /// length of the reader's own connection ID.
    pub fn parse(bytes: &'a [u8], cid_len: usize) -> Result<(Self, &'a [u8])> {
        at_least(bytes, HEADER_LEN)?;
        let content_type = ContentType::from(bytes[0]);
        let version = be16(bytes, 1);
        if version != VERSION_1_2 && version != VERSION_1_0 {
            return Err(Error::Value);
        }
        let cid_len = if content_type == ContentType::Tls12Cid { cid_len } else { 0 };
        at_least(bytes, HEADER_LEN + cid_len)?;
        let len = usize::from(be16(bytes, HEADER_LEN - 2 + cid_len));
        let (header, rest) = bytes.split_at(HEADER_LEN + cid_len);
        if len > MAX_FRAGMENT || len > rest.len() {
            return Err(Error::Length);
        }
        let (fragment, rest) = rest.split_at(len);
        let number = u64::from_be_bytes(array(header, 3));
        let (epoch, sequence) = ((number >> 48) as u16, number % SEQUENCE_END);
        let cid = &header[HEADER_LEN - 2..HEADER_LEN - 2 + cid_len];
        Ok((Self { content_type, version, epoch, sequence, cid, fragment }, rest))
    }

    /// Epoch and sequence number as one number, as on the wire.
    pub const fn number(&self) -> u64 {
        (self.epoch as u64) << 48 | self.sequence
    }

    /// The header.
    pub const fn header(&self) -> Header {
        Header { content_type: self.content_type, version: self.version, number: self.number() }
    }

    /// Octets of the whole record.
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.cid.len() + self.fragment.len()
    }

    /// Always false: a record has at least a header.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the record and returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize> {
        let at = self.header().emit(self.cid, self.fragment.len(), out)?;
        let end = at + self.fragment.len();
        out.get_mut(at..end).ok_or(Error::Truncated)?.copy_from_slice(self.fragment);
        Ok(end)
    }
}

/// A record's header without connection ID and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// the content type
    pub content_type: ContentType,
    /// the version
    pub version: u16,
    /// epoch and sequence number
    pub number: u64,
}

impl Header {
    /// Writes the header for a fragment of `len` octets and returns its length.
    #[inline]
    pub fn emit(&self, cid: &[u8], len: usize, out: &mut [u8]) -> Result<usize> {
        let end = HEADER_LEN + cid.len();
        if len > MAX_FRAGMENT {
            return Err(Error::Length);
        }
        let out = out.get_mut(..end).ok_or(Error::Truncated)?;
        out[0] = self.content_type.number();
        put16(out, 1, self.version);
        out[3..11].copy_from_slice(&self.number.to_be_bytes());
        out[11..11 + cid.len()].copy_from_slice(cid);
        put16(out, end - 2, len as u16);
        Ok(end)
    }
}

/// The records of a datagram, up to the first malformed one.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    cid_len: usize,
}

/// The records of a datagram. `cid_len` is the length of the reader's own connection ID.
pub const fn records(datagram: &[u8], cid_len: usize) -> Records<'_> {
    Records { rest: datagram, cid_len }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let parsed = Record::parse(self.rest, self.cid_len);
        self.rest = parsed.map_or(&[], |(_, rest)| rest);
        Some(parsed.map(|(record, _)| record))
    }
}

/// The additional data of a protected record.
///
/// Without a connection ID (RFC 5246 section 6.2.3.3, with epoch and sequence number as its
/// sequence number):
///
/// ```text
///   epoch 2, sequence number 6, content type 1, version 2, plaintext's length 2
/// ```
///
/// With a connection ID (RFC 9146 section 5.3):
///
/// ```text
///   ff 8, 25, octets of the connection ID 1, 25, version 2, epoch 2, sequence number 6,
///   connection ID, length 2
/// ```
///
/// In both forms the length comes last, and all octets before it are known before the plaintext.
#[derive(Debug, Clone, Copy)]
pub struct Aad {
    octets: [u8; Self::MAX],
    len: u8,
}

impl Aad {
    /// Octets with the longest connection ID.
    pub const MAX: usize = 23 + MAX_CID;

    /// The additional data of a record with this header and a plaintext (with a connection ID:
    /// inner plaintext) of `len` octets.
    #[inline]
    pub fn new(header: &Header, cid: &ConnectionId, len: usize) -> Self {
        let Header { content_type, version, number } = *header;
        let mut octets = [0; Self::MAX];
        let end = if cid.is_empty() {
            octets[..8].copy_from_slice(&number.to_be_bytes());
            octets[8] = content_type.number();
            put16(&mut octets, 9, version);
            11
        } else {
            let tls12_cid = ContentType::Tls12Cid.number();
            octets[..8].fill(0xff);
            octets[8..11].copy_from_slice(&[tls12_cid, cid.len, tls12_cid]);
            put16(&mut octets, 11, version);
            octets[13..21].copy_from_slice(&number.to_be_bytes());
            let end = 21 + cid.len();
            octets[21..end].copy_from_slice(cid.as_slice());
            end
        };
        put16(&mut octets, end, len as u16);
        Self { octets, len: (end + 2) as u8 }
    }

    /// The octets.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.octets.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// The content type and the octets of content in the inner plaintext of a record with a connection
/// ID (RFC 9146 section 4: content, its type, zeros). None without a type.
pub fn inner(plaintext: &[u8]) -> Option<(ContentType, usize)> {
    let at = plaintext.iter().rposition(|octet| *octet != 0)?;
    Some((ContentType::from(*plaintext.get(at)?), at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(cid: &'static [u8]) -> Record<'static> {
        let content_type = if cid.is_empty() { ContentType::ApplicationData } else { ContentType::Tls12Cid };
        Record {
            content_type,
            version: VERSION_1_2,
            epoch: 1,
            sequence: 0x0102_0304_0506,
            cid,
            fragment: &[9; 20],
        }
    }

    #[test]
    fn record_round_trips() {
        for cid in [&[][..], &[7; 8]] {
            let mut out = [0; 80];
            let len = record(cid).emit(&mut out).unwrap();
            assert_eq!(len, record(cid).len());
            assert_eq!(Record::parse(&out[..len + 2], cid.len()), Ok((record(cid), &[0, 0][..])));
        }
        let mut out = [0; 80];
        record(&[]).emit(&mut out).unwrap();
        assert_eq!(out[..13], [23, 0xfe, 0xfd, 0, 1, 1, 2, 3, 4, 5, 6, 0, 20]);
    }

    #[test]
    fn truncated_or_foreign_records_are_refused() {
        let mut out = [0; 80];
        let len = record(&[7; 8]).emit(&mut out).unwrap();
        for end in 0..len {
            assert!(Record::parse(&out[..end], 8).is_err(), "{end}");
        }
        out[2] = 0xfc;
        assert_eq!(Record::parse(&out, 8), Err(Error::Value));
        out[2] = 0xfd;
        out[19..21].copy_from_slice(&[0x48, 0x01]);
        assert_eq!(Record::parse(&out, 8), Err(Error::Length));
    }

    #[test]
    fn datagram_is_read_up_to_the_first_fault() {
        let mut datagram = [0; 120];
        let first = record(&[]).emit(&mut datagram).unwrap();
        let second = first + record(&[7; 8]).emit(&mut datagram[first..]).unwrap();
        let whole = records(&datagram[..second], 8);
        assert!(whole.eq([Ok(record(&[])), Ok(record(&[7; 8]))]));
        let mut cut = records(&datagram[..second - 1], 8);
        assert_eq!(cut.next(), Some(Ok(record(&[]))));
        assert_eq!(cut.next(), Some(Err(Error::Length)));
        assert_eq!(cut.next(), None);
    }

    #[test]
    fn additional_data_matches_the_standards() {
        let header = |content_type| Header { content_type, version: VERSION_1_2, number: 1 << 48 | 5 };
        let plain = Aad::new(&header(ContentType::ApplicationData), &ConnectionId::EMPTY, 0x0102);
        assert_eq!(plain.as_slice(), [0, 1, 0, 0, 0, 0, 0, 5, 23, 0xfe, 0xfd, 1, 2]);
        let cid = ConnectionId::new(&[0xaa, 0xbb]).unwrap();
        let aad = Aad::new(&header(ContentType::Tls12Cid), &cid, 0x0102);
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 25, 2, 25, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 5,
            0xaa, 0xbb, 1, 2,
        ];
        assert_eq!(aad.as_slice(), expected);
    }

    #[test]
    fn inner_type_precedes_the_padding() {
        assert_eq!(inner(&[1, 2, 0, 23, 0, 0]), Some((ContentType::ApplicationData, 3)));
        assert_eq!(inner(&[22]), Some((ContentType::Handshake, 0)));
        assert_eq!(inner(&[0, 0]), None);
        assert_eq!(inner(&[]), None);
    }
}

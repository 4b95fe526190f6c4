//! Routed GOOSE and sampled values: the session protocol of IEC TR 61850-90-5 (now in IEC 61850-8-1
//! and 9-2) over UDP, in version 2, which has an initialisation vector.
//!
//! ```text
//! 01 40 | SI | length | 80 | length | SPDU length (4) | SPDU number (4) | version (2) |
//! time of current key (4) | time to next key (2) | key (4) | length of the IV (1) | IV |
//! payload length (4) | elements | 85 | length | signature
//!
//! element: 81 GOOSE or 82 sampled values | simulation (1) | APPID (2) | APDU length (2) | APDU
//! ```
//!
//! The standard's text was not available. The fields are those that Wireshark's dissector shows and
//! that libiec61850 reads and writes: the APDU length counts itself.

use core::ops::Range;

use crate::bytes::{at_least, be16, be32, put16};
use crate::{Error, Result};

/// The UDP port.
pub const PORT: u16 = 102;
/// Octets before the elements, with an IV of twelve octets.
pub const HEADER_LEN: usize = 43;
/// Octets of an element before its APDU.
pub const ELEMENT_LEN: usize = 6;
/// Octets of a signature of 16 octets, with tag and length.
pub const SIGNATURE_LEN: usize = 18;
/// The place of the SPDU number.
pub const NUMBER: Range<usize> = 10..14;
/// The place of the IV.
pub const IV: Range<usize> = 27..39;

/// The version that is read and written.
const VERSION: u16 = 2;
/// The tag of the common session header.
const COMMON: u8 = 0x80;
/// The tag of the signature.
const SIGNATURE: u8 = 0x85;
/// User data of the connectionless transport protocol (ISO/IEC 8602).
const TRANSPORT: [u8; 2] = [0x01, 0x40];
/// Octets of fields before the IV.
const BEFORE_IV: usize = 27;

wire_enum! {
    /// The session identifier.
    pub enum Kind(u8) {
        /// tunnelled frames
        Tunnel = 0xa0,
        /// GOOSE
        Goose = 0xa1,
        /// sampled values
        Sampled = 0xa2,
        /// management
        Management = 0xa3,
    }
}

impl Kind {
    /// The tag of an element of this kind.
    fn element(self) -> u8 {
        u8::from(self) & 0x0f | 0x80
    }
}

/// The session header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// the session identifier
    pub kind: Kind,
    /// the SPDU number, which rises
    pub number: u32,
    /// start of the key's use, in seconds since 1970
    pub since: u32,
    /// minutes until the next key
    pub minutes_left: u16,
    /// the key's number
    pub key: u32,
    /// the initialisation vector
    pub iv: [u8; 12],
}

impl Header {
    /// Writes the header of a datagram with `payload` octets of elements.
    ///
    /// # Errors
    /// [`Error::Truncated`] for a buffer shorter than [`HEADER_LEN`], [`Error::Length`] for a payload that
    /// fits no datagram.
    pub fn emit(&self, payload: usize, buffer: &mut [u8]) -> Result<()> {
        at_least(buffer, HEADER_LEN)?;
        let payload = u16::try_from(payload).map(u32::from).map_err(|_| Error::Length)?;
        let out = &mut buffer[..HEADER_LEN];
        out[..2].copy_from_slice(&TRANSPORT);
        out[2] = self.kind.into();
        // From behind this octet to the end of the IV.
        out[3] = (IV.end - 4) as u8;
        out[4] = COMMON;
        out[5] = (IV.end - 6) as u8;
        // From the SPDU number to the end of the payload.
        let spdu = (HEADER_LEN - NUMBER.start) as u32 + payload;
        out[6..10].copy_from_slice(&spdu.to_be_bytes());
        out[NUMBER].copy_from_slice(&self.number.to_be_bytes());
        put16(out, 14, VERSION);
        out[16..20].copy_from_slice(&self.since.to_be_bytes());
        put16(out, 20, self.minutes_left);
        out[22..26].copy_from_slice(&self.key.to_be_bytes());
        out[26] = self.iv.len() as u8;
        out[IV].copy_from_slice(&self.iv);
        out[IV.end..].copy_from_slice(&payload.to_be_bytes());
        Ok(())
    }
}

/// Writes number and IV into a header that [`Header::emit`] wrote.
pub fn renumber(header: &mut [u8], number: u32, iv: &[u8; 12]) {
    if let Some(place) = header.get_mut(NUMBER) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    if let Some(place) = header.get_mut(IV) {
        place.copy_from_slice(iv);
    }
}

/// Writes tag, length and octets of a signature to the front of `out`, if it fits.
pub fn sign(out: &mut [u8], mac: &[u8; 16]) {
    if let Some(out) = out.get_mut(..SIGNATURE_LEN) {
        out[..2].copy_from_slice(&[SIGNATURE, mac.len() as u8]);
        out[2..].copy_from_slice(mac);
    }
}

/// A parsed datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// its header
    pub header: Header,
    /// the octets before the elements, which the signature covers
    pub associated: &'a [u8],
    /// the elements, perhaps encrypted
    pub payload: &'a [u8],
    /// the signature
    pub mac: &'a [u8; 16],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram of version 2 with an IV of twelve octets and a signature of sixteen.
    ///
    /// # Errors
    /// [`Error::Truncated`] for a missing field, [`Error::Length`] for lengths that contradict each
    /// other, [`Error::Value`] for another version, or other lengths of IV and signature.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        at_least(bytes, HEADER_LEN)?;
        if bytes[..2] != TRANSPORT || bytes[4] != COMMON || be16(bytes, 14) != VERSION {
            return Err(Error::Value);
        }
        // Implementations disagree about both header lengths; the fields in them are fixed.
        let iv = *bytes[IV].first_chunk::<12>().ok_or(Error::Truncated)?;
        if usize::from(bytes[BEFORE_IV - 1]) != iv.len() {
            return Err(Error::Value);
        }
        let (associated, rest) = bytes.split_at(HEADER_LEN);
        let payload = be32(associated, IV.end) as usize;
        let (payload, signature) = rest.split_at_checked(payload).ok_or(Error::Length)?;
        let (head, mac) = signature.split_at_checked(2).ok_or(Error::Truncated)?;
        if head != [SIGNATURE, 16] {
            return Err(Error::Value);
        }
        let mac = mac.try_into().map_err(|_| Error::Length)?;
        let header = Header {
            kind: Kind::from(bytes[2]),
            number: be32(bytes, NUMBER.start),
            since: be32(bytes, 16),
            minutes_left: be16(bytes, 20),
            key: be32(bytes, 22),
            iv,
        };
        Ok(Self { header, associated, payload, mac })
    }
}

/// The head of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// what its APDU is
    pub kind: Kind,
    /// a test device published it
    pub simulation: bool,
    /// the application identifier
    pub appid: u16,
}

impl Element {
    /// Writes the head of an element with an APDU of `apdu` octets.
    ///
    /// # Errors
    /// [`Error::Truncated`] for a short buffer, [`Error::Length`] for an APDU that is too long.
    pub fn emit(&self, apdu: usize, buffer: &mut [u8]) -> Result<()> {
        at_least(buffer, ELEMENT_LEN)?;
        let length = u16::try_from(apdu + 2).map_err(|_| Error::Length)?;
        buffer[0] = self.kind.element();
        buffer[1] = self.simulation.into();
        put16(buffer, 2, self.appid);
        put16(buffer, 4, length);
        Ok(())
    }

    /// The first element of a payload with its APDU, and the elements behind it.
    ///
    /// # Errors
    /// [`Error::Truncated`] for a short head, [`Error::Length`] for an APDU past the end.
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8], &[u8])> {
        at_least(payload, ELEMENT_LEN)?;
        let apdu = usize::from(be16(payload, 4)).checked_sub(2).ok_or(Error::Length)?;
        let (apdu, rest) = payload[ELEMENT_LEN..].split_at_checked(apdu).ok_or(Error::Length)?;
        let kind = Kind::from(payload[0] & 0x0f | 0xa0);
        if payload[0] & 0xf0 != 0x80 {
            return Err(Error::Value);
        }
        Ok((Self { kind, simulation: payload[1] != 0, appid: be16(payload, 2) }, apdu, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const HEADER: Header = Header {
        kind: Kind::Goose,
        number: 0x0102_0304,
        since: 1_790_000_000,
        minutes_left: 60,
        key: 7,
        iv: *b"sender\0\0\0\0\0\x09",
    };

    fn datagram(apdu: &[u8]) -> Vec<u8> {
        let mut out = std::vec![0; HEADER_LEN + ELEMENT_LEN];
        HEADER.emit(ELEMENT_LEN + apdu.len(), &mut out).unwrap();
        let element = Element { kind: Kind::Goose, simulation: true, appid: 0x1000 };
        element.emit(apdu.len(), &mut out[HEADER_LEN..]).unwrap();
        out.extend(apdu);
        let end = out.len();
        out.resize(end + SIGNATURE_LEN, 0);
        sign(&mut out[end..], &[3; 16]);
        out
    }

    #[test]
    fn written_datagram_is_read() {
        let bytes = datagram(b"\x61\x02\x80\x00");
        let read = Datagram::parse(&bytes).unwrap();
        assert_eq!((read.header, read.mac), (HEADER, &[3; 16]));
        assert_eq!((read.associated, read.payload.len()), (&bytes[..HEADER_LEN], ELEMENT_LEN + 4));
        let (element, apdu, rest) = Element::parse(read.payload).unwrap();
        assert_eq!((element.kind, element.simulation, element.appid), (Kind::Goose, true, 0x1000));
        assert_eq!((apdu, rest), (&b"\x61\x02\x80\x00"[..], &[][..]));
    }

    #[test]
    fn contradicting_lengths_are_refused() {
        let bytes = datagram(b"\x61\x02\x80\x00");
        assert!((0..bytes.len()).all(|len| Datagram::parse(&bytes[..len]).is_err()));
        assert!(Datagram::parse(&[&bytes[..], &[0]].concat()).is_err());
        for at in [0, 1, 4, 15, 26, IV.end + 3, bytes.len() - 18, bytes.len() - 17] {
            let mut odd = bytes.clone();
            odd[at] ^= 1;
            assert!(Datagram::parse(&odd).is_err(), "{at}");
        }
        assert_eq!(Element::parse(&[0x81, 0, 0, 1, 0, 1]), Err(Error::Length));
        assert_eq!(Element::parse(&[0x81, 0, 0, 1, 0, 9]), Err(Error::Length));
        assert_eq!(Element::parse(&[0x61, 0, 0, 1, 0, 2]), Err(Error::Value));
    }

    proptest! {
        #[test]
        fn parser_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let _ = Datagram::parse(&bytes);
            let _ = Element::parse(&bytes);
        }
    }
}

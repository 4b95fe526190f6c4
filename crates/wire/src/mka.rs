//! MACsec Key Agreement: the MKPDU (IEEE 802.1X-2020 clause 11.11).
//!
//! An MKPDU is an EAPOL PDU of packet type 5. The EAPOL header is followed by parameter sets, each
//! with a header of four octets and a body padded to a multiple of four, the basic one first; then
//! by an ICV of 16 octets over the whole frame before it, the Ethernet header included:
//!
//! ```text
//!   destination  source  88-8E  EAPOL version  05  length  basic  other sets ...  ICV
//!   6            6       2      1              1   2                              16
//! ```
//!
//! A set's header is its type (the version of MKA in the basic set), flags, four more flags, and
//! twelve bits of length. [`Repr::parse`] reads the sets of MKA versions 1 to 3 and skips the
//! others (clause 11.11.4). A set of a known type with another form than in that clause makes the
//! MKPDU invalid.

mod announcement;
mod sets;
#[cfg(test)]
mod tests;

pub use announcement::{Announcement, Channels, Features, OUI_ANTEDATE};
pub use sets::{DistributedSak, KeyIdentifier, KeyUse, PEER_LEN, PeerList, SakUse, SetType, WrappedSak, Xpn};

use core::fmt;

use crate::bytes::{array, at_least, be16, be32, put16, put32};
use crate::ethernet::{self, Address, EtherType};
use crate::macsec::Sci;
use crate::{Error, Result};

/// The EAPOL packet type of an MKPDU (table 11-3).
pub const EAPOL_MKA: u8 = 5;
/// The EAPOL version of IEEE 802.1X-2010 and later.
pub const EAPOL_VERSION: u8 = 3;
/// The algorithm agility of IEEE 802.1X's own key derivation, key wrap and ICV (table 11-6).
pub const ALGORITHM_AGILITY: u32 = 0x0080_c201;
/// Octets of the ICV with that algorithm agility.
pub const ICV_LEN: usize = 16;
/// Octets of the longest CAK name.
pub const MAX_CKN_LEN: usize = 32;
/// Octets of the shortest MKPDU behind the EAPOL header (clause 11.11.2).
pub const MIN_LEN: usize = 32;

/// Octets of the Ethernet and the EAPOL header.
const HEADERS_LEN: usize = ethernet::HEADER_LEN + 4;
/// Octets of the header of a parameter set.
const SET_HEADER_LEN: usize = 4;
/// Octets of the basic parameter set's body before the CAK name.
const BASIC_LEN: usize = 28;

/// A member identifier: 96 random bits, chosen by a participant at its start (clause 9.4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MemberIdentifier(pub [u8; 12]);

impl fmt::Display for MemberIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::Hex(&self.0).fmt(f)
    }
}

impl fmt::Debug for MemberIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

wire_enum! {
    /// The MACsec capability of a participant (table 11-6).
    pub enum Capability(u8) {
        /// nothing
        None = 0,
        /// protect the integrity
        Integrity = 1,
        /// encrypt with offset 0
        Confidentiality = 2,
        /// encrypt with offsets 0, 30 and 50
        ConfidentialityOffsets = 3,
    }
}

/// The basic parameter set (figure 11-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Basic<'a> {
    /// the version of MKA, 1 to 3
    pub version: u8,
    /// key server priority: the lowest wins; 255 is never a key server
    pub priority: u8,
    /// the sender claims to be the key server
    pub key_server: bool,
    /// the sender wants MACsec
    pub macsec_desired: bool,
    /// the sender's capability
    pub capability: Capability,
    /// the sender's secure channel
    pub sci: Sci,
    /// the sender's member identifier
    pub member: MemberIdentifier,
    /// the number of this MKPDU
    pub message: u32,
    /// the algorithms of key derivation, key wrap and ICV
    pub algorithm_agility: u32,
    /// the name of the key that protects the MKPDU, 1 to 32 octets
    pub ckn: &'a [u8],
}

/// An MKPDU and the frame that carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr<'a> {
    /// destination address
    pub destination: Address,
    /// source address
    pub source: Address,
    /// the version of EAPOL
    pub eapol_version: u8,
    /// the sender
    pub basic: Basic<'a>,
    /// peers proven to be live
    pub live: Option<PeerList<'a>>,
    /// peers heard but not yet proven live
    pub potential: Option<PeerList<'a>>,
    /// the keys in use
    pub sak_use: Option<SakUse>,
    /// a new key from the key server
    pub distributed_sak: Option<DistributedSak<'a>>,
    /// the upper halves of the packet numbers in `sak_use`, for an XPN cipher suite
    pub xpn: Option<Xpn>,
    /// the sender's announcement beside the agreement
    pub announcement: Option<Announcement<'a>>,
    /// the ICV has a parameter set header of its own
    pub icv_indicator: bool,
}

/// A parsed MKPDU with the octets that its ICV covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// the content; untrusted before the ICV is verified
    pub repr: Repr<'a>,
    /// the octets that the ICV covers
    pub covered: &'a [u8],
    /// the ICV
    pub icv: &'a [u8; ICV_LEN],
    /// number of parameter sets of unknown types
    pub skipped: usize,
}

/// The header of a parameter set.
#[derive(Clone, Copy)]
struct SetHeader {
    kind: u8,
    flags: u8,
    upper: u8,
}

/// Octets with padding.
const fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// Splits off the parameter set at the front: header, body, and the octets behind the padding.
fn split_set(rest: &[u8]) -> Result<(SetHeader, &[u8], &[u8])> {
    at_least(rest, SET_HEADER_LEN).map_err(|_| Error::Length)?;
    let len = usize::from(be16(rest, 2) & 0x0fff);
    let header = SetHeader { kind: rest[0], flags: rest[1], upper: rest[2] & 0xf0 };
    let behind = rest.get(SET_HEADER_LEN..).unwrap_or_default();
    let (whole, behind) = behind.split_at_checked(padded(len)).ok_or(Error::Length)?;
    Ok((header, whole.get(..len).unwrap_or_default(), behind))
}

/// Sets a value that may occur once.
fn once<T>(place: &mut Option<T>, value: T) -> Result<()> {
    if place.replace(value).is_some() { Err(Error::Value) } else { Ok(()) }
}

impl<'a> Repr<'a> {
    /// An MKPDU with its basic parameter set only.
    pub const fn new(destination: Address, source: Address, basic: Basic<'a>) -> Self {
        Self {
            destination,
            source,
            eapol_version: EAPOL_VERSION,
            basic,
            live: None,
            potential: None,
            sak_use: None,
            distributed_sak: None,
            xpn: None,
            announcement: None,
            icv_indicator: false,
        }
    }

    /// Reads a frame from its destination on. Octets behind the MKPDU are padding.
    pub fn parse(frame: &'a [u8]) -> Result<Parsed<'a>> {
        at_least(frame, HEADERS_LEN)?;
        let ethernet = ethernet::Frame::new_checked(frame)?;
        if ethernet.ethertype() != EtherType::Eapol || frame[15] != EAPOL_MKA {
            return Err(Error::Value);
        }
        let len = usize::from(be16(frame, 16));
        let body = frame.get(HEADERS_LEN..HEADERS_LEN + len).ok_or(Error::Length)?;
        if len < MIN_LEN || !len.is_multiple_of(4) {
            return Err(Error::Length);
        }
        let (sets, icv) = body.split_last_chunk::<ICV_LEN>().ok_or(Error::Length)?;
        let covered = frame.get(..HEADERS_LEN + sets.len()).ok_or(Error::Length)?;
        let (header, basic, mut rest) = split_set(sets)?;
        let basic = Basic::parse(header, basic)?;
        let mut repr = Self::new(ethernet.dst_addr(), ethernet.src_addr(), basic);
        repr.eapol_version = frame[14];
        let mut skipped = 0;
        while !rest.is_empty() {
            if rest == [SetType::IcvIndicator.number(), 0, 0, ICV_LEN as u8] {
                repr.icv_indicator = true;
                break;
            }
            let (header, body, behind) = split_set(rest)?;
            skipped += usize::from(!repr.read(header, body)?);
            rest = behind;
        }
        Ok(Parsed { repr, covered, icv, skipped })
    }

    /// Reads a parameter set and returns whether its type is known.
    fn read(&mut self, header: SetHeader, body: &'a [u8]) -> Result<bool> {
        match SetType::from_number(header.kind) {
            SetType::LivePeerList => once(&mut self.live, PeerList::parse(header.flags, body)?)?,
            SetType::PotentialPeerList => once(&mut self.potential, PeerList::parse(header.flags, body)?)?,
            SetType::SakUse => once(&mut self.sak_use, SakUse::parse(header.flags, header.upper, body)?)?,
            SetType::DistributedSak => {
                once(&mut self.distributed_sak, DistributedSak::parse(header.flags, body)?)?;
            }
            SetType::Xpn => once(&mut self.xpn, Xpn::parse(header.flags, body)?)?,
            SetType::Announcement => once(&mut self.announcement, Announcement::parse(body)?)?,
            // Anywhere else it would contradict the ICV's length.
            SetType::IcvIndicator => return Err(Error::Value),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Octets that [`emit`](Self::emit) writes.
    pub fn buffer_len(&self) -> usize {
        let set = |len: Option<usize>| len.map_or(0, |len| SET_HEADER_LEN + padded(len));
        HEADERS_LEN
            + set(Some(BASIC_LEN + self.basic.ckn.len()))
            + set(self.live.map(|list| list.len()))
            + set(self.potential.map(|list| list.len()))
            + set(self.sak_use.map(|sak| sak.len()))
            + set(self.distributed_sak.map(|sak| sak.len()))
            + set(self.xpn.map(|_| Xpn::LEN))
            + set(self.announcement.map(|announcement| announcement.octets().len()))
            + if self.icv_indicator { SET_HEADER_LEN } else { 0 }
            + ICV_LEN
    }

    /// Writes the frame to the front of `buffer` and returns its length. `icv` computes the ICV of
    /// the octets before it.
    pub fn emit(&self, buffer: &mut [u8], icv: impl FnOnce(&[u8]) -> [u8; ICV_LEN]) -> Result<usize> {
        if !(1..=MAX_CKN_LEN).contains(&self.basic.ckn.len()) || self.basic.version == 0 {
            return Err(Error::Value);
        }
        let len = self.buffer_len();
        let frame = buffer.get_mut(..len).ok_or(Error::Truncated)?;
        frame.fill(0);
        let ethertype = EtherType::Eapol;
        ethernet::Repr { dst_addr: self.destination, src_addr: self.source, ethertype }.emit(frame)?;
        frame[14] = self.eapol_version;
        frame[15] = EAPOL_MKA;
        put16(frame, 16, u16::try_from(len - HEADERS_LEN).map_err(|_| Error::Length)?);
        let mut sets = Sets { frame, at: HEADERS_LEN };
        let basic = &self.basic;
        let len = BASIC_LEN + basic.ckn.len();
        basic.emit(sets.next(basic.version, basic.priority, basic.flags(), len)?);
        for (kind, list) in [(SetType::LivePeerList, self.live), (SetType::PotentialPeerList, self.potential)]
        {
            if let Some(list) = list {
                sets.next(kind.number(), list.key_server_ssci, 0, list.len())?.copy_from_slice(list.octets());
            }
        }
        if let Some(sak) = &self.sak_use {
            sak.emit(sets.next(SetType::SakUse.number(), sak.flags(), sak.upper_flags(), sak.len())?);
        }
        if let Some(sak) = &self.distributed_sak {
            sak.emit(sets.next(SetType::DistributedSak.number(), sak.flags(), 0, sak.len())?);
        }
        if let Some(xpn) = &self.xpn {
            xpn.emit(sets.next(SetType::Xpn.number(), xpn.suspension_time, 0, Xpn::LEN)?);
        }
        if let Some(announcement) = &self.announcement {
            let octets = announcement.octets();
            sets.next(SetType::Announcement.number(), 0, 0, octets.len())?.copy_from_slice(octets);
        }
        if self.icv_indicator {
            // The body of this set is the ICV itself.
            sets.next(SetType::IcvIndicator.number(), 0, 0, ICV_LEN)?;
        }
        let (covered, place) = sets.frame.split_last_chunk_mut::<ICV_LEN>().ok_or(Error::Truncated)?;
        *place = icv(covered);
        Ok(self.buffer_len())
    }
}

/// The parameter sets of a frame, for writing.
struct Sets<'b> {
    frame: &'b mut [u8],
    at: usize,
}

impl Sets<'_> {
    /// Writes the header of the next set and returns its zeroed body.
    fn next(&mut self, kind: u8, flags: u8, upper: u8, len: usize) -> Result<&mut [u8]> {
        let bits = u16::try_from(len).ok().filter(|len| *len < 0x1000).ok_or(Error::Length)?;
        let body = self.at + SET_HEADER_LEN;
        let set = self.frame.get_mut(self.at..body + len).ok_or(Error::Truncated)?;
        self.at = body + padded(len);
        let (header, body) = set.split_at_mut(SET_HEADER_LEN);
        put16(header, 2, bits | u16::from(upper & 0xf0) << 8);
        header[0] = kind;
        header[1] = flags;
        Ok(body)
    }
}

impl<'a> Basic<'a> {
    fn parse(header: SetHeader, body: &'a [u8]) -> Result<Self> {
        let (fixed, ckn) = body.split_at_checked(BASIC_LEN).ok_or(Error::Length)?;
        if !(1..=MAX_CKN_LEN).contains(&ckn.len()) {
            return Err(Error::Length);
        }
        if header.kind == 0 {
            return Err(Error::Value);
        }
        Ok(Self {
            version: header.kind,
            priority: header.flags,
            key_server: header.upper & 0x80 != 0,
            macsec_desired: header.upper & 0x40 != 0,
            capability: Capability::from_number(header.upper >> 4 & 3),
            sci: Sci(array(fixed, 0)),
            member: MemberIdentifier(array(fixed, 8)),
            message: be32(fixed, 20),
            algorithm_agility: be32(fixed, 24),
            ckn,
        })
    }

    fn flags(&self) -> u8 {
        u8::from(self.key_server) << 7
            | u8::from(self.macsec_desired) << 6
            | (self.capability.number() & 3) << 4
    }

    fn emit(&self, body: &mut [u8]) {
        body[..8].copy_from_slice(&self.sci.0);
        body[8..20].copy_from_slice(&self.member.0);
        put32(body, 20, self.message);
        put32(body, 24, self.algorithm_agility);
        body[BASIC_LEN..].copy_from_slice(self.ckn);
    }
}

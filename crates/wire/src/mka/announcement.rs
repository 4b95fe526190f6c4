//! The Announcement parameter set: TLVs as in an EAPOL-Announcement (IEEE 802.1X-2020 clause
//! 11.12). Only Antedate's organizationally specific TLVs are read.
//!
//! With them a gateway announces its extensions to the standard: reassembly of fragments (the MF
//! flag of the SecTAG), the association numbers that it uses with other CAKs, its cipher suites
//! in order of preference, and its secure channels. Other implementations skip them:
//!
//! ```text
//!   127 (7 bits)  length (9 bits)  A2-4E-D7  01  flags  suite identifiers ...
//!                                  3         1   1      8 each
//!   127 (7 bits)  length (9 bits)  A2-4E-D7  02  lowest packet numbers of a second channel: latest, old key
//!                                  3         1   8, 8
//!   127 (7 bits)  length (9 bits)  A2-4E-D7  03  channels taken  lowest packet numbers of others ...
//!                                  3         1   1               8, 8 each
//! ```
//!
//! Of the flags, 0x01 is reassembly, and 0x10, 0x20, 0x40 and 0x80 are the association numbers 0 to 3.
//! The others are 0, and not looked at. With the third TLV a gateway takes so many channels of each
//! other member. It sends in one more than it lists numbers of: those with the next port numbers of
//! its SCI. The numbers are those of the latest key and of the old one.

use crate::bytes::array;
use crate::lldp::{TlvType, Tlvs, emit_tlv};
use crate::macsec::An;
use crate::{Error, Result};

/// The organization of Antedate's TLVs: an administratively assigned identifier (IEEE 802c), since
/// the project has no OUI.
pub const OUI_ANTEDATE: [u8; 3] = [0xa2, 0x4e, 0xd7];
const SUBTYPE_FEATURES: u8 = 1;
const SUBTYPE_SECOND_CHANNEL: u8 = 2;
const SUBTYPE_CHANNELS: u8 = 3;
const FLAG_FRAGMENTS: u8 = 1;
/// Octets of the lowest packet numbers of a further channel.
const NUMBERS_LEN: usize = 16;
/// The place of the first association number among the flags.
const ELSEWHERE: usize = 4;

/// The octets of an Announcement parameter set with complete TLVs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement<'a> {
    octets: &'a [u8],
}

/// The extensions of an Antedate gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features<'a> {
    /// the gateway reassembles fragments
    pub fragments: bool,
    /// the association numbers that it uses with other CAKs
    pub elsewhere: [bool; An::COUNT],
    /// the identifiers of its cipher suites, eight octets each
    suites: &'a [u8],
}

impl<'a> Announcement<'a> {
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self> {
        Tlvs::new(octets).try_for_each(|tlv| tlv.map(drop))?;
        Ok(Self { octets })
    }

    pub(super) const fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Antedate's features, if present.
    pub fn features(&self) -> Option<Features<'a>> {
        Tlvs::new(self.octets).flatten().find_map(|tlv| match tlv.organization() {
            Some((OUI_ANTEDATE, SUBTYPE_FEATURES, [flags, suites @ ..])) => {
                let elsewhere = core::array::from_fn(|an| flags >> (ELSEWHERE + an) & 1 != 0);
                Some(Features { fragments: flags & FLAG_FRAGMENTS != 0, elsewhere, suites })
            }
            _ => None,
        })
    }

    /// The lowest acceptable packet numbers of the sender's second channel, with the latest and the
    /// old key. [`SakUse`](super::SakUse) has those of the first channel.
    pub fn second_channel(&self) -> Option<[u64; 2]> {
        Tlvs::new(self.octets).flatten().find_map(|tlv| match tlv.organization() {
            Some((OUI_ANTEDATE, SUBTYPE_SECOND_CHANNEL, numbers)) if numbers.len() == 16 => {
                Some([0, 8].map(|at| u64::from_be_bytes(array(numbers, at))))
            }
            _ => None,
        })
    }

    /// The secure channels that the sender takes and has. Without them it has one, and takes one of
    /// each member.
    pub fn channels(&self) -> Option<Channels<'a>> {
        Tlvs::new(self.octets).flatten().find_map(|tlv| match tlv.organization() {
            Some((OUI_ANTEDATE, SUBTYPE_CHANNELS, [takes, numbers @ ..])) => {
                Channels::new(*takes, numbers).ok()
            }
            _ => None,
        })
    }

    /// Writes Antedate's TLVs to the front of `buffer`: the features, the packet numbers of a second
    /// channel, and the secure channels.
    pub fn new(
        features: &Features<'_>,
        second: Option<[u64; 2]>,
        channels: Option<&Channels<'_>>,
        buffer: &'a mut [u8],
    ) -> Result<Self> {
        let mut flags = if features.fragments { FLAG_FRAGMENTS } else { 0 };
        for (an, used) in features.elsewhere.iter().enumerate() {
            flags |= u8::from(*used) << (ELSEWHERE + an);
        }
        let head = [&OUI_ANTEDATE[..], &[SUBTYPE_FEATURES, flags], features.suites];
        let mut len = emit_tlv(buffer, TlvType::Organization, &head)?;
        if let Some([latest, old]) = second {
            let (latest, old) = (latest.to_be_bytes(), old.to_be_bytes());
            let body = [&OUI_ANTEDATE[..], &[SUBTYPE_SECOND_CHANNEL], &latest, &old];
            let rest = buffer.get_mut(len..).ok_or(Error::Truncated)?;
            len += emit_tlv(rest, TlvType::Organization, &body)?;
        }
        if let Some(channels) = channels {
            let body = [&OUI_ANTEDATE[..], &[SUBTYPE_CHANNELS, channels.takes], channels.numbers];
            let rest = buffer.get_mut(len..).ok_or(Error::Truncated)?;
            len += emit_tlv(rest, TlvType::Organization, &body)?;
        }
        let buffer: &'a [u8] = buffer;
        Ok(Self { octets: buffer.get(..len).ok_or(Error::Truncated)? })
    }
}

impl<'a> Features<'a> {
    /// Features with these suites, as consecutive identifiers.
    pub const fn new(fragments: bool, elsewhere: [bool; An::COUNT], suites: &'a [u8]) -> Result<Self> {
        if !suites.len().is_multiple_of(8) {
            return Err(Error::Length);
        }
        Ok(Self { fragments, elsewhere, suites })
    }

    /// The identifiers of the cipher suites in order of preference.
    pub fn suites(&self) -> impl Iterator<Item = [u8; 8]> + use<'a> {
        self.suites.chunks_exact(8).filter_map(|suite| suite.try_into().ok())
    }
}

/// The secure channels of an Antedate gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels<'a> {
    /// the most channels that it takes of each other member
    pub takes: u8,
    /// the lowest packet numbers of its channels behind the first one, sixteen octets each
    numbers: &'a [u8],
}

impl<'a> Channels<'a> {
    /// Channels with these lowest packet numbers, a concatenation of [`entry`](Self::entry) results.
    pub const fn new(takes: u8, numbers: &'a [u8]) -> Result<Self> {
        if !numbers.len().is_multiple_of(NUMBERS_LEN) {
            return Err(Error::Length);
        }
        Ok(Self { takes, numbers })
    }

    /// The octets of one further channel: its lowest packet numbers with the latest and the old key.
    pub fn entry([latest, old]: [u64; 2]) -> [u8; NUMBERS_LEN] {
        let mut octets = [0; NUMBERS_LEN];
        octets[..8].copy_from_slice(&latest.to_be_bytes());
        octets[8..].copy_from_slice(&old.to_be_bytes());
        octets
    }

    /// The lowest packet numbers of the further channels, with the latest and the old key.
    pub fn further(&self) -> impl Iterator<Item = [u64; 2]> + use<'a> {
        let entries = self.numbers.chunks_exact(NUMBERS_LEN);
        entries.map(|entry| [0, 8].map(|at| u64::from_be_bytes(array(entry, at))))
    }
}

//! The parameter sets behind the basic one (IEEE 802.1X-2020 figures 11-9 to 11-16).

use super::MemberIdentifier;
use crate::bytes::{array, be32, put32};
use crate::macsec::An;
use crate::{Error, Result};

wire_enum! {
    /// The type of a parameter set (table 11-7). The basic set has its version in that place.
    pub enum SetType(u8) {
        /// peers proven to be live
        LivePeerList = 1,
        /// peers heard but not yet proven live
        PotentialPeerList = 2,
        /// the keys in use
        SakUse = 3,
        /// a key from the key server
        DistributedSak = 4,
        /// a CAK for a group
        DistributedCak = 5,
        /// a key management domain
        Kmd = 6,
        /// TLVs as in an EAPOL-Announcement
        Announcement = 7,
        /// upper halves of packet numbers
        Xpn = 8,
        /// the length of the ICV behind it
        IcvIndicator = 255,
    }
}

/// Octets of a peer in a list: its member identifier and the number of its last MKPDU.
pub const PEER_LEN: usize = 16;

/// A live or potential peer list (figure 11-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerList<'a> {
    /// the lower octet of the key server's SSCI, in a live peer list of MKA version 3; otherwise 0
    pub key_server_ssci: u8,
    octets: &'a [u8],
}

impl<'a> PeerList<'a> {
    /// The peers in `octets`, a concatenation of [`entry`](Self::entry) results.
    pub const fn new(octets: &'a [u8]) -> Result<Self> {
        if octets.len().is_multiple_of(PEER_LEN) {
            Ok(Self { key_server_ssci: 0, octets })
        } else {
            Err(Error::Length)
        }
    }

    /// The octets of one peer.
    pub fn entry(member: MemberIdentifier, message: u32) -> [u8; PEER_LEN] {
        let mut octets = [0; PEER_LEN];
        octets[..12].copy_from_slice(&member.0);
        put32(&mut octets, 12, message);
        octets
    }

    pub(super) fn parse(flags: u8, octets: &'a [u8]) -> Result<Self> {
        Ok(Self { key_server_ssci: flags, ..Self::new(octets)? })
    }

    /// Every peer with the number of its last MKPDU.
    pub fn peers(&self) -> impl Iterator<Item = (MemberIdentifier, u32)> + use<'a> {
        self.octets.chunks_exact(PEER_LEN).map(|entry| (MemberIdentifier(array(entry, 0)), be32(entry, 12)))
    }

    pub(super) const fn octets(&self) -> &'a [u8] {
        self.octets
    }

    pub(super) const fn len(&self) -> usize {
        self.octets.len()
    }
}

/// A key identifier: the key server of the key, and the key's number (clause 9.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyIdentifier {
    /// the key server's member identifier
    pub server: MemberIdentifier,
    /// the key number, from 1 on
    pub number: u32,
}

impl KeyIdentifier {
    /// The sixteen octets of MACsec's key identifier.
    pub fn octets(&self) -> [u8; 16] {
        let mut octets = [0; 16];
        octets[..12].copy_from_slice(&self.server.0);
        put32(&mut octets, 12, self.number);
        octets
    }
}

/// A participant's use of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyUse {
    /// the key; all zeros for none
    pub key: KeyIdentifier,
    /// the association number
    pub an: An,
    /// the sender protects frames with the key
    pub transmits: bool,
    /// the sender receives frames with the key
    pub receives: bool,
    /// the lowest acceptable packet number of the sender's frames; of an extended one the lower
    /// half
    pub lowest_pn: u32,
}

impl KeyUse {
    /// Whether a key is in use.
    pub fn is_some(&self) -> bool {
        self.key != KeyIdentifier::default()
    }

    const fn flags(&self) -> u8 {
        self.an.number() << 2 | (self.transmits as u8) << 1 | self.receives as u8
    }

    fn parse(flags: u8, octets: &[u8]) -> Self {
        Self {
            key: KeyIdentifier { server: MemberIdentifier(array(octets, 0)), number: be32(octets, 12) },
            an: An::ALL[usize::from(flags >> 2 & 3)],
            transmits: flags & 2 != 0,
            receives: flags & 1 != 0,
            lowest_pn: be32(octets, 16),
        }
    }

    fn emit(&self, octets: &mut [u8]) {
        octets[..16].copy_from_slice(&self.key.octets());
        put32(octets, 16, self.lowest_pn);
    }
}

/// The MACsec SAK Use parameter set (figure 11-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SakUse {
    /// the latest and the old key; none where MACsec is not in use
    pub keys: Option<[KeyUse; 2]>,
    /// the sender sends unprotected frames
    pub plain_transmit: bool,
    /// the sender receives unprotected frames
    pub plain_receive: bool,
    /// the sender demands that frames below the lowest packet numbers are discarded
    pub delay_protect: bool,
}

impl SakUse {
    const KEY_LEN: usize = 20;

    pub(super) fn parse(flags: u8, upper: u8, body: &[u8]) -> Result<Self> {
        let keys = match body.len() {
            0 => None,
            len if len == 2 * Self::KEY_LEN => {
                let (latest, old) = body.split_at(Self::KEY_LEN);
                Some([KeyUse::parse(flags >> 4, latest), KeyUse::parse(flags & 0x0f, old)])
            }
            _ => return Err(Error::Length),
        };
        Ok(Self {
            keys,
            plain_transmit: upper & 0x80 != 0,
            plain_receive: upper & 0x40 != 0,
            delay_protect: upper & 0x10 != 0,
        })
    }

    pub(super) const fn len(&self) -> usize {
        if self.keys.is_some() { 2 * Self::KEY_LEN } else { 0 }
    }

    pub(super) const fn flags(&self) -> u8 {
        match &self.keys {
            Some([latest, old]) => latest.flags() << 4 | old.flags(),
            None => 0,
        }
    }

    pub(super) const fn upper_flags(&self) -> u8 {
        (self.plain_transmit as u8) << 7 | (self.plain_receive as u8) << 6 | (self.delay_protect as u8) << 4
    }

    pub(super) fn emit(&self, body: &mut [u8]) {
        if let Some(keys) = &self.keys {
            for (key, octets) in keys.iter().zip(body.chunks_exact_mut(Self::KEY_LEN)) {
                key.emit(octets);
            }
        }
    }
}

/// The Distributed SAK parameter set (figures 11-11 and 11-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DistributedSak<'a> {
    /// frames are to be sent unprotected
    Plain,
    /// a key
    Sak(WrappedSak<'a>),
}

/// A wrapped SAK from the key server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrappedSak<'a> {
    /// its association number
    pub an: An,
    /// 0: integrity only; 1, 2, 3: encrypt from octet 0, 30, 50 on
    pub confidentiality_offset: u8,
    /// the key number
    pub number: u32,
    /// the cipher suite; none for GCM-AES-128, the default
    pub suite: Option<[u8; 8]>,
    /// the key in AES key wrap: eight octets longer than the key
    pub wrapped: &'a [u8],
}

impl<'a> DistributedSak<'a> {
    /// Octets of a wrapped 128-bit key.
    const WRAPPED_128: usize = 24;
    const WRAPPED_256: usize = 40;

    pub(super) fn parse(flags: u8, body: &'a [u8]) -> Result<Self> {
        if body.is_empty() {
            return Ok(Self::Plain);
        }
        let (suite, wrapped) = match body.len().checked_sub(4).ok_or(Error::Length)? {
            Self::WRAPPED_128 => (None, 4),
            len if len == 8 + Self::WRAPPED_128 || len == 8 + Self::WRAPPED_256 => (Some(array(body, 4)), 12),
            _ => return Err(Error::Length),
        };
        Ok(Self::Sak(WrappedSak {
            an: An::ALL[usize::from(flags >> 6)],
            confidentiality_offset: flags >> 4 & 3,
            number: be32(body, 0),
            suite,
            wrapped: body.get(wrapped..).unwrap_or_default(),
        }))
    }

    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Sak(sak) => 4 + if sak.suite.is_some() { 8 } else { 0 } + sak.wrapped.len(),
        }
    }

    pub(super) const fn flags(&self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Sak(sak) => sak.an.number() << 6 | (sak.confidentiality_offset & 3) << 4,
        }
    }

    pub(super) fn emit(&self, body: &mut [u8]) {
        let Self::Sak(sak) = self else { return };
        put32(body, 0, sak.number);
        let mut at = 4;
        if let Some(suite) = &sak.suite {
            body[4..12].copy_from_slice(suite);
            at = 12;
        }
        body[at..].copy_from_slice(sak.wrapped);
    }
}

/// The XPN parameter set (figure 11-16): the upper halves of the lowest packet numbers of a [`SakUse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Xpn {
    /// seconds of the sender's coming silence
    pub suspension_time: u8,
    /// for the latest key
    pub latest_lowest_pn: u32,
    /// for the old key
    pub old_lowest_pn: u32,
}

impl Xpn {
    pub(super) const LEN: usize = 8;

    pub(super) fn parse(flags: u8, body: &[u8]) -> Result<Self> {
        if body.len() != Self::LEN {
            return Err(Error::Length);
        }
        Ok(Self { suspension_time: flags, latest_lowest_pn: be32(body, 0), old_lowest_pn: be32(body, 4) })
    }

    pub(super) fn emit(&self, body: &mut [u8]) {
        put32(body, 0, self.latest_lowest_pn);
        put32(body, 4, self.old_lowest_pn);
    }
}

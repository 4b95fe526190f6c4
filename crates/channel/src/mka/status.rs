//! The state of a participant, and reasons for refusing an MKPDU.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use antedate_wire::macsec::An;
use antedate_wire::mka::{KeyIdentifier, MemberIdentifier};
use antedate_wire::{EthernetAddress, Sci};

use crate::macsec::CipherSuite;

/// The reason for refusing an MKPDU, which has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// it is not a valid MKPDU
    Malformed,
    /// it is protected by other algorithms
    OtherAlgorithm,
    /// it is of another connectivity association
    OtherName,
    /// its ICV is wrong: it was changed, or its sender has another CAK
    WrongIcv,
    /// it is our own, sent back
    Own,
    /// another participant uses our SCI
    OwnSci,
    /// another participant uses our member identifier
    OwnMember,
    /// its message number was seen before, or is older than the last one heard
    Replayed,
    /// its sender's SCI has changed
    OtherSci,
    /// the maximum number of peers is reached
    TooMany,
}

impl Dropped {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::Malformed,
        Self::OtherAlgorithm,
        Self::OtherName,
        Self::WrongIcv,
        Self::Own,
        Self::OwnSci,
        Self::OwnMember,
        Self::Replayed,
        Self::OtherSci,
        Self::TooMany,
    ];

    /// The counter's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::OtherAlgorithm => "other-algorithm",
            Self::OtherName => "other-ckn",
            Self::WrongIcv => "wrong-icv",
            Self::Own => "own",
            Self::OwnSci => "own-sci",
            Self::OwnMember => "own-member",
            Self::Replayed => "replayed",
            Self::OtherSci => "other-sci",
            Self::TooMany => "too-many-peers",
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not a valid MKPDU",
            Self::OtherAlgorithm => "protected by other algorithms",
            Self::OtherName => "of another connectivity association",
            Self::WrongIcv => "wrong ICV",
            Self::Own => "our own, sent back",
            Self::OwnSci => "from another with our SCI",
            Self::OwnMember => "from another with our member identifier",
            Self::Replayed => "seen before",
            Self::OtherSci => "its sender's SCI has changed",
            Self::TooMany => "too many peers",
        })
    }
}

impl core::error::Error for Dropped {}

/// The number of refused MKPDUs, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refusals([u64; Dropped::ALL.len()]);

impl Refusals {
    pub(super) fn count(&mut self, reason: Dropped) {
        let place = Dropped::ALL.iter().position(|other| *other == reason);
        if let Some(count) = place.and_then(|place| self.0.get_mut(place)) {
            *count += 1;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// The number of refusals for a reason.
    pub fn of(&self, reason: Dropped) -> u64 {
        self.named().find(|(known, _)| *known == reason).map_or(0, |(_, count)| count)
    }

    /// Every reason with its count.
    pub fn named(&self) -> impl Iterator<Item = (Dropped, u64)> + '_ {
        Dropped::ALL.into_iter().zip(self.0)
    }
}

/// The reason why a participant uses no key, although it has peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// another member has our SCI, so neither may send
    SameSci,
    /// the key server requires a cipher suite that is not permitted here
    OtherSuite([u8; 8]),
    /// the key server and we disagree on encryption
    OtherConfidentiality,
    /// the key server requires unprotected frames
    Unprotected,
    /// the key server's key was not wrapped with this CAK
    NotUnwrapped,
    /// the key server already transmits with the key it distributes
    KeyInUse,
    /// the key server distributes a key that we had before
    OldKey,
    /// the key server does not number short SCIs in the order of the SCIs
    OtherShortScis,
    /// no cipher suite is permitted by all members
    NoCommonSuite,
    /// no member may be the key server
    NoServer,
    /// there are more than two members, and frames do not carry an SCI
    NotAPair,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameSci => f.write_str("another member sends under this SCI: give each its own"),
            Self::OtherSuite(suite) => {
                f.write_str("the key server wants a cipher suite that is not allowed here: ")?;
                if let Some(known) = CipherSuite::from_identifier(*suite) {
                    return known.fmt(f);
                }
                antedate_wire::Hex(suite).fmt(f)
            }
            Self::OtherConfidentiality => {
                f.write_str("the key server and this participant differ about encryption")
            }
            Self::Unprotected => f.write_str("the key server wants frames to be unprotected"),
            Self::NotUnwrapped => f.write_str("the key server's key cannot be unwrapped"),
            Self::KeyInUse => f.write_str("the key server offers a key that is in use already"),
            Self::OldKey => f.write_str(
                "the key server offers a key that was used before, so packet numbers would repeat: give all members a new CAK",
            ),
            Self::OtherShortScis => f.write_str(
                "the key server numbers the members otherwise than by their SCIs: choose a cipher without xpn",
            ),
            Self::NoCommonSuite => {
                f.write_str("there is no cipher suite that all members may use: see cipher in [macsec]")
            }
            Self::NoServer => f.write_str("every member has priority 255, so nobody distributes keys"),
            Self::NotAPair => {
                f.write_str("there are more than two members, so frames must say whose they are: remove include_sci = false")
            }
        }
    }
}

/// Another participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// its secure channel
    pub sci: Sci,
    /// the source address of its MKPDUs
    pub address: EthernetAddress,
    /// its member identifier
    pub member: MemberIdentifier,
    /// the number of its last MKPDU
    pub message: u32,
    /// its priority as a key server
    pub priority: u8,
    /// whether it is live
    pub live: bool,
    /// whether it is the key server
    pub key_server: bool,
    /// whether it receives with the latest key
    pub receives: bool,
    /// whether it transmits with the latest key
    pub transmits: bool,
    /// whether it is a gateway of this project
    pub antedate: bool,
    /// whether it reassembles fragments
    pub fragments: bool,
    /// the channels that it transmits on: that of `sci`, and those of the next port numbers
    pub channels: u8,
    /// the most channels of another member that it receives on
    pub takes_channels: u8,
    /// the destination by which it heard us last
    pub reached_by: Option<EthernetAddress>,
    /// time since its last MKPDU
    pub silent: Duration,
}

/// A key in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyStatus {
    /// its identifier
    pub key: KeyIdentifier,
    /// its association number
    pub an: An,
    /// its cipher suite
    pub suite: CipherSuite,
    /// whether frames are received with it
    pub receives: bool,
    /// whether frames are protected with it
    pub transmits: bool,
    /// its age
    pub age: Duration,
}

/// The state of a participant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// its member identifier
    pub member: MemberIdentifier,
    /// the number of its last MKPDU
    pub message: u32,
    /// its secure channel
    pub sci: Sci,
    /// its priority as a key server
    pub priority: u8,
    /// the key server's secure channel
    pub key_server: Option<Sci>,
    /// whether it is the key server itself
    pub is_key_server: bool,
    /// the latest and the old key
    pub keys: [Option<KeyStatus>; 2],
    /// the others
    pub members: Vec<Member>,
    /// whether every live member reassembles fragments
    pub all_reassemble: bool,
    /// the channels that this participant may transmit on
    pub channels: u8,
    /// the channels that frames may be sent in: all of this participant if each member that keys are
    /// made for takes as many, otherwise the first one
    pub channels_in_use: u8,
    /// the destinations by which the live members hear us
    pub destinations: Vec<EthernetAddress>,
    /// MKPDUs sent
    pub sent: u64,
    /// MKPDUs received and accepted
    pub received: u64,
    /// MKPDUs refused
    pub refused: Refusals,
    /// keys distributed or accepted since the start
    pub fresh_keys: u64,
    /// the reason why it uses no key
    pub fault: Option<Fault>,
}

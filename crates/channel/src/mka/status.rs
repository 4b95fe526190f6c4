//! What a participant tells of itself, and why it refuses an MKPDU.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use antedate_wire::macsec::An;
use antedate_wire::mka::{KeyIdentifier, MemberIdentifier};
use antedate_wire::{EthernetAddress, Sci};

use crate::macsec::CipherSuite;

/// Why an MKPDU was refused. It has changed nothing then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refused {
    /// it is no MKPDU, or not a valid one
    Malformed,
    /// it is protected by other algorithms
    OtherAlgorithm,
    /// it is of another connectivity association
    OtherName,
    /// its ICV is wrong: it was changed, or its sender has another CAK
    WrongIcv,
    /// it is our own, sent back
    Own,
    /// somebody else has our SCI
    OwnSci,
    /// somebody else has our member identifier
    OwnMember,
    /// its message number was seen before, or it is older than what was heard
    Replayed,
    /// its sender's SCI has changed
    OtherSci,
    /// there are as many peers as there may be
    TooMany,
}

impl Refused {
    /// All of them.
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

    /// A name for counters.
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

impl fmt::Display for Refused {
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

impl core::error::Error for Refused {}

/// How many MKPDUs were refused, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refusals([u64; Refused::ALL.len()]);

impl Refusals {
    pub(super) fn count(&mut self, reason: Refused) {
        let place = Refused::ALL.iter().position(|other| *other == reason);
        if let Some(count) = place.and_then(|place| self.0.get_mut(place)) {
            *count += 1;
        }
    }

    /// How often it happened.
    pub fn of(&self, reason: Refused) -> u64 {
        self.named().find(|(known, _)| *known == reason).map_or(0, |(_, count)| count)
    }

    /// Every reason with its count.
    pub fn named(&self) -> impl Iterator<Item = (Refused, u64)> + '_ {
        Refused::ALL.into_iter().zip(self.0)
    }
}

/// What keeps a participant from using a key, though there are others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// another member sends under our SCI, so neither may
    SameSci,
    /// the key server wants a cipher suite that is not allowed here
    OtherSuite([u8; 8]),
    /// the key server wants frames to be encrypted where we do not, or the other way round
    OtherConfidentiality,
    /// the key server wants frames to be unprotected
    Unprotected,
    /// the key server's key was not wrapped with this CAK
    NotUnwrapped,
    /// the key server already transmits with the key that it gives us
    KeyInUse,
    /// the key server does not give out short SCIs in the order of the SCIs
    OtherShortScis,
    /// there is no cipher suite that all members may use
    NoCommonSuite,
    /// nobody may be the key server
    NoServer,
    /// there are more than two members, and frames do not say whose they are
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
                suite.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
            }
            Self::OtherConfidentiality => {
                f.write_str("the key server and this participant differ about encryption")
            }
            Self::Unprotected => f.write_str("the key server wants frames to be unprotected"),
            Self::NotUnwrapped => f.write_str("the key server's key cannot be unwrapped"),
            Self::KeyInUse => f.write_str("the key server offers a key that is in use already"),
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
    /// where its MKPDUs come from
    pub address: EthernetAddress,
    /// its member identifier
    pub member: MemberIdentifier,
    /// the number of its last MKPDU
    pub message: u32,
    /// its priority as a key server
    pub priority: u8,
    /// it is proven to be alive
    pub live: bool,
    /// it is the key server
    pub key_server: bool,
    /// it receives with the latest key
    pub receives: bool,
    /// it transmits with the latest key
    pub transmits: bool,
    /// it is a gateway of this project
    pub antedate: bool,
    /// it reassembles fragments
    pub fragments: bool,
    /// how long ago it was heard
    pub silent: Duration,
}

/// A key in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyStatus {
    /// which
    pub key: KeyIdentifier,
    /// under which association number
    pub an: An,
    /// for which cipher suite
    pub suite: CipherSuite,
    /// frames are received with it
    pub receives: bool,
    /// frames are protected with it
    pub transmits: bool,
    /// how long it is here
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
    /// it is the key server itself
    pub is_key_server: bool,
    /// the latest and the old key
    pub keys: [Option<KeyStatus>; 2],
    /// the others
    pub members: Vec<Member>,
    /// every live member reassembles fragments
    pub all_reassemble: bool,
    /// MKPDUs sent
    pub sent: u64,
    /// MKPDUs received and believed
    pub received: u64,
    /// MKPDUs refused
    pub refused: Refusals,
    /// keys distributed or taken up since the start
    pub fresh_keys: u64,
    /// what keeps it from using a key
    pub fault: Option<Fault>,
}

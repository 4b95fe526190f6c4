//! What receive channels are made of, and what their callers are told.

use core::fmt;

use super::super::suite::CipherSuite;
use super::super::{An, Sci, SecTagError};
use crate::fragment::Refused;
use crate::replay::Refusal;

/// What is done with frames that are not proven genuine (validateFrames, clause 10.7.8).
///
/// With any other than `Strict`, frames come out that nobody has authenticated. The other two exist for the time in which a
/// network is converted to MACsec, and are named only in a configuration that asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ValidateFrames {
    /// They are discarded.
    #[default]
    Strict,
    /// They are counted, and delivered if they are readable.
    Check,
    /// Nothing is validated; what is readable is delivered.
    Disabled,
}

/// Receive secure channels to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveConfig {
    /// the cipher suite
    pub suite: CipherSuite,
    /// what is done with frames that are not proven genuine
    pub validate: ValidateFrames,
    /// are replayed frames discarded?
    pub replay_protect: bool,
    /// how many packet numbers a frame may come late, at most [`MAX_WINDOW`](crate::replay::MAX_WINDOW)
    pub replay_window: u32,
    /// how many peers there may be
    pub max_peers: usize,
}

impl ReceiveConfig {
    /// Strict validation, replay protection without a window, up to 16 peers.
    pub const fn new(suite: CipherSuite) -> Self {
        Self {
            suite,
            validate: ValidateFrames::Strict,
            replay_protect: true,
            replay_window: 0,
            max_peers: 16,
        }
    }
}

/// Why a peer was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerError {
    /// there are as many peers as the configuration allows
    TooMany,
    /// there is a peer with this SCI
    Known,
    /// an XPN suite needs a short SCI
    SsciMissing,
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooMany => "there are as many peers as the configuration allows",
            Self::Known => "there is a peer with this SCI already",
            Self::SsciMissing => "an XPN cipher suite needs a short SCI",
        })
    }
}

impl core::error::Error for PeerError {}

/// Why a key was not installed. Nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveInstallError {
    /// no peer has this SCI
    UnknownSci,
    /// the key is for another cipher suite
    OtherSuite,
    /// an XPN suite needs a short SCI
    SsciMissing,
    /// there are as many peers as the configuration allows
    TooManyPeers,
}

impl fmt::Display for ReceiveInstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownSci => "no peer has this SCI",
            Self::OtherSuite => "the key is for another cipher suite",
            Self::SsciMissing => "an XPN cipher suite needs a short SCI",
            Self::TooManyPeers => "there are as many peers as the configuration allows",
        })
    }
}

impl core::error::Error for ReceiveInstallError {}

/// Why a frame was discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Discard {
    /// it has no SecTAG
    NoTag,
    /// it is an EAPOL PDU, which is for the uncontrolled port: key agreement hears it there
    Uncontrolled,
    /// its SecTAG or its length is invalid
    BadTag(SecTagError),
    /// E is set without C, which is reserved for frames that are not for the controlled port
    ReservedEncoding,
    /// its packet number is 0
    ZeroPacketNumber,
    /// nobody with its SCI is a peer
    UnknownSci,
    /// its peer has no key under its association number
    NotUsingSa,
    /// its packet number is below the lowest acceptable one
    Late,
    /// its packet number was received before
    Duplicate,
    /// its ICV is wrong
    NotValid,
    /// it does not fit the output
    OutputTooSmall,
    /// it is genuine, and a fragment that no frame can be made of
    Fragment(Refused),
}

impl Discard {
    /// The counter that was raised.
    pub const fn counter(self) -> &'static str {
        match self {
            Self::NoTag => "InPktsNoTag",
            Self::Uncontrolled => "InPktsUncontrolled",
            Self::BadTag(_) | Self::ReservedEncoding | Self::ZeroPacketNumber => "InPktsBadTag",
            Self::UnknownSci => "InPktsNoSCI",
            Self::NotUsingSa => "InPktsNotUsingSA",
            Self::Late | Self::Duplicate => "InPktsLate",
            Self::NotValid => "InPktsNotValid",
            Self::OutputTooSmall => "InDiscardedTooLong",
            Self::Fragment(why) => why.counter(),
        }
    }
}

impl fmt::Display for Discard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTag => "no SecTAG",
            Self::Uncontrolled => "for the uncontrolled port",
            Self::BadTag(reason) => return reason.fmt(f),
            Self::ReservedEncoding => "not for the controlled port",
            Self::ZeroPacketNumber => "packet number 0",
            Self::UnknownSci => "unknown secure channel",
            Self::NotUsingSa => "secure association not in use",
            Self::Late => "packet number too low",
            Self::Duplicate => "packet number received before",
            Self::NotValid => "wrong ICV",
            Self::OutputTooSmall => "too long for the output",
            Self::Fragment(why) => return why.fmt(f),
        })
    }
}

impl core::error::Error for Discard {}

impl From<Refusal> for Discard {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Late => Self::Late,
            Refusal::Duplicate => Self::Duplicate,
        }
    }
}

/// The state of a receive association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveSaStatus {
    /// the channel
    pub sci: Sci,
    /// the association number
    pub an: An,
    /// one above the highest packet number received. What shall not be accepted again after a restart is all below.
    pub next_pn: u64,
    /// the lowest acceptable packet number
    pub lowest_pn: u64,
    /// packet numbers that lie prepared
    pub prepared: usize,
}

//! Configuration, results and status of receive channels.

use core::fmt;

use super::super::suite::CipherSuite;
use super::super::{An, Sci, SecTagError};
use crate::fragment::Dropped;
use crate::replay::ReplayError;

/// The treatment of frames that are not proven genuine (validateFrames, clause 10.7.8).
///
/// All modes but `Strict` deliver unauthenticated frames. They exist for the migration of a network
/// to MACsec and must be requested explicitly in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ValidateFrames {
    /// Discards them.
    #[default]
    Strict,
    /// Counts them, and delivers the readable ones.
    Check,
    /// Validates nothing, and delivers readable frames.
    Disabled,
}

/// Configuration of receive secure channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveConfig {
    /// the cipher suite
    pub suite: CipherSuite,
    /// the treatment of frames that are not proven genuine
    pub validate: ValidateFrames,
    /// whether replayed frames are discarded
    pub replay_protect: bool,
    /// the most packet numbers that a frame may be late by, at most
    /// [`MAX_WINDOW`](crate::replay::MAX_WINDOW)
    pub replay_window: u32,
    /// the most peers
    pub max_peers: usize,
    /// whether each frame comes by two paths, so that its copy is no replay
    pub two_paths: bool,
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
            two_paths: false,
        }
    }
}

/// The reason for not adding a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerError {
    /// the configured number of peers is reached
    TooMany,
    /// a peer with this SCI exists
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

/// The reason for not installing a key. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveInstallError {
    /// no peer has this SCI
    UnknownSci,
    /// the key is for another cipher suite
    OtherSuite,
    /// an XPN suite needs a short SCI
    SsciMissing,
    /// the configured number of peers is reached
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

/// The reason for discarding a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Discard {
    /// it has no SecTAG
    NoTag,
    /// it is an EAPOL PDU, which is for key agreement on the uncontrolled port
    Uncontrolled,
    /// its SecTAG or its length is invalid
    BadTag(SecTagError),
    /// E is set without C, which is reserved for frames that are not for the controlled port
    ReservedEncoding,
    /// its packet number is 0
    ZeroPacketNumber,
    /// no peer has its SCI
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
    /// it is authentic, and a fragment that fits no frame
    Fragment(Dropped),
}

impl Discard {
    /// The name of the reason's counter.
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

impl From<ReplayError> for Discard {
    fn from(refusal: ReplayError) -> Self {
        match refusal {
            ReplayError::Late => Self::Late,
            ReplayError::Duplicate => Self::Duplicate,
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
    /// one above the highest packet number received: everything below must be refused after a
    /// restart
    pub next_pn: u64,
    /// the lowest acceptable packet number
    pub lowest_pn: u64,
    /// prepared packet numbers
    pub prepared: usize,
}

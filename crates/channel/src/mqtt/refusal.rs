//! Reasons for not delivering a message.

use alloc::string::String;
use core::fmt;

use super::envelope::EnvelopeError;
use super::{Algorithm, topic};

/// The reason for not delivering a message on a protected topic. No reason depends on the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dropped {
    /// It is not an envelope, but plaintext or another format.
    NotEnvelope(EnvelopeError),
    /// It is sealed with an algorithm that this group does not use.
    Algorithm {
        /// Its number.
        given: i64,
        /// The group's.
        expected: Algorithm,
    },
    /// Its key's epoch is unknown to this member.
    UnknownEpoch {
        /// The epoch.
        epoch: u32,
        /// The newest epoch of this member.
        newest: Option<u32>,
    },
    /// Its key's epoch has ended.
    OldEpoch {
        /// The epoch.
        epoch: u32,
        /// The newest epoch.
        newest: u32,
    },
    /// The group does not permit this publisher.
    NotPublisher {
        /// Its name.
        publisher: String,
    },
    /// It is not authentic: changed in transit, or sealed with another key.
    Unauthentic {
        /// The named publisher.
        publisher: String,
        /// The named epoch.
        epoch: u32,
    },
    /// It was sealed for another topic and moved here.
    Moved {
        /// The original topic.
        from: String,
    },
    /// It names another publisher than the one that sealed it.
    Impersonated {
        /// The named publisher.
        named: String,
        /// The actual publisher.
        by: String,
    },
    /// The number was received before.
    Repeated {
        /// The sequence number.
        sequence: u64,
    },
    /// The number is older than the window.
    Late {
        /// The sequence number.
        sequence: u64,
        /// The lowest acceptable number.
        lowest: u64,
    },
    /// It was sealed too long ago for its topic, or in the future.
    Stale {
        /// The seconds since then, below 0 in the future.
        age: i64,
        /// The most.
        max_age: u32,
    },
    /// Its topic demands a time of sealing, and it has none.
    Undated,
    /// Its topic demands its publisher's signature, and it has none that is right.
    Unsigned {
        /// The named publisher.
        publisher: String,
    },
    /// There are too many publishers and topics to remember.
    Crowded,
    /// The topic cannot be published on.
    Topic(topic::TopicError),
}

impl Dropped {
    /// A short name for counters.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotEnvelope(_) => "not-envelope",
            Self::Algorithm { .. } => "algorithm",
            Self::UnknownEpoch { .. } => "unknown-epoch",
            Self::OldEpoch { .. } => "old-epoch",
            Self::NotPublisher { .. } => "not-publisher",
            Self::Unauthentic { .. } => "unauthentic",
            Self::Moved { .. } => "moved",
            Self::Impersonated { .. } => "impersonated",
            Self::Repeated { .. } => "repeated",
            Self::Late { .. } => "late",
            Self::Stale { .. } => "stale",
            Self::Undated => "undated",
            Self::Unsigned { .. } => "unsigned",
            Self::Crowded => "crowded",
            Self::Topic(_) => "topic",
        }
    }

    /// The remedy.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::NotEnvelope(_) => {
                "let only holders of the key publish here (antedate mqtt acl), or take the topic out of the group"
            }
            Self::Algorithm { .. } => "give all members the same group file",
            Self::UnknownEpoch { .. } => {
                "wait for the rotation message, or copy the group file of the others to this device"
            }
            Self::OldEpoch { .. } => "let the publisher catch up with the rotation",
            Self::NotPublisher { .. } => "name it among the group's publishers if it is one",
            Self::Unauthentic { .. } => {
                "compare the group files of both ends; if they are the same, somebody changes messages"
            }
            Self::Moved { .. } | Self::Impersonated { .. } => "look who may publish at the broker",
            Self::Repeated { .. } | Self::Late { .. } => {
                "none is needed: the message came before, or a retained one came again"
            }
            Self::Stale { .. } => {
                "send it again if it still holds; if it was sent just now, set the clocks of both ends"
            }
            Self::Unsigned { .. } => {
                "give both ends the group file with this [[signed]] and the publisher's verify key; if they have it, a member speaks for another"
            }
            Self::Undated => "give the publisher the group file with this [[fresh]] too",
            Self::Crowded => "split the group by topics",
            Self::Topic(_) => "publish on a topic without wildcards",
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEnvelope(why) => write!(f, "not a protected payload: {why}"),
            Self::Algorithm { given, expected } => {
                write!(
                    f,
                    "sealed with algorithm {given}, but the group uses {expected} ({})",
                    expected.number()
                )
            }
            Self::UnknownEpoch { epoch, newest: Some(newest) } => {
                write!(f, "the key of epoch {epoch} is not known here, {newest} is the newest")
            }
            Self::UnknownEpoch { epoch, newest: None } => {
                write!(f, "no key is known here yet, epoch {epoch} is needed")
            }
            Self::OldEpoch { epoch, newest } => write!(f, "epoch {epoch} is over, {newest} is in use"),
            Self::NotPublisher { publisher } => write!(f, "{publisher:?} is no publisher of the group"),
            Self::Unauthentic { publisher, epoch } => {
                write!(f, "not authentic under the key of {publisher:?} in epoch {epoch}")
            }
            Self::Moved { from } => write!(f, "sealed for the topic {from:?} and moved here"),
            Self::Impersonated { named, by } => {
                write!(f, "names {named:?} as its publisher, but {by:?} sealed it")
            }
            Self::Repeated { sequence } => write!(f, "sequence number {sequence} was received before"),
            Self::Late { sequence, lowest } => {
                write!(f, "sequence number {sequence} is too old, the lowest to come is {lowest}")
            }
            Self::Stale { age: age @ 0.., max_age } => {
                write!(f, "sealed {age} s ago, and messages of this topic are refused after {max_age} s")
            }
            Self::Stale { age, .. } => write!(f, "sealed {} s in the future", age.unsigned_abs()),
            Self::Unsigned { publisher } => write!(f, "not signed by {publisher:?}, as its topic demands"),
            Self::Undated => f.write_str("it has no time of sealing, which its topic demands"),
            Self::Crowded => f.write_str("too many publishers and topics to remember their numbers"),
            Self::Topic(why) => write!(f, "{why}"),
        }
    }
}

impl core::error::Error for Dropped {}

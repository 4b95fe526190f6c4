//! The contents of an MKPDU for a holder of the CAK who is no member, such as a reader of captures.

use alloc::vec::Vec;

use antedate_wire::macsec::{An, Sci};
use antedate_wire::mka::{ALGORITHM_AGILITY, DistributedSak, KeyIdentifier, MemberIdentifier, Repr};

use super::keys::{Cak, salt};
use crate::macsec::{CHANNELS_MAX, CipherSuite, Sak};

/// An authentic MKPDU of an association.
#[derive(Debug)]
pub struct Overheard {
    /// the sender
    pub sci: Sci,
    /// the channels that it transmits on: that of `sci`, and those of the next port numbers
    pub channels: u8,
    /// its member identifier
    pub member: MemberIdentifier,
    /// its message number
    pub message: u32,
    /// the key that it distributes
    pub sak: Option<(KeyIdentifier, An, Sak)>,
    /// the sender and the members that it calls live, who use that key
    pub users: Vec<MemberIdentifier>,
}

impl Overheard {
    /// Reads a frame. `None` if it is no MKPDU that a holder of this CAK made.
    pub fn read(cak: &Cak, frame: &[u8]) -> Option<Self> {
        let parsed = Repr::parse(frame).ok()?;
        let basic = parsed.repr.basic;
        let named = basic.ckn == cak.name().as_bytes() && basic.algorithm_agility == ALGORITHM_AGILITY;
        if !named || !cak.verify(parsed.covered, parsed.icv) {
            return None;
        }
        let sak = match parsed.repr.distributed_sak {
            Some(DistributedSak::Sak(wrapped)) => {
                let key = KeyIdentifier { server: basic.member, number: wrapped.number };
                let identifier = wrapped.suite.unwrap_or(CipherSuite::GcmAes128.identifier());
                let suite = CipherSuite::from_identifier(identifier);
                suite.zip(cak.unwrap(wrapped.wrapped)).and_then(|(suite, secret)| {
                    let salt = suite.is_xpn().then(|| salt(key));
                    Some((key, wrapped.an, Sak::new(suite, secret.as_bytes(), salt).ok()?))
                })
            }
            _ => None,
        };
        let live = parsed.repr.live.map(|list| list.peers().map(|(member, _)| member));
        let users = live.into_iter().flatten().chain([basic.member]).collect();
        let channels = parsed.repr.announcement.and_then(|announcement| announcement.channels());
        let further = channels.map_or(0, |channels| channels.further().take(CHANNELS_MAX.into()).count());
        let channels = (1 + further as u8).min(CHANNELS_MAX);
        Some(Self { sci: basic.sci, channels, member: basic.member, message: basic.message, sak, users })
    }
}

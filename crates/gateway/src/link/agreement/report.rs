//! Key agreement in the document of `antedate gateway status` and in the log.

use std::collections::BTreeMap;

use antedate_channel::mka::{CakStatus, Ckn, KeyIdentifier, Member, Status};
use antedate_host::hex::hex;
use antedate_wire::{EthernetAddress, Sci};

use super::Seen;
use crate::run::status::{Agreement, AgreementCak, AgreementKey, AgreementMember};

fn member(member: &Member) -> AgreementMember {
    AgreementMember {
        sci: member.sci.to_string(),
        address: member.address.to_string(),
        member: member.member.to_string(),
        priority: member.priority,
        live: member.live,
        key_server: member.key_server,
        receives: member.receives,
        transmits: member.transmits,
        antedate: member.antedate,
        fragments: member.fragments,
        channels: member.channels.into(),
        takes_channels: member.takes_channels.into(),
        hears_by: member.reached_by.map(|to| to.to_string()).unwrap_or_default(),
        silent_seconds: member.silent.as_secs_f64(),
    }
}

fn cak(cak: &CakStatus) -> AgreementCak {
    AgreementCak {
        ckn: hex(cak.name.as_bytes()),
        priority: cak.priority,
        carries: cak.carries,
        rests: cak.rests,
        removed: cak.removed,
        members: cak.members.iter().map(member).collect(),
        fault: cak.fault.map(|fault| fault.to_string()).unwrap_or_default(),
    }
}

/// Key agreement's part of the status.
#[must_use]
pub fn document(Seen { status, caks }: &Seen) -> Agreement {
    let keys = status.keys.iter().flatten().map(|key| AgreementKey {
        key: hex(&key.key.octets()),
        an: key.an.number(),
        suite: key.suite.name().to_owned(),
        receives: key.receives,
        transmits: key.transmits,
        age_seconds: key.age.as_secs_f64(),
    });
    let refused = status.refused.named().filter(|(_, count)| *count > 0);
    Agreement {
        member: status.member.to_string(),
        priority: status.priority,
        key_server: status.key_server.map(|sci| sci.to_string()).unwrap_or_default(),
        is_key_server: status.is_key_server,
        keys: keys.collect(),
        members: status.members.iter().map(member).collect(),
        caks: caks.iter().map(cak).collect(),
        all_reassemble: status.all_reassemble,
        channels: status.channels.into(),
        channels_in_use: status.channels_in_use.into(),
        fresh_keys: status.fresh_keys,
        sent: status.sent,
        received: status.received,
        refused: refused.map(|(reason, count)| (reason.name().to_owned(), count)).collect::<BTreeMap<_, _>>(),
        fault: status.fault.map(|fault| fault.to_string()).unwrap_or_default(),
    }
}

/// Addresses in one line.
pub(super) fn joined(addresses: &[EthernetAddress]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The state of the log, so that each event is logged once.
#[derive(Debug, Default)]
pub(super) struct Said {
    carries: Option<Ckn>,
    live: Vec<Sci>,
    key_server: Option<Sci>,
    transmits: Option<KeyIdentifier>,
    destinations: Vec<EthernetAddress>,
    /// The live members that take fewer channels than there are.
    narrow: Vec<Sci>,
    /// Whether it was logged that the kernel does not share frames anew.
    not_spread: bool,
    /// Whether the warning about fragments with one mark was logged.
    unmarked: bool,
}

impl Said {
    /// The warning about fragments with one mark, which only two members can use without loss.
    pub(super) fn unmarked(&mut self, status: &Status) -> Option<&'static str> {
        let many = status.members.iter().filter(|member| member.live).count() > 1;
        let said = std::mem::replace(&mut self.unmarked, many);
        (many && !said).then_some(
            "fragmentation = true among more than two members: a switch sends each only some of the frames, and behind each gap one \
             more is refused as it may be the rest of another; remove the line in [macsec] of all gateways, or write \"marked\"",
        )
    }

    /// Logs once that the kernel does not share frames anew among the workers.
    pub(super) fn not_spread(&mut self, error: &std::io::Error) {
        if !std::mem::replace(&mut self.not_spread, true) {
            tracing::warn!(%error, "frames are not shared anew among the workers; trying again, see run.workers");
        }
    }

    /// Logs the number of channels in use.
    pub(super) fn channels(&mut self, status: &Status) {
        self.not_spread = false;
        let channels = status.channels;
        if status.channels_in_use == channels {
            tracing::info!(channels, "all members take each worker's channel: all workers send");
            self.narrow.clear();
        } else if let Some(members) = self.narrow(status) {
            tracing::warn!(
                members,
                channels,
                "one worker sends, and all receive: members take fewer channels, see takes_channels in `antedate gateway status`"
            );
        }
    }

    /// The live members that take fewer channels than there are, if these are others than the last
    /// time.
    fn narrow(&mut self, status: &Status) -> Option<String> {
        let narrow = status.members.iter().filter(|member| member.live);
        let narrow = narrow.filter(|member| member.takes_channels < status.channels);
        let narrow: Vec<Sci> = narrow.map(|member| member.sci).collect();
        let new = !narrow.is_empty() && self.narrow != narrow;
        self.narrow = narrow;
        let members = self.narrow.iter().map(ToString::to_string);
        new.then(|| members.collect::<Vec<_>>().join(", "))
    }

    /// Logs changes.
    pub(super) fn changes(&mut self, status: &Status, caks: &[CakStatus]) {
        let carries = caks.iter().find(|cak| cak.carries).map(|cak| cak.name);
        if let Some(name) = carries.filter(|name| self.carries.is_some_and(|before| before != *name)) {
            tracing::info!(ckn = %hex(name.as_bytes()), "another CAK carries: frames are protected with its keys");
        }
        self.carries = carries.or(self.carries);
        let live: Vec<Sci> =
            status.members.iter().filter(|member| member.live).map(|member| member.sci).collect();
        for sci in live.iter().filter(|sci| !self.live.contains(sci)) {
            tracing::info!(member = %sci, "a member has come");
        }
        for sci in self.live.iter().filter(|sci| !live.contains(sci)) {
            tracing::warn!(member = %sci, "a member is gone");
        }
        self.live = live;
        if !self.live.is_empty() && self.key_server != status.key_server {
            self.key_server = status.key_server;
            if let Some(sci) = status.key_server {
                tracing::info!(key_server = %sci, own = status.is_key_server, "a key server is elected");
            }
        }
        let key = status.keys.iter().flatten().find(|key| key.transmits);
        if self.transmits != key.map(|key| key.key) {
            self.transmits = key.map(|key| key.key);
            match key {
                Some(key) => {
                    tracing::info!(an = %key.an, number = key.key.number, suite = %key.suite, "frames are protected with a fresh key");
                }
                None => tracing::warn!("there is no key: nothing passes until members agree on one"),
            }
        }
        if self.destinations != status.destinations {
            self.destinations.clone_from(&status.destinations);
            if !self.destinations.is_empty() {
                tracing::info!(by = %joined(&self.destinations), "the members hear this gateway");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use antedate_channel::mka::{Cak, Config, Member, MemberIdentifier, Participant};

    use super::*;

    fn live(number: u8) -> Member {
        Member {
            sci: Sci([2, 0, 0, 0, 0, number, 0, 1]),
            address: EthernetAddress([2, 0, 0, 0, 0, number]),
            member: MemberIdentifier([number; 12]),
            message: 1,
            priority: 1,
            live: true,
            key_server: false,
            receives: true,
            transmits: true,
            antedate: true,
            fragments: true,
            channels: 1,
            takes_channels: 8,
            reached_by: None,
            silent: Duration::ZERO,
        }
    }

    #[test]
    fn unmarked_fragments_are_reported_once() {
        let cak = Cak::new(&[0; 16], b"a").expect("a key");
        let config = Config::new(Sci([2, 0, 0, 0, 0, 1, 0, 1]));
        let own = Participant::new(cak, config, &mut |octets| octets.fill(1));
        let (mut said, mut status) = (Said::default(), own.status(Duration::ZERO));
        status.members = vec![live(2), Member { live: false, ..live(3) }];
        assert_eq!(said.unmarked(&status), None, "who is not live may be a recording");
        status.members.push(live(4));
        assert!(said.unmarked(&status).is_some_and(|warning| warning.contains("\"marked\"")));
        assert_eq!(said.unmarked(&status), None);
    }

    #[test]
    fn narrow_members_are_named_once() {
        let cak = Cak::new(&[0; 16], b"a").expect("a key");
        let config = Config { channels: 4, ..Config::new(Sci([2, 0, 0, 0, 0, 1, 0, 1])) };
        let own = Participant::new(cak, config, &mut |octets| octets.fill(1));
        let (mut said, mut status) = (Said::default(), own.status(Duration::ZERO));
        assert_eq!((status.channels, status.channels_in_use), (4, 1));
        assert_eq!(said.narrow(&status), None, "nobody is there");
        status.members = vec![live(2), Member { takes_channels: 3, ..live(3) }];
        assert_eq!(said.narrow(&status).as_deref(), Some("0200000000030001"));
        assert_eq!(said.narrow(&status), None, "once");
        status.members[0].takes_channels = 1;
        assert_eq!(said.narrow(&status).as_deref(), Some("0200000000020001, 0200000000030001"));
        status.members.iter_mut().for_each(|member| member.live = false);
        assert_eq!(said.narrow(&status), None, "who is not live may be a recording");
    }
}

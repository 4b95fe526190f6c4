//! Key agreement in the document of `antedate gateway status` and in the log.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use antedate_channel::mka::{Dropped, Fault, KeyIdentifier, LIFE_TIME, Status};
use antedate_host::hex::hex;
use antedate_wire::Sci;

use crate::run::status::{Agreement, AgreementKey, AgreementMember};

/// Minimum interval of warnings about strangers.
const SELDOM: Duration = Duration::from_secs(60);
/// Reasons to drop MKPDUs of strangers, with the warning for the operator.
const STRANGE: [(Dropped, &str); 2] = [
    (
        Dropped::WrongIcv,
        "nobody here is a member, and MKPDUs with a wrong ICV come: their sender has another CAK under the same name; \
         copy one cak_file to all gateways",
    ),
    (
        Dropped::OtherName,
        "nobody here is a member, and MKPDUs of another name come: their sender has another CKN; copy one cak_file to \
         all gateways",
    ),
];

/// The participant's part of the status.
#[must_use]
pub fn document(status: &Status) -> Agreement {
    let members = status.members.iter().map(|member| AgreementMember {
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
        silent_seconds: member.silent.as_secs_f64(),
    });
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
        members: members.collect(),
        all_reassemble: status.all_reassemble,
        fresh_keys: status.fresh_keys,
        sent: status.sent,
        received: status.received,
        refused: refused.map(|(reason, count)| (reason.name().to_owned(), count)).collect::<BTreeMap<_, _>>(),
        fault: status.fault.map(|fault| fault.to_string()).unwrap_or_default(),
    }
}

/// The state of the log, so that each event is logged once.
#[derive(Debug, Default)]
pub(super) struct Said {
    live: Vec<Sci>,
    key_server: Option<Sci>,
    transmits: Option<KeyIdentifier>,
    fault: Option<Fault>,
    strangers: Strangers,
    /// Time of the last warning about the uplink's MTU.
    too_long: Option<Duration>,
    /// Whether the warning about fragments with one mark was logged.
    unmarked: bool,
}

/// Senders that are not members.
#[derive(Debug, Default)]
struct Strangers {
    /// Start of the time without a member.
    alone: Option<Duration>,
    /// The known counts of dropped MKPDUs.
    known: [u64; STRANGE.len()],
    warned: Option<Duration>,
}

impl Strangers {
    /// The warning about strangers while there is no member. They are probably meant to be members,
    /// and have another file.
    fn warning(&mut self, status: &Status, now: Duration) -> Option<&'static str> {
        let refused = STRANGE.map(|(reason, _)| status.refused.of(reason));
        if status.members.iter().any(|member| member.live) {
            *self = Self { alone: None, known: refused, warned: self.warned };
            return None;
        }
        let alone = *self.alone.get_or_insert(now);
        if now < alone + LIFE_TIME || self.warned.is_some_and(|at| now < at + SELDOM) {
            return None;
        }
        let more = self.known.iter().zip(refused).position(|(known, now)| now > *known)?;
        (self.known, self.warned) = (refused, Some(now));
        STRANGE.get(more).map(|(_, what)| *what)
    }
}

impl Said {
    /// The warning about an unsent MKPDU of this length, if the uplink's MTU is too small.
    pub(super) fn unsent(&mut self, error: &io::Error, len: usize, now: Duration) -> Option<String> {
        let seldom = self.too_long.is_none_or(|at| now >= at + SELDOM);
        if error.raw_os_error() != Some(libc::EMSGSIZE) || !seldom {
            return None;
        }
        self.too_long = Some(now);
        Some(format!(
            "an MKPDU of {len} octets is longer than the uplink carries, and none is fragmented: raise the uplink's MTU, or \
             there is no key"
        ))
    }

    /// The warning about fragments with one mark, which only two members can use without loss.
    pub(super) fn unmarked(&mut self, status: &Status) -> Option<&'static str> {
        let many = status.members.iter().filter(|member| member.live).count() > 1;
        let said = std::mem::replace(&mut self.unmarked, many);
        (many && !said).then_some(
            "fragmentation = true among more than two members: a switch sends each only some of the frames, and behind each gap one \
             more is refused as it may be the rest of another; remove the line in [macsec] of all gateways, or write \"marked\"",
        )
    }

    /// Logs changes.
    pub(super) fn changes(&mut self, status: &Status, now: Duration) {
        if let Some(warning) = self.strangers.warning(status, now) {
            tracing::warn!("{warning}");
        }
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
        if self.fault != status.fault {
            self.fault = status.fault;
            if let Some(fault) = status.fault {
                tracing::error!("{fault}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use antedate_channel::mka::{Action, Cak, Config, Member, MemberIdentifier, Participant};
    use antedate_wire::EthernetAddress;

    use super::*;

    /// MKPDUs of a sender with this key.
    fn mkpdus(cak: &[u8], name: &[u8], sci: u8) -> (Participant, Vec<Vec<u8>>) {
        let config = Config::new(Sci([2, 0, 0, 0, 0, sci, 0, 1]));
        let key = Cak::new(cak, name).expect("a key");
        let mut participant = Participant::new(key, config, &mut |octets| octets.fill(sci));
        let mut frames = Vec::new();
        for second in (0..200).step_by(2) {
            participant.tick(Duration::from_secs(second), &mut |octets| octets.fill(sci));
            while let Some(action) = participant.next_action() {
                if let Action::Send(frame) = action {
                    frames.push(frame);
                }
            }
        }
        (participant, frames)
    }

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
            silent: Duration::ZERO,
        }
    }

    #[test]
    fn strangers_are_reported_each_minute() {
        for (cak, name, what) in [([1; 16], "a", "another CAK"), ([0; 16], "b", "another CKN")] {
            let (mut own, _) = mkpdus(&[0; 16], b"a", 1);
            let (_, frames) = mkpdus(&cak, name.as_bytes(), 2);
            let (mut said, mut warnings) = (Strangers::default(), Vec::new());
            for (number, frame) in frames.iter().enumerate() {
                let now = Duration::from_secs(200 + 2 * number as u64);
                assert!(own.receive(now, frame).is_err());
                warnings.extend(said.warning(&own.status(now), now).map(|warning| (now, warning)));
            }
            let times: Vec<u64> = warnings.iter().map(|(now, _)| now.as_secs()).collect();
            assert_eq!(times, [206, 266, 326, 386]);
            assert!(
                warnings.iter().all(|(_, warning)| warning.contains(what) && warning.contains("cak_file"))
            );
            // No further MKPDUs.
            let end = Duration::from_secs(1000);
            assert!(said.warning(&own.status(end), end).is_some(), "of those since the last one");
            let end = Duration::from_secs(2000);
            assert_eq!(said.warning(&own.status(end), end), None);
        }
    }

    #[test]
    fn long_mkpdu_is_reported_each_minute() {
        let mut said = Said::default();
        let [too_long, down] = [libc::EMSGSIZE, libc::ENETDOWN].map(io::Error::from_raw_os_error);
        let mut at =
            |error: &io::Error, second| said.unsent(error, 214, Duration::from_secs(second)).is_some();
        assert_eq!(
            [at(&down, 1), at(&too_long, 2), at(&too_long, 61), at(&too_long, 62)],
            [false, true, false, true]
        );
    }

    #[test]
    fn unmarked_fragments_are_reported_once() {
        let (own, _) = mkpdus(&[0; 16], b"a", 1);
        let (mut said, mut status) = (Said::default(), own.status(Duration::ZERO));
        status.members = vec![live(2), Member { live: false, ..live(3) }];
        assert_eq!(said.unmarked(&status), None, "who is not live may be a recording");
        status.members.push(live(4));
        assert!(said.unmarked(&status).is_some_and(|warning| warning.contains("\"marked\"")));
        assert_eq!(said.unmarked(&status), None);
    }

    #[test]
    fn strangers_beside_members_are_ignored() {
        let (mut own, _) = mkpdus(&[0; 16], b"a", 1);
        let (_, frames) = mkpdus(&[1; 16], b"a", 2);
        let mut said = Strangers::default();
        let mut member = own.status(Duration::ZERO);
        for (number, frame) in frames.iter().enumerate() {
            let now = Duration::from_secs(200 + 2 * number as u64);
            assert!(own.receive(now, frame).is_err());
            member = own.status(now);
            member.members.push(live(3));
            assert_eq!(said.warning(&member, now), None);
        }
        // The member falls silent after the stranger: the earlier counts are not new.
        member.members.clear();
        for second in 400..500 {
            assert_eq!(said.warning(&member, Duration::from_secs(second)), None);
        }
    }
}

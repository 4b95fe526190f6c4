//! What is told of key agreement: the document of `antedate gateway status`, and lines of the log.

use std::collections::BTreeMap;

use antedate_channel::mka::{Fault, KeyIdentifier, Status};
use antedate_wire::Sci;

use crate::names::hex;
use crate::status::{Agreement, AgreementKey, AgreementMember};

/// The state of a participant as the status shows it.
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

/// What the log has said, so that it says each thing once.
#[derive(Debug, Default)]
pub(super) struct Said {
    live: Vec<Sci>,
    key_server: Option<Sci>,
    transmits: Option<KeyIdentifier>,
    fault: Option<Fault>,
}

impl Said {
    /// Logs what has changed.
    pub(super) fn changes(&mut self, status: &Status) {
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

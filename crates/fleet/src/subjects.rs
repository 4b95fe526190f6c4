//! Streams and subjects at NATS, and who may use them.
//!
//! | subject | stream | writes | reads |
//! | --- | --- | --- | --- |
//! | `fleet.request.ID` | `FLEET_REQUESTS` | anyone with an invitation | operator |
//! | `fleet.welcome.ID` | `FLEET_WELCOMES` | operator | anyone with an invitation |
//! | `fleet.document.ID` | `FLEET_DOCUMENTS` | operator | that device |
//! | `fleet.status.ID` | `FLEET_STATUS` | that device | operator |
//! | `fleet.event.ID` | `FLEET_EVENTS` | that device | operator |

/// A stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: &'static str,
    /// The first words of its subjects.
    pub prefix: &'static str,
    /// Messages that it keeps of each subject.
    pub per_subject: i64,
    /// The most octets of a message.
    pub message: usize,
    /// The most octets of all.
    pub octets: i64,
    /// Days for which it keeps messages, or 0 for ever.
    pub days: u64,
    /// Whether it refuses new messages when it is full. Others lose the oldest.
    pub refuses: bool,
}

/// Requests of devices that are no members yet.
pub const REQUESTS: Stream = Stream {
    name: "FLEET_REQUESTS",
    prefix: "fleet.request",
    per_subject: 1,
    message: crate::enrol::MAX_LEN,
    octets: 64 << 20,
    days: 7,
    refuses: true,
};
/// Answers to them.
pub const WELCOMES: Stream = Stream {
    name: "FLEET_WELCOMES",
    prefix: "fleet.welcome",
    per_subject: 1,
    message: 1 << 14,
    octets: 1 << 30,
    days: 90,
    refuses: true,
};
/// Documents of members.
pub const DOCUMENTS: Stream = Stream {
    name: "FLEET_DOCUMENTS",
    prefix: "fleet.document",
    per_subject: 1,
    message: crate::document::MAX_LEN,
    octets: 4 << 30,
    days: 0,
    refuses: true,
};
/// The last report of each member.
pub const STATUS: Stream = Stream {
    name: "FLEET_STATUS",
    prefix: "fleet.status",
    per_subject: 1,
    message: crate::report::MAX_LEN,
    octets: 1 << 30,
    days: 0,
    refuses: true,
};
/// Events of members.
pub const EVENTS: Stream = Stream {
    name: "FLEET_EVENTS",
    prefix: "fleet.event",
    per_subject: 1000,
    message: crate::report::MAX_LEN,
    octets: 1 << 30,
    days: 90,
    refuses: false,
};
/// All streams.
pub const ALL: [Stream; 5] = [REQUESTS, WELCOMES, DOCUMENTS, STATUS, EVENTS];

impl Stream {
    /// The subject of a device.
    #[must_use]
    pub fn subject(&self, id: &str) -> String {
        format!("{}.{id}", self.prefix)
    }

    /// The identifier in a subject of this stream.
    #[must_use]
    pub fn id<'a>(&self, subject: &'a str) -> Option<&'a str> {
        let id = subject.strip_prefix(self.prefix)?.strip_prefix('.')?;
        crate::identity::is_id(id).then_some(id)
    }

    /// The subject of a request for the last message of a device.
    #[must_use]
    pub fn last(&self, id: &str) -> String {
        format!("$JS.API.DIRECT.GET.{}.{}", self.name, self.subject(id))
    }
}

/// What a user of NATS may do. Nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects that it may publish to.
    pub publish: Vec<String>,
    /// Subjects that it may subscribe to.
    pub subscribe: Vec<String>,
}

/// The prefix of the subjects on which a user gets answers.
#[must_use]
pub fn inbox(user: &str) -> String {
    format!("_INBOX_{user}")
}

/// A member: reads its documents, and writes its reports.
#[must_use]
pub fn device(id: &str) -> Permissions {
    Permissions {
        publish: vec![DOCUMENTS.last(id), STATUS.subject(id), EVENTS.subject(id)],
        subscribe: vec![format!("{}.>", inbox(id)), DOCUMENTS.subject(id)],
    }
}

/// The user of invitations: asks, and reads the answers, which are encrypted.
#[must_use]
pub fn invited() -> Permissions {
    Permissions {
        publish: vec![REQUESTS.subject("*"), WELCOMES.last("*")],
        subscribe: vec![format!("{}.>", inbox("invited"))],
    }
}

/// The operator: all streams of the fleet. Without the signing key it makes no document.
#[must_use]
pub fn operator() -> Permissions {
    Permissions {
        publish: vec!["fleet.>".into(), "$JS.API.>".into(), "$JS.ACK.>".into()],
        subscribe: vec![format!("{}.>", inbox("operator")), "fleet.>".into()],
    }
}

/// A leaf node, for all devices behind it: what members and invitations may write, and all that may be
/// heard but [`hidden_from_leaf`].
#[must_use]
pub fn leaf() -> Permissions {
    let reads = |stream: &Stream| format!("$JS.API.DIRECT.GET.{}.>", stream.name);
    Permissions {
        publish: vec![
            REQUESTS.subject("*"),
            STATUS.subject("*"),
            EVENTS.subject("*"),
            reads(&DOCUMENTS),
            reads(&WELCOMES),
        ],
        // An inbox has its user's name in its first word.
        subscribe: vec!["*.>".into()],
    }
}

/// What a leaf node may not hear: reports and requests of others.
#[must_use]
pub fn hidden_from_leaf() -> Vec<String> {
    [REQUESTS, STATUS, EVENTS].iter().map(|stream| stream.subject(">")).collect()
}

/// A leaf node in the system account: hears which passes are void.
#[must_use]
pub fn leaf_system() -> Permissions {
    Permissions {
        publish: vec![format!("{}.>", inbox("system")), "$SYS.REQ.CLAIMS.PACK".into()],
        subscribe: vec!["$SYS.REQ.CLAIMS.UPDATE".into(), "$SYS._INBOX.>".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "abcdefghijklmnop";

    #[test]
    fn device_touches_its_own_subjects_only() {
        let Permissions { publish, subscribe } = device(ID);
        assert!(publish.iter().chain(&subscribe).all(|subject| subject.contains(ID)), "{publish:?}");
        assert!(!publish.contains(&DOCUMENTS.subject(ID)), "a device writes no document");
        assert!(publish.iter().all(|subject| !subject.contains(['*', '>'])), "{publish:?}");
    }

    #[test]
    fn leaf_writes_no_document() {
        let Permissions { publish, .. } = leaf();
        assert!(publish.iter().all(|subject| !subject.starts_with(&DOCUMENTS.subject(""))), "{publish:?}");
        // All that its devices may write, and no other part of JetStream.
        for subject in [device(ID).publish, invited().publish].concat() {
            let covers = |wide: &String| {
                let wide = wide.trim_end_matches(['*', '>']);
                subject.starts_with(wide)
            };
            assert!(publish.iter().any(covers), "{subject}");
        }
        assert!(hidden_from_leaf().contains(&"fleet.status.>".to_owned()));
    }

    #[test]
    fn identifier_is_read_from_a_subject() {
        assert_eq!(STATUS.id(&STATUS.subject(ID)), Some(ID));
        for wrong in ["fleet.status", "fleet.status.", "fleet.status.a.b", "fleet.event.abcdefghijklmnop"] {
            assert_eq!(STATUS.id(wrong), None, "{wrong}");
        }
    }
}

//! The status of a running proxy.

use std::path::Path;

use antedate_channel::dtls::{Connection, Failures, Refusals};
use antedate_host::control;
use antedate_host::fault::Fault;
use serde::Serialize;
use serde_json::{Map, Value};

/// Counters since the start, of datagrams unless said otherwise.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Counters {
    /// received plain and sent protected
    pub protected: u64,
    /// received protected and sent plain
    pub opened: u64,
    /// sent after waiting for a handshake
    pub held: u64,
    /// sent again because their session was lost
    pub resent: u64,
    /// plain and dropped: no session, full queue, too long
    pub dropped: u64,
    /// finished handshakes
    pub handshakes: u64,
    /// failed handshakes, refused ones included
    pub failed_handshakes: u64,
    /// handshakes in progress that gave way to newer ones
    pub crowded_handshakes: u64,
    /// sessions refused because all were taken
    pub refused_sessions: u64,
    /// peers that spoke from another address
    pub moves: u64,
    /// reports that the server's port is closed
    pub unreachable: u64,
    /// sessions lost and begun again
    pub lost_sessions: u64,
    /// cookies sent to clients
    pub cookies: u64,
    /// hints sent to peers of unknown sessions
    pub hints: u64,
}

/// Datagrams of a thread in system calls, at all its sockets.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Traffic {
    /// received datagrams
    pub received: u64,
    /// system calls that brought them
    pub receive_calls: u64,
    /// sent datagrams
    pub sent: u64,
    /// system calls that sent them, or tried
    pub send_calls: u64,
    /// datagrams that the kernel refused: a full queue, a closed port, a missing route
    pub unsent: u64,
}

/// One session.
#[derive(Debug, Clone, Serialize)]
pub struct Session {
    /// the device's address (connect), or the DTLS peer's (listen)
    pub peer: String,
    /// the peer's identity, if known
    pub identity: String,
    /// `handshaking`, `established`, or `lost`: a new session is begun in place of one that seems lost
    pub phase: &'static str,
    /// the cipher suite
    pub suite: &'static str,
    /// whether connection IDs are in use
    pub connection_ids: bool,
    /// sent records of data
    pub sent: u64,
    /// received records of data
    pub received: u64,
    /// prepared records
    pub prepared: usize,
}

impl Session {
    pub(crate) fn of(peer: String, established: Option<&Connection>, handshake: Option<&Connection>) -> Self {
        let connection = established.or(handshake);
        let (sent, received, _) = connection.map_or((0, 0, 0), Connection::counts);
        Self {
            peer,
            identity: connection
                .map_or_else(String::new, |c| String::from_utf8_lossy(c.identity()).into_owned()),
            phase: if established.is_some() { "established" } else { "handshaking" },
            suite: connection.and_then(Connection::suite).map_or("", |suite| suite.name()),
            connection_ids: connection
                .is_some_and(|c| !c.local_cid().is_empty() || !c.remote_cid().is_empty()),
            sent,
            received,
            prepared: connection.map_or(0, Connection::prepared),
        }
    }
}

/// The state as JSON: `counters`, `failures` (handshakes by cause), `refused` (records by reason),
/// `sessions`, and what each of the `threads` did.
pub(crate) fn document(
    counters: &Counters,
    failures: &Failures,
    refused: &Refusals,
    sessions: &[Session],
    traffic: Traffic,
) -> Value {
    let named = |(name, count): (&str, u64)| (name.to_owned(), Value::from(count));
    let refused: Map<String, Value> = refused.each().map(named).collect();
    let failures: Map<String, Value> = failures.each().map(named).collect();
    serde_json::json!({
        "counters": counters, "failures": failures, "refused": refused, "sessions": sessions, "threads": [traffic],
    })
}

/// Adds another thread's part: numbers are summed, and lists joined.
pub(crate) fn add(to: &mut Value, part: Value) {
    match (to, part) {
        (Value::Object(to), Value::Object(part)) => {
            for (name, value) in part {
                add(to.entry(name).or_insert(Value::Null), value);
            }
        }
        (Value::Array(to), Value::Array(part)) => to.extend(part),
        (to, part) => match (to.as_u64(), part.as_u64()) {
            (Some(one), Some(other)) => *to = one.saturating_add(other).into(),
            _ => *to = part,
        },
    }
}

/// Reads the status of a running proxy.
///
/// # Errors
/// When no proxy answers at the socket.
pub fn ask(socket: &Path) -> Result<Value, Fault> {
    serde_json::from_str(&control::told(socket)?)
        .map_err(|error| Fault::of_file(socket, format!("no status: {error}"), "is it a proxy's socket?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_threads_are_added() {
        let of = |protected, peer: &str| {
            let counters = Counters { protected, hints: 1, ..Counters::default() };
            let session = Session::of(peer.to_owned(), None, None);
            let traffic = Traffic { received: protected, ..Traffic::default() };
            document(&counters, &Failures::default(), &Refusals::default(), &[session], traffic)
        };
        let mut whole = of(3, "one");
        add(&mut whole, of(4, "other"));
        assert_eq!((&whole["counters"]["protected"], &whole["counters"]["hints"]), (&7.into(), &2.into()));
        let peers: Vec<_> = [0, 1].map(|at| whole["sessions"][at]["peer"].as_str()).into();
        assert_eq!(peers, [Some("one"), Some("other")]);
        assert_eq!([0, 1].map(|at| whole["threads"][at]["received"].as_u64()), [Some(3), Some(4)]);
    }

    #[test]
    fn manual_has_every_name_of_the_status() {
        let manual = include_str!("../../../docs/src/dtls.md");
        let session = Session::of(String::new(), None, None);
        let (failures, refusals) = (Failures::default(), Refusals::default());
        let state = document(&Counters::default(), &failures, &refusals, &[session], Traffic::default());
        let (mut values, mut known) = (vec![&state], 0);
        while let Some(value) = values.pop() {
            for (name, value) in value.as_object().into_iter().flatten() {
                assert!(manual.contains(&format!("`{name}`")), "`{name}` is not in the manual");
                values.push(value);
                known += 1;
            }
            values.extend(value.as_array().into_iter().flatten());
        }
        assert!(known > 30, "{known}");
    }
}

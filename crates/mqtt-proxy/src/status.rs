//! The status of a running proxy, as JSON over a Unix socket.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use antedate_host::control::{self, Words};
use antedate_host::fault::Fault;
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;

use crate::shared::Shared;
use crate::upstream::Upstream;

/// Time for an asker to take the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The texts of the socket's faults.
const WORDS: Words = Words {
    taken: ("another process answers at this socket", "give each proxy a path of its own"),
    no_socket: ("exists and is no socket", "give a path in a directory of yours"),
    cannot: ("make the socket for the status", "give a path in a directory of yours"),
};

/// Opens the socket, for the own user.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, Fault> {
    let cannot = |error: std::io::Error| Fault::of_io(path, WORDS.cannot.0, &error, WORDS.cannot.1);
    let listener = control::listen(path, &WORDS)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    UnixListener::from_std(listener).map_err(cannot)
}

/// Answers for ever, one asker at a time.
pub(crate) async fn serve(
    listener: UnixListener,
    shared: Rc<Shared>,
    upstream: Rc<Upstream>,
    clients: Rc<Cell<usize>>,
) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(PATIENCE).await;
            continue;
        };
        let text = document(&shared, upstream.is_away(), clients.get()).to_string();
        // An asker that is gone misses nothing.
        let _ = tokio::time::timeout(PATIENCE, stream.write_all(text.as_bytes())).await;
    }
}

/// The status: `counters`, `clients` (connections now), `broker` (`away` once a connection failed) and
/// `epochs` by group.
fn document(shared: &Shared, away: bool, clients: usize) -> Value {
    let counters = shared.counters();
    let epochs: Map<String, Value> =
        shared.guard.borrow().epochs().map(|(group, epoch)| (group.to_owned(), json!(epoch))).collect();
    json!({
        "counters": {
            "sealed": counters.sealed,
            "opened": counters.opened,
            "refused": counters.refused,
            "connections": counters.connections,
        },
        "clients": clients,
        "broker": if away { "away" } else { "up" },
        "epochs": epochs,
    })
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
    use antedate_mqtt::guard::Guard;

    #[test]
    fn manual_has_every_name_of_the_status() {
        let manual = include_str!("../../../docs/src/mqtt-applications.md");
        let shared = Shared::new(Guard::new(Vec::new(), None, None, None), Vec::new(), None);
        let status = document(&shared, true, 3);
        assert_eq!((&status["clients"], &status["broker"]), (&json!(3), &json!("away")));
        for (name, value) in status.as_object().expect("an object") {
            assert!(manual.contains(&format!("`{name}`")), "`{name}` is not in the manual");
            for name in value.as_object().into_iter().flat_map(Map::keys) {
                assert!(manual.contains(&format!("`{name}`")), "`{name}` is not in the manual");
            }
        }
    }
}

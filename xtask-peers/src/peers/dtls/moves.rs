//! Addresses that change while a session with connection IDs (RFC 9146) goes on.

use super::relay::{Faults, Relay};
use super::{MESSAGES, Place, device, free, listening};
use std::net::SocketAddr;
use std::time::Duration;
use xtask::shell::until;

/// Checks that the session continued: by its count of handshakes, and by the reasons for refused
/// records.
pub(super) fn one_session(what: &str, state: &serde_json::Value) -> Result<(), String> {
    let unknown = state["refused"]["unknown_connection"].as_u64().unwrap_or(0);
    if state["counters"]["handshakes"] == 1 && unknown == 0 {
        return Ok(());
    }
    Err(format!("{what}: not one session throughout:\n{state:#}"))
}

/// The relay before their server changes its port after half of our messages, so our address seems
/// to change. Each message must be answered, in one session.
pub(super) fn ours(place: &Place, what: &str, at: SocketAddr, suite: &str) -> Result<(), String> {
    let relay = Relay::to(at, Faults::default(), 13)?;
    let ours = place.ours("connect", free()?, relay.at, &["--suite", suite])?;
    let device = device()?;
    device.connect(listening(&ours)?).map_err(|e| e.to_string())?;
    let mut buffer = [0; 2000];
    for i in 0..MESSAGES {
        if i == MESSAGES / 2 {
            relay.move_on();
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = format!("message {i}");
        device.send(said.as_bytes()).map_err(|e| e.to_string())?;
        let answer = until(what, 5.0, || {
            let len = device.recv(&mut buffer).ok()?;
            Some(String::from_utf8_lossy(&buffer[..len]).into_owned())
        });
        let answer = answer.map_err(|e| format!("message {i}: {e}"))?;
        if answer != format!("echo {said}") {
            return Err(format!("{what}: message {i}: `{answer}` came back"));
        }
    }
    one_session(what, &ours.status()?)?;
    ours.stop()
}

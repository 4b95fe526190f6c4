//! Messages between our side and a partner's program: each way, and how many came.

use super::relay::{Faults, Relay};
use super::{Echo, MESSAGES, Ours, Place, device, established, free, judge, listening, settle};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use xtask::shell::{Background, Run, until};

/// Our side's word when a server forgot the session.
pub(super) const LOST: &str = "the session seems to be lost";

pub(super) fn count(came: usize) -> String {
    format!("{came} of {MESSAGES}")
}

/// Waits until our side has a session.
fn wait_for_session(what: &str, ours: &Ours, theirs: &mut Background) -> Result<(), String> {
    until(what, 30.0, || match theirs.alive() {
        Err(error) => Some(Err(error)),
        Ok(()) => established(ours).then_some(Ok(())),
    })?
}

/// GnuTLS' client sends lines, which come back. Returns how many came.
pub(super) fn talk_with_gnutls_cli(
    place: &Place,
    mut client: Command,
    server: Ours,
    faults: Faults,
) -> Result<usize, String> {
    let (mut client, mut stdin) = client.piped(&place.dir.join("gnutls-cli.log"))?;
    wait_for_session("gnutls-cli", &server, &mut client)?;
    until("gnutls-cli's word", 20.0, || client.output().contains("Simple Client Mode").then_some(()))?;
    for i in 0..MESSAGES {
        stdin.write_all(format!("message {i}\n").as_bytes()).map_err(|e| format!("gnutls-cli: {e}"))?;
        sleep(Duration::from_millis(10));
    }
    let answers = |text: String| {
        let lines = text.lines().filter(|line| line.starts_with("echo ")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    settle(|| answers(client.output()).len());
    let came = judge("gnutls-cli", &answers(client.output()).join("\n"), "message", faults)?;
    drop(stdin);
    let _ = client.stop(5);
    server.stop()?;
    Ok(came)
}

/// Their client sends messages to our server side and counts the answers. `command` makes its
/// command for a port.
pub(super) fn client_asks(
    place: &Place,
    what: &str,
    more: &[&str],
    faults: Faults,
    command: impl FnOnce(&str) -> Result<Command, String>,
) -> Result<String, String> {
    let echo = Echo::start()?;
    let server = place.ours("listen", free()?, echo.at, more)?;
    let relay = Relay::to(listening(&server)?, faults, 19)?;
    let said =
        command(&relay.at.port().to_string())?.read(60).map_err(|e| format!("{e}\n{}", state(&server)))?;
    let came = said.trim().strip_prefix("answers ").and_then(|count| count.parse::<usize>().ok());
    let came = came.ok_or_else(|| format!("{what}: {said}"))?;
    let enough = if faults.lose == 0 { MESSAGES } else { MESSAGES / 3 };
    if came < enough {
        return Err(format!("{what}: {}\n{}", count(came), state(&server)));
    }
    server.stop()?;
    Ok(count(came))
}

/// Starts their server, and waits for its word.
pub(super) fn serve(place: &Place, name: &str, mut command: Command) -> Result<Background, String> {
    let mut server = command.background(&place.dir.join(format!("{name}-server.log")))?;
    until(&format!("the server of {name}"), 20.0, || match server.alive() {
        Err(error) => Some(Err(error)),
        Ok(()) => server.output().contains("listening").then_some(Ok(())),
    })??;
    Ok(server)
}

/// A device sends messages through our client side, and gets them back.
pub(super) fn device_speaks(
    place: &Place,
    what: &str,
    at: SocketAddr,
    faults: Faults,
) -> Result<String, String> {
    let relay = Relay::to(at, faults, 23)?;
    let ours = place.ours("connect", free()?, relay.at, &[])?;
    let device = device()?;
    device.connect(listening(&ours)?).map_err(|e| e.to_string())?;
    let mut answers = String::new();
    for i in 0..MESSAGES {
        device.send(format!("message {i}\n").as_bytes()).map_err(|e| format!("{what}: {e}"))?;
        if i == 0 {
            until(what, 30.0, || established(&ours).then_some(()))?;
        }
        sleep(Duration::from_millis(10));
        receive(&device, &mut answers);
    }
    settle(|| {
        receive(&device, &mut answers);
        answers.matches("message ").count()
    });
    let said = match judge(what, &answers, "message", faults) {
        Ok(came) => count(came),
        // A replayed ClientHello, whose cookie is still right, ends the session of Mbed TLS' server.
        Err(_) if faults.replay > 0 && answered(&device, 30) => {
            let said = "a lost session made anew";
            if !ours.process.output().contains(LOST) {
                return Err(format!("{what}: the log does not say `{LOST}`\n{}", state(&ours)));
            }
            said.to_string()
        }
        Err(error) => return Err(format!("{error}\n{}", state(&ours))),
    };
    ours.stop()?;
    Ok(said)
}

pub(super) fn state(ours: &Ours) -> String {
    format!("{:#}\n{}", ours.status().unwrap_or_default(), ours.process.output())
}

/// Sends messages until one comes back.
pub(super) fn answered(device: &UdpSocket, seconds: u64) -> bool {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut buffer = [0; 2000];
    while Instant::now() < end {
        let _ = device.send(b"message\n");
        if device.recv(&mut buffer).is_ok() {
            return true;
        }
        sleep(Duration::from_millis(50));
    }
    false
}

pub(super) fn receive(device: &UdpSocket, answers: &mut String) {
    let mut buffer = [0; 2000];
    while let Ok(len) = device.recv(&mut buffer) {
        answers.push_str(&String::from_utf8_lossy(&buffer[..len]));
    }
}

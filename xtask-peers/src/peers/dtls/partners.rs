//! GnuTLS, Mbed TLS, wolfSSL and libcoap of Debian and Scandium of Maven, each as client and server
//! of ours: on a good and a bad wire, with ClientHellos in fragments, with P-256 alone, with servers
//! that restart without a word.

use super::relay::{Faults, Relay};
use super::{
    BAD_WIRE, Echo, IDENTITY, KEY, MESSAGES, Ours, Place, certificates, device, established, free, judge,
    listening, scandium, settle, wolfssl,
};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, cache, program, root, until};

/// GnuTLS' words for suites with the pre-shared key alone. With ECDHE_PSK Debian's gnutls-cli 3.7.9
/// ends by SIGSEGV, towards its own server too.
const PSK: &str = "NORMAL:-KX-ALL:+PSK:-VERS-ALL:+VERS-DTLS1.2";
/// Mbed TLS' names of suites. Its ephemeral keys are on P-256 (`peers/mbedtls/main.c`).
const SUITE: &str = "TLS-PSK-WITH-AES-128-CCM-8";
const P256: &str = "TLS-ECDHE-PSK-WITH-CHACHA20-POLY1305-SHA256";
/// libcoap's key, which is text.
const COAP_KEY: &str = "0123456789abcdef";
/// A word of the root resource of libcoap's server.
const COAP_ANSWER: &str = "libcoap";
/// Our side's word when a server forgot the session.
const LOST: &str = "the session seems to be lost";

/// Builds the programs of the libraries. A machine that cannot fetch one goes on without it, and
/// the report says so.
pub(crate) fn prepare() -> Result<(), Stop> {
    if let Err(reason) = wolfssl::build() {
        println!("   wolfSSL is left out, it cannot be fetched here: {reason}");
    }
    if let Err(reason) = scandium::build() {
        println!("   Scandium is left out, its modules cannot be fetched here: {reason}");
    }
    let mut cc = program("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(cache("peers")?.join("mbedtls"));
    cc.arg(root().join("peers/mbedtls/main.c")).args(["-lmbedtls", "-lmbedx509", "-lmbedcrypto"]);
    Ok(cc.echoed(60)?)
}

/// Runs all partners.
pub(crate) fn run() -> StepResult {
    let place = &Place::new()?;
    let mut notes = vec![format!("GnuTLS' client {}", gnutls_client(place, &[], Faults::default())?)];
    notes.push(format!(
        "with its hello in fragments {}",
        gnutls_client(place, &["--mtu", "200"], Faults::default())?
    ));
    notes.push(format!("on a bad wire {}", gnutls_client(place, &[], BAD_WIRE)?));
    notes.push(certificates::gnutls(place)?);
    for faults in [Faults::default(), BAD_WIRE] {
        notes.push(format!("GnuTLS' server {}", gnutls_server(place, faults)?));
        notes.push(format!("Mbed TLS' client {}", mbedtls_client(place, SUITE, faults)?));
        notes.push(format!("its server {}", mbedtls_server(place, SUITE, faults)?));
    }
    notes.push(format!("with P-256 {}", mbedtls_client(place, P256, Faults::default())?));
    notes.push(format!("and {}", mbedtls_server(place, P256, Faults::default())?));
    notes.push(restarts(place)?);
    notes.push(libcoap()?);
    let mut missing = Vec::new();
    match wolfssl::is_there()? {
        true => notes.push(wolfssl::run(place)?),
        false => missing.push("wolfSSL"),
    }
    match scandium::is_there()? {
        true => notes.push(scandium::run(place)?),
        false => missing.push("Scandium"),
    }
    match missing[..] {
        [] => Ok(notes.join(", ")),
        ref missing => Err(Stop::Skipped(format!(
            "partners that cannot be fetched here: {}; all else passed: {}",
            missing.join(", "),
            notes.join(", ")
        ))),
    }
}

fn count(came: usize) -> String {
    format!("{came} of {MESSAGES}")
}

/// Waits until our side has a session.
fn wait_for_session(what: &str, ours: &Ours, theirs: &mut Background) -> Result<(), String> {
    until(what, 30.0, || match theirs.alive() {
        Err(error) => Some(Err(error)),
        Ok(()) => established(ours).then_some(Ok(())),
    })?
}

fn gnutls_client(place: &Place, more: &[&str], faults: Faults) -> Result<String, String> {
    let echo = Echo::start()?;
    let server = place.ours("listen", free()?, echo.at, &[])?;
    let relay = Relay::to(listening(&server)?, faults, 17)?;
    let mut client = program("gnutls-cli");
    client.args([
        "--udp",
        "--port",
        &relay.at.port().to_string(),
        "--pskusername",
        IDENTITY,
        "--pskkey",
        KEY,
    ]);
    client.args(["--priority", PSK]).args(more).arg("127.0.0.1");
    talk_with_gnutls_cli(place, client, server, faults).map(count)
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

fn gnutls_serv(place: &Place, at: SocketAddr) -> Result<Background, String> {
    let mut server = program("gnutls-serv");
    server.args(["--udp", "--echo", "--port", &at.port().to_string(), "--priority", PSK, "--pskpasswd"]);
    server.arg(&place.psk);
    let server = server.background(&place.dir.join("gnutls-serv.log"))?;
    sleep(Duration::from_millis(500));
    Ok(server)
}

fn gnutls_server(place: &Place, faults: Faults) -> Result<String, String> {
    let at = free()?;
    let server = gnutls_serv(place, at)?;
    let came = device_speaks(place, "gnutls-serv", at, faults)?;
    let _ = server.stop(5);
    Ok(came)
}

fn mbedtls(words: &[&str]) -> Result<Command, String> {
    let mut command = program(cache("peers")?.join("mbedtls"));
    command.args(words);
    Ok(command)
}

fn mbedtls_client(place: &Place, suite: &str, faults: Faults) -> Result<String, String> {
    let messages = MESSAGES.to_string();
    client_asks(place, "Mbed TLS' client", &[], faults, |port| {
        mbedtls(&["client", port, IDENTITY, KEY, suite, &messages, "200"])
    })
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

fn mbedtls_serv(place: &Place, at: SocketAddr, suite: &str) -> Result<Background, String> {
    let command = mbedtls(&["server", &at.port().to_string(), IDENTITY, KEY, suite])?;
    serve(place, "mbedtls", command)
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

fn mbedtls_server(place: &Place, suite: &str, faults: Faults) -> Result<String, String> {
    let at = free()?;
    let server = mbedtls_serv(place, at, suite)?;
    let came = device_speaks(place, "Mbed TLS' server", at, faults)?;
    let _ = server.stop(5);
    Ok(came)
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

fn state(ours: &Ours) -> String {
    format!("{:#}\n{}", ours.status().unwrap_or_default(), ours.process.output())
}

/// Sends messages until one comes back.
fn answered(device: &UdpSocket, seconds: u64) -> bool {
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

fn receive(device: &UdpSocket, answers: &mut String) {
    let mut buffer = [0; 2000];
    while let Ok(len) = device.recv(&mut buffer) {
        answers.push_str(&String::from_utf8_lossy(&buffer[..len]));
    }
}

/// Servers of others end without a word and are back at once, or after a while. Our side
/// has its defaults, and the device sends throughout.
fn restarts(place: &Place) -> Result<String, String> {
    let mut notes = Vec::new();
    // gnutls-serv 3.7.9 never takes a first datagram from its socket that is no ClientHello: it must
    // be away until our side has noticed.
    for (name, seconds) in [("Mbed TLS", 0), ("Mbed TLS", 1), ("GnuTLS", 1)] {
        let at = free()?;
        let start = || match name {
            "GnuTLS" => gnutls_serv(place, at),
            _ => mbedtls_serv(place, at, SUITE),
        };
        let server = start()?;
        let ours = place.ours("connect", free()?, at, &[])?;
        let device = device()?;
        device.connect(listening(&ours)?).map_err(|e| e.to_string())?;
        if !answered(&device, 10) {
            return Err(format!("{name}: no answer at first\n{}", state(&ours)));
        }
        drop(server);
        answered(&device, seconds);
        // Answers on the way.
        receive(&device, &mut String::new());
        let server = start()?;
        let began = Instant::now();
        if !answered(&device, 20) {
            return Err(format!("{name}: mute after a restart\n{}", state(&ours)));
        }
        notes.push(format!("{} ms", began.elapsed().as_millis()));
        let said = ours.process.output();
        let tells = [LOST, "the server answers again"];
        if let Some(missing) = tells.iter().find(|line| !said.contains(**line)) {
            return Err(format!("{name}: the log does not say `{missing}`:\n{said}"));
        }
        ours.stop()?;
        let _ = server.stop(5);
    }
    Ok(format!("restarted servers answer after {}", notes.join(", ")))
}

/// CoAP of libcoap: its clients with DTLS to its server without, and the other way round.
fn libcoap() -> Result<String, String> {
    let key: String = COAP_KEY.bytes().map(|octet| format!("{octet:02x}")).collect();
    let place = Place::with_key("dtls-psk-coap", &key)?;
    let ask = |client: &str, more: &[&str], url: &str| -> Result<(), String> {
        let mut command = program(client);
        let said = command.args(["-B", "5"]).args(more).arg(url).read(20)?;
        if said.contains(COAP_ANSWER) { Ok(()) } else { Err(format!("{client}: {said}")) }
    };
    for library in ["gnutls", "openssl"] {
        // The port above is that of DTLS.
        let at = free_pair()?;
        let mut server = program(format!("coap-server-{library}"));
        server.args(["-A", "127.0.0.1", "-p", &at.port().to_string(), "-k", COAP_KEY, "-h", "hint"]);
        let server = server.background(&place.dir.join("coap-server.log"))?;
        sleep(Duration::from_millis(300));
        let ours = place.ours("connect", free()?, SocketAddr::new(at.ip(), at.port() + 1), &[])?;
        ask("coap-client-notls", &[], &format!("coap://{}/", listening(&ours)?))
            .map_err(|e| format!("{e}\n{}", ours.process.output()))?;
        ours.stop()?;
        let ours = place.ours("listen", free()?, at, &[])?;
        let url = format!("coaps://{}/", listening(&ours)?);
        ask(&format!("coap-client-{library}"), &["-u", IDENTITY, "-k", COAP_KEY], &url)
            .map_err(|e| format!("{e}\n{}", ours.process.output()))?;
        ours.stop()?;
        let _ = server.stop(5);
    }
    Ok("libcoap with GnuTLS and OpenSSL both ways".to_string())
}

/// A free port with a free one above it.
fn free_pair() -> Result<SocketAddr, String> {
    for _ in 0..50 {
        let at = free()?;
        if at.port() < u16::MAX && UdpSocket::bind(SocketAddr::new(at.ip(), at.port() + 1)).is_ok() {
            return Ok(at);
        }
    }
    Err("no two free ports".to_string())
}

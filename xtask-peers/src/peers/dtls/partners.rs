//! GnuTLS, Mbed TLS, wolfSSL and libcoap of Debian and Scandium of Maven, each as client and server
//! of ours: on a good and a bad wire, with ClientHellos in fragments, with P-256 alone, with servers
//! that restart without a word.

use super::relay::{Faults, Relay};
use super::talk::{
    LOST, answered, client_asks, count, device_speaks, receive, serve, state, talk_with_gnutls_cli,
};
use super::{
    BAD_WIRE, Echo, IDENTITY, KEY, MESSAGES, Place, certificates, device, free, listening, scandium, wolfssl,
};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, cache, program, root};

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

fn mbedtls_serv(place: &Place, at: SocketAddr, suite: &str) -> Result<Background, String> {
    let command = mbedtls(&["server", &at.port().to_string(), IDENTITY, KEY, suite])?;
    serve(place, "mbedtls", command)
}

fn mbedtls_server(place: &Place, suite: &str, faults: Faults) -> Result<String, String> {
    let at = free()?;
    let server = mbedtls_serv(place, at, suite)?;
    let came = device_speaks(place, "Mbed TLS' server", at, faults)?;
    let _ = server.stop(5);
    Ok(came)
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

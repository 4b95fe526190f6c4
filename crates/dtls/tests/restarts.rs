//! Servers that restart without a word, as most do.

mod harness;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use antedate_channel::dtls::{CipherSuite, Settings};
use antedate_dtls::{Options, status};
use harness::*;

/// The kernel reports a closed port in place of sending the next datagram, or of receiving one.
#[test]
fn datagrams_wait_while_the_port_is_closed() {
    let server = foreign(any());
    let at = server.at;
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let plain = options(any(), at);
    let settings = Settings { give_up_ms: 400, ..plain.settings.clone() };
    let side = device_side(Options { status: Some(path.clone()), settings, ..plain }, "turbine 3");
    let device = device(side.at);
    exchange(&device, b"before");
    drop(server);
    // The first one is lost with the session. One handshake after the other fails meanwhile.
    for said in 0..20_u8 {
        device.send(&[said]).expect("sent");
        thread::sleep(Duration::from_millis(50));
    }
    let state = status::ask(&path).expect("a state");
    assert_eq!(state["sessions"][0]["phase"], "lost", "{state:#}");
    let _server = foreign(at);
    let said: Vec<u8> = (1..20).filter_map(|_| answer(&device)).flatten().collect();
    assert_eq!(said, (1..20).collect::<Vec<u8>>(), "{:#}", status::ask(&path).expect("a state"));
    let state = status::ask(&path).expect("a state");
    assert_eq!(state["sessions"][0]["phase"], "established", "{state:#}");
}

#[test]
fn quick_restart_shows_in_the_silence() {
    let server = foreign(any());
    let at = server.at;
    let watched = Options { silence_ms: 15_000, ..options(any(), at) };
    let side = device_side(watched, "turbine 3");
    let device = device(side.at);
    exchange(&device, b"before");
    drop(server);
    let _server = foreign(at);
    let end = Instant::now() + Duration::from_secs(10);
    let mut answered = false;
    while !answered && Instant::now() < end {
        device.send(b"a reading").expect("sent");
        answered = device.recv(&mut [0; 100]).is_ok();
    }
    assert!(answered, "long before 15 s");
}

#[test]
fn refused_client_is_counted_by_cause() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let of = |suite, options: Options| Options {
        settings: Settings { suites: vec![suite], ..options.settings.clone() },
        ..options
    };
    let server = Options { status: Some(path.clone()), ..options(any(), echo.at) };
    let server = server_side(of(CipherSuite::PskAes128Ccm8, server));
    let side = device_side(of(CipherSuite::PskAes128GcmSha256, options(any(), server.at)), "turbine 3");
    let device = device(side.at);
    device.send(b"let me in").expect("sent");
    let end = Instant::now() + Duration::from_secs(10);
    let state = loop {
        let state = status::ask(&path).expect("a state");
        if state["failures"]["no_suite"].as_u64() >= Some(1) || Instant::now() > end {
            break state;
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert!(state["failures"]["no_suite"].as_u64() >= Some(1), "{state:#}");
    assert_eq!(state["failures"]["no_suite"], state["counters"]["failed_handshakes"], "{state:#}");
}

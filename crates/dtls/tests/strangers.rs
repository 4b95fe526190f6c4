//! What a stranger without a key can do to either side of the proxy.

mod harness;

use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use antedate_channel::dtls::{Client, Connection, ConnectionId, Settings};
use antedate_dtls::{Options, status};
use harness::*;
use zeroize::Zeroizing;

/// Begins handshakes up to the ServerHello, each from a socket of its own.
fn half_open(server: std::net::SocketAddr, count: usize) -> Vec<UdpSocket> {
    let client = || Client { identity: b"stranger".to_vec(), key: Zeroizing::new(vec![0; 16]) };
    let begin = |_| {
        let socket = device(server);
        let mut connection = Connection::connect(Settings::default(), client(), 0, &mut random);
        socket.send(&connection.transmit().expect("a hello")).expect("sent");
        let mut buffer = [0; 2000];
        let came = (0..200).find_map(|_| socket.recv(&mut buffer).ok()).expect("a cookie");
        connection.handle(&buffer[..came], 0, &(), &mut |_| ());
        socket.send(&connection.transmit().expect("a second hello")).expect("sent");
        (0..200).find_map(|_| socket.recv(&mut buffer).ok()).expect("a ServerHello");
        socket
    };
    (0..count).map(begin).collect()
}

#[test]
fn half_open_handshakes_keep_nobody_out() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let server = server_side(Options { status: Some(path.clone()), ..options(any(), echo.at) });
    let established = device_side(options(any(), server.at), "turbine 3");
    let old = device(established.at);
    exchange(&old, b"before");
    // Far more than there are places, of 16 for all and 4 for an address.
    let _strangers = half_open(server.at, 40);
    exchange(&old, b"still there");
    let newcomer = device_side(options(any(), server.at), "turbine 4");
    exchange(&device(newcomer.at), b"a new device at the same address");
    let state = status::ask(&path).expect("a state");
    let sessions = state["sessions"].as_array().map_or(0, Vec::len);
    assert!(sessions <= 2 + 4, "{state:#}");
    assert!(state["counters"]["crowded_handshakes"].as_u64() >= Some(36), "{state:#}");
}

#[test]
fn forged_alert_doubles_no_datagram() {
    let behind = socket();
    let server = server_side(options(any(), behind.local_addr().expect("bound")));
    let relay = relay(server.at);
    let side = device_side(options(any(), relay.at), "turbine 3");
    let device = device(side.at);
    let mut buffer = [0; 100];
    let mut came = |wait: Duration| {
        let end = Instant::now() + wait;
        let mut orders = 0;
        while Instant::now() < end {
            if let Ok((len, from)) = behind.recv_from(&mut buffer) {
                orders += usize::from(&buffer[..len] == b"open valve");
                behind.send_to(&buffer[..len], from).expect("sent");
            }
        }
        orders
    };
    device.send(b"hello").expect("sent");
    came(Duration::from_millis(300));
    relay.forge.store(true, Ordering::Release);
    device.send(b"open valve").expect("sent");
    assert_eq!(came(Duration::from_secs(1)), 1);
}

/// A server that lost its sessions and sends no alerts.
#[test]
fn silent_server_gets_a_new_session() {
    let echo = echo();
    let server = server_side(options(any(), echo.at));
    let at = server.at;
    let relay = relay(at);
    let options_ = Options { silence_ms: 200, ..options(any(), relay.at) };
    let side = device_side(options_, "turbine 3");
    let device = device(side.at);
    exchange(&device, b"before");
    relay.mute.store(true, Ordering::Release);
    relay.deaf.store(true, Ordering::Release);
    drop(server);
    thread::sleep(Duration::from_millis(50));
    relay.deaf.store(false, Ordering::Release);
    let _server = server_side(options(at, echo.at));
    let end = Instant::now() + Duration::from_secs(10);
    let mut answered = false;
    while !answered && Instant::now() < end {
        device.send(b"a reading").expect("sent");
        answered = device.recv(&mut [0; 100]).is_ok();
    }
    assert!(answered);
}

#[test]
fn unanswered_session_is_renewed() {
    let behind = socket();
    let server = server_side(options(any(), behind.local_addr().expect("bound")));
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let renewing = Options { renew_ms: 300, status: Some(path.clone()), ..options(any(), server.at) };
    let side = device_side(renewing, "turbine 3");
    let device = device(side.at);
    let (mut sent, mut came, mut buffer) = (0, 0, [0; 100]);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1500) {
        device.send(b"a reading").expect("sent");
        sent += 1;
        came += usize::from(behind.recv(&mut buffer).is_ok());
    }
    while behind.recv(&mut buffer).is_ok() {
        came += 1;
    }
    assert_eq!(came, sent, "none is lost or doubled by a renewal");
    let state = status::ask(&path).expect("a state");
    assert!(state["counters"]["handshakes"].as_u64() >= Some(2), "{state:#}");
}

/// Anyone on the path can send a captured record from another address.
#[test]
fn captured_record_floods_no_victim() {
    let behind = socket();
    let server = server_side(options(any(), behind.local_addr().expect("bound")));
    let (own, victim) = (device(server.at), device(server.at));
    let mut connection = joined(&own, "turbine 3", Some(ConnectionId::EMPTY));
    let mut out = [0; 2000];
    let len = connection.seal(b"subscribe", &mut out).expect("keys");
    victim.send(&out[..len]).expect("sent");
    let mut buffer = [0; 2000];
    let (_, from) = (0..500).find_map(|_| behind.recv_from(&mut buffer).ok()).expect("it comes");
    for _ in 0..100 {
        behind.send_to(&[7; 500], from).expect("sent");
    }
    let mut received = |socket: &UdpSocket| {
        let mut octets = 0;
        while let Ok(len) = socket.recv(&mut buffer) {
            octets += len;
        }
        octets
    };
    assert!(received(&victim) <= 3 * len);
    assert!(received(&own) >= 90 * 500, "the proven address gets the rest");
}

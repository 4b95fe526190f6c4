//! Several threads at one address, each with sessions of its own.

mod harness;

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use antedate_channel::dtls::{Client, Connection, ConnectionId, Event, Settings};
use antedate_dtls::devices::Devices;
use antedate_dtls::psk::PskFile;
use antedate_dtls::service::{Keys, News};
use antedate_dtls::{Options, status};
use harness::*;
use serde_json::Value;
use zeroize::Zeroizing;

/// Two threads, with space for so many sessions.
fn two(max_sessions: usize, options: Options) -> Options {
    Options { threads: 2, max_sessions, max_handshakes: 512, ..options }
}

fn shown(path: &Path) -> Value {
    status::ask(path).expect("a state")
}

fn sessions(state: &Value) -> usize {
    state["sessions"].as_array().map_or(0, Vec::len)
}

/// Waits for a status.
fn wait_for(path: &Path, done: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let state = shown(path);
        if done(&state) || Instant::now() > end {
            return state;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Opens a record of the server.
fn opened(connection: &mut Connection, socket: &UdpSocket) -> Vec<u8> {
    let record = answer(socket).expect("an answer");
    let mut data = Vec::new();
    connection.handle(&record, 1, &(), &mut |event| {
        if let Event::Data(octets) = event {
            data.extend_from_slice(octets);
        }
    });
    data
}

/// Sends a record from this socket.
fn say(connection: &mut Connection, from: &UdpSocket, said: &[u8]) {
    let mut out = [0; 2000];
    let len = connection.seal(said, &mut out).expect("keys");
    from.send(&out[..len]).expect("sent");
}

#[test]
fn sessions_are_spread_over_both_threads() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let paths: [PathBuf; 2] = ["listen", "connect"].map(|name| directory.path().join(name));
    let of = |path: &PathBuf, to| two(64, Options { status: Some(path.clone()), ..options(any(), to) });
    let server = server_side(of(&paths[0], echo.at));
    let side = device_side(of(&paths[1], server.at), "turbine 3");
    let devices: Vec<UdpSocket> = (0..64).map(|_| device(side.at)).collect();
    for round in 0..10_u8 {
        devices.iter().for_each(|device| _ = device.send(&[round; 50]).expect("sent"));
        devices.iter().for_each(|device| assert_eq!(answer(device), Some(vec![round; 50])));
    }
    for path in &paths {
        let state = shown(path);
        assert_eq!((sessions(&state), &state["counters"]["opened"]), (64, &640.into()), "{state:#}");
        assert_eq!(state["counters"]["handshakes"], 64, "a cookie counts at both threads: {state:#}");
        let received = [0, 1].map(|thread| state["threads"][thread]["received"].as_u64().unwrap_or(0));
        assert!(received.iter().all(|count| *count > 100), "{state:#}");
        assert_eq!(state["threads"].as_array().map(Vec::len), Some(2));
    }
    // One place is free for nobody, whatever the thread.
    let late = device(side.at);
    late.send(b"one too many").expect("sent");
    assert!(late.recv(&mut [0; 100]).is_err());
}

#[test]
fn moved_client_reaches_its_thread() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let status = Some(path.clone());
    let server = server_side(two(64, Options { status, ..options(any(), echo.at) }));
    // Their sockets stay, lest another client gets the port, and with it the place of a session.
    let (mut clients, mut sockets) = (Vec::new(), Vec::new());
    for number in 0..16_u8 {
        let home = device(server.at);
        let mut connection = joined(&home, "turbine 3", Some(ConnectionId::EMPTY));
        say(&mut connection, &home, &[number; 20]);
        assert_eq!(opened(&mut connection, &home), [number; 20]);
        clients.push(connection);
        sockets.push(home);
    }
    // An address that the kernel would give to the other thread, for half of them.
    for (number, connection) in clients.iter_mut().enumerate() {
        let away = device(server.at);
        say(connection, &away, &[number as u8; 30]);
        assert_eq!(opened(connection, &away), [number as u8; 30]);
        sockets.push(away);
    }
    let state = shown(&path);
    assert_eq!(state["counters"]["moves"], 16, "{state:#}");
    assert_eq!((&state["counters"]["hints"], &state["counters"]["handshakes"]), (&0.into(), &16.into()));
    assert_eq!(sessions(&state), 16);
    // Without a connection ID nothing names the session, and the client hears of it.
    let home = device(server.at);
    let mut connection = joined(&home, "turbine 4", None);
    say(&mut connection, &home, b"before");
    assert_eq!(opened(&mut connection, &home), b"before");
    let away = device(server.at);
    say(&mut connection, &away, b"after");
    assert_eq!(answer(&away).as_deref(), Some(&ALERT[..]));
    assert_eq!(shown(&path)["counters"]["hints"], 1);
}

#[test]
fn changed_keys_end_sessions_of_both_threads() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let news = Arc::new(News::default());
    let status = Some(path.clone());
    let server = serving(two(64, Options { status, ..options(any(), echo.at) }), &news);
    let sides = ["turbine 3", "turbine 4"].map(|name| {
        let keys = Keys {
            devices: Devices::all(name.to_owned()),
            ..PskFile::parse(KEYS).expect("good keys").into()
        };
        let news = Arc::new(News::default());
        (served(two(64, options(any(), server.at)), keys, &news), news)
    });
    let devices: Vec<[UdpSocket; 2]> =
        (0..16).map(|_| [0, 1].map(|side: usize| device(sides[side].0.at))).collect();
    devices.iter().flatten().for_each(|device| exchange(device, b"before"));
    assert_eq!(sessions(&shown(&path)), 32);
    let fourth = KEYS.lines().filter(|line| line.starts_with("turbine 4")).collect::<Vec<_>>().join("\n");
    news.put_keys(PskFile::parse(&fourth).expect("good keys").into());
    let state = wait_for(&path, |state| sessions(state) == 16);
    let names: BTreeSet<_> = state["sessions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|session| session["identity"].as_str())
        .collect();
    assert_eq!((sessions(&state), names), (16, BTreeSet::from([Some("turbine 4")])));
    devices.iter().for_each(|[_, fourth]| exchange(fourth, b"after"));
    // The devices' side ends its sessions too.
    let none = PskFile::parse(&format!("other:{}\n", "01".repeat(16))).expect("good keys");
    sides[1].1.put_keys(none.into());
    let state = wait_for(&path, |state| sessions(state) == 0);
    assert_eq!(sessions(&state), 0, "{state:#}");
    // An address for all of them.
    let other = echo_named();
    news.put_address(other.at);
    news.put_keys(PskFile::parse(KEYS).expect("good keys").into());
    let again = device_side(two(64, options(any(), server.at)), "turbine 3");
    thread::sleep(Duration::from_millis(300));
    for _ in 0..16 {
        let device = device(again.at);
        device.send(b"who").expect("sent");
        assert_eq!(answer(&device).as_deref(), Some(&b"the other"[..]));
    }
}

/// A server that answers with its name.
fn echo_named() -> Running {
    run(|stop, ready| {
        let socket = socket();
        let _ = ready.send(socket.local_addr().expect("bound"));
        while !stop.load(std::sync::atomic::Ordering::Acquire) {
            if let Ok((_, from)) = socket.recv_from(&mut [0; 100]) {
                let _ = socket.send_to(b"the other", from);
            }
        }
    })
}

#[test]
fn restart_ends_and_begins_all_sessions() {
    let echo = echo();
    let server = server_side(two(64, options(any(), echo.at)));
    let at = server.at;
    let side = device_side(two(64, options(any(), at)), "turbine 3");
    let devices: Vec<UdpSocket> = (0..16).map(|_| device(side.at)).collect();
    devices.iter().for_each(|device| exchange(device, b"before"));
    drop(server);
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let status = Some(path.clone());
    let _server = server_side(two(64, Options { status, ..options(at, echo.at) }));
    for device in &devices {
        let end = Instant::now() + Duration::from_secs(10);
        let mut answered = false;
        while !answered && Instant::now() < end {
            device.send(b"after").expect("sent");
            answered = device.recv(&mut [0; 100]).is_ok();
        }
        assert!(answered);
    }
    assert_eq!(sessions(&shown(&path)), 16);
}

#[test]
fn places_are_those_of_both_threads() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let status = Some(path.clone());
    let server = server_side(two(5, Options { status, ..options(any(), echo.at) }));
    let side = device_side(two(64, options(any(), server.at)), "turbine 3");
    let devices: Vec<UdpSocket> = (0..12).map(|_| device(side.at)).collect();
    devices.iter().for_each(|device| _ = device.send(b"a reading").expect("sent"));
    let state = wait_for(&path, |state| state["counters"]["refused_sessions"].as_u64() >= Some(7));
    assert!(state["counters"]["refused_sessions"].as_u64() >= Some(7), "{state:#}");
    let established = |state: &Value| {
        let all = state["sessions"].as_array().into_iter().flatten();
        all.filter(|session| session["phase"] == "established").count()
    };
    assert_eq!(established(&state), 5, "{state:#}");
}

/// Begins a handshake up to the ServerHello.
fn half_open(server: SocketAddr) -> UdpSocket {
    let socket = device(server);
    let stranger = Client { identity: b"stranger".to_vec(), key: Zeroizing::new(vec![0; 16]) };
    let mut connection = Connection::connect(Settings::default(), stranger, 0, &mut random);
    for _ in 0..2 {
        socket.send(&connection.transmit().expect("a hello")).expect("sent");
        let came = answer(&socket).expect("an answer");
        connection.handle(&came, 0, &(), &mut |_| ());
    }
    socket
}

#[test]
fn handshakes_of_both_threads_are_bounded() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let status = Some(path.clone());
    let options_ = two(64, Options { status, ..options(any(), echo.at) });
    let server = server_side(Options { max_handshakes: 16, ..options_ });
    // Of 16 places an address has 4.
    let _strangers: Vec<UdpSocket> = (0..40).map(|_| half_open(server.at)).collect();
    let state = wait_for(&path, |state| sessions(state) <= 4);
    assert_eq!(sessions(&state), 4, "{state:#}");
    assert_eq!(state["counters"]["crowded_handshakes"], 36, "{state:#}");
    let newcomer = device_side(options(any(), server.at), "turbine 4");
    exchange(&device(newcomer.at), b"a new device at the same address");
}

#[test]
fn taken_address_ends_the_start() {
    let server = server_side(two(3, options(any(), any())));
    let keys = PskFile::parse(KEYS).expect("good keys");
    let second = antedate_dtls::listen(
        &two(3, options(server.at, any())),
        keys.into(),
        &Arc::default(),
        &std::sync::atomic::AtomicBool::new(true),
        |at| panic!("two at {at}"),
    );
    assert!(second.is_err(), "its threads would take a share of the first one's sessions");
}

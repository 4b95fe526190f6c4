//! Both sides of the proxy on the loopback interface, with a device and its server.

mod harness;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use antedate_channel::dtls::{Connection, ConnectionId, Cookies, Event, Greeting, Phase, Settings};
use antedate_dtls::devices::Devices;
use antedate_dtls::psk::PskFile;
use antedate_dtls::service::Keys;
use antedate_dtls::{Options, connect, status};
use harness::*;
use std::net::UdpSocket;

#[test]
fn each_device_has_its_own_session() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let server = server_side(Options { status: Some(path.clone()), ..options(any(), echo.at) });
    let side = device_side(options(any(), server.at), "turbine 3");
    let (first, second) = (device(side.at), device(side.at));
    for i in 0..50u8 {
        exchange(&first, &[i; 20]);
        exchange(&second, &[i; 1200]);
    }
    let state = status::ask(&path).expect("a state");
    assert_eq!(state["sessions"].as_array().map(Vec::len), Some(2), "{state:#}");
    assert_eq!(state["sessions"][0]["identity"], "turbine 3");
    assert_eq!(state["sessions"][0]["connection_ids"], true);
    assert_eq!(state["counters"]["opened"], 100);
}

#[test]
fn datagrams_wait_for_the_handshake() {
    let echo = echo();
    // The server is not running yet, so the first hello is lost.
    let place = socket();
    let at = place.local_addr().expect("bound");
    let side = device_side(options(any(), at), "turbine 4");
    let device = device(side.at);
    for i in 0..10u8 {
        device.send(&[i; 5]).expect("sent");
    }
    drop(place);
    let _server = server_side(options(at, echo.at));
    for i in 0..10u8 {
        assert_eq!(answer(&device), Some(vec![i; 5]));
    }
}

#[test]
fn restarted_server_loses_no_datagram() {
    let echo = echo();
    let server = server_side(options(any(), echo.at));
    let at = server.at;
    let relay = relay(at);
    let resend = Options { resend: true, ..options(any(), relay.at) };
    let side = device_side(resend, "turbine 3");
    let device = device(side.at);
    exchange(&device, b"before");
    // A crashed server sends no close_notify, so the relay drops it.
    relay.deaf.store(true, Ordering::Release);
    drop(server);
    thread::sleep(Duration::from_millis(50));
    relay.deaf.store(false, Ordering::Release);
    let _server = server_side(options(at, echo.at));
    exchange(&device, b"the next one");
    exchange(&device, b"and the one after");
}

#[test]
fn wrong_key_gives_no_session() {
    let echo = echo();
    let server = server_side(options(any(), echo.at));
    let wrong = PskFile::parse("turbine 3:ffffffffffffffffffffffffffffffff\n").expect("good keys");
    let wrong = Keys { psk: Some(wrong), devices: Devices::all("turbine 3".to_owned()), ..Keys::default() };
    let to = server.at;
    let stranger = run(move |stop, ready| {
        let _ = connect(&options(any(), to), wrong, &Arc::default(), stop, |at| _ = ready.send(at));
    });
    let (refused, right) = (device(stranger.at), device_side(options(any(), server.at), "turbine 4"));
    refused.send(b"let me in").expect("sent");
    let good = device(right.at);
    for _ in 0..10 {
        exchange(&good, b"regular");
    }
    assert!(refused.recv(&mut [0; 100]).is_err());
}

#[test]
fn session_limit_is_kept() {
    let echo = echo();
    let server = server_side(options(any(), echo.at));
    let side = device_side(Options { max_sessions: 10, ..options(any(), server.at) }, "turbine 3");
    let devices: Vec<UdpSocket> = (0..3).map(|_| device(side.at)).collect();
    devices.iter().for_each(|device| exchange(device, b"one of three"));
    let fourth = device(side.at);
    fourth.send(b"one too many").expect("sent");
    fourth.set_read_timeout(Some(Duration::from_millis(500))).expect("an option");
    assert!(fourth.recv(&mut [0; 100]).is_err());
    devices.iter().for_each(|device| exchange(device, b"still one of three"));
}

#[test]
fn handshake_is_repeated_after_a_server_ends() {
    let (place, keys) = (socket(), PskFile::parse(KEYS).expect("good keys"));
    let side = device_side(options(any(), place.local_addr().expect("bound")), "turbine 3");
    let device = device(side.at);
    let cookies = Cookies::new([7; 32]);
    let (mut connection, mut ended, mut answered) = (None::<Connection>, false, false);
    let (began, mut buffer, mut out) = (Instant::now(), [0; 2000], [0; 2000]);
    while !answered && began.elapsed() < Duration::from_secs(10) {
        device.send(b"a reading").expect("sent");
        answered = device.recv(&mut out).is_ok();
        let Ok((len, from)) = place.recv_from(&mut buffer) else { continue };
        let (datagram, now) = (&buffer[..len], began.elapsed().as_millis() as u64);
        match cookies.greet(datagram, b"here", now, |_| ()) {
            Greeting::Reply(reply) => drop(place.send_to(&reply, from)),
            Greeting::Accept if connection.is_none() => {
                connection = Connection::accept(Settings::default(), datagram, now, &mut random).ok();
            }
            _ => {}
        }
        let Some(server) = &mut connection else { continue };
        let (mut established, mut data) = (false, Vec::new());
        server.handle(datagram, now, &keys, &mut |event| match event {
            Event::Established => established = true,
            Event::Data(octets) => data.push(octets.to_vec()),
            Event::Closed => {}
        });
        for octets in data {
            let len = server.seal(&octets, &mut out).expect("keys");
            place.send_to(&out[..len], from).expect("sent");
        }
        if established && !ended {
            // Its close_notify arrives, its Finished is lost.
            server.close();
            let last = std::iter::from_fn(|| server.transmit()).last().expect("an alert");
            place.send_to(&last, from).expect("sent");
            (ended, connection) = (true, None);
            continue;
        }
        while let Some(datagram) = server.transmit() {
            place.send_to(&datagram, from).expect("sent");
        }
    }
    assert!(ended && answered, "{ended} {answered}");
}

#[test]
fn new_device_at_an_address_is_a_new_client() {
    let behind = socket();
    let server = server_side(options(any(), behind.local_addr().expect("bound")));
    let address = device(server.at);
    let (mut out, mut seen) = ([0; 2000], Vec::new());
    for identity in ["turbine 3", "turbine 3", "turbine 4"] {
        let len = joined(&address, identity, None).seal(b"here I am", &mut out).expect("keys");
        address.send(&out[..len]).expect("sent");
        let came = (0..500).find_map(|_| behind.recv_from(&mut out).ok());
        seen.push(came.expect("it comes to the server").1);
    }
    assert_eq!(seen[0], seen[1], "the same device again");
    assert_ne!(seen[1], seen[2], "what is said to the one before would come to the other one");
}

/// A restarted router gives a device the former port of another device.
#[test]
fn device_at_a_reused_address_is_found() {
    let behind = socket();
    let server = server_side(options(any(), behind.local_addr().expect("bound")));
    let [first, second, third] = [(); 3].map(|()| device(server.at));
    let cid = Some(ConnectionId::EMPTY);
    let mut one = joined(&first, "turbine 3", cid);
    let mut other = joined(&second, "turbine 4", cid);
    let mut out = [0; 2000];
    let mut say = |connection: &mut Connection, socket: &UdpSocket| {
        let len = connection.seal(b"here I am", &mut out).expect("keys");
        socket.send(&out[..len]).expect("sent");
        (0..500).find_map(|_| behind.recv_from(&mut out).ok()).expect("it comes to the server").1
    };
    let before = say(&mut one, &second);
    say(&mut other, &third);
    let mut again = joined(&second, "turbine 3", cid);
    assert_eq!(say(&mut again, &second), before, "the same device at the same address");
}

#[test]
fn old_session_ends_without_the_new_one() {
    let behind = socket();
    let server = server_side(options(any(), behind.local_addr().expect("bound")));
    let address = device(server.at);
    let mut old = joined(&address, "turbine 3", None);
    let client = PskFile::parse(KEYS).expect("good keys").client(Some("turbine 3")).expect("known");
    let settings = Settings { cid: None, retransmit_ms: 60_000, ..Settings::default() };
    let mut new = Connection::connect(settings, client, 0, &mut random);
    let mut buffer = [0; 2000];
    // Two hellos, then the last flight together with the old session's late close_notify.
    for flight in 0..3 {
        if flight == 2 {
            old.close();
            address.send(&old.transmit().expect("an alert")).expect("sent");
        }
        while let Some(datagram) = new.transmit() {
            address.send(&datagram).expect("sent");
        }
        let came = (0..200).find_map(|_| address.recv(&mut buffer).ok()).expect("an answer");
        new.handle(&buffer[..came], 0, &(), &mut |_| ());
    }
    assert_eq!(new.phase(), Phase::Established);
}

//! Keys, devices and addresses that change while the proxy runs.

mod harness;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use antedate_dtls::devices::Devices;
use antedate_dtls::psk::PskFile;
use antedate_dtls::service::{Keys, News, Target};
use antedate_dtls::{Options, status};
use harness::*;
use serde_json::Value;

/// The lines of [`KEYS`] that begin so.
fn only(name: &str) -> PskFile {
    let lines = KEYS.lines().filter(|line| line.starts_with(name));
    PskFile::parse(&lines.collect::<Vec<_>>().join("\n")).expect("good keys")
}

fn wait_for(path: &Path, done: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let state = status::ask(path).expect("a state");
        if done(&state) || Instant::now() > end {
            return state;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn revoked_identity_ends_alone() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let news = Arc::new(News::default());
    let server = serving(Options { status: Some(path.clone()), ..options(any(), echo.at) }, &news);
    let sides = ["turbine 3", "turbine 4"].map(|name| device_side(options(any(), server.at), name));
    let [third, fourth] = [device(sides[0].at), device(sides[1].at)];
    exchange(&third, b"before");
    exchange(&fourth, b"before");
    news.put_keys(only("turbine 4").into());
    let state = wait_for(&path, |state| state["sessions"].as_array().map(Vec::len) == Some(1));
    assert_eq!(state["sessions"][0]["identity"], "turbine 4", "{state:#}");
    exchange(&fourth, b"after");
    third.send(b"let me in").expect("sent");
    assert!(third.recv(&mut [0; 100]).is_err());
    news.put_keys(only("turbine").into());
    third.send(b"I am back").expect("sent");
    assert!(answer(&third).is_some());
    let state = status::ask(&path).expect("a state");
    assert_eq!(state["counters"]["handshakes"], 3, "the other session was never renewed: {state:#}");
}

#[test]
fn other_identity_loses_no_datagram() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let psk = || {
        let key = |octet: &str| octet.repeat(16);
        PskFile::parse(&format!("press.1:{}\npress.2:{}\n", key("01"), key("02"))).expect("good keys")
    };
    let news = Arc::new(News::default());
    news.put_keys(psk().into());
    let generations = Options { generations: true, status: Some(path.clone()), ..options(any(), echo.at) };
    let server = serving(generations, &news);
    let keys =
        |name: &str| Keys { psk: Some(psk()), devices: Devices::all(name.to_owned()), ..Keys::default() };
    let news = Arc::new(News::default());
    let side = served(options(any(), server.at), keys("press.1"), &news);
    let device = device(side.at);
    for count in 0..100_u8 {
        if count == 50 {
            news.put_keys(keys("press.2"));
        }
        device.send(&[count]).expect("sent");
        assert_eq!(answer(&device), Some(vec![count]));
    }
    let identity = |state: &serde_json::Value| state["sessions"][0]["identity"].as_str() == Some("press.2");
    let state = wait_for(&path, identity);
    assert!(identity(&state), "{state:#}");
    assert_eq!(state["counters"]["handshakes"], 2, "{state:#}");
}

#[test]
fn forgotten_keys_end_the_session() {
    let echo = echo();
    let server = server_side(options(any(), echo.at));
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let news = Arc::new(News::default());
    let keys = Keys {
        psk: Some(only("turbine 3")),
        devices: Devices::all("turbine 3".to_owned()),
        ..Keys::default()
    };
    let options = Options { status: Some(path.clone()), ..options(any(), server.at) };
    let side = served(options, keys, &news);
    let device = device(side.at);
    exchange(&device, b"before");
    let psk = PskFile::parse(&format!("revoked:{}\n", "01".repeat(32))).expect("a good key");
    news.put_keys(Keys { psk: Some(psk), devices: Devices::all("revoked".to_owned()), ..Keys::default() });
    let state = wait_for(&path, |state| state["sessions"].as_array().is_some_and(Vec::is_empty));
    assert_eq!(state["sessions"].as_array().map(Vec::len), Some(0), "{state:#}");
    device.send(b"after").expect("sent");
    assert_eq!(answer(&device), None);
}

#[test]
fn devices_have_their_own_identities() {
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("status");
    let server = server_side(Options { status: Some(path.clone()), ..options(any(), echo.at) });
    let all = [socket(), socket(), socket()];
    let ports = [0, 1].map(|i: usize| all[i].local_addr().expect("bound").port());
    let file = format!("*:{} turbine 3\n127.0.0.1:{} turbine 4\n", ports[0], ports[1]);
    let devices = Devices::parse(&file, None).expect("good lines");
    let news = Arc::new(News::default());
    let keys = Keys { psk: Some(only("turbine")), devices, ..Keys::default() };
    let side = served(options(any(), server.at), keys, &news);
    all.iter().for_each(|device| device.connect(side.at).expect("an address"));
    exchange(&all[0], b"one");
    exchange(&all[1], b"other");
    all[2].send(b"nobody").expect("sent");
    assert!(all[2].recv(&mut [0; 100]).is_err());
    let identities = || {
        let state = status::ask(&path).expect("a state");
        let all = state["sessions"].as_array().expect("sessions").iter();
        let mut names: Vec<_> = all.map(|session| session["identity"].to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(identities(), ["\"turbine 3\"", "\"turbine 4\""]);
    // Other identities of the same devices, and one for the third.
    let file = format!("*:{} turbine 4\n", ports[0]);
    let devices = Devices::parse(&file, Some("turbine 4".to_owned())).expect("good lines");
    news.put_keys(Keys { psk: Some(only("turbine")), devices, ..Keys::default() });
    thread::sleep(Duration::from_millis(200));
    all.iter().for_each(|device| exchange(device, b"again"));
    assert_eq!(identities(), ["\"turbine 4\"", "\"turbine 4\"", "\"turbine 4\""]);
}

#[test]
fn name_may_get_its_address_later() {
    let first = foreign(any());
    let news = Arc::new(News::default());
    let keys = Keys {
        psk: Some(only("turbine 3")),
        devices: Devices::all("turbine 3".to_owned()),
        ..Keys::default()
    };
    let to = Target::Name("plant.invalid".to_owned(), 4433);
    let side = served(Options { to, ..options(any(), first.at) }, keys, &news);
    let device = device(side.at);
    device.send(b"too early").expect("sent");
    assert!(device.recv(&mut [0; 100]).is_err());
    news.put_address(first.at);
    thread::sleep(Duration::from_millis(200));
    exchange(&device, b"before");
    // A session in use stays; a lost one follows the name.
    let second = foreign(any());
    news.put_address(second.at);
    thread::sleep(Duration::from_millis(200));
    exchange(&device, b"still the first");
    drop(first);
    let end = Instant::now() + Duration::from_secs(10);
    let mut answered = false;
    while !answered && Instant::now() < end {
        device.send(b"a reading").expect("sent");
        answered = device.recv(&mut [0; 100]).is_ok();
    }
    assert!(answered);
}

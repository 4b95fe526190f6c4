//! Datagrams in batches: nothing is lost, changed or overtaken, and they really share system calls.

mod harness;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use antedate_dtls::{Options, status};
use harness::*;
use serde_json::Value;

/// Runs of equal lengths, shorter and longer ones between, and one that IP fragments.
fn length(index: usize) -> usize {
    match index % 25 {
        7 => 1200,
        9 => 0,
        11 => 3,
        _ => 40 + index / 25 * 9,
    }
}

fn datagram(index: usize) -> Vec<u8> {
    (0..length(index)).map(|at| (index * 31 + at * 7) as u8).collect()
}

/// The numbers of the first thread.
fn traffic(state: &Value, name: &str) -> u64 {
    state["threads"][0][name].as_u64().expect("a number")
}

#[test]
fn burst_comes_whole_and_in_order() {
    const BURST: usize = 100;
    let echo = echo();
    let directory = tempfile::tempdir().expect("a directory");
    let paths: [PathBuf; 2] = ["listen", "connect"].map(|name| directory.path().join(name));
    let server = server_side(Options { status: Some(paths[0].clone()), ..options(any(), echo.at) });
    let side =
        device_side(Options { status: Some(paths[1].clone()), ..options(any(), server.at) }, "turbine 3");
    let device = device(side.at);
    exchange(&device, b"before");
    let mut buffer = [0; 2000];
    for burst in 0..5 {
        let indices = burst * BURST..(burst + 1) * BURST;
        indices.clone().for_each(|index| _ = device.send(&datagram(index)).expect("sent"));
        for index in indices {
            let end = Instant::now() + Duration::from_secs(10);
            let len = loop {
                match device.recv(&mut buffer) {
                    Ok(len) => break len,
                    Err(_) if Instant::now() < end => {}
                    Err(error) => panic!("datagram {index}: {error}"),
                }
            };
            assert_eq!(buffer[..len], datagram(index), "datagram {index}");
        }
    }
    for path in &paths {
        let state = status::ask(path).expect("a state");
        assert_eq!(state["counters"]["protected"], 501, "{state:#}");
        assert_eq!(state["counters"]["opened"], 501, "{state:#}");
        assert_eq!(traffic(&state, "unsent"), 0);
        assert!(traffic(&state, "received") >= 1002 && traffic(&state, "sent") >= 1002, "{state:#}");
        assert!(traffic(&state, "receive_calls") <= traffic(&state, "received"), "{state:#}");
    }
}

/// Datagrams that waited for a handshake stand ready at once.
#[test]
fn ready_datagrams_share_a_call() {
    const WAITING: u64 = 60;
    let echo = echo();
    // The server is not running yet.
    let place = socket();
    let at = place.local_addr().expect("bound");
    let directory = tempfile::tempdir().expect("a directory");
    let paths: [PathBuf; 2] = ["listen", "connect"].map(|name| directory.path().join(name));
    let side = device_side(Options { status: Some(paths[1].clone()), ..options(any(), at) }, "turbine 4");
    let device = device(side.at);
    (0..WAITING).for_each(|index| _ = device.send(&[index as u8; 100]).expect("sent"));
    drop(place);
    let _server = server_side(Options { status: Some(paths[0].clone()), ..options(at, echo.at) });
    for index in 0..WAITING {
        assert_eq!(answer(&device), Some(vec![index as u8; 100]));
    }
    let [listen, connect] = paths.map(|path| status::ask(&path).expect("a state"));
    let saved = |state: &Value, all, calls| traffic(state, all).saturating_sub(traffic(state, calls));
    assert_eq!(connect["counters"]["held"], WAITING, "{connect:#}");
    assert!(saved(&connect, "sent", "send_calls") >= WAITING - 1, "{connect:#}");
    assert!(saved(&listen, "received", "receive_calls") >= WAITING - 1, "{listen:#}");
    assert!(saved(&listen, "sent", "send_calls") >= WAITING - 1, "they leave together too: {listen:#}");
}

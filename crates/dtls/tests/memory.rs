//! The memory that a session takes, counted by an allocator.

mod counting;
mod harness;

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use antedate_dtls::devices::Devices;
use antedate_dtls::psk::PskFile;
use antedate_dtls::service::{Keys, News};
use antedate_dtls::{Options, connect, listen};
use counting::{Counting, count_in};
use harness::*;

#[global_allocator]
static COUNTING: Counting = Counting;

static LISTEN: AtomicIsize = AtomicIsize::new(0);
static CONNECT: AtomicIsize = AtomicIsize::new(0);

/// Sessions that have memory for prepared records.
const BUSY: usize = 256;
/// The most octets of a session at rest, at `listen` and `connect`.
const MOST_OCTETS: [isize; 2] = [3072, 3072];

#[test]
fn quiet_session_is_small() {
    let echo = echo();
    let wide = |options| Options { max_sessions: 2000, ..options };
    let keys = || PskFile::parse(KEYS).expect("good keys");
    let (to, news) = (echo.at, Arc::<News>::default());
    let server = run(move |stop, ready| {
        count_in(&LISTEN);
        listen(&wide(options(any(), to)), keys().into(), &news, stop, |at| _ = ready.send(at))
            .expect("it runs");
    });
    let (to, news) = (server.at, Arc::<News>::default());
    let side = run(move |stop, ready| {
        count_in(&CONNECT);
        let keys =
            Keys { psk: Some(keys()), devices: Devices::all("turbine 3".to_owned()), ..Keys::default() };
        connect(&wide(options(any(), to)), keys, &news, stop, |at| _ = ready.send(at)).expect("it runs");
    });
    let mut devices = Vec::new();
    let mut octets = |sessions: usize| {
        while devices.len() < sessions {
            let device = device(side.at);
            exchange(&device, &[7; 64]);
            devices.push(device);
        }
        [&LISTEN, &CONNECT].map(|counter| counter.load(Ordering::Relaxed))
    };
    let [none, places, all] = [0, BUSY, 2 * BUSY].map(&mut octets);
    for (side, most) in MOST_OCTETS.into_iter().enumerate() {
        let each = |more: isize| more / BUSY as isize;
        let (busy, quiet) = (each(places[side] - none[side]), each(all[side] - places[side]));
        assert!((1024..=most).contains(&quiet), "{quiet} octets a session at rest, on side {side}");
        assert!((20_000..=42_000).contains(&busy), "{busy} octets a session that speaks, on side {side}");
    }
}

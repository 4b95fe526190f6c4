//! Round trips: a publisher here, a subscriber on a thread of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use antedate_channel::mqtt::{Algorithm, PayloadTemplate};
use antedate_mqtt::client::{Client, Event, Message, Qos, Settings};
use antedate_mqtt::file::GroupFile;
use antedate_mqtt::guard::{Guard, Verdict};
use antedate_mqtt::manage::new_group;
use antedate_mqtt::store::Store;

use super::Way;
use super::broker::Broker;
use crate::histogram::{Summary, Times};

/// Bytes of a payload that are known only when the reading is.
const VALUE: usize = 8;
/// Longer than any round trip.
const PATIENCE: Duration = Duration::from_secs(10);

/// The groups of all ways that seal: one file each.
pub(super) fn groups(ways: &[Way]) -> Result<Vec<GroupFile>, String> {
    let mut files = Vec::new();
    for (index, way) in ways.iter().enumerate() {
        if let Some(algorithm) = algorithm(*way) {
            let group = new_group(&format!("way{index}"), algorithm, vec![topic(index)], Vec::new());
            files.push(group.map_err(|fault| fault.to_string())?);
        }
    }
    Ok(files)
}

const fn algorithm(way: Way) -> Option<Algorithm> {
    match way {
        Way::Sealed(algorithm) | Way::Antedated(algorithm) => Some(algorithm),
        Way::Plain | Way::Again | Way::Tls => None,
    }
}

/// The topic of a way. All have the same length.
pub(super) fn topic(index: usize) -> String {
    format!("plant/line4/way{index:02}")
}

/// A guard that seals, and the one that opens.
pub(super) fn guards(ways: &[Way], directory: &Path, name: &str) -> Result<[Guard; 2], String> {
    let state = directory.join(name);
    Store::create(&state).map_err(|fault| fault.to_string())?;
    let store = Store::open(&state).map_err(|fault| fault.to_string())?;
    let files = groups(ways)?;
    let copies = files.iter().map(|file| GroupFile::parse("group".as_ref(), &file.to_text(false)));
    let copies = copies.collect::<Result<Vec<_>, _>>().map_err(|faults| faults.to_string())?;
    let seals = Guard::new(files, None, Some(store), Some("press7".into()));
    Ok([seals, Guard::new(copies, None, None, None)])
}

/// A client on this thread.
pub(super) struct Station {
    runtime: tokio::runtime::Runtime,
    pub(super) client: Client,
}

impl Station {
    /// Connects and subscribes.
    pub(super) fn connect(settings: &Settings, filter: &str) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no event loop: {error}"))?;
        let client = Client::new(settings).map_err(|fault| fault.to_string())?;
        let mut station = Self { runtime, client };
        station.client.subscribe(&[filter.to_owned()], Qos::AtMostOnce).map_err(|full| full.to_string())?;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(Event::Subscribed { granted: true }) = station.next(PATIENCE)? {
                return Ok(station);
            }
        }
        Err("the broker does not answer the subscription".into())
    }

    /// What happens next, if anything does in time.
    pub(super) fn next(&mut self, patience: Duration) -> Result<Option<Event>, String> {
        let next = async { tokio::time::timeout(patience, self.client.next()).await };
        match self.runtime.block_on(next) {
            Err(_) => Ok(None),
            Ok(event) => event.map(Some).map_err(|lost| lost.to_string()),
        }
    }

    /// Waits for a message.
    pub(super) fn message(&mut self, patience: Duration) -> Result<Option<Message>, String> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if let Some(Event::Message(message)) = self.next(patience)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
}

/// What a way took.
pub(super) struct Found {
    pub(super) way: Way,
    pub(super) times: Summary,
    /// Its median against plaintext's within a stretch of the run, and of all stretches the median: what drifts meanwhile, such as the
    /// CPU's clock, meets both.
    pub(super) ratio: f64,
}

/// Stretches of a run.
const STRETCHES: usize = 20;

/// Round trips of all ways with payloads of `size` bytes.
pub(super) fn measure(broker: &Broker, size: usize, rounds: usize) -> Result<Vec<Found>, String> {
    let ways = Way::all();
    debug_assert_eq!(ways.len(), 16);
    let [mut seals, opens] = guards(&ways, broker.directory(), &format!("roundtrip-{size}"))?;
    let stop = Arc::new(AtomicBool::new(false));
    let count = ways.len();
    let answers = |tls: bool, mut guard: Guard| {
        let (settings, stop) = (broker.settings(if tls { "far-tls" } else { "far" }, tls), Arc::clone(&stop));
        std::thread::spawn(move || answer(&settings, if tls { "tls/" } else { "" }, &mut guard, count, &stop))
    };
    let far = answers(false, opens);
    let far_tls = answers(true, Guard::new(Vec::new(), None, None, None));
    let result = (|| {
        let mut near = Station::connect(&broker.settings("near", false), "ack/#")?;
        let mut near_tls = Station::connect(&broker.settings("near-tls", true), "tls/ack/#")?;
        let mut times: Vec<Times> = ways.iter().map(|_| Times::default()).collect();
        let mut stretches: Vec<Vec<Times>> =
            ways.iter().map(|_| (0..STRETCHES).map(|_| Times::default()).collect()).collect();
        let mut text = vec![b'@'; size];
        text[..size - VALUE].fill(b'x');
        let mut payload = text.clone();
        let templates = (0..count).map(|index| PayloadTemplate::marked(&topic(index), &text));
        let templates = templates.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        for (index, way) in ways.iter().enumerate() {
            if algorithm(*way).is_some() {
                let needed = rounds as u64 + WARM_UP as u64 + 1;
                seals.reserve(&topic(index), needed).map_err(|error| error.to_string())?;
            }
        }
        for round in 0..rounds + WARM_UP {
            // Nobody is always the first, nor always behind the same one: an odd stride reaches all of the sixteen.
            for turn in 0..count {
                let index = (round * 7 + turn * (2 * (round % 8) + 1)) % count;
                let value = format!("{round:VALUE$}").into_bytes();
                payload[size - VALUE..].copy_from_slice(&value);
                let station = if ways[index] == Way::Tls { &mut near_tls } else { &mut near };
                let mut message = Vec::with_capacity(size + 64);
                let mut begin = Instant::now();
                match ways[index] {
                    Way::Plain | Way::Again | Way::Tls => message.extend_from_slice(&payload),
                    Way::Sealed(_) => {
                        seals
                            .seal(&topic(index), &payload, &mut message)
                            .map_err(|error| error.to_string())?;
                    }
                    Way::Antedated(_) => {
                        let values = || {
                            begin = Instant::now();
                            Some(vec![value.clone()])
                        };
                        seals
                            .antedate(&templates[index], values, &mut message)
                            .map_err(|error| error.to_string())?;
                    }
                }
                let place =
                    if ways[index] == Way::Tls { format!("tls/{}", topic(index)) } else { topic(index) };
                station
                    .client
                    .publish(&place, Qos::AtMostOnce, false, message)
                    .map_err(|full| full.to_string())?;
                let ack = station.message(PATIENCE)?.ok_or("an acknowledgement did not come")?;
                let took = begin.elapsed();
                if ack.payload != value {
                    return Err(format!("{}: another payload was acknowledged", ways[index].name()));
                }
                if round >= WARM_UP {
                    times[index].record(took.as_nanos() as u64);
                    stretches[index][(round - WARM_UP) * STRETCHES / rounds].record(took.as_nanos() as u64);
                }
            }
        }
        let plain: Vec<f64> = stretches[0].iter().map(|times| times.summary().p50).collect();
        let ratio = |of: &[Times]| {
            let mut ratios: Vec<f64> =
                of.iter().zip(&plain).map(|(times, plain)| times.summary().p50 / plain).collect();
            ratios.sort_by(f64::total_cmp);
            (ratios[STRETCHES / 2 - 1] + ratios[STRETCHES / 2]) / 2.0
        };
        let found = ways.iter().zip(&times).zip(&stretches);
        Ok(found
            .map(|((way, times), of)| Found { way: *way, times: times.summary(), ratio: ratio(of) })
            .collect())
    })();
    stop.store(true, Ordering::Relaxed);
    for far in [far, far_tls] {
        far.join().map_err(|_| "the subscriber panicked")??;
    }
    result
}

/// Rounds that do not count.
const WARM_UP: usize = 20;

/// The subscriber: opens what comes and acknowledges it with the payload's last bytes.
fn answer(
    settings: &Settings,
    prefix: &str,
    guard: &mut Guard,
    count: usize,
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut station = Station::connect(settings, &format!("{prefix}plant/line4/+"))?;
    let topics: Vec<String> = (0..count).map(topic).collect();
    let mut payload = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let Some(message) = station.message(Duration::from_millis(100))? else { continue };
        match guard.open(&message.topic, &message.payload, &mut payload) {
            Verdict::Opened(_) | Verdict::Plain => {}
            other => return Err(format!("{}: {other:?}", message.topic)),
        }
        if prefix.is_empty() && !topics.contains(&message.topic) {
            return Err(format!("{}: nobody publishes there", message.topic));
        }
        let value = payload[payload.len().saturating_sub(VALUE)..].to_vec();
        let place = format!("{prefix}ack/a");
        station.client.publish(&place, Qos::AtMostOnce, false, value).map_err(|full| full.to_string())?;
    }
    Ok(())
}

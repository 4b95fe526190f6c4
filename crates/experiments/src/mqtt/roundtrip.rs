//! Round trips between a publisher and a subscriber on its own thread.

use crate::{ExperimentError, failed};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use antedate_channel::mqtt::{Algorithm, PayloadTemplate};
use antedate_mqtt::file::GroupFile;
use antedate_mqtt::guard::{Guard, Verdict};
use antedate_mqtt::manage::new_group;
use antedate_mqtt::store::Store;
use antedate_mqtt_client::{Client, Event, Message, Qos, Settings};

use super::Way;
use super::broker::Broker;
use antedate_lab::histogram::{Summary, Times};

/// Bytes of a payload that only the reading provides.
const VALUE: usize = 8;
/// Bound of a round trip.
const PATIENCE: Duration = Duration::from_secs(10);

/// Creates one group file for each sealing way.
pub(super) fn groups(ways: &[Way]) -> Result<Vec<GroupFile>, ExperimentError> {
    let mut files = Vec::new();
    for (index, way) in ways.iter().enumerate() {
        if let Some(algorithm) = algorithm(*way) {
            let group = new_group(&format!("way{index}"), algorithm, vec![topic(index)], Vec::new());
            files.push(group.map_err(failed)?);
        }
    }
    Ok(files)
}

const fn algorithm(way: Way) -> Option<Algorithm> {
    match way {
        Way::Sealed(algorithm) | Way::Antedated(algorithm) => Some(algorithm),
        Way::Plain | Way::Again | Way::Longer | Way::Tls => None,
    }
}

/// Topic of a way; all have the same length.
pub(super) fn topic(index: usize) -> String {
    format!("plant/line4/way{index:02}")
}

/// Creates a sealing guard and an opening one.
pub(super) fn guards(ways: &[Way], directory: &Path, name: &str) -> Result<[Guard; 2], ExperimentError> {
    pair(groups(ways)?, directory, name)
}

fn pair(files: Vec<GroupFile>, directory: &Path, name: &str) -> Result<[Guard; 2], ExperimentError> {
    let state = directory.join(name);
    // The keys are this run's.
    Store::permit_volatile(&state).and_then(|()| Store::create(&state)).map_err(failed)?;
    let store = Store::open(&state).map_err(failed)?;
    let copies = files.iter().map(|file| GroupFile::parse("group".as_ref(), &file.to_text(false)));
    let copies = copies.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let seals = Guard::new(files, None, Some(store), Some("press7".into()));
    Ok([seals, Guard::new(copies, None, None, None)])
}

/// Creates for each way a sealing and an opening guard with one group each, like a device.
fn guard_each(ways: &[Way], directory: &Path, name: &str) -> Result<Vec<[Guard; 2]>, ExperimentError> {
    let mut each = Vec::new();
    let mut files = groups(ways)?.into_iter();
    for (index, way) in ways.iter().enumerate() {
        let file = if algorithm(*way).is_some() { files.next() } else { None };
        each.push(pair(file.into_iter().collect(), directory, &format!("{name}-{index}"))?);
    }
    Ok(each)
}

/// A client on this thread.
pub(crate) struct Station {
    runtime: tokio::runtime::Runtime,
    pub(crate) client: Client,
}

impl Station {
    /// Connects and subscribes.
    pub(crate) fn connect(settings: &Settings, filter: &str) -> Result<Self, ExperimentError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no event loop: {error}"))?;
        let client = Client::new(settings).map_err(failed)?;
        let mut station = Self { runtime, client };
        station.client.subscribe(&[filter.to_owned()], Qos::AtMostOnce).map_err(failed)?;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(Event::Subscribed { granted: true }) = station.next(PATIENCE)? {
                return Ok(station);
            }
        }
        Err("the broker does not answer the subscription".into())
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self, patience: Duration) -> Result<Option<Event>, ExperimentError> {
        self.next_after(patience, || {})
    }

    /// Like `next`, but calls `idle` first if all is sent and no event waits.
    fn next_after(
        &mut self,
        patience: Duration,
        idle: impl FnOnce(),
    ) -> Result<Option<Event>, ExperimentError> {
        let next = async { tokio::time::timeout(patience, self.client.next_after(idle)).await };
        match self.runtime.block_on(next) {
            Err(_) => Ok(None),
            Ok(event) => event.map(Some).map_err(failed),
        }
    }

    /// Waits for a message.
    pub(crate) fn message(&mut self, patience: Duration) -> Result<Option<Message>, ExperimentError> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if let Some(Event::Message(message)) = self.next(patience)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
}

/// Waits until so many other ends have subscribed: what is published before is lost.
pub(super) fn all_ready(readiness: &Receiver<()>, ends: usize) -> Result<(), ExperimentError> {
    for _ in 0..ends {
        readiness.recv_timeout(PATIENCE).map_err(|_| "the other end does not subscribe")?;
    }
    Ok(())
}

/// Results of a way.
pub(super) struct Found {
    pub(super) way: Way,
    pub(super) times: Summary,
    /// Plaintext in turns with it.
    pub(super) plain: Summary,
    /// Median over plaintext's in the same stretch, then the median of all stretches. A drift, of
    /// the CPU's clock for example, affects both.
    pub(super) median: f64,
    /// The same for the 99th percentile. A core that is withheld for milliseconds affects one
    /// stretch.
    pub(super) p99: f64,
    /// The part of sealing: from the reading to the message.
    pub(super) sealing: Summary,
    /// The part of opening; zero without sealing.
    pub(super) opening: Summary,
}

/// Stretches of a run.
const STRETCHES: usize = 20;

/// Time between an acknowledgement and the next reading. In it the broker and the subscriber fall
/// asleep and the preparation finishes.
const PAUSE: Duration = Duration::from_micros(50);

/// Rounds before the measurement.
const WARM_UP: usize = 20;

/// Measures round trips of all ways with payloads of `size` bytes, each in turns with plaintext.
pub(super) fn measure(broker: &Broker, size: usize, rounds: usize) -> Result<Vec<Found>, ExperimentError> {
    let ways = Way::all();
    let each = guard_each(&ways, broker.directory(), &format!("roundtrip-{size}"))?;
    let (mut seals, opens): (Vec<Guard>, Vec<Guard>) =
        each.into_iter().map(|[seals, opens]| (seals, opens)).unzip();
    let stop = Arc::new(AtomicBool::new(false));
    let count = ways.len();
    let (ready, readiness) = mpsc::channel();
    let answers = |tls: bool, mut guards: Vec<Guard>| {
        let (settings, stop) = (broker.settings(if tls { "far-tls" } else { "far" }, tls), Arc::clone(&stop));
        let (prefix, ready) = (if tls { "tls/" } else { "" }, ready.clone());
        std::thread::spawn(move || answer((&settings, prefix), &mut guards, &ready, &stop))
    };
    let far = answers(false, opens);
    let far_tls = answers(true, Vec::new());
    let result: Result<Vec<Found>, ExperimentError> = (|| {
        let mut near = Station::connect(&broker.settings("near", false), "ack/#")?;
        let mut near_tls = Station::connect(&broker.settings("near-tls", true), "tls/ack/#")?;
        all_ready(&readiness, 2)?;
        let envelope = envelope_len(&ways, &mut seals, size)?;
        let mut text = vec![b'@'; size];
        text[..size - VALUE].fill(b'x');
        let mut payload = text.clone();
        let templates = (0..count).map(|index| PayloadTemplate::marked(&topic(index), &text));
        let templates = templates.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let topics: Vec<String> = (0..count).map(topic).collect();
        let mut found = Vec::new();
        for (index, way) in ways.iter().enumerate().skip(1) {
            if algorithm(*way).is_some() {
                let needed = rounds as u64 + WARM_UP as u64 + 1;
                seals[index].reserve(&topic(index), needed).map_err(failed)?;
            }
            let mut times: [Vec<Times>; 2] =
                [(); 2].map(|()| (0..STRETCHES).map(|_| Times::default()).collect());
            let mut all = [Times::default(), Times::default()];
            let mut sealing = Times::default();
            for round in 0..rounds + WARM_UP {
                // The order alternates.
                for turn in [round % 2, 1 - round % 2] {
                    let index = if turn == 0 { 0 } else { index };
                    let seals = &mut seals[index];
                    let value = format!("{round:VALUE$}").into_bytes();
                    payload[size - VALUE..].copy_from_slice(&value);
                    let station = if ways[index] == Way::Tls { &mut near_tls } else { &mut near };
                    let mut message = Vec::with_capacity(size + ROOM);
                    let due = Instant::now() + PAUSE;
                    match ways[index] {
                        Way::Antedated(_) => seals.antedate(&templates[index]),
                        _ => {
                            seals.idle();
                            Ok(())
                        }
                    }
                    .map_err(failed)?;
                    seals.rehearse();
                    let begin = wait(due);
                    match ways[index] {
                        Way::Plain | Way::Again | Way::Tls => message.extend_from_slice(&payload),
                        Way::Longer => {
                            message.resize(envelope - size, b'x');
                            message.extend_from_slice(&payload);
                        }
                        Way::Sealed(_) => {
                            seals.seal(&topics[index], &payload, &mut message).map_err(failed)?;
                        }
                        Way::Antedated(_) => {
                            seals.seal_values(&templates[index], &[&value], &mut message).map_err(failed)?;
                        }
                    }
                    let sealed = begin.elapsed();
                    let place =
                        if ways[index] == Way::Tls { format!("tls/{}", topic(index)) } else { topic(index) };
                    station.client.publish(&place, Qos::AtMostOnce, false, message).map_err(failed)?;
                    let ack = station.message(PATIENCE)?.ok_or("an acknowledgement did not come")?;
                    let took = begin.elapsed();
                    if ack.payload != value {
                        return Err(
                            format!("{}: another payload was acknowledged", ways[index].name()).into()
                        );
                    }
                    if round >= WARM_UP {
                        all[turn].record(took.as_nanos() as u64);
                        if turn == 1 {
                            sealing.record(sealed.as_nanos() as u64);
                        }
                        times[turn][(round - WARM_UP) * STRETCHES / rounds].record(took.as_nanos() as u64);
                    }
                }
            }
            found.push(Found {
                way: *way,
                times: all[1].summary(),
                plain: all[0].summary(),
                median: middle_ratio(&times, 50.0),
                p99: middle_ratio(&times, 99.0),
                sealing: sealing.summary(),
                opening: Times::default().summary(),
            });
        }
        Ok(found)
    })();
    stop.store(true, Ordering::Relaxed);
    let [opening, tls] = [far, far_tls].map(|far| far.join().map_err(|_| "the subscriber panicked"));
    let (mut found, opening) = (result?, opening??);
    tls??;
    for (found, opening) in found.iter_mut().zip(opening.iter().skip(1)) {
        found.opening = opening.summary();
    }
    Ok(found)
}

/// The ratio of a percentile to plaintext's: the median over all stretches.
fn middle_ratio([plain, times]: &[Vec<Times>; 2], percent: f64) -> f64 {
    let ratios = times.iter().zip(plain);
    let ratios = ratios.map(|(times, plain)| times.percentile_us(percent) / plain.percentile_us(percent));
    let mut ratios: Vec<f64> = ratios.collect();
    ratios.sort_by(f64::total_cmp);
    (ratios[STRETCHES / 2 - 1] + ratios[STRETCHES / 2]) / 2.0
}

/// Spins until `due` and returns the time.
fn wait(due: Instant) -> Instant {
    loop {
        let now = Instant::now();
        if now >= due {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// Bound of an AEAD envelope's overhead in bytes.
const ROOM: usize = 64;

/// Length of an AES-128-GCM envelope with this payload.
fn envelope_len(ways: &[Way], seals: &mut [Guard], size: usize) -> Result<usize, ExperimentError> {
    let mut message = Vec::new();
    for (index, way) in ways.iter().enumerate() {
        if *way == Way::Sealed(Algorithm::A128Gcm) {
            let sealed = seals[index].seal(&topic(index), &vec![0; size], &mut message);
            sealed.map_err(failed)?;
        }
    }
    Ok(message.len())
}

/// The subscriber: opens each message and acknowledges it with the payload's last bytes. Returns
/// the opening times of each topic.
fn answer(
    (settings, prefix): (&Settings, &str),
    guards: &mut [Guard],
    ready: &Sender<()>,
    stop: &AtomicBool,
) -> Result<Vec<Times>, ExperimentError> {
    let mut station = Station::connect(settings, &format!("{prefix}plant/line4/+"))?;
    // The receiver may have given up.
    let _ = ready.send(());
    let topics: Vec<String> = (0..guards.len()).map(topic).collect();
    let mut opening: Vec<Times> = (0..guards.len()).map(|_| Times::default()).collect();
    let (mut payload, mut last) = (Vec::new(), None);
    while !stop.load(Ordering::Relaxed) {
        // A device has one guard, that of the last message.
        let idle = || {
            if let Some(guard) = last.and_then(|last: usize| guards.get_mut(last)) {
                guard.idle();
            }
        };
        let Some(Event::Message(message)) = station.next_after(Duration::from_millis(100), idle)? else {
            continue;
        };
        let opened = match topics.iter().position(|topic| *topic == message.topic) {
            Some(index) => {
                last = Some(index);
                let begin = Instant::now();
                let verdict = guards[index].open(&message.topic, &message.payload, &mut payload);
                opening[index].record(begin.elapsed().as_nanos() as u64);
                match verdict {
                    Verdict::Opened(_) | Verdict::Plain => &payload,
                    other => return Err(format!("{}: {other:?}", message.topic).into()),
                }
            }
            None if !prefix.is_empty() => &message.payload,
            None => return Err(format!("{}: nobody publishes there", message.topic).into()),
        };
        let value = opened[opened.len().saturating_sub(VALUE)..].to_vec();
        let place = format!("{prefix}ack/a");
        station.client.publish(&place, Qos::AtMostOnce, false, value).map_err(failed)?;
    }
    Ok(opening)
}

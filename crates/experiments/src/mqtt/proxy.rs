//! Experiment `mqtt-proxy`: a round trip of two unchanged applications through a proxy each, beside
//! a plain TCP relay each, in turns.
//!
//! A round trip is publish, proxy, broker, proxy, subscriber, and the acknowledgement back the same
//! way: two payloads are sealed and two are opened. The relay copies octets in the same kind of
//! event loop.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antedate_channel::mqtt::Algorithm;
use antedate_lab::histogram::{Summary, Times};
use antedate_mqtt::file::GroupFile;
use antedate_mqtt::guard::Guard;
use antedate_mqtt::manage::new_group;
use antedate_mqtt::store::Store;
use antedate_mqtt_client::{Client, Event, Qos, Settings};
use antedate_mqtt_proxy::{Listen, Options as ProxyOptions};
use tokio::net::{TcpListener, TcpStream};

use super::broker::Broker;
use super::roundtrip::{Station, all_ready};
use crate::{ExperimentError, Options, Report, Row, failed};

/// Payloads in bytes.
const SIZES: [usize; 3] = [64, 256, 1024];
/// The proxy's median over the relay's: this ratio or these microseconds, whichever is more.
const GOAL: f64 = 1.10;
const GOAL_US: f64 = 20.0;
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between an acknowledgement and the next publish.
const PAUSE: Duration = Duration::from_micros(200);
const WARM_UP: usize = 50;

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    crate::ends_with_signals();
    let mut report = Report::new("mqtt-proxy", "katsikeas2017");
    let broker = Broker::start()?;
    let rounds = if options.quick { 300 } else { 10_000 };
    let group = new_group("proxy", Algorithm::AesCcm16_64_128, vec!["plant/#".into()], Vec::new());
    let group = group.map_err(failed)?.to_text(false);
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    let to = broker.settings("unused", false);
    let mut ways = Vec::new();
    for name in ["near", "far"] {
        let (relay, thread) = relay(&to, &stop)?;
        threads.push(thread);
        let (proxy, thread) = proxy(&to, name, &group, broker.directory(), &stop)?;
        threads.push(thread);
        ways.push([relay, proxy]);
    }
    let measured = SIZES.iter().enumerate().try_for_each(|(step, size)| {
        options.progress(step, SIZES.len(), &format!("round trips with {size} bytes"));
        let [relay, proxy] = measure(&ways, &to, *size, rounds)?;
        rows(&mut report, *size, relay, proxy, options);
        Ok(())
    });
    options.progress(1, 1, "");
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "a proxy or a relay panicked")??;
    }
    measured.map(|()| report)
}

fn rows(report: &mut Report, size: usize, relay: Summary, proxy: Summary, options: &Options) {
    let case = format!("two proxies beside two TCP relays, {size} B, QoS 0");
    for (metric, relay, proxy) in [("median RTT", relay.p50, proxy.p50), ("p99 RTT", relay.p99, proxy.p99)] {
        let row = Row::new(&case, metric, "us").baseline(relay).antedated(proxy);
        report.row(row.note("baseline: the relays; loopback, two sealed and two opened payloads"));
    }
    let (ratio, more) = (proxy.p50 / relay.p50, proxy.p50 - relay.p50);
    if !options.quick {
        let what =
            format!("{case}: median {ratio:.3} of the relays', {more:+.1} us, goal {GOAL} or {GOAL_US} us");
        report.check(what, ratio <= GOAL || more <= GOAL_US);
    }
}

type Running = (SocketAddr, JoinHandle<Result<(), ExperimentError>>);

/// A proxy on a thread.
fn proxy(
    to: &Settings,
    name: &str,
    group: &str,
    directory: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<Running, ExperimentError> {
    let state = directory.join(name);
    // The keys are this run's.
    Store::permit_volatile(&state).and_then(|()| Store::create(&state)).map_err(failed)?;
    let store = Store::open(&state).map_err(failed)?;
    let file = GroupFile::parse("group".as_ref(), group).map_err(failed)?;
    let (name, stop) = (name.to_owned(), Arc::clone(stop));
    let options = ProxyOptions {
        listen: vec![Listen::Tcp((Ipv4Addr::LOCALHOST, 0).into())],
        broker: to.clone(),
        plain: Vec::new(),
        clients: 10,
        status: None,
    };
    let (told, place) = mpsc::channel();
    let thread = thread::spawn(move || {
        let guard = Guard::new(vec![file], None, Some(store), Some(name));
        let ready = |places: &[Listen]| {
            if let [Listen::Tcp(address)] = places {
                // The receiver waits for it.
                let _ = told.send(*address);
            }
        };
        antedate_mqtt_proxy::run(&options, guard, &stop, ready).map(drop).map_err(failed)
    });
    let place = place.recv_timeout(PATIENCE).map_err(|_| "the proxy does not start")?;
    Ok((place, thread))
}

/// A relay on a thread, which copies octets.
fn relay(to: &Settings, stop: &Arc<AtomicBool>) -> Result<Running, ExperimentError> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let place = listener.local_addr().map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let (port, stop) = (to.port, Arc::clone(stop));
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).map_err(failed)?;
            while !stop.load(Ordering::Relaxed) {
                let accepted = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
                let Ok(accepted) = accepted else { continue };
                let (mut near, _) = accepted.map_err(failed)?;
                let mut far = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
                for stream in [&near, &far] {
                    stream.set_nodelay(true).map_err(failed)?;
                }
                tokio::spawn(async move {
                    // Either side ends it.
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
            Ok(())
        })
    });
    Ok((place, thread))
}

/// The round trips of both ways, relays first.
fn measure(
    ways: &[[SocketAddr; 2]],
    to: &Settings,
    size: usize,
    rounds: usize,
) -> Result<[Summary; 2], ExperimentError> {
    let [near, far] = ways else { return Err("there are two ends".into()) };
    let stop = Arc::new(AtomicBool::new(false));
    let settings = |end: &str, place: SocketAddr| Settings {
        client_id: format!("{end}-{}", place.port()),
        port: place.port(),
        ..to.clone()
    };
    let (ready, readiness) = mpsc::channel();
    let answers: Vec<_> = far
        .iter()
        .enumerate()
        .map(|(way, place)| {
            let (settings, stop) = (settings("far", *place), Arc::clone(&stop));
            let ready = ready.clone();
            thread::spawn(move || answer(&settings, way, &ready, &stop))
        })
        .collect();
    let measured = (|| {
        let mut stations = Vec::new();
        for (way, place) in near.iter().enumerate() {
            stations.push(Station::connect(&settings("near", *place), &format!("plant/ack/{way}"))?);
        }
        let mut times = [Times::default(), Times::default()];
        all_ready(&readiness, far.len())?;
        for round in 0..rounds + WARM_UP {
            for way in [round % 2, 1 - round % 2] {
                let Some(station) = stations.get_mut(way) else { continue };
                let mut payload = vec![b'x'; size];
                let value = format!("{round:8}");
                payload.splice(size - 8.., value.bytes());
                thread::sleep(PAUSE);
                let begin = Instant::now();
                let place = format!("plant/to/{way}");
                station.client.publish(&place, Qos::AtMostOnce, false, payload.clone()).map_err(failed)?;
                let ack = station.message(PATIENCE)?.ok_or("an acknowledgement did not come")?;
                let took = begin.elapsed();
                if ack.payload != payload {
                    return Err("another payload was acknowledged".into());
                }
                if round >= WARM_UP {
                    times[way].record(took.as_nanos() as u64);
                }
            }
        }
        Ok(times.map(|times| times.summary()))
    })();
    stop.store(true, Ordering::Relaxed);
    for answer in answers {
        answer.join().map_err(|_| "the subscriber panicked")??;
    }
    measured
}

/// The subscriber: sends each payload back.
fn answer(
    settings: &Settings,
    way: usize,
    ready: &mpsc::Sender<()>,
    stop: &AtomicBool,
) -> Result<(), ExperimentError> {
    let mut station = Station::connect(settings, &format!("plant/to/{way}"))?;
    // The receiver may have given up.
    let _ = ready.send(());
    let place = format!("plant/ack/{way}");
    while !stop.load(Ordering::Relaxed) {
        if let Some(Event::Message(message)) = station.next(Duration::from_millis(100))? {
            let client: &Client = &station.client;
            client.publish(&place, Qos::AtMostOnce, false, message.payload).map_err(failed)?;
        }
    }
    Ok(())
}

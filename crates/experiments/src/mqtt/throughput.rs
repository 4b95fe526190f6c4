//! Publishes per second of one client at QoS 0, to a subscriber that opens each.

use crate::{ExperimentError, failed};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use antedate_mqtt::guard::{Guard, Verdict};
use antedate_mqtt_client::{Event, Qos};

use super::Way;
use super::broker::Broker;
use super::roundtrip::{Station, guards, topic};

/// Result of a series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) per_second: f64,
    pub(super) lost: u64,
}

/// Most publishes waiting in the client.
const WINDOW: u64 = 2000;
/// Silence after which the rest counts as lost.
const SILENCE: Duration = Duration::from_secs(3);

/// The median over the turns; all ways run in each turn.
pub(super) fn measure(
    broker: &Broker,
    count: u64,
    turns: usize,
) -> Result<Vec<(Way, Rate)>, ExperimentError> {
    let ways: Vec<Way> =
        Way::all().into_iter().filter(|way| matches!(way, Way::Plain | Way::Sealed(_))).collect();
    let mut found: Vec<(Way, Vec<f64>, u64)> = ways.iter().map(|way| (*way, Vec::new(), 0)).collect();
    for turn in 0..turns {
        let [mut seals, mut opens] = guards(&ways, broker.directory(), &format!("throughput-{turn}"))?;
        for (index, (_, rates, lost)) in found.iter_mut().enumerate() {
            let one = series(broker, &topic(index), &mut seals, opens, count, ways[index] == Way::Plain)?;
            rates.push(one.0.per_second);
            *lost += one.0.lost;
            opens = one.1;
        }
    }
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    Ok(found
        .into_iter()
        .map(|(way, mut rates, lost)| (way, Rate { per_second: median(&mut rates), lost }))
        .collect())
}

fn series(
    broker: &Broker,
    topic: &str,
    seals: &mut Guard,
    mut opens: Guard,
    count: u64,
    plain: bool,
) -> Result<(Rate, Guard), ExperimentError> {
    let settings = broker.settings("far", false);
    let (ready, subscribed) = sync_channel(1);
    let filter = topic.to_owned();
    let far = std::thread::spawn(move || {
        let mut station = Station::connect(&settings, &filter)?;
        // The receiver may have given up.
        let _ = ready.send(());
        let (mut came, mut last) = (0, Instant::now());
        let mut payload = Vec::new();
        while came < count {
            let Some(message) = station.message(SILENCE)? else { break };
            match opens.open(&message.topic, &message.payload, &mut payload) {
                Verdict::Opened(_) | Verdict::Plain => came += 1,
                other => return Err(format!("{}: {other:?}", message.topic).into()),
            }
            last = Instant::now();
        }
        Ok::<_, ExperimentError>((came, last, opens))
    });
    let mut near = Station::connect(&broker.settings("near", false), "nothing")?;
    subscribed.recv_timeout(Duration::from_secs(10)).map_err(|_| "the subscriber does not come up")?;
    let payload = [b'x'; 64];
    let begin = Instant::now();
    let (mut queued, mut sent) = (0, 0);
    while sent < count {
        while queued < count && queued - sent < WINDOW {
            let mut message = Vec::with_capacity(128);
            if plain {
                message.extend_from_slice(&payload);
            } else {
                seals.seal(topic, &payload, &mut message).map_err(failed)?;
            }
            near.client.publish(topic, Qos::AtMostOnce, false, message).map_err(failed)?;
            queued += 1;
        }
        // Refills the queue in one go once half of it is sent.
        while sent < count && (queued == count || queued - sent > WINDOW / 2) {
            match near.next(SILENCE)? {
                Some(Event::Sent(_)) => sent += 1,
                Some(_) => {}
                None => return Err("nothing is sent any more".into()),
            }
        }
    }
    let (came, last, opens) = far.join().map_err(|_| "the subscriber panicked")??;
    let seconds = last.duration_since(begin).as_secs_f64();
    Ok((Rate { per_second: came as f64 / seconds, lost: count - came }, opens))
}

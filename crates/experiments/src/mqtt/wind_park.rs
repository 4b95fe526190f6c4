//! The wind park (katsikeas2017, section V): which bounds of its services hold, per option, mote
//! and network, and what breaks them.
//!
//! The paper compares its end-to-end times, half of its round trips, with the bounds. Here the
//! latency is the planner's ([`antedate_plan::bearer`]) with the counted times of sealing and
//! opening. MQTT goes from mote to mote through a broker at the gateway, as in the paper's testbed;
//! the UDP service takes one packet without a broker. All of it is modelled.

use antedate_plan::bearer::{Bearer, Journey, Path, Tsch};
use antedate_plan::publish::{self, Work};

use super::motes::{CHOICES, Choice, Mote, TOPIC, sealed_len};
use crate::{ExperimentError, Report, Row};

/// Bytes of a reading.
const PAYLOAD: usize = 48;
const BROKER_MS: f64 = 1.0;
/// Bounds of the MQTT services, and the paper's verdicts.
const TCP: [(f64, &str); 3] = [
    (100.0, "encryption would have to be dropped"),
    (250.0, "viable with some fine-tuning"),
    (500.0, "viable"),
];
const UDP: (f64, &str) = (10.0, "MQTT cannot; another protocol over UDP could");
/// Octets of UDP's header.
const UDP_HEADER: usize = 8;

/// A network, and whether its links can be secured by CCM*.
struct Network {
    name: &'static str,
    bearer: Bearer,
    is_radio: bool,
}

fn networks() -> [Network; 4] {
    let radio = |wait_ms| Bearer::SixLowpan { wait_ms, hops: 1 };
    let network = |name, bearer, is_radio| Network { name, bearer, is_radio };
    [
        network("6LoWPAN, radios asleep as the paper's", radio(publish::wait_ms(TOPIC)), true),
        network("6LoWPAN, radios always on", radio(0.0), true),
        network("TSCH, 7 slots of 10 ms", Bearer::Tsch(Tsch::new(7, 1, 1)), false),
        network(
            "100 Mbit/s Ethernet, 2 switches",
            Bearer::FastEthernet(Path { switches: 2, ..Path::default() }),
            false,
        ),
    ]
}

/// Adds the rows of all services on all networks.
pub(super) fn report(report: &mut Report, motes: &[Mote; 2]) -> Result<(), ExperimentError> {
    for network in &networks() {
        for mote in motes {
            rows(report, network, mote, "plaintext", 0, [Some(Work::default()), None]);
            for choice in &CHOICES {
                let works = works(mote, choice)?;
                rows(report, network, mote, choice.name, sealed_len(choice, PAYLOAD) - PAYLOAD, works);
            }
            if network.is_radio {
                link_layer(report, network, mote);
            }
        }
    }
    Ok(())
}

fn works(mote: &Mote, choice: &Choice) -> Result<[Option<Work>; 2], ExperimentError> {
    let antedated = choice.antedates.then(|| mote.work(choice, PAYLOAD, true)).transpose()?;
    Ok([Some(mote.work(choice, PAYLOAD, false)?), antedated])
}

/// The journey of a message with this overhead, over MQTT and as one datagram.
fn journeys(network: &Network, added: usize) -> [Journey; 2] {
    let over = Box::new(network.bearer.clone());
    let mqtt = Bearer::Mqtt { broker_ms: BROKER_MS, topic: TOPIC, over };
    // The planner adds its own envelope, without the tag.
    let envelope = Bearer::envelope().min(PAYLOAD + added);
    [mqtt.journey(PAYLOAD + added - envelope, 0), network.bearer.journey(PAYLOAD + added, 0)]
}

fn rows(
    report: &mut Report,
    network: &Network,
    mote: &Mote,
    option: &str,
    added: usize,
    works: [Option<Work>; 2],
) {
    let [mqtt, udp] = journeys(network, added);
    let case = |service: &str| format!("wind park, {}, {}, {option}: {service}", network.name, mote.name);
    let cost = |work: Work| [work.seal, work.open];
    say(report, case("MQTT"), &mqtt, works.map(|work| work.map(cost)), &TCP);
    say(report, case("UDP"), &udp, works.map(|work| work.map(cost)), &[UDP]);
}

/// CCM* in software on each hop: mote, gateway, mote with a broker; one hop without.
fn link_layer(report: &mut Report, network: &Network, mote: &Mote) {
    let wait = network.bearer.journey(0, 0).forwarding_ms;
    let publish = publish::frames(TOPIC, PAYLOAD, true);
    let packet = publish::packet(UDP_HEADER + PAYLOAD, true);
    let of = |frames: &publish::Frames, hops: f64, broker: f64| Journey {
        transmission_ms: hops * frames.all_ms(),
        forwarding_ms: hops * wait + broker,
        ..Journey::default()
    };
    let cost = |frames: &publish::Frames, hops: f64| {
        [["seal", "open"], ["online", "open-online"]]
            .map(|parts| Some(parts.map(|part| hops * frames.sum(|octets| mote.link_ms(octets, &[part])))))
    };
    let case =
        |service: &str| format!("wind park, {}, {}, link-layer CCM*: {service}", network.name, mote.name);
    say(report, case("MQTT"), &of(&publish, 2.0, BROKER_MS), cost(&publish, 2.0), &TCP);
    say(report, case("UDP"), &of(&packet, 1.0, 0.0), cost(&packet, 1.0), &[UDP]);
}

/// Adds a row: latency unmodified and antedated, and for each bound whether it holds or what breaks
/// it.
fn say(
    report: &mut Report,
    case: String,
    journey: &Journey,
    costs: [Option<[f64; 2]>; 2],
    bounds: &[(f64, &str)],
) {
    let way = journey.transmission_ms + journey.propagation_ms + journey.forwarding_ms;
    let latency = |cost: Option<[f64; 2]>| cost.map(|[seal, open]| way + seal + open);
    let [plain, antedated] = costs.map(latency);
    let mut notes = Vec::new();
    let yes = |of: Option<f64>, bound: f64| of.map(|ms| f64::from(u8::from(ms <= bound)));
    for (bound, paper) in bounds {
        let holds = |of: Option<f64>| of.is_some_and(|ms| ms <= *bound);
        let verdict = match (holds(plain), antedated.map(|ms| ms <= *bound)) {
            (true, Some(true) | None) => "holds".to_owned(),
            (false, Some(true)) => "holds only antedated".to_owned(),
            (true, Some(false)) => "holds only unprepared".to_owned(),
            (false, Some(false) | None) => {
                format!("broken by {}", limit(journey, costs[1].or(costs[0]).unwrap_or_default()))
            }
        };
        let row = Row::new(&case, format!("bound of {bound} ms holds"), "yes = 1");
        let row = row.baseline(yes(plain, *bound)).antedated(yes(antedated, *bound));
        report.row(row.note(format!("modelled; {verdict} (paper: {paper})")));
        notes.push(format!("{bound} ms: {verdict} (paper: {paper})"));
    }
    let row = Row::new(case, "latency", "ms").baseline(plain).antedated(antedated);
    report.row(row.note(format!("modelled; {}", notes.join("; "))));
}

/// The largest part of the latency.
fn limit(journey: &Journey, [seal, open]: [f64; 2]) -> &'static str {
    [
        (journey.forwarding_ms, "waiting for cells, receivers and the broker"),
        (journey.transmission_ms, "transmission"),
        (seal, "sealing"),
        (open, "opening"),
    ]
    .into_iter()
    .max_by(|a, b| a.0.total_cmp(&b.0))
    .map_or("", |(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paper_network_holds_only_500_ms() {
        let [asleep, on, ..] = networks();
        let [mqtt, _] = journeys(&asleep, 32);
        let way = mqtt.transmission_ms + mqtt.forwarding_ms;
        assert!(way > 250.0 && way < 500.0, "{way}");
        assert_eq!(limit(&mqtt, [2.0, 2.0]), "waiting for cells, receivers and the broker");
        let [mqtt, udp] = journeys(&on, 32);
        assert!(mqtt.transmission_ms + mqtt.forwarding_ms < 100.0);
        assert!(udp.transmission_ms < 10.0, "{}", udp.transmission_ms);
    }
}

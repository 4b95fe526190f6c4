//! Experiment `attack`: an attacker on the wire, at a machine's port and at the control socket,
//! against two real gateways with agreed keys and a cyclic flow between them. For each attack: the
//! counter that must rise, the warning in the log, frames that came out (none may), and the flow's
//! bus errors beside those without the attack in the same run.
//!
//! - `forge`: the frames
//! - `insider`: MKPDUs of an attacker with the CAK
//! - `plant`: machines, gateways and counters
//! - `dtls`: the same on the way of a DTLS proxy
//! - `mqtt`: sealed payloads that a broker or a member exchanges

mod dtls;
pub(crate) mod forge;
mod insider;
mod mqtt;
pub(crate) mod plant;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use antedate_gateway::run::control::{self, Request};
use antedate_lab::emulator::schedule::Random;

use crate::{ExperimentError, Options, Report, Row, failed};
use forge::Recorded;
use plant::Plant;

/// Time of an attack, and as long before it without one.
const TIME: Duration = Duration::from_secs(5);
const QUICK_TIME: Duration = Duration::from_millis(700);
/// Pause between two frames of an attack that is no flood.
const PAUSE: Duration = Duration::from_micros(500);
/// Clients that keep the control socket.
const CLIENTS: usize = 40;

type Forge = fn(&Recorded, &mut Random) -> Vec<Vec<u8>>;

/// The attacker's deed.
enum Deed {
    /// Frames on the wire, towards gateway B.
    Frames(Forge),
    /// The same without a pause.
    Flood(Forge),
    /// Frames from the controller's port without a pause.
    FieldFlood(Forge),
    /// Clients of the control socket that send an octet now and then.
    Dribble,
}

struct Attack {
    name: &'static str,
    deed: Deed,
    /// Beginnings of the counters of which one must rise.
    counters: &'static [&'static str],
}

const fn frames(name: &'static str, forge: Forge, counters: &'static [&'static str]) -> Attack {
    Attack { name, deed: Deed::Frames(forge), counters }
}

const fn flood(name: &'static str, forge: Forge, counters: &'static [&'static str]) -> Attack {
    Attack { name, deed: Deed::Flood(forge), counters }
}

const ALL: [Attack; 27] = [
    frames("replay", forge::replay, &["InPktsLate"]),
    frames("reorder", forge::reversed, &["InPktsLate"]),
    frames("splice", forge::spliced, &["InPktsNotValid"]),
    frames("truncate", forge::truncated, &["InPktsBadTag", "InPktsNotValid"]),
    frames("plaintext", forge::plaintext, &["InPktsNoTag"]),
    frames("unencrypted", forge::unencrypted, &["InPktsNotValid", "InPktsBadTag", "InPktsInvalid"]),
    frames("fragments", forge::fragments, &["InPktsBadTag", "InPktsNotValid"]),
    frames(
        "association",
        forge::other_association,
        &["InPktsNotUsingSA", "InPktsUnusedSA", "InPktsNotValid"],
    ),
    frames("channels", forge::channels, &["InPktsUnknownSCI", "InPktsNoSCI"]),
    frames("vlan-hopping", forge::stacked_tags, &["InPktsNoTag", "InPktsLate"]),
    frames("llc-snap", forge::llc_snap, &["InPktsNoTag"]),
    frames("nested", forge::nested, &["InPktsNotValid", "InPktsBadTag"]),
    frames("dcp-set", forge::dcp, &["InPktsNoTag"]),
    frames("lldp", forge::lldp, &["InPktsNoTag"]),
    frames("mkpdu-replay", forge::old_mkpdus, &["mkpdu:"]),
    frames("key-server", forge::key_server, &["mkpdu:"]),
    flood("mkpdu-flood", forge::forged_mkpdus, &["mkpdu:"]),
    flood("addresses", forge::addresses, &["InPktsNoTag"]),
    flood("channel-flood", forge::channels, &["InPktsUnknownSCI", "InPktsNoSCI"]),
    flood("forgery-flood", forge::spliced, &["InPktsNotValid"]),
    flood("uplink-flood", forge::shortest, &["InPktsNoTag"]),
    Attack { name: "field-flood", deed: Deed::FieldFlood(forge::shortest), counters: &["out:policy"] },
    Attack { name: "control-dribble", deed: Deed::Dribble, counters: &[] },
    frames("insider-replay", insider::replays, &["mkpdu:replayed"]),
    frames("insider-names", insider::names, &["mkpdu:other-sci"]),
    flood("insider-members", insider::members, &["mkpdu:too-many-peers"]),
    frames("insider-takeover", insider::takeover, &["fault:"]),
];

/// The attacks' names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|attack| attack.name).chain(dtls::NAMES).chain(mqtt::NAMES)
}

/// Runs the experiment.
pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    let chosen: Vec<_> =
        ALL.iter().filter(|attack| options.only.is_none_or(|only| only == attack.name)).collect();
    crate::in_namespaces()?;
    let mut report = Report::new("attack", "");
    let asked = |name: &str| options.only.is_none_or(|only| only == name);
    for finding in mqtt::run(asked)?.into_iter().chain(dtls::run(options, asked)?) {
        finding.report(&mut report);
    }
    if chosen.is_empty() {
        return Ok(report);
    }
    let mut random = Random::new(1);
    let mut plant = Plant::build("")?;
    let time = if options.quick { QUICK_TIME } else { TIME };
    // The gateways say their MKPDUs every half second.
    plant.rest(Duration::from_secs(2))?;
    plant.warnings();
    let (mut with, mut without) = (0, 0);
    let mut before = plant.moment()?;
    for (at, attack) in chosen.iter().enumerate() {
        options.progress(at, chosen.len(), attack.name);
        plant.rest(time)?;
        let between = plant.moment()?;
        let done = attack.happen(&mut plant, time, &mut random)?;
        let after = plant.moment()?;
        let errors = [between.bus_errors - before.bus_errors, after.bus_errors - between.bus_errors];
        without += errors[0];
        with += errors[1];
        let came_out = after.came_out - between.came_out;
        let grown = |(name, count): (&String, &u64)| {
            let more = count - between.refused.get(name).copied().unwrap_or(0).min(*count);
            (more > 0).then(|| (name.clone(), more))
        };
        let refused: Vec<(String, u64)> = after.refused.iter().filter_map(grown).collect();
        let expected = |name: &str| attack.counters.iter().any(|counter| name.starts_with(counter));
        let counted: u64 = refused.iter().filter(|(name, _)| expected(name)).map(|(_, more)| more).sum();
        let seen: Vec<String> = refused.iter().map(|(name, more)| format!("{name} {more}")).collect();
        let warning = plant.warnings().into_iter().next().unwrap_or_else(|| "no warning".into());
        let mut row = |metric: &str, baseline: Option<u64>, value: u64, note: &str| {
            let baseline = baseline.map(|value| value as f64);
            report
                .row(Row::new(attack.name, metric, "").baseline(baseline).antedated(value as f64).note(note));
        };
        row("sent", None, done.sent, "");
        row("refused as expected", None, counted, &seen.join(", "));
        row("came out", None, came_out, "");
        row("bus errors", Some(errors[0]), errors[1], &warning);
        report.check(
            format!(
                "{}: {} sent, {counted} counted, {came_out} came out{}",
                attack.name, done.sent, done.fault
            ),
            done.sent > 0
                && (counted > 0 || attack.counters.is_empty())
                && came_out == 0
                && done.fault.is_empty(),
        );
        before = after;
    }
    options.progress(1, 1, "");
    // A smoke test judges no time: another load of the machine would decide.
    report.check(
        format!(
            "bus errors: {with} with attacks, {without} without{}",
            if options.quick { ", not judged" } else { "" }
        ),
        options.quick || with <= without,
    );
    Ok(report)
}

/// The result of an attack without stations.
#[derive(Debug, Default)]
struct Finding {
    name: &'static str,
    sent: u64,
    /// Refusals under the expected counter.
    counted: u64,
    /// All counters that rose.
    seen: String,
    came_out: u64,
    /// Of 1,000 requests those without an answer in time, before and in the attack. They are no goal.
    unanswered: Option<[u64; 2]>,
    /// The first warning in a log.
    warning: String,
    /// What went wrong.
    fault: String,
}

impl Finding {
    fn report(&self, report: &mut Report) {
        let mut row = |metric: &str, baseline: Option<u64>, value: u64, note: &str| {
            let baseline = baseline.map(|value| value as f64);
            report.row(Row::new(self.name, metric, "").baseline(baseline).antedated(value as f64).note(note));
        };
        row("sent", None, self.sent, "");
        row("refused as expected", None, self.counted, &self.seen);
        row("came out", None, self.came_out, "");
        if let Some([before, during]) = self.unanswered {
            row("unanswered of 1000", Some(before), during, &self.warning);
        }
        report.check(
            format!(
                "{}: {} sent, {} counted, {} came out{}",
                self.name, self.sent, self.counted, self.came_out, self.fault
            ),
            self.sent > 0 && self.counted > 0 && self.came_out == 0 && self.fault.is_empty(),
        );
    }
}

/// An attack that happened.
#[derive(Default)]
struct Done {
    sent: u64,
    /// What went wrong.
    fault: String,
}

impl Attack {
    fn happen(
        &self,
        plant: &mut Plant,
        time: Duration,
        random: &mut Random,
    ) -> Result<Done, ExperimentError> {
        let (forge, pause, field) = match self.deed {
            Deed::Frames(forge) => (forge, Some(PAUSE), false),
            Deed::Flood(forge) => (forge, None, false),
            Deed::FieldFlood(forge) => (forge, None, true),
            Deed::Dribble => return dribble(plant, time),
        };
        let frames = forge(&plant.recorded, random);
        let mut done = Done::default();
        let mut next = frames.iter().cycle();
        plant.run(time, |plant| {
            let socket = if field { &plant.field } else { &plant.uplink };
            // A flood looks at the stations now and then only.
            for _ in 0..if pause.is_some() { 1 } else { 256 } {
                let Some(frame) = next.next() else { break };
                // The line's queue may be full.
                done.sent += u64::from(socket.send(frame).is_ok());
            }
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
            Ok(())
        })?;
        Ok(done)
    }
}

/// Clients hold the control socket, each with a request that never ends. An honest client is
/// answered meanwhile.
fn dribble(plant: &mut Plant, time: Duration) -> Result<Done, ExperimentError> {
    let socket = plant.socket();
    let mut clients: Vec<UnixStream> = Vec::new();
    let (mut done, mut asked) = (Done::default(), Instant::now());
    plant.run(time, |_| {
        if clients.len() < CLIENTS {
            clients.extend(UnixStream::connect(&socket).ok());
        }
        // One that was disconnected makes room for the next.
        clients.retain_mut(|client| client.write_all(b"{").is_ok());
        done.sent += clients.len() as u64;
        std::thread::sleep(Duration::from_millis(20));
        if asked.elapsed() > time / 4 {
            asked = Instant::now();
            if let Err(fault) = control::ask(&socket, Request::Status {}).map_err(failed) {
                done.fault = format!(", and an honest client is not answered: {fault}");
            }
        }
        Ok(())
    })?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacks_have_names_of_their_own() {
        let all: std::collections::BTreeSet<_> = names().collect();
        assert_eq!(all.len(), ALL.len() + dtls::NAMES.len() + mqtt::NAMES.len());
    }
}

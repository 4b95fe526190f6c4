//! The cost of protection on emulated motes (katsikeas2017, section IV): cycles, memory, CPU share,
//! power, modelled round trip.
//!
//! The programs `mqtt_*`, `link` and `client-*` of `firmware/` check known answers, then seal and
//! open publishes. Their counts go into the model of [`antedate_plan::publish`]; modelled rows say
//! so.

use antedate_plan::platform::TELOSB;
use antedate_plan::publish::{self, PAPER_RTT_MS, RATE, Work, frames, round_trip, sender_mw};

use super::SIZES;
use crate::motes::{Count, Footprint, MqttCounts, mqtt};
use crate::{ExperimentError, Options, Report, Row};

/// Octets of a frame's payload at which CCM* was counted.
const LINK_SIZES: [usize; 6] = [16, 32, 48, 64, 80, 95];
/// Bytes of the topic that the programs publish on.
pub(super) const TOPIC: usize = 13;
/// The paper's mote: RAM and usable flash in bytes.
const LIMITS: [f64; 2] = [8192.0, 57_344.0];
/// The paper's CPU share at 48 bytes in percent: AES-OCB, link-layer security.
const PAPER_CPU: [f64; 2] = [7.4, 4.1];

/// A protection of payloads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) name: &'static str,
    /// Name in the programs.
    what: &'static str,
    /// Bytes of the envelope, by the payload's length.
    added: fn(usize) -> usize,
    pub(super) antedates: bool,
}

/// Bytes in front of a ciphertext: array, headers with this length of the algorithm, head of the
/// ciphertext.
const fn front(algorithm: usize, ciphertext: usize) -> usize {
    let head = match ciphertext {
        0..24 => 1,
        24..256 => 2,
        _ => 3,
    };
    // The publisher's name has 8 bytes, its number 3.
    1 + 3 + algorithm + 1 + 1 + 2 + 8 + 1 + 1 + 3 + head
}

const fn padded(payload: usize) -> usize {
    payload - payload % 16 + 16
}

/// The paper's options first, in its order.
pub(super) const CHOICES: [Choice; 6] = [
    Choice {
        name: "AES, consecutive blocks (unauthenticated)",
        what: "mqtt-blocks",
        added: |len| front(5, padded(len)) + padded(len) - len,
        antedates: false,
    },
    Choice {
        name: "AES-CBC (unauthenticated)",
        what: "mqtt-cbc",
        added: |len| front(5, padded(len)) + padded(len) - len,
        antedates: false,
    },
    Choice { name: "AES-OCB3", what: "mqtt-ocb3", added: |len| front(5, len + 16) + 16, antedates: true },
    Choice {
        name: "AES-CCM-16-64-128",
        what: "mqtt-ccm",
        added: |len| front(1, len + 8) + 8,
        antedates: true,
    },
    Choice { name: "AES-128-GCM", what: "mqtt-gcm", added: |len| front(1, len + 16) + 16, antedates: true },
    Choice {
        name: "ChaCha20-Poly1305",
        what: "mqtt-chacha",
        added: |len| front(2, len + 16) + 16,
        antedates: true,
    },
];

/// Images that show the size of an option.
const IMAGES: [(&str, &str); 9] = [
    ("AES, consecutive blocks (unauthenticated)", "publishes and receives"),
    ("AES-CBC (unauthenticated)", "publishes and receives"),
    ("AES-OCB3", "publishes and receives"),
    ("AES-CCM-16-64-128", "publishes and receives"),
    ("AES-CCM-16-64-128, antedated", "publishes and receives"),
    ("AES-CCM-16-64-128, antedated", "publishes"),
    ("AES-128-GCM", "publishes and receives"),
    ("ChaCha20-Poly1305", "publishes and receives"),
    ("link-layer CCM*", "secures frames and acknowledgments"),
];

/// A mote and its counts.
pub(super) struct Mote {
    pub(super) name: &'static str,
    unit: &'static str,
    counts_per_ms: f64,
    note: &'static str,
    count: Count,
    footprints: Vec<Footprint>,
    /// The mote of the paper.
    is_papers: bool,
}

impl Mote {
    /// Runs the programs of both motes.
    pub(super) fn both(options: &Options) -> Result<[Self; 2], ExperimentError> {
        let mut done = 0;
        let [msp430, cortex_m3] = mqtt(|what| {
            options.progress(done, 14, what);
            done += 1;
        })?;
        options.progress(14, 14, "");
        let of = |counts: MqttCounts, name, unit, counts_per_ms, note, is_papers| Self {
            name,
            unit,
            counts_per_ms,
            note,
            count: counts.count,
            footprints: counts.footprints,
            is_papers,
        };
        Ok([
            of(msp430, "MSP430", "cycles", 8000.0, "simulated MSP430 at 8 MHz, AES in software", true),
            of(
                cortex_m3,
                "Cortex-M3",
                "instructions",
                32_000.0 / 1.5,
                "QEMU's instructions, 1.5 cycles each at 32 MHz: an assumption",
                false,
            ),
        ])
    }

    fn counts(&self, choice: &Choice, size: usize, part: &str) -> Result<f64, ExperimentError> {
        (self.count)(&format!("{}-{size}-{part}", choice.what))
    }

    fn ms(&self, choice: &Choice, size: usize, part: &str) -> Result<f64, ExperimentError> {
        Ok(self.counts(choice, size, part)? / self.counts_per_ms)
    }

    /// Work of an option at a size, unmodified or antedated.
    pub(super) fn work(
        &self,
        choice: &Choice,
        size: usize,
        antedated: bool,
    ) -> Result<Work, ExperimentError> {
        if !antedated {
            return Ok(Work {
                before: 0.0,
                seal: self.ms(choice, size, "seal")?,
                open: self.ms(choice, size, "open")?,
            });
        }
        Ok(Work {
            before: self.ms(choice, size, "prepare")?,
            seal: self.ms(choice, size, "online")?,
            open: self.ms(choice, size, "open-online")?,
        })
    }

    /// Counts of CCM* over a frame: those of the next counted size, which has as many blocks.
    fn link(&self, octets: usize, part: &str) -> f64 {
        let size = LINK_SIZES.into_iter().find(|size| *size >= octets).unwrap_or(LINK_SIZES[5]);
        // `both` checked that the numbers exist.
        (self.count)(&format!("link-{size}-{part}")).unwrap_or(f64::NAN)
    }

    pub(super) fn link_ms(&self, octets: usize, parts: &[&str]) -> f64 {
        parts.iter().map(|part| self.link(octets, part)).sum::<f64>() / self.counts_per_ms
    }
}

/// Bytes of an envelope around a payload.
pub(super) fn sealed_len(choice: &Choice, payload: usize) -> usize {
    payload + (choice.added)(payload)
}

/// Adds all rows and goals of the motes.
pub(super) fn report(
    report: &mut Report,
    motes: &[Mote; 2],
    options: &Options,
) -> Result<(), ExperimentError> {
    for mote in motes {
        let sizes = if options.quick { &SIZES[..4] } else { &SIZES[..] };
        for choice in &CHOICES {
            for &size in sizes {
                costs(report, mote, choice, size)?;
                modelled(report, mote, choice, size)?;
            }
        }
        for &size in sizes {
            link_layer(report, mote, size);
        }
        plaintext(report, mote, sizes);
        memory(report, mote);
    }
    goals(report, &motes[0])
}

fn costs(report: &mut Report, mote: &Mote, choice: &Choice, size: usize) -> Result<(), ExperimentError> {
    let case = format!("{}, {}, {size} B", mote.name, choice.name);
    let get = |part: &str| mote.counts(choice, size, part);
    let antedated = |part: &str| choice.antedates.then(|| get(part)).transpose();
    let row = |what: &str| Row::new(&case, what, mote.unit).note(mote.note);
    report.row(row("seal").baseline(get("seal")?).antedated(antedated("online")?));
    report.row(row("open").baseline(get("open")?).antedated(antedated("open-online")?));
    report.row(row("seal the payload alone").baseline(get("payload")?));
    if choice.antedates {
        report.row(row("prepare, sender").antedated(get("prepare")?));
        report.row(row("prepare, receiver").antedated(get("open-prepare")?));
    }
    Ok(())
}

/// Figures 2 and 4, and the CPU share.
fn modelled(report: &mut Report, mote: &Mote, choice: &Choice, size: usize) -> Result<(), ExperimentError> {
    let case = format!("{}, {}, {size} B", mote.name, choice.name);
    let note = format!("modelled; {}", mote.note);
    let sealed = sealed_len(choice, size);
    let sent = frames(TOPIC, sealed, false);
    let works = [false, true].map(|antedated| {
        (!antedated || choice.antedates).then(|| mote.work(choice, size, antedated)).transpose()
    });
    let [plain, antedated] = works;
    let (plain, antedated) = (plain?, antedated?);
    let each = |of: &dyn Fn(Work) -> f64| (plain.map(of), antedated.map(of));
    let row = |what: &str, unit: &str, paper: Option<f64>, (plain, antedated): (Option<f64>, Option<f64>)| {
        Row::new(&case, what, unit).paper(paper).baseline(plain).antedated(antedated).note(&note)
    };
    // The paper's value is over link-layer security in hardware.
    let paper =
        (mote.is_papers && choice.what == "mqtt-ocb3" && size == 48).then(|| PAPER_CPU[0] - PAPER_CPU[1]);
    let cpu = |work: Work| publish::cpu_percent(work.before + work.seal, RATE);
    let share = row("CPU share of protection", "%", paper, each(&cpu));
    report.row(share.note(format!(
        "{note}; at {RATE:.2} messages a second, one in each plaintext round trip; the paper's is what OCB has above its link-layer security"
    )));
    // The currents and the round trip belong to the paper's mote.
    if mote.is_papers {
        let power = |work: Work| sender_mw(&sent, work.before + work.seal, RATE);
        report.row(row("power, publisher", "mW", None, each(&power)));
        let rtt = |work: Work| round_trip(TOPIC, sealed, work, None);
        report.row(row("RTT", "ms", None, each(&rtt)));
    }
    let row =
        Row::new(&case, "frames of a publish", "frames").baseline(frames(TOPIC, size, false).count as f64);
    report.row(
        row.antedated(sent.count as f64).note("baseline: in plaintext; 6LoWPAN over IEEE 802.15.4, modelled"),
    );
    Ok(())
}

/// The paper's fourth option: all frames of a publish in CCM*, in software.
fn link_layer(report: &mut Report, mote: &Mote, size: usize) {
    let case = format!("{}, link-layer CCM*, {size} B", mote.name);
    let sent = frames(TOPIC, size, true);
    let sum = |part: &str| sent.sum(|octets| mote.link(octets, part));
    let note = format!("{}, all {} frames of the publish, on each hop", mote.note, sent.count);
    let row = |what: &str, unit: &str| Row::new(&case, what, unit);
    report.row(row("seal", mote.unit).baseline(sum("seal")).antedated(sum("online")).note(&note));
    report.row(row("open", mote.unit).baseline(sum("open")).antedated(sum("open-online")).note(&note));
    report.row(row("prepare, sender", mote.unit).antedated(sum("prepare")).note(&note));
    let ms = |parts: &[&str]| sent.sum(|octets| mote.link_ms(octets, parts));
    let (plain, antedated) = (ms(&["seal"]), ms(&["prepare", "online"]));
    let share = row("CPU share of protection", "%");
    let share =
        share.baseline(publish::cpu_percent(plain, RATE)).antedated(publish::cpu_percent(antedated, RATE));
    report.row(
        share.note(format!("modelled; {}; AES in software; in the radio chip it stands below", mote.note)),
    );
    if mote.is_papers {
        let power = row("power, publisher", "mW").baseline(sender_mw(&sent, plain, RATE));
        report
            .row(power.antedated(sender_mw(&sent, antedated, RATE)).note(format!("modelled; {}", mote.note)));
        let rtt = |parts: &[&str]| {
            let link = |octets: usize| mote.link_ms(octets, parts);
            round_trip(TOPIC, size, Work::default(), Some(&link))
        };
        let row =
            row("RTT", "ms").baseline(rtt(&["seal", "open"])).antedated(rtt(&["online", "open-online"]));
        report.row(row.note(format!("modelled; {}", mote.note)));
        in_the_radio(report, size);
    }
}

/// The fourth option as in the paper: the radio chip encrypts, the CPU hands frames over
/// (`antedate_plan::platform`).
fn in_the_radio(report: &mut Report, size: usize) {
    let case = format!("MSP430, link-layer CCM* in the radio chip, {size} B");
    let note = "the paper's is all of its CPU's work; modelled: CC2420, 1 ms a frame for handing it over, by sciancalepore2016";
    let sent = frames(TOPIC, size, true);
    let busy = sent.count as f64 * TELOSB.transfer;
    let row = |what: &str, unit: &str| Row::new(&case, what, unit).note(note);
    let paper = (size == 48).then_some(PAPER_CPU[1]);
    let share = row("CPU share of protection", "%").paper(paper);
    report.row(share.baseline(publish::cpu_percent(busy, RATE)));
    report.row(row("power, publisher", "mW").baseline(sender_mw(&sent, busy, RATE)));
    let frame = |octets: usize| 2.0 * (TELOSB.transfer + octets as f64 * TELOSB.ccm_octet);
    report.row(row("RTT", "ms").baseline(round_trip(TOPIC, size, Work::default(), Some(&frame))));
}

fn plaintext(report: &mut Report, mote: &Mote, sizes: &[usize]) {
    for &size in sizes {
        let case = format!("{}, plaintext, {size} B", mote.name);
        let sent = frames(TOPIC, size, false);
        if mote.is_papers {
            let row = Row::new(&case, "power, publisher", "mW").baseline(sender_mw(&sent, 0.0, RATE));
            report.row(row.note("modelled"));
            let rtt = round_trip(TOPIC, size, Work::default(), None);
            let row = Row::new(&case, "RTT", "ms").paper((size == 32).then_some(PAPER_RTT_MS)).baseline(rtt);
            report.row(row.note("modelled, and fitted to the paper's 568.44 ms"));
        }
    }
    if mote.is_papers {
        let case = format!("{}, the fitted wait of a passage", mote.name);
        let intervals = publish::wait_ms(TOPIC) / publish::WAKE_MS;
        let row = Row::new(&case, "over the receivers' wake interval", "ratio").baseline(intervals);
        report.row(row.note("modelled; an independent check of the fit: ContikiMAC wakes each 125 ms, and an unsynchronised sender waits up to that"));
    }
}

/// Figure 3.
fn memory(report: &mut Report, mote: &Mote) {
    for ((name, does), footprint) in IMAGES.iter().zip(&mote.footprints) {
        let case = format!("{}, {name}: a client that {does}", mote.name);
        let antedated = name.ends_with("antedated");
        for (what, bytes, limit) in [("RAM", footprint.ram, LIMITS[0]), ("ROM", footprint.flash, LIMITS[1])] {
            let note = format!(
                "linked image over one without protection{}; the paper's mote has {limit} bytes",
                if what == "RAM" { ", the stack at its deepest included; payloads up to 64 B" } else { "" }
            );
            for (metric, unit, value) in [
                (what.to_owned(), "bytes", bytes),
                (format!("share of the paper's {what}"), "%", 100.0 * bytes / limit),
            ] {
                let row = Row::new(&case, metric, unit).note(&note);
                report.row(if antedated { row.antedated(value) } else { row.baseline(value) });
            }
        }
    }
}

fn goals(report: &mut Report, mote: &Mote) -> Result<(), ExperimentError> {
    let [ocb3, ccm] = [&CHOICES[2], &CHOICES[3]];
    let unmodified = mote.counts(ocb3, 48, "seal")?;
    let payload = mote.counts(ocb3, 48, "payload")?;
    for choice in CHOICES.iter().filter(|choice| choice.antedates) {
        let online = mote.counts(choice, 48, "online")?;
        let what = format!(
            "MSP430, {}: an antedated publish of 48 B takes {online:.0} cycles online, {:.1} % of unmodified OCB3's {unmodified:.0}",
            choice.name,
            100.0 * online / unmodified
        );
        if choice.what == ccm.what {
            report.check(format!("{what}, at most 25"), online <= 0.25 * unmodified);
            let what = format!(
                "MSP430, {}: the same against OCB3 over the payload alone, as the paper has it: {:.1} % of {payload:.0}, at most 25",
                choice.name,
                100.0 * online / payload
            );
            report.check(what, online <= 0.25 * payload);
        } else {
            let row = Row::new(what, "share of unmodified OCB3", "%").antedated(100.0 * online / unmodified);
            report.row(row.note(mote.note));
        }
    }
    for (index, bounds) in [(3, [1024.0, 10_240.0]), (4, [1024.0, 10_240.0]), (5, [1024.0, 10_240.0])] {
        let ((name, does), footprint) = (IMAGES[index], mote.footprints[index]);
        let what = format!("MSP430, {name}, a client that {does}");
        report.check(
            format!("{what}: RAM {:.0} bytes, at most {}", footprint.ram, bounds[0]),
            footprint.ram <= bounds[0],
        );
        report.check(
            format!("{what}: ROM {:.0} bytes, at most {}", footprint.flash, bounds[1]),
            footprint.flash <= bounds[1],
        );
    }
    for size in SIZES.into_iter().filter(|size| *size < 248) {
        let added = (ccm.added)(size);
        if size == 48 {
            report.check(
                format!("an envelope of {} adds {added} bytes to {size}, at most 32", ccm.name),
                added <= 32,
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_channel::mqtt::{Algorithm, Group, Publisher, Reserved};

    #[test]
    fn envelope_lengths_match_sealed_ones() {
        for (choice, algorithm) in CHOICES.iter().zip([
            Algorithm::Aes128BlocksUnauthenticated,
            Algorithm::Aes128CbcUnauthenticated,
            Algorithm::Aes128Ocb3,
            Algorithm::AesCcm16_64_128,
            Algorithm::A128Gcm,
            Algorithm::ChaCha20Poly1305,
        ]) {
            let mut group = Group::new("park", algorithm);
            group.install(1, &[7; 32]);
            let material = group.material(1, b"turbine1").expect("a key");
            for size in SIZES {
                let mut publisher = Publisher::new(&material, Reserved::new(70_000, 80_000));
                let mut envelope = Vec::new();
                publisher.seal("wind/t1/power", &vec![0; size], &mut envelope).expect("sealed");
                assert_eq!(envelope.len(), sealed_len(choice, size), "{algorithm}, {size} bytes");
            }
        }
    }
}

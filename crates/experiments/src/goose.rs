//! Experiment `goose`: streams of 4,800 frames of sampled values a second, and trips.
//!
//! Streams are published by processes in a namespace, plain, with AES-GMAC and with HMAC-SHA256, in
//! turns. Each tells its own times: from the samples to the finished frame. A trip is measured in this
//! process: from the values to the finished frame, prepared and not prepared, beside the time that one
//! block of 16 octets takes with AES-128-GCM when nothing is prepared.

use std::fs::{self, Permissions};
use std::hint::black_box;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use antedate_aead::{Aes128Gcm, Key, Nonce};
use antedate_channel::goose::{Counter, Form, KeyPeriod, Layout, Publisher};
use antedate_lab::histogram::Times;
use antedate_lab::ns::Namespace;
use antedate_lab::process::{Place, Process, executable};
use antedate_wire::EthernetAddress;
use antedate_wire::goose::{Message, Publisher as Block, Value, Values};

use crate::{ExperimentError, Options, Report, Row};

/// Frames a second: 80 samples in a period of 60 Hz, one in a frame, as 9-2LE has them.
const RATE: &str = "4800";
const FORMS: [&str; 3] = ["plain", "AES-GMAC", "HMAC-SHA256"];
/// What protection may add to p99.9, in microseconds.
const ADDED_MAX_US: f64 = 50.0;
const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Medians over the runs of a form, in microseconds, and its late frames.
#[derive(Debug, Default)]
struct Stream {
    medians: Vec<f64>,
    tails: Vec<f64>,
    frames: f64,
    late: f64,
}

pub(crate) fn run(options: &Options) -> Result<Report, ExperimentError> {
    crate::in_namespaces()?;
    let mut report = Report::new("goose", "");
    let (rounds, seconds) = if options.quick { (1, 1) } else { (5, 4) };
    let mut streams: [Stream; FORMS.len()] = Default::default();
    let bay = Bay::build()?;
    for round in 0..rounds {
        for (at, stream) in streams.iter_mut().enumerate() {
            options.progress(round * FORMS.len() + at, rounds * FORMS.len() + 1, FORMS[at]);
            bay.publish(at, round == 0, seconds, stream)?;
        }
    }
    let [plain, ..] = &streams;
    let (plain_median, plain_tail) = (middle(&plain.medians), middle(&plain.tails));
    for (form, stream) in FORMS.into_iter().zip(&streams) {
        let case = format!("sampled values, {form}");
        let (median, tail) = (middle(&stream.medians), middle(&stream.tails));
        let is_plain = form == FORMS[0];
        for (metric, value, of_plain) in [("p50", median, plain_median), ("p99.9", tail, plain_tail)] {
            let row = Row::new(&case, format!("samples to frame, {metric}"), "µs");
            report.row(if is_plain { row.baseline(value) } else { row.baseline(of_plain).antedated(value) });
        }
        let late = Row::new(&case, "frames later than a period", "");
        report.row(late.antedated(stream.late).note(format!("of {}", stream.frames)));
        if !is_plain {
            let ratio = median / plain_median;
            report.row(Row::new(&case, "median against plain", "times").antedated(ratio));
            let what =
                format!("{form}: p99.9 at most {ADDED_MAX_US} µs above plain ({:.1})", tail - plain_tail);
            report.check(what, tail - plain_tail <= ADDED_MAX_US);
        }
    }
    trips(&mut report, if options.quick { 2_000 } else { 50_000 })?;
    options.progress(1, 1, "");
    Ok(report)
}

fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A namespace with a link, and the keys.
struct Bay {
    space: Namespace,
    files: tempfile::TempDir,
}

impl Bay {
    fn build() -> Result<Self, ExperimentError> {
        let space = Namespace::create("bay")?;
        let lines = ["link add eth0 type veth peer name eth1", "link set eth0 up", "link set eth1 up"];
        space.batch(&lines.map(String::from))?;
        let files = tempfile::tempdir()?;
        for (name, key) in [("1", "17".repeat(16)), ("2", format!("{} hmac-sha256-128", "18".repeat(32)))] {
            let file = files.path().join(name);
            fs::write(&file, key)?;
            fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        }
        Ok(Self { space, files })
    }

    /// Publishes a form of the stream, and adds the times that it tells.
    fn publish(
        &self,
        form: usize,
        is_first: bool,
        seconds: u32,
        to: &mut Stream,
    ) -> Result<(), ExperimentError> {
        let path = |name: String| self.files.path().join(name).display().to_string();
        let seconds = seconds.to_string();
        let (key, state) = (path(form.to_string()), path(format!("state{form}")));
        let mut words = vec!["sampled", "publish", "eth0", "--rate", RATE, "--seconds", &seconds];
        match form {
            0 => words.push("--plain"),
            _ => words.extend(["--key", &key, "--state", &state]),
        }
        // The directory of temporary files may lie in memory; so do these keys.
        words.extend((form > 0).then_some("--volatile-state"));
        words.extend((form > 0 && is_first).then_some("--first"));
        let place = Place { namespace: Some(self.space.file()), cpus: &[] };
        let mut publisher = Process::start("sampled", &executable()?, &words, &place)?;
        let told = publisher.next_line(Duration::from_secs(60)).unwrap_or_default();
        let ended = publisher.finish(Duration::from_secs(10));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
        let number = |name: &str| told[name].as_f64().filter(|_| ended);
        let (Some(median), Some(tail), Some(frames), Some(late)) =
            (number("made_median_us"), number("made_p999_us"), number("frames"), number("late"))
        else {
            return Err(format!("{}: {}", FORMS[form], publisher.errors().join("\n")).into());
        };
        to.medians.push(median);
        to.tails.push(tail);
        to.frames += frames;
        to.late += late;
        Ok(())
    }
}

/// Times of trips and of one block.
fn trips(report: &mut Report, count: u32) -> Result<(), ExperimentError> {
    let layout = layout()?;
    let key = Key::<Aes128Gcm>::new(&[0x17; 16]).map_err(|error| error.to_string())?;
    // A trip spends one number, and so does each frame that was prepared for repetitions.
    let counter = Counter::new(SOURCE, 0, u64::from(count) * 1_000);
    let mut publisher = Publisher::new(key, counter, &layout).map_err(|error| error.to_string())?;
    let block = Key::<Aes128Gcm>::new(&[0x19; 16]).map_err(|error| error.to_string())?;
    let mut out = vec![0; 512];
    let [mut prepared, mut whole, mut one] = <[Times; 3]>::default();
    for number in 0..count {
        publisher.idle(u32::MAX);
        prepared.record(trip(&mut publisher, number, &mut out)?);
        // All that was prepared is spent.
        while publisher.prepared() > 0 {
            trip(&mut publisher, number, &mut out)?;
        }
        whole.record(trip(&mut publisher, number, &mut out)?);
        let (mut nonce, mut data) = ([0; 12], [0; 16]);
        nonce[..4].copy_from_slice(&number.to_be_bytes());
        let begin = Instant::now();
        let tag = block.seal(Nonce::assume_unique(nonce), &[], black_box(&[7; 16]), &mut data);
        black_box((&data, tag));
        one.record(begin.elapsed().as_nanos() as u64);
    }
    let case = "a trip, AES-GMAC";
    let [baseline, antedated, one] = [&whole, &prepared, &one].map(|times| times.percentile_us(50.0));
    report.row(Row::new(case, "values to frame, p50", "µs").baseline(baseline).antedated(antedated));
    let tails = [&whole, &prepared].map(|times| times.percentile_us(99.9));
    report.row(Row::new(case, "values to frame, p99.9", "µs").baseline(tails[0]).antedated(tails[1]));
    let note = "AES-128-GCM of 16 octets, nothing prepared; each time has that of two clock readings";
    report.row(Row::new(case, "one block, p50", "µs").baseline(one).note(note));
    report.row(Row::new(case, "trip against one block", "times").antedated(antedated / one));
    Ok(())
}

/// A trip's frame: one boolean has changed.
fn trip(
    publisher: &mut Publisher<'_, Aes128Gcm>,
    number: u32,
    out: &mut [u8],
) -> Result<u64, ExperimentError> {
    let values = [Value::Boolean(number.is_multiple_of(2)), Value::int32(7)];
    let begin = Instant::now();
    let made = publisher.event([0; 8], 1_000, black_box(&values), out);
    let took = begin.elapsed();
    black_box(&*out);
    made.map_err(|error| error.to_string())?;
    Ok(took.as_nanos() as u64)
}

/// A data set of a boolean and a number.
fn layout() -> Result<Layout, ExperimentError> {
    let values = [Value::Boolean(true), Value::int32(7)];
    let message = Message {
        appid: 0x3001,
        publisher: Block {
            gocb_ref: b"bayLD0/LLN0$GO$gcbTrip",
            time_allowed_to_live: 1_000,
            dat_set: b"bayLD0/LLN0$dsTrip",
            go_id: None,
        },
        t: [0; 8],
        st_num: 0,
        sq_num: 0,
        simulation: false,
        conf_rev: 1,
        nds_com: false,
        all_data: Values::Given(&values),
    };
    let period = KeyPeriod { key: 7, since: 1_790_000_000, minutes_left: 60 };
    let group = EthernetAddress([1, 0x0c, 0xcd, 1, 0, 1]);
    let layout = Layout::new(group, EthernetAddress(SOURCE), &message, Form::Authenticated, period);
    layout.map_err(|error| error.to_string().into())
}

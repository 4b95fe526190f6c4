//! `antedate plan --calibrate`: measures the engine on this machine and writes what the planner needs to know of it.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use antedate_aead::{
    Aes128Ccm8, Aes128Gcm, ChaCha20Poly1305, Front, FrontSlot, Fronted, Hole, Key, Nonce, NonceSequence,
    Sealer, Sparse, Suite, Template, TemplateSlot,
};
use antedate_gateway::fault::Fault;
use antedate_plan::device::{Costs, Device, Line};

use crate::failure::{Done, Failure};
use crate::output;

/// Sizes between which a line is drawn, and one whose last block is not whole.
const SHORT: usize = 64;
const LONG: usize = 1472;
const PARTIAL: usize = LONG - 7;
const CAP: usize = 1536;
/// Repetitions; the median counts.
const ROUNDS: usize = 2001;

/// Numbers that are never seen outside.
struct Numbers(u64);

impl NonceSequence for Numbers {
    type Error = core::convert::Infallible;

    fn next(&mut self) -> Result<(u64, Nonce), Self::Error> {
        self.0 += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.0.to_be_bytes());
        Ok((self.0, Nonce::assume_unique(nonce)))
    }
}

pub(super) fn run(out: Option<&Path>) -> Done {
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let about = model.map_or(std::env::consts::ARCH, |(_, name)| name);
    let unfit = || {
        Failure::usage("the engine does not take the calibration's packets", "this is a fault of the program")
    };
    let device = Device {
        name: "this machine".into(),
        about: format!("{about}; nanoseconds, medians of {ROUNDS}"),
        counts_per_us: 1000.0,
        // Not measured: a share of what a core of a server takes.
        cpu_mw: 0.0,
        ram: None,
        ccm8: Some(fronts::<Aes128Ccm8>().ok_or_else(unfit)?),
        gcm: Some(holes::<Aes128Gcm>().ok_or_else(unfit)?),
        chacha: Some(holes::<ChaCha20Poly1305>().ok_or_else(unfit)?),
    };
    let text = toml::to_string(&device).map_err(|error| {
        Failure::usage(format!("cannot be written: {error}"), "this is a fault of the program")
    })?;
    let text = format!(
        "# A platform for antedate plan. cpu_mw is not measured: give the watts of your CPU if energy matters.\n{text}"
    );
    match out {
        None => output::print(&text),
        Some(file) => fs::write(file, text).map_err(|error| {
            Fault::of_file(
                file,
                format!("cannot be written: {error}"),
                "give --out a file that you can write to",
            )
            .into()
        }),
    }
}

fn median(mut one: impl FnMut() -> Option<f64>) -> Option<f64> {
    let mut times = (0..ROUNDS).map(|_| one()).collect::<Option<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    // The clock's own cost.
    let mut none: Vec<f64> = (0..ROUNDS).map(|_| nanoseconds(Instant::now())).collect();
    none.sort_by(f64::total_cmp);
    Some((times[ROUNDS / 2] - none[ROUNDS / 2]).max(0.0))
}

fn nanoseconds(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64
}

/// The line through two costs, and what a third has more than it.
fn line(short: (usize, f64), long: (usize, f64), partial: Option<(usize, f64)>) -> Line {
    let block = ((long.1 - short.1) / (long.0 - short.0) as f64).max(0.0);
    let fixed = (short.1 - block * short.0 as f64).max(0.0);
    let partial = partial.map_or(0.0, |(blocks, cost)| (cost - fixed - block * blocks as f64).max(0.0));
    Line { fixed, block, partial, unit: 0.0 }
}

fn key<S: Suite>() -> Option<Key<S>> {
    Key::new([7; 32].get(..S::KEY_LEN)?).ok()
}

fn seal<S: Suite<NonceBytes = [u8; 12]>>() -> Option<Line> {
    let key = key::<S>()?;
    let mut numbers = Numbers(0);
    let mut data = [0x5a; CAP];
    let mut at = |size: usize| {
        median(|| {
            let Ok((_, nonce)) = numbers.next();
            let begun = Instant::now();
            black_box(key.seal_in_place(nonce, &[0; 13], black_box(&mut data[..size])));
            Some(nanoseconds(begun))
        })
    };
    Some(line((SHORT / 16, at(SHORT)?), (LONG / 16, at(LONG)?), Some((LONG / 16, at(PARTIAL)?))))
}

fn holes<S: Sparse<NonceBytes = [u8; 12]>>() -> Option<Costs> {
    let data = [0x5a; CAP];
    let mut slot = Box::new(TemplateSlot::<S, CAP, 16>::new());
    let mut sealer = Sealer::new(key::<S>()?, Numbers(0));
    let mut at = |size: usize, blocks: usize| {
        let hole = [Hole::Payload(0..16 * blocks)];
        let template = Template::new(&[0; 13], &data[..size], &hole).ok()?;
        let mut before = Vec::with_capacity(ROUNDS);
        let online = median(|| {
            let begun = Instant::now();
            let mut prepared = sealer.prepare_template(&template, &mut slot).ok()?;
            while prepared.step(u32::MAX) > 0 {}
            before.push(nanoseconds(begun));
            let begun = Instant::now();
            let sealed = prepared.seal(&[black_box(&data[..16 * blocks])]).ok()?;
            let time = nanoseconds(begun);
            black_box(sealed.ciphertext());
            Some(time)
        })?;
        before.sort_by(f64::total_cmp);
        Some((before[ROUNDS / 2], online))
    };
    let (short, one) = at(SHORT, 1)?;
    let (long, _) = at(LONG, 1)?;
    let (_, many) = at(LONG, 9)?;
    let prepare = line((SHORT / 16, short), (LONG / 16, long), None);
    Some(Costs {
        seal: seal::<S>()?,
        prepare,
        online: line((1, one), (9, many), None),
        antedated: None,
        single: None,
        step: 4.0 * prepare.block,
    })
}

fn fronts<S: Fronted<NonceBytes = [u8; 12]>>() -> Option<Costs> {
    let data = [0x5a; CAP];
    let mut slot = Box::new(FrontSlot::<S, CAP, 1>::new());
    let mut sealer = Sealer::new(key::<S>()?, Numbers(0));
    let mut at = |size: usize, known: usize| {
        let lengths = [size];
        let front = Front::new(&[0; 13], &data[..known], &lengths).ok()?;
        let mut before = Vec::with_capacity(ROUNDS);
        let online = median(|| {
            let begun = Instant::now();
            let mut prepared = sealer.prepare_front(&front, &mut slot).ok()?;
            while prepared.step(u32::MAX) > 0 {}
            before.push(nanoseconds(begun));
            let begun = Instant::now();
            let sealed = prepared.seal(black_box(&data[known..size])).ok()?;
            let time = nanoseconds(begun);
            black_box(sealed.ciphertext());
            Some(time)
        })?;
        before.sort_by(f64::total_cmp);
        Some((before[ROUNDS / 2], online))
    };
    let (short, one) = at(SHORT, SHORT - 16)?;
    let (long, _) = at(LONG, LONG - 16)?;
    let (_, many) = at(LONG, 0)?;
    let (_, partial) = at(PARTIAL, LONG - 16)?;
    let prepare = line((SHORT / 16, short), (LONG / 16, long), None);
    let online = line((1, one), (LONG / 16, many), Some((1, partial)));
    Some(Costs {
        seal: seal::<S>()?,
        prepare,
        online,
        antedated: None,
        single: None,
        step: 4.0 * prepare.block,
    })
}

//! `antedate plan --calibrate`: measures the engine on this machine and writes a platform file.
//!
//! A time is the minimum over several passes of a median over batches: a single packet is shorter
//! than the clock's resolution, and other load only makes packets slower. `--check` measures other
//! packets and compares each with the planner's prediction.

use std::fs;
use std::path::Path;

use antedate_plan::device::{Cipher, Costs, Device, Line, Way, counts};

use self::packets::{Bench, Fronts, Holes};
use crate::failure::{Done, Failure};
use crate::output::{self, Kind};

mod packets;
pub(super) mod stack;

/// Blocks of the longest packet.
const BLOCKS: usize = 92;
/// Most blocks of new bytes anywhere.
const NEW: usize = 16;
/// Passes over all packets; the minimum counts.
const PASSES: usize = 5;
/// Allowed deviation of a prediction.
const WITHIN: f64 = 0.10;
/// Packets that the platform was not derived from: payload, and new bytes at its end.
const POINTS: [(usize, usize); 14] = [
    (24, 8),
    (40, 16),
    (72, 32),
    (100, 16),
    (120, 64),
    (200, 32),
    (250, 8),
    (333, 16),
    (500, 64),
    (777, 32),
    (1000, 16),
    (1111, 128),
    (1300, 32),
    (1465, 16),
];

/// The begin of a platform file.
const HEAD: &str = "# A platform for antedate plan";

pub(super) fn run(out: Option<&Path>, check: bool) -> Done {
    // It takes a while, so the file is checked first.
    out.map_or(Ok(()), |file| output::writable("--out", Kind::Text(HEAD), file))?;
    let (mut device, points) = engine(PASSES, check)?;
    device.stack = Some(stack::measure().map_err(|error| {
        Failure::usage(format!("loopback: {error}"), "allow sockets on 127.0.0.1, and let the machine rest")
    })?);
    let text = toml::to_string(&device).map_err(|error| {
        Failure::usage(format!("cannot be written: {error}"), "this is a fault of the program")
    })?;
    let text =
        format!("{HEAD}. cpu_mw is not measured: give the watts of your CPU if energy matters.\n{text}");
    match out {
        None if check => {}
        None => output::print(&text)?,
        Some(file) => output::replace("--out", Kind::Text(HEAD), file, &text)?,
    }
    if check { compare(&device, &points).ok_or_else(unfit)? } else { Ok(()) }
}

fn unfit() -> Failure {
    Failure::usage("the engine does not take the calibration's packets", "this is a fault of the program")
}

/// Measures the engine of this machine in several passes, and with `check` also the points, in the
/// same minute. The operating system's delays are left out.
pub(super) fn engine(passes: usize, check: bool) -> Result<(Device, Vec<[f64; 2]>), Failure> {
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let about = model.map_or(std::env::consts::ARCH, |(_, name)| name);
    let mut benches: [(Cipher, Box<dyn Bench>); 3] = [
        (Cipher::Ccm8, Box::new(Fronts::new().ok_or_else(unfit)?)),
        (Cipher::Gcm, Box::new(Holes::<antedate_aead::Aes128Gcm>::new().ok_or_else(unfit)?)),
        (Cipher::ChaCha, Box::new(Holes::<antedate_aead::ChaCha20Poly1305>::new().ok_or_else(unfit)?)),
    ];
    let mut all = Vec::new();
    let mut points = vec![[f64::INFINITY; 2]; if check { benches.len() * POINTS.len() } else { 0 }];
    for _ in 0..passes {
        let raw = benches.iter_mut().map(|(cipher, bench)| raw(*cipher, bench.as_mut()));
        all.push(raw.collect::<Option<Vec<_>>>().ok_or_else(unfit)?);
        // In the same minute, under the same load.
        measure(&mut points, &mut benches).ok_or_else(unfit)?;
    }
    let mut measured = (0..benches.len()).map(|which| {
        let times = all.iter().filter_map(|pass| pass.get(which).cloned());
        times.reduce(|a, b| least(&a, &b)).and_then(|times| costs(&times))
    });
    let mut next = || measured.next().flatten().ok_or_else(unfit);
    let device = Device {
        name: "this machine".into(),
        about: format!("{about}; nanoseconds, medians of {} batches, the least of {passes}", packets::ROUNDS),
        counts_per_us: 1000.0,
        // Not measured: a share of a server core's power.
        cpu_mw: 0.0,
        ram: None,
        stack: None,
        ccm8: Some(next()?),
        gcm: Some(next()?),
        chacha: Some(next()?),
    };
    Ok((device, points))
}

/// Times of a cipher: sealing each number of blocks, whole and partial; preparing them; and sealing
/// prepared ones with each number of new blocks, whole and partial.
type Times = [Vec<f64>; 5];

/// Missing bytes of a partial last block.
const LACK: usize = 7;

fn raw(cipher: Cipher, bench: &mut dyn Bench) -> Option<Times> {
    let sizes = || (1..=BLOCKS).map(|blocks| 16 * blocks);
    let last = 16 * BLOCKS;
    let seal: Vec<f64> = sizes().map(|size| bench.seal(size)).collect();
    let seal_partial: Vec<f64> = sizes().map(|size| bench.seal(size - LACK)).collect();
    let prepare: Option<Vec<f64>> = sizes().map(|size| Some(bench.prepared(size, 16)?[0])).collect();
    let most = if cipher.is_sparse() { NEW } else { BLOCKS };
    let mut online = |size: usize, new: usize| Some(bench.prepared(size, new)?[1]);
    let whole: Option<Vec<f64>> = (1..=most).map(|blocks| online(last, 16 * blocks)).collect();
    let partial: Option<Vec<f64>> = (1..=most)
        .map(|blocks| match blocks {
            // Half of the first and last block are new, and all between.
            2.. if cipher.is_sparse() => online(last - 8, 16 * blocks - 16),
            _ => online(last - LACK, 16 * blocks - LACK),
        })
        .collect();
    Some([seal, seal_partial, prepare?, whole?, partial?])
}

/// The minimum of each time.
fn least(a: &Times, b: &Times) -> Times {
    std::array::from_fn(|i| a[i].iter().zip(&b[i]).map(|(a, b)| a.min(*b)).collect())
}

/// The planner's costs of a cipher.
fn costs([seal, seal_partial, prepare, online, online_partial]: &Times) -> Option<Costs> {
    let prepare = line(prepare, &[])?;
    let step = 4.0 * prepare.block;
    let (seal, online) = (line(seal, seal_partial)?, line(online, online_partial)?);
    Some(Costs { seal, prepare, online, antedated: None, single: None, open: None, step })
}

/// A line through the times for each number of blocks.
fn line(blocks: &[f64], partials: &[f64]) -> Option<Line> {
    let middle = blocks.len() / 2;
    let block = (blocks.last()? - blocks.get(middle)?) / (blocks.len() - middle - 1).max(1) as f64;
    let (blocks, partials) = (blocks.to_vec(), partials.to_vec());
    Some(Line { block: block.max(0.0), blocks, partials, ..Line::default() })
}

/// Measures each cipher's points again, sealed in one go and prepared; the minimum counts.
fn measure(points: &mut [[f64; 2]], benches: &mut [(Cipher, Box<dyn Bench>)]) -> Option<()> {
    for ((_, bench), points) in benches.iter_mut().zip(points.chunks_mut(POINTS.len())) {
        for ((size, new), times) in POINTS.into_iter().zip(points) {
            let now = [bench.seal(size), bench.prepared(size, new)?[1]];
            *times = [times[0].min(now[0]), times[1].min(now[1])];
        }
    }
    Some(())
}

/// Compares the planner's predictions with the measurements.
fn compare(device: &Device, points: &[[f64; 2]]) -> Option<Done> {
    let mut text = format!(
        "{:<18}  {:>7}  {:>3}  {:<9}  {:>9}  {:>9}  {:>6}\n",
        "cipher", "payload", "new", "way", "predicted", "measured", "off"
    );
    let (mut all, mut beyond, mut worst) = (0, 0, 0.0f64);
    for (cipher, points) in Cipher::ALL.iter().zip(points.chunks(POINTS.len())) {
        let costs = device.costs(*cipher)?;
        for ((size, new), measured) in POINTS.into_iter().zip(points) {
            let front = size - new;
            let touched = size.div_ceil(16) - front / 16;
            for (way, measured) in [Way::Unmodified, Way::Template].into_iter().zip(*measured) {
                let (_, predicted) = counts(costs, *cipher, way, size, front, new, touched);
                let off = (predicted - measured) / measured;
                all += 1;
                beyond += usize::from(off.abs() > WITHIN);
                worst = if off.abs() > worst.abs() { off } else { worst };
                let way = if way == Way::Unmodified { "one shot" } else { "template" };
                text.push_str(&format!(
                    "{:<18}  {size:>7}  {new:>3}  {way:<9}  {predicted:>6.0} ns  {measured:>6.0} ns  {:>4.1} %\n",
                    cipher.name(),
                    100.0 * off
                ));
            }
        }
    }
    text.push_str(&format!(
        "{all} points, {beyond} of them off by more than 10 %, the furthest by {:.1} %\n",
        100.0 * worst
    ));
    Some(output::print(&text).and_then(|()| {
        if beyond == 0 {
            Ok(())
        } else {
            Err(Failure::Verdict(format!(
                "{beyond} of {all} predictions are off by more than 10 %; is the machine busy?"
            )))
        }
    }))
}

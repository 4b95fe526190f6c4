//! Cycles of a Cortex-M3, modelled: QEMU counts instructions alone.
//!
//! A plugin of QEMU (`firmware/c/pairs.c`) counts which instruction came after which in each measurement of
//! a program. [`model`] gives each such pair its cycles by ARM's manual.

mod model;
mod thumb;

use crate::elf::Elf;
use crate::interface::EMULATOR;
use model::{Flash, Pairs, cycles};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use xtask::shell::{Run, program, root};

/// Programs and measurements.
const SHOWN: [(&str, &[&str]); 3] = [
    ("ccm", &["aes-128-block", "ccm8-16-seal", "ccm8-112-seal", "ccm8-112-open", "ccm8-112-96-front-online"]),
    ("traces_sliced", &["key", "blocks", "seal", "open"]),
    ("ascon", &["ascon-16-seal", "ascon-64-seal", "ascon-1008-seal", "ascon-1008-open"]),
];
/// The bit-sliced AES encrypts four blocks as two pairs, in at most this many cycles.
const SLICED: (&str, &str, u64) = ("traces_sliced", "blocks", 5_600);

/// Instructions, cycles with quick flash, cycles with slow flash.
type Count = [u64; 3];

/// Builds the plugin, runs the programs of `folder`, prints and judges. Returns a note.
pub(crate) fn check(folder: &Path) -> Result<String, String> {
    let plugin = plugin(folder)?;
    println!(
        "modelled cycles of a Cortex-M3: instructions, cycles, cycles of each instruction; cycles with two wait states"
    );
    let mut sliced = None;
    for (name, shown) in SHOWN {
        let counts = of(&plugin, &folder.join(name))?;
        for what in shown {
            let count = counts.get(*what).ok_or_else(|| format!("{name} does not measure {what}"))?;
            let [instructions, quick, slow] = count;
            if *instructions == 0 {
                return Err(format!("{name}, {what}: the plugin saw no instruction"));
            }
            println!(
                "{name}, {what}: {instructions}, {quick}, {:.2}; {slow}",
                *quick as f64 / *instructions as f64
            );
            if (name, *what) == (SLICED.0, SLICED.1) {
                sliced = Some(*quick);
            }
        }
    }
    let sliced = sliced.ok_or("the bit-sliced AES was not measured")?;
    if sliced > SLICED.2 {
        return Err(format!(
            "bit-sliced AES: four blocks in {sliced} modelled cycles, more than {}",
            SLICED.2
        ));
    }
    Ok(format!("sliced AES: {:.1} modelled cycles a byte", sliced as f64 / 64.0))
}

/// Builds the plugin.
fn plugin(folder: &Path) -> Result<std::path::PathBuf, String> {
    let plugin = folder.join("pairs.so");
    let mut compiler = program("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg(root().join("firmware/c/pairs.c")).arg("-o").arg(&plugin).echoed(20)?;
    Ok(plugin)
}

/// The measurements of a program by name, without what the counter takes.
fn of(plugin: &Path, image: &Path) -> Result<BTreeMap<String, Count>, String> {
    let file = image.with_extension("pairs");
    let mut emulator = program("qemu-system-arm");
    emulator.args(EMULATOR).arg("-plugin").arg(format!("{},out={}", plugin.display(), file.display()));
    let said = emulator.arg("-kernel").arg(image).read(120)?;
    let pairs = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let elf = Elf::read(image)?;
    let counts = pairs
        .split_terminator(".\n")
        .map(|measurement| {
            let pairs = parse(measurement).ok_or_else(|| format!("{}: not pairs", file.display()))?;
            let with = |flash| cycles(&pairs, |at| elf.halfword(at), flash);
            let ((instructions, quick), (_, slow)) = (with(Flash::QUICK)?, with(Flash::SLOW)?);
            Ok([instructions, quick, slow])
        })
        .collect::<Result<Vec<Count>, String>>()?;
    join(&said, counts)
}

/// Lines of two addresses and a count.
fn parse(lines: &str) -> Option<Pairs> {
    let pair = |line: &str| {
        let mut numbers = line.split(' ').map(str::parse::<u64>);
        let (from, to, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(((u32::try_from(from).ok()?, u32::try_from(to).ok()?), count))
    };
    lines.lines().map(pair).collect()
}

/// Joins the program's names and the counts, and subtracts those of an empty measurement. A name that the
/// program measured more than once has the counts of its last one.
fn join(said: &str, counts: Vec<Count>) -> Result<BTreeMap<String, Count>, String> {
    // What is not measured but known has no counts.
    let names = said.lines().filter_map(|line| line.split(' ').next()).filter(|name| !name.contains("-ram-"));
    let names: Vec<&str> = names.collect();
    // The counter may be read once before its first name.
    let surplus = counts.len().checked_sub(names.len()).filter(|surplus| *surplus <= 1);
    let surplus =
        surplus.ok_or_else(|| format!("{} measurements, but {} counts", names.len(), counts.len()))?;
    let mut all: BTreeMap<String, Count> =
        names.into_iter().map(str::to_owned).zip(counts.into_iter().skip(surplus)).collect();
    let nothing = all.remove("nothing").unwrap_or_default();
    for count in all.values_mut() {
        for (of, counter) in count.iter_mut().zip(nothing) {
            *of = of.saturating_sub(counter);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lose_those_of_the_counter() {
        let counts = vec![[1, 1, 1], [20, 30, 40], [120, 180, 240]];
        let all = join("nothing 20\nccm8-ram-key 9\nblock 120\n", counts.clone()).expect("counts");
        assert_eq!(all, BTreeMap::from([("block".to_string(), [100, 150, 200])]));
        assert!(join("block 1\n", counts.clone()).is_err() && join("a 1\nb 1\nc 1\nd 1\n", counts).is_err());
    }

    #[test]
    fn pairs_are_lines_of_numbers() {
        assert_eq!(parse("16 18 3\n18 16 2\n"), Some(Pairs::from([((16, 18), 3), ((18, 16), 2)])));
        assert!(parse("16 18\n").is_none() && parse("16 x 1\n").is_none());
    }
}

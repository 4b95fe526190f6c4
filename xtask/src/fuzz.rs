//! `cargo xtask fuzz`: libFuzzer on parsers and state machines, and the coverage that it reaches.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, scope};
use xtask::setup::{self, Purpose, tools};
use xtask::shell::{Run, cache, cargo, program, root, tail, target};

/// Seconds of a build of all targets.
const BUILD_SECONDS: u64 = 3600;
/// Clock ticks a second in /proc, on each architecture of Linux that we build on (USER_HZ).
const TICKS: u64 = 100;
/// Seconds in which one input must be done.
const INPUT_SECONDS: u64 = 10;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Minutes for each target
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// A few seconds for each target
    #[arg(long, conflicts_with = "minutes")]
    quick: bool,
    /// Fuzz this target alone; may be given several times
    #[arg(long, value_name = "TARGET")]
    only: Vec<String>,
}

fn minutes(text: &str) -> Result<f64, String> {
    let range = 0.01..=10_000.0;
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
}

/// Fuzzes all targets or the named ones, as many at once as there are cores. False if one found a
/// fault.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    let all = targets()?;
    if let Some(wrong) = arguments.only.iter().find(|name| !all.contains(name)) {
        return Err(format!("no target `{wrong}`; there are: {}", all.join(", ")));
    }
    let chosen: VecDeque<String> =
        all.into_iter().filter(|name| arguments.only.is_empty() || arguments.only.contains(name)).collect();
    setup::ensure(Purpose::Demo)?;
    let seconds = if arguments.quick { 5 } else { (arguments.minutes * 60.0).ceil() as u64 };
    let folder = build(&arguments.only)?;
    let at_once = available_parallelism().map_or(1, usize::from).min(chosen.len());
    let about = (chosen.len().div_ceil(at_once)) as u64 * seconds;
    println!("xtask: {} targets, {seconds} s each, {at_once} at once: {about} s", chosen.len());
    let (count, chosen, found) = (chosen.len(), Mutex::new(chosen), Mutex::new(Vec::new()));
    let before = children();
    let next = || chosen.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(name) = next() {
                    let end = fuzz(&folder, &name, seconds);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    println!(
                        "{:3} of {count}  {name}: {}",
                        found.len() + 1,
                        end.as_ref().map_or("FAULT", |_| "ok")
                    );
                    found.push((name, end));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    println!("\n{:24} {:>12} {:>10} {:>8} {:>8}", "target", "inputs", "a second", "edges", "corpus");
    for (name, end) in &found {
        match end {
            Ok(Stats { inputs, edges, corpus }) => {
                println!("{name:24} {inputs:>12} {:>10} {edges:>8} {corpus:>8}", inputs / seconds.max(1));
            }
            Err(fault) => println!("{name:24} FAULT\n{fault}"),
        }
    }
    let faults = found.iter().filter(|(_, end)| end.is_err()).count();
    let used = children().saturating_sub(before) / TICKS;
    println!("xtask: {count} targets, {used} s of CPU time: {faults} with a fault");
    Ok(faults == 0)
}

/// CPU time of all ended children in clock ticks: cutime and cstime, fields 16 and 17 of proc_pid_stat(5).
fn children() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// The names of the targets.
fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let stem = |path: PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| stem(entry.path())).collect();
    names.sort();
    Ok(names)
}

/// Builds the targets with AddressSanitizer, writes their seeds to the corpora, and returns the
/// programs' folder.
fn build(only: &[String]) -> Result<PathBuf, String> {
    let nightly = program("rustup").args(["run", "nightly", "rustc", "-vV"]).read(60).map_err(|error| {
        format!("libFuzzer needs a nightly compiler: rustup toolchain install nightly\n{error}")
    })?;
    let host =
        nightly.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or("x86_64-unknown-linux-gnu");
    let mut seeds = cargo();
    seeds.args(["run", "--quiet", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--example", "seeds"]);
    seeds.env("CARGO_TARGET_DIR", target()).echoed(BUILD_SECONDS)?;
    let out = cache("fuzz")?;
    let of_one = only.first().filter(|_| only.len() == 1);
    let mut command = program("rustup");
    command.args(["run", "nightly"]).arg(tools::cargo_fuzz()?);
    command.args(["fuzz", "build", "--features", "libfuzzer", "--fuzz-dir", "fuzz"]).args(of_one);
    // The nightly cargo is the first of `rustup run`'s path.
    command.env_remove("CARGO").env_remove("RUSTC").env("CARGO_TARGET_DIR", &out).echoed(BUILD_SECONDS)?;
    Ok(out.join(host).join("release"))
}

/// Result of a target without a fault.
#[derive(Debug, PartialEq, Eq)]
struct Stats {
    inputs: u64,
    /// Edges of the control flow that an input of the corpus reaches.
    edges: u64,
    corpus: u64,
}

fn fuzz(folder: &Path, name: &str, seconds: u64) -> Result<Stats, String> {
    let (corpus, faults) = (root().join("fuzz/corpus").join(name), root().join("fuzz/artifacts").join(name));
    for folder in [&corpus, &faults] {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let log = folder.join(format!("{name}.log"));
    let write = || {
        Ok::<_, std::io::Error>({
            let file = File::create(&log)?;
            (file.try_clone()?, file)
        })
    };
    let (out, err) = write().map_err(|e| format!("{}: {e}", log.display()))?;
    let mut command = Command::new(folder.join(name));
    command.arg(&corpus).arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={INPUT_SECONDS}"));
    command.arg(format!("-artifact_prefix={}/", faults.display())).arg("-print_final_stats=1");
    let end = command.stdout(out).stderr(err).bounded(seconds + 120);
    let said = fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let said = String::from_utf8_lossy(&said);
    end.map_err(|error| format!("{error}\n{}", tail(&said, 30)))?;
    stats(&said).ok_or_else(|| format!("no final figures\n{}", tail(&said, 10)))
}

/// The figures of libFuzzer's last lines.
fn stats(said: &str) -> Option<Stats> {
    let line = said.lines().rev().find(|line| line.contains(" cov: "))?;
    let after = |word: &str| {
        let digits = line.split(word).nth(1)?.trim_start();
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let inputs = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))?;
    Some(Stats { inputs: inputs.trim().parse().ok()?, edges: after(" cov: ")?, corpus: after(" corp: ")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_libfuzzer_are_read() {
        let said = "#2 INITED cov: 5 ft: 6 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                    #4211 DONE   cov: 57 ft: 88 corp: 12/1024b lim: 4 exec/s: 1000 rss: 40Mb\n\
                    Done 4211 runs in 5 second(s)\nstat::number_of_executed_units: 4211\n\
                    stat::average_exec_per_sec: 842\n";
        assert_eq!(stats(said), Some(Stats { inputs: 4211, edges: 57, corpus: 12 }));
        assert_eq!(stats("ERROR: libFuzzer: deadly signal"), None);
    }

    #[test]
    fn cpu_time_of_children_is_counted() {
        let before = children();
        let mut command = Command::new("sh");
        command
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .bounded(60)
            .expect("a child");
        assert!(children() > before, "{before}");
    }

    #[test]
    fn targets_are_those_of_the_list() {
        let list = fs::read_to_string(root().join("fuzz/src/lib.rs")).expect("the list");
        let targets = targets().expect("targets");
        assert!(targets.len() > 40 && targets.iter().all(|name| list.contains(&format!("(\"{name}\","))));
    }

    #[test]
    fn times_have_bounds() {
        assert_eq!(minutes("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "x", "1e9"] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
    }
}

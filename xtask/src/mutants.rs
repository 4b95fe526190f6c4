//! `cargo xtask mutants`: single changes to the lines that security depends on, made by
//! cargo-mutants. The tests of the crate must notice them, or [`JUSTIFIED`] says why not.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xtask::setup::{self, Purpose, tools};
use xtask::shell::{Run, cache, cargo, program, root, target};

/// A mutated part: the tests of its own crate must notice.
struct Module {
    package: &'static str,
    /// The tests, as arguments of `cargo test`: those of the module, which are quick.
    tests: &'static [&'static str],
    paths: &'static [&'static str],
}

const fn channel(tests: &'static [&'static str], paths: &'static [&'static str]) -> Module {
    Module { package: "antedate-channel", tests, paths }
}

const MODULES: [Module; 10] = [
    channel(&["--lib", "replay::"], &["crates/channel/src/replay.rs"]),
    channel(&["--lib", "fragment::"], &["crates/channel/src/fragment/assembly.rs"]),
    channel(&["--lib", "mka::"], &["crates/channel/src/mka"]),
    channel(
        &["--lib", "dtls::"],
        &["crates/channel/src/dtls/reader.rs", "crates/channel/src/dtls/handshake"],
    ),
    channel(&["--lib", "wireguard::"], &["crates/channel/src/wireguard"]),
    channel(&["--lib", "goose::"], &["crates/channel/src/goose/subscriber.rs"]),
    channel(
        &["--lib", "dot15d4::"],
        &[
            "crates/channel/src/dot15d4/policy.rs",
            "crates/channel/src/dot15d4/tsch/receive.rs",
            "crates/channel/src/dot15d4/tsch/transmit.rs",
        ],
    ),
    Module {
        package: "antedate-host",
        tests: &["--lib", "numbers::"],
        paths: &[
            "crates/host/src/numbers/disk.rs",
            "crates/host/src/numbers/error.rs",
            "crates/host/src/numbers/home.rs",
            "crates/host/src/numbers/lock.rs",
            "crates/host/src/numbers/mod.rs",
            "crates/host/src/numbers/record.rs",
            "crates/host/src/numbers/reservation.rs",
        ],
    },
    Module {
        package: "antedate-gateway",
        tests: &["--lib", "frames::"],
        paths: &["crates/gateway/src/frames/gate", "crates/gateway/src/frames/bound.rs"],
    },
    Module {
        package: "antedate-mqtt",
        // Without those of files and of the store, which take seconds.
        tests: &["--lib", "--test", "rotation", "--", "--skip", "file::", "--skip", "store::"],
        paths: &["crates/mqtt/src/guard"],
    },
];

/// Survivors with a reason.
const JUSTIFIED: &str = "xtask/mutants.txt";
/// The least share of killed mutants in percent, justified ones apart.
const THRESHOLD: f64 = 97.0;
/// Below this number one survivor alone misses the threshold, and there is no verdict.
const FEW: usize = 34;
/// Seconds for one mutant's tests; a mutant that exceeds them is killed.
const TEST_SECONDS: u64 = 120;
/// Seconds of the quick form, compilation included.
const QUICK_SECONDS: u64 = 150;
/// The statuses of cargo-mutants with a result, and that of `timeout`: all killed; some missed; some
/// too slow; stopped.
const STATUSES: [i32; 4] = [0, 2, 3, 124];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Mutate this file or folder alone; may be given several times
    #[arg(long, value_name = "PATH")]
    only: Vec<PathBuf>,
    /// Only functions that changed since BASE, for some minutes
    #[arg(long)]
    quick: bool,
    /// The commit that `--quick` compares with; left out, that 20 commits ago
    #[arg(long, requires = "quick")]
    base: Option<String>,
}

/// Runs the mutants of all modules or of the named paths; false below the threshold.
pub(crate) fn main(arguments: &Arguments) -> Result<bool, String> {
    setup::ensure(Purpose::Demo)?;
    let base = match &arguments.base {
        None if arguments.quick => Some(recent()?),
        base => base.clone(),
    };
    let is_whole = base.is_none() && arguments.only.is_empty();
    let judged = judge(&run(&arguments.only, base.as_deref())?, &justified()?, is_whole);
    println!("xtask: {}", judged.as_ref().unwrap_or_else(|why| why));
    Ok(judged.is_ok())
}

/// The commit 20 before this one, or the oldest that a shallow clone has.
fn recent() -> Result<String, String> {
    let commits = program("git").args(["rev-list", "--first-parent", "--max-count=21", "HEAD"]).read(60)?;
    commits.lines().last().map(str::to_string).ok_or_else(|| "git rev-list: no commit".into())
}

/// The mutants of a run, each `PATH:LINE:COLUMN: CHANGE`.
#[derive(Default)]
struct Found {
    killed: usize,
    survivors: Vec<String>,
    /// Mutants, and packages, that the time did not suffice for.
    left: usize,
    not_begun: Vec<String>,
}

fn run(only: &[PathBuf], base: Option<&str>) -> Result<Found, String> {
    let tool = tools::cargo_mutants()?;
    let mut found = Found::default();
    let mut is_known = only.is_empty();
    let end = Instant::now() + Duration::from_secs(QUICK_SECONDS);
    for Module { package, tests, paths } in MODULES {
        let files: Vec<PathBuf> = paths.iter().flat_map(|path| sources(&root(), Path::new(path))).collect();
        let is_named =
            |file: &Path| only.iter().any(|path| file.starts_with(path) || file == path.with_extension("rs"));
        let is_chosen = |file: &&PathBuf| only.is_empty() || is_named(file);
        let chosen: Vec<&PathBuf> = files.iter().filter(is_chosen).collect();
        if chosen.is_empty() {
            continue;
        }
        is_known = true;
        let out = cache("mutants")?.join(format!("{package}-{}", paths[0].replace('/', "-")));
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
        let mut words = vec!["mutants".to_string(), "--package".into(), package.into()];
        for file in &chosen {
            words.extend(["--file".to_string(), file.display().to_string()]);
        }
        words.extend([
            "--timeout".into(),
            TEST_SECONDS.to_string(),
            "--output".into(),
            out.display().to_string(),
            // Most of a mutant's time is compiling. Only its own crate does without optimisation,
            // so that all others are those of the tests.
            format!("--cargo-arg=--config=profile.dev.package.{package}.opt-level=0"),
        ]);
        let mut seconds = u64::from(u32::MAX);
        if let Some(base) = base {
            let diff = out.join("diff");
            let text = program("git").args(["diff", base, "--"]).args(&chosen).read(60)?;
            if text.is_empty() {
                continue;
            }
            fs::write(&diff, text).map_err(|e| format!("{}: {e}", diff.display()))?;
            words.extend(["--in-diff".into(), diff.display().to_string()]);
            // The step `tests` has seen the tests pass.
            words.push("--baseline=skip".into());
            seconds = end.saturating_duration_since(Instant::now()).as_secs();
            if seconds == 0 {
                found.not_begun.push(paths.join(", "));
                continue;
            }
        }
        // Ended by SIGINT, cargo-mutants ends its children and removes its copy of the tree.
        let mut command = program("timeout");
        command.args(["--signal=INT", "--kill-after=30", &seconds.to_string()]).arg(&tool).args(words);
        command.arg("--").args(tests).env("CARGO", cargo().get_program());
        // The copy of the tree has its dependencies in common with the other steps.
        command.env("CARGO_TARGET_DIR", target()).env("TMPDIR", &out).env("CARGO_INCREMENTAL", "1");
        let status = command.status_of(seconds + 60)?;
        if !STATUSES.contains(&status) {
            return Err(format!("cargo-mutants on {package}: exit status {status}"));
        }
        // There is no result if no changed function has a mutant.
        let result = out.join("mutants.out");
        if status != 0 || result.join("mutants.json").exists() {
            found.add(&result)?;
        }
    }
    if is_known { Ok(found) } else { Err(format!("no mutated module has a file of {only:?}")) }
}

/// The Rust files of a path, without tests. `mka` stands for `mka.rs` too.
fn sources(root: &Path, path: &Path) -> Vec<PathBuf> {
    let is_test = |path: &Path| path.file_stem().is_some_and(|stem| stem == "tests");
    let mut found = Vec::new();
    for file in [path.to_path_buf(), path.with_extension("rs")] {
        if root.join(&file).is_file() && !is_test(&file) && !found.contains(&file) {
            found.push(file);
        }
    }
    let Ok(entries) = fs::read_dir(root.join(path)) else { return found };
    for entry in entries.flatten() {
        let inner = path.join(entry.file_name());
        if is_test(&inner) {
            continue;
        }
        if entry.path().is_dir() || inner.extension().is_some_and(|extension| extension == "rs") {
            let files = sources(root, &inner);
            found.extend(files.into_iter().filter(|file| !found.contains(file)).collect::<Vec<_>>());
        }
    }
    found.sort();
    found
}

impl Found {
    /// Adds the result that cargo-mutants left in a folder.
    fn add(&mut self, out: &Path) -> Result<(), String> {
        let read = |name: &str| {
            fs::read_to_string(out.join(name)).map_err(|e| format!("{}/{name}: {e}", out.display()))
        };
        let lines = |name: &str| -> Result<Vec<String>, String> {
            Ok(read(name)?.lines().map(str::to_string).collect())
        };
        let all: Value =
            serde_json::from_str(&read("mutants.json")?).map_err(|e| format!("mutants.json: {e}"))?;
        let all = all.as_array().map_or(0, Vec::len);
        let (killed, unviable) =
            (lines("caught.txt")?.len() + lines("timeout.txt")?.len(), lines("unviable.txt")?.len());
        let survivors = lines("missed.txt")?;
        self.left += all.saturating_sub(killed + unviable + survivors.len());
        self.killed += killed;
        self.survivors.extend(survivors);
        Ok(())
    }
}

/// A survivor with a reason.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Justified {
    file: String,
    change: String,
}

/// Reads the justified survivors. Each has the lines `File = `, `Change = ` and `Reason = `.
fn justified() -> Result<BTreeSet<Justified>, String> {
    let text = fs::read_to_string(root().join(JUSTIFIED)).map_err(|e| format!("{JUSTIFIED}: {e}"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<BTreeSet<Justified>, String> {
    let mut all = BTreeSet::new();
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    for entry in lines.chunks(3) {
        let value = |at: usize, key: &str| {
            let line = entry.get(at).and_then(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            line.filter(|value| !value.is_empty())
                .ok_or(format!("{JUSTIFIED}: `{key} = ` is missing in {entry:?}"))
        };
        value(2, "Reason")?;
        all.insert(Justified { file: value(0, "File")?.into(), change: value(1, "Change")?.into() });
    }
    Ok(all)
}

/// Passes if enough mutants are killed. After a run over all modules, each justified survivor must
/// still be one.
fn judge(found: &Found, justified: &BTreeSet<Justified>, is_whole: bool) -> Result<String, String> {
    let of = |line: &str| {
        let (file, rest) = line.split_once(".rs:")?;
        let change = rest.splitn(3, ':').nth(2)?.trim();
        Some(Justified { file: format!("{file}.rs"), change: change.into() })
    };
    let is_new = |line: &&String| of(line).is_none_or(|survivor| !justified.contains(&survivor));
    let new: Vec<&str> = found.survivors.iter().filter(is_new).map(String::as_str).collect();
    let judged = found.killed + new.len();
    let share = 100.0 * found.killed as f64 / judged.max(1) as f64;
    let mut note = format!(
        "{} of {judged} mutants killed ({share:.1} %), {} justified",
        found.killed,
        found.survivors.len() - new.len()
    );
    if found.left > 0 {
        note += &format!(", {} left when the time was over", found.left);
    }
    if !found.not_begun.is_empty() {
        note += &format!(", not begun: {}", found.not_begun.join(", "));
    }
    if !new.is_empty() {
        note += &format!("; survivors: {}", new.join("; "));
    }
    let now: BTreeSet<Justified> = found.survivors.iter().filter_map(|line| of(line)).collect();
    if let Some(gone) = justified.iter().find(|entry| is_whole && !now.contains(entry)) {
        return Err(format!(
            "{note}; {JUSTIFIED} has a survivor that is none: {}: {}",
            gone.file, gone.change
        ));
    }
    match judged {
        0 if is_whole => Err("no mutant was judged".into()),
        0 => Ok(format!("no mutant was judged: {note}")),
        few if few < FEW && !is_whole => Ok(format!("{note}; too few for a verdict")),
        _ if share >= THRESHOLD => Ok(note),
        _ => Err(format!("{note}; at least {THRESHOLD} % must be killed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str =
        "# why\nFile = crates/a/src/b.rs\nChange = replace || with && in c\nReason = both are equal\n";

    fn found(killed: usize, survivors: &[&str]) -> Found {
        Found {
            killed,
            survivors: survivors.iter().map(|line| line.to_string()).collect(),
            ..Found::default()
        }
    }

    #[test]
    fn survivors_fail_below_the_threshold() {
        let none = BTreeSet::new();
        let survivor = "crates/a/src/b.rs:7:9: replace || with && in c";
        assert!(judge(&found(97, &[survivor; 3]), &none, true).is_ok_and(|note| note.contains("97.0 %")));
        assert!(judge(&found(96, &[survivor; 4]), &none, true).is_err_and(|why| why.contains(survivor)));
        assert!(judge(&found(3, &[survivor]), &none, true).is_err(), "a whole run has a verdict");
        assert!(judge(&found(3, &[survivor]), &none, false).is_ok_and(|note| note.contains("too few")));
        assert!(judge(&found(33, &[survivor; 2]), &none, false).is_err());
    }

    #[test]
    fn justified_survivors_do_not_count() {
        let justified = parse(ENTRY).expect("an entry");
        let survivor = "crates/a/src/b.rs:7:9: replace || with && in c";
        assert!(judge(&found(1, &[survivor; 2]), &justified, true).is_ok());
        let moved = "crates/a/src/b.rs:8:1: replace || with && in d";
        assert!(judge(&found(1, &[survivor, moved]), &justified, true).is_err());
        assert!(judge(&found(40, &[]), &justified, true).is_err_and(|why| why.contains("is none")));
        assert!(judge(&found(40, &[]), &justified, false).is_ok(), "a part of the modules");
        assert!(
            parse("File = a\nChange = b\n").is_err() && parse("File = a\nChange = b\nReason = \n").is_err()
        );
    }

    #[test]
    fn modules_and_justified_files_exist() {
        for Module { package, paths, .. } in MODULES {
            for path in paths {
                assert!(!sources(&root(), Path::new(path)).is_empty(), "{package}: {path}");
            }
        }
        let mka = sources(&root(), Path::new("crates/channel/src/mka"));
        assert!(mka.len() > 5 && !mka.iter().any(|file| file.to_string_lossy().contains("tests")), "{mka:?}");
        for entry in justified().expect("the file") {
            assert!(root().join(&entry.file).exists(), "{}", entry.file);
        }
    }
}

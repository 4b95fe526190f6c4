//! AES on a Cortex-M3 in QEMU, instruction by instruction: the bit-sliced one executes the same
//! addresses and accesses the same ones for each key and packet. Table AES, the control, does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use xtask::shell::{Run, program, root};

use crate::interface::EMULATOR;

/// The fewest rounds of a measurement.
const FEWEST: usize = 20;
/// The measurements of a round.
const NAMES: [&str; 4] = ["key", "blocks", "seal", "open"];

/// What a program did in its measurements, by name.
struct Traces(BTreeMap<String, Vec<Trace>>);

/// Number and digest of what was executed, then of what was accessed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Trace {
    executed: String,
    accessed: String,
}

/// Builds the plugin, runs the programs of `folder` and judges. Returns a note.
pub(crate) fn check(folder: &Path) -> Result<String, String> {
    let plugin = folder.join("traces.so");
    let mut compiler = program("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg(root().join("firmware/c/traces.c")).arg("-o").arg(&plugin).echoed(20)?;
    let [sliced, table] = ["traces_sliced", "traces"].map(|name| Traces::of(&plugin, &folder.join(name)));
    judge(&sliced?, &table?)
}

/// The sliced one has one trace for each measurement; the control has several accesses.
fn judge(sliced: &Traces, table: &Traces) -> Result<String, String> {
    for name in NAMES {
        let distinct = sliced.distinct(name, |trace| trace.clone())?;
        if distinct != 1 {
            return Err(format!("sliced AES, {name}: {distinct} different traces, by the secrets"));
        }
    }
    let seen = NAMES.map(|name| table.distinct(name, |trace| trace.accessed.clone()));
    let seen = seen.into_iter().collect::<Result<Vec<_>, _>>()?;
    if seen.iter().any(|distinct| *distinct < 2) {
        return Err(format!("table AES looks constant, {seen:?}: the traces do not show accesses"));
    }
    let rounds = sliced.0.values().map(Vec::len).min().unwrap_or_default();
    Ok(format!("sliced AES: one trace of {rounds} keys; table AES: {} of {rounds}", seen[1]))
}

impl Traces {
    fn of(plugin: &Path, image: &Path) -> Result<Self, String> {
        let file = image.with_extension("traces");
        let mut emulator = program("qemu-system-arm");
        emulator.args(EMULATOR).arg("-plugin").arg(format!("{},out={}", plugin.display(), file.display()));
        let said = emulator.arg("-kernel").arg(image).read(60)?;
        let traced = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        Self::parse(&said, &traced)
    }

    /// Joins the program's names and the plugin's lines.
    fn parse(said: &str, traced: &str) -> Result<Self, String> {
        let names: Vec<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
        let lines: Vec<&str> = traced.lines().collect();
        if names.len() != lines.len() {
            return Err(format!("{} measurements, but {} traces", names.len(), lines.len()));
        }
        let mut all = BTreeMap::<String, Vec<Trace>>::new();
        for (name, line) in names.into_iter().zip(lines) {
            let [a, b, c, d] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(format!("no trace: `{line}`"));
            };
            let trace = Trace { executed: format!("{a} {b}"), accessed: format!("{c} {d}") };
            all.entry(name.to_owned()).or_default().push(trace);
        }
        Ok(Self(all))
    }

    /// Different traces of a measurement.
    fn distinct<T: Ord>(&self, name: &str, of: impl Fn(&Trace) -> T) -> Result<usize, String> {
        let all = self.0.get(name).filter(|all| all.len() >= FEWEST);
        let all = all.ok_or_else(|| format!("fewer than {FEWEST} rounds of {name}"))?;
        Ok(all.iter().map(of).collect::<BTreeSet<_>>().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of which every second accesses `other`.
    fn traces(other: &str) -> Traces {
        let names = NAMES.repeat(FEWEST);
        let said: String = names.iter().map(|name| format!("{name} 100\n")).collect();
        let line = |at: usize| {
            format!("100 aa 50 {}\n", if (at / NAMES.len()).is_multiple_of(2) { "bb" } else { other })
        };
        let traced: String = (0..names.len()).map(line).collect();
        Traces::parse(&said, &traced).expect("traces")
    }

    #[test]
    fn secret_address_fails_the_step() {
        assert!(judge(&traces("bb"), &traces("cc")).is_ok());
        assert!(judge(&traces("cc"), &traces("cc")).is_err_and(|why| why.contains("sliced AES, key: 2")));
    }

    #[test]
    fn blind_plugin_fails_the_step() {
        assert!(judge(&traces("bb"), &traces("bb")).is_err_and(|why| why.contains("looks constant")));
        assert!(judge(&Traces(BTreeMap::new()), &traces("cc")).is_err());
        assert!(Traces::parse("key 1\n", "").is_err() && Traces::parse("key 1\n", "1 2\n").is_err());
    }
}

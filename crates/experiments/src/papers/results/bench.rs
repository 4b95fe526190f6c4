//! The result of the engine's benchmark, which the report draws if it is in the folder.

use serde::Deserialize;

use super::super::{Settings, result_file};
use super::{BENCH, Results, State, text_of};
use crate::Machine;

/// The result of `cargo xtask bench aead --json`, which compares the engine with others.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::papers) struct Bench {
    antedate: String,
    machine: BenchMachine,
    pub(in crate::papers) rows: Vec<Latency>,
}

#[derive(Clone, Debug, Deserialize)]
struct BenchMachine {
    cpu: String,
}

/// A latency of that benchmark.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::papers) struct Latency {
    pub(in crate::papers) cipher: String,
    pub(in crate::papers) payload: usize,
    pub(in crate::papers) who: String,
    pub(in crate::papers) what: String,
    pub(in crate::papers) median_ns: f64,
}

impl Results {
    /// Reads the benchmark of the engine, which nobody expects.
    pub(super) fn read_bench(&mut self, settings: &Settings, machine: &Machine) {
        let state = match text_of(&result_file(&settings.folder, BENCH)) {
            Ok(None) => return,
            Err(error) => State::Broken(error.to_string()),
            Ok(Some(text)) => match serde_json::from_str::<Bench>(&text) {
                Err(error) => State::Broken(error.to_string()),
                Ok(bench) => {
                    let state = bench.age(settings, machine);
                    self.bench = Some(bench).filter(|_| state.is_taken());
                    state
                }
            },
        };
        self.add(BENCH, None, state, "");
    }

    /// The benchmark of the engine.
    pub(in crate::papers) const fn bench(&self) -> Option<&Bench> {
        self.bench.as_ref()
    }
}

impl Bench {
    fn age(&self, settings: &Settings, machine: &Machine) -> State {
        if settings.old {
            State::Taken
        } else if self.antedate != env!("CARGO_PKG_VERSION") {
            State::Old(format!("made by version {}", self.antedate))
        } else if self.machine.cpu != machine.cpu {
            State::Old(format!("made on another machine: {}", self.machine.cpu))
        } else {
            State::Taken
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn benchmark_is_taken_or_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings {
            folder: folder.path().into(),
            quick: false,
            only: None,
            run: false,
            old: false,
            program: "antedate".into(),
        };
        fs::create_dir(folder.path().join("results")).expect("a folder");
        let machine = Machine { cpu: "a CPU".into(), cores: 2, kernel: "6".into(), load: String::new() };
        let read = |text: Option<&str>, settings: &Settings| {
            if let Some(text) = text {
                fs::write(result_file(folder.path(), BENCH), text).expect("written");
            }
            let mut results = Results::default();
            results.read_bench(settings, &machine);
            (results.bench().map(|bench| bench.rows.len()), results.sources.pop().map(|source| source.state))
        };
        assert_eq!(read(None, &settings), (None, None), "nobody expects it");
        let row = r#"{"cipher":"aes-128-gcm","payload":16,"who":"ring","what":"seal","median_ns":80.5}"#;
        let of = |version: &str, cpu: &str| {
            format!(
                r#"{{"experiment":"bench aead","antedate":"{version}","machine":{{"cpu":"{cpu}"}},"rows":[{row}]}}"#
            )
        };
        let here = env!("CARGO_PKG_VERSION");
        assert_eq!(read(Some(&of(here, "a CPU")), &settings), (Some(1), Some(State::Taken)));
        for (version, cpu) in [("0.0.1", "a CPU"), (here, "another")] {
            let (bench, state) = read(Some(&of(version, cpu)), &settings);
            assert!(bench.is_none() && matches!(state, Some(State::Old(_))), "{version} {cpu}");
        }
        assert_eq!(read(None, &Settings { old: true, ..settings.clone() }).0, Some(1), "--old takes it");
        let (bench, state) = read(Some("{"), &settings);
        assert!(bench.is_none() && matches!(state, Some(State::Broken(_))));
    }
}

//! The measurements by part, kept in a file. A part that runs again replaces its last run and keeps
//! the other parts.

use super::Plan;
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use xtask::shell::{Run, cache, program};

/// The kind of run, for readers of the file.
const METHOD: &str = "contenders take turns in every round; percentiles over all rounds pooled, a lost round trip taken for longer than all others; rates, and ratios up to p99, as median of the rounds";

/// The file, and its contents.
pub(crate) struct Record {
    file: PathBuf,
    value: Value,
}

impl Record {
    /// Opens the file of the full or of the quick runs. A file of another format is an error, so
    /// that no data is lost.
    pub(crate) fn open(plan: &Plan) -> Result<Record, String> {
        Self::read(cache("bench")?.join(format!("{}.json", plan.name)))
    }

    fn read(file: PathBuf) -> Result<Record, String> {
        let value = match fs::read_to_string(&file) {
            Ok(text) => parts_of(&text).map_err(|why| {
                format!("{}: {why}: move it away, or remove it if it is not needed", file.display())
            })?,
            Err(e) if e.kind() == ErrorKind::NotFound => json!({}),
            Err(e) => return Err(format!("{}: {e}", file.display())),
        };
        Ok(Record { file, value: json!({ "experiment": "gateway", "method": METHOD, "parts": value }) })
    }

    /// Keeps a part's measurements with the circumstances at its start.
    pub(crate) fn keep(&mut self, part: &str, mut circumstances: Value, rows: Value, goals: Value) {
        (circumstances["rows"], circumstances["goals"]) = (rows, goals);
        self.value["parts"][part] = circumstances;
    }

    /// The figure, if there are round trips.
    pub(crate) fn figure(&self) -> Option<String> {
        super::figure::svg(&self.value["parts"]["roundtrips"]["rows"])
    }

    /// Writes the file, and beside it a page and, if there are round trips, a figure. Returns the
    /// files.
    pub(crate) fn write(&self) -> Result<Vec<PathBuf>, String> {
        let mut files = vec![(self.file.clone(), format!("{:#}\n", self.value))];
        files.push((self.file.with_extension("md"), super::page::page(&self.value["parts"])));
        if let Some(figure) = self.figure() {
            files.push((self.file.with_extension("svg"), figure));
        }
        for (file, text) in &files {
            // Replaces the file atomically: a run takes an hour.
            let fresh = file.with_extension("new");
            fs::write(&fresh, text)
                .and_then(|()| fs::rename(&fresh, file))
                .map_err(|e| format!("{}: {e}", file.display()))?;
        }
        Ok(files.into_iter().map(|(file, _)| file).collect())
    }
}

/// The parts in a file's text; none in a file of the older format without parts.
fn parts_of(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if value["experiment"] != "gateway" {
        return Err("is not of this benchmark".into());
    }
    Ok(if value["parts"].is_object() { value["parts"].clone() } else { json!({}) })
}

/// Date, machine and plan of a part that is about to be measured.
pub(crate) fn circumstances(plan: &Plan) -> Value {
    let now = program("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).read(10).unwrap_or_default();
    json!({ "begun": now.trim(), "antedate": env!("CARGO_PKG_VERSION"), "machine": machine(), "plan": plan.json() })
}

fn machine() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map(|m| m.trim_start_matches([' ', '\t', ':']));
    json!({
        "cpu": model, "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease").trim(), "openvpn": super::openvpn::version(),
        "load_before": read("/proc/loadavg").trim(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_runs_again_leaves_the_others() {
        let dir = std::env::temp_dir().join(format!("antedate-record-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a place");
        let file = dir.join("gateway.json");
        for (part, rows) in [("tcp", json!([1])), ("cpu", json!([2])), ("cpu", json!([3]))] {
            let mut record = Record::read(file.clone()).expect("a record, or none yet");
            record.keep(part, json!({ "begun": "today" }), rows, json!([]));
            assert_eq!(record.write().expect("written").len(), 2, "no figure without round trips");
        }
        let kept = Record::read(file.clone()).expect("a record").value;
        let part = |rows: Value| json!({ "begun": "today", "rows": rows, "goals": [] });
        assert_eq!(kept["parts"], json!({ "tcp": part(json!([1])), "cpu": part(json!([3])) }));
        fs::write(&file, "{").expect("broken");
        assert!(Record::read(file).is_err_and(|why| why.contains("move it away")));
        fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn only_a_record_is_taken_for_one() {
        assert!(parts_of("no JSON").is_err());
        assert!(parts_of("{\"experiment\":\"aead\"}").is_err());
        assert_eq!(parts_of("{\"experiment\":\"gateway\",\"roundtrips\":[]}"), Ok(json!({})), "of before");
        let text = "{\"experiment\":\"gateway\",\"parts\":{\"tcp\":{\"rows\":[]}}}";
        assert_eq!(parts_of(text), Ok(json!({ "tcp": { "rows": [] } })));
    }
}

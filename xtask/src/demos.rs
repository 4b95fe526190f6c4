//! The demos of `cargo xtask test`: what must hold on any machine is judged. Bus errors, missed
//! cycles and delays depend on the machine's other load; they are printed beside those of the demo
//! without protection in the same run.

use serde_json::Value;
use std::fs;
use std::path::Path;
use xtask::report::StepResult;
use xtask::shell::{Run, antedate_of, cache, line, program};

/// A demo: its name, and its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Demo {
    pub(crate) name: &'static str,
    arguments: &'static [&'static str],
}

/// All demos. The unprotected one is first: its numbers stand beside those of the others.
pub(crate) const ALL: [Demo; 4] = [
    Demo { name: NONE, arguments: &["--secure", "none"] },
    Demo { name: "macsec", arguments: &["--secure", "macsec"] },
    Demo { name: "overlay", arguments: &["--secure", "overlay"] },
    Demo { name: "faults", arguments: &["--secure", "macsec", "--faults", "all"] },
];
const NONE: &str = "none";

/// Runs a short demo at the cycle of hohmann2020. Its JSON stays in the target directory.
pub(crate) fn run(demo: &Demo, profile: &str) -> StepResult {
    let folder = cache("demo")?;
    let json = folder.join(format!("{}.json", demo.name));
    let _ = fs::remove_file(&json);
    let mut command = program(antedate_of(profile));
    command.args(["demo", "--cycle-us", "4000", "--seconds", "10"]).args(demo.arguments);
    command.arg("--json").arg(&json);
    let met = command.verdict(180)?;
    let result = read(&json)?;
    judge(&result, met).map_err(|why| format!("{}: {why}", line(&command)))?;
    let mut note = format!("{}; not judged: {}", counts(&result), lateness(&result));
    if demo.name != NONE
        && let Ok(none) = read(&folder.join(format!("{NONE}.json")))
    {
        note += &format!("; without protection: {}", lateness(&none));
    }
    Ok(note)
}

fn read(json: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(json).map_err(|e| format!("{}: {e}", json.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", json.display()))
}

/// Passes if all holds that must hold on any machine; `met` is the exit status's verdict.
fn judge(result: &Value, met: bool) -> Result<(), String> {
    if result["passed"].as_bool() != Some(met) {
        return Err(format!("exit status and result differ: passed is {}", result["passed"]));
    }
    if result["holds"] == true {
        return Ok(());
    }
    let list = |key: &str| result[key].as_array().cloned().unwrap_or_default();
    let checks =
        list("checks").into_iter().filter(|check| check["passed"] != true && check["timing"] != true);
    let checks = checks.map(|check| format!("{}: {}", check["name"], check["found"]));
    let faults = list("faults").into_iter().filter(|fault| fault["holds"] != true);
    let faults = faults.map(|fault| format!("{}: {}", fault["fault"], fault["note"]));
    Err(checks.chain(faults).collect::<Vec<_>>().join("; "))
}

fn counts(result: &Value) -> String {
    format!("readable frames {}, numbers twice {}", result["plaintext_frames_on_wire"], result["nonce_reuse"])
}

fn lateness(result: &Value) -> String {
    let (errors, missed) = (&result["bus_errors"], &result["missed"]);
    let sum = |key: &str| result[key].as_u64().unwrap_or(0);
    let stalled = sum("bus_errors_stalled") + sum("missed_stalled");
    let trip = &result["round_trip_us"];
    format!(
        "{errors} bus errors, {missed} cycles missed ({stalled} of both in stalls), round trip {} / {} us (median, p99.9)",
        trip["p50"], trip["p99_9"]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_busy_machine_fails_no_demo() {
        let late = json!({ "name": "no cycle missed", "passed": false, "timing": true, "found": "12" });
        let result = json!({ "passed": false, "holds": true, "checks": [late] });
        assert_eq!(judge(&result, false), Ok(()));
        assert!(judge(&result, true).is_err(), "the exit status says otherwise");
    }

    #[test]
    fn everything_else_fails_it() {
        let check = |name: &str, timing: bool| json!({ "name": name, "passed": false, "timing": timing, "found": "1" });
        let result = json!({
            "passed": false, "holds": false, "checks": [check("late", true), check("readable", false)],
            "faults": [{ "fault": "cut", "holds": false, "note": "traffic did not come back" },
                       { "fault": "kill-a", "holds": true, "note": "" }],
        });
        let why = judge(&result, false).expect_err("it fails");
        assert_eq!(why, "\"readable\": \"1\"; \"cut\": \"traffic did not come back\"");
        assert!(judge(&json!({ "passed": false }), false).is_err(), "an older program has no `holds`");
    }
}

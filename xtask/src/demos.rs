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
pub(crate) const ALL: [Demo; 5] = [
    Demo { name: NONE, arguments: &["--secure", "none"] },
    Demo { name: "macsec", arguments: &["--secure", "macsec"] },
    Demo { name: "overlay", arguments: &["--secure", "overlay"] },
    Demo { name: "faults", arguments: &["--secure", "macsec", "--faults", "all"] },
    Demo { name: REDUNDANT, arguments: &["--topology", "redundant"] },
];
const NONE: &str = "none";
const REDUNDANT: &str = "redundant";

/// Runs a short demo at the cycle of hohmann2020. Its JSON stays in the target directory.
pub(crate) fn run(demo: &Demo, profile: &str) -> StepResult {
    let folder = cache("demo")?;
    let json = folder.join(format!("{}.json", demo.name));
    let _ = fs::remove_file(&json);
    let mut command = program(antedate_of(profile));
    let seconds = if demo.name == REDUNDANT { "2" } else { "10" };
    command.args(["demo", "--cycle-us", "4000", "--seconds", seconds]).args(demo.arguments);
    command.arg("--json").arg(&json);
    let met = command.verdict(180)?;
    let result = read(&json)?;
    judge(&result, met).map_err(|why| format!("{}: {why}", line(&command)))?;
    if demo.name == REDUNDANT {
        return Ok(strokes(&result));
    }
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
    // Those of the redundant plant have names.
    let wrong = result["faults"].as_object().into_iter().flatten().filter(|(_, all)| all["wrong"] != 0);
    let wrong =
        wrong.map(|(fault, all)| format!("{fault}: the wrong gateway forwards {} times", all["wrong"]));
    let twice = result["twice"].as_u64().filter(|twice| *twice > 0);
    let twice = twice.map(|twice| format!("{twice} frames came twice"));
    Err(checks.chain(faults).chain(wrong).chain(twice).collect::<Vec<_>>().join("; "))
}

/// The faults of the redundant plant, which strike once each.
fn strokes(result: &Value) -> String {
    let faults = result["faults"].as_object().into_iter().flatten();
    let faults = faults.map(|(fault, all)| {
        format!("{fault} {} frames lost, {} ms without one", all["lost"], all["gaps_ms"][0])
    });
    let faults = faults.collect::<Vec<_>>().join("; ");
    format!("{} frames came twice; not judged: {faults}", result["twice"])
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
        let kill = json!({ "times": 1, "lost": 7, "gaps_ms": [61.5], "wrong": 1 });
        let result = json!({ "passed": false, "holds": false, "twice": 2, "faults": { "kill": kill } });
        let why = judge(&result, false).expect_err("it fails");
        assert_eq!(why, "kill: the wrong gateway forwards 1 times; 2 frames came twice");
        assert_eq!(
            strokes(&result),
            "2 frames came twice; not judged: kill 7 frames lost, 61.5 ms without one"
        );
    }
}

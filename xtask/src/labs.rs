//! The experiments of `cargo xtask test` that judge trust, each in its quick form. They judge no
//! time.

use serde_json::Value;
use std::fs;
use xtask::report::StepResult;
use xtask::shell::{Run, antedate_of, cache, line, program};

/// The experiments.
pub(crate) const ALL: [&str; 3] = ["nonces", "attack", "soak"];

/// Runs one. Its JSON stays in the target directory.
pub(crate) fn run(name: &str, profile: &str) -> StepResult {
    let json = cache("lab")?.join(format!("{name}.json"));
    let _ = fs::remove_file(&json);
    let mut command = program(antedate_of(profile));
    command.args(["lab", name, "--quick", "--figure"]).arg(json.with_extension("svg"));
    command.arg("--json").arg(&json);
    let met = command.verdict(240)?;
    let text = fs::read_to_string(&json).map_err(|e| format!("{}: {e}", json.display()))?;
    let result: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", json.display()))?;
    let failed = unmet(&result);
    if met && failed.is_empty() {
        return Ok(format!("{} checks", result["checks"].as_array().map_or(0, Vec::len)));
    }
    Err(format!("{}: {}", line(&command), failed.join("; ")).into())
}

/// The checks that failed.
fn unmet(result: &Value) -> Vec<String> {
    let checks = result["checks"].as_array().into_iter().flatten();
    checks.filter(|check| check["met"] != true).map(|check| check["what"].to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unmet_checks_are_named() {
        let check = |what: &str, met: bool| json!({ "what": what, "met": met });
        let result = json!({ "checks": [check("one", true), check("two", false)] });
        assert_eq!(unmet(&result), ["\"two\""]);
    }
}

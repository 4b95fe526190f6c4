//! Our PPMP messages against their schema, by the Python package jsonschema.

use super::python;
use crate::place;
use std::path::PathBuf;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Run, antedate, program};

pub(crate) fn prepare() -> Result<(), Stop> {
    python()?;
    Ok(())
}

fn python() -> Result<PathBuf, String> {
    python::environment("ppmp", &["jsonschema==4.26.0"])
}

/// Checks that both kinds of message are valid.
pub(crate) fn run() -> StepResult {
    let python = python()?;
    let mut lines = String::new();
    for kind in ["ppmp-measurement", "ppmp-machine"] {
        let message = program(antedate()).args(["template", "example", kind, "--raw"]).read(10)?;
        lines.push_str(message.trim_end());
        lines.push('\n');
    }
    let file = place::run()?.join("ppmp.jsonl");
    std::fs::write(&file, lines).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut validate = program(&python);
    validate.arg(python::script("ppmp/validate.py")).arg(python::script("ppmp/schema.json")).arg(&file);
    let said = validate.read(30)?;
    if said.trim() != "2 valid" {
        return Err(format!("expected 2 valid, came {said}").into());
    }
    Ok("a measurement and a machine message are valid".to_owned())
}

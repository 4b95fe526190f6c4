//! The dependency policy of `deny.toml`, checked by cargo-deny.

use std::process::Command;
use xtask::report::{StepResult, Stop};
use xtask::setup::tools;
use xtask::shell::{Run, program};

/// Checks bans, licences and sources.
pub(crate) fn policy() -> StepResult {
    deny(&["check", "--hide-inclusion-graph", "bans", "licenses", "sources"])?.echoed(180)?;
    Ok("bans, licences, sources".into())
}

/// Checks advisories; skipped where their database cannot be fetched.
pub(crate) fn advisories() -> StepResult {
    deny(&["fetch", "db"])?
        .read(120)
        .map_err(|_| Stop::Skipped("the database of advisories cannot be fetched here".into()))?;
    deny(&["check", "--hide-inclusion-graph", "--disable-fetch", "advisories"])?.echoed(180)?;
    Ok(String::new())
}

fn deny(words: &[&str]) -> Result<Command, String> {
    let mut command = program(tools::cargo_deny()?);
    command.args(["--log-level", "error"]).args(words);
    Ok(command)
}

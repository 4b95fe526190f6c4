//! The dependency policy of `deny.toml`, checked by cargo-deny.

use xtask::report::StepResult;
use xtask::setup::tools;
use xtask::shell::{Run, program};

/// Checks bans, licences and sources, and advisories if their database can be fetched.
pub(crate) fn check() -> StepResult {
    let tool = tools::cargo_deny()?;
    let deny = |words: &[&str]| {
        let mut command = program(&tool);
        command.args(["--log-level", "error"]).args(words);
        command
    };
    deny(&["check", "--hide-inclusion-graph", "bans", "licenses", "sources"]).echoed(180)?;
    if deny(&["fetch", "db"]).read(120).is_err() {
        return Ok(
            "bans, licences, sources; advisories not checked: their database cannot be fetched here".into()
        );
    }
    deny(&["check", "--hide-inclusion-graph", "--disable-fetch", "advisories"]).echoed(180)?;
    Ok("bans, licences, sources, advisories".into())
}

//! `cargo xtask demo`: the main job, end to end, on this machine.

use std::ffi::OsString;
use xtask::setup::{self, Purpose};
use xtask::shell::{DEMO, antedate_of, build_demo, line, program};

/// Set-up, a build in the profile `demo`, then `antedate demo` with the arguments given.
pub(crate) fn main(args: &[OsString]) -> Result<bool, String> {
    setup::ensure(Purpose::Demo)?;
    build_demo()?;
    let mut command = program(antedate_of(DEMO));
    command.arg("demo").args(args);
    println!("$ {}", line(&command));
    // Neither bounded nor in a group of its own: it is interactive, and Ctrl-C belongs to it.
    let status = command.status().map_err(|e| format!("{}: {e}", line(&command)))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!("antedate demo: {status}")),
    }
}

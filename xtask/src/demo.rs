//! `cargo xtask demo`: the main job, end to end, on this machine.

use crate::setup::{self, Purpose};
use crate::shell::{antedate, build_release, line, program};

/// Set-up, release build, `antedate demo` with the arguments given.
pub(crate) fn main(args: &[String]) -> Result<bool, String> {
    setup::ensure(Purpose::Demo)?;
    build_release()?;
    let mut command = program(antedate());
    command.arg("demo").args(args);
    println!("$ {}", line(&command));
    // Not bounded and not in a group of its own: it is interactive, and Ctrl-C belongs to it.
    let status = command.status().map_err(|e| format!("{}: {e}", line(&command)))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!("antedate demo: {status}")),
    }
}

//! `cargo xtask demo`: the product's main function, end to end, on this machine.

use std::ffi::OsString;
use xtask::setup::{self, Purpose};
use xtask::shell::{DEMO, antedate_of, build_demo, line, program};

/// Sets up, builds in the profile `demo`, then runs `antedate demo` with these arguments.
pub(crate) fn main(args: &[OsString]) -> Result<bool, String> {
    setup::ensure(Purpose::Demo)?;
    build_demo()?;
    let mut command = program(antedate_of(DEMO));
    command.arg("demo").args(args);
    println!("$ {}", line(&command));
    // Without a time bound and in this process group: the demo is interactive and gets Ctrl-C
    // itself.
    let status = command.status().map_err(|e| format!("{}: {e}", line(&command)))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!("antedate demo: {status}")),
    }
}

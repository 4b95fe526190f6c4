//! A test that this machine cannot run. Tests of other crates include this file.

use std::fs::OpenOptions;
use std::io::Write;

/// Prints the reason and appends it to the file that `ANTEDATE_SKIPPED` names. `cargo xtask test`
/// sets the variable and lists the reasons; without it the test passes.
pub(crate) fn skipped(reason: &str) {
    println!("SKIPPED: {reason}");
    let Some(file) = std::env::var_os("ANTEDATE_SKIPPED") else { return };
    let list = OpenOptions::new().append(true).create(true).open(file);
    // One call for a line: tests of several processes append at once.
    list.and_then(|mut list| list.write_all(format!("{reason}\n").as_bytes()))
        .expect("the list of skipped tests");
}

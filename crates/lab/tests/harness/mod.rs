//! Runner of the tests in network namespaces. Without root the process must enter a user namespace
//! before it has threads, which the standard harness prevents. Where namespaces are forbidden it
//! lists that as skipped.

use std::panic;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use antedate_lab::ns;

#[path = "../../../wire/tests/skip/mod.rs"]
mod skip;
pub(crate) use skip::skipped;

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

/// Messages of the panics of all threads since the last test's end.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Runs the named tests one after the other, with the standard harness's output.
pub(crate) fn run(what: &str, tests: &[Test]) -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let wanted = |name: &str| {
        let mut filters = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
        filters.peek().is_none() || filters.any(|filter| name.contains(filter.as_str()))
    };
    let chosen: Vec<_> = tests.iter().filter(|(name, _)| wanted(name)).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Err(error) = ns::acquire() {
        skipped(&format!("{what} in namespaces, {} tests: {error}", chosen.len()));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", chosen.len());
    keep_panics();
    let mut failures = Vec::new();
    for (name, test) in &chosen {
        let passed = panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        let panics = std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
        if !passed {
            failures.push((name, panics));
        }
    }
    let failed = failures.len();
    if failed > 0 {
        println!("\nfailures:");
        failures.iter().for_each(|(name, panics)| println!("\n---- {name} ----\n{}", panics.join("\n")));
        println!("\nfailures:");
        failures.iter().for_each(|(name, _)| println!("    {name}"));
    }
    let (verdict, passed) = (if failed == 0 { "ok" } else { "FAILED" }, chosen.len() - failed);
    let left_out = tests.len() - chosen.len();
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {left_out} filtered out\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints panics as always, and keeps them for the list of failures.
fn keep_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
        usual(panic);
    }));
}

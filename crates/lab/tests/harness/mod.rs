//! Runner of the tests in network namespaces: each in a process of its own, several at once, since
//! they wait for timers of protocols more than they compute. Without root a process must enter a
//! user namespace before it has threads, which the standard harness prevents. Where namespaces are
//! forbidden the runner lists that as skipped.

use std::io::{Read, Seek};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use antedate_lab::ns;

#[path = "../../../wire/tests/skip/mod.rs"]
mod skip;
pub(crate) use skip::skipped;

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

/// Tests at once.
const AT_ONCE: usize = 3;
/// The most failed tests that are tried again, alone. More than these are no matter of a busy machine.
const AGAIN: usize = 2;

/// Runs the named tests, with the standard harness's output. A single one runs in this process.
pub(crate) fn run(what: &str, tests: &[Test]) -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let is_exact = arguments.iter().any(|argument| argument == "--exact");
    let wanted = |name: &str| {
        let mut filters = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
        let fits = |filter: &String| if is_exact { name == filter } else { name.contains(filter.as_str()) };
        filters.peek().is_none() || filters.any(fits)
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
    if let [(_, test)] = chosen[..]
        && is_exact
    {
        test();
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", chosen.len());
    let failures = alone(run_apart(&chosen));
    let failed = failures.len();
    if failed > 0 {
        println!("\nfailures:");
        failures.iter().for_each(|(name, said)| println!("\n---- {name} ----\n{said}"));
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

/// Runs each test in a process of its own. Returns the failed ones and their output.
fn run_apart(tests: &[&Test]) -> Vec<(&'static str, String)> {
    let (next, failures) = (Mutex::new(tests.iter()), Mutex::new(Vec::new()));
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, _)) = take() {
                    let (passed, said) = apart(name).unwrap_or_else(|error| (false, error.to_string()));
                    // One call, so that lines of two tests do not mix.
                    println!("{said}test {name} ... {}", if passed { "ok" } else { "FAILED" });
                    if !passed {
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push((*name, said));
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Tries failed tests once more, alone: their clocks are those of a machine that has time. One that
/// passes now is told with its first failure. Returns those that fail again.
fn alone(mut failures: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    if failures.len() > AGAIN {
        return failures;
    }
    failures.retain(|(name, said)| {
        let (passed, again) = apart(name).unwrap_or_else(|error| (false, error.to_string()));
        let what = if passed { "passes alone; beside others it failed with" } else { "fails alone, too" };
        println!("\n---- {name} {what}\n{}", if passed { said } else { &again });
        !passed
    });
    failures
}

/// Runs one test in a process of its own. Returns whether it passed, and its output.
fn apart(name: &str) -> std::io::Result<(bool, String)> {
    // A file: a program that a failed test left behind may hold it open.
    let mut output = tempfile::tempfile()?;
    let status = Command::new(std::env::current_exe()?)
        .args(["--exact", name])
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .status()?;
    output.rewind()?;
    let mut said = Vec::new();
    output.read_to_end(&mut said)?;
    Ok((status.success(), String::from_utf8_lossy(&said).into_owned()))
}

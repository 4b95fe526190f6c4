//! Shows that the engine's time does not depend on secrets.
//!
//! `memcheck` marks secrets as undefined memory and runs each suite: under valgrind each branch and
//! each address that depends on them is an error, which it counts. `statistics` measures two
//! classes of secrets and compares their times with Welch's test, as dudect does (Reparaz, Balasch
//! and Verbauwhede, "Dude, is my code constant time?", 2017). Both print one JSON object a line.

mod cases;
mod memcheck;
mod packets;
mod statistics;
mod table;
mod valgrind;
mod welch;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["memcheck"] if valgrind::is_running() => memcheck::run(),
        ["memcheck"] => return fail("memcheck runs under valgrind alone: valgrind -q PROGRAM memcheck"),
        ["statistics", samples] => match samples.parse() {
            Ok(samples) if samples >= statistics::FEWEST => statistics::run(samples),
            _ => return fail(&format!("SAMPLES is a number of at least {}", statistics::FEWEST)),
        },
        _ => return fail("usage: antedate-timing memcheck | statistics SAMPLES"),
    }
    ExitCode::SUCCESS
}

fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}

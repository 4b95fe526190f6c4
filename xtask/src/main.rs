//! `cargo xtask COMMAND`: set-up, demo, tests and CI of the workspace. One file per command.
//!
//! `peers`, `bench` and `cross` need the engine and are commands of the package `xtask-peers`,
//! which this program starts.

use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use xtask::setup::{self, Purpose};
use xtask::{package, peers, run};

mod backends;
mod book;
mod capi;
mod ci;
mod cycles;
mod demo;
mod demos;
mod dependencies;
mod elf;
mod firmware;
mod fuzz;
mod house;
mod interface;
mod labs;
mod lanes;
mod mutants;
mod nostd;
mod page;
mod papers;
mod publish;
mod reproduce;
mod sbom;
mod sensors;
mod steps;
mod test;
mod timing;
mod traces;

/// Set-up, demo, tests and CI of the workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_version_flag = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask demo                      two machines exchange PROFINET through two gateways
  cargo xtask test                      all checks of CI
  cargo xtask test --only clippy        one of them; `--list` names them
  cargo xtask peers wireguard-go        one independent implementation; `--list` names them
  cargo xtask bench gateway --quick     the gateway beside bridges and OpenVPN, in minutes

Exit status: 0 all passed, 1 something failed, 2 a usage error or a machine that lacks what is needed.";

#[derive(Subcommand)]
enum Command {
    /// List, then install Debian packages; without a purpose, those of demo, test and bench
    Setup {
        /// The command that needs the packages
        #[arg(long = "for", value_name = "PURPOSE")]
        purpose: Option<Purpose>,
    },
    /// Set up, build, run `antedate demo ARGS...`
    #[command(disable_help_flag = true)]
    Demo {
        /// Options of `antedate demo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Set up and run everything that CI runs
    Test {
        /// Print the names of the steps
        #[arg(long)]
        list: bool,
        /// Run this step alone; may be given several times
        #[arg(long, value_name = "STEP")]
        only: Vec<String>,
    },
    /// Run the independent implementations alone; `--list` names them
    #[command(disable_help_flag = true)]
    Peers(Forwarded),
    /// Measure beside other implementations in one run: `gateway` or `aead`
    #[command(disable_help_flag = true)]
    Bench(Forwarded),
    /// Build the C library and its header, for this machine or a microcontroller
    Capi(capi::Arguments),
    /// Build, run and measure the programs of the motes
    Firmware,
    /// Compile and test for other CPUs, emulated; `--list` names them
    #[command(disable_help_flag = true)]
    Cross(Forwarded),
    /// Change security's lines one by one; the tests of their crates must notice
    Mutants(mutants::Arguments),
    /// Feed parsers and state machines with libFuzzer's inputs
    Fuzz(fuzz::Arguments),
    /// Make a Debian package and a tarball of the program, in target/package
    Package(package::Arguments),
    /// Run the report over the papers in full, and copy its page into the book
    Page(page::Arguments),
    /// Build the newest commit in two folders and compare what is shipped
    Reproduce(reproduce::Arguments),
    /// List the components of what is shipped (CycloneDX)
    Sbom,
    /// Show that the engine's time does not depend on secrets: valgrind, and statistics
    Timing(timing::Arguments),
    /// Run one step for `test`, in a process of its own
    #[command(hide = true)]
    Step(lanes::Single),
    /// Run `test`; a skipped step is a failure
    Ci {
        /// Let this machine skip this step; may be given several times
        #[arg(long, value_name = "STEP")]
        may_skip: Vec<String>,
    },
}

/// Arguments of a command of `xtask-peers`, which reads them.
#[derive(clap::Args)]
struct Forwarded {
    /// See `--help` of the command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| match arguments.command {
        Some(Command::Setup { purpose }) => setup::set_up(purpose),
        Some(Command::Demo { args }) => demo::main(&args),
        Some(Command::Test { list: true, .. }) => Ok(test::list()),
        Some(Command::Test { only, .. }) => Ok(test::run(&only)?.finish()),
        Some(Command::Peers(words)) => Err(peers::replace_with("peers", &words.args)),
        Some(Command::Bench(words)) => Err(peers::replace_with("bench", &words.args)),
        Some(Command::Cross(words)) => Err(peers::replace_with("cross", &words.args)),
        Some(Command::Capi(arguments)) => capi::main(&arguments),
        Some(Command::Firmware) => firmware::main(),
        Some(Command::Mutants(arguments)) => mutants::main(&arguments),
        Some(Command::Fuzz(arguments)) => fuzz::main(&arguments),
        Some(Command::Package(arguments)) => {
            let motes = arguments.lab.then(firmware::packed).transpose()?;
            package::main(&arguments, motes.as_deref())
        }
        Some(Command::Page(arguments)) => page::main(&arguments),
        Some(Command::Reproduce(arguments)) => reproduce::main(&arguments),
        Some(Command::Sbom) => sbom::main(),
        Some(Command::Timing(arguments)) => timing::main(&arguments),
        Some(Command::Step(single)) => lanes::inside(&single),
        Some(Command::Ci { may_skip }) => ci::main(&may_skip),
        None => {
            Arguments::command().print_help().map_err(|e| e.to_string())?;
            Ok(true)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;
    use xtask::commands::{Shown, commands, documents};
    use xtask::shell::root;

    #[test]
    fn arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn forwarded_options_are_left_alone() {
        let line = ["cargo xtask", "bench", "gateway", "--quick", "--only", "tcp"];
        let read = Arguments::try_parse_from(line).expect("read");
        assert!(matches!(read.command, Some(Command::Bench(words)) if words.args == line[2..]));
        let help = Arguments::try_parse_from(["cargo xtask", "peers", "--help"]).expect("read");
        assert!(matches!(help.command, Some(Command::Peers(words)) if words.args == ["--help"]));
    }

    #[test]
    fn commands_of_the_documents_are_read() {
        let mut read = 0;
        for (name, text) in documents(&root()) {
            for Shown { place, words, is_open } in commands(&name, &text, &["cargo", "xtask"]) {
                let line = ["cargo xtask".to_string()].into_iter().chain(words.clone());
                if let Err(error) = Arguments::try_parse_from(line) {
                    let is_help = error.kind() == ErrorKind::DisplayHelp;
                    assert!(is_open || is_help, "{place}: {words:?}: {error}");
                    let wrong = [ErrorKind::InvalidSubcommand, ErrorKind::UnknownArgument];
                    assert!(!wrong.contains(&error.kind()), "{place}: {words:?}: {error}");
                }
                read += 1;
            }
        }
        assert!(read > 40, "{read}");
    }

    #[test]
    fn unknown_words_are_usage_errors() {
        for line in [
            &["cargo xtask", "dmeo"][..],
            &["cargo xtask", "test", "--onyl", "x"],
            &["cargo xtask", "ci", "x"],
        ] {
            assert_eq!(Arguments::try_parse_from(line).err().map(|e| e.exit_code()), Some(2), "{line:?}");
        }
    }
}

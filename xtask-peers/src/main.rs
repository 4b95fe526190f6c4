//! The commands of `cargo xtask` that need the engine or guests: `peers`, `bench`, `cross`.
//!
//! [`net`] builds paths of network namespaces, [`daemon`] starts gateways on them, [`traffic`]
//! sends over them, [`guest`] is a QEMU machine with a Linux kernel, [`experiment`] runs
//! experiments of `antedate lab` in it.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::run;

mod bench;
mod cross;
mod daemon;
mod experiment;
mod guest;
mod net;
mod peers;
mod place;
mod traffic;

/// Independent implementations as peers, benches, other CPUs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run independent implementations against the gateway and the channels
    #[command(after_help = "\
Examples:
  cargo xtask peers                     all of them
  cargo xtask peers scapy kernel-macsec two of them")]
    Peers(peers::Arguments),
    /// Measure beside other implementations, in one run
    #[command(
        subcommand,
        after_help = "\
Examples:
  cargo xtask bench gateway --quick --only roundtrips
  cargo xtask bench aead --only gcm"
    )]
    Bench(bench::Command),
    /// Compile and test for other CPUs, and run the gateway on emulated machines
    #[command(after_help = "\
Examples:
  cargo xtask cross --only compile
  cargo xtask cross aarch64-unknown-linux-gnu --only gateway")]
    Cross(cross::Arguments),
    /// Run one peer and write its outcome to a file
    #[command(name = xtask::peers::STEP, hide = true)]
    PeerStep(peers::Single),
    /// Run one prepared peer in the sandbox and write its outcome to a file
    #[command(name = peers::INNER, hide = true)]
    PeerInside(peers::Single),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| match arguments.command {
        Command::Peers(arguments) => peers::main(&arguments),
        Command::Bench(command) => bench::main(&command),
        Command::Cross(arguments) => cross::main(&arguments),
        Command::PeerStep(single) => peers::step(&single),
        Command::PeerInside(single) => peers::inside(&single),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::{ContextKind, ErrorKind};
    use xtask::commands::{Shown, commands, documents};
    use xtask::shell::root;

    #[test]
    fn arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn known_command_lines_are_read() {
        for line in [
            "peers --list",
            "peers scapy dtls",
            "bench gateway --quick --no-verdict --only tcp --only cpu",
            "bench aead --quick --only gcm --tail --json a.json",
            "bench aead --quick --classes --only gcm",
            "bench aead --class sse",
            "cross --list",
            "cross aarch64-unknown-linux-gnu --only gateway",
        ] {
            let words = ["cargo xtask"].into_iter().chain(line.split(' '));
            assert!(Arguments::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn commands_of_the_documents_are_read() {
        let mut read = 0;
        for (name, text) in documents(&root()) {
            for Shown { place, words, is_open } in commands(&name, &text, &["cargo", "xtask"]) {
                if !["peers", "bench", "cross"].contains(&words.first().map_or("", String::as_str)) {
                    continue;
                }
                let line = ["cargo xtask".to_string()].into_iter().chain(words.clone());
                if let Err(error) = Arguments::try_parse_from(line) {
                    // A value in capitals stands for one.
                    let value = error.get(ContextKind::InvalidValue).map(ToString::to_string);
                    let stands_for = value.is_some_and(|value| value.chars().all(|c| c.is_ascii_uppercase()));
                    let is_short = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
                    assert!(stands_for || is_open && is_short, "{place}: {words:?}: {error}");
                }
                read += 1;
            }
        }
        assert!(read > 30, "{read}");
    }

    #[test]
    fn unknown_words_are_usage_errors() {
        for line in [
            "peers nobody",
            "peers --lits",
            "bench",
            "bench gateway --only x",
            "cross sparc",
            "cross --only x",
        ] {
            let words = ["cargo xtask"].into_iter().chain(line.split(' '));
            assert_eq!(Arguments::try_parse_from(words).err().map(|e| e.exit_code()), Some(2), "{line}");
        }
    }
}

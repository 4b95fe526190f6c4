//! The `antedate` command: one file per verb.
//!
//! Exit status: 0 success, 1 a verdict that failed, 2 a usage or configuration error, 3 a machine
//! that is not ready yet. Errors go to standard error with the fault, its place and its remedy.

mod absent;
#[cfg(feature = "fleet")]
mod agent;
mod capture;
mod demo;
mod doctor;
#[cfg(feature = "dtls")]
mod dtls;
mod failure;
#[cfg(feature = "fleet")]
mod fleet;
mod gateway;
mod goose;
mod hardened;
mod help;
mod inspect;
mod keygen;
#[cfg(feature = "lab")]
mod lab;
#[cfg(all(test, feature = "dtls", feature = "fleet", feature = "lab", feature = "mqtt", feature = "plan"))]
mod manual;
#[cfg(feature = "mqtt")]
mod mqtt;
mod output;
#[cfg(feature = "pages")]
mod pages;
#[cfg(feature = "plan")]
mod plan;
#[cfg(feature = "lab")]
mod report;
mod template;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Locked, left out of dumps, and wiped when freed: keys pass through buffers of many libraries.
#[global_allocator]
static HEAP: antedate_hardening::Heap = antedate_hardening::Heap::new();

/// Secure communication for industrial devices that meets deadlines.
///
/// Exit status: 0 success, 1 a verdict that failed, 2 a usage or configuration error, 3 a machine
/// that is not ready yet.
#[derive(Parser)]
#[command(name = "antedate", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(
    after_help = "Examples:\n  antedate demo                    two gateways and a plant, on this machine alone\n  antedate help start              from nothing to two protected segments\n  antedate doctor                  what this machine lacks, with remedies"
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show, on this machine alone, that machines keep their cycle behind two gateways.
    ///
    /// A virtual Profinet controller and an IO device exchange data through two real gateway
    /// processes over an untrusted wire with an eavesdropper. The end is a verdict. Needs no root
    /// where user namespaces are permitted.
    #[command(after_help = demo::faults_help())]
    Demo(demo::Demo),
    /// Protect a network segment: the daemon, its checks, its state.
    #[command(
        subcommand,
        after_help = "Examples:\n  antedate gateway check gateway.toml\n  sudo antedate gateway status"
    )]
    Gateway(gateway::Verb),
    #[cfg(feature = "dtls")]
    /// Speak DTLS for devices that speak plain UDP: a proxy on each side of the untrusted network.
    #[command(
        subcommand,
        after_help = "Example:\n  antedate dtls connect --listen 127.0.0.1:5000 --to plant.example:4433 --psk psk"
    )]
    Dtls(dtls::Verb),
    /// Create keys in the form that gateways and the usual tools read.
    #[command(
        subcommand,
        after_help = "Examples:\n  antedate keygen macsec --cak --out cak\n  antedate keygen wireguard --out wg.key"
    )]
    Keygen(keygen::Verb),
    #[cfg(feature = "fleet")]
    /// Enrol, configure, re-key and watch many devices over NATS, which is trusted with nothing.
    #[command(subcommand, after_help = "Examples:\n  antedate fleet init --try\n  antedate fleet status")]
    Fleet(Box<fleet::Verb>),
    #[cfg(feature = "fleet")]
    /// Be a device of a fleet: ask for membership, take settings, report.
    #[command(subcommand, after_help = "Example:\n  antedate agent enrol --invitation invitation.json")]
    Agent(agent::Verb),
    #[cfg(feature = "lab")]
    /// Reproduce a paper's measurement and compare Antedate with it.
    Lab(lab::Lab),
    #[cfg(feature = "lab")]
    /// Show every number of the five papers beside ours, in one page.
    ///
    /// Runs the experiments whose results are not in the folder yet, and writes the page, its rows as
    /// JSON, and each figure as SVG and CSV.
    Report(report::Report),
    #[cfg(feature = "mqtt")]
    /// Publish and subscribe with payloads that are protected end to end, and manage their keys.
    #[command(
        subcommand,
        after_help = "Example:\n  antedate mqtt sub --keys line4.toml -t 'plant/line4/#' -v"
    )]
    Mqtt(Box<mqtt::Verb>),
    #[cfg(feature = "plan")]
    /// Check whether a scenario meets its deadlines, and find what would help.
    Plan(plan::Plan),
    /// Find out which part of a message can be prepared.
    #[command(subcommand, after_help = "Example:\n  antedate template learn message-1.bin message-2.bin")]
    Template(template::Verb),
    /// Publish and receive GOOSE, authenticated or encrypted.
    #[command(subcommand, after_help = "Example:\n  sudo antedate goose subscribe eth0 --plain")]
    Goose(goose::Verb),
    /// Publish and receive sampled values, authenticated or encrypted.
    #[command(subcommand, after_help = "Example:\n  sudo antedate sampled subscribe eth0 --plain")]
    Sampled(goose::sampled::Verb),
    /// Read the protected frames of a capture, and look for packet numbers that were used twice.
    Inspect(inspect::Inspect),
    /// Show what this machine lacks, and what will make frames late, each with its remedy.
    Doctor(doctor::Doctor),
    /// Explain a command or a topic.
    Help(help::Help),
    #[cfg(feature = "pages")]
    /// Write the manual pages and the completions of shells, for a package.
    #[command(hide = true)]
    Pages(pages::Pages),
}

fn main() -> ExitCode {
    // The lab starts its stations as processes of this program, with verbs that the help does not
    // show.
    if let Some(status) = antedate_lab::process::dispatch(std::env::args_os()) {
        return status;
    }
    let arguments = Arguments::try_parse().unwrap_or_else(|error| absent::explained(error).exit());
    let done = match arguments.verb {
        Verb::Demo(verb) => verb.run(),
        Verb::Gateway(verb) => verb.run(),
        #[cfg(feature = "dtls")]
        Verb::Dtls(verb) => verb.run(),
        Verb::Keygen(verb) => verb.run(),
        #[cfg(feature = "fleet")]
        Verb::Fleet(verb) => verb.run(),
        #[cfg(feature = "fleet")]
        Verb::Agent(verb) => verb.run(),
        #[cfg(feature = "lab")]
        Verb::Lab(verb) => verb.run(),
        #[cfg(feature = "lab")]
        Verb::Report(verb) => verb.run(),
        #[cfg(feature = "mqtt")]
        Verb::Mqtt(verb) => verb.run(),
        #[cfg(feature = "plan")]
        Verb::Plan(verb) => verb.run(),
        Verb::Template(verb) => verb.run(),
        Verb::Goose(verb) => verb.run(),
        Verb::Sampled(verb) => verb.run(),
        Verb::Inspect(verb) => verb.run(),
        Verb::Doctor(verb) => verb.run(),
        Verb::Help(verb) => verb.run(),
        #[cfg(feature = "pages")]
        Verb::Pages(verb) => verb.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}

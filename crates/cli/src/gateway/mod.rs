//! `antedate gateway`.

mod check;
mod eap;
mod events;
pub(crate) mod health;
mod init;
mod key_status;
mod observe;
mod ping;
mod rekey;
mod reload;
pub(crate) mod run;
mod status;
mod switch_sa;

use std::path::PathBuf;

use antedate_gateway::run::control::{Request, ask};
use antedate_host::fault::Fault;
use clap::{Args, Subcommand};

use crate::failure::Done;
use crate::output;

/// Verbs of the gateway.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Run the daemon until SIGTERM or SIGINT.
    ///
    /// Needs CAP_NET_RAW (run it with sudo, or from the systemd unit of the manual), a key file
    /// and, if the keys are static, a state file (`antedate gateway init`). SIGHUP reads the files
    /// again, as `antedate gateway reload` does. A second SIGTERM or SIGINT ends the daemon at once;
    /// its reserved packet numbers are then lost, never used twice.
    #[command(
        after_help = "Examples:\n  sudo antedate gateway run /etc/antedate/gateway.toml\n  antedate gateway run gateway.toml --log antedate_gateway=debug"
    )]
    Run(run::Run),
    /// Report every fault of a configuration, its keys and its state, without running it.
    ///
    /// Each fault comes with file, line and remedy. The check includes the rights that `run` needs,
    /// so call it as the user that runs it.
    #[command(
        after_help = "Examples:\n  sudo -u antedate antedate gateway check /etc/antedate/gateway.toml\n  sudo -u antedate -g antedate-agent antedate gateway check --agent /var/lib/antedate-agent/files/gateway.toml"
    )]
    Check(check::Check),
    /// Create the state file that records the used packet numbers.
    ///
    /// Only for keys that were never used before: without the old state file the used packet
    /// numbers are unknown. An existing state file stays as it is.
    #[command(after_help = "Example:\n  sudo -u antedate antedate gateway init /etc/antedate/gateway.toml")]
    Init(init::Init),
    /// Listen at the ports, and print the policy that passes the frames seen there.
    ///
    /// Sends nothing, and runs beside a gateway or without one. Each line of the policy has a
    /// comment: which stations sent how many frames, when, and whether the present policy refuses
    /// them. Read it before you use it: it passes what was there, wanted or not.
    #[command(
        after_help = "Examples:\n  sudo antedate gateway observe gateway.toml --seconds 60\n  antedate gateway observe gateway.toml --pcap plant.pcapng"
    )]
    Observe(observe::Observe),
    /// Show the state and the counters of a running gateway.
    #[command(
        after_help = "Examples:\n  sudo antedate gateway status\n  sudo antedate gateway status --watch      live, until q\n  sudo antedate gateway status --check      one line for a monitoring system\n  sudo antedate gateway status --json"
    )]
    Status(status::Status),
    /// Print what needs the operator as it begins and ends, a line of JSON each, until it is ended.
    ///
    /// The events are the conditions of the manual's chapter "When it does not work", a gateway that
    /// does not answer, and its restart. A program behind `--` is started for each event, with the
    /// line on standard input: it may send a message, or write to a syslog server. It has 10
    /// seconds.
    #[command(
        after_help = "Examples:\n  sudo antedate gateway events\n  sudo antedate gateway events -- logger --tag antedate --priority daemon.warning\n  sudo antedate gateway events -- logger --rfc5424 --server syslog.example.com --tag antedate"
    )]
    Events(events::Events),
    /// Send under another security association of the key file, from the next frame on.
    ///
    /// Receivers accept all associations of the key file at any time, so gateways may switch in any
    /// order.
    #[command(after_help = "Example:\n  sudo antedate gateway switch-sa 1")]
    SwitchSa(switch_sa::SwitchSa),
    /// Make new sessions with all peers of an overlay before they are due.
    #[command(after_help = "Example:\n  sudo antedate gateway rekey --socket /run/antedate/overlay.sock")]
    Rekey(rekey::Rekey),
    /// Read the configuration and the keys of a running gateway again, without a lost frame.
    ///
    /// Policy, flows, express frames, ages, polling, some limits, the CAKs of a cak_file and the
    /// peers of an overlay change. All is taken over or nothing: not a file with a fault, nor one
    /// that changes what needs a restart, which is named with the reason. A CAK that carries goes
    /// on until the members are live with another one.
    #[command(after_help = "Example:\n  sudo antedate gateway reload")]
    Reload(reload::Reload),
    /// Show which CAKs a running gateway has, who is heard with each, and which one carries.
    ///
    /// The last line says whether the others can be removed. No key is shown; a CKN is public.
    #[command(after_help = "Example:\n  sudo antedate gateway key-status")]
    KeyStatus(key_status::KeyStatus),
    /// Run wpa_supplicant or hostapd on the uplink, and give the gateway the CAK of each EAP-TLS
    /// authentication.
    ///
    /// Writes the CAK to the gateway's cak_file, in front of the one before, and has a running
    /// gateway read it, without a lost frame. The program behind `--` needs -K -d, as it tells keys
    /// in its debug output alone; that goes to this command and nowhere else. Runs until the program
    /// ends.
    #[command(
        after_help = "Examples:\n  antedate gateway eap gateway.toml -- hostapd -K -d hostapd.conf\n  antedate gateway eap gateway.toml -- wpa_supplicant -K -d -D wired -i uplink0 -c supplicant.conf"
    )]
    Eap(eap::Eap),
    /// Send protected echoes to other gateways: reachable, round trip, longest frame each way.
    ///
    /// An echo is protected like every frame and never reaches the machines. Exit status 1: a peer
    /// does not answer.
    #[command(
        after_help = "Examples:\n  sudo antedate gateway ping\n  sudo antedate gateway ping hall --count 100"
    )]
    Ping(ping::Ping),
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Run(verb) => verb.run(),
            Self::Check(verb) => verb.run(),
            Self::Init(verb) => verb.run(),
            Self::Observe(verb) => verb.run(),
            Self::Status(verb) => verb.run(),
            Self::Events(verb) => verb.run(),
            Self::SwitchSa(verb) => verb.run(),
            Self::Rekey(verb) => verb.run(),
            Self::Reload(verb) => verb.run(),
            Self::KeyStatus(verb) => verb.run(),
            Self::Eap(verb) => verb.run(),
            Self::Ping(verb) => verb.run(),
        }
    }
}

/// Selects a running gateway.
#[derive(Args)]
pub(crate) struct Running {
    /// The control socket of the gateway.
    #[arg(long, value_name = "PATH", default_value = "/run/antedate/gateway.sock")]
    socket: PathBuf,
}

impl Running {
    /// Sends a request, and prints the sentence that answers it.
    fn request(self, request: Request) -> Done {
        let reply = ask(&self.socket, request)?;
        if !reply.ok {
            return Err(Fault::of_file(&self.socket, reply.message, reply.remedy).into());
        }
        output::print(&format!("{}\n", reply.message))
    }
}

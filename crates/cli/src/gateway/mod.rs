//! `antedate gateway`.

mod check;
mod init;
mod rekey;
pub(crate) mod run;
mod status;
mod switch_sa;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::failure::Done;

/// What to do with a gateway.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Run the daemon until SIGTERM or SIGINT.
    ///
    /// Needs CAP_NET_RAW (run it with sudo, or from the systemd unit of the manual), a key file and, if the keys are static, a state file
    /// that was made once (`antedate gateway init`). SIGHUP changes nothing: restart to read the configuration again. A second SIGTERM or
    /// SIGINT ends the daemon at once; the packet numbers it had reserved are then lost, never used twice.
    Run(run::Run),
    /// Say everything that is wrong with a configuration, its keys and its state, without running it.
    ///
    /// Each fault comes with file, line and remedy. Checks what `run` would need, so call it as the user that runs it.
    Check(check::Check),
    /// Make the state file that remembers which packet numbers were used.
    ///
    /// Only for keys that were never used before: without the old state file nobody knows which of their packet numbers
    /// are spent. An existing state file stays as it is.
    Init(init::Init),
    /// Show the state and the counters of a running gateway.
    Status(status::Status),
    /// Send under another security association of the key file, from the next frame on.
    ///
    /// Receivers accept all associations of the key file at any time, so the order in which gateways switch is free.
    SwitchSa(switch_sa::SwitchSa),
    /// Make new sessions with all peers of an overlay now, before they are due.
    Rekey(rekey::Rekey),
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Run(verb) => verb.run(),
            Self::Check(verb) => verb.run(),
            Self::Init(verb) => verb.run(),
            Self::Status(verb) => verb.run(),
            Self::SwitchSa(verb) => verb.run(),
            Self::Rekey(verb) => verb.run(),
        }
    }
}

/// Which running gateway is meant.
#[derive(Args)]
pub(crate) struct Running {
    /// The control socket of the gateway.
    #[arg(long, value_name = "PATH", default_value = "/run/antedate/gateway.sock")]
    socket: PathBuf,
}

//! `antedate fleet`: the operator's side.

mod groups;
mod init;
mod leaf;
mod manage;
mod page;
mod show;

use std::future::Future;
use std::path::PathBuf;

use antedate_fleet::authority::Signing;
use antedate_fleet::engine::{Engine, EngineError};
use antedate_fleet::home::Home;
use antedate_fleet::rollout::RolloutError;
use antedate_host::fault::Fault;
use clap::{Args, Subcommand};

use crate::failure::{Done, Failure};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make a fleet: its keys, the configurations of its NATS servers, and the invitation for devices.
    ///
    /// The signing key makes policy. It is in signing.key, and may be kept on a machine without a
    /// network. NATS gets public keys only.
    #[command(
        after_help = "Examples:\n  antedate fleet init --try                     a NATS server on this machine, for a first look\n  antedate fleet init --name plant --node n1=10.0.0.1 --node n2=10.0.0.2 --node n3=10.0.0.3"
    )]
    Init(init::Init),
    /// Make the streams at NATS, or set them right.
    #[command(after_help = "Example:\n  antedate fleet setup       once, when the servers run")]
    Setup(init::Setup),
    /// Write what a NATS server of a site needs, over which its devices reach the fleet.
    #[command(after_help = "Example:\n  antedate fleet leaf hall --listen 10.1.0.1")]
    Leaf(leaf::Leaf),
    /// List devices that ask for membership, or approve one by its code.
    ///
    /// Compare the code with the one that the device shows: it is a part of its keys' fingerprint.
    #[command(
        after_help = "Examples:\n  antedate fleet enrol\n  antedate fleet enrol 7QK2-PZ3A-LM4T-XW6C --name press --role gateway --cell line4\n  antedate fleet enrol --tokens --watch 600"
    )]
    Enrol(manage::Enrol),
    /// Print one-time tokens, each for one device, which nobody needs to approve then.
    #[command(
        after_help = "Example:\n  antedate fleet token --role gateway --cell line4 --count 200 > tokens"
    )]
    Token(manage::Issue),
    /// List the members.
    #[command(after_help = "Example:\n  antedate fleet devices")]
    Devices(show::Devices),
    /// Write a file of a role, or a value of a device. Nothing changes before `apply`.
    #[command(
        subcommand,
        after_help = "Examples:\n  antedate fleet set role gateway gateway.toml\n  antedate fleet set device press uplink=eth1\n  antedate fleet set mqtt sensors sensors.toml -- -h broker.example -u manager"
    )]
    Set(manage::Set),
    /// Show which devices would change, and in which files.
    #[command(after_help = "Example:\n  antedate fleet plan")]
    Plan(show::Plan),
    /// Bring settings to the devices: canaries first, then in waves. When one gets worse, all go back.
    #[command(
        after_help = "Examples:\n  antedate fleet apply\n  antedate fleet apply --canaries 2 --wave 50 --patience 120\n  antedate fleet apply --again            after a restored backup"
    )]
    Apply(manage::Apply),
    /// Renew the passes for NATS that end soon, those of leaf nodes too, and the time of the keys with them.
    #[command(
        after_help = "Examples:\n  antedate fleet renew            each week, by a timer\n  antedate fleet renew --within 30"
    )]
    Renew(manage::Renew),
    /// Give a group other keys without an outage: a cell (MACsec), an overlay (WireGuard), a DTLS group or an
    /// MQTT group.
    #[command(
        after_help = "Examples:\n  antedate fleet rotate line4\n  antedate fleet rotate --overlay wan\n  antedate fleet rotate --dtls sensors\n  antedate fleet rotate --mqtt sensors"
    )]
    Rotate(manage::Rotate),
    /// Put a device out of all its groups and of NATS. The others get keys that it does not know.
    #[command(after_help = "Example:\n  antedate fleet revoke press")]
    Revoke(manage::Revoke),
    /// Show the health of all members by their last reports.
    #[command(
        after_help = "Examples:\n  antedate fleet status\n  antedate fleet status --check        exit status 1 if a device needs the operator"
    )]
    Status(show::Status),
    /// Print what the devices told, oldest first.
    #[command(after_help = "Example:\n  antedate fleet events --device press")]
    Events(show::Events),
    /// Show the fleet in a browser, and its metrics to Prometheus. Nothing can be changed there.
    #[command(
        after_help = "Examples:\n  antedate fleet page                     http://127.0.0.1:9465/ and /metrics\n  antedate fleet page --listen 127.0.0.1:8080 --every 60"
    )]
    Page(page::Page),
    /// Write the fleet's directory to a file, without the signing key.
    #[command(after_help = "Example:\n  antedate fleet backup fleet-2026-11-28.json")]
    Backup(manage::Backup),
    /// Unpack a backup. Then `antedate fleet apply --again` tells the devices.
    #[command(after_help = "Example:\n  antedate fleet restore fleet-2026-11-28.json --directory fleet")]
    Restore(manage::Restore),
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Init(verb) => verb.run(),
            Self::Setup(verb) => verb.run(),
            Self::Leaf(verb) => verb.run(),
            Self::Enrol(verb) => verb.run(),
            Self::Token(verb) => verb.run(),
            Self::Devices(verb) => verb.run(),
            Self::Set(verb) => verb.run(),
            Self::Plan(verb) => verb.run(),
            Self::Apply(verb) => verb.run(),
            Self::Renew(verb) => verb.run(),
            Self::Rotate(verb) => verb.run(),
            Self::Revoke(verb) => verb.run(),
            Self::Status(verb) => verb.run(),
            Self::Events(verb) => verb.run(),
            Self::Page(verb) => verb.run(),
            Self::Backup(verb) => verb.run(),
            Self::Restore(verb) => verb.run(),
        }
    }
}

/// The operator's directory.
#[derive(Args)]
struct Place {
    /// The fleet's directory.
    #[arg(long, value_name = "DIR", default_value = "fleet")]
    directory: PathBuf,
}

impl Place {
    fn open(&self) -> Result<Home, Failure> {
        Ok(Home::open(&self.directory)?)
    }
}

/// The key that makes policy.
#[derive(Args)]
struct Key {
    /// The signing key, if it is not in the fleet's directory.
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,
}

impl Key {
    fn load(&self, home: &Home) -> Result<Signing, Failure> {
        Ok(home.signing(self.signing_key.as_deref())?)
    }
}

/// A runtime on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Verdict(format!("no event loop: {error}")))?;
    runtime.block_on(work)
}

async fn connect(home: &Home) -> Result<Engine, Failure> {
    Ok(Engine::connect(&home.access()?).await?)
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let (remedy, passing) = match &error {
            EngineError::NoServer { .. } => (
                "start the NATS servers with the configurations of `antedate fleet init`, or see their logs",
                true,
            ),
            EngineError::NotAdmitted(_) => {
                ("give the directory of the fleet that these servers are for", false)
            }
            EngineError::Forbidden(_) => ("use the pass of the operator for this", false),
            EngineError::Failed(_) => (
                "see the servers' logs; a cluster needs most of its servers, and `antedate fleet setup` once",
                true,
            ),
        };
        Self::from(Fault { passing, ..Fault::of_file("NATS".as_ref(), error.to_string(), remedy) })
    }
}

impl From<RolloutError> for Failure {
    fn from(error: RolloutError) -> Self {
        match error {
            RolloutError::Fault(fault) => Self::from(fault),
            RolloutError::Engine(error) => Self::from(error),
            RolloutError::Check(faults) => Self::from(faults),
            other => Self::Verdict(other.to_string()),
        }
    }
}

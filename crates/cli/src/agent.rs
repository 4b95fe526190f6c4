//! `antedate agent`: a device's side of a fleet.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use antedate_fleet::agent::apply::Desk;
use antedate_fleet::agent::join;
use antedate_fleet::agent::run::{self, Rhythm};
use antedate_fleet::agent::state::{Membership, State};
use antedate_fleet::agent::{Gateway, NoGateway, NotTaken};
use antedate_fleet::engine::{Engine, EngineError};
use antedate_fleet::enrol::Token;
use antedate_fleet::home::Invitation;
use antedate_fleet::report::{Health, Level};
use antedate_gateway::config::Config;
use antedate_gateway::run::control::{Request, ask};
use antedate_gateway::run::status::Status;
use antedate_hardening::confine::Needs;
use antedate_host::fault::Fault;
use antedate_host::{notify, signals};
use clap::{Args, Subcommand};

use crate::failure::{Done, Failure, ValueError};
use crate::fleet::block_on;
use crate::gateway::health;
use crate::gateway::run::log;
use crate::{hardened, output};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Ask for membership, show the code, and wait until the operator approves.
    #[command(
        after_help = "Examples:\n  antedate agent enrol --invitation invitation.json\n  antedate agent enrol --invitation invitation.json --token TOKEN"
    )]
    Enrol(Box<Enrol>),
    /// Run the agent: take documents, apply them, report.
    #[command(after_help = "Example:\n  antedate agent run --state /var/lib/antedate-agent")]
    Run(Run),
    /// Show the device's code and what is in force.
    #[command(after_help = "Example:\n  antedate agent show")]
    Show(Show),
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Enrol(verb) => verb.run(),
            Self::Run(verb) => verb.run(),
            Self::Show(verb) => verb.run(),
        }
    }
}

#[derive(Args)]
struct Place {
    /// The agent's directory.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/antedate-agent")]
    state: PathBuf,
}

#[derive(Args)]
pub(crate) struct Enrol {
    #[command(flatten)]
    place: Place,
    /// The invitation that `antedate fleet init` made.
    #[arg(long, value_name = "FILE")]
    invitation: PathBuf,
    /// A one-time token of the operator.
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    token: Option<Token>,
    /// The name to propose. [default: the host's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Seconds to wait for the operator.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    wait: u64,
}

fn token(text: &str) -> Result<Token, ValueError> {
    text.parse().map_err(ValueError::new)
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Why a device cannot ask: its operator has no directory of the fleet, but an invitation.
fn not_asked(invitation: &Path, error: EngineError) -> Failure {
    let remedy = match &error {
        EngineError::NoServer { .. } => {
            "check the network and the clock, or take the present invitation.json of the fleet"
        }
        EngineError::NotAdmitted(_) => "take the invitation.json of the fleet that these servers are for",
        EngineError::Forbidden(_) | EngineError::Failed(_) => return error.into(),
    };
    let passing = matches!(error, EngineError::NoServer { .. });
    Failure::from(Fault { passing, ..Fault::of_file(invitation, error.to_string(), remedy) })
}

impl Enrol {
    pub(crate) fn run(self) -> Done {
        if let Some(warning) = hardened::close_memory() {
            output::tell(format_args!("warning: {warning}"));
        }
        let state = State::of(&self.place.state);
        if let Some(member) = state.membership()? {
            let what = format!("this device is a member of \"{}\" already, as {}", member.fleet, member.name);
            return Err(
                Fault::of_file(state.directory(), what, "remove the directory to enrol it anew").into()
            );
        }
        let invitation = Invitation::load(&self.invitation)?;
        let Some(authority) = invitation.authority() else { return Ok(()) };
        let identity = state.identity(true)?;
        let keys = identity.public();
        output::print(&format!(
            "code         {}\nfingerprint  {}\nauthority    {}\n",
            keys.code(),
            keys.fingerprint(),
            authority.fingerprint()
        ))?;
        let access = invitation.access(state.certificates(&invitation.certificates)?);
        let name = self.name.clone().unwrap_or_else(host_name);
        let welcome = block_on(async {
            let engine =
                Engine::connect(&access).await.map_err(|error| not_asked(&self.invitation, error))?;
            let version = env!("CARGO_PKG_VERSION");
            join::ask(&engine, &identity, &name, version, self.token.as_ref()).await?;
            let waiting =
                if self.token.is_some() { "with its token" } else { "the operator compares the code" };
            output::tell(format_args!("asked for membership: {waiting}"));
            let end = Instant::now() + Duration::from_secs(self.wait);
            let mut said = String::new();
            loop {
                match join::answer(&engine, &identity, &authority, antedate_fleet::now()).await {
                    Ok(Some(welcome)) => return Ok(welcome),
                    Ok(None) => {}
                    // A server that is away for a moment, or somebody's forgery.
                    Err(error) if error.to_string() != said => {
                        said = error.to_string();
                        output::tell(&said);
                    }
                    Err(_) => {}
                }
                if Instant::now() >= end {
                    let what = "the operator has not approved in time";
                    return Err(Failure::from(Fault {
                        passing: true,
                        ..Fault::of_file(state.directory(), what, "call again; the code stays the same")
                    }));
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })?;
        state.set_membership(&Membership {
            fleet: invitation.fleet.clone(),
            servers: invitation.servers.clone(),
            authority: invitation.authority_written(),
            certificates: invitation.certificates.clone(),
            name: welcome.name.clone(),
            role: welcome.role.clone(),
            pass: welcome.pass,
        })?;
        output::print(&format!(
            "member of \"{}\" as {}, role {}; next: antedate agent run\n",
            invitation.fleet, welcome.name, welcome.role
        ))
    }
}

#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    place: Place,
    /// The control socket of the gateway beside it, which reads DIR/files/gateway.toml.
    #[arg(long, value_name = "PATH", default_value = "/run/antedate/gateway.sock")]
    socket: PathBuf,
    /// There is no gateway: the files are for other programs.
    #[arg(long, conflicts_with = "socket")]
    no_gateway: bool,
    /// The gateway runs as another user of this group, with --agent: let the group read the files.
    #[arg(long)]
    shared: bool,
    /// Seconds between two reports.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=60))]
    report: u64,
    /// What to log to standard error: error, warn, info, debug, trace.
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

/// Debian's certificates of authorities, to which those in `/etc` are links.
const CERTIFICATES: &str = "/usr/share/ca-certificates/mozilla/x.crt";

impl Run {
    pub(crate) fn run(self) -> Done {
        // The library of NATS has a line for each try.
        log(self
            .log
            .clone()
            .or_else(|| std::env::var("RUST_LOG").ok())
            .or_else(|| Some("info,async_nats=error".into())))?;
        hardened::close_memory_of_daemon();
        let mut state = State::of(&self.place.state);
        if self.shared {
            state = state.shared();
        }
        let identity = state.identity(false)?;
        let Some(member) = state.membership()? else {
            let remedy = "call `antedate agent enrol` first";
            return Err(Fault::of_file(
                state.directory(),
                "the operator has not approved this device yet",
                remedy,
            )
            .into());
        };
        let authority = state.authority(&member)?;
        let access = state.access(&member, &identity)?;
        let desk = Desk::open(state.clone(), identity, authority)?;
        let start = state.start()?;
        let gateway: Box<dyn Gateway> = if self.no_gateway {
            Box::new(NoGateway)
        } else {
            Box::new(Beside { socket: self.socket.clone(), files: state.files() })
        };
        // Its directory, its gateway's socket, names of servers, and the system's certificates.
        let reads = access.certificates.is_none().then(|| PathBuf::from(CERTIFICATES));
        hardened::confine_daemon(&Needs {
            writes: vec![state.directory().to_owned()],
            reads: reads.into_iter().collect(),
            names: true,
            ..Needs::default()
        });
        tracing::info!("{} of the fleet \"{}\", role {}", member.name, member.fleet, member.role);
        let stop = signals::stop_flag()
            .map_err(|error| Failure::Verdict(format!("signals cannot be caught: {error}")))?;
        let rhythm = Rhythm { report: Duration::from_secs(self.report), ..Rhythm::default() };
        let life = notify::Life::begin();
        block_on(async move {
            run::run(desk, &access, gateway, rhythm, start, until_stopped(stop, life)).await?;
            Ok(())
        })
    }
}

/// Completes when the flag is set, and gives signs of life until then.
async fn until_stopped(stop: Arc<AtomicBool>, mut life: notify::Life) {
    while !stop.load(Ordering::Acquire) {
        life.sign();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[derive(Args)]
pub(crate) struct Show {
    #[command(flatten)]
    place: Place,
}

impl Show {
    pub(crate) fn run(self) -> Done {
        let state = State::of(&self.place.state);
        let keys = state.identity(false)?.public();
        let mut text = format!("code         {}\nfingerprint  {}\n", keys.code(), keys.fingerprint());
        match state.membership()? {
            None => text.push_str("the operator has not approved this device yet\n"),
            Some(member) => {
                text.push_str(&format!(
                    "fleet        {}, as {}, role {}\n",
                    member.fleet, member.name, member.role
                ));
                text.push_str(&format!("authority    {}\n", state.authority(&member)?.fingerprint()));
                let kept = state.kept()?;
                text.push_str(&format!("settings     {}, newest taken {}\n", kept.settings, kept.taken));
                if kept.revoked {
                    text.push_str("revoked: remove the directory to enrol it anew\n");
                }
            }
        }
        output::print(&text)
    }
}

/// The gateway beside this agent.
struct Beside {
    socket: PathBuf,
    files: PathBuf,
}

const CONFIG: &str = "gateway.toml";

impl Gateway for Beside {
    fn reload(&mut self, directory: &Path) -> Result<String, NotTaken> {
        let file = directory.join(CONFIG);
        if !file.exists() {
            return Ok("files written".into());
        }
        if self.socket.exists() {
            match ask(&self.socket, Request::Reload {}) {
                Ok(reply) if reply.ok => return Ok(reply.message),
                Ok(reply) => return Err(NotTaken(format!("{} ({})", reply.message, reply.remedy))),
                Err(fault) => tracing::debug!("{fault:#}"),
            }
        }
        // Faults of the text at least are found before a start.
        Config::load(&file).map_err(|faults| NotTaken(format!("{faults:#}")))?;
        Ok("the gateway does not run, and reads them when it starts".into())
    }

    fn health(&mut self) -> Health {
        match ask(&self.socket, Request::Status {}) {
            Ok(reply) => reply.status.map_or_else(Health::default, |status| of(&status)),
            Err(_) if !self.files.join(CONFIG).exists() => Health::default(),
            Err(fault) => Health { level: Level::Absent, what: format!("{fault:#}"), ..Health::default() },
        }
    }
}

/// The health in a gateway's status.
fn of(status: &Status) -> Health {
    let (level, line) = health::of(status);
    let level = match level {
        health::Level::Ok => Level::Ok,
        health::Level::Warning => Level::Warning,
        health::Level::Critical => Level::Critical,
    };
    let what = line.split(" | ").next().unwrap_or_default();
    let what = what.split_once(" - ").map_or(what, |(_, what)| what).to_owned();
    let agreement = status.macsec.as_ref().and_then(|macsec| macsec.agreement.as_ref());
    let caks = agreement.map_or(&[][..], |agreement| &agreement.caks);
    let ckn = caks.iter().find(|cak| cak.carries).map(|cak| cak.ckn.clone()).unwrap_or_default();
    let resting = caks.iter().filter(|cak| !cak.carries).map(|cak| cak.ckn.clone()).collect();
    let members =
        agreement.map_or(0, |agreement| agreement.members.iter().filter(|member| member.live).count());
    Health {
        level,
        what,
        ckn,
        resting,
        members: members as u64,
        frames: [status.out.forwarded_frames, status.inward.forwarded_frames],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faulty_configuration_is_refused_before_a_start() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let mut beside = Beside { socket: path.join("none.sock"), files: path.to_owned() };
        assert_eq!(beside.health(), Health::default());
        assert_eq!(beside.reload(path), Ok("files written".into()));
        std::fs::write(path.join(CONFIG), "[feld]\n").expect("written");
        assert!(
            beside.reload(path).expect_err("a fault").to_string().contains("unknown"),
            "it names the fault"
        );
        assert_eq!(beside.health().level, Level::Absent);
    }

    #[test]
    fn health_has_the_words_of_the_check() {
        let status = Status { forwarding: true, protection: "none".into(), ..Status::default() };
        let health = of(&status);
        assert_eq!(health.level, Level::Critical);
        assert!(health.what.contains("no link") && !health.what.contains("ANTEDATE"), "{health:?}");
    }
}

//! Many devices in this process: the agent's own code, each with its keys, its directory and its
//! connection. They have no gateway.

use antedate_fleet::agent::apply::Desk;
use antedate_fleet::agent::run::{self, Rhythm};
use antedate_fleet::agent::state::{Membership, State};
use antedate_fleet::agent::{NoGateway, join};
use antedate_fleet::engine::Engine;
use antedate_fleet::enrol::Token;
use antedate_fleet::home::Invitation;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Devices of one thread.
const OF_A_THREAD: usize = 250;

/// The devices, which end with this value.
pub(super) struct Crowd {
    stop: Arc<AtomicBool>,
    members: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Crowd {
    /// Starts a device for each token, below `dir`.
    pub(super) fn start(dir: &Path, invitation: &Path, tokens: &[String]) -> Result<Self, String> {
        let invitation = Invitation::load(invitation).map_err(|fault| fault.to_string())?;
        let (stop, members) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut threads = Vec::new();
        for (group, tokens) in tokens.chunks(OF_A_THREAD).enumerate() {
            let (invitation, stop, members) = (invitation.clone(), Arc::clone(&stop), Arc::clone(&members));
            let devices: Vec<(PathBuf, String)> = tokens
                .iter()
                .enumerate()
                .map(|(index, token)| (dir.join(format!("d{}", group * OF_A_THREAD + index)), token.clone()))
                .collect();
            threads.push(thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|e| e.to_string())?;
                runtime.block_on(async {
                    let mut tasks = tokio::task::JoinSet::new();
                    for (place, token) in devices {
                        let (invitation, stop) = (invitation.clone(), Arc::clone(&stop));
                        let members = Arc::clone(&members);
                        tasks.spawn(device(place, token, invitation, stop, members));
                    }
                    while let Some(ended) = tasks.join_next().await {
                        ended.map_err(|e| e.to_string())??;
                    }
                    Ok(())
                })
            }));
        }
        Ok(Self { stop, members, threads })
    }

    /// How many were admitted.
    pub(super) fn members(&self) -> usize {
        self.members.load(Ordering::Acquire)
    }

    /// Ends all; an error if one failed.
    pub(super) fn finish(self) -> Result<(), String> {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().map_err(|_| "a device panicked".to_owned())??;
        }
        Ok(())
    }
}

/// The life of a device: it enrols, and runs.
async fn device(
    place: PathBuf,
    token: String,
    invitation: Invitation,
    stop: Arc<AtomicBool>,
    members: Arc<AtomicUsize>,
) -> Result<(), String> {
    let text = |fault: antedate_host::fault::Fault| fault.to_string();
    let state = State::of(&place);
    let identity = state.identity(true).map_err(text)?;
    let authority = invitation.authority().ok_or("the invitation has no keys")?;
    let token: Token = token.parse().map_err(|e| format!("{e}"))?;
    let stopped = || stop.load(Ordering::Acquire);
    let certificates = state.certificates(&invitation.certificates).map_err(text)?;
    let invited = invitation.access(certificates);
    let pass = {
        let engine = loop {
            match Engine::connect(&invited).await {
                Ok(engine) => break engine,
                Err(error) if stopped() => return Err(error.to_string()),
                Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        };
        while join::ask(&engine, &identity, "", "0.1.0", Some(&token)).await.is_err() && !stopped() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        loop {
            match join::answer(&engine, &identity, &authority, antedate_fleet::now()).await {
                Ok(Some(welcome)) => break welcome,
                _ if stopped() => return Ok(()),
                _ => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    };
    let membership = Membership {
        fleet: invitation.fleet.clone(),
        servers: invitation.servers.clone(),
        authority: invitation.authority_written(),
        certificates: invitation.certificates.clone(),
        name: pass.name,
        role: pass.role,
        pass: pass.pass,
    };
    state.set_membership(&membership).map_err(text)?;
    let access = state.access(&membership, &identity).map_err(text)?;
    let desk = Desk::open(state.clone(), identity, authority).map_err(text)?;
    let start = state.start().map_err(text)?;
    members.fetch_add(1, Ordering::AcqRel);
    let ended = async {
        while !stop.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    run::run(desk, &access, Box::new(NoGateway), Rhythm::default(), start, ended).await.map_err(text)
}

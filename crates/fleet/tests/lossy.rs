//! Messages that are lost between an agent and a real NATS server: a document, or the report of one.

#![cfg(feature = "nats")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use antedate_fleet::agent::NoGateway;
use antedate_fleet::agent::apply::Desk;
use antedate_fleet::agent::run::{self, Rhythm};
use antedate_fleet::agent::state::{Membership, State};
use antedate_fleet::engine::{Access, Engine};
use antedate_fleet::home::{Home, INVITATION, Invitation, Member};
use antedate_fleet::login;
use antedate_fleet::now;
use antedate_fleet::rollout::{self, Rollout, Waves};
use antedate_fleet::server::{Node, Trust, configuration};

mod nats;
use nats::{Server, free_port, is_here, start};

/// What the wire loses: messages whose line has all these words, so many times.
#[derive(Clone)]
struct Loss {
    words: &'static [&'static str],
    /// Messages that pass before.
    spared: Arc<AtomicUsize>,
    left: Arc<AtomicUsize>,
}

/// Counts down. False at zero.
fn takes_one(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok()
}

impl Loss {
    fn of(words: &'static [&'static str], spared: usize, times: usize) -> Self {
        Self { words, spared: Arc::new(AtomicUsize::new(spared)), left: Arc::new(AtomicUsize::new(times)) }
    }

    fn takes(&self, line: &str) -> bool {
        self.words.iter().all(|word| line.contains(word)) && !takes_one(&self.spared) && takes_one(&self.left)
    }
}

/// Carries NATS's lines with their payloads in one direction, and loses some messages whole.
fn carry(from: TcpStream, mut to: TcpStream, losses: &[Loss]) -> std::io::Result<()> {
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return to.shutdown(std::net::Shutdown::Both);
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        if ["MSG ", "HMSG ", "PUB ", "HPUB "].iter().any(|verb| text.starts_with(verb)) {
            let size: usize = text.split_whitespace().last().and_then(|word| word.parse().ok()).unwrap();
            let begin = line.len();
            line.resize(begin + size + 2, 0);
            lines.read_exact(&mut line[begin..])?;
            if losses.iter().any(|loss| loss.takes(&text)) {
                continue;
            }
        }
        to.write_all(&line)?;
    }
}

/// A wire to the server that loses messages.
fn wire(server: u16, losses: Vec<Loss>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(("127.0.0.1", server)) else { continue };
            let ends = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
            for (from, to) in ends {
                let losses = losses.clone();
                thread::spawn(move || carry(from, to, &losses));
            }
        }
    });
    port
}

/// A fleet of one device, whose messages pass a wire.
struct Fleet {
    home: Home,
    state: State,
    access: Access,
    _server: Server,
    _directory: tempfile::TempDir,
}

fn access_of(state: &State) -> Access {
    let identity = state.identity(false).unwrap();
    state.access(&state.membership().unwrap().unwrap(), &identity).unwrap()
}

impl Fleet {
    /// Makes it. `None` without a server on this machine.
    fn with(losses: Vec<Loss>) -> Option<Self> {
        if !is_here("messages lost between an agent and NATS") {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        let port = free_port();
        let servers = [format!("nats://127.0.0.1:{port}")];
        let mut home = Home::create(&place.join("fleet"), "plant", &servers, 1, "").unwrap();
        let signing = home.signing(None).unwrap();
        let node = Node {
            name: "n1".into(),
            listen: format!("127.0.0.1:{port}"),
            cluster: String::new(),
            routes: Vec::new(),
            tls: None,
        };
        let trust = Trust::of(&signing, "plant", now(), &[]);
        std::fs::write(place.join("n1.conf"), configuration("plant", &trust, &node, &place.join("data")))
            .unwrap();
        let server = start(&place.join("n1.conf"));
        let state = State::of(&place.join("agent"));
        let keys = state.identity(true).unwrap().public();
        home.devices.insert(keys.id(), Member::new("press", "publisher", "", keys));
        home.save().unwrap();
        home.set_role("publisher", "policy.json", "{}\n").unwrap();
        let invitation = Invitation::load(&place.join("fleet").join(INVITATION)).unwrap();
        let membership = Membership {
            fleet: "plant".into(),
            servers: vec![format!("nats://127.0.0.1:{}", wire(port, losses))],
            authority: invitation.authority_written(),
            certificates: String::new(),
            name: "press".into(),
            role: "publisher".into(),
            pass: login::device(&signing, &keys.id(), &keys.login, now(), now() + 86_400),
        };
        state.set_membership(&membership).unwrap();
        let access = access_of(&state);
        Some(Self { home, state, access, _server: server, _directory: directory })
    }

    /// Runs the agent, and brings it settings once it has reported. Returns how long that took.
    fn apply(&mut self, patience: u64) -> Duration {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let operator = self.home.access().unwrap();
        let (signing, reading) = (self.home.signing(None).unwrap(), self.home.reading().unwrap());
        let identity = self.state.identity(false).unwrap();
        let desk = Desk::open(self.state.clone(), identity, self.home.authority().unwrap()).unwrap();
        let start = self.state.start().unwrap();
        let (access, home) = (self.access.clone(), &mut self.home);
        runtime.block_on(async {
            let end = Instant::now() + Duration::from_secs(60);
            let engine = loop {
                match Engine::connect(&operator).await {
                    Ok(engine) if engine.set_up(1).await.is_ok() => break engine,
                    _ if Instant::now() > end => panic!("no server"),
                    _ => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            };
            let life = run::run(
                desk,
                &access,
                Box::new(NoGateway),
                Rhythm::default(),
                start,
                std::future::pending(),
            );
            let rollout = async {
                while rollout::reports(home, &engine, &reading).await.unwrap().is_empty() {
                    assert!(Instant::now() < end, "no report");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                let said = Mutex::new(Vec::new());
                let mut say = |line: String| said.lock().unwrap().push(line);
                let mut rollout = Rollout {
                    home,
                    engine: &engine,
                    signing: &signing,
                    reading: &reading,
                    check: &|_| Ok(()),
                    say: &mut say,
                };
                let planned = rollout::plan(rollout.home, false).unwrap();
                let waves = Waves { canaries: 0, size: 0, patience: Duration::from_secs(patience) };
                let begin = Instant::now();
                let done = rollout.apply(planned, waves).await.unwrap();
                assert_eq!((done.applied, done.silent), (1, Vec::new()), "{:?}", said.lock().unwrap());
                begin.elapsed()
            };
            tokio::select! {
                took = rollout => took,
                ended = life => panic!("the agent ended: {ended:?}"),
            }
        })
    }

    fn has_settings(&self) -> bool {
        std::fs::read_to_string(self.state.files().join("policy.json")).is_ok_and(|text| text == "{}\n")
    }
}

#[test]
fn lost_document_comes_again() {
    // Twice as it is published, and whatever the agent asks for itself is never answered.
    let published = Loss::of(&["MSG fleet.document."], 0, 2);
    let asked = Loss::of(&["HMSG _INBOX_"], 0, usize::MAX);
    let Some(mut fleet) = Fleet::with(vec![published.clone(), asked]) else { return };
    let took = fleet.apply(120);
    assert!(fleet.has_settings() && published.left.load(Ordering::Acquire) == 0);
    assert!(took > Duration::from_secs(10), "the third one came after {took:?}");
}

#[test]
fn lost_document_is_asked_for() {
    let published = Loss::of(&["MSG fleet.document."], 0, usize::MAX);
    let Some(mut fleet) = Fleet::with(vec![published.clone()]) else { return };
    let took = fleet.apply(120);
    assert!(fleet.has_settings() && published.left.load(Ordering::Acquire) < usize::MAX);
    // The first question finds nothing, and the next ones come long before ten minutes have passed.
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn lost_report_comes_again() {
    // The first report of the device passes. That of its settings is lost.
    let told = Loss::of(&["PUB fleet.status."], 1, 1);
    let Some(mut fleet) = Fleet::with(vec![told.clone()]) else { return };
    let took = fleet.apply(50);
    assert!(fleet.has_settings() && told.left.load(Ordering::Acquire) == 0);
    // Without the second document the next report would come after a minute.
    assert!(took < Duration::from_secs(45), "{took:?}");
}

//! The main thread of an overlay: starts and stops the other threads, follows links and interfaces,
//! writes the key log.

mod reload;

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antedate_channel::wireguard::{Device, KeyLogEntry, PREPARED_LEN, PeerError, Settings};
use antedate_hardening::stack;
use antedate_host::control::Server;
use antedate_host::fault::Fault;
use antedate_host::hangup::Hangup;
use antedate_host::notify::Life;
use antedate_host::private_file;

use super::alive;
use super::handshakes;
use super::hops::Asked;
use super::message::Message;
use super::names;
use super::news::Log;
use super::path::{Parts, Path};
use super::report::Answers;
use super::search::limit;
use super::snapshot::Snapshot;
use super::symptoms::Symptoms;
use super::uplink::Port;
use super::wires::{Wire, changed};
use super::worker::Worker;
use crate::config::machine::{Machine, ThisMachine};
use crate::config::overlay::{Overlay, Peer};
use crate::config::tunnel_keys::{Secret, TunnelKeys, encode};
use crate::config::uplink::Which;
use crate::config::{Checked, Config, Keyed};
use crate::frames::delivery::Delivery;
use crate::frames::gate::Gate;
use crate::run::control::{self, StatusSource};
use crate::run::counters::PathCounters;
use crate::run::http::endpoints::Endpoints;
use crate::run::loss::hellos::Hellos;
use crate::run::mailbox::Mailbox;
use crate::run::reload::{Door, Reloads};
use crate::run::report::{About, Carries, Place, Shares};
use crate::run::runs::Runs;
use crate::run::setup::no_socket;
use crate::run::setup::{self, Granted};
use crate::run::surroundings::Surroundings;
use crate::run::trouble::Trouble;
use crate::run::watch::{watch_flows, watch_stale, watch_storms};
use crate::run::{RunError, lock};
use crate::sys::interface::{self, Interface};
use crate::sys::lanes::Lanes;
use crate::sys::watch::Watch;

/// Interval of the main loop, which checks for the end and writes the key log.
const ROUND: Duration = Duration::from_millis(100);
/// Rounds between two checks of the links, apart from those at news of the kernel.
const ROUNDS_PER_LOOK: u64 = 5;
/// Rounds between two looks for what goes wrong, each a pause of the forwarding thread.
const ROUNDS_PER_CENSUS: u64 = 20;

/// Runs an overlay until `stop` is set. With `key_log` the keys of all sessions are written to this
/// file. `hangup` has the configuration read again.
///
/// # Errors
/// When it cannot start, or ends by itself.
pub fn run(
    checked: &mut Checked,
    key_log: Option<&FilePath>,
    stop: &AtomicBool,
    hangup: &Hangup,
) -> Result<(), RunError> {
    let Keyed::Overlay { keys, .. } = &mut checked.protection else {
        return Err(RunError::NotStarted(no_overlay(&checked.config.file)));
    };
    let (door, reloads) = Reloads::new(hangup);
    let keys = mem::take(keys);
    let checked = &*checked;
    let start = || Supervisor::start(checked, keys, key_log, door);
    let mut supervisor = stack::wiped(start).map_err(RunError::NotStarted)?;
    setup::settle(checked.config.run.preload);
    let mut life = Life::begin();
    let watch = Watch::open()
        .inspect_err(|error| tracing::warn!(%error, "changes of interfaces are noticed twice a second only"))
        .ok();
    let started = Instant::now();
    let (mut round, mut symptoms) = (0u64, Symptoms::default());
    while !stop.load(Ordering::Acquire) {
        let news = watch.as_ref().map_or_else(
            || {
                thread::sleep(ROUND);
                false
            },
            |watch| watch.wait(ROUND),
        );
        round += 1;
        supervisor.write_keys();
        supervisor.log.drain();
        reloads.serve(|| stack::wiped(|| supervisor.reload()));
        if news || round.is_multiple_of(ROUNDS_PER_LOOK) {
            supervisor.follow();
        }
        if round.is_multiple_of(ROUNDS_PER_CENSUS)
            && let Some(snapshot) = supervisor.answers.snapshot()
        {
            let Answers { watch, out, inward, .. } = &*supervisor.answers;
            life.sign();
            supervisor.follow_sessions(&snapshot);
            symptoms.report(&snapshot.document, started.elapsed(), watch);
            watch_stale(watch, [out, inward]);
            watch_storms(watch, [out, inward]);
            let [field, uplink, _] = lock(&supervisor.answers.links).map(|(up, _)| up);
            watch_flows(watch, [out, inward], [field, uplink]);
            watch.count(Trouble::UnsupportedOffload, "", out.unsupported_offload.get(), "");
        }
        if supervisor.thread.is_finished() {
            return Err(RunError::Forwarding);
        }
    }
    drop(life);
    drop(mem::take(&mut supervisor.link_loss));
    supervisor.mailbox.post(Message::Stop);
    let threads = supervisor.wires.into_iter().map(|wire| wire.next_hops).chain([supervisor.handshakes]);
    // The forwarding thread ends first. Without it the channels of the others close, and they end
    // too.
    let ended = supervisor.thread.join().and_then(|()| threads.into_iter().try_for_each(JoinHandle::join));
    if let Some(log) = &mut supervisor.key_log {
        log.drain();
    }
    tracing::info!("stopped");
    ended.map_err(|_| RunError::Forwarding)
}

struct Supervisor<'a> {
    /// The gateway as it started.
    checked: &'a Checked,
    /// The configuration in use.
    config: Config,
    /// Its `[overlay]`, with the peers in the order of the forwarding thread.
    overlay: Arc<Overlay>,
    mailbox: Arc<Mailbox<Message>>,
    thread: JoinHandle<()>,
    handshakes: JoinHandle<()>,
    answers: Arc<Answers>,
    field: Interface,
    /// The uplink, then the second one, if any.
    wires: Vec<Wire>,
    key_log: Option<KeyLog>,
    log: Log,
    surroundings: Surroundings,
    endpoints: Endpoints,
    /// The peers that tell that they live, and the threads of link loss forwarding.
    hellos: Arc<Hellos<[u8; 32]>>,
    link_loss: [Option<Runs>; 2],
    _server: Server,
}

impl<'a> Supervisor<'a> {
    fn start(
        checked: &'a Checked,
        TunnelKeys { private, preshared }: TunnelKeys,
        key_log: Option<&FilePath>,
        door: Door,
    ) -> Result<Self, Fault> {
        let config = checked.config.clone();
        let Keyed::Overlay { overlay, .. } = &checked.protection else {
            return Err(no_overlay(&config.file));
        };
        let overlay: &Overlay = overlay;
        let (field, uplink, mtu) = (&checked.field, &checked.uplink, checked.uplink_mtu());
        let socket = setup::socket(&config)?;
        let mut endpoints = Endpoints::default();
        let shows = endpoints.prepare(&config)?;
        let key_log = key_log.map(KeyLog::open).transpose()?;
        let mut device = private
            .map(|private| device(&config, overlay, &private, &preshared, [Some(mtu), None]))
            .transpose()?;
        if let Some(device) = &mut device {
            device.defer_handshakes();
        }
        let unmade = |error: io::Error| Fault::of_thread(&config.file, &error);
        let mailbox = Arc::new(Mailbox::new().map_err(unmade)?);
        let (jobs, handshakes) =
            handshakes::start(config.run.priority, Arc::clone(&mailbox)).map_err(unmade)?;
        let post = key_log.as_ref().map(|log| log.post.clone());
        if let (Some(device), Some(_)) = (&mut device, &post) {
            device.log_keys();
        }
        let gate = Arc::new(Gate::new(&config.policy));
        let (out, inward) = (Arc::new(PathCounters::default()), Arc::new(PathCounters::default()));
        [&out, &inward].into_iter().for_each(|counters| counters.flows.watch(config.watchdog_cycles));
        let (from, to) = field_port(&config, field)?;
        let (wire, port, ask) =
            Wire::open(&config, overlay, Which::First, (uplink, mtu), overlay.listen, &mailbox)?;
        let mut wires = vec![wire];
        let second = second(&config, overlay, &mailbox)?.map(|(wire, port, ask, mtu)| {
            wires.push(wire);
            (port, ask, mtu)
        });
        let (news, came) = mpsc::channel();
        let log = Log::new(came, overlay);
        let names = names::start(overlay, &[], &mailbox).map_err(unmade)?;
        let hellos = Arc::new(Hellos::default());
        let path = Path::new(Parts {
            hellos: Arc::clone(&hellos),
            field: (from, to, field.mtu),
            uplink: (port, ask, mtu),
            trusted: config.uplink.mtu.is_some(),
            second,
            news,
            named: reload::named(&config.policy),
            names,
            device,
            overlay: overlay.clone(),
            max_age: config.run.max_age,
            gate: Arc::clone(&gate),
            counters: [Arc::clone(&out), Arc::clone(&inward)],
            jobs,
            key_log: post,
        });
        let place = Arc::new(Mutex::new(Place { direction: "both", granted: Granted::default() }));
        let worker = Worker::new(path, setup::mode(config.run.poll), Arc::clone(&mailbox));
        let (cpu, priority) = (config.run.threads.cpus().first().copied().flatten(), config.run.priority);
        let granted = Arc::clone(&place);
        let begin = move || {
            lock(&granted).granted = setup::place(cpu, priority);
            worker.run();
        };
        let thread = setup::forwarding("both").spawn(begin).map_err(unmade)?;
        let up = |port: &Interface| (interface::link_up(&port.name) == Some(true), 0);
        let overlay = Arc::new(overlay.clone());
        let answers = Arc::new(Answers {
            about: About::new(checked),
            overlay: Mutex::new(Arc::clone(&overlay)),
            gate: Mutex::new(gate),
            door,
            mailbox: Arc::clone(&mailbox),
            out,
            inward,
            place,
            ports: Mutex::new([Carries::of(field, field.mtu), Carries::of(uplink, mtu)]),
            second: Mutex::new(wires.get(1).map_or_else(String::new, |wire| wire.interface.name.clone())),
            links: Mutex::new([
                up(field),
                up(uplink),
                wires.get(1).map_or((false, 0), |wire| up(&wire.interface)),
            ]),
            shares: Shares::default(),
            watch: Arc::default(),
            link_loss: Arc::default(),
        });
        let Answers { watch, link_loss, .. } = &*answers;
        let link_loss = alive::start(checked, &mailbox, &hellos, link_loss, watch)?;
        let server = control::serve(socket, &config.control.socket, answers.clone())?;
        endpoints.apply(shows, &(answers.clone() as Arc<dyn StatusSource>));
        tracing::info!(
            field = %field.name, uplink = %uplink.name, uplink_mtu = mtu, listen = %overlay.listen,
            peers = overlay.peers.len(), protection = answers.about.protection, "forwarding"
        );
        Ok(Self {
            checked,
            overlay,
            mailbox,
            thread,
            handshakes,
            answers,
            field: field.clone(),
            wires,
            key_log,
            log,
            surroundings: Surroundings::new(field, &[uplink], false),
            endpoints,
            hellos,
            link_loss,
            _server: server,
            config,
        })
    }

    /// Tells link loss forwarding which peers have a session.
    fn follow_sessions(&self, snapshot: &Snapshot) {
        if self.link_loss[0].is_none() {
            return;
        }
        let peers = self.overlay.peers.iter().zip(&snapshot.document.peers);
        self.hellos.follow(peers.filter(|(_, seen)| seen.session).map(|(peer, _)| peer.public_key).collect());
    }

    fn write_keys(&mut self) {
        if let Some(log) = &mut self.key_log {
            log.drain();
        }
    }

    /// Follows the links. Reopens a port whose interface was replaced or has another MTU.
    fn follow(&mut self) {
        // A new name first, by which the others ask.
        let ports =
            std::iter::once(&mut self.field).chain(self.wires.iter_mut().map(|wire| &mut wire.interface));
        for port in ports {
            let _ = port.still_there();
        }
        let ports = std::iter::once(&self.field).chain(self.wires.iter().map(|wire| &wire.interface));
        let (mut shown, mut second) = (lock(&self.answers.ports), lock(&self.answers.second));
        let names = shown.iter_mut().map(|port| &mut port.name).chain([&mut *second]);
        names.zip(ports.clone()).for_each(|(shown, port)| shown.clone_from(&port.name));
        drop((shown, second));
        for (port, (known, downs)) in ports.zip(&mut *lock(&self.answers.links)) {
            let up = interface::link_up(&port.name) == Some(true);
            if *known != up {
                *known = up;
                *downs += u64::from(!up);
                if up {
                    tracing::info!(interface = %port.name, "link up");
                } else {
                    tracing::warn!(interface = %port.name, "link down");
                }
            }
        }
        if changed(&mut self.field)
            && let Ok(field) = self.field.find_again()
        {
            match field_port(&self.config, &field) {
                Ok((from, to)) => {
                    self.mailbox.post(Message::Field(from, to, field.mtu));
                    lock(&self.answers.ports)[0] = Carries::of(&field, field.mtu);
                    tracing::info!(interface = %field.name, mtu = field.mtu, "field port opened again");
                    self.field = field;
                }
                Err(fault) => tracing::error!("{fault:#}"),
            }
        }
        if let Some(uplink) = self.wires.first() {
            self.surroundings.follow(&self.field, &[&uplink.interface], &self.answers.watch);
        }
        for (at, wire) in self.wires.iter_mut().enumerate() {
            if let Some(mtu) = wire.follow(&self.config, &self.overlay, &self.mailbox)
                && at == 0
            {
                lock(&self.answers.ports)[1] = Carries::of(&wire.interface, mtu);
            }
        }
    }
}

/// The second uplink, its port, the sender to its next-hops thread, and its MTU.
type SecondUplink = (Wire, Port, mpsc::Sender<Asked>, usize);

/// Opens the second uplink, if any.
fn second(
    config: &Config,
    overlay: &Overlay,
    mailbox: &Arc<Mailbox<Message>>,
) -> Result<Option<SecondUplink>, Fault> {
    let Some(second) = &overlay.second_uplink else { return Ok(None) };
    let interface = Interface::find(&second.interface).map_err(|error| {
        let what = format!("the second uplink {}: {error}", second.interface);
        let passing = error.kind() == io::ErrorKind::NotFound;
        let remedy = "see interface in [overlay.second_uplink], and: ip link";
        Fault { passing, ..Fault::of_file(&config.file, what, remedy) }
    })?;
    let mtu = setup::uplink_mtu(config, &interface);
    let (wire, port, ask) =
        Wire::open(config, overlay, Which::Second, (&interface, mtu), second.listen, mailbox)?;
    Ok(Some((wire, port, ask, mtu)))
}

/// Makes the WireGuard device with its peers.
fn device(
    config: &Config,
    overlay: &Overlay,
    private: &Secret,
    preshared: &[Option<Secret>],
    mtus: [Option<usize>; 2],
) -> Result<Box<Device>, Fault> {
    let mut device = Box::new(Device::new(private));
    for (peer, preshared) in overlay.peers.iter().zip(preshared) {
        let settings = settings(overlay, peer, preshared.as_ref(), mtus);
        device.add_peer(&settings).map_err(|error| no_peer(config, peer, error))?;
    }
    Ok(device)
}

/// The settings of a peer in the device.
fn settings(
    overlay: &Overlay,
    peer: &Peer,
    preshared: Option<&Secret>,
    mtus: [Option<usize>; 2],
) -> Settings {
    Settings {
        other: peer.next_public_key,
        preshared: preshared.map_or([0; 32], |key| **key),
        endpoint: peer.endpoint,
        keepalive_seconds: peer.keepalive_seconds,
        reach: limit(overlay, mtus).min(PREPARED_LEN),
        ..Settings::new(peer.public_key)
    }
}

fn no_overlay(file: &FilePath) -> Fault {
    Fault::of_file(file, "has no [overlay]", "run it as a gateway")
}

fn no_peer(config: &Config, peer: &Peer, error: PeerError) -> Fault {
    let what = format!("{} cannot be a peer: {error}", peer.name);
    Fault::of_file(&config.file, what, "see public_key in [[overlay.peer]]")
}

/// Opens a port for receiving and sending.
///
/// # Errors
/// When the kernel refuses, with a remedy where there is one.
fn field_port(config: &Config, port: &Interface) -> Result<(Lanes, Delivery), Fault> {
    let run = &config.run;
    let open = || {
        io::Result::Ok((
            Lanes::open(port, 0, run.max_age)?,
            Delivery::open(port, run.qdisc_bypass, run.max_age)?,
        ))
    };
    open().map_err(|error| no_socket(&config.file, [port, port], &error))
}

/// The file with the keys of all sessions, in the format of tshark's WireGuard dissector.
struct KeyLog {
    file: File,
    post: mpsc::Sender<Vec<KeyLogEntry>>,
    came: mpsc::Receiver<Vec<KeyLogEntry>>,
}

impl KeyLog {
    fn open(file: &FilePath) -> Result<Self, Fault> {
        let open = private_file::open_key_log(file, ThisMachine.user())?;
        tracing::warn!(file = %file.display(), "KEYS ARE WRITTEN DOWN: whoever reads the file reads all traffic of this run");
        let (post, came) = mpsc::channel();
        Ok(Self { file: open, post, came })
    }

    /// Writes the received keys.
    fn drain(&mut self) {
        for entry in self.came.try_iter().flatten() {
            let mut text = zeroize::Zeroizing::new(String::with_capacity(512));
            for (name, key) in [
                ("LOCAL_STATIC_PRIVATE_KEY", &*entry.local_static),
                ("REMOTE_STATIC_PUBLIC_KEY", &entry.remote_static),
                ("LOCAL_EPHEMERAL_PRIVATE_KEY", &*entry.local_ephemeral),
                ("PRESHARED_KEY", &*entry.preshared),
            ] {
                text.push_str(name);
                text.push_str(" = ");
                text.push_str(&encode(key));
                text.push('\n');
            }
            if let Err(error) = self.file.write_all(text.as_bytes()) {
                tracing::error!(%error, "the key log cannot be written");
            }
        }
    }
}

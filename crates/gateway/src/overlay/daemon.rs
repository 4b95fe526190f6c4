//! The main thread of an overlay: starts and stops the other threads, follows links and interfaces,
//! writes the key log.

mod reload;
mod spread;

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
use super::message::Message;
use super::names;
use super::news::Log;
use super::path::{self, Parts, Path, Share};
use super::report::Answers;
use super::search::limit;
use super::snapshot::Snapshot;
use super::symptoms::Symptoms;
use super::wires::{Opened, Wire, changed};
use super::worker::Worker;
use super::workers::{Workers, assign, of_worker};
use crate::config::machine::{Machine, ThisMachine};
use crate::config::overlay::{Overlay, Peer};
use crate::config::tunnel_keys::{Secret, TunnelKeys, encode};
use crate::config::uplink::Which;
use crate::config::{Checked, Config, Keyed};
use crate::frames::delivery::Delivery;
use crate::frames::gate::Gate;
use crate::run::control::{self, StatusSource};
use crate::run::http::endpoints::Endpoints;
use crate::run::loss::hellos::Hellos;
use crate::run::mailbox::Mailbox;
use crate::run::reload::{Door, Reloads};
use crate::run::report::{About, Carries, Place, Shares};
use crate::run::runs::Runs;
use crate::run::setup::no_socket;
use crate::run::setup::{self, Granted};
use crate::run::surroundings::Surroundings;
use crate::run::tally::Tally;
use crate::run::trouble::Trouble;
use crate::run::watch::{watch_flows, watch_stale, watch_storms};
use crate::run::{RunError, lock};
use crate::sys::fanout;
use crate::sys::interface::{self, Interface};
use crate::sys::lanes::Lanes;
use crate::sys::watch::Watch;
use spread::Spread;

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
        supervisor.spread.iter_mut().for_each(Spread::follow);
        reloads.serve(|| stack::wiped(|| supervisor.reload()));
        if news || round.is_multiple_of(ROUNDS_PER_LOOK) {
            supervisor.follow();
        }
        if round.is_multiple_of(ROUNDS_PER_CENSUS)
            && let Some(snapshot) = supervisor.answers.snapshot()
        {
            let Answers { watch, tally, .. } = &*supervisor.answers;
            let [out, inward] = &tally.totals();
            life.sign();
            supervisor.follow_sessions(&snapshot);
            symptoms.report(&snapshot.document, started.elapsed(), watch);
            watch_stale(watch, [out, inward]);
            watch_storms(watch, [out, inward]);
            let [field, uplink, _] = lock(&supervisor.answers.links).map(|(up, _)| up);
            watch_flows(watch, [out, inward], [field, uplink]);
            watch.count(Trouble::UnsupportedOffload, "", out.unsupported_offload.get(), "");
        }
        if supervisor.threads.iter().any(JoinHandle::is_finished) {
            return Err(RunError::Forwarding);
        }
    }
    drop(life);
    drop(mem::take(&mut supervisor.link_loss));
    supervisor.mailboxes.iter().for_each(|mailbox| mailbox.post(Message::Stop));
    let wires = supervisor.wires.into_iter().chain(supervisor.further);
    let mut helpers = wires.map(|wire| wire.next_hops).chain([supervisor.handshakes]);
    // The forwarding threads end first. Without them the channels of the others close, and they end
    // too.
    let mut threads = supervisor.threads.into_iter();
    let ended = threads.try_for_each(JoinHandle::join).and_then(|()| helpers.try_for_each(JoinHandle::join));
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
    /// One for each worker.
    mailboxes: Vec<Arc<Mailbox<Message>>>,
    threads: Vec<JoinHandle<()>>,
    handshakes: JoinHandle<()>,
    answers: Arc<Answers>,
    field: Interface,
    /// The uplink, then the second one, if any.
    wires: Vec<Wire>,
    /// The uplink of further workers.
    further: Vec<Wire>,
    /// Where there are several.
    spread: Option<Spread>,
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
        let unmade = |error: io::Error| Fault::of_thread(&config.file, &error);
        let number = config.run.threads.channels();
        let mailboxes = (0..number).map(|_| Mailbox::new().map(Arc::new)).collect::<io::Result<Vec<_>>>();
        let mailboxes = mailboxes.map_err(unmade)?;
        let (jobs, handshakes) = handshakes::start(config.run.priority, mailboxes.clone()).map_err(unmade)?;
        let tally = Tally::new(number, config.watchdog_cycles);
        let gates: Vec<_> = (0..number).map(|_| Arc::new(Gate::new(&config.policy))).collect();
        let fields = field_ports(&config, field, number)?;
        let uplinks = Wire::open(&config, overlay, Which::First, (uplink, mtu), overlay.listen, &mailboxes)?;
        let (mut wires, mut second) = (Vec::new(), second(&config, overlay, &mailboxes)?);
        let (news, came) = mpsc::channel();
        let log = Log::new(came, overlay);
        let hellos = Arc::new(Hellos::default());
        let (machines, told) = mpsc::channel();
        let rings: Vec<_> = fields.iter().map(|(from, _)| from).collect();
        let spread = Spread::over(&rings, told).map_err(unmade)?;
        let mut owners = Vec::new();
        assign(&mut owners, overlay.peers.len(), number as u8);
        let workers = (number > 1).then(|| Arc::new(Workers::new(&mailboxes, path::table(overlay))));
        let (mut threads, mut places) = (Vec::new(), Vec::new());
        for (own, ((from, to), (wire, port, ask))) in (0u8..).zip(fields.into_iter().zip(uplinks)) {
            let settings = of_worker(overlay, &owners, own);
            let lanes = workers.is_some().then_some(&owners[..]);
            let device = private.as_ref().map(|private| {
                let made = device(&config, &settings, private, &preshared, [Some(mtu), None], lanes);
                made.map(|mut device| {
                    device.defer_handshakes();
                    if key_log.is_some() {
                        device.log_keys();
                    }
                    device
                })
            });
            let mailbox = &mailboxes[usize::from(own)];
            wires.push(wire);
            let second = second.take().map(|((wire, port, ask), mtu)| {
                wires.push(wire);
                (port, ask, mtu)
            });
            let share = workers.as_ref().map(|workers| Share {
                own,
                owners: owners.clone(),
                workers: Arc::clone(workers),
                machines: (own == 0).then(|| machines.clone()),
            });
            let path = Path::new(Parts {
                hellos: Arc::clone(&hellos),
                field: (from, to, field.mtu),
                uplink: (port, ask, mtu),
                trusted: config.uplink.mtu.is_some(),
                second,
                news: news.clone(),
                named: reload::named(&config.policy),
                names: names::start(&settings, &[], mailbox).map_err(unmade)?,
                device: device.transpose()?,
                overlay: settings,
                max_age: config.run.max_age,
                gate: Arc::clone(&gates[usize::from(own)]),
                counters: tally.of(own.into()),
                jobs: jobs.clone(),
                share,
                key_log: key_log.as_ref().map(|log| log.post.clone()),
            });
            let place = Arc::new(Mutex::new(Place { direction: "both", granted: Granted::default() }));
            places.push(Arc::clone(&place));
            let worker = Worker::new(path, setup::mode(config.run.poll), Arc::clone(mailbox));
            let cpu = config.run.threads.cpus().get(usize::from(own)).copied().flatten();
            let priority = config.run.priority;
            let begin = move || {
                lock(&place).granted = setup::place(cpu, priority);
                worker.run();
            };
            threads.push(setup::forwarding("both").spawn(begin).map_err(unmade)?);
        }
        // The handshake thread ends with the last worker.
        drop(jobs);
        let further = if workers.is_some() { wires.split_off(1) } else { Vec::new() };
        let up = |port: &Interface| (interface::link_up(&port.name) == Some(true), 0);
        let overlay = Arc::new(overlay.clone());
        let answers = Arc::new(Answers {
            about: About::new(checked),
            overlay: Mutex::new(Arc::clone(&overlay)),
            gates: Mutex::new(gates),
            door,
            mailboxes: mailboxes.clone(),
            owners: Mutex::new(owners),
            tally,
            places,
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
        let link_loss = alive::start(checked, &mailboxes, &hellos, link_loss, watch)?;
        let server = control::serve(socket, &config.control.socket, answers.clone())?;
        endpoints.apply(shows, &(answers.clone() as Arc<dyn StatusSource>));
        tracing::info!(
            field = %field.name, uplink = %uplink.name, uplink_mtu = mtu, listen = %overlay.listen,
            peers = overlay.peers.len(), protection = answers.about.protection, workers = number, "forwarding"
        );
        Ok(Self {
            checked,
            overlay,
            mailboxes,
            threads,
            handshakes,
            answers,
            field: field.clone(),
            wires,
            further,
            spread,
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
            match field_ports(&self.config, &field, self.mailboxes.len()) {
                Ok(ports) => {
                    let rings: Vec<_> = ports.iter().map(|(from, _)| from).collect();
                    if let Some(Err(error)) = self.spread.as_mut().map(|spread| spread.replace(&rings)) {
                        tracing::error!(%error, "the first worker passes all frames on");
                    }
                    for (mailbox, (from, to)) in self.mailboxes.iter().zip(ports) {
                        mailbox.post(Message::Field(from, to, field.mtu));
                    }
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
            if let Some(mtu) = wire.follow(&self.config, &self.overlay)
                && at == 0
            {
                lock(&self.answers.ports)[1] = Carries::of(&wire.interface, mtu);
            }
        }
        for wire in &mut self.further {
            let _ = wire.interface.still_there();
            let _ = wire.follow(&self.config, &self.overlay);
        }
    }
}

/// Opens the second uplink, if any, and returns its MTU too.
fn second(
    config: &Config,
    overlay: &Overlay,
    mailboxes: &[Arc<Mailbox<Message>>],
) -> Result<Option<(Opened, usize)>, Fault> {
    let Some(second) = &overlay.second_uplink else { return Ok(None) };
    let interface = Interface::find(&second.interface).map_err(|error| {
        let what = format!("the second uplink {}: {error}", second.interface);
        let passing = error.kind() == io::ErrorKind::NotFound;
        let remedy = "see interface in [overlay.second_uplink], and: ip link";
        Fault { passing, ..Fault::of_file(&config.file, what, remedy) }
    })?;
    let mtu = setup::uplink_mtu(config, &interface);
    let opened = Wire::open(config, overlay, Which::Second, (&interface, mtu), second.listen, mailboxes)?;
    Ok(opened.into_iter().next().map(|opened| (opened, mtu)))
}

/// Makes the WireGuard device with its peers. `lanes`: the worker of each, if there are several.
fn device(
    config: &Config,
    overlay: &Overlay,
    private: &Secret,
    preshared: &[Option<Secret>],
    mtus: [Option<usize>; 2],
    lanes: Option<&[u8]>,
) -> Result<Box<Device>, Fault> {
    let mut device = Box::new(Device::new(private));
    for (place, (peer, preshared)) in overlay.peers.iter().zip(preshared).enumerate() {
        let lane = lanes.and_then(|lanes| lanes.get(place)).copied();
        let settings = settings(overlay, peer, preshared.as_ref(), mtus, lane);
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
    lane: Option<u8>,
) -> Settings {
    Settings {
        other: peer.next_public_key,
        preshared: preshared.map_or([0; 32], |key| **key),
        endpoint: peer.endpoint,
        keepalive_seconds: peer.keepalive_seconds,
        reach: limit(overlay, mtus).min(PREPARED_LEN),
        lane,
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

/// Opens a port for receiving and sending, for each worker.
///
/// # Errors
/// When the kernel refuses, with a remedy where there is one.
fn field_ports(config: &Config, port: &Interface, workers: usize) -> Result<Vec<(Lanes, Delivery)>, Fault> {
    let run = &config.run;
    let open = || {
        let lanes = match workers {
            1 => vec![Lanes::open(port, 0, run.max_age)?],
            _ => fanout::field_by_machine(port, run.max_age, workers)?,
        };
        let both =
            lanes.into_iter().map(|from| Ok((from, Delivery::open(port, run.qdisc_bypass, run.max_age)?)));
        both.collect::<io::Result<Vec<_>>>()
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

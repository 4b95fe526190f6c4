//! The steward of an overlay: starts the forwarding thread, follows links and interfaces, writes keys down where that is wanted,
//! and stops it all.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antedate_channel::wireguard::{Device, KeyLogEntry, PREPARED_LEN, PeerError, Settings};

use super::handshakes;
use super::neighbours::Neighbours;
use super::path::{Parts, Path};
use super::peers::limit;
use super::report::Desk;
use super::uplink::Port;
use super::worker::{Letter, Worker};
use crate::config::overlay::{LongFrames, Overlay};
use crate::config::{Checked, Config, Keyed};
use crate::control::Server;
use crate::counters::PathCounters;
use crate::daemon::{Ended, lock};
use crate::fault::Fault;
use crate::gate::Gate;
use crate::mailbox::Mailbox;
use crate::report::{About, Place, Shares};
use crate::setup::{self, Granted};
use crate::sys::interface::{self, Interface};
use crate::sys::packet::{Receiver, Sender};
use crate::sys::udp::UdpSocket;
use crate::tunnel_keys::{Secret, encode};

/// How often the steward looks.
const ROUND: Duration = Duration::from_millis(20);
/// Rounds between two looks at the links.
const ROUNDS_PER_LOOK: u64 = 25;

/// Runs an overlay until `stop` is set. With `key_log` the keys of all sessions are written there.
///
/// # Errors
/// When it cannot start, or ends by itself.
pub fn run(checked: &Checked, key_log: Option<&FilePath>, stop: &AtomicBool) -> Result<(), Ended> {
    let Keyed::Overlay { overlay, private, preshared } = &checked.protection else {
        let fault = Fault::of_file(&checked.config.file, "has no [overlay]", "run it as a gateway");
        return Err(Ended::NotStarted(fault));
    };
    let mut steward =
        Steward::start(checked, overlay, private.as_ref(), preshared, key_log).map_err(Ended::NotStarted)?;
    if let Err(error) = crate::sys::thread::lock_memory() {
        tracing::info!(%error, "memory is not locked: a page fault may delay a frame, and keys may reach the swap");
    }
    let mut round = 0u64;
    while !stop.load(Ordering::Acquire) {
        thread::sleep(ROUND);
        round += 1;
        steward.write_keys();
        let (mailbox, index) = (&steward.mailbox, steward.uplink.index);
        steward.neighbours.follow(index, |to, hop| mailbox.post(Letter::Hop(to, hop)));
        if round.is_multiple_of(ROUNDS_PER_LOOK) {
            steward.follow();
        }
        if steward.thread.is_finished() {
            return Err(Ended::Forwarding);
        }
    }
    steward.mailbox.post(Letter::Stop);
    let ended = steward.thread.join().and_then(|()| steward.handshakes.join());
    if let Some(log) = &mut steward.key_log {
        log.drain();
    }
    tracing::info!("stopped");
    ended.map_err(|_| Ended::Forwarding)
}

struct Steward {
    config: Config,
    overlay: Overlay,
    mailbox: Arc<Mailbox<Letter>>,
    thread: JoinHandle<()>,
    handshakes: JoinHandle<()>,
    desk: Arc<Desk>,
    field: Interface,
    uplink: Interface,
    socket: Arc<UdpSocket>,
    neighbours: Neighbours,
    key_log: Option<KeyLog>,
    _server: Server,
}

impl Steward {
    fn start(
        checked: &Checked,
        overlay: &Overlay,
        private: Option<&Secret>,
        preshared: &[Option<Secret>],
        key_log: Option<&FilePath>,
    ) -> Result<Self, Fault> {
        let config = checked.config.clone();
        let (field, uplink, mtu) = (&checked.field, &checked.uplink, checked.uplink_mtu());
        let key_log = key_log.map(KeyLog::open).transpose()?;
        let mut device =
            private.map(|private| device(&config, overlay, private, preshared, mtu)).transpose()?;
        if let Some(device) = &mut device {
            device.defer_handshakes();
        }
        let unmade = |error: io::Error| {
            let what = format!("cannot start a thread: {error}");
            Fault::of_file(&config.file, what, "see ulimit -n and ulimit -u")
        };
        let mailbox = Arc::new(Mailbox::new().map_err(unmade)?);
        let (jobs, handshakes) =
            handshakes::start(config.run.priority, Arc::clone(&mailbox)).map_err(unmade)?;
        let post = key_log.as_ref().map(|log| log.post.clone());
        if let (Some(device), Some(_)) = (&mut device, &post) {
            device.log_keys();
        }
        let gate = Arc::new(Gate::new(&config.policy));
        let rules = config.policy.rules.len();
        let (out, inward) = (Arc::new(PathCounters::new(rules)), Arc::new(PathCounters::new(rules)));
        let (from, to) = field_port(&config, field)?;
        let socket = Arc::new(socket(&config, overlay, uplink)?);
        let port = port(&config, overlay, &socket, uplink, mtu)?;
        let (ask, asked) = mpsc::channel();
        let path = Path::new(Parts {
            field: (from, to, field.mtu),
            uplink: (port, mtu),
            ask,
            device,
            overlay: overlay.clone(),
            gate,
            counters: [Arc::clone(&out), Arc::clone(&inward)],
            jobs,
            key_log: post,
        });
        let place = Arc::new(Mutex::new(Place { direction: "both", granted: Granted::default() }));
        let worker = Worker { path, mode: setup::mode(config.run.poll), mailbox: Arc::clone(&mailbox) };
        let (cpu, priority) =
            (setup::cpus(config.run.threads).first().copied().flatten(), config.run.priority);
        let granted = Arc::clone(&place);
        let begin = move || {
            lock(&granted).granted = setup::place(cpu, priority);
            worker.run();
        };
        let thread = thread::Builder::new().name("both".into()).spawn(begin).map_err(unmade)?;
        let up = |port: &Interface| (interface::link_up(&port.name) == Some(true), 0);
        let desk = Arc::new(Desk {
            about: About::new(checked),
            mailbox: Arc::clone(&mailbox),
            out,
            inward,
            place,
            mtus: Mutex::new([field.mtu, mtu]),
            links: Mutex::new([up(field), up(uplink)]),
            shares: Shares::default(),
        });
        let server = Server::start(&config.control.socket, desk.clone())?;
        tracing::info!(
            field = %field.name, uplink = %uplink.name, uplink_mtu = mtu, listen = %overlay.listen,
            peers = overlay.peers.len(), protection = desk.about.protection, "forwarding"
        );
        Ok(Self {
            overlay: overlay.clone(),
            mailbox,
            thread,
            handshakes,
            desk,
            field: field.clone(),
            neighbours: Neighbours::new(asked),
            socket,
            uplink: uplink.clone(),
            key_log,
            _server: server,
            config,
        })
    }

    fn write_keys(&mut self) {
        if let Some(log) = &mut self.key_log {
            log.drain();
        }
    }

    /// Follows the links, and opens a port again whose interface was replaced or has another MTU.
    fn follow(&mut self) {
        for (at, port) in [&self.field, &self.uplink].into_iter().enumerate() {
            let up = interface::link_up(&port.name) == Some(true);
            let mut links = lock(&self.desk.links);
            let (known, downs) = &mut links[at];
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
        let changed = |port: &Interface| {
            !port.still_there() || interface::mtu(&port.name).is_some_and(|mtu| mtu != port.mtu)
        };
        if changed(&self.field)
            && let Ok(field) = Interface::find(&self.field.name)
        {
            match field_port(&self.config, &field) {
                Ok((from, to)) => {
                    self.mailbox.post(Letter::Field(from, to, field.mtu));
                    lock(&self.desk.mtus)[0] = field.mtu;
                    tracing::info!(interface = %field.name, mtu = field.mtu, "field port opened again");
                    self.field = field;
                }
                Err(fault) => tracing::error!("{fault:#}"),
            }
        }
        if changed(&self.uplink)
            && let Ok(uplink) = Interface::find(&self.uplink.name)
        {
            self.reopen_uplink(uplink);
        }
    }

    fn reopen_uplink(&mut self, uplink: Interface) {
        let mtu = self.config.uplink.mtu.map_or(uplink.mtu, usize::from);
        // The socket keeps its port, and is bound to the interface that has the name now.
        let again = self
            .socket
            .bind_to(&uplink.name)
            .map_err(|error| refused(&self.config, &self.overlay, &uplink, &error));
        match again.and_then(|()| port(&self.config, &self.overlay, &self.socket, &uplink, mtu)) {
            Ok(port) => {
                self.mailbox.post(Letter::Uplink(port, mtu));
                lock(&self.desk.mtus)[1] = mtu;
                tracing::info!(interface = %uplink.name, mtu, "uplink opened again");
                self.uplink = uplink;
            }
            Err(fault) => tracing::error!("{fault:#}"),
        }
    }
}

/// The tunnels' end.
fn device(
    config: &Config,
    overlay: &Overlay,
    private: &Secret,
    preshared: &[Option<Secret>],
    mtu: usize,
) -> Result<Box<Device>, Fault> {
    let mut device = Box::new(Device::new(private));
    for (peer, preshared) in overlay.peers.iter().zip(preshared) {
        let settings = Settings {
            preshared: preshared.as_ref().map_or([0; 32], |key| **key),
            endpoint: peer.endpoint,
            keepalive_seconds: peer.keepalive_seconds,
            reach: (limit(overlay, mtu)).min(PREPARED_LEN),
            ..Settings::new(peer.public_key)
        };
        device.add_peer(&settings).map_err(|error: PeerError| {
            let what = format!("{} cannot be a peer: {error}", peer.name);
            Fault::of_file(&config.file, what, "see public_key in [[overlay.peer]]")
        })?;
    }
    Ok(device)
}

fn field_port(config: &Config, field: &Interface) -> Result<(Receiver, Sender), Fault> {
    let ports = setup::ports(&config.file, field, field, field.mtu, config.run.qdisc_bypass)?;
    Ok((ports.from, ports.to))
}

fn socket(config: &Config, overlay: &Overlay, uplink: &Interface) -> Result<UdpSocket, Fault> {
    let fragment = overlay.fragmentation == LongFrames::Outside || overlay.private_key_file.is_none();
    UdpSocket::open(overlay.listen, &uplink.name, fragment)
        .map_err(|error| refused(config, overlay, uplink, &error))
}

fn port(
    config: &Config,
    overlay: &Overlay,
    socket: &Arc<UdpSocket>,
    uplink: &Interface,
    mtu: usize,
) -> Result<Port, Fault> {
    let bare = overlay.private_key_file.is_none();
    Port::new(Arc::clone(socket), uplink, overlay, (mtu, config.run.qdisc_bypass), bare)
        .map_err(|error| refused(config, overlay, uplink, &error))
}

fn refused(config: &Config, overlay: &Overlay, uplink: &Interface, error: &io::Error) -> Fault {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has this port: stop it, or give overlay.listen another one"
        }
        io::ErrorKind::AddrNotAvailable => "give overlay.listen an address of this machine, or 0.0.0.0",
        io::ErrorKind::PermissionDenied => "run as root, or give the program CAP_NET_RAW",
        _ => "see overlay.listen, and that the uplink exists: ip addr",
    };
    let what = format!("cannot listen on {} of {}: {error}", overlay.listen, uplink.name);
    Fault::of_file(&config.file, what, remedy)
}

/// The file with the keys of all sessions, in the form that tshark's WireGuard dissector reads.
struct KeyLog {
    file: File,
    post: mpsc::Sender<Vec<KeyLogEntry>>,
    came: mpsc::Receiver<Vec<KeyLogEntry>>,
}

impl KeyLog {
    fn open(file: &FilePath) -> Result<Self, Fault> {
        let open = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
        let open = open.map_err(|error| {
            Fault::of_io(file, "write the key log", &error, "give --keylog a file that you can write to")
        })?;
        tracing::warn!(file = %file.display(), "KEYS ARE WRITTEN DOWN: whoever reads the file reads all traffic of this run");
        let (post, came) = mpsc::channel();
        Ok(Self { file: open, post, came })
    }

    /// Writes down what came.
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

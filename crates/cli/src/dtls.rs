//! `antedate dtls`.

mod proof;

use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use antedate_channel::dtls::{Asks, CipherSuite, ConnectionId, PREPARED_LEN, Settings};
use antedate_dtls::credentials::ServerName;
use antedate_dtls::credentials::own;
use antedate_dtls::service::{Keys, News, Service, Target};
use antedate_dtls::{KeyLog, MOST_THREADS, Options, status};
use antedate_hardening::confine::{self, Capability, Needs};
use antedate_hardening::{files, stack};
use clap::{Args, Subcommand};

use crate::failure::{Done, Failure, ValueError};
use crate::gateway::run::{log, trust_agent, watch_generation, watch_signals, went_on};
use crate::hardened;
use crate::output;
use proof::Proof;

/// Open files beside the sockets of sessions, and more than enough.
const OTHER_FILES: usize = 64;

/// The socket of a thread, and what it waits with.
const FILES_OF_A_THREAD: usize = 4;

/// Sides of the proxy.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// The devices' side: sends their plain datagrams on by DTLS, with a connection for each
    /// device.
    ///
    /// The other side is `antedate dtls listen` or any server of DTLS 1.2 with pre-shared keys, raw
    /// public keys or certificates on P-256. A device's datagrams wait for the handshake. If the
    /// server has lost a session, the proxy begins a new one. Runs until SIGTERM or SIGINT.
    #[command(
        after_help = "Example:\n  antedate dtls connect --listen 127.0.0.1:5000 --to plant.example:4433 --psk psk --identity turbine-3\n  antedate dtls connect --listen 127.0.0.1:5000 --to plant.example:4433 --key turbine.key --peers plant.peers\n  antedate dtls connect --listen 127.0.0.1:5000 --to plant.example:4433 --key turbine.key --certificate turbine.pem --ca ca.pem --crl crl.pem"
    )]
    Connect(Connect),
    /// The server's side: takes DTLS and sends plain datagrams to the devices' server, from a
    /// socket for each connection.
    ///
    /// The other side is `antedate dtls connect` or any client of DTLS 1.2 with a key of the file, a
    /// listed raw public key, or a certificate. Runs until SIGTERM or SIGINT.
    #[command(
        after_help = "Example:\n  antedate dtls listen --listen 0.0.0.0:4433 --to 127.0.0.1:5000 --psk psk\n  antedate dtls listen --listen 0.0.0.0:4433 --to 127.0.0.1:5000 --key plant.key --peers turbine.peers\n  antedate dtls listen --listen 0.0.0.0:4433 --to 127.0.0.1:5000 --key plant.key --certificate plant.pem --ca ca.pem"
    )]
    Listen(Listen),
    /// Print the digest of the public key in each file, as lines of a file for --peers.
    ///
    /// A file is in PEM, and has a private key, a public key or a certificate.
    #[command(after_help = "Example:\n  antedate dtls digest turbine.pem")]
    Digest {
        /// The files.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Show the sessions and the counters of a running proxy, as JSON.
    #[command(after_help = "Example:\n  antedate dtls status /run/antedate-dtls-listen/status")]
    Status {
        /// The socket that the proxy was given with --status.
        #[arg(value_name = "PATH")]
        socket: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct Connect {
    #[command(flatten)]
    common: Common,
    /// The name in the server's certificate, which is also told to the server. [default: the host of
    /// --to]
    #[arg(long, value_name = "NAME", value_parser = proof::parse_name, requires = "ca")]
    name: Option<ServerName<'static>>,
    /// Our identity, if the key file has several; with --devices, that of devices not in the file.
    #[arg(long, value_name = "NAME", requires = "psk")]
    identity: Option<String>,
    /// The file with the identity of each device: lines of `ADDRESS IDENTITY`, where ADDRESS is
    /// 10.0.0.5, 10.0.0.5:5000 or *:5000. SIGHUP reads it again.
    #[arg(long, value_name = "FILE", requires = "psk")]
    devices: Option<PathBuf>,
    /// Begin a new session if a server that has answered does not answer for so long, or for four
    /// times its usual wait if that is shorter. 0: never.
    #[arg(long, value_name = "MS", default_value_t = 15_000)]
    silence_ms: u64,
    /// Replace a session in which the server never answers after so long. 0: never.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    renew_seconds: u64,
    /// Repeat a device's last unanswered datagram in the new session. It may then arrive twice,
    /// and a stranger can cause that with a forged alert.
    #[arg(long)]
    resend: bool,
    /// Datagrams of a device that wait for a handshake; beyond that the oldest are dropped.
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    hold: usize,
}

#[derive(Args)]
pub(crate) struct Listen {
    #[command(flatten)]
    common: Common,
    /// Accept clients without a key or certificate. Everybody who reaches the port then reaches the
    /// devices' server.
    #[arg(long)]
    allow_anonymous: bool,
    /// Largest number of handshakes in progress; an address has a quarter of it. Beyond that the
    /// oldest gives way.
    #[arg(long, value_name = "COUNT", default_value = "1024")]
    max_handshakes: NonZeroUsize,
}

#[derive(Args)]
pub(crate) struct Common {
    /// The address to receive datagrams at.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    listen: SocketAddr,
    /// The address to send them to. A name is resolved in the background, again when the peer is lost.
    #[arg(long, value_name = "HOST:PORT", value_parser = target)]
    to: Target,
    #[command(flatten)]
    proof: Proof,
    /// Cipher suites by their IANA names, the favourite first. [default: all, those with forward
    /// secrecy first]
    #[arg(long = "suite", value_name = "NAME", value_parser = suite)]
    suites: Vec<CipherSuite>,
    /// Do not offer connection IDs (RFC 9146).
    #[arg(long)]
    no_connection_ids: bool,
    /// Accept peers without the extended master secret (RFC 7627), as some small devices are.
    #[arg(long)]
    allow_plain_master_secret: bool,
    /// Repeat a handshake's messages after so long, then after twice that, and so on.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    retransmit_ms: u64,
    /// A handshake fails after so long; a new one begins if there is still something to send.
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    give_up_ms: u64,
    /// Octets of the longest handshake datagram.
    #[arg(long, value_name = "OCTETS", default_value_t = 1200)]
    mtu: usize,
    /// Octets of each datagram that are prepared; longer ones are protected in the ordinary way.
    #[arg(long, value_name = "OCTETS", default_value_t = 512)]
    prepare: usize,
    /// Threads, 1 to 64, each with sessions of its own. The kernel gives a peer's datagrams to one of
    /// them, by its address or its connection ID. The bounds are those of all threads.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=MOST_THREADS as i64))]
    threads: u8,
    /// Largest number of established sessions.
    #[arg(long, value_name = "COUNT", default_value = "1024")]
    max_sessions: NonZeroUsize,
    /// Drop a session after so long without traffic.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    idle_seconds: u64,
    /// The socket for `antedate dtls status`.
    #[arg(long, value_name = "PATH")]
    status: Option<PathBuf>,
    /// Write the master secrets of all sessions to FILE, for `antedate inspect --dtls-keys` and
    /// tshark: -o tls.keylog_file:FILE. Its readers can read the traffic.
    #[arg(long, value_name = "FILE")]
    keylog: Option<PathBuf>,
    /// What to log to standard error: error, warn, info, debug, trace. [default: RUST_LOG, else info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        match self {
            Self::Connect(verb) => verb.run(),
            Self::Listen(verb) => verb.run(),
            Self::Digest { files } => {
                for file in &files {
                    let name = file.file_stem().unwrap_or_default().to_string_lossy();
                    output::print(&format!("{name} {}\n", own::digest_of_file(file)?))?;
                }
                Ok(())
            }
            Self::Status { socket } => output::print(&format!("{:#}\n", status::ask(&socket)?)),
        }
    }
}

impl Common {
    fn options(&self) -> Options {
        let suites = if self.suites.is_empty() { CipherSuite::ALL.to_vec() } else { self.suites.clone() };
        let settings = Settings {
            suites,
            cid: (!self.no_connection_ids).then_some(ConnectionId::EMPTY),
            retransmit_ms: self.retransmit_ms,
            give_up_ms: self.give_up_ms,
            mtu: self.mtu,
            reach: self.prepare.min(PREPARED_LEN),
            // The proxy gives this memory to the sessions that speak.
            large: false,
            require_extended_master_secret: !self.allow_plain_master_secret,
            ..Settings::default()
        };
        Options {
            listen: self.listen,
            to: self.to.clone(),
            settings,
            threads: self.threads.into(),
            max_sessions: self.max_sessions.get(),
            max_handshakes: 0,
            idle_ms: self.idle_seconds.saturating_mul(1000),
            silence_ms: 0,
            renew_ms: 0,
            resend: false,
            hold: 0,
            generations: self.proof.agent,
            status: self.status.clone(),
            key_log: None,
        }
    }

    /// Each session has a socket of its own.
    fn allow_files(&self) {
        let of_threads = FILES_OF_A_THREAD * usize::from(self.threads);
        let wanted = self.max_sessions.get().saturating_add(OTHER_FILES + of_threads);
        let allowed = files::allow(wanted);
        if allowed < wanted {
            tracing::warn!(
                allowed,
                wanted,
                "each session has a socket, and this process may not open so many files; raise the hard limit (ulimit -Hn, \
                 LimitNOFILE= of the unit), or lower --max-sessions"
            );
        }
    }

    /// The files of a server, or of a client with the name of its server.
    fn service(&self, name: Option<ServerName<'static>>) -> Service {
        Service {
            psk: self.proof.psk.clone(),
            own: self.proof.own(),
            peers: self.proof.peers(),
            authorities: self.proof.authorities(),
            name,
            devices: None,
            identity: None,
            is_client: false,
            follow: self.proof.agent,
            hangup: Arc::default(),
        }
    }

    /// Starts the log, reads the keys and installs the signal handler. Starts the thread that reads
    /// them again.
    fn start(&self, service: Service) -> Result<Started, Failure> {
        log(self.log.clone())?;
        if let (Some(psk), true) = (&self.proof.psk, self.proof.agent) {
            trust_agent(psk)?;
        }
        self.allow_files();
        hardened::close_memory_of_daemon();
        // Before the files are read: what changes from now on is read again.
        let mark = service.mark();
        let keys = stack::wiped(|| service.load())?;
        let key_log = self.keylog.as_deref().map(KeyLog::open).transpose()?;
        let reads = service.files().into_iter().cloned().collect();
        hardened::confine_daemon(&Needs {
            // Until the address is bound.
            capabilities: vec![Capability::NetBindService],
            writes: self.status.iter().filter_map(|path| path.parent().map(Path::to_owned)).collect(),
            reads,
            names: self.to.address().is_none(),
        });
        let stop = Arc::new(AtomicBool::new(false));
        watch_signals(Arc::clone(&stop), Arc::clone(&service.hangup))?;
        let cloned = watch_generation(Arc::clone(&stop));
        let news = Arc::new(News::default());
        service
            .start(mark, self.to.clone(), Arc::clone(&news), Arc::clone(&stop))
            .map_err(|error| Failure::usage(format!("cannot start a thread: {error}"), "see ulimit -u"))?;
        Ok(Started { keys, key_log, news, stop, cloned })
    }
}

/// What a side runs with.
struct Started {
    keys: Keys,
    key_log: Option<KeyLog>,
    news: Arc<News>,
    stop: Arc<AtomicBool>,
    /// Whether this virtual machine went on from a snapshot.
    cloned: Arc<AtomicBool>,
}

impl Listen {
    fn run(self) -> Done {
        self.common.proof.check_server(self.allow_anonymous)?;
        let service = self.common.service(None);
        let Started { keys, key_log, news, stop, cloned } = self.common.start(service)?;
        let to = self.common.to.clone();
        let max_handshakes = self.max_handshakes.get();
        let mut options = Options { max_handshakes, key_log, ..self.common.options() };
        options.settings.asks = if self.allow_anonymous { Asks::Politely } else { Asks::Firmly };
        antedate_dtls::listen(&options, keys, &news, &stop, |at| {
            confine::keep_none();
            tracing::info!("DTLS at {at}, plain datagrams to {to}");
        })?;
        went_on(&cloned)
    }
}

impl Connect {
    fn run(self) -> Done {
        self.common.proof.check_client()?;
        let name = proof::server_name(self.name.as_ref(), &self.common.to);
        let service = Service {
            devices: self.devices.clone(),
            identity: self.identity.clone(),
            is_client: true,
            ..self.common.service(name.clone())
        };
        let Started { keys, key_log, news, stop, cloned } = self.common.start(service)?;
        let mut options = Options {
            silence_ms: self.silence_ms,
            renew_ms: self.renew_seconds.saturating_mul(1000),
            resend: self.resend,
            hold: self.hold,
            key_log,
            ..self.common.options()
        };
        options.settings.server_name = proof::told_name(name.as_ref());
        let to = self.common.to.clone();
        antedate_dtls::connect(&options, keys, &news, &stop, |at| {
            confine::keep_none();
            tracing::info!("plain datagrams at {at}, DTLS to {to}");
        })?;
        went_on(&cloned)
    }
}

fn address(text: &str) -> Result<SocketAddr, ValueError> {
    let mut found =
        text.to_socket_addrs().map_err(|error| ValueError::new(format!("{error}; write HOST:PORT")))?;
    found.next().ok_or_else(|| ValueError::new("this name has no address"))
}

/// An address, or a name that need not have one yet.
fn target(text: &str) -> Result<Target, ValueError> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address.into());
    }
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match parts {
        Some((host, port)) if !host.is_empty() && !host.contains([':', '[', ']', '/', ' ']) => {
            Ok(Target::Name(host.to_owned(), port))
        }
        _ => Err(ValueError::new("this is no destination; write HOST:PORT, or [ADDRESS]:PORT for IPv6")),
    }
}

fn suite(text: &str) -> Result<CipherSuite, ValueError> {
    text.parse::<CipherSuite>().map_err(ValueError::new)
}

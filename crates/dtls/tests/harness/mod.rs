//! Sides of the proxy, devices and servers on the loopback interface.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antedate_channel::dtls::{Connection, ConnectionId, Cookies, Event, Greeting, Phase, Settings};
use antedate_dtls::devices::Devices;
use antedate_dtls::psk::PskFile;
use antedate_dtls::service::{Keys, News};
use antedate_dtls::{Options, connect, listen};

pub(crate) const KEYS: &str =
    "turbine 3:000102030405060708090a0b0c0d0e0f\nturbine 4:101112131415161718191a1b1c1d1e1f\n";

pub(crate) struct Running {
    pub(crate) at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn options(listen: SocketAddr, to: SocketAddr) -> Options {
    Options {
        listen,
        to: to.into(),
        settings: Settings { retransmit_ms: 50, cid: Some(ConnectionId::EMPTY), ..Settings::default() },
        threads: 1,
        max_sessions: 3,
        max_handshakes: 16,
        idle_ms: 60_000,
        silence_ms: 0,
        renew_ms: 0,
        resend: false,
        hold: 64,
        generations: false,
        status: None,
        key_log: None,
    }
}

pub(crate) fn any() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Runs a side in a thread until it is dropped.
pub(crate) fn run(side: impl FnOnce(&AtomicBool, mpsc::Sender<SocketAddr>) + Send + 'static) -> Running {
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, at) = mpsc::channel();
    let stopped = Arc::clone(&stop);
    let thread = Some(thread::spawn(move || side(&stopped, ready)));
    let at = at.recv_timeout(Duration::from_secs(10)).expect("it listens");
    Running { at, stop, thread }
}

pub(crate) fn server_side(options: Options) -> Running {
    serving(options, &Arc::default())
}

/// Runs the server's side with news from the test.
pub(crate) fn serving(options: Options, news: &Arc<News>) -> Running {
    let (keys, news) = (PskFile::parse(KEYS).expect("good keys"), Arc::clone(news));
    run(move |stop, ready| {
        listen(&options, keys.into(), &news, stop, |at| _ = ready.send(at)).expect("it runs");
    })
}

pub(crate) fn device_side(options: Options, identity: &'static str) -> Running {
    let keys = Keys {
        devices: Devices::all(identity.to_owned()),
        ..PskFile::parse(KEYS).expect("good keys").into()
    };
    served(options, keys, &Arc::default())
}

/// Runs the devices' side with news from the test.
pub(crate) fn served(options: Options, keys: Keys, news: &Arc<News>) -> Running {
    let news = Arc::clone(news);
    run(move |stop, ready| {
        connect(&options, keys, &news, stop, |at| _ = ready.send(at)).expect("it runs");
    })
}

/// The devices' server, which echoes datagrams.
pub(crate) fn echo() -> Running {
    run(|stop, ready| {
        let socket = socket();
        let _ = ready.send(socket.local_addr().expect("bound"));
        let mut buffer = [0; 2000];
        while !stop.load(Ordering::Acquire) {
            if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..len], from);
            }
        }
    })
}

/// An echoing DTLS server of another make: records of unknown sessions get no answer, and it ends
/// without a word.
pub(crate) fn foreign(at: SocketAddr) -> Running {
    run(move |stop, ready| {
        let place = UdpSocket::bind(at).expect("a socket");
        place.set_read_timeout(Some(Duration::from_millis(5))).expect("an option");
        let _ = ready.send(place.local_addr().expect("bound"));
        let (keys, cookies) = (PskFile::parse(KEYS).expect("good keys"), Cookies::new([7; 32]));
        let mut sessions: HashMap<SocketAddr, Connection> = HashMap::new();
        let (mut buffer, mut out) = ([0; 2000], [0; 2000]);
        while !stop.load(Ordering::Acquire) {
            let Ok((len, from)) = place.recv_from(&mut buffer) else { continue };
            match cookies.greet(&buffer[..len], from.to_string().as_bytes(), 0, |_| ()) {
                Greeting::Reply(reply) => _ = place.send_to(&reply, from),
                Greeting::Accept => {
                    let fresh = Connection::accept(Settings::default(), &buffer[..len], 0, &mut random);
                    sessions.extend(fresh.ok().map(|fresh| (from, fresh)));
                }
                _ => {}
            }
            let Some(session) = sessions.get_mut(&from) else { continue };
            let mut data = Vec::new();
            session.handle(&buffer[..len], 0, &keys, &mut |event| {
                data.extend(if let Event::Data(octets) = event { Some(octets.to_vec()) } else { None });
            });
            while let Some(datagram) = session.transmit() {
                let _ = place.send_to(&datagram, from);
            }
            for octets in data {
                let len = session.seal(&octets, &mut out).expect("keys");
                let _ = place.send_to(&out[..len], from);
            }
        }
    })
}

pub(crate) fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(any()).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("an option");
    socket
}

pub(crate) fn device(at: SocketAddr) -> UdpSocket {
    let socket = socket();
    socket.connect(at).expect("an address");
    socket
}

pub(crate) fn random(out: &mut [u8]) {
    getrandom::fill(out).expect("random numbers");
}

/// The answer, within some seconds.
pub(crate) fn answer(device: &UdpSocket) -> Option<Vec<u8>> {
    let end = Instant::now() + Duration::from_secs(10);
    let mut buffer = [0; 2000];
    while Instant::now() < end {
        if let Ok(len) = device.recv(&mut buffer) {
            return Some(buffer[..len].to_vec());
        }
    }
    None
}

pub(crate) fn exchange(device: &UdpSocket, said: &[u8]) {
    device.send(said).expect("sent");
    assert_eq!(answer(device).as_deref(), Some(said));
}

/// An established client without the proxy.
pub(crate) fn joined(socket: &UdpSocket, identity: &str, cid: Option<ConnectionId>) -> Connection {
    let client = PskFile::parse(KEYS).expect("good keys").client(Some(identity)).expect("known");
    let (began, mut buffer) = (Instant::now(), [0; 2000]);
    let settings = Settings { retransmit_ms: 50, cid, ..Settings::default() };
    let mut connection = Connection::connect(settings, client, 0, &mut random);
    while connection.phase() != Phase::Established {
        let now = began.elapsed().as_millis() as u64;
        assert!(now < 10_000, "{connection:?}");
        if connection.deadline().is_some_and(|deadline| now >= deadline) {
            connection.timeout(now);
        }
        while let Some(datagram) = connection.transmit() {
            socket.send(&datagram).expect("sent");
        }
        if let Ok(len) = socket.recv(&mut buffer) {
            connection.handle(&buffer[..len], now, &(), &mut |_| ());
        }
    }
    connection
}

pub(crate) struct Relay {
    pub(crate) at: SocketAddr,
    /// Drops the server's datagrams.
    pub(crate) deaf: Arc<AtomicBool>,
    /// Drops the server's unprotected alerts.
    pub(crate) mute: Arc<AtomicBool>,
    /// Sends the client an unprotected alert before each of the server's datagrams.
    pub(crate) forge: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// An unprotected fatal alert, unexpected_message.
pub(crate) const ALERT: [u8; 15] = [21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 10];

/// Relays datagrams both ways.
pub(crate) fn relay(server: SocketAddr) -> Relay {
    let (front, back) = (socket(), socket());
    for socket in [&front, &back] {
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("an option");
    }
    let at = front.local_addr().expect("bound");
    let [deaf, mute, forge, stop] = [(); 4].map(|()| Arc::new(AtomicBool::new(false)));
    let relay = Relay { at, deaf, mute, forge, stop };
    let [deaf, mute, forge, stopped] = [&relay.deaf, &relay.mute, &relay.forge, &relay.stop].map(Arc::clone);
    thread::spawn(move || {
        let mut buffer = [0; 2000];
        let mut client = None;
        while !stopped.load(Ordering::Acquire) {
            if let Ok((len, from)) = front.recv_from(&mut buffer) {
                client = Some(from);
                let _ = back.send_to(&buffer[..len], server);
            }
            if let Ok((len, _)) = back.recv_from(&mut buffer)
                && let Some(client) = client
                && !deaf.load(Ordering::Acquire)
                && !(buffer[0] == ALERT[0] && mute.load(Ordering::Acquire))
            {
                if forge.load(Ordering::Acquire) {
                    let _ = front.send_to(&ALERT, client);
                    thread::sleep(Duration::from_millis(100));
                }
                let _ = front.send_to(&buffer[..len], client);
            }
        }
    });
    relay
}

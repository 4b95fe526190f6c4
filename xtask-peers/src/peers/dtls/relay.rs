//! A wire between two UDP addresses that loses, doubles, delays and replays datagrams, repeatably
//! for each seed.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The wire's faults, each per thousand datagrams.
#[derive(Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) lose: u64,
    pub(super) duplicate: u64,
    /// Delays by up to 30 ms, so that later datagrams overtake.
    pub(super) delay: u64,
    /// Sends one of the last 64 datagrams again.
    pub(super) replay: u64,
}

/// A wire; it ends when dropped.
pub(super) struct Relay {
    /// The client's destination.
    pub(super) at: SocketAddr,
    stop: Arc<AtomicBool>,
    /// The server sees another source address from now on.
    moves: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

struct Rng(u64);

impl Rng {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn happens(&mut self, per_mille: u64) -> bool {
        self.number() % 1000 < per_mille
    }
}

impl Relay {
    pub(super) fn to(server: SocketAddr, faults: Faults, seed: u64) -> Result<Self, String> {
        let text = |e: std::io::Error| format!("the relay: {e}");
        let (front, back) = (socket().map_err(text)?, socket().map_err(text)?);
        let at = front.local_addr().map_err(text)?;
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let moves = Arc::new(AtomicBool::new(false));
        let flags = [Arc::clone(&stop), Arc::clone(&moves)];
        let counted = Arc::clone(&done);
        let thread = thread::spawn(move || carry([front, back], server, faults, Rng(seed), &flags, &counted));
        Ok(Self { at, stop, moves, done, thread: Some(thread) })
    }

    /// Changes the port towards the server, as network address translation does after a while.
    pub(super) fn move_on(&self) {
        self.moves.store(true, Ordering::Relaxed);
    }

    /// The number of lost, doubled, delayed and replayed datagrams.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn socket() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_millis(1)))?;
    Ok(socket)
}

fn carry(
    mut sockets: [UdpSocket; 2],
    server: SocketAddr,
    faults: Faults,
    mut rng: Rng,
    [stop, moves]: &[Arc<AtomicBool>; 2],
    done: &AtomicU64,
) {
    let mut client: Option<SocketAddr> = None;
    let mut past: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
    let mut late: Vec<(Instant, usize, Vec<u8>)> = Vec::new();
    let mut buffer = [0; 65_535];
    while !stop.load(Ordering::Relaxed) {
        if moves.swap(false, Ordering::Relaxed)
            && let Ok(other) = socket()
        {
            sockets[1] = other;
        }
        for side in [0, 1] {
            let Ok((len, from)) = sockets[side].recv_from(&mut buffer) else { continue };
            if side == 0 {
                client = Some(from);
            }
            let datagram = buffer[..len].to_vec();
            let now = Instant::now();
            let note = |happens: bool| {
                done.fetch_add(u64::from(happens), Ordering::Relaxed);
                happens
            };
            if note(rng.happens(faults.replay)) && !past[side].is_empty() {
                let at = rng.number() as usize % past[side].len();
                late.push((now, side, past[side][at].clone()));
            }
            past[side].push(datagram.clone());
            if past[side].len() > 64 {
                past[side].remove(0);
            }
            if note(rng.happens(faults.lose)) {
                continue;
            }
            if note(rng.happens(faults.duplicate)) {
                late.push((now, side, datagram.clone()));
            }
            let delay = if note(rng.happens(faults.delay)) { rng.number() % 30 } else { 0 };
            late.push((now + Duration::from_millis(delay), side, datagram));
        }
        let now = Instant::now();
        late.retain(|(when, side, datagram)| {
            if *when > now {
                return true;
            }
            let to = if *side == 0 { Some(server) } else { client };
            if let Some(to) = to {
                let _ = sockets[1 - side].send_to(datagram, to);
            }
            false
        });
    }
}

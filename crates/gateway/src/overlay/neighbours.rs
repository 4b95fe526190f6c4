//! The next-hops thread, which asks the kernel for the next hop to each peer, and for the path MTU.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use antedate_hardening::confine;
use antedate_host::helper;

use super::hops::Asked;
use super::message::Message;
use crate::config::uplink::Which;
use crate::run::mailbox::Mailbox;
use crate::run::setup;
use crate::sys::route::{Hop, Routes};
use crate::sys::udp::path_mtu;

/// Interval of queries to the kernel.
const AGAIN: Duration = Duration::from_millis(100);
/// Interval of queries for path MTUs.
const PATHS: Duration = Duration::from_millis(500);
/// How long an address is queried after the last request for it.
const FOLLOWED: Duration = Duration::from_secs(15);

struct Known {
    to: SocketAddrV4,
    asked: Instant,
    hop: Option<Hop>,
}

struct KnownPath {
    to: SocketAddr,
    asked: Instant,
    /// The answer that was given. `None`: none yet.
    told: Option<Option<usize>>,
}

/// The requested addresses with the kernel's answers.
struct Neighbours {
    /// The index of the uplink's interface. It changes when the interface is replaced.
    index: Arc<AtomicI32>,
    /// The source address of datagrams, if it is a fixed one.
    from: Option<Ipv4Addr>,
    known: Vec<Known>,
    paths: Vec<KnownPath>,
    paths_looked: Instant,
    looked: Instant,
}

/// Starts the thread for one uplink. It ends when all senders are dropped.
///
/// Like the handshake thread it has the forwarding thread's priority and is not pinned: with a
/// lower priority it would never run where each CPU has a polling thread, and all datagrams would
/// pass the kernel's IP stack.
pub(super) fn start(
    which: Which,
    priority: Option<u8>,
    index: Arc<AtomicI32>,
    listen: IpAddr,
    mailbox: Arc<Mailbox<Message>>,
) -> io::Result<(mpsc::Sender<Asked>, JoinHandle<()>)> {
    let (ask, asked) = mpsc::channel();
    // Peers answer to the configured local address, so datagrams must leave from it, whatever the
    // kernel would choose.
    let from = match listen {
        IpAddr::V4(own) if !own.is_unspecified() => Some(own),
        _ => None,
    };
    let work = move || {
        let _ = setup::place(None, priority);
        confine::keep_none();
        let (known, paths) = (Vec::new(), Vec::new());
        let now = Instant::now();
        let mut neighbours = Neighbours { index, from, known, paths, paths_looked: now, looked: now };
        neighbours.serve(&asked, |told| {
            mailbox.post(match told {
                Told::Hop(to, hop) => Message::Hop(which, to, hop),
                Told::Path(to, mtu) => Message::Path(which, to, mtu),
            });
        });
    };
    Ok((ask, helper::thread("next-hops").spawn(work)?))
}

/// An answer.
enum Told {
    Hop(SocketAddrV4, Option<Hop>),
    Path(SocketAddr, Option<usize>),
}

impl Neighbours {
    fn serve(&mut self, asked: &Receiver<Asked>, mut tell: impl FnMut(Told)) {
        loop {
            let first = match asked.recv_timeout(AGAIN) {
                Ok(to) => Some(to),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut hops = Vec::new();
            for asked in first.into_iter().chain(asked.try_iter()) {
                match asked {
                    Asked::Hop(to) => hops.push(to),
                    Asked::Path(to) => self.ask_path(to),
                }
            }
            if self.paths_looked.elapsed() >= PATHS || self.paths.iter().any(|path| path.told.is_none()) {
                self.paths_looked = Instant::now();
                self.follow_paths(&mut tell);
            }
            self.follow(&hops, &mut |to, hop| tell(Told::Hop(to, hop)));
        }
    }

    fn ask_path(&mut self, to: SocketAddr) {
        let asked = Instant::now();
        match self.paths.iter_mut().find(|path| path.to == to) {
            Some(path) => (path.asked, path.told) = (asked, None),
            None => self.paths.push(KnownPath { to, asked, told: None }),
        }
    }

    /// Reports changes of the path MTUs.
    fn follow_paths(&mut self, tell: &mut impl FnMut(Told)) {
        let index = self.index.load(Ordering::Relaxed);
        self.paths.retain(|path| path.asked.elapsed() < FOLLOWED);
        for path in &mut self.paths {
            let mtu = path_mtu(index, path.to);
            if path.told != Some(mtu) {
                path.told = Some(mtu);
                tell(Told::Path(path.to, mtu));
            }
        }
    }

    /// Answers new requests, and reports changes of earlier answers.
    fn follow(&mut self, asked: &[SocketAddrV4], tell: &mut impl FnMut(SocketAddrV4, Option<Hop>)) {
        let now = Instant::now();
        let look = now.duration_since(self.looked) >= AGAIN;
        if asked.is_empty() && (!look || self.known.is_empty()) {
            return;
        }
        let routes = match Routes::open() {
            Ok(routes) => routes,
            Err(error) => return tracing::warn!(%error, "the kernel cannot be asked for next hops"),
        };
        let index = self.index.load(Ordering::Relaxed);
        for &to in asked {
            let hop = routes.hop(index, *to.ip(), self.from);
            tell(to, hop);
            match self.known.iter_mut().find(|known| known.to == to) {
                Some(known) => (known.asked, known.hop) = (now, hop),
                None => self.known.push(Known { to, asked: now, hop }),
            }
        }
        if look {
            self.looked = now;
            self.known.retain(|known| now.duration_since(known.asked) < FOLLOWED);
            for known in &mut self.known {
                let hop = routes.hop(index, *known.to.ip(), self.from);
                if hop != known.hop {
                    known.hop = hop;
                    tell(known.to, hop);
                }
            }
        }
    }
}

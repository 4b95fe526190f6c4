//! The thread that asks the kernel for the next hop towards each peer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::letter::Letter;
use crate::config::uplink::Which;
use crate::run::mailbox::Mailbox;
use crate::run::setup;
use crate::sys::route::{Hop, Routes};

/// How often the kernel is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// How long after the last question an address is still followed.
const FOLLOWED: Duration = Duration::from_secs(15);

struct Known {
    to: SocketAddrV4,
    asked: Instant,
    hop: Option<Hop>,
}

/// Addresses that were asked for, and what the kernel said.
struct Neighbours {
    /// The index of the uplink's interface, which changes where it is replaced.
    index: Arc<AtomicI32>,
    /// The address that datagrams leave from, if it is one alone.
    from: Option<Ipv4Addr>,
    known: Vec<Known>,
    looked: Instant,
}

/// Starts it for one uplink. It ends when nobody can ask it any more.
///
/// Like the handshakes' thread it has the forwarding thread's priority and no CPU of its own: below, it would not be heard where
/// each CPU has a thread that polls, and all datagrams would go through the kernel's IP stack for good.
pub(super) fn start(
    which: Which,
    priority: Option<u8>,
    index: Arc<AtomicI32>,
    listen: IpAddr,
    mailbox: Arc<Mailbox<Letter>>,
) -> io::Result<(mpsc::Sender<SocketAddrV4>, JoinHandle<()>)> {
    let (ask, asked) = mpsc::channel();
    // Whoever listens on one address is answered there, so it sends from that, whichever the kernel would take.
    let from = match listen {
        IpAddr::V4(own) if !own.is_unspecified() => Some(own),
        _ => None,
    };
    let work = move || {
        let _ = setup::place(None, priority);
        let mut neighbours = Neighbours { index, from, known: Vec::new(), looked: Instant::now() };
        neighbours.serve(&asked, |to, hop| mailbox.post(Letter::Hop(which, to, hop)));
    };
    Ok((ask, thread::Builder::new().name("next-hops".into()).spawn(work)?))
}

impl Neighbours {
    fn serve(&mut self, asked: &Receiver<SocketAddrV4>, mut tell: impl FnMut(SocketAddrV4, Option<Hop>)) {
        loop {
            let first = match asked.recv_timeout(AGAIN) {
                Ok(to) => Some(to),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let asked: Vec<_> = first.into_iter().chain(asked.try_iter()).collect();
            self.follow(&asked, &mut tell);
        }
    }

    /// Answers what was asked, and tells what is new of what was asked before.
    fn follow(&mut self, asked: &[SocketAddrV4], mut tell: impl FnMut(SocketAddrV4, Option<Hop>)) {
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

//! The next-hops thread, which asks the kernel for the next hop to each peer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::message::Message;
use crate::config::uplink::Which;
use crate::run::mailbox::Mailbox;
use crate::run::setup;
use crate::sys::route::{Hop, Routes};

/// Interval of queries to the kernel.
const AGAIN: Duration = Duration::from_millis(100);
/// How long an address is queried after the last request for it.
const FOLLOWED: Duration = Duration::from_secs(15);

struct Known {
    to: SocketAddrV4,
    asked: Instant,
    hop: Option<Hop>,
}

/// The requested addresses with the kernel's answers.
struct Neighbours {
    /// The index of the uplink's interface. It changes when the interface is replaced.
    index: Arc<AtomicI32>,
    /// The source address of datagrams, if it is a fixed one.
    from: Option<Ipv4Addr>,
    known: Vec<Known>,
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
) -> io::Result<(mpsc::Sender<SocketAddrV4>, JoinHandle<()>)> {
    let (ask, asked) = mpsc::channel();
    // Peers answer to the configured local address, so datagrams must leave from it, whatever the
    // kernel would choose.
    let from = match listen {
        IpAddr::V4(own) if !own.is_unspecified() => Some(own),
        _ => None,
    };
    let work = move || {
        let _ = setup::place(None, priority);
        let mut neighbours = Neighbours { index, from, known: Vec::new(), looked: Instant::now() };
        neighbours.serve(&asked, |to, hop| mailbox.post(Message::Hop(which, to, hop)));
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

    /// Answers new requests, and reports changes of earlier answers.
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

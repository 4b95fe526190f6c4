//! What the steward asks the kernel for the forwarding thread: the next hop towards each peer.

use std::net::SocketAddrV4;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

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
pub(super) struct Neighbours {
    asked: Receiver<SocketAddrV4>,
    known: Vec<Known>,
    looked: Instant,
}

impl Neighbours {
    pub(super) fn new(asked: Receiver<SocketAddrV4>) -> Self {
        Self { asked, known: Vec::new(), looked: Instant::now() }
    }

    /// Tells what is new on the interface with that index.
    pub(super) fn follow(&mut self, index: i32, mut tell: impl FnMut(SocketAddrV4, Option<Hop>)) {
        let now = Instant::now();
        let asked: Vec<_> = self.asked.try_iter().collect();
        let look = now.duration_since(self.looked) >= AGAIN;
        if asked.is_empty() && (!look || self.known.is_empty()) {
            return;
        }
        let routes = match Routes::open() {
            Ok(routes) => routes,
            Err(error) => return tracing::warn!(%error, "the kernel cannot be asked for next hops"),
        };
        for to in asked {
            let hop = routes.hop(index, *to.ip());
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
                let hop = routes.hop(index, *known.to.ip());
                if hop != known.hop {
                    known.hop = hop;
                    tell(known.to, hop);
                }
            }
        }
    }
}

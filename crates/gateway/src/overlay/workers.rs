//! The state that several workers of an overlay share.
//!
//! Each worker has the sessions of its peers, and receives their datagrams and the frames to the
//! machines behind them. What it has to send to another one's peer it passes on: frames that are
//! flooded or relayed, and those to a machine that was just learned.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use antedate_channel::wireguard::Job;

use super::message::Message;
use super::table::Table;
use crate::config::overlay::Overlay;
use crate::run::lock;
use crate::run::mailbox::Mailbox;

/// The most frames that wait for a worker. Further ones are lost.
const WAITING: usize = 512;

/// A job of a handshake with the number of its worker.
pub(super) type OwnedJob = (u8, Job);

/// The shared state.
pub struct Workers {
    mailboxes: Vec<Arc<Mailbox<Message>>>,
    /// Number of frames that wait for each.
    waiting: Vec<AtomicUsize>,
    table: Mutex<Table>,
    meeting: Barrier,
}

impl Workers {
    /// Of workers with these mailboxes.
    pub(super) fn new(mailboxes: &[Arc<Mailbox<Message>>], table: Table) -> Self {
        Self {
            mailboxes: mailboxes.to_vec(),
            waiting: mailboxes.iter().map(|_| AtomicUsize::new(0)).collect(),
            table: Mutex::new(table),
            meeting: Barrier::new(mailboxes.len()),
        }
    }

    /// Waits until all are here, so that peers get other places when no worker uses them.
    pub(super) fn meet(&self) {
        self.meeting.wait();
    }

    /// Passes a message to another worker.
    pub(super) fn post(&self, to: u8, message: Message) {
        if let Some(mailbox) = self.mailboxes.get(usize::from(to)) {
            mailbox.post(message);
        }
    }

    /// Passes a frame for a peer to the peer's worker. The numbers are those of [`Passed`]. Returns
    /// whether there was space.
    pub(super) fn pass(&self, to: u8, (change, since): (u32, u64), place: usize, frame: &[u8]) -> bool {
        let Some(waiting) = self.waiting.get(usize::from(to)) else { return false };
        if waiting.fetch_add(1, Ordering::Relaxed) >= WAITING {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.post(to, Message::Frame(Passed { change, since, place, frame: frame.into() }));
        true
    }

    /// Notes that the worker has taken a frame out of its mailbox.
    pub(super) fn taken(&self, own: u8) {
        if let Some(waiting) = self.waiting.get(usize::from(own)) {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A frame that another worker seals.
#[derive(Debug)]
pub struct Passed {
    /// The number of changes so far: with another one, the place may be that of another peer.
    pub change: u32,
    /// The time at which it was passed on.
    pub since: u64,
    /// The place of the peer.
    pub place: usize,
    /// The frame.
    pub frame: Box<[u8]>,
}

/// The address table: of one thread, or shared.
pub(super) enum Addresses {
    Own(Table),
    Shared(Arc<Workers>),
}

impl Addresses {
    /// Uses the table. While one worker does, the others wait: some ten nanoseconds.
    #[inline]
    pub(super) fn with<R>(&mut self, use_it: impl FnOnce(&mut Table) -> R) -> R {
        match self {
            Self::Own(table) => use_it(table),
            Self::Shared(workers) => use_it(&mut lock(&workers.table)),
        }
    }
}

/// The settings of one worker: all peers, those of the others without an address, so that nothing
/// happens on its own.
pub(super) fn of_worker(overlay: &Overlay, owners: &[u8], own: u8) -> Overlay {
    let mut overlay = overlay.clone();
    let others = overlay.peers.iter_mut().zip(owners).filter(|(_, owner)| **owner != own);
    for (peer, _) in others {
        (peer.endpoint, peer.second_endpoint, peer.host, peer.keepalive_seconds) = (None, None, None, 0);
    }
    overlay
}

/// The worker of each new peer: one with the fewest peers so far.
pub(super) fn assign(owners: &mut Vec<u8>, peers: usize, workers: u8) {
    while owners.len() < peers {
        let load = |worker: &u8| owners.iter().filter(|owner| *owner == worker).count();
        owners.push((0..workers).min_by_key(load).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_peers_go_where_the_fewest_are() {
        let mut owners = Vec::new();
        assign(&mut owners, 5, 3);
        assert_eq!(owners, [0, 1, 2, 0, 1]);
        // The peers of the second one left.
        let mut owners = vec![0, 2, 0];
        assign(&mut owners, 6, 3);
        assert_eq!(owners, [0, 2, 0, 1, 1, 2]);
        let mut owners = Vec::new();
        assign(&mut owners, 3, 1);
        assert_eq!(owners, [0; 3]);
    }

    #[test]
    fn waiting_frames_are_bounded() {
        let mailboxes = [(); 2].map(|()| Arc::new(Mailbox::new().unwrap()));
        let workers = Workers::new(&mailboxes, Table::new(2, 16, 1));
        assert!((0..WAITING).all(|_| workers.pass(1, (0, 0), 0, &[1; 60])));
        assert!(!workers.pass(1, (0, 0), 0, &[1; 60]) && workers.pass(0, (0, 0), 0, &[2; 60]));
        let Some(Message::Frame(frame)) = mailboxes[1].take() else { panic!("no frame") };
        assert_eq!((frame.place, frame.frame.len()), (0, 60));
        workers.taken(1);
        assert!(workers.pass(1, (0, 0), 0, &[1; 60]) && !workers.pass(1, (0, 0), 0, &[1; 60]));
        assert!(!workers.pass(2, (0, 0), 0, &[1; 60]), "there is none");
    }
}

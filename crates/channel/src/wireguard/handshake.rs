//! Handshakes: the steps before and after the expensive part ([`work`](super::work)).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;

use antedate_wire::wireguard::{Initiation, Response};
use zeroize::Zeroizing;

use super::noise::{Secret, Timestamp};
use super::peer::{Origin, StaleError};
use super::work::{Answer, Done, Job, Outcome, Task};
use super::{
    Device, Dropped, Environment, Finished, KeyLogEntry, LONGEST_HANDSHAKE, Outgoing, PeerId, Received,
};

/// The most answers that may wait for their computation.
const WAITING: usize = 32;

impl Device {
    /// Queues the expensive parts of handshakes from now on, until another thread
    /// [takes](Self::take_job) them.
    pub fn defer_handshakes(&mut self) {
        self.jobs.get_or_insert_default();
    }

    /// The next expensive part of a handshake. Call it until it returns `None`, after each
    /// [`receive`](Self::receive) that returned [`Received::Pending`] and after
    /// [`poll`](Self::poll).
    pub fn take_job(&mut self) -> Option<Job> {
        self.jobs.as_mut().and_then(VecDeque::pop_front)
    }

    /// The peer that a completed part of a handshake is about, if it is known. Another device with
    /// the same keys may [finish](Self::finish) the answer to an initiation.
    pub fn peer_of(&self, done: &Done) -> Option<PeerId> {
        done.public().and_then(|public| self.peer(public))
    }

    /// Takes back a completed part of a handshake. A message to send is written to `out`.
    pub fn finish(
        &mut self,
        world: &mut impl Environment,
        done: Done,
        out: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Result<Finished, Dropped> {
        self.complete(world, done, out).inspect_err(|refusal| self.refusals.count(*refusal))
    }

    pub(super) fn initiation(
        &mut self,
        world: &mut impl Environment,
        origin: Origin,
        message: &Initiation,
        answer: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Result<Received, Dropped> {
        let index = free_index(&self.indices, world);
        let mut ephemeral = Secret::default();
        world.random(&mut ephemeral[..]);
        self.work(world, Task::Answer { origin, message: *message, index, ephemeral }, answer)
    }

    pub(super) fn response(
        &mut self,
        world: &mut impl Environment,
        origin: Origin,
        message: &Response,
        answer: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Result<Received, Dropped> {
        let at = *self.indices.get(&message.receiver).ok_or(Dropped::UnknownIndex)?;
        let begun = self.peers.get(at).and_then(|peer| peer.begun.as_ref());
        let begun = begun.filter(|begun| begun.index == message.receiver).ok_or(Dropped::UnknownIndex)?;
        self.work(world, Task::End { origin, at, message: *message, begun: begun.clone() }, answer)
    }

    /// Computes a received message's part, here or on another thread.
    fn work(
        &mut self,
        world: &mut impl Environment,
        task: Task,
        answer: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Result<Received, Dropped> {
        let job = Job { keys: Arc::clone(&self.keys), task };
        match &mut self.jobs {
            Some(jobs) if jobs.len() >= WAITING => Err(Dropped::Overload),
            Some(jobs) => {
                jobs.push_back(job);
                Ok(Received::Pending)
            }
            None => self.complete(world, job.run(), answer).map(|finished| match finished {
                Finished::Begun(Outgoing { len, .. }) | Finished::Answered(Outgoing { len, .. }) => {
                    Received::Answer { len }
                }
                Finished::Session { peer } => Received::Session { peer },
            }),
        }
    }

    /// Begins a handshake. Returns the message's length, unless another thread computes it.
    pub(super) fn initiate(
        &mut self,
        world: &mut impl Environment,
        at: usize,
        out: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Option<usize> {
        let now = world.now();
        // A peer that changes keys may have either one by now.
        if self.peers.get(at)?.is_unanswered() {
            self.exchange_keys(at);
        }
        let index = free_index(&self.indices, world);
        let mut random = Zeroizing::new([0; 40]);
        world.random(&mut random[..]);
        let (ephemeral, jitter) = random.split_first_chunk::<32>()?;
        let jitter = u64::from_le_bytes(jitter.try_into().ok()?);
        let peer = self.peers.get_mut(at)?;
        let timestamp = world.timestamp().max(after(peer.said));
        peer.said = timestamp;
        peer.initiated(now, jitter);
        let ephemeral = Secret::copy(ephemeral);
        let task = Task::Begin { at, index, ephemeral, timestamp };
        let job = Job { keys: Arc::clone(&self.keys), task };
        if let Some(jobs) = &mut self.jobs {
            // At most one for each peer: the next attempt is seconds later.
            jobs.push_back(job);
            return None;
        }
        match self.complete(world, job.run(), out) {
            Ok(Finished::Begun(outgoing)) => Some(outgoing.len),
            _ => None,
        }
    }

    fn complete(
        &mut self,
        world: &mut impl Environment,
        done: Done,
        out: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Result<Finished, Dropped> {
        let now = world.now();
        match done.0 {
            Outcome::Forged => Err(Dropped::ForgedHandshake),
            Outcome::UnknownPeer => Err(Dropped::UnknownPeer),
            Outcome::Begun { public, begun, message } => {
                let index = begun.index;
                let PeerId(at) = self.peer(&public).ok_or(Dropped::UnknownPeer)?;
                let peer = self.peers.get_mut(at).ok_or(Dropped::UnknownPeer)?;
                let to = peer.endpoint.ok_or(Dropped::UnknownPeer)?;
                if self.indices.contains_key(&index) {
                    return Err(Dropped::UnknownIndex);
                }
                let ephemeral = begun.ephemeral().clone();
                let given_up = peer.begun.replace(begun).map(|begun| begun.index);
                let mut octets = message.emit();
                peer.marker.mark(&mut octets, now);
                *out = octets;
                self.log(at, &ephemeral);
                self.release(given_up);
                self.indices.insert(index, at);
                Ok(Finished::Begun(Outgoing { peer: PeerId(at), to, len: octets.len() }))
            }
            Outcome::Answered { origin, public, timestamp, answer } => {
                let PeerId(at) = self.peer(&public).ok_or(Dropped::UnknownPeer)?;
                self.answer(now, origin, (at, &public), timestamp, answer, out)
            }
            Outcome::Ended { origin, public, message, session } => {
                let PeerId(at) = self.peer(&public).ok_or(Dropped::UnknownPeer)?;
                let peer = self.peers.get_mut(at).ok_or(Dropped::UnknownIndex)?;
                // Another answer may have arrived first, or the handshake was restarted.
                if peer.begun.as_ref().is_none_or(|begun| begun.index != message.receiver) {
                    return Err(Dropped::UnknownIndex);
                }
                peer.heard_at(origin);
                for gone in peer.finished(*session, now) {
                    self.release(gone);
                }
                Ok(Finished::Session { peer: PeerId(at) })
            }
        }
    }

    fn answer(
        &mut self,
        now: u64,
        origin: Origin,
        (at, public): (usize, &[u8; 32]),
        timestamp: Timestamp,
        answer: Answer,
        out: &mut [u8; LONGEST_HANDSHAKE],
    ) -> Result<Finished, Dropped> {
        let Answer { index, ephemeral, response, session } = answer;
        let peer = self.peers.get_mut(at).ok_or(Dropped::UnknownPeer)?;
        peer.is_fresh(timestamp, now).map_err(|stale| match stale {
            StaleError::Replayed => Dropped::OldTimestamp,
            StaleError::Flood => Dropped::Flood,
        })?;
        if self.indices.contains_key(&index) {
            return Err(Dropped::Overload);
        }
        if peer.public != *public {
            // It has changed keys: the answer, too, is made for the key heard.
            self.exchange_keys(at);
        }
        let peer = self.peers.get_mut(at).ok_or(Dropped::UnknownPeer)?;
        self.indices.insert(index, at);
        peer.heard_at(origin);
        let to = peer.endpoint.unwrap_or(origin.from);
        let gone = peer.answered(*session, now);
        let mut octets = response.emit();
        peer.marker.mark(&mut octets, now);
        out[..octets.len()].copy_from_slice(&octets);
        self.log(at, &ephemeral);
        self.release(gone);
        Ok(Finished::Answered(Outgoing { peer: PeerId(at), to, len: octets.len() }))
    }

    /// Records the keys of a handshake, if requested.
    fn log(&mut self, at: usize, ephemeral: &Secret) {
        if let (Some(log), Some(partner)) = (&mut self.key_log, self.keys.partners.get(at)) {
            log.push(KeyLogEntry {
                local_static: Zeroizing::new(*self.keys.identity.secret()),
                local_ephemeral: Zeroizing::new(**ephemeral),
                remote_static: partner.used.public,
                preshared: Zeroizing::new(*partner.preshared),
            });
        }
    }
}

/// An unused index.
fn free_index(indices: &BTreeMap<u32, usize>, world: &mut impl Environment) -> u32 {
    loop {
        let mut octets = [0; 4];
        world.random(&mut octets);
        let index = u32::from_le_bytes(octets);
        if !indices.contains_key(&index) {
            return index;
        }
    }
}

/// The next timestamp. TAI64N is ordered as a big-endian number.
fn after(timestamp: Timestamp) -> Timestamp {
    let mut next = timestamp;
    for octet in next.iter_mut().rev() {
        *octet = octet.wrapping_add(1);
        if *octet != 0 {
            break;
        }
    }
    next
}

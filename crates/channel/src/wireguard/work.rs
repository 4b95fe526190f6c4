//! The expensive parts of a handshake: two to four multiplications on the curve, a tenth of a
//! millisecond that would delay a frame, and the new session. So its keys are never on the stack of
//! a thread that forwards.
//!
//! A [`Job`] owns all its inputs, so any thread can [run](Job::run) it. It takes effect only when
//! its [`Done`] returns to the device, which then checks whether an initiation is new, or a
//! response still awaited.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use antedate_wire::wireguard::{Initiation, Response};

use super::noise::{Begun, ForgedError, Heard, Identity, Secret, Timestamp};
use super::peer::Origin;
use super::session::Session;

/// A static public key of a peer.
#[derive(Clone)]
pub(super) struct Static {
    pub(super) public: [u8; 32],
    /// The secret shared by our static key and this one.
    pub(super) shared: Secret,
}

/// Constant data of a peer, known before the first message.
#[derive(Clone)]
pub(super) struct Partner {
    /// The key to which handshakes are begun.
    pub(super) used: Static,
    /// Its other key, while it changes keys. Handshakes of either are answered.
    pub(super) other: Option<Static>,
    pub(super) preshared: Secret,
    /// See [`Settings::lane`](super::Settings::lane).
    pub(super) lane: Option<u8>,
}

/// The bits of an index that tell its lane.
const LANE: u32 = 7;

impl Partner {
    /// The index for a session with it.
    fn index(&self, random: u32) -> u32 {
        self.lane.map_or(random, |lane| random & !LANE | u32::from(lane) & LANE)
    }

    /// Its key with this public part.
    fn of(&self, public: &[u8; 32]) -> Option<&Static> {
        [Some(&self.used), self.other.as_ref()].into_iter().flatten().find(|key| key.public == *public)
    }

    /// Exchanges the keys.
    pub(super) fn exchange(&mut self) {
        if let Some(other) = &mut self.other {
            core::mem::swap(&mut self.used, other);
        }
    }
}

/// Our keys and those of all peers.
#[derive(Clone)]
pub(super) struct Keys {
    pub(super) identity: Arc<Identity>,
    pub(super) partners: Vec<Arc<Partner>>,
}

/// An expensive part of a handshake.
pub struct Job {
    pub(super) keys: Arc<Keys>,
    pub(super) task: Task,
}

pub(super) enum Task {
    /// Begin a handshake with a peer.
    Begin { at: usize, index: u32, ephemeral: Secret, timestamp: Timestamp },
    /// Answer the first message of one.
    Answer { origin: Origin, message: Initiation, index: u32, ephemeral: Secret },
    /// Complete one of ours with the second message.
    End { origin: Origin, at: usize, message: Response, begun: Begun },
}

/// A completed job. Return it to its device.
pub struct Done(pub(super) Outcome);

impl Done {
    /// The public key of the peer, if it was found.
    pub(super) const fn public(&self) -> Option<&[u8; 32]> {
        match &self.0 {
            Outcome::Begun { public, .. }
            | Outcome::Answered { public, .. }
            | Outcome::Ended { public, .. } => Some(public),
            Outcome::Forged | Outcome::UnknownPeer => None,
        }
    }
}

/// The result. It names the peer by its public key: meanwhile peers may come and go.
pub(super) enum Outcome {
    Begun { public: [u8; 32], begun: Begun, message: Initiation },
    Answered { origin: Origin, public: [u8; 32], timestamp: Timestamp, answer: Answer },
    Ended { origin: Origin, public: [u8; 32], message: Response, session: Box<Session> },
    Forged,
    UnknownPeer,
}

/// A completed answer.
pub(super) struct Answer {
    pub(super) index: u32,
    pub(super) ephemeral: Secret,
    pub(super) response: Response,
    pub(super) session: Box<Session>,
}

impl Job {
    /// Runs the job.
    pub fn run(self) -> Done {
        let Self { keys, task } = self;
        Done(match task {
            Task::Begin { at, index, ephemeral, timestamp } => {
                keys.begin(at, index, &ephemeral, &timestamp).unwrap_or(Outcome::Forged)
            }
            Task::Answer { origin, message, index, ephemeral } => {
                keys.answer(origin, &message, index, ephemeral).unwrap_or(Outcome::Forged)
            }
            Task::End { origin, at, message, begun } => {
                keys.end(origin, at, message, &begun).unwrap_or(Outcome::Forged)
            }
        })
    }
}

impl Keys {
    fn begin(
        &self,
        at: usize,
        index: u32,
        ephemeral: &Secret,
        timestamp: &Timestamp,
    ) -> Result<Outcome, ForgedError> {
        let Some(partner) = self.partners.get(at) else { return Ok(Outcome::UnknownPeer) };
        let (Static { public, shared }, index) = (&partner.used, partner.index(index));
        let (begun, message) = Begun::new(&self.identity, public, shared, ephemeral, timestamp, index)?;
        Ok(Outcome::Begun { public: *public, begun, message })
    }

    fn answer(
        &self,
        origin: Origin,
        message: &Initiation,
        index: u32,
        ephemeral: Secret,
    ) -> Result<Outcome, ForgedError> {
        let heard = Heard::new(&self.identity, message)?;
        let known = self.partners.iter().find_map(|partner| Some((partner, partner.of(&heard.initiator)?)));
        let Some((partner, key)) = known else { return Ok(Outcome::UnknownPeer) };
        let (proven, timestamp) = heard.timestamp(&key.shared)?;
        let index = partner.index(index);
        let remote = proven.index();
        let (response, keys) = proven.respond(&partner.preshared, &ephemeral, index)?;
        let session = Session::new(keys, index, remote, false).ok_or(ForgedError)?;
        let answer = Answer { index, ephemeral, response, session: Box::new(session) };
        Ok(Outcome::Answered { origin, public: key.public, timestamp, answer })
    }

    fn end(
        &self,
        origin: Origin,
        at: usize,
        message: Response,
        begun: &Begun,
    ) -> Result<Outcome, ForgedError> {
        let Some(partner) = self.partners.get(at) else { return Ok(Outcome::UnknownPeer) };
        let keys = begun.finish(&self.identity, &partner.preshared, &message)?;
        let session = Session::new(keys, message.receiver, message.sender, true).ok_or(ForgedError)?;
        Ok(Outcome::Ended { origin, public: partner.used.public, message, session: Box::new(session) })
    }
}

//! The packet numbers of a running gateway: which may be used, which are durable, when to reserve more.
//!
//! The forwarding threads count up to a limit and never wait; the control thread calls [`Ledger::refill`] and
//! [`Ledger::commit`] often enough that the limit moves before they reach it.

use antedate_wire::Sci;
use antedate_wire::macsec::An;

use crate::keys::KeyFile;
use crate::state::{Directory, Disk, KeyId, StateError, StateFault, StateFile};

/// Packet numbers left when another association takes over: seconds of the fastest traffic.
const MARGIN: u64 = 1 << 20;

/// The packet numbers of all associations of a gateway.
#[derive(Debug)]
pub struct Ledger<D: Disk = Directory> {
    state: StateFile<D>,
    transmit: Vec<Transmit>,
    receive: Vec<Receive>,
    reserve: u64,
    unwritten: bool,
}

/// A transmit association.
#[derive(Debug, Clone, Copy)]
pub struct Transmit {
    /// Its association number.
    pub an: An,
    /// The packet number to begin with.
    pub next: u64,
    /// Packet numbers below this one may be used: it is on the medium.
    pub limit: u64,
    key: KeyId,
    /// The first packet number that the suite does not have.
    end: u64,
}

impl Transmit {
    /// Whether no packet number is left, now or later.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.next >= self.end
    }

    /// Whether it is time to go on with another association, when `next` is the next packet number.
    #[must_use]
    pub fn is_near_end(&self, next: u64) -> bool {
        next >= self.end - MARGIN
    }
}

/// A receive association.
#[derive(Debug, Clone, Copy)]
pub struct Receive {
    /// The channel.
    pub sci: Sci,
    /// Its association number.
    pub an: An,
    /// The lowest packet number that is still acceptable.
    pub lowest: u64,
    key: KeyId,
}

impl<D: Disk> Ledger<D> {
    /// Reserves a first block for each association, on the medium when this returns.
    ///
    /// # Errors
    /// When nothing could be reserved, or no association has a packet number left.
    pub fn open(mut state: StateFile<D>, keys: &KeyFile, own: Sci, reserve: u64) -> Result<Self, StateError> {
        let end = keys.suite.packet_number_end();
        let mut transmit = Vec::with_capacity(keys.associations.len());
        let mut receive = Vec::new();
        for association in &keys.associations {
            let (an, key) = (association.an, KeyId::of(association));
            let next = state.next(&key)?.min(end);
            transmit.push(Transmit { an, next, limit: next.saturating_add(reserve).min(end), key, end });
            for peer in keys.peers(own) {
                receive.push(Receive { sci: peer.sci, an, lowest: state.lowest(&key, peer.sci), key });
            }
        }
        if transmit.iter().all(Transmit::is_exhausted) {
            return Err(state.error(StateFault::Exhausted));
        }
        let limits: Vec<_> = transmit.iter().map(|sa| (sa.key, sa.limit)).collect();
        state.reserve(&limits)?;
        Ok(Self { state, transmit, receive, reserve, unwritten: false })
    }

    /// The transmit associations in the order of the key file.
    #[must_use]
    pub fn transmit(&self) -> &[Transmit] {
        &self.transmit
    }

    /// The receive associations.
    #[must_use]
    pub fn receive(&self) -> &[Receive] {
        &self.receive
    }

    /// The association to transmit with: the first that is not near its end, else the first that has packet numbers
    /// left.
    #[must_use]
    pub fn encoding(&self) -> Option<An> {
        let fresh = self.transmit.iter().find(|sa| !sa.is_near_end(sa.next));
        fresh.or_else(|| self.transmit.iter().find(|sa| !sa.is_exhausted())).map(|sa| sa.an)
    }

    /// The association to go on with when `used` comes to its end. One that is near its own end takes over only when
    /// `used` has nothing left, so that two of them do not take turns.
    #[must_use]
    pub fn after(&self, used: An) -> Option<An> {
        let spent = self.transmit.iter().any(|sa| sa.an == used && sa.is_exhausted());
        let fits = |sa: &&Transmit| {
            sa.an != used && if spent { !sa.is_exhausted() } else { !sa.is_near_end(sa.next) }
        };
        self.transmit.iter().find(fits).map(|sa| sa.an)
    }

    /// Reserves more when the association has come to the middle of its reservation. Gives the new limit once it is on
    /// the medium, `None` when there was no need.
    ///
    /// # Errors
    /// When it could not be made durable. The old limit holds then; call again.
    pub fn refill(&mut self, an: An, next: u64) -> Result<Option<u64>, StateError> {
        let Some(sa) = self.transmit.iter_mut().find(|sa| sa.an == an) else { return Ok(None) };
        sa.next = sa.next.max(next).min(sa.limit);
        if sa.limit >= sa.end || sa.limit - sa.next > self.reserve / 2 {
            return Ok(None);
        }
        let limit = sa.next.saturating_add(self.reserve).min(sa.end);
        self.state.reserve(&[(sa.key, limit)])?;
        sa.limit = limit;
        Ok(Some(limit))
    }

    /// Takes note of the lowest packet number that a receive association still accepts.
    pub fn received(&mut self, sci: Sci, an: An, lowest: u64) {
        if let Some(sa) = self.receive.iter_mut().find(|sa| sa.sci == sci && sa.an == an)
            && lowest > sa.lowest
        {
            sa.lowest = lowest;
            self.unwritten = true;
        }
    }

    /// Writes what was noted since the last time, if anything was.
    ///
    /// # Errors
    /// When it could not be made durable; call again.
    pub fn commit(&mut self) -> Result<(), StateError> {
        if self.unwritten {
            let lowest = self.lowest();
            self.state.received(&lowest)?;
            self.unwritten = false;
        }
        Ok(())
    }

    /// The clean stop, after the last frame was sent: `next` says how far each association came.
    ///
    /// # Errors
    /// When it could not be made durable. Numbers are lost then, none is used twice.
    pub fn close(mut self, next: &[(An, u64)]) -> Result<(), StateError> {
        for (an, next) in next {
            if let Some(sa) = self.transmit.iter_mut().find(|sa| sa.an == *an) {
                sa.next = sa.next.max(*next);
            }
        }
        // An association that was not named keeps its reservation: nobody said how far it came.
        let named = |sa: &&Transmit| next.iter().any(|(an, _)| *an == sa.an);
        let exact: Vec<_> = self.transmit.iter().filter(named).map(|sa| (sa.key, sa.next)).collect();
        let lowest = self.lowest();
        self.state.close(&exact, &lowest)
    }

    fn lowest(&self) -> Vec<(KeyId, Sci, u64)> {
        self.receive.iter().map(|sa| (sa.key, sa.sci, sa.lowest)).collect()
    }
}

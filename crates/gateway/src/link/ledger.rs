//! The packet numbers of static keys: reserved, durable, and when to reserve more.
//!
//! The forwarding threads count up to a limit and never wait. The main thread calls
//! [`Ledger::refill`] and [`Ledger::commit`] often enough to move the limit before they reach it.
//!
//! The bounds of receiving are written about once a second, so frames of the last second before a
//! crash could be replayed after it (IEEE 802.1AE-2018, 10.6.2).

use antedate_host::numbers::{
    Bound, Directory, Disk, KeyId, NumberFile, NumbersError, NumbersErrorKind, Place, Reservation,
};
use antedate_wire::Sci;
use antedate_wire::macsec::An;

use crate::config::keys::KeyFile;

/// Packet numbers left when another association takes over: seconds of the fastest traffic.
const MARGIN: u64 = 1 << 20;

/// The packet numbers of all associations of a gateway.
#[derive(Debug)]
pub struct Ledger<D: Disk = Directory> {
    file: NumberFile<D>,
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
    /// Its packet numbers.
    pub numbers: Reservation,
}

impl Transmit {
    /// Whether to change to another association, with `next` the next packet number.
    #[must_use]
    pub fn is_near_end(&self, next: u64) -> bool {
        next >= self.numbers.end() - MARGIN
    }
}

/// A receive association.
#[derive(Debug, Clone, Copy)]
pub struct Receive {
    /// Its SCI.
    pub sci: Sci,
    /// Its association number.
    pub an: An,
    /// The lowest packet number that is still acceptable.
    pub lowest: u64,
    key: KeyId,
}

impl<D: Disk> Ledger<D> {
    /// Reserves a first block for each association, durably.
    ///
    /// # Errors
    /// When the reservation fails, or no association has a packet number left.
    pub fn open(
        mut file: NumberFile<D>,
        keys: &KeyFile,
        own: Sci,
        reserve: u64,
    ) -> Result<Self, NumbersError> {
        let end = keys.suite.packet_number_end();
        let mut transmit = Vec::with_capacity(keys.associations.len());
        let mut receive = Vec::new();
        for association in &keys.associations {
            let (an, key) = (association.an, association.numbers_id());
            transmit.push(Transmit { an, numbers: Reservation::open(&file, key, end)? });
            for peer in keys.peers(own) {
                let lowest = file.bound(&key, Place(peer.sci.0));
                receive.push(Receive { sci: peer.sci, an, lowest, key });
            }
        }
        if transmit.iter().all(|sa| sa.numbers.is_exhausted()) {
            return Err(NumbersError::new(file.path(), NumbersErrorKind::Exhausted));
        }
        Reservation::extend_all(transmit.iter_mut().map(|sa| &mut sa.numbers), &mut file, reserve)?;
        Ok(Self { file, transmit, receive, reserve, unwritten: false })
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

    /// The association to transmit with: the first one not near its end, otherwise the first one
    /// with packet numbers left.
    #[must_use]
    pub fn encoding(&self) -> Option<An> {
        let fresh = self.transmit.iter().find(|sa| !sa.is_near_end(sa.numbers.next()));
        fresh.or_else(|| self.transmit.iter().find(|sa| !sa.numbers.is_exhausted())).map(|sa| sa.an)
    }

    /// The successor of association `used`. One that is near its own end takes over only when
    /// `used` is exhausted, so that two of them do not alternate.
    #[must_use]
    pub fn after(&self, used: An) -> Option<An> {
        let spent = self.transmit.iter().any(|sa| sa.an == used && sa.numbers.is_exhausted());
        let fits = |sa: &&Transmit| {
            let left = if spent { !sa.numbers.is_exhausted() } else { !sa.is_near_end(sa.numbers.next()) };
            sa.an != used && left
        };
        self.transmit.iter().find(fits).map(|sa| sa.an)
    }

    /// Reserves more when half of the association's reservation is used. Returns the new, durable
    /// limit, or `None` when there was no need.
    ///
    /// # Errors
    /// When the write did not become durable. The old limit remains in force; call again.
    pub fn refill(&mut self, an: An, next: u64) -> Result<Option<u64>, NumbersError> {
        let Some(sa) = self.transmit.iter_mut().find(|sa| sa.an == an) else { return Ok(None) };
        sa.numbers.spend_below(next);
        sa.numbers.refill(&mut self.file, self.reserve)
    }

    /// Records the lowest packet number that a receive association accepts.
    pub fn received(&mut self, sci: Sci, an: An, lowest: u64) {
        if let Some(sa) = self.receive.iter_mut().find(|sa| sa.sci == sci && sa.an == an)
            && lowest > sa.lowest
        {
            sa.lowest = lowest;
            self.unwritten = true;
        }
    }

    /// Writes the bounds of receiving if one has risen.
    ///
    /// # Errors
    /// When the write did not become durable; call again.
    pub fn commit(&mut self) -> Result<(), NumbersError> {
        if self.unwritten {
            let bounds = self.bounds();
            self.file.raise(&bounds)?;
            self.unwritten = false;
        }
        Ok(())
    }

    /// Stops cleanly, after the last frame was sent. `next` holds the next packet number of each
    /// used association.
    ///
    /// # Errors
    /// When the write did not become durable. Numbers are lost, none is used twice.
    pub fn close(mut self, next: &[(An, u64)]) -> Result<(), NumbersError> {
        for (an, next) in next {
            if let Some(sa) = self.transmit.iter_mut().find(|sa| sa.an == *an) {
                sa.numbers.spend_below(*next);
            }
        }
        // An association that is not in `next` keeps its whole reservation.
        let named = |sa: &&Transmit| next.iter().any(|(an, _)| *an == sa.an);
        let exact: Vec<_> =
            self.transmit.iter().filter(named).map(|sa| (sa.numbers.key(), sa.numbers.next())).collect();
        let bounds = self.bounds();
        self.file.close(&exact, &bounds)
    }

    fn bounds(&self) -> Vec<Bound> {
        self.receive.iter().map(|sa| (sa.key, Place(sa.sci.0), sa.lowest)).collect()
    }
}

#[cfg(test)]
mod tests;

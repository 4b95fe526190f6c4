//! The packet numbers of static keys: which may be used, which are durable, when to reserve more.
//!
//! The forwarding threads count up to a limit and never wait. The statistics thread calls [`Ledger::refill`] and
//! [`Ledger::commit`] often enough that the limit moves before they reach it.
//!
//! A bound of receiving is written about every second, so frames of the last second before a crash could be replayed
//! after it (IEEE 802.1AE-2018, 10.6.2).

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
    /// Whether it is time to go on with another association, when `next` is the next packet number.
    #[must_use]
    pub fn is_near_end(&self, next: u64) -> bool {
        next >= self.numbers.end() - MARGIN
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

    /// The association to transmit with: the first that is not near its end, else the first that has packet numbers
    /// left.
    #[must_use]
    pub fn encoding(&self) -> Option<An> {
        let fresh = self.transmit.iter().find(|sa| !sa.is_near_end(sa.numbers.next()));
        fresh.or_else(|| self.transmit.iter().find(|sa| !sa.numbers.is_exhausted())).map(|sa| sa.an)
    }

    /// The association to go on with when `used` comes to its end. One that is near its own end takes over only when
    /// `used` has nothing left, so that two of them do not take turns.
    #[must_use]
    pub fn after(&self, used: An) -> Option<An> {
        let spent = self.transmit.iter().any(|sa| sa.an == used && sa.numbers.is_exhausted());
        let fits = |sa: &&Transmit| {
            let left = if spent { !sa.numbers.is_exhausted() } else { !sa.is_near_end(sa.numbers.next()) };
            sa.an != used && left
        };
        self.transmit.iter().find(fits).map(|sa| sa.an)
    }

    /// Reserves more when the association has come to the middle of its reservation. Returns the new limit once it is
    /// on the medium, `None` when there was no need.
    ///
    /// # Errors
    /// When it could not be made durable. The old limit holds then; call again.
    pub fn refill(&mut self, an: An, next: u64) -> Result<Option<u64>, NumbersError> {
        let Some(sa) = self.transmit.iter_mut().find(|sa| sa.an == an) else { return Ok(None) };
        sa.numbers.spend_below(next);
        sa.numbers.refill(&mut self.file, self.reserve)
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

    /// Writes the bounds of receiving if one has risen since the last call.
    ///
    /// # Errors
    /// When they could not be made durable; call again.
    pub fn commit(&mut self) -> Result<(), NumbersError> {
        if self.unwritten {
            let bounds = self.bounds();
            self.file.raise(&bounds)?;
            self.unwritten = false;
        }
        Ok(())
    }

    /// The clean stop, after the last frame was sent. `next` has the next packet number of each association that was used.
    ///
    /// # Errors
    /// When it could not be made durable. Numbers are lost then, none is used twice.
    pub fn close(mut self, next: &[(An, u64)]) -> Result<(), NumbersError> {
        for (an, next) in next {
            if let Some(sa) = self.transmit.iter_mut().find(|sa| sa.an == *an) {
                sa.numbers.spend_below(*next);
            }
        }
        // An association without a number here keeps its whole reservation.
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

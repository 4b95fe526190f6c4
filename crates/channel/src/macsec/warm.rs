//! Keeping a channel warm. While a thread waits for a frame, other work evicts the frame's code and
//! data from the caches, so a frame after a pause would find them cold.
//!
//! A [`Rehearsal`] is a practice run of the next frame's
//! path. It uses *stand-ins*, a separate channel under a key that protects nothing. It spends no
//! packet number and no prepared material of the real channels, and only reads the material for
//! their next frame.

use alloc::boxed::Box;
use core::fmt;
use core::ops::Range;

use zeroize::Zeroizing;

use super::ADDRESSES_LEN;
use super::{An, CipherSuite, ProtectError, Receive, ReceiveConfig, Sak, Sci, Transmit, TransmitConfig};
use antedate_wire::macsec::{MAX_OVERHEAD, TAG_LEN_LONG};

/// The stand-ins' channel.
const SCI: Sci = Sci([2, 0, 0, 0, 0, 0, 0, 1]);
/// The stand-ins' association.
const AN: An = An::ALL[0];
/// Octets of the longest rehearsed frame: several vectors of any width, and a remainder. Longer
/// rehearsals would load more into the L1 cache than the frame itself.
const LONGEST: usize = 256 + GRAIN;
const GRAIN: usize = 64;
/// Rehearsals prepared at a time. The memory touched by a preparation would displace the next
/// frame's.
const KEPT: usize = 8;
/// Octets before the data, so that the data starts at a cache line if the memory does.
const FRONT: usize = GRAIN - ADDRESSES_LEN;

/// [`Transmit::protect_in_place`] as inlined into the protecting function.
pub type ProtectInPlace =
    for<'a> fn(&mut Transmit, &'a mut [u8], Range<usize>) -> Result<&'a mut [u8], ProtectError>;
/// [`Receive::accept`] as inlined into the validating function: the frame, the buffer for a whole
/// one, and the result.
pub type Accept = for<'a> fn(&mut Receive, &'a mut [u8], &'a mut [u8]) -> Option<&'a mut [u8]>;

/// Rehearses frames of both directions.
pub struct Rehearsal {
    secret: Zeroizing<[u8; 32]>,
    /// Counts the stand-ins, each with its own key.
    generations: u64,
    stand_ins: Option<StandIns>,
    place: Box<[u8; FRONT + ADDRESSES_LEN + LONGEST + MAX_OVERHEAD]>,
}

struct StandIns {
    suite: CipherSuite,
    transmit: Transmit,
    receive: Receive,
    /// Octets of the frame that was protected and not yet validated.
    waits: Option<usize>,
    /// Rehearsals until the next preparation.
    prepared: usize,
}

impl Rehearsal {
    /// Rehearsals under keys derived from `secret`, random octets for this purpose only. The first
    /// rehearsal with a suite other than `suite` takes longer.
    #[must_use]
    pub fn new(secret: [u8; 32], suite: CipherSuite) -> Self {
        Self {
            stand_ins: StandIns::new(suite, &secret, 0),
            secret: Zeroizing::new(secret),
            generations: 0,
            place: Box::new([0; FRONT + ADDRESSES_LEN + LONGEST + MAX_OVERHEAD]),
        }
    }

    /// Prepares the next rehearsals. Call it when there is time: right after a sleep. Otherwise a
    /// rehearsal does it.
    #[inline(never)]
    pub fn prepare(&mut self) {
        if let Some(stand_ins) = &mut self.stand_ins {
            stand_ins.prepare();
        }
    }

    /// Protects a stand-in of the next frame by `way`, and reads the next frame's prepared
    /// material.
    pub fn protect(&mut self, next: &Transmit, way: ProtectInPlace) {
        if let Some(octets) = next.touch() {
            self.protected(next.config().suite, octets, way);
        }
    }

    /// Validates a stand-in of the next frame by `way`, and reads the next frame's prepared
    /// material. Takes the frame last protected, if there is one.
    pub fn validate(&mut self, next: &Receive, way: Accept) {
        let Some((suite, octets)) = next.touch() else { return };
        let waits = |stand_ins: &StandIns| stand_ins.suite == suite && stand_ins.waits.is_some();
        if !self.stand_ins.as_ref().is_some_and(waits) {
            self.protected(suite, octets, Transmit::protect_in_place);
        }
        if let Some(stand_ins) = &mut self.stand_ins
            && let Some(octets) = stand_ins.waits.take()
            && let Some(frame) =
                self.place.get_mut(FRONT - TAG_LEN_LONG..).and_then(|at| at.get_mut(..octets))
        {
            // The result does not matter.
            let _ = way(&mut stand_ins.receive, frame, &mut []);
        }
    }

    /// Protects `octets` of data, or fewer that take the same path.
    fn protected(&mut self, suite: CipherSuite, octets: usize, way: ProtectInPlace) {
        if self.stand_ins.as_ref().is_none_or(|stand_ins| stand_ins.suite != suite) {
            self.generations += 1;
            self.stand_ins = StandIns::new(suite, &self.secret, self.generations);
        }
        let Some(stand_ins) = &mut self.stand_ins else { return };
        if stand_ins.prepared == 0 {
            stand_ins.prepare();
        }
        stand_ins.prepared -= 1;
        let StandIns { transmit, waits, .. } = stand_ins;
        let octets = if octets < LONGEST { octets.max(2) } else { LONGEST - GRAIN + octets % GRAIN };
        let frame = FRONT..FRONT + ADDRESSES_LEN + octets;
        *waits = way(transmit, &mut self.place[..], frame).ok().map(|protected| protected.len());
        if waits.is_none() {
            // The packet numbers are used up: the next stand-ins have another key.
            self.stand_ins = None;
        }
    }
}

impl StandIns {
    fn new(suite: CipherSuite, secret: &[u8; 32], generation: u64) -> Option<Self> {
        let mut key = Zeroizing::new(*secret);
        for (octet, number) in key.iter_mut().zip(generation.to_le_bytes()) {
            *octet ^= number;
        }
        let sak = Sak::new(suite, key.get(..suite.key_len())?, suite.is_xpn().then_some([0; 12])).ok()?;
        let ssci = suite.is_xpn().then_some(1);
        let mut transmit =
            Transmit::new(TransmitConfig { ssci, prepare: KEPT, ..TransmitConfig::new(suite, SCI) }).ok()?;
        transmit.install(AN, &sak, 1, u64::MAX).ok()?;
        let mut receive = Receive::new(ReceiveConfig::new(suite));
        receive.add_peer(SCI, ssci).ok()?;
        receive.install(SCI, AN, &sak, 1).ok()?;
        let mut new = Self { suite, transmit, receive, waits: None, prepared: 0 };
        // No length is known yet, so this preparation is the longest: do it while no frame is near.
        new.prepare();
        Some(new)
    }

    fn prepare(&mut self) {
        while self.transmit.idle(u32::MAX) > 0 {}
        while self.receive.idle(u32::MAX) > 0 {}
        self.prepared = KEPT;
    }
}

impl fmt::Debug for Rehearsal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rehearsal").field("stand_ins", &self.stand_ins.as_ref().map(|one| one.suite)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::setup::*;
    use super::*;

    const ACCEPT: Accept = |receive, frame, whole| receive.accept(|| 0, frame, whole).ok().flatten();

    #[test]
    fn rehearsal_spends_no_packet_number() {
        let mut rehearsal = Rehearsal::new([9; 32], CipherSuite::GcmAes256);
        for suite in CipherSuite::ALL {
            let [mut plain, mut rehearsed] = [(); 2].map(|()| transmit(transmit_config(suite)));
            let mut receive = receive(ReceiveConfig::new(suite));
            for round in 0..150 {
                rehearsed.idle(9);
                receive.idle(9);
                if round % 3 > 0 {
                    rehearsal.protect(&rehearsed, Transmit::protect_in_place);
                }
                if round % 5 > 0 {
                    rehearsal.validate(&receive, ACCEPT);
                }
                let frame = frame(46 + round * 10);
                let protected = protect(&mut rehearsed, &frame).unwrap();
                assert_eq!(protected, protect(&mut plain, &frame).unwrap());
                assert_eq!(validate(&mut receive, &protected).unwrap(), frame);
            }
            let StandIns { transmit, receive, .. } = rehearsal.stand_ins.as_ref().unwrap();
            let [sealed, prepared] =
                [transmit.counters().out_pkts_encrypted, transmit.counters().out_prepared];
            // While frames get longer, they exceed the prepared length; from the longest rehearsal
            // on they do not.
            assert!(sealed >= 100 && prepared >= 60, "{suite}: {prepared} of {sealed}");
            assert_eq!(receive.counters().in_pkts_ok, 120, "{suite}");
        }
    }

    #[test]
    fn nothing_is_rehearsed_without_a_key() {
        let mut rehearsal = Rehearsal::new([9; 32], CipherSuite::GcmAes128);
        let transmit = Transmit::new(transmit_config(CipherSuite::GcmAes128)).unwrap();
        rehearsal.protect(&transmit, Transmit::protect_in_place);
        rehearsal.validate(&Receive::new(ReceiveConfig::new(CipherSuite::GcmAes128)), ACCEPT);
        let StandIns { transmit, receive, .. } = rehearsal.stand_ins.as_ref().unwrap();
        assert_eq!((transmit.counters().out_pkts_encrypted, receive.counters().in_pkts_ok), (0, 0));
    }

    #[test]
    fn exhausted_stand_ins_are_replaced() {
        let mut rehearsal = Rehearsal::new([9; 32], CipherSuite::GcmAes128);
        let real = transmit(transmit_config(CipherSuite::GcmAes128));
        rehearsal.protect(&real, Transmit::protect_in_place);
        let before = rehearsal.place.clone();
        let stand_ins = rehearsal.stand_ins.as_mut().unwrap();
        stand_ins.transmit.remove(AN);
        rehearsal.protect(&real, Transmit::protect_in_place);
        assert!(rehearsal.stand_ins.is_none());
        *rehearsal.place = [0; FRONT + ADDRESSES_LEN + LONGEST + MAX_OVERHEAD];
        rehearsal.protect(&real, Transmit::protect_in_place);
        assert!(rehearsal.stand_ins.is_some() && rehearsal.place != before);
    }
}

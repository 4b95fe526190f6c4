//! Prediction in schedules as they are: a cell for anybody, frames of many lengths, beacons, frames
//! for others, and forgeries.

use std::vec::Vec;

use super::super::tsch::*;
use super::super::*;
use super::setup::*;
use crate::world::Rng;

/// Octets of payload.
const PAYLOADS: [usize; 9] = [4, 9, 15, 16, 30, 33, 47, 61, 80];
/// Slots between two minimal cells.
const SLOTFRAME: u16 = 11;
const EVERYBODY: Address = Address::Short(ShortAddress::BROADCAST);

fn extended(neighbour: usize) -> ExtendedAddress {
    ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x20 + neighbour as u8])
}

/// A neighbour that sends by turns.
struct Neighbour {
    security: Security,
    dsn: u8,
    ebsn: u8,
}

/// A node of device B in the minimal cell (RFC 8180), and its neighbours.
struct Minimal<const EXPECTED: usize, const LENGTHS: usize> {
    node: Node<EXPECTED, LENGTHS>,
    neighbours: Vec<Neighbour>,
    asn: u64,
    rng: Rng,
}

impl<const EXPECTED: usize, const LENGTHS: usize> Minimal<EXPECTED, LENGTHS> {
    fn new(neighbours: usize) -> Self {
        Self::remembering(neighbours, 32)
    }

    fn remembering(neighbours: usize, habits: usize) -> Self {
        let cell = Cell { slot: 0, channel_offset: 0, kind: CellKind::Shared, neighbour: None };
        let slotframe = Slotframe { length: SLOTFRAME, cells: [cell].to_vec() };
        let schedule = Schedule::new([slotframe].to_vec(), (11..=26).collect()).unwrap();
        let mut own = security(B, extended(0), NonceKind::Asn);
        (0..neighbours).for_each(|i| own.add_device(device(extended(i))));
        // Joining devices send unsecured frames.
        own.config.policy = Policy::uniform(Levels::AUTHENTICATED.with(SecurityLevel::None));
        let config = NodeConfig { habits, ..NodeConfig::new(at(LEVEL)) };
        let node = Node::sized(own, schedule, config, Asn::new(9).unwrap(), 1);
        let neighbour = |i| Neighbour {
            security: security(extended(i), B, NonceKind::Asn),
            dsn: 40 * i as u8,
            ebsn: 7 * i as u8,
        };
        Self { node, neighbours: (0..neighbours).map(neighbour).collect(), asn: 10, rng: Rng::new(7) }
    }

    /// A neighbour's frame for the next cell.
    fn frame(&mut self, neighbour: usize, beacon: bool, to: Address, payload: &[u8]) -> Vec<u8> {
        let Neighbour { security, dsn, ebsn } = &mut self.neighbours[neighbour];
        let number = if beacon { ebsn } else { dsn };
        *number = number.wrapping_add(1);
        let mut header = Header {
            ack_request: to != EVERYBODY,
            addressing: Addressing::within(PAN, to, Address::Extended(extended(neighbour))),
            ..header(*number)
        };
        if beacon {
            header.frame_type = FrameType::Beacon;
        }
        let level = if beacon { SecurityLevel::Mic32 } else { LEVEL };
        let slot = asn(u64::from(SLOTFRAME) * (self.asn / u64::from(SLOTFRAME) + 1));
        secure(security, &header, payload, level, slot).unwrap()
    }

    fn payload(&mut self) -> Vec<u8> {
        let len = PAYLOADS[self.rng.below(PAYLOADS.len())];
        (0..len).map(|_| self.rng.number() as u8).collect()
    }

    /// The next cell, with these frames on the air. Returns the frames that were delivered.
    fn cell(&mut self, frames: &[Vec<u8>]) -> usize {
        while self.node.idle(7) > 0 {}
        self.asn = u64::from(SLOTFRAME) * (self.asn / u64::from(SLOTFRAME) + 1);
        assert!(matches!(self.node.begin(asn(self.asn).unwrap()), Action::Listen { .. }));
        let mut delivered = 0;
        for frame in frames {
            let reaction = self.node.received(frame, 2120);
            delivered += usize::from(reaction.is_ok_and(|reaction| reaction.delivered.is_some()));
        }
        self.node.end();
        delivered
    }

    /// The share of prepared frames and acknowledgments, in percent.
    fn prepared(&self) -> [u64; 2] {
        let NodeCounters { prepared, unprepared, .. } = self.node.counters();
        [1, 2].map(|of| 100 * prepared[of] / (prepared[of] + unprepared[of]).max(1))
    }
}

#[test]
fn neighbours_in_turn_are_all_prepared() {
    for neighbours in [1, 2, 4] {
        let mut minimal = Minimal::<8, 9>::new(neighbours);
        for round in 0..300 {
            let payload = minimal.payload();
            let frame = minimal.frame(round % neighbours, false, Address::Extended(B), &payload);
            assert_eq!(minimal.cell(&[frame]), 1);
        }
        let prepared = minimal.prepared();
        assert!(prepared.iter().all(|share| *share >= 95), "{neighbours}: {prepared:?} %");
    }
}

#[test]
fn beacons_and_broadcasts_are_prepared() {
    let mut minimal = Minimal::<8, 9>::new(2);
    for round in 0..600 {
        let payload = minimal.payload();
        let neighbour = minimal.rng.below(2);
        let frame = match round % 4 {
            0 => minimal.frame(neighbour, true, EVERYBODY, &[9; 26]),
            1 => minimal.frame(neighbour, false, EVERYBODY, &payload),
            // A frame for another node shows the sequence number.
            2 => minimal.frame(neighbour, false, Address::Extended(A), &payload),
            _ => minimal.frame(neighbour, false, Address::Extended(B), &payload),
        };
        minimal.cell(&[frame]);
    }
    let NodeCounters { not_ours, delivered, prepared, .. } = *minimal.node.counters();
    assert_eq!((not_ours, delivered), (150, 450));
    // Of the frames for others nothing is expected.
    assert!(prepared[1] * 100 >= delivered * 95 && minimal.prepared()[1] >= 95, "{prepared:?}");
}

#[test]
fn forgeries_without_key_have_no_effect() {
    let run = |forgeries: bool| {
        let mut minimal = Minimal::<8, 9>::new(4);
        let mut forger = Security::new(config(extended(0), Policy::default()));
        let key = KeyConfig::fresh(INDEX_1, LinkKey::new([3; 16]), NonceKind::Asn);
        forger.install_key(key).unwrap();
        let (mut delivered, mut forged) = (0, 0);
        for round in 0..300u64 {
            let payload = minimal.payload();
            let mut on_air = Vec::new();
            if forgeries {
                for neighbour in 0..4 {
                    let src = Address::Extended(extended(neighbour));
                    for (frame_type, to, level) in [
                        (FrameType::Data, Address::Extended(B), SecurityLevel::None),
                        (FrameType::Beacon, EVERYBODY, SecurityLevel::None),
                        (FrameType::Command, Address::Extended(B), SecurityLevel::None),
                        (FrameType::Data, Address::Extended(B), LEVEL),
                    ] {
                        let addressing = Addressing::within(PAN, to, src);
                        let header = Header { frame_type, addressing, ..header(round as u8 ^ 0x55) };
                        let slot = asn(1_000 + 100 * round + on_air.len() as u64);
                        on_air.push(secure(&mut forger, &header, &[1; 3], level, slot).unwrap());
                    }
                }
            }
            forged += minimal.cell(&on_air);
            // In the cell of the genuine frame too.
            on_air.push(minimal.frame(round as usize % 4, false, Address::Extended(B), &payload));
            delivered += minimal.cell(&on_air);
        }
        let NodeCounters { prepared, unprepared, .. } = *minimal.node.counters();
        (prepared, unprepared, forged, delivered)
    };
    let (prepared, unprepared, _, delivered) = run(false);
    assert_eq!(delivered, 300);
    let (under_attack, unprepared_then, forged, _) = run(true);
    assert!(forged > 0, "the policy lets unsecured frames in");
    assert_eq!((under_attack, unprepared_then), (prepared, unprepared));
}

#[test]
fn a_mote_expects_what_fits_its_memory() {
    // One frame of two lengths: the neighbour heard last, as it was before.
    let mut mote = Minimal::<1, 2>::new(2);
    for round in 0..100 {
        let frame =
            mote.frame(usize::from(round >= 50), false, Address::Extended(B), &[1; 30][..20 + round % 2]);
        assert_eq!(mote.cell(&[frame]), 1);
    }
    assert_eq!(mote.prepared(), [97, 98]);
    const { assert!(preparation_len::<1, 2>() <= 1024) };
}

#[test]
fn forgotten_forms_are_learnt_again() {
    let mut minimal = Minimal::<8, 9>::remembering(4, 2);
    for round in 0..40 {
        let frame = minimal.frame(round / 10, false, Address::Extended(B), &[1; 20]);
        assert_eq!(minimal.cell(&[frame]), 1);
    }
    // The first frame of each.
    assert_eq!(minimal.node.counters().unprepared[1], 4);
}

//! Frames of the stack: protected, validated, refused.

use alloc::vec;
use alloc::vec::Vec;

use smoltcp::phy::{Device, TxToken};
use smoltcp::time::Instant;

use super::world::{MTU, World};
use crate::{OVERHEAD, RECEIVED_AT_ONCE};

const EAPOL: u16 = 0x888e;
const MACSEC: u16 = 0x88e5;
const PAYLOAD: &[u8] = b"the pressure is 7.31 bar";

/// Whether a frame shows a payload.
fn shows(frame: &[u8], payload: &[u8]) -> bool {
    frame.windows(payload.len()).any(|window| window == payload)
}

#[test]
fn datagrams_cross_and_are_not_seen() {
    let mut world = World::new();
    world.until_agreed();
    world.crosses(0, PAYLOAD);
    world.crosses(1, PAYLOAD);
    let wire = world.wire.borrow();
    let kinds = |kind: u16| wire.seen.iter().filter(|(_, frame)| frame[12..14] == kind.to_be_bytes()).count();
    // An ARP request and its reply, and the datagrams.
    assert!(kinds(MACSEC) >= 4 && kinds(EAPOL) >= 4);
    assert_eq!(kinds(MACSEC) + kinds(EAPOL), wire.seen.len(), "a frame leaves in the clear");
    assert!(wire.seen.iter().all(|(_, frame)| !shows(frame, PAYLOAD)));
}

#[test]
fn nothing_leaves_without_a_key() {
    let mut world = World::new();
    world.wire.borrow_mut().cut = true;
    world.stations[0].send(PAYLOAD);
    world.run(20);
    let station = &mut world.stations[0].device;
    assert!(!station.is_secured() && station.transmit(Instant::from_secs(200)).is_none());
    assert_eq!(station.counters().transmit.out_pkts_encrypted, 0);
    assert!(world.wire.borrow().seen.iter().all(|(_, frame)| frame[12..14] == EAPOL.to_be_bytes()));
    // The stack has kept its data.
    world.wire.borrow_mut().cut = false;
    world.until_agreed();
    world.run(3);
    assert_eq!(world.stations[1].next().as_deref(), Some(PAYLOAD));
}

#[test]
fn refused_frames_stay_below_the_stack() {
    let mut world = World::new();
    world.until_agreed();
    world.crosses(0, b"addresses are known");
    // A frame that was held back, and changes of each of its octets.
    world.wire.borrow_mut().cut = true;
    world.stations[0].send(PAYLOAD);
    world.step();
    world.wire.borrow_mut().cut = false;
    let genuine = world.last(0, MACSEC);
    for at in 0..genuine.len() {
        let mut forged = genuine.clone();
        forged[at] ^= 1;
        world.inject(1, &forged);
    }
    for len in 0..genuine.len() {
        world.inject(1, &genuine[..len]);
    }
    // The datagram in the clear, in a frame of the other station: IPv4 and UDP without checksums.
    let mut clear = [&genuine[..12], &[8, 0, 0x45, 0, 0, 52, 0, 0, 0, 0, 64, 17, 0, 0]].concat();
    clear.extend([10, 9, 0, 1, 10, 9, 0, 2, 0x12, 0x67, 0x12, 0x67, 0, 32, 0, 0]);
    clear.extend(PAYLOAD);
    let sum = clear[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    clear[24..26].copy_from_slice(&sum.to_be_bytes());
    world.inject(1, &clear);
    world.run(5);
    assert_eq!(world.stations[1].next(), None);
    // It passes once.
    (0..10).for_each(|_| world.inject(1, &genuine));
    world.run(1);
    assert_eq!(world.stations[1].next().as_deref(), Some(PAYLOAD));
    assert_eq!(world.stations[1].next(), None);
    let counters = world.stations[1].device.counters().receive;
    assert!(counters.in_pkts_late >= 9 && counters.in_pkts_not_valid >= 64, "{counters:?}");
    assert!(counters.in_pkts_no_tag > 0 && counters.in_pkts_no_sci > 0, "{counters:?}");
    assert!(counters.in_pkts_bad_tag > 0 && counters.in_pkts_not_using_sa > 0, "{counters:?}");
    assert_eq!(counters.delivered(), counters.in_pkts_ok, "{counters:?}");
    world.crosses(0, b"and it still works");
}

#[test]
fn prepared_frames_are_counted() {
    let mut world = World::new();
    world.until_agreed();
    world.crosses(0, PAYLOAD);
    let before = world.stations[0].device.counters().transmit;
    world.crosses(0, PAYLOAD);
    let counters = world.stations[0].device.counters().transmit;
    assert_eq!(counters.out_prepared - before.out_prepared, 1);
    assert_eq!(counters.out_pkts_encrypted - before.out_pkts_encrypted, 1);
    assert_eq!(world.stations[0].device.prepare(1000), 0, "all is prepared");
}

#[test]
fn mtu_is_lowered_by_the_overhead() {
    let mut world = World::new();
    world.until_agreed();
    assert_eq!(world.stations[0].device.capabilities().max_transmission_unit, MTU - OVERHEAD);
    // Headers of Ethernet, IPv4 and UDP.
    let longest: Vec<u8> = (0..MTU - OVERHEAD - 42).map(|at| at as u8).collect();
    world.crosses(0, &longest);
    assert_eq!(world.last(0, MACSEC).len(), MTU);
    // A stack that asks for more loses the frame, and sends nothing.
    let (device, frames) = (&mut world.stations[0].device, world.wire.borrow().seen.len());
    let token = device.transmit(world.now).expect("a key");
    let len = token.consume(MTU, |frame| {
        frame.fill(1);
        frame.len()
    });
    assert_eq!((len, device.counters().transmit.out_pkts_too_long), (MTU, 1));
    // A frame without an EtherType cannot be protected.
    device.transmit(world.now).expect("a key").consume(12, |frame| frame.fill(1));
    assert_eq!(device.counters().transmit.out_discarded_malformed, 1);
    assert_eq!(world.wire.borrow().seen.len(), frames);
}

#[test]
fn flood_is_taken_in_parts() {
    let mut world = World::new();
    world.until_agreed();
    let forged = vec![7; 200];
    let count = 3 * RECEIVED_AT_ONCE;
    (0..count).for_each(|_| world.inject(1, &forged));
    let (now, device) = (world.now, &mut world.stations[1].device);
    assert!(device.receive(now).is_none());
    assert_eq!(world.wire.borrow().to[1].len(), count - RECEIVED_AT_ONCE);
    assert_eq!(device.poll(now), now, "it wants to be called again at once");
    while device.receive(now).is_some() || !world.wire.borrow().to[1].is_empty() {}
    assert!(device.receive(now).is_none() && device.poll(now) > now);
}

#[test]
fn frame_waits_for_space_of_its_answer() {
    let mut world = World::new();
    world.until_agreed();
    world.crosses(0, PAYLOAD);
    world.stations[0].send(b"a question");
    world.stations[0].pass(world.now);
    world.wire.borrow_mut().full = true;
    let now = world.now;
    assert!(world.stations[1].device.receive(now).is_none());
    assert_eq!(world.stations[1].device.poll(now), now);
    world.wire.borrow_mut().full = false;
    world.run(1);
    assert_eq!(world.stations[1].next().as_deref(), Some(&b"a question"[..]));
}

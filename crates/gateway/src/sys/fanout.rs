//! The frames of one port for several threads (`packet(7)`, PACKET_FANOUT): the kernel puts each
//! into the ring of one of them.
//!
//! - from the field by flow ([`field`]), so that the frames of a flow stay in order; those that
//!   probably have a deadline all into the first thread's ring, see [`super::lanes`]. Or all to the
//!   first thread ([`share`])
//! - from the uplink by secure channel ([`uplink`]), so that each channel with its replay window
//!   has one owner
//! - from the field of an overlay by destination ([`field_by_machine`]), so that each peer has one
//!   owner
//!
//! The flow is what the kernel's flow dissector finds: IP addresses and ports, the same for both
//! directions; frames without IP are one flow. A fragment of a datagram has no ports, so that it may
//! overtake unfragmented datagrams of its flow. Where sharing begins and ends at run time, a program
//! finds the flow, since the dissector cannot be exchanged.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use antedate_wire::{EtherType, EthernetAddress};

use super::age::Bounds;
use super::filter::{Filter, Lane};
use super::interface::Interface;
use super::lanes::{Lanes, URGENT_SLOTS};
use super::packet::{Receiver, SLOTS};
use super::{check, set_option_of};

const PACKET_FANOUT: libc::c_int = 18;
const PACKET_FANOUT_DATA: libc::c_int = 22;
const BY_HASH: u32 = 0;
const BY_PROGRAM: u32 = 6;
/// The kernel chooses the group's number (PACKET_FANOUT_FLAG_UNIQUEID, Linux 4.12).
const NEW_GROUP: u32 = 0x2000;
/// As PACKET_IGNORE_OUTGOING, which a group does not take from its sockets (Linux 5.12).
const IGNORE_OUTGOING: u32 = 0x4000;

/// Slots of a ring that no frame enters.
const UNUSED_SLOTS: usize = 64;

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_OCTET: u16 = 0x30;
const LOAD_WORD_BEHIND: u16 = 0x40;
const JUMP: u16 = 0x05;
const LOAD_KEPT: u16 = 0x60;
const KEEP: u16 = 0x02;
const INDEX_BY_HEADER: u16 = 0xb1;
const INDEX: u16 = 0x07;
const ADD_INDEX: u16 = 0x0c;
const XOR_INDEX: u16 = 0xac;
const MULTIPLY: u16 = 0x24;
const SHIFT: u16 = 0x74;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
const RETURN_LOADED: u16 = 0x16;
/// The EtherType, of metadata (`SKF_AD_PROTOCOL`).
const PROTOCOL: u32 = 0xffff_f000;
const MACSEC: u32 = EtherType::Macsec.number() as u32;
/// The flag of an explicit SCI in the first octet of a SecTAG (IEEE 802.1AE-2018, 9.5).
const SC: u32 = 0x20;
/// Offset of the SCI's port number in a SecTAG, behind its EtherType.
const PORT: u32 = 12;

/// The port number of a frame's SCI; 0 for other frames. The kernel takes the remainder by the
/// number of rings.
///
/// Offsets begin behind the Ethernet header, and the first VLAN tag is not in the frame. One more
/// may be.
const OWNER: [(u16, u8, u8, u32); 15] = [
    (LOAD_HALF, 0, 0, PROTOCOL),
    (IF_EQUAL, 8, 0, MACSEC),
    (IF_EQUAL, 1, 0, 0x8100),
    (IF_EQUAL, 0, 10, 0x88a8),
    (LOAD_HALF, 0, 0, 2),
    (IF_EQUAL, 0, 8, MACSEC),
    (LOAD_OCTET, 0, 0, 4),
    (IF_SET, 0, 6, SC),
    (LOAD_HALF, 0, 0, 4 + PORT),
    (RETURN_LOADED, 0, 0, 0),
    (LOAD_OCTET, 0, 0, 0),
    (IF_SET, 0, 2, SC),
    (LOAD_HALF, 0, 0, PORT),
    (RETURN_LOADED, 0, 0, 0),
    (RETURN, 0, 0, 0),
];

const IPV4: u32 = EtherType::Ipv4.number() as u32;
const IPV6: u32 = EtherType::Ipv6.number() as u32;
const TCP: u32 = 6;
const UDP: u32 = 17;
/// *More fragments* and the offset of an IPv4 packet.
const FRAGMENT: u32 = 0x3fff;
/// Spreads a difference in any bit over the upper bits of a product: 2^32 by the golden ratio.
const MIX: u32 = 0x9e37_79b1;

/// A hash of the addresses, and of the ports of TCP and UDP; 0 for frames without IP and those too
/// short for it. The kernel takes the remainder by the number of rings.
///
/// Offsets begin behind the Ethernet header, and the first VLAN tag is not in the frame. Behind a
/// second one, frames have no flow.
const FLOW: [(u16, u8, u8, u32); 56] = [
    (LOAD_HALF, 0, 0, PROTOCOL),
    (IF_EQUAL, 2, 0, IPV4),
    (IF_EQUAL, 15, 0, IPV6),
    (RETURN, 0, 0, 0),
    // IPv4: addresses, and ports of a whole packet.
    (LOAD_WORD, 0, 0, 12),
    (INDEX, 0, 0, 0),
    (LOAD_WORD, 0, 0, 16),
    (ADD_INDEX, 0, 0, 0),
    (KEEP, 0, 0, 0),
    (LOAD_OCTET, 0, 0, 9),
    (IF_EQUAL, 1, 0, TCP),
    (IF_EQUAL, 0, 37, UDP),
    (LOAD_HALF, 0, 0, 6),
    (IF_SET, 35, 0, FRAGMENT),
    (INDEX_BY_HEADER, 0, 0, 0),
    (LOAD_WORD_BEHIND, 0, 0, 0),
    (INDEX, 0, 0, 0),
    (JUMP, 0, 0, 28),
    // IPv6: addresses, and ports without extension headers.
    (LOAD_WORD, 0, 0, 8),
    (INDEX, 0, 0, 0),
    (LOAD_WORD, 0, 0, 12),
    (ADD_INDEX, 0, 0, 0),
    (INDEX, 0, 0, 0),
    (LOAD_WORD, 0, 0, 16),
    (ADD_INDEX, 0, 0, 0),
    (INDEX, 0, 0, 0),
    (LOAD_WORD, 0, 0, 20),
    (ADD_INDEX, 0, 0, 0),
    (INDEX, 0, 0, 0),
    (LOAD_WORD, 0, 0, 24),
    (ADD_INDEX, 0, 0, 0),
    (INDEX, 0, 0, 0),
    (LOAD_WORD, 0, 0, 28),
    (ADD_INDEX, 0, 0, 0),
    (INDEX, 0, 0, 0),
    (LOAD_WORD, 0, 0, 32),
    (ADD_INDEX, 0, 0, 0),
    (INDEX, 0, 0, 0),
    (LOAD_WORD, 0, 0, 36),
    (ADD_INDEX, 0, 0, 0),
    (KEEP, 0, 0, 0),
    (LOAD_OCTET, 0, 0, 6),
    (IF_EQUAL, 1, 0, TCP),
    (IF_EQUAL, 0, 5, UDP),
    (LOAD_WORD, 0, 0, 40),
    (INDEX, 0, 0, 0),
    // Both: the ports are in the index.
    (LOAD_KEPT, 0, 0, 0),
    (ADD_INDEX, 0, 0, 0),
    (KEEP, 0, 0, 0),
    (LOAD_KEPT, 0, 0, 0),
    (INDEX, 0, 0, 0),
    (SHIFT, 0, 0, 16),
    (XOR_INDEX, 0, 0, 0),
    (MULTIPLY, 0, 0, MIX),
    (SHIFT, 0, 0, 24),
    (RETURN_LOADED, 0, 0, 0),
];

/// The first thread's ring for all frames.
const ALONE: [(u16, u8, u8, u32); 1] = [(RETURN, 0, 0, 0)];

/// Offset of the Ethernet header (`SKF_LL_OFF`).
const ETHERNET: u32 = 0xffe0_0000;
/// The most machines in a program, which has 4096 instructions at most.
pub const MACHINES: usize = 1600;
/// Machines that are compared one after the other.
const IN_A_ROW: usize = 8;

/// The thread of each machine by the last four octets of its address, for frames to it; 0 for others.
/// Machines that share these octets with another one may have its thread.
fn destinations(machines: &[(EthernetAddress, u8)]) -> Vec<(u16, u8, u8, u32)> {
    let key = |EthernetAddress([_, _, a, b, c, d]): EthernetAddress| u32::from_be_bytes([a, b, c, d]);
    let mut keys: Vec<_> = machines.iter().take(MACHINES).map(|(at, thread)| (key(*at), *thread)).collect();
    keys.sort_unstable();
    keys.dedup_by_key(|(key, _)| *key);
    let mut program = vec![(LOAD_WORD, 0, 0, ETHERNET + 2)];
    among(&keys, &mut program);
    program
}

/// Adds the search among sorted keys, by halves.
fn among(keys: &[(u32, u8)], program: &mut Vec<(u16, u8, u8, u32)>) {
    if keys.len() <= IN_A_ROW {
        let tests = keys
            .iter()
            .flat_map(|(key, thread)| [(IF_EQUAL, 0, 1, *key), (RETURN, 0, 0, u32::from(*thread))]);
        program.extend(tests.chain([(RETURN, 0, 0, 0)]));
        return;
    }
    let (low, high) = keys.split_at(keys.len() / 2);
    let middle = high.first().map_or(0, |(key, _)| *key);
    program.push((IF_AT_LEAST, 0, 1, middle));
    let at = program.len();
    program.push((JUMP, 0, 0, 0));
    among(low, program);
    program[at].3 = (program.len() - at - 1) as u32;
    among(high, program);
}

/// Who finds the flows of a field port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// The kernel's flow dissector, all the time.
    Always,
    /// A program. At first all frames are the first thread's, see [`share`].
    Agreed,
}

/// Opens the rings of the field port for so many threads. A cache line begins `head` octets after
/// the start of a frame ([`Receiver::open`]).
///
/// # Errors
/// Without `CAP_NET_RAW` (`PermissionDenied`), or when the kernel refuses an option.
pub fn field(
    interface: &Interface,
    head: usize,
    bounds: Bounds,
    (threads, sharing): (usize, Sharing),
) -> io::Result<Vec<Lanes>> {
    let by = if sharing == Sharing::Always { BY_HASH } else { BY_PROGRAM };
    let rest = Group::open(interface, head, (Lane::Rest, SLOTS), bounds, (threads, by))?;
    if sharing == Sharing::Agreed {
        share(rest.first()?, false)?;
    }
    let rest = rest.admitting()?;
    let mut lanes = Vec::with_capacity(threads);
    for (thread, rest) in rest.into_iter().enumerate() {
        let urgent = if thread == 0 {
            Receiver::open_lane(interface, head, URGENT_SLOTS, &Filter::lane(Lane::Urgent))?
        } else {
            Receiver::open_lane(interface, head, UNUSED_SLOTS, &Filter::nothing())?
        };
        lanes.push(Lanes::of(urgent.bounded(bounds), rest));
    }
    Ok(lanes)
}

/// Opens the rings of the uplink for so many threads. The frames of the secure channel with port
/// number *n* are those of thread *n* modulo `threads`, counted from 0.
///
/// # Errors
/// As [`field`].
pub fn uplink(interface: &Interface, head: usize, bounds: Bounds, threads: usize) -> io::Result<Vec<Lanes>> {
    both(interface, head, bounds, threads, &OWNER)
}

/// Opens both rings for each of so many threads, which share the frames by this program.
fn both(
    interface: &Interface,
    head: usize,
    bounds: Bounds,
    threads: usize,
    program: &[(u16, u8, u8, u32)],
) -> io::Result<Vec<Lanes>> {
    let open = |lane| Group::open(interface, head, lane, bounds, (threads, BY_PROGRAM));
    let groups = [open((Lane::Urgent, URGENT_SLOTS))?, open((Lane::Rest, SLOTS))?];
    for group in &groups {
        follow(group.first()?, program)?;
    }
    let [urgent, rest] = groups;
    let pairs = urgent.admitting()?.into_iter().zip(rest.admitting()?);
    Ok(pairs.map(|(urgent, rest)| Lanes::of(urgent, rest)).collect())
}

/// Opens the rings of an overlay's field port for so many threads. At first all frames are the first
/// thread's, see [`direct`].
///
/// # Errors
/// As [`field`].
pub fn field_by_machine(interface: &Interface, bounds: Bounds, threads: usize) -> io::Result<Vec<Lanes>> {
    both(interface, 0, bounds, threads, &ALONE)
}

/// Gives each thread the frames to its machines: of [`MACHINES`] at most. All others go to the first
/// one. `rings` are those of one thread ([`Lanes::groups`]).
///
/// # Errors
/// When the kernel refuses.
pub fn direct(rings: [BorrowedFd<'_>; 2], machines: &[(EthernetAddress, u8)]) -> io::Result<()> {
    let program = destinations(machines);
    rings.into_iter().try_for_each(|ring| follow(ring, &program))
}

/// Has all threads share the frames of a field port opened with [`Sharing::Agreed`], or gives all to
/// the first one. `ring` is one of those that share. Takes some milliseconds, in which frames flow.
///
/// # Errors
/// When the kernel refuses.
pub fn share(ring: BorrowedFd<'_>, shared: bool) -> io::Result<()> {
    follow(ring, if shared { &FLOW } else { &ALONE })
}

/// Chooses the ring of a frame by this program, in the group of this socket.
fn follow(socket: BorrowedFd<'_>, program: &[(u16, u8, u8, u32)]) -> io::Result<()> {
    let mut program: Vec<_> =
        program.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let whole = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // The kernel copies the program, which outlives the call.
    set_option_of(socket.as_raw_fd(), libc::SOL_PACKET, PACKET_FANOUT_DATA, &whole)
}

/// The rings of one lane, which share its frames. They take none before all are there.
struct Group {
    rings: Vec<Receiver>,
    lane: Lane,
}

impl Group {
    fn open(
        interface: &Interface,
        head: usize,
        (lane, slots): (Lane, usize),
        bounds: Bounds,
        (count, by): (usize, u32),
    ) -> io::Result<Self> {
        let mut rings = Vec::with_capacity(count);
        let mut number = None;
        for _ in 0..count {
            let ring = Receiver::open_lane(interface, head, slots, &Filter::nothing())?.bounded(bounds);
            number = Some(join(ring.as_raw_fd(), number, by)?);
            rings.push(ring);
        }
        Ok(Self { rings, lane })
    }

    /// A socket of the group.
    fn first(&self) -> io::Result<BorrowedFd<'_>> {
        self.rings.first().map(AsFd::as_fd).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Takes frames from now on.
    fn admitting(self) -> io::Result<Vec<Receiver>> {
        let filter = Filter::lane(self.lane);
        self.rings.iter().try_for_each(|ring| ring.filter(&filter))?;
        Ok(self.rings)
    }
}

/// Adds a bound socket to a group, or to a new one. Returns its number. The first socket of a group
/// has place 0, the next one 1. When the link goes down all leave, and when it comes up they join
/// again in the order in which they were made.
fn join(socket: RawFd, group: Option<u32>, by: u32) -> io::Result<u32> {
    let kind = by | IGNORE_OUTGOING | if group.is_none() { NEW_GROUP } else { 0 };
    set_option_of(socket, libc::SOL_PACKET, PACKET_FANOUT, &(group.unwrap_or(0) | kind << 16))?;
    let mut joined: u32 = 0;
    let mut length = mem::size_of_val(&joined) as libc::socklen_t;
    // SAFETY: both pointers are to live values of the given lengths.
    check(unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_PACKET,
            PACKET_FANOUT,
            ptr::from_mut(&mut joined).cast(),
            &raw mut length,
        )
    })?;
    Ok(joined & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel does, on what follows the Ethernet header. A load behind the
    /// end ends it with 0.
    fn owner(protocol: u16, behind: &[u8]) -> u32 {
        result(&OWNER, protocol, behind)
    }

    fn result(program: &[(u16, u8, u8, u32)], protocol: u16, behind: &[u8]) -> u32 {
        let load = |at: u32, octets: usize| {
            let at = at as usize;
            Some(behind.get(at..at + octets)?.iter().fold(0, |value, octet| value << 8 | u32::from(*octet)))
        };
        let (mut value, mut index, mut kept, mut at) = (0u32, 0u32, 0, 0);
        loop {
            let (code, yes, no, k) = program[at];
            at += 1;
            let mut jump = |holds: bool| at += usize::from(if holds { yes } else { no });
            match (code, k) {
                (RETURN, k) => return k,
                (RETURN_LOADED, _) => return value,
                (LOAD_HALF, PROTOCOL) => value = protocol.into(),
                (LOAD_WORD | LOAD_HALF | LOAD_OCTET | LOAD_WORD_BEHIND, k) => {
                    let (at, octets) = match code {
                        LOAD_WORD_BEHIND => (k + index, 4),
                        LOAD_WORD => (k, 4),
                        LOAD_HALF => (k, 2),
                        _ => (k, 1),
                    };
                    match load(at, octets) {
                        Some(loaded) => value = loaded,
                        None => return 0,
                    }
                }
                (INDEX_BY_HEADER, k) => match load(k, 1) {
                    Some(loaded) => index = 4 * (loaded & 0xf),
                    None => return 0,
                },
                (INDEX, _) => index = value,
                (KEEP, _) => kept = value,
                (LOAD_KEPT, _) => value = kept,
                (ADD_INDEX, _) => value = value.wrapping_add(index),
                (XOR_INDEX, _) => value ^= index,
                (MULTIPLY, k) => value = value.wrapping_mul(k),
                (SHIFT, k) => value >>= k,
                (JUMP, k) => at += k as usize,
                (IF_EQUAL, k) => jump(value == k),
                (IF_AT_LEAST, k) => jump(value >= k),
                (IF_SET, k) => jump(value & k != 0),
                other => panic!("unknown instruction {other:?}"),
            }
        }
    }

    #[test]
    fn each_machine_has_its_thread() {
        for count in [0, 1, 2, 7, 8, 9, 16, 17, 100, MACHINES, MACHINES + 5] {
            let address = |number: usize| {
                let spread = (number as u32).wrapping_mul(MIX).to_be_bytes();
                EthernetAddress([2, 0, spread[0], spread[1], spread[2], spread[3]])
            };
            let machines: Vec<_> =
                (0..count).map(|number| (address(number), 1 + (number % 7) as u8)).collect();
            let mut program = destinations(&machines);
            assert!(program.len() <= 4096, "{count} machines: {} instructions", program.len());
            assert_eq!(program[0].3, ETHERNET + 2);
            // The frame of the test begins with its Ethernet header.
            program[0].3 = 2;
            for (address, thread) in &machines[..count.min(MACHINES)] {
                assert_eq!(result(&program, 0x0800, &address.0), u32::from(*thread), "{count}");
            }
            for number in count.min(MACHINES)..count + 50 {
                assert_eq!(result(&program, 0x0800, &address(number).0), 0, "{count}");
            }
        }
    }

    /// A SecTAG behind its EtherType, with this control octet and port number.
    fn tag(control: u8, port: u16) -> Vec<u8> {
        [&[control, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1][..], &port.to_be_bytes(), &[0xee; 40]].concat()
    }

    #[test]
    fn owner_of_a_channel_is_its_port_number() {
        for port in [0, 1, 2, 7, 0x0100, 0x8001, 0xffff] {
            assert_eq!(owner(0x88e5, &tag(0x2c, port)), u32::from(port));
            for tpid in [0x8100, 0x88a8] {
                let tagged = [&[0xe0, 0x05, 0x88, 0xe5][..], &tag(0x2f, port)].concat();
                assert_eq!(owner(tpid, &tagged), u32::from(port), "{tpid:x}");
            }
        }
    }

    /// A packet over IPv4 with four octets of options, or IPv6.
    fn packet(six: bool, protocol: u8, last: [u8; 2], ports: [u16; 2]) -> Vec<u8> {
        let mut packet = if six {
            let mut packet = vec![0x60, 0, 0, 0, 0, 28, protocol, 64];
            last.iter()
                .for_each(|last| packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, *last]));
            packet
        } else {
            let mut packet = vec![0x46, 0, 0, 52, 0, 9, 0, 0, 64, protocol, 1, 2];
            last.iter().for_each(|last| packet.extend([10, 7, 0, *last]));
            packet.extend([1, 1, 1, 0]);
            packet
        };
        ports.iter().for_each(|port| packet.extend(port.to_be_bytes()));
        packet.extend([7; 24]);
        packet
    }

    fn flow(six: bool, packet: &[u8]) -> u32 {
        result(&FLOW, if six { 0x86dd } else { 0x0800 }, packet)
    }

    #[test]
    fn flows_are_spread_evenly() {
        for six in [false, true] {
            for threads in [2, 3, 8] {
                // Connections of one machine: clients often take each second port.
                let mut counts = vec![0; threads as usize];
                for flow_number in 0..400 {
                    let packet = packet(six, 6, [1, 2], [40_000 + 2 * flow_number, 443]);
                    counts[(flow(six, &packet) % threads) as usize] += 1;
                }
                let even = 400 / threads as i32;
                assert!(counts.iter().all(|count: &i32| (count - even).abs() < even / 2), "{six} {counts:?}");
                // Machines with one connection each.
                let mut counts = vec![0; threads as usize];
                for machine in 0..200 {
                    let packet = packet(six, 17, [machine, 250], [5000, 5000]);
                    counts[(flow(six, &packet) % threads) as usize] += 1;
                }
                let even = 200 / threads as i32;
                assert!(counts.iter().all(|count: &i32| (count - even).abs() < even / 2), "{six} {counts:?}");
            }
        }
    }

    #[test]
    fn packets_of_a_flow_stay_together() {
        for six in [false, true] {
            let one = packet(six, 17, [1, 2], [5000, 6000]);
            let mut other = one.clone();
            // Length, identification, hop limit or checksum, and data.
            let changes: &[usize] = if six { &[3, 5, 7, 50] } else { &[3, 5, 8, 10, 40] };
            changes.iter().for_each(|at| other[*at] ^= 0x21);
            assert_eq!(flow(six, &one), flow(six, &other));
            for (last, ports) in [([1, 3], [5000, 6000]), ([1, 2], [5000, 6001]), ([9, 2], [5000, 6000])] {
                assert_ne!(flow(six, &one), flow(six, &packet(six, 17, last, ports)));
            }
            // What follows another protocol is no port.
            let ping = |data: u16| flow(six, &packet(six, 1, [1, 2], [data, data]));
            assert_eq!(ping(1), ping(2));
        }
        // Fragments of a datagram: only the first one has ports.
        let mut pieces = [packet(false, 17, [1, 2], [5000, 6000]), packet(false, 17, [1, 2], [1, 2])];
        pieces[0][6] = 0x20;
        pieces[1][7] = 9;
        assert_eq!(flow(false, &pieces[0]), flow(false, &pieces[1]));
    }

    #[test]
    fn frames_without_a_flow_are_the_first_ones() {
        assert_eq!(result(&FLOW, 0x8892, &[0x80; 60]), 0);
        assert_eq!(result(&FLOW, 0x8100, &packet(false, 17, [1, 2], [3, 4])), 0);
        for six in [false, true] {
            let whole = packet(six, 6, [1, 2], [3, 4]);
            assert_ne!(flow(six, &whole), 0);
            let ports = if six { 40 } else { 24 };
            assert_eq!(flow(six, &whole[..ports + 3]), 0);
        }
        assert_eq!(result(&ALONE, 0x0800, &packet(false, 17, [1, 2], [3, 4])), 0);
    }

    #[test]
    fn frames_without_an_sci_are_the_first_ones() {
        assert_eq!(owner(0x88e5, &tag(0x0c, 3)), 0, "these octets are data");
        assert_eq!(owner(0x88e5, &tag(0x2c, 3)[..13]), 0, "too short");
        assert_eq!(owner(0x0800, &tag(0x2c, 3)), 0);
        assert_eq!(owner(0x8100, &[&[0, 5, 0x08, 0x00][..], &tag(0x2c, 3)].concat()), 0);
        assert_eq!(owner(0x8100, &[&[0, 5, 0x88, 0xe5][..], &tag(0x0c, 3)].concat()), 0);
        assert_eq!(owner(0x8100, &[]), 0);
    }
}

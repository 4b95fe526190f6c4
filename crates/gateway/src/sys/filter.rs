//! Programs of the kernel's packet filter (`socket(7)`, `SO_ATTACH_FILTER`; S. McCanne and V.
//! Jacobson, "The BSD Packet Filter", USENIX 1993), which select the frames and datagrams of a
//! socket.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use antedate_wire::EtherType;

use super::set_option;

/// Instructions, with the numbers of `linux/filter.h`.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_OCTET: u16 = 0x30;
const LOAD_LENGTH: u16 = 0x80;
const LOAD_HALF_BEHIND: u16 = 0x48;
const LOAD_OCTET_BEHIND: u16 = 0x50;
const INDEX_BY_HEADER: u16 = 0xb1;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_GREATER: u16 = 0x25;
const IF_AT_LEAST: u16 = 0x35;
const IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
const RETURN_LOADED: u16 = 0x16;
/// Offset of a frame's metadata (`SKF_AD_OFF`).
const BESIDE: u32 = 0xffff_f000;
const KIND_OF_PACKET: u32 = BESIDE + 4;
const VLAN_TAG: u32 = BESIDE + 44;
const HAS_VLAN_TAG: u32 = BESIDE + 48;
/// The frame is addressed to this machine (`PACKET_HOST`).
const TO_US: u32 = 0;
const ALL: u32 = 0x4_0000;

/// A filter program.
#[derive(Debug, Clone)]
pub struct Filter(Vec<libc::sock_filter>);

/// The datagrams that a packet socket accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagrams {
    /// Unfragmented ones, and first fragments.
    All,
    /// First fragments.
    FirstPieces,
}

/// The place of a thread among several that share the WireGuard messages of a UDP port: the one whose
/// number is in the low three bits of the receiver's index has the message, and the first one has all
/// that have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 0 on.
    pub own: u8,
    /// The number of threads, at most 8.
    pub of: u8,
}

/// Types of WireGuard messages with a receiver's index: from a response on, up to data (WireGuard
/// paper, section 5.4).
const RESPONSE: u32 = 2;
const DATA: u32 = 4;
/// Offset of the octet with the low bits of that index, in a response and in the others.
const RECEIVER: [u32; 2] = [8, 4];
/// Its bits that tell the thread.
const THREAD: u32 = 7;

/// Loads the thread's number of a WireGuard message `at` octets behind the index register, by `load`.
/// A message without a number jumps to the end that has `none`.
fn thread_of(load: u16, at: u32, none: u8) -> [(u16, u8, u8, u32); 8] {
    [
        (load, 0, 0, at),
        (IF_EQUAL, 4, 0, RESPONSE),
        (IF_AT_LEAST, 0, none, RESPONSE),
        (IF_GREATER, none, 0, DATA),
        (load, 0, 0, at + RECEIVER[1]),
        (JUMP, 0, 0, 1),
        (load, 0, 0, at + RECEIVER[0]),
        (AND, 0, 0, THREAD),
    ]
}

/// The receive rings of a port ([`super::lanes`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Frames that probably have a deadline.
    Urgent,
    /// All others.
    Rest,
}

/// The least VLAN priority of an urgent frame: Profinet's cyclic data has 6.
const URGENT_PRIORITY: u32 = 6;
/// EtherTypes of cyclic data, of events, of time, and of messages between gateways.
const URGENT: [EtherType; 13] = [
    EtherType::EtherCat,
    EtherType::Powerlink,
    EtherType::OuiExtended,
    EtherType::Goose,
    EtherType::SampledValues,
    EtherType::Sercos,
    EtherType::Mrp,
    EtherType::Ptp,
    EtherType::Prp,
    EtherType::Hsr,
    EtherType::CcLinkIe,
    EtherType::Uadp,
    EtherType::Redundancy,
];
/// Profinet's frame IDs of DCP, which has no deadline (IEC 61158-6-10).
const DCP: [u32; 2] = [0xfefc, 0xfeff];
/// Octets of the shortest frame whose SCI can be read, in front of its port number's first octet.
const BEFORE_PORT: u32 = 26;

/// The jump of a decided test: to the second end of the program.
const REFUSE: u8 = u8::MAX;
/// As [`REFUSE`]: the frame is urgent.
const IS_URGENT: u8 = REFUSE;
/// To the first end of the program.
const END: u8 = u8::MAX - 1;

impl Filter {
    /// For a packet socket: UDP over IPv4 to this machine's port, and address if given, without a
    /// VLAN. With `share`, those of one of several threads.
    #[must_use]
    pub fn datagrams(port: u16, address: Option<Ipv4Addr>, which: Datagrams, share: Option<Share>) -> Self {
        let mut program = vec![
            (LOAD_HALF, 0, 0, 12),
            (IF_EQUAL, 0, REFUSE, 0x0800),
            (LOAD_OCTET, 0, 0, 23),
            (IF_EQUAL, 0, REFUSE, 17),
            // Fragment offset, and the flag *more fragments*.
            (LOAD_HALF, 0, 0, 20),
            (IF_SET, REFUSE, 0, 0x1fff),
        ];
        if which == Datagrams::FirstPieces {
            program.push((IF_SET, 0, REFUSE, 0x2000));
        }
        if let Some(address) = address {
            program.extend([(LOAD_WORD, 0, 0, 30), (IF_EQUAL, 0, REFUSE, address.to_bits())]);
        }
        program.extend([
            (LOAD_OCTET, 0, 0, KIND_OF_PACKET),
            (IF_EQUAL, 0, REFUSE, TO_US),
            (LOAD_HALF, 0, 0, VLAN_TAG),
            (IF_SET, REFUSE, 0, 0x0fff),
            (INDEX_BY_HEADER, 0, 0, 14),
            (LOAD_HALF_BEHIND, 0, 0, 16),
            (IF_EQUAL, 0, REFUSE, port.into()),
        ]);
        if let Some(Share { own, of }) = share {
            // Behind the headers of Ethernet and UDP.
            program.extend(thread_of(LOAD_OCTET_BEHIND, 14 + 8, if own == 0 { END } else { REFUSE }));
            if own == 0 {
                program.push((IF_AT_LEAST, END, 0, of.into()));
            }
            program.push((IF_EQUAL, 0, REFUSE, own.into()));
        }
        Self::of(program)
    }

    /// For UDP sockets with one port (`SO_REUSEPORT`): the number of the socket that has a message.
    pub(super) fn steering(threads: u8) -> Self {
        let mut program = thread_of(LOAD_OCTET, 0, REFUSE).to_vec();
        program.extend([(IF_AT_LEAST, REFUSE, 0, threads.into()), (RETURN_LOADED, 0, 0, 0)]);
        Self::ending(program, [0, 0])
    }

    /// For a UDP socket: datagrams with more than this many octets of data.
    #[must_use]
    pub fn longer_than(octets: usize) -> Self {
        // The length includes UDP's header.
        Self::of(vec![(LOAD_LENGTH, 0, 0, 0), (IF_GREATER, 0, REFUSE, octets as u32 + 8)])
    }

    /// For a packet socket: the frames of a lane. Each frame is of one.
    ///
    /// On the field port EtherType and VLAN priority decide; on the uplink the priority of a VLAN tag
    /// in front of the SecTAG, and an SCI of an express channel.
    #[must_use]
    pub fn lane(lane: Lane) -> Self {
        let mut program = vec![
            (LOAD_OCTET, 0, 0, HAS_VLAN_TAG),
            (IF_EQUAL, 0, 2, 1),
            (LOAD_HALF, 0, 0, VLAN_TAG),
            (IF_AT_LEAST, IS_URGENT, 0, URGENT_PRIORITY << 13),
            // A load behind the end would refuse the frame in both lanes.
            (LOAD_LENGTH, 0, 0, 0),
            (IF_GREATER, 0, END, BEFORE_PORT),
            (LOAD_HALF, 0, 0, 12),
        ];
        program.extend(URGENT.map(|ethertype| (IF_EQUAL, IS_URGENT, 0, ethertype.number().into())));
        program.extend([
            // An explicit SCI whose port number has the mark of an express channel.
            (IF_EQUAL, 0, 4, EtherType::Macsec.number().into()),
            (LOAD_OCTET, 0, 0, 14),
            (IF_SET, 0, END, 0x20),
            (LOAD_OCTET, 0, 0, BEFORE_PORT),
            (IF_SET, IS_URGENT, END, 0x80),
            (IF_EQUAL, 0, END, EtherType::Profinet.number().into()),
            (LOAD_HALF, 0, 0, 14),
            (IF_AT_LEAST, 0, IS_URGENT, DCP[0]),
            (IF_GREATER, IS_URGENT, 0, DCP[1]),
        ]);
        match lane {
            Lane::Urgent => Self::ending(program, [0, ALL]),
            Lane::Rest => Self::ending(program, [ALL, 0]),
        }
    }

    /// Accepts everything.
    #[must_use]
    pub fn everything() -> Self {
        Self(vec![instruction((RETURN, 0, 0, ALL))])
    }

    /// Accepts nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self(vec![instruction((RETURN, 0, 0, 0))])
    }

    /// A program of tests, all of which must pass.
    fn of(tests: Vec<(u16, u8, u8, u32)>) -> Self {
        Self::ending(tests, [ALL, 0])
    }

    /// A program with two ends, the first of which follows the last test.
    fn ending(tests: Vec<(u16, u8, u8, u32)>, ends: [u32; 2]) -> Self {
        let first = tests.len();
        let to = |at: usize, jump: u8| match jump {
            END => (first - at - 1) as u8,
            REFUSE => (first - at) as u8,
            near => near,
        };
        let tests = tests
            .into_iter()
            .enumerate()
            .map(|(at, (code, yes, no, value))| instruction((code, to(at, yes), to(at, no), value)));
        Self(tests.chain(ends.map(|octets| instruction((RETURN, 0, 0, octets)))).collect())
    }

    /// Makes a socket accept only what passes the filter.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach(&self, socket: &OwnedFd) -> io::Result<()> {
        self.attach_as(socket, libc::SO_ATTACH_FILTER)
    }

    /// Makes the sockets with one port choose among themselves by this program.
    pub(super) fn attach_to_port(&self, socket: &OwnedFd) -> io::Result<()> {
        self.attach_as(socket, libc::SO_ATTACH_REUSEPORT_CBPF)
    }

    fn attach_as(&self, socket: &OwnedFd, option: libc::c_int) -> io::Result<()> {
        let program = libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        // The kernel copies the program, which outlives the call.
        set_option(socket, libc::SOL_SOCKET, option, &program)
    }
}

const fn instruction((code, jt, jf, k): (u16, u8, u8, u32)) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program as the kernel does, on a frame whose VLAN tag is beside it. Returns whether
    /// the frame passes. A load behind the end refuses.
    fn passes(filter: &Filter, tag: Option<u16>, frame: &[u8]) -> bool {
        result(filter, tag, frame) > 0
    }

    fn result(filter: &Filter, tag: Option<u16>, frame: &[u8]) -> u32 {
        let load = |at: u32, octets: usize| {
            let at = at as usize;
            let loaded = frame.get(at..at + octets)?;
            Some(loaded.iter().fold(0, |value, octet| value << 8 | u32::from(*octet)))
        };
        let (mut value, mut index, mut at) = (0u32, 0u32, 0usize);
        loop {
            let libc::sock_filter { code, jt, jf, k } = filter.0[at];
            at += 1;
            let mut jump = |holds: bool| at += usize::from(if holds { jt } else { jf });
            match (code, k) {
                (RETURN, octets) => return octets,
                (RETURN_LOADED, _) => return value,
                (AND, bits) => value &= bits,
                (JUMP, far) => at += far as usize,
                (INDEX_BY_HEADER, _) => index = 4 * (load(k, 1).unwrap_or(0) & 0xf),
                (LOAD_OCTET, HAS_VLAN_TAG) => value = tag.is_some().into(),
                (LOAD_OCTET, KIND_OF_PACKET) => value = TO_US,
                (LOAD_HALF, VLAN_TAG) => value = tag.unwrap_or(0).into(),
                (LOAD_LENGTH, _) => value = frame.len() as u32,
                (LOAD_OCTET | LOAD_HALF | LOAD_WORD | LOAD_OCTET_BEHIND | LOAD_HALF_BEHIND, _) => {
                    let (at, octets) = match code {
                        LOAD_OCTET => (k, 1),
                        LOAD_HALF => (k, 2),
                        LOAD_WORD => (k, 4),
                        LOAD_OCTET_BEHIND => (k + index, 1),
                        _ => (k + index, 2),
                    };
                    match load(at, octets) {
                        Some(loaded) => value = loaded,
                        None => return 0,
                    }
                }
                (IF_EQUAL, _) => jump(value == k),
                (IF_GREATER, _) => jump(value > k),
                (IF_AT_LEAST, _) => jump(value >= k),
                (IF_SET, _) => jump(value & k != 0),
                other => panic!("unknown instruction {other:?}"),
            }
        }
    }

    fn frame(behind: &[u8]) -> Vec<u8> {
        let mut frame = [&[2; 12][..], behind].concat();
        frame.resize(frame.len().max(60), 0);
        frame
    }

    /// A SecTAG with this control octet and port number of its SCI.
    fn protected(tci: u8, port: [u8; 2]) -> Vec<u8> {
        frame(&[&[0x88, 0xe5, tci, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1][..], &port, &[0; 40]].concat())
    }

    #[test]
    fn each_frame_has_one_lane() {
        let lanes = [Lane::Urgent, Lane::Rest].map(Filter::lane);
        for (tag, frame, urgent) in [
            (None, frame(&[0x08, 0x00]), false),
            (Some(0xa001), frame(&[0x08, 0x00]), false),
            (Some(0xc000), frame(&[0x08, 0x00]), true),
            (Some(0xe005), frame(&[0x81, 0x00, 0, 5, 0x08, 0x00]), true),
            (None, frame(&[0x88, 0x92, 0x80, 0x01]), true),
            (Some(0x0005), frame(&[0x88, 0x92, 0x80, 0x01]), true),
            (None, frame(&[0x88, 0x92, 0xfe, 0xfb]), true),
            (None, frame(&[0x88, 0x92, 0xfe, 0xfc]), false),
            (None, frame(&[0x88, 0x92, 0xfe, 0xff]), false),
            (None, frame(&[0x88, 0x92, 0xff, 0x00]), true),
            (None, frame(&[0x88, 0xa4]), true),
            (None, frame(&[0x88, 0xb7]), true),
            (None, frame(&[0x88, 0xb8]), true),
            (None, frame(&[0x88, 0xf7]), true),
            (None, frame(&[0x88, 0xcc]), false),
            (None, frame(&[0x88, 0x8e]), false),
            (None, protected(0x2c, [0x00, 0x01]), false),
            (None, protected(0x2c, [0x80, 0x01]), true),
            (Some(0xc000), protected(0x2c, [0x00, 0x01]), true),
            // These octets are data, for there is no SCI.
            (None, protected(0x0c, [0x80, 0x01]), false),
            // Too short to be urgent, whatever they are.
            (None, frame(&[0x88, 0x92, 0x80, 0x01])[..26].to_vec(), false),
            (None, protected(0x2c, [0x80, 0x01])[..26].to_vec(), false),
            (None, frame(&[])[..14].to_vec(), false),
        ] {
            let found = [&lanes[0], &lanes[1]].map(|lane| passes(lane, tag, &frame));
            assert_eq!(found, [urgent, !urgent], "{tag:04x?} {:02x?}", &frame[12..]);
        }
    }

    /// A WireGuard message of this type and receiver's index in a datagram, over IPv4 with options.
    fn message(kind: u8, index: u8) -> Vec<u8> {
        let mut message = vec![0xa5; 64];
        message[0] = kind;
        message[if kind == 2 { 8 } else { 4 }] = 0x78 | index;
        message
    }

    #[test]
    fn each_message_has_one_thread() {
        for threads in 2..=8u8 {
            let ports: Vec<_> = (0..threads)
                .map(|own| Filter::datagrams(51820, None, Datagrams::All, Some(Share { own, of: threads })))
                .collect();
            let steering = Filter::steering(threads);
            for (kind, index) in (0..=255u8).flat_map(|kind| (0..8u8).map(move |index| (kind, index))) {
                let message = message(kind, index);
                let has_index = (2..=4).contains(&kind);
                let wanted = if has_index && index < threads { index } else { 0 };
                for options in [0, 4] {
                    let mut frame = frame(&[0x08, 0x00, 0x45 + options / 4]);
                    frame.resize(34 + usize::from(options), 0);
                    frame[23] = 17;
                    frame.extend([0, 99, 0xca, 0x6c, 0, 72, 0, 0]);
                    frame.extend(&message);
                    let who: Vec<_> =
                        (0..threads).filter(|own| passes(&ports[usize::from(*own)], None, &frame)).collect();
                    assert_eq!(who, [wanted], "type {kind}, index {index}, {threads} threads");
                }
                assert_eq!(
                    result(&steering, None, &message),
                    u32::from(wanted),
                    "type {kind}, index {index}"
                );
            }
            assert_eq!(result(&steering, None, &[4, 0, 0]), 0, "too short for an index");
        }
    }

    #[test]
    fn longest_jump_fits_an_octet() {
        for lane in [Lane::Urgent, Lane::Rest] {
            assert!(Filter::lane(lane).0.len() < usize::from(END));
        }
    }
}

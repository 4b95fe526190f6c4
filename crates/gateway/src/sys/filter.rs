//! Programs of the kernel's packet filter (`socket(7)`, `SO_ATTACH_FILTER`; S. McCanne and V.
//! Jacobson, "The BSD Packet Filter", USENIX 1993), which select the frames and datagrams of a
//! socket.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use super::set_option;

/// Instructions, with the numbers of `linux/filter.h`.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_OCTET: u16 = 0x30;
const LOAD_LENGTH: u16 = 0x80;
const LOAD_HALF_BEHIND: u16 = 0x48;
const INDEX_BY_HEADER: u16 = 0xb1;
const IF_EQUAL: u16 = 0x15;
const IF_GREATER: u16 = 0x25;
const IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
/// Offset of a frame's metadata (`SKF_AD_OFF`).
const BESIDE: u32 = 0xffff_f000;
const KIND_OF_PACKET: u32 = BESIDE + 4;
const VLAN_TAG: u32 = BESIDE + 44;
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

/// The jump of a failed test: to the end of the program, which refuses.
const REFUSE: u8 = u8::MAX;

impl Filter {
    /// For a packet socket: UDP over IPv4 to this machine's port, and address if given, without a
    /// VLAN.
    #[must_use]
    pub fn datagrams(port: u16, address: Option<Ipv4Addr>, which: Datagrams) -> Self {
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
        Self::of(program)
    }

    /// For a UDP socket: datagrams with more than this many octets of data.
    #[must_use]
    pub fn longer_than(octets: usize) -> Self {
        // The length includes UDP's header.
        Self::of(vec![(LOAD_LENGTH, 0, 0, 0), (IF_GREATER, 0, REFUSE, octets as u32 + 8)])
    }

    /// Accepts everything.
    #[must_use]
    pub fn everything() -> Self {
        Self(vec![instruction((RETURN, 0, 0, ALL))])
    }

    /// A program of tests, all of which must pass.
    fn of(tests: Vec<(u16, u8, u8, u32)>) -> Self {
        let refuse = tests.len() + 1;
        let end = |at: usize, jump: u8| if jump == REFUSE { (refuse - at - 1) as u8 } else { jump };
        let tests = tests
            .into_iter()
            .enumerate()
            .map(|(at, (code, yes, no, value))| instruction((code, end(at, yes), end(at, no), value)));
        Self(tests.chain([instruction((RETURN, 0, 0, ALL)), instruction((RETURN, 0, 0, 0))]).collect())
    }

    /// Makes a socket accept only what passes the filter.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach(&self, socket: &OwnedFd) -> io::Result<()> {
        let program = libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        // The kernel copies the program, which outlives the call.
        set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }
}

const fn instruction((code, jt, jf, k): (u16, u8, u8, u32)) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

//! The frames of one port for several threads (`packet(7)`, PACKET_FANOUT): the kernel puts each
//! into the ring of one of them.
//!
//! - from the field by flow ([`field`]), so that the frames of a flow stay in order; those that
//!   probably have a deadline all into the first thread's ring, see [`super::lanes`]
//! - from the uplink by secure channel ([`uplink`]), so that each channel with its replay window
//!   has one owner
//!
//! The flow is what the kernel's flow dissector finds: IP addresses and ports, the same for both
//! directions; frames without IP are one flow. A fragment of a datagram has no ports, so that it may
//! overtake unfragmented datagrams of its flow.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use antedate_wire::EtherType;

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

const LOAD_HALF: u16 = 0x28;
const LOAD_OCTET: u16 = 0x30;
const IF_EQUAL: u16 = 0x15;
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

/// Opens the rings of the field port for so many threads. A cache line begins `head` octets after
/// the start of a frame ([`Receiver::open`]).
///
/// # Errors
/// Without `CAP_NET_RAW` (`PermissionDenied`), or when the kernel refuses an option.
pub fn field(interface: &Interface, head: usize, bounds: Bounds, threads: usize) -> io::Result<Vec<Lanes>> {
    let rest = Group::open(interface, head, (Lane::Rest, SLOTS), bounds, (threads, BY_HASH))?;
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
    let open = |lane| Group::open(interface, head, lane, bounds, (threads, BY_PROGRAM));
    let groups = [open((Lane::Urgent, URGENT_SLOTS))?, open((Lane::Rest, SLOTS))?];
    for group in &groups {
        group.follow(&OWNER)?;
    }
    let [urgent, rest] = groups;
    let pairs = urgent.admitting()?.into_iter().zip(rest.admitting()?);
    Ok(pairs.map(|(urgent, rest)| Lanes::of(urgent, rest)).collect())
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

    /// Chooses the ring of a frame by this program.
    fn follow(&self, program: &[(u16, u8, u8, u32)]) -> io::Result<()> {
        let Some(first) = self.rings.first() else { return Ok(()) };
        let mut program: Vec<_> =
            program.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
        let whole = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // The kernel copies the program, which outlives the call.
        set_option_of(first.as_raw_fd(), libc::SOL_PACKET, PACKET_FANOUT_DATA, &whole)
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
        let load = |at: u32, octets: usize| {
            let at = at as usize;
            Some(behind.get(at..at + octets)?.iter().fold(0, |value, octet| value << 8 | u32::from(*octet)))
        };
        let (mut value, mut at) = (0, 0);
        loop {
            let (code, yes, no, k) = OWNER[at];
            at += 1;
            let mut jump = |holds: bool| at += usize::from(if holds { yes } else { no });
            match (code, k) {
                (RETURN, k) => return k,
                (RETURN_LOADED, _) => return value,
                (LOAD_HALF, PROTOCOL) => value = protocol.into(),
                (LOAD_HALF | LOAD_OCTET, k) => match load(k, if code == LOAD_HALF { 2 } else { 1 }) {
                    Some(loaded) => value = loaded,
                    None => return 0,
                },
                (IF_EQUAL, k) => jump(value == k),
                (IF_SET, k) => jump(value & k != 0),
                other => panic!("unknown instruction {other:?}"),
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

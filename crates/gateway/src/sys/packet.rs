//! AF_PACKET (`packet(7)`): a receive ring that is polled without a system call, and a sender.
//!
//! What a plain raw socket loses is kept here: the VLAN tag that the kernel takes out of the frame, the mark that a
//! checksum is not finished, and frames longer than a slot (super-frames of segmentation offload), which the kernel
//! queues beside the ring, in order.

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use super::warm::{LINE, prefetch, write_to_each_page};
use super::{check, filter::Filter, interface::Interface, set_option};

/// Slots of a receive ring: at 500,000 frames a second they hold two milliseconds.
const SLOTS: usize = 1024;
/// The longest super-frame that the kernel hands over, with its link header, and room to spare.
const LONGEST: usize = 68 * 1024;
/// Bytes that the kernel may queue beside the ring for frames longer than a slot.
const SIDE_QUEUE: libc::c_int = 16 << 20;
/// `struct virtio_net_hdr`, in front of each frame on a socket with PACKET_VNET_HDR.
pub(super) const OFFLOAD_HEADER: usize = 10;
/// Room that a slot needs beside the frame: its header, the socket address, alignment, the offload header and what is reserved.
const OVERHEAD: usize = 96 + LINE;
/// Where the kernel puts a frame in a slot if nothing is reserved: behind the slot's header, the socket address and the offload header.
const FRAME_AT: usize = 76;

/// Octets of a slot that each look at it asks for: its header, and a short frame with all that protects it. What another core put there
/// then comes together with the header that tells of it, and not after it. All of a long frame would be asked for while it is written.
const BEGINS: usize = 4 * LINE;

const PACKET_VERSION: libc::c_int = 10;
const PACKET_RESERVE: libc::c_int = 12;
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_COPY_THRESH: libc::c_int = 7;
pub(super) const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
pub(super) const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

const STATUS_USER: u32 = 1;
const STATUS_COPY: u32 = 1 << 1;
const STATUS_CSUM_NOT_READY: u32 = 1 << 3;
const STATUS_VLAN_VALID: u32 = 1 << 4;
const STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
const ETH_P_8021Q: u16 = 0x8100;

/// `struct tpacket2_hdr`: the head of a slot.
#[repr(C)]
struct SlotHeader {
    status: AtomicU32,
    len: u32,
    snaplen: u32,
    mac: u16,
    net: u16,
    sec: u32,
    nsec: u32,
    vlan_tci: u16,
    vlan_tpid: u16,
    padding: [u8; 4],
}

/// `struct tpacket_req`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RingRequest {
    block_size: u32,
    block_count: u32,
    frame_size: u32,
    frame_count: u32,
}

/// What the network stack left undone in a received frame (`struct virtio_net_hdr`, host byte order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// The checksum is to be computed from `checksum_start` on and stored `checksum_offset` behind it.
    pub needs_checksum: bool,
    /// The kind of super-frame: 0 none, 1 TCP/IPv4, 4 TCP/IPv6, 5 UDP, bit 0x80 with ECN.
    pub segmentation: u8,
    /// Payload bytes of each segment.
    pub segment_bytes: u16,
    /// From the start of the frame, the VLAN tag not counted.
    pub checksum_start: u16,
    /// From `checksum_start`.
    pub checksum_offset: u16,
}

impl Offload {
    fn parse(b: &[u8; OFFLOAD_HEADER]) -> Self {
        let half = |i: usize| u16::from_ne_bytes([b[i], b[i + 1]]);
        Self {
            needs_checksum: b[0] & 1 != 0,
            segmentation: b[1],
            segment_bytes: half(4),
            checksum_start: half(6),
            checksum_offset: half(8),
        }
    }

    pub(super) fn emit(&self, headers: u16) -> [u8; OFFLOAD_HEADER] {
        let mut octets = [0; OFFLOAD_HEADER];
        (octets[0], octets[1]) = (u8::from(self.needs_checksum), self.segmentation);
        for (at, half) in
            [(2, headers), (4, self.segment_bytes), (6, self.checksum_start), (8, self.checksum_offset)]
        {
            octets[at..at + 2].copy_from_slice(&half.to_ne_bytes());
        }
        octets
    }

    /// Whether the frame can be passed on as it is.
    #[must_use]
    pub fn is_done(&self) -> bool {
        !self.needs_checksum && self.segmentation == 0
    }
}

/// A received frame, whole, with its VLAN tag in its place.
#[derive(Debug)]
pub struct Received<'a> {
    /// The memory in which the frame lies, and which is the reader's as well.
    pub space: &'a mut [u8],
    /// Where it lies there: from the destination address to the end of the payload, without the frame check sequence.
    pub place: Range<usize>,
    /// What is still to be done in it.
    pub offload: Offload,
    /// How many bytes of the frame an outer VLAN tag put back shifted the rest by (0 or 4): offsets in `offload` do not
    /// count them.
    pub shifted: usize,
}

impl<'a> Received<'a> {
    /// A frame with nothing around it.
    #[inline]
    #[must_use]
    pub fn alone(frame: &'a mut [u8], offload: Offload) -> Self {
        let place = 0..frame.len();
        Self { space: frame, place, offload, shifted: 0 }
    }

    /// The frame.
    #[inline]
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        self.space.get(self.place.clone()).unwrap_or_default()
    }

    /// The frame alone.
    #[inline]
    #[must_use]
    pub fn into_frame(self) -> &'a mut [u8] {
        self.space.get_mut(self.place).unwrap_or_default()
    }
}

/// What stands next in the ring.
#[derive(Debug)]
pub enum Next<'a> {
    /// Nothing yet.
    Empty,
    /// A frame.
    Frame(Received<'a>),
    /// A frame that did not fit the slot and could not be queued beside it.
    Truncated,
}

/// A ring of received frames, shared with the kernel, in promiscuous mode.
#[derive(Debug)]
pub struct Receiver {
    socket: OwnedFd,
    ring: NonNull<u8>,
    length: usize,
    slot_bytes: usize,
    slots: usize,
    position: usize,
    long: Box<[u8]>,
}

// SAFETY: the mapping belongs to this value alone; all access goes through `&mut self` or reads one atomic.
unsafe impl Send for Receiver {}

impl Receiver {
    /// Opens a ring on the interface: all frames that others sent, none that this machine sends. A line of the cache begins
    /// `head` octets behind the start of a frame: a cipher that works on what lies there is faster.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` (`PermissionDenied`), or when the kernel refuses an option.
    pub fn open(interface: &Interface, head: usize) -> io::Result<Self> {
        let receiver = Self::ring(interface, head)?;
        let membership = libc::packet_mreq {
            mr_ifindex: interface.index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_option(&receiver.socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        bind(&receiver.socket, interface.index, libc::ETH_P_ALL as u16)?;
        Ok(receiver)
    }

    /// Opens a ring on the interface for what passes the filter alone.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_filtered(interface: &Interface, filter: &Filter) -> io::Result<Self> {
        let receiver = Self::ring(interface, 0)?;
        receiver.filter(filter)?;
        bind(&receiver.socket, interface.index, libc::ETH_P_ALL as u16)?;
        Ok(receiver)
    }

    /// Takes what passes this filter from now on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn filter(&self, filter: &Filter) -> io::Result<()> {
        filter.attach(&self.socket)
    }

    fn ring(interface: &Interface, head: usize) -> io::Result<Self> {
        let socket = raw_socket()?;
        let reserved = (FRAME_AT + head).next_multiple_of(LINE) - (FRAME_AT + head);
        set_option(&socket, libc::SOL_PACKET, PACKET_RESERVE, &(reserved as u32))?;
        set_option(&socket, libc::SOL_PACKET, PACKET_VERSION, &1i32)?;
        set_option(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
        set_option(&socket, libc::SOL_PACKET, PACKET_COPY_THRESH, &1i32)?;
        set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
        if set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &SIDE_QUEUE).is_err() {
            set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &SIDE_QUEUE)?;
        }
        let slot_bytes = (interface.mtu + 18 + OVERHEAD).next_power_of_two().max(2048);
        let block_bytes = slot_bytes.max(1 << 16);
        let length = SLOTS * slot_bytes;
        let request = RingRequest {
            block_size: block_bytes as u32,
            block_count: (length / block_bytes) as u32,
            frame_size: slot_bytes as u32,
            frame_count: SLOTS as u32,
        };
        set_option(&socket, libc::SOL_PACKET, PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at an address of the kernel's choice, of exactly the ring's length.
        let ring = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ring = NonNull::new(ring.cast()).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the mapping has `length` octets, and no frame is in it before the socket is bound.
        unsafe { write_to_each_page(ring, length) };
        Ok(Self {
            socket,
            ring,
            length,
            slot_bytes,
            slots: SLOTS,
            position: 0,
            long: vec![0; OFFLOAD_HEADER + LONGEST].into_boxed_slice(),
        })
    }

    /// Whether a frame stands ready. Costs one read of memory.
    #[inline]
    #[must_use]
    pub fn ready(&self) -> bool {
        prefetch(self.slot(), BEGINS);
        self.header().status.load(Ordering::Acquire) & STATUS_USER != 0
    }

    /// The next frame, to be given back by [`Self::release`].
    #[inline]
    #[cfg_attr(target_os = "linux", unsafe(link_section = ".text.antedate.near"))]
    pub fn peek(&mut self) -> Next<'_> {
        prefetch(self.slot(), BEGINS);
        let header = self.header();
        let status = header.status.load(Ordering::Acquire);
        if status & STATUS_USER == 0 {
            return Next::Empty;
        }
        let (len, snaplen, mac) = (header.len as usize, header.snaplen as usize, usize::from(header.mac));
        let tag = (status & STATUS_VLAN_VALID != 0).then(|| {
            let tpid = if status & STATUS_VLAN_TPID_VALID != 0 { header.vlan_tpid } else { ETH_P_8021Q };
            (tpid, header.vlan_tci)
        });
        let unfinished = status & STATUS_CSUM_NOT_READY != 0;
        if status & STATUS_COPY != 0 {
            return match self.receive_long(OFFLOAD_HEADER + len) {
                Some(length) if length >= OFFLOAD_HEADER + 14 => {
                    Next::Frame(view(&mut self.long, OFFLOAD_HEADER..length, tag, unfinished))
                }
                _ => Next::Truncated,
            };
        }
        let room = self.slot_bytes;
        if snaplen < len
            || snaplen < 14
            || mac < mem::size_of::<SlotHeader>() + OFFLOAD_HEADER
            || mac + snaplen > room
        {
            return Next::Truncated;
        }
        prefetch(self.slot().wrapping_add(mac), snaplen);
        // SAFETY: the slot lies inside the mapping (`position < slots`); the kernel gave it to us (STATUS_USER, read
        // with Acquire) and does not touch it until `release`; `&mut self` keeps others off.
        let slot = unsafe { slice::from_raw_parts_mut(self.slot(), room) };
        // Whoever writes around the frame leaves the slot's header alone.
        let behind = mem::size_of::<SlotHeader>();
        Next::Frame(view(&mut slot[behind..], mac - behind..mac - behind + snaplen, tag, unfinished))
    }

    /// Gives the slot of the frame that [`Self::peek`] showed back to the kernel.
    #[inline]
    pub fn release(&mut self) {
        self.header().status.store(0, Ordering::Release);
        self.position = if self.position + 1 == self.slots { 0 } else { self.position + 1 };
    }

    /// Gives back all that came so far.
    pub fn discard(&mut self) {
        for _ in 0..self.slots {
            if matches!(self.peek(), Next::Empty) {
                return;
            }
            self.release();
        }
    }

    /// Frames that the kernel dropped because the ring was full, since the last call.
    #[must_use]
    pub fn overruns(&self) -> u64 {
        let mut statistics = [0u32; 2];
        let mut length = mem::size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: both pointers are to live values of the lengths that the kernel is told.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_STATISTICS,
                statistics.as_mut_ptr().cast(),
                &mut length,
            )
        };
        if result == 0 { statistics[1].into() } else { 0 }
    }

    /// Takes the pending error of the socket, `ENETDOWN` when the link went away. A wait ends at once while one is pending.
    pub fn take_error(&self) -> Option<io::Error> {
        let mut error: libc::c_int = 0;
        let mut length = mem::size_of_val(&error) as libc::socklen_t;
        // SAFETY: both pointers are to live values of the lengths that the kernel is told.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                ptr::from_mut(&mut error).cast(),
                &mut length,
            )
        };
        (result == 0 && error != 0).then(|| io::Error::from_raw_os_error(error))
    }

    /// Takes the frame of this slot from the queue beside the ring, `expected` octets with its offload header.
    ///
    /// A frame that stayed there would be taken for that of the next slot, with the next one's VLAN tag. So an error that was pending
    /// (the link went down) costs none, and what has another length is one that stayed.
    fn receive_long(&mut self, expected: usize) -> Option<usize> {
        // There are no more than the ring has slots.
        for _ in 0..=self.slots {
            // SAFETY: the pointer and the length describe `self.long`, which the kernel fills.
            let length = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    self.long.as_mut_ptr().cast(),
                    self.long.len(),
                    libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                )
            };
            match usize::try_from(length) {
                Ok(length) if length == expected => return (length <= self.long.len()).then_some(length),
                Ok(_) => {}
                Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => return None,
                // The call has taken it off the socket.
                Err(_) => {}
            }
        }
        None
    }

    fn slot(&self) -> *mut u8 {
        // SAFETY: `position < slots` and the mapping is `slots * slot_bytes` long.
        unsafe { self.ring.as_ptr().add(self.position * self.slot_bytes) }
    }

    fn header(&self) -> &SlotHeader {
        // SAFETY: the slot begins with a tpacket2_hdr, of which SlotHeader is the layout, aligned to the slot. The
        // kernel writes the plain fields only while the status says that the slot is its own; we read them after.
        unsafe { &*self.slot().cast() }
    }
}

impl AsRawFd for Receiver {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `open` with this length and no reference into it outlives `self`.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), self.length) };
    }
}

/// The frame at `place`; the offload header stands directly in front, and gives its room to the VLAN tag.
#[inline]
fn view(
    space: &mut [u8],
    mut place: Range<usize>,
    tag: Option<(u16, u16)>,
    unfinished: bool,
) -> Received<'_> {
    let start = place.start;
    let mut header = [0; OFFLOAD_HEADER];
    header.copy_from_slice(&space[start - OFFLOAD_HEADER..start]);
    let mut offload = Offload::parse(&header);
    // Both tell of an unfinished checksum; only the offload header tells where.
    offload.needs_checksum |= unfinished && offload.checksum_start != 0;
    let mut shifted = 0;
    if let Some((tpid, tci)) = tag {
        shifted = 4;
        place.start -= shifted;
        space.copy_within(start..start + 12, place.start);
        space[start + 8..start + 10].copy_from_slice(&tpid.to_be_bytes());
        space[start + 10..start + 12].copy_from_slice(&tci.to_be_bytes());
    }
    Received { space, place, offload, shifted }
}

/// Sends whole frames out of an interface.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
    /// Whether the kernel refuses what is shorter than an Ethernet header.
    refuses: bool,
}

/// One octet less than an Ethernet header has.
const TOO_SHORT: [u8; 13] = [0; 13];

impl Sender {
    /// Opens a socket that only sends. With `bypass` frames skip the queueing discipline (PACKET_QDISC_BYPASS).
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` (`PermissionDenied`).
    pub fn open(interface: &Interface, bypass: bool) -> io::Result<Self> {
        let mut sender = Self { socket: sending_socket(interface, bypass)?, refuses: true };
        sender.rehearse();
        Ok(sender)
    }

    /// Goes half of the way of a send, so that a frame that comes after a pause finds the kernel's part of it near too: the kernel refuses
    /// what has no whole Ethernet header, but only when it lies in a buffer for the wire. Nothing is sent, and nothing counted.
    ///
    /// A kernel that did send it would not be asked again.
    #[inline]
    pub fn rehearse(&mut self) {
        self.refuses = self.refuses && self.send(&TOO_SHORT).is_err();
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// What `send(2)` says: `ENETDOWN` without a link, `EMSGSIZE` over the MTU, `ENOBUFS` or `EAGAIN` when the queue is full.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and the length describe `frame`; the kernel only reads it.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsRawFd for Sender {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

pub(super) fn sending_socket(interface: &Interface, bypass: bool) -> io::Result<OwnedFd> {
    let socket = raw_socket()?;
    if bypass {
        set_option(&socket, libc::SOL_PACKET, PACKET_QDISC_BYPASS, &1i32)?;
    }
    set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &(4 << 20))?;
    // Protocol 0 receives nothing.
    bind(&socket, interface.index, 0)?;
    Ok(socket)
}

pub(super) fn raw_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a successful call gives a descriptor that nobody else owns.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = check(libc::socket(libc::AF_PACKET, kind, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

pub(super) fn bind(socket: &OwnedFd, index: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data for which all zeroes is valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `address`, which the kernel only reads.
    check(unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(&address).cast(), length) }).map(drop)
}

/// The index of the interface that a packet socket is bound to, -1 if that has gone.
pub(super) fn bound_to(socket: &OwnedFd) -> io::Result<i32> {
    // SAFETY: sockaddr_ll is plain data for which all zeroes is valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: both pointers are to live values of the lengths that the kernel is told.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), ptr::from_mut(&mut address).cast(), &mut length) })?;
    Ok(address.sll_ifindex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_tag_is_put_back_behind_the_addresses() {
        let mut slot = vec![0xaa; 20];
        slot.extend((0..12).chain([0x08, 0x00, 1, 2, 3]));
        slot[10..20].fill(0);
        let received = view(&mut slot, 20..37, Some((0x88a8, 0x2007)), false);
        assert_eq!(
            received.frame(),
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x88, 0xa8, 0x20, 7, 8, 0, 1, 2, 3]
        );
        assert_eq!(received.shifted, 4);
        assert!(received.offload.is_done());
    }

    #[test]
    fn the_offload_header_tells_what_is_unfinished() {
        let mut slot = vec![0; 40];
        slot[..2].copy_from_slice(&[1, 1]);
        slot[4..6].copy_from_slice(&1448u16.to_ne_bytes());
        slot[6..8].copy_from_slice(&34u16.to_ne_bytes());
        slot[8..10].copy_from_slice(&16u16.to_ne_bytes());
        let received = view(&mut slot, 10..40, None, false);
        let expected = Offload {
            needs_checksum: true,
            segmentation: 1,
            segment_bytes: 1448,
            checksum_start: 34,
            checksum_offset: 16,
        };
        assert_eq!((received.offload, received.shifted), (expected, 0));
        assert_eq!(received.frame().len(), 30);
    }
}

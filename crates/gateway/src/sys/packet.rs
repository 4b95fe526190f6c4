//! AF_PACKET (`packet(7)`): a receive ring that is polled without a system call.
//!
//! The receiver restores what a plain raw socket loses: the VLAN tag that the kernel removes, the
//! mark of an unfinished checksum, and frames longer than a slot (super-frames of segmentation
//! offload), which the kernel queues beside the ring, in order. A frame that waited too long
//! ([`super::age`]) is dropped.

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use super::age::{Age, Ages, Bounds};
use super::warm::{LINE, prefetch, write_to_each_page};
use super::{check, filter::Filter, interface::Interface, set_option};

/// Slots of a receive ring: two milliseconds at 500,000 frames a second.
pub(super) const SLOTS: usize = 1024;
/// Octets of the longest super-frame from the kernel with its link header, and some spare.
const MAX_LONG_FRAME_LEN: usize = 68 * 1024;
/// Octets of the kernel's queue beside the ring, for frames longer than a slot.
const SIDE_QUEUE: libc::c_int = 16 << 20;
/// `struct virtio_net_hdr`, in front of each frame on a socket with PACKET_VNET_HDR.
pub(super) const OFFLOAD_HEADER: usize = 10;
/// Octets of a slot beside the frame: header, socket address, alignment, offload header and
/// reserve.
const OVERHEAD: usize = 96 + LINE;
/// Offset of a frame in a slot without reserve: after the slot's header, the socket address and the
/// offload header.
const FRAME_AT: usize = 76;

/// Octets of a slot that each poll prefetches: its header, and a short protected frame. What
/// another core wrote there then arrives together with the header, not after it. A long frame would
/// be prefetched while it is being written.
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

/// `struct tpacket2_hdr`: the header of a slot.
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

/// Work that the network stack left undone in a received frame (`struct virtio_net_hdr`, host byte
/// order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// Whether to compute the checksum from `checksum_start` on and store it `checksum_offset`
    /// after that.
    pub needs_checksum: bool,
    /// The kind of super-frame: 0 none, 1 TCP/IPv4, 4 TCP/IPv6, 5 UDP, bit 0x80 with ECN.
    pub segmentation: u8,
    /// Payload bytes of each segment.
    pub segment_bytes: u16,
    /// Offset from the start of the frame, without the VLAN tag.
    pub checksum_start: u16,
    /// Offset from `checksum_start`.
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

    /// Whether the frame is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        !self.needs_checksum && self.segmentation == 0
    }
}

/// A received frame with its VLAN tag in place.
#[derive(Debug)]
pub struct Received<'a> {
    /// The memory around the frame, which the reader may write.
    pub space: &'a mut [u8],
    /// The place of the frame: from the destination address to the end of the payload, without the
    /// frame check sequence.
    pub place: Range<usize>,
    /// Work that is still to be done.
    pub offload: Offload,
    /// Octets by which a restored outer VLAN tag shifted the rest, 0 or 4. Offsets in `offload` do
    /// not include them.
    pub shifted: usize,
    /// Whether it is too old for a cyclic frame.
    pub late: bool,
    /// Its arrival in nanoseconds of the real-time clock. 0: unknown.
    pub arrived: u64,
    /// Whether it came by the second of two ports.
    pub by_second: bool,
}

impl<'a> Received<'a> {
    /// A frame without memory around it.
    #[inline]
    #[must_use]
    pub fn alone(frame: &'a mut [u8], offload: Offload) -> Self {
        let place = 0..frame.len();
        Self { space: frame, place, offload, shifted: 0, late: false, arrived: 0, by_second: false }
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

/// The next entry of the ring.
#[derive(Debug)]
pub enum Next<'a> {
    /// None yet.
    Empty,
    /// A frame.
    Frame(Received<'a>),
    /// A frame that fitted neither the slot nor the queue beside it.
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
    ages: Ages,
    /// Frames dropped for their age since the last census.
    stale: u64,
}

// SAFETY: this value is the only owner of the mapping; all access goes through `&mut self` or reads
// one atomic.
unsafe impl Send for Receiver {}

impl Receiver {
    /// Opens a ring on the interface: all frames of others, none of this machine. A cache line
    /// begins `head` octets after the start of a frame, where the cipher's work begins: that is
    /// faster.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` (`PermissionDenied`), or when the kernel refuses an option.
    pub fn open(interface: &Interface, head: usize) -> io::Result<Self> {
        Self::open_lane(interface, head, SLOTS, &Filter::everything())
    }

    /// As [`Self::open`], with so many slots for the frames that pass the filter.
    pub(super) fn open_lane(
        interface: &Interface,
        head: usize,
        slots: usize,
        filter: &Filter,
    ) -> io::Result<Self> {
        let receiver = Self::ring(interface, head, slots)?;
        receiver.filter(filter)?;
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

    /// Opens a ring on the interface for frames that pass the filter.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_filtered(interface: &Interface, filter: &Filter) -> io::Result<Self> {
        let receiver = Self::ring(interface, 0, SLOTS)?;
        receiver.filter(filter)?;
        bind(&receiver.socket, interface.index, libc::ETH_P_ALL as u16)?;
        Ok(receiver)
    }

    /// Accepts only frames that pass this filter from now on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn filter(&self, filter: &Filter) -> io::Result<()> {
        filter.attach(&self.socket)
    }

    fn ring(interface: &Interface, head: usize, slots: usize) -> io::Result<Self> {
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
        let length = slots * slot_bytes;
        let request = RingRequest {
            block_size: block_bytes as u32,
            block_count: (length / block_bytes) as u32,
            frame_size: slot_bytes as u32,
            frame_count: slots as u32,
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
        // SAFETY: the mapping has `length` octets, and no frame is in it before the socket is
        // bound.
        unsafe { write_to_each_page(ring, length) };
        Ok(Self {
            socket,
            ring,
            length,
            slot_bytes,
            slots,
            position: 0,
            long: vec![0; OFFLOAD_HEADER + MAX_LONG_FRAME_LEN].into_boxed_slice(),
            ages: Ages::new(Bounds::NONE),
            stale: 0,
        })
    }

    /// Drops frames that are older than these bounds when their turn comes.
    #[must_use]
    pub fn bounded(mut self, bounds: Bounds) -> Self {
        self.bound(bounds);
        self
    }

    /// As [`Self::bounded`], from the next frame on.
    pub fn bound(&mut self, bounds: Bounds) {
        self.ages.bound(bounds);
    }

    /// Whether a frame is ready. Costs one memory read.
    #[inline]
    #[must_use]
    pub fn ready(&self) -> bool {
        prefetch(self.slot(), BEGINS);
        self.header().status.load(Ordering::Acquire) & STATUS_USER != 0
    }

    /// The next frame that is not stale, to be returned with [`Self::release`].
    #[inline]
    #[cfg_attr(target_os = "linux", unsafe(link_section = ".text.antedate.near"))]
    pub fn peek(&mut self) -> Next<'_> {
        prefetch(self.slot(), BEGINS);
        let Some(mut age) = self.age() else { return Next::Empty };
        if age == Age::Stale {
            match self.skip_stale() {
                Some(next) => age = next,
                None => return Next::Empty,
            }
        }
        let late = age == Age::Late;
        let header = self.header();
        let status = header.status.load(Ordering::Relaxed);
        let (len, snaplen, mac) = (header.len as usize, header.snaplen as usize, usize::from(header.mac));
        let tag = (status & STATUS_VLAN_VALID != 0).then(|| {
            let tpid = if status & STATUS_VLAN_TPID_VALID != 0 { header.vlan_tpid } else { ETH_P_8021Q };
            (tpid, header.vlan_tci)
        });
        let arrived = u64::from(header.sec) * 1_000_000_000 + u64::from(header.nsec);
        let unfinished = status & STATUS_CSUM_NOT_READY != 0;
        if status & STATUS_COPY != 0 {
            return match self.receive_long(OFFLOAD_HEADER + len) {
                Some(length) if length >= OFFLOAD_HEADER + 14 => {
                    let frame = view(&mut self.long, OFFLOAD_HEADER..length, tag, unfinished);
                    Next::Frame(Received { late, arrived, ..frame })
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
        // SAFETY: the slot is inside the mapping (`position < slots`); the kernel passed it to us
        // (STATUS_USER, read with Acquire) and does not touch it until `release`; `&mut self`
        // excludes others.
        let slot = unsafe { slice::from_raw_parts_mut(self.slot(), room) };
        // Excludes the slot's header from writes around the frame.
        let behind = mem::size_of::<SlotHeader>();
        let frame = view(&mut slot[behind..], mac - behind..mac - behind + snaplen, tag, unfinished);
        Next::Frame(Received { late, arrived, ..frame })
    }

    /// The age of the next frame. `None` when there is none.
    #[inline]
    fn age(&mut self) -> Option<Age> {
        let header = self.header();
        if header.status.load(Ordering::Acquire) & STATUS_USER == 0 {
            self.ages.queue_is_empty();
            return None;
        }
        let stamp = i64::from(header.sec) * 1_000_000_000 + i64::from(header.nsec);
        Some(self.ages.of(stamp))
    }

    /// Drops stale frames, so that the kernel has space for fresh ones. Returns the age of the next
    /// frame, if any.
    ///
    /// A full ring loses the newest frames. So all stale ones go at once, not a few in each turn.
    #[cold]
    #[inline(never)]
    fn skip_stale(&mut self) -> Option<Age> {
        for _ in 0..self.slots {
            match self.age()? {
                Age::Stale => {
                    let header = self.header();
                    let beside = header.status.load(Ordering::Relaxed) & STATUS_COPY != 0;
                    let len = header.len as usize;
                    if beside {
                        let _ = self.receive_long(OFFLOAD_HEADER + len);
                    }
                    self.release();
                    self.stale += 1;
                }
                age => return Some(age),
            }
        }
        None
    }

    /// Returns the slot of the last [`Self::peek`] to the kernel.
    #[inline]
    pub fn release(&mut self) {
        self.header().status.store(0, Ordering::Release);
        self.position = if self.position + 1 == self.slots { 0 } else { self.position + 1 };
    }

    /// Drops all frames in the ring.
    pub fn discard(&mut self) {
        for _ in 0..self.slots {
            if matches!(self.peek(), Next::Empty) {
                return;
            }
            self.release();
        }
    }

    /// Frames dropped for their age since the last call.
    pub const fn take_stale(&mut self) -> u64 {
        mem::replace(&mut self.stale, 0)
    }

    /// Frames that the kernel dropped since the last call because the ring was full.
    #[must_use]
    pub fn overruns(&self) -> u64 {
        let mut statistics = [0u32; 2];
        let mut length = mem::size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: both pointers are to live values of the given lengths.
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

    /// Clears and returns a pending error of the socket: `ENETDOWN` when the link went down. While
    /// one is pending, a wait ends at once.
    pub fn take_error(&self) -> Option<io::Error> {
        let mut error: libc::c_int = 0;
        let mut length = mem::size_of_val(&error) as libc::socklen_t;
        // SAFETY: both pointers are to live values of the given lengths.
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

    /// Takes this slot's frame from the queue beside the ring: `expected` octets with its offload
    /// header.
    ///
    /// A frame left in the queue would be taken for the next slot's, with the wrong VLAN tag. So a
    /// pending error (the link went down) is skipped, and a frame of another length is a leftover
    /// and dropped.
    fn receive_long(&mut self, expected: usize) -> Option<usize> {
        // The queue has no more frames than the ring has slots.
        for _ in 0..=self.slots {
            // SAFETY: pointer and length describe `self.long`, which the kernel fills.
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
                // The call has cleared the error.
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
        // SAFETY: the slot begins with a tpacket2_hdr, aligned to the slot, and SlotHeader has its
        // layout. The kernel writes the plain fields only while the status gives it the slot; we
        // read them afterwards.
        unsafe { &*self.slot().cast() }
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Receiver {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `open` with this length, and no reference into it
        // outlives `self`.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), self.length) };
    }
}

/// The frame at `place`. The offload header is directly before it, and the VLAN tag overwrites
/// that.
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
    // Both indicate an unfinished checksum; only the offload header says where.
    offload.needs_checksum |= unfinished && offload.checksum_start != 0;
    let mut shifted = 0;
    if let Some((tpid, tci)) = tag {
        shifted = 4;
        place.start -= shifted;
        space.copy_within(start..start + 12, place.start);
        space[start + 8..start + 10].copy_from_slice(&tpid.to_be_bytes());
        space[start + 10..start + 12].copy_from_slice(&tci.to_be_bytes());
    }
    Received { space, place, offload, shifted, late: false, arrived: 0, by_second: false }
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
    // SAFETY: no pointers; a successful call returns a descriptor without another owner.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = check(libc::socket(libc::AF_PACKET, kind, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

pub(super) fn bind(socket: &OwnedFd, index: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data, valid as all zeroes.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: pointer and length describe `address`, which the kernel only reads.
    check(unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(&address).cast(), length) }).map(drop)
}

/// The index of the interface that a packet socket is bound to, -1 if it is gone.
pub(super) fn bound_to(socket: &OwnedFd) -> io::Result<i32> {
    // SAFETY: sockaddr_ll is plain data, valid as all zeroes.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: both pointers are to live values of the given lengths.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), ptr::from_mut(&mut address).cast(), &mut length) })?;
    Ok(address.sll_ifindex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_tag_is_restored() {
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
    fn offload_header_is_parsed() {
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

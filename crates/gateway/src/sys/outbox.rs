//! Sends datagrams: through a UDP socket (`sendmmsg(2)`), or with their headers as frames of an
//! interface (`packet(7)`), past the kernel's IP stack. Several share a system call. Those of one
//! length to one receiver become a super-frame, which the kernel or the card cuts (UDP segmentation
//! offload): under load a super-frame costs the kernel about as much as one datagram.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use antedate_wire::checksum::Sum;

use super::packet::Offload;
use super::segmenter::{PARTS, Segmenter};
use super::sender::Sender;
use super::udp::{BATCH, MAX_DATAGRAM_LEN, UdpSocket, to_raw};

/// Octets of the Ethernet, IPv4 and UDP headers of a datagram that is sent as a frame.
pub const FRAME_HEADER: usize = 14 + 20 + 8;
/// Octets of the control message with a datagram's DSCP: header and number, aligned.
const CLASS_LEN: usize = 24;

/// The smallest number of datagrams for a super-frame. A receiver handles super-frames on a slower
/// path.
const WORTH_JOINING: usize = 4;
/// Octets of the longest UDP datagram, with its header. Also the limit of a super-frame.
const MAX_UDP_LEN: usize = 65_535 - 20;
/// A UDP super-frame, as in `struct virtio_net_hdr`.
pub(crate) const SEGMENT_UDP: u8 = 5;

const _: () = assert!(BATCH <= PARTS);

type Place = [u8; FRAME_HEADER + MAX_DATAGRAM_LEN];

/// The senders of frames and super-frames on an interface.
#[derive(Debug)]
pub struct Interface {
    sender: Sender,
    segmenter: Segmenter,
}

impl Interface {
    /// An interface with these sockets.
    #[must_use]
    pub const fn new(sender: Sender, segmenter: Segmenter) -> Self {
        Self { sender, segmenter }
    }
}

/// The way of a datagram.
#[derive(Clone, Copy)]
enum By {
    Socket { to: (libc::sockaddr_storage, libc::socklen_t), class: u8 },
    Interface,
}

/// Queued datagrams.
pub struct Outbox {
    octets: Box<[Place; BATCH]>,
    by: [By; BATCH],
    lengths: [usize; BATCH],
    count: usize,
}

impl Outbox {
    /// An empty outbox.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: an array of octets is valid as all zeroes.
        let octets = unsafe { Box::<[Place; BATCH]>::new_zeroed().assume_init() };
        Self { octets, by: [By::Interface; BATCH], lengths: [0; BATCH], count: 0 }
    }

    /// Whether the outbox is full.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count >= BATCH
    }

    /// Whether the outbox is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The buffer of the next datagram. `None` when the outbox is full.
    #[inline]
    pub fn place(&mut self) -> Option<&mut [u8; MAX_DATAGRAM_LEN]> {
        self.octets.get_mut(self.count)?.last_chunk_mut()
    }

    /// Queues the datagram of `len` octets in the buffer for the socket. `class` is the octet with
    /// DSCP and ECN.
    #[inline]
    pub fn put(&mut self, len: usize, to: SocketAddr, class: u8) {
        self.put_by(len, By::Socket { to: to_raw(to), class });
    }

    /// Queues the datagram of `len` octets in the buffer for the interface. `write` writes its
    /// headers, given the datagram.
    #[inline]
    pub fn put_frame(&mut self, len: usize, write: impl FnOnce(&mut [u8; FRAME_HEADER], &[u8])) {
        if let Some((head, datagram)) =
            self.octets.get_mut(self.count).and_then(|o| o.split_first_chunk_mut())
        {
            write(head, &datagram[..len.min(MAX_DATAGRAM_LEN)]);
            self.put_by(len, By::Interface);
        }
    }

    #[inline]
    fn put_by(&mut self, len: usize, by: By) {
        if self.count < BATCH {
            self.by[self.count] = by;
            self.lengths[self.count] = len.min(MAX_DATAGRAM_LEN);
            self.count += 1;
        }
    }

    /// Drops all datagrams. Returns their number.
    pub const fn clear(&mut self) -> usize {
        mem::replace(&mut self.count, 0)
    }

    /// Sends all datagrams in order. Calls `done` for each with its length or its error.
    #[inline]
    pub fn send(
        &mut self,
        socket: &UdpSocket,
        mut interface: Option<&mut Interface>,
        mut done: impl FnMut(Result<usize, io::Error>),
    ) {
        let count = mem::take(&mut self.count);
        let mut start = 0;
        while start < count {
            let by_interface = matches!(self.by[start], By::Interface);
            let same = |by: &&By| matches!(by, By::Interface) == by_interface;
            let end = start + self.by[start..count].iter().take_while(same).count();
            match &mut interface {
                Some(interface) if by_interface && end - start == 1 => {
                    let len = self.lengths[start];
                    done(interface.sender.send(&self.octets[start][..FRAME_HEADER + len]).map(|()| len));
                }
                Some(interface) if by_interface => {
                    // Frames before a group of similar ones are sent first.
                    let takes = interface.segmenter.takes();
                    let alike = (start..end).find_map(|from| {
                        let count = if takes { self.alike(from, end) } else { 0 };
                        (count >= WORTH_JOINING).then_some(from..from + count)
                    });
                    let alike = alike.unwrap_or(end..end);
                    if start < alike.start {
                        self.run(start..alike.start, interface.sender.as_raw_fd(), false, &mut done);
                    }
                    start = alike.start;
                    if !alike.is_empty() && self.joined(alike.clone(), interface, &mut done) {
                        start = alike.end;
                    }
                    continue;
                }
                None if by_interface => {
                    // The interface was removed after the frames were queued.
                    (start..end).for_each(|_| done(Err(io::Error::from_raw_os_error(libc::ENODEV))));
                }
                _ => self.run(start..end, socket.as_raw_fd(), socket.is_v6(), &mut done),
            }
            start = end;
        }
    }

    /// How many frames from `start` on can form a super-frame: of one length, apart from a shorter
    /// last one, with headers that differ only in lengths, checksums and
    /// identifications, which count up.
    #[inline]
    fn alike(&self, start: usize, end: usize) -> usize {
        let head = |place: usize| &self.octets[place][..FRAME_HEADER];
        let (first, len) = (head(start), self.lengths[start]);
        let same = |other: &[u8]| {
            [0..16, 20..24, 26..38].iter().all(|range| first[range.clone()] == other[range.clone()])
        };
        let most = (MAX_UDP_LEN - 8) / len.max(1);
        let mut count = 1;
        while start + count < end.min(start + most) {
            let next = start + count;
            if self.lengths[next] > len || self.lengths[next - 1] != len || !same(head(next)) {
                break;
            }
            count += 1;
        }
        count
    }

    /// Sends similar frames as one super-frame. False, with nothing sent, if the kernel does not
    /// accept super-frames.
    fn joined(
        &mut self,
        run: std::ops::Range<usize>,
        interface: &mut Interface,
        done: &mut impl FnMut(Result<usize, io::Error>),
    ) -> bool {
        let lengths = &self.lengths[run.clone()];
        let (len, total) = (lengths[0], lengths.iter().sum::<usize>());
        let Some((head, _)) = self.octets[run.start].split_first_chunk_mut::<FRAME_HEADER>() else {
            return false;
        };
        let alone = *head;
        let udp = (8 + total) as u16;
        head[16..18].copy_from_slice(&(20 + udp).to_be_bytes());
        head[24..26].fill(0);
        let sum = Sum::of(&head[14..34]).checksum();
        head[24..26].copy_from_slice(&sum.to_be_bytes());
        head[38..40].copy_from_slice(&udp.to_be_bytes());
        let pseudo = Sum::of(&head[26..34]).and(Sum::of_u16(17)).and(Sum::of_u16(udp));
        head[40..42].copy_from_slice(&pseudo.number().to_be_bytes());
        let offload = Offload {
            needs_checksum: true,
            segmentation: SEGMENT_UDP,
            segment_bytes: len as u16,
            checksum_start: 34,
            checksum_offset: 6,
        };
        let parts = self.octets[run.clone()].iter().zip(lengths).enumerate();
        let parts = parts.map(|(at, (place, len))| {
            let start = if at == 0 { 0 } else { FRAME_HEADER };
            &place[start..FRAME_HEADER + len]
        });
        match interface.segmenter.send(parts, offload, FRAME_HEADER) {
            Ok(true) => lengths.iter().for_each(|len| done(Ok(*len))),
            Ok(false) => {
                self.octets[run.start][..FRAME_HEADER].copy_from_slice(&alone);
                return false;
            }
            Err(error) => lengths.iter().for_each(|_| done(Err(from_same(&error)))),
        }
        true
    }

    /// Sends datagrams of the same way with as few system calls as possible.
    fn run(
        &mut self,
        run: std::ops::Range<usize>,
        socket: RawFd,
        v6: bool,
        done: &mut impl FnMut(Result<usize, io::Error>),
    ) {
        let count = run.len();
        // SAFETY: both are plain data, valid as all zeroes.
        let (mut heads, mut parts): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) = unsafe { mem::zeroed() };
        let mut controls = [[0u64; CLASS_LEN / 8]; BATCH];
        for (at, place) in run.clone().enumerate() {
            let head = &mut heads[at].msg_hdr;
            head.msg_iov = &mut parts[at];
            head.msg_iovlen = 1;
            let len = self.lengths[place];
            match &mut self.by[place] {
                By::Interface => {
                    let octets = &mut self.octets[place][..FRAME_HEADER + len];
                    parts[at] = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
                }
                By::Socket { to: (to, to_len), class } => {
                    let octets = &mut self.octets[place][FRAME_HEADER..FRAME_HEADER + len];
                    parts[at] = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: len };
                    head.msg_name = ptr::from_mut(to).cast();
                    head.msg_namelen = *to_len;
                    if *class != 0 {
                        controls[at] = control(v6, *class);
                        head.msg_control = controls[at].as_mut_ptr().cast();
                        head.msg_controllen = CLASS_LEN as _;
                    }
                }
            }
        }
        let mut sent = 0;
        while sent < count {
            // SAFETY: the headers from `sent` to `count` point to buffers, addresses and control
            // messages of the given lengths, all of which outlive the call.
            let result = unsafe {
                libc::sendmmsg(
                    socket,
                    heads.as_mut_ptr().add(sent),
                    (count - sent) as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            if result <= 0 {
                // The error belongs to the first one. The others are tried again.
                done(Err(io::Error::last_os_error()));
                sent += 1;
                continue;
            }
            for length in self.lengths[run.clone()].iter().skip(sent).take(result as usize) {
                done(Ok(*length));
            }
            sent += result as usize;
        }
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

fn from_same(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// The control message with the DSCP of a datagram.
fn control(v6: bool, class: u8) -> [u64; CLASS_LEN / 8] {
    let (level, kind) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
    // struct cmsghdr: length, level and kind, then the number.
    let length = 16 + mem::size_of::<libc::c_int>() as u64;
    let pair = |low: i32, high: i32| {
        let (low, high) = (low.to_ne_bytes(), high.to_ne_bytes());
        let mut both = [0; 8];
        both[..4].copy_from_slice(&low);
        both[4..].copy_from_slice(&high);
        u64::from_ne_bytes(both)
    };
    [length, pair(level, kind), pair(class.into(), 0)]
}

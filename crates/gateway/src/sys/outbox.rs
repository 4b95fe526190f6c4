//! Datagrams that are to be sent: by a UDP socket (`sendmmsg(2)`), or with their headers in front as frames of an interface
//! (`packet(7)`), past the kernel's IP stack. Several leave with one system call.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use super::packet::Sender;
use super::udp::{BATCH, ROOM, UdpSocket, to_raw};

/// Octets of the Ethernet, IPv4 and UDP headers in front of a datagram that leaves as a frame.
pub const FRAME_HEADER: usize = 14 + 20 + 8;
/// The control message with a datagram's class: its head and a number, aligned.
const CLASS_LEN: usize = 24;

type Place = [u8; FRAME_HEADER + ROOM];

/// How a datagram leaves.
#[derive(Clone, Copy)]
enum By {
    Socket { to: (libc::sockaddr_storage, libc::socklen_t), class: u8 },
    Interface,
}

/// Datagrams that are to be sent.
pub struct Outbox {
    octets: Box<[Place; BATCH]>,
    by: [By; BATCH],
    lengths: [usize; BATCH],
    count: usize,
}

impl Outbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: an array of octets may be all zeroes.
        let octets = unsafe { Box::<[Place; BATCH]>::new_zeroed().assume_init() };
        Self { octets, by: [By::Interface; BATCH], lengths: [0; BATCH], count: 0 }
    }

    /// Whether there is no room for another one.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count >= BATCH
    }

    /// Whether there is nothing to send.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Where the next datagram is to be put together; nothing if all places are taken.
    #[inline]
    pub fn place(&mut self) -> Option<&mut [u8; ROOM]> {
        self.octets.get_mut(self.count)?.last_chunk_mut()
    }

    /// The datagram in the place has so many octets, and is to go there by the socket. `class` is the octet with DSCP and
    /// ECN.
    #[inline]
    pub fn put(&mut self, len: usize, to: SocketAddr, class: u8) {
        self.put_by(len, By::Socket { to: to_raw(to), class });
    }

    /// The datagram in the place has so many octets, and is to go out of the interface behind the headers that `write` puts in
    /// front; it is shown the datagram.
    #[inline]
    pub fn put_frame(&mut self, len: usize, write: impl FnOnce(&mut [u8; FRAME_HEADER], &[u8])) {
        if let Some((head, datagram)) =
            self.octets.get_mut(self.count).and_then(|o| o.split_first_chunk_mut())
        {
            write(head, &datagram[..len.min(ROOM)]);
            self.put_by(len, By::Interface);
        }
    }

    #[inline]
    fn put_by(&mut self, len: usize, by: By) {
        if self.count < BATCH {
            self.by[self.count] = by;
            self.lengths[self.count] = len.min(ROOM);
            self.count += 1;
        }
    }

    /// Sends all of them, in order. `done` is told for each in turn its length, or why it was not sent.
    #[inline]
    pub fn send(
        &mut self,
        socket: &UdpSocket,
        interface: Option<&Sender>,
        mut done: impl FnMut(Result<usize, io::Error>),
    ) {
        let count = mem::take(&mut self.count);
        let mut start = 0;
        while start < count {
            let by_interface = matches!(self.by[start], By::Interface);
            let same = |by: &&By| matches!(by, By::Interface) == by_interface;
            let end = start + self.by[start..count].iter().take_while(same).count();
            match interface {
                Some(interface) if by_interface && end - start == 1 => {
                    let len = self.lengths[start];
                    done(interface.send(&self.octets[start][..FRAME_HEADER + len]).map(|()| len));
                }
                Some(interface) if by_interface => {
                    self.run(start..end, interface.as_raw_fd(), false, &mut done);
                }
                None if by_interface => {
                    // The interface went away between putting and sending.
                    (start..end).for_each(|_| done(Err(io::Error::from_raw_os_error(libc::ENODEV))));
                }
                _ => self.run(start..end, socket.as_raw_fd(), socket.is_v6(), &mut done),
            }
            start = end;
        }
    }

    /// Sends those of a run, which leave the same way, with as few system calls as can be.
    fn run(
        &mut self,
        run: std::ops::Range<usize>,
        socket: RawFd,
        v6: bool,
        done: &mut impl FnMut(Result<usize, io::Error>),
    ) {
        let count = run.len();
        // SAFETY: both are plain data for which all zeroes is valid.
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
            // SAFETY: the heads from `sent` to `count` lead to buffers, addresses and control messages of the lengths that
            // they say, all of which outlive the call.
            let result = unsafe {
                libc::sendmmsg(
                    socket,
                    heads.as_mut_ptr().add(sent),
                    (count - sent) as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            if result <= 0 {
                // The error is that of the first one; the others have another chance.
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

/// The control message that gives a datagram its class.
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

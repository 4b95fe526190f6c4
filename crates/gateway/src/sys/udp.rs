//! A UDP socket that is polled, and that takes and sends several datagrams with one system call (`recvmmsg(2)`,
//! `sendmmsg(2)`).

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::{check, set_option};

/// Datagrams that are taken or sent at a time.
pub const BATCH: usize = 16;
/// Octets of the longest datagram.
pub const ROOM: usize = 10_240;
/// Octets that the kernel may hold in each direction.
const QUEUE: libc::c_int = 4 << 20;
/// The control message with a datagram's class: its head and a number, aligned.
const CLASS_LEN: usize = 24;

/// A socket that is bound to a port of an interface.
#[derive(Debug)]
pub struct UdpSocket {
    socket: OwnedFd,
    v6: bool,
}

impl UdpSocket {
    /// Binds a socket to an address, and to the interface that datagrams come from and leave by. With `fragment` the kernel
    /// may cut what is longer than the path carries.
    ///
    /// # Errors
    /// When another program has the port (`AddrInUse`), the address is not this machine's, or for want of `CAP_NET_RAW`.
    pub fn open(listen: SocketAddr, interface: &str, fragment: bool) -> io::Result<Self> {
        let v6 = listen.is_ipv6();
        let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers; a successful call gives a descriptor that nobody else owns.
        let socket = unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?) };
        let mut name = [0u8; libc::IFNAMSIZ];
        for (to, from) in name.iter_mut().zip(interface.bytes()) {
            *to = from;
        }
        set_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)?;
        for (forced, usual) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            if set_option(&socket, libc::SOL_SOCKET, forced, &QUEUE).is_err() {
                set_option(&socket, libc::SOL_SOCKET, usual, &QUEUE)?;
            }
        }
        if v6 {
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1i32)?;
            let discover = if fragment { libc::IPV6_PMTUDISC_DONT } else { libc::IPV6_PMTUDISC_PROBE };
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &discover)?;
        } else {
            let discover = if fragment { libc::IP_PMTUDISC_DONT } else { libc::IP_PMTUDISC_PROBE };
            set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &discover)?;
        }
        let (address, length) = to_raw(listen);
        // SAFETY: the pointer and the length describe `address`, which the kernel only reads.
        check(unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(&address).cast(), length) })?;
        Ok(Self { socket, v6 })
    }

    /// The port that it is bound to.
    #[must_use]
    pub fn port(&self) -> u16 {
        // SAFETY: sockaddr_storage is plain data for which all zeroes is valid.
        let mut address: libc::sockaddr_storage = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: both pointers are to live values, and the length is that of `address`.
        let result = unsafe {
            libc::getsockname(self.socket.as_raw_fd(), ptr::from_mut(&mut address).cast(), &mut length)
        };
        if result == 0 { from_raw(&address).map_or(0, |address| address.port()) } else { 0 }
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Datagrams that came.
pub struct Inbox {
    octets: Box<[[u8; ROOM]; BATCH]>,
    from: [libc::sockaddr_storage; BATCH],
    lengths: [usize; BATCH],
}

impl Inbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: sockaddr_storage is plain data for which all zeroes is valid.
        let from = unsafe { mem::zeroed() };
        Self { octets: buffers(), from, lengths: [0; BATCH] }
    }

    /// Takes what stands ready, `most` datagrams at most. Returns how many.
    ///
    /// # Errors
    /// What the network said of a datagram that was sent before.
    #[inline]
    pub fn receive(&mut self, socket: &UdpSocket, most: usize) -> io::Result<usize> {
        let most = most.min(BATCH);
        // SAFETY: both are plain data for which all zeroes is valid.
        let (mut heads, mut parts): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) = unsafe { mem::zeroed() };
        let places = heads.iter_mut().zip(&mut parts).zip(self.octets.iter_mut().zip(&mut self.from));
        for ((head, part), (octets, from)) in places.take(most) {
            *part = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: ROOM };
            head.msg_hdr.msg_iov = part;
            head.msg_hdr.msg_iovlen = 1;
            head.msg_hdr.msg_name = ptr::from_mut(from).cast();
            head.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        // SAFETY: the first `most` heads lead to buffers and addresses of the lengths that they say, all of which outlive
        // the call; no time-out.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                heads.as_mut_ptr(),
                most as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) };
        }
        let count = count as usize;
        for (head, length) in heads.iter().zip(&mut self.lengths).take(count) {
            let whole = head.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            // One that did not fit is no message of anybody.
            *length = if whole { head.msg_len as usize } else { 0 };
        }
        Ok(count)
    }

    /// One of the datagrams that the last call took, and where it came from.
    #[inline]
    pub fn get(&mut self, at: usize) -> Option<(&mut [u8], SocketAddr)> {
        let from = from_raw(self.from.get(at)?)?;
        Some((self.octets.get_mut(at)?.get_mut(..*self.lengths.get(at)?)?, from))
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

/// Datagrams that are to be sent.
pub struct Outbox {
    octets: Box<[[u8; ROOM]; BATCH]>,
    to: [(libc::sockaddr_storage, libc::socklen_t); BATCH],
    lengths: [usize; BATCH],
    classes: [u8; BATCH],
    count: usize,
}

impl Outbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: sockaddr_storage is plain data for which all zeroes is valid.
        let to = unsafe { mem::zeroed() };
        Self { octets: buffers(), to, lengths: [0; BATCH], classes: [0; BATCH], count: 0 }
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
        self.octets.get_mut(self.count)
    }

    /// The datagram in the place has so many octets, and is to go there. `class` is the octet with DSCP and ECN.
    #[inline]
    pub fn put(&mut self, len: usize, to: SocketAddr, class: u8) {
        if self.count < BATCH {
            self.to[self.count] = to_raw(to);
            self.lengths[self.count] = len.min(ROOM);
            self.classes[self.count] = class;
            self.count += 1;
        }
    }

    /// Sends all of them. `done` is told for each in turn its length, or why it was not sent.
    #[inline]
    pub fn send(&mut self, socket: &UdpSocket, mut done: impl FnMut(Result<usize, io::Error>)) {
        let count = mem::take(&mut self.count);
        if count == 0 {
            return;
        }
        // SAFETY: both are plain data for which all zeroes is valid.
        let (mut heads, mut parts): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) = unsafe { mem::zeroed() };
        let mut controls = [[0u64; CLASS_LEN / 8]; BATCH];
        for at in 0..count {
            parts[at] =
                libc::iovec { iov_base: self.octets[at].as_mut_ptr().cast(), iov_len: self.lengths[at] };
            let head = &mut heads[at].msg_hdr;
            head.msg_iov = &mut parts[at];
            head.msg_iovlen = 1;
            head.msg_name = ptr::from_mut(&mut self.to[at].0).cast();
            head.msg_namelen = self.to[at].1;
            if self.classes[at] != 0 {
                let (level, kind) = if socket.v6 {
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
                } else {
                    (libc::IPPROTO_IP, libc::IP_TOS)
                };
                // struct cmsghdr: length, level and kind, then the number.
                let length = 16 + mem::size_of::<libc::c_int>() as u64;
                let pair = |low: i32, high: i32| {
                    let (low, high) = (low.to_ne_bytes(), high.to_ne_bytes());
                    let mut both = [0; 8];
                    both[..4].copy_from_slice(&low);
                    both[4..].copy_from_slice(&high);
                    u64::from_ne_bytes(both)
                };
                controls[at] = [length, pair(level, kind), pair(self.classes[at].into(), 0)];
                head.msg_control = controls[at].as_mut_ptr().cast();
                head.msg_controllen = CLASS_LEN as _;
            }
        }
        let mut sent = 0;
        while sent < count {
            // SAFETY: the heads from `sent` to `count` lead to buffers, addresses and control messages of the lengths that
            // they say, all of which outlive the call.
            let result = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
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
            for length in self.lengths.iter().skip(sent).take(result as usize) {
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

fn buffers() -> Box<[[u8; ROOM]; BATCH]> {
    // SAFETY: an array of octets may be all zeroes.
    unsafe { Box::<[[u8; ROOM]; BATCH]>::new_zeroed().assume_init() }
}

fn to_raw(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: sockaddr_storage is plain data for which all zeroes is valid.
    let mut raw: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let length = match address {
        SocketAddr::V4(address) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage has the room and the alignment of every socket address.
            unsafe { ptr::from_mut(&mut raw).cast::<libc::sockaddr_in>().write(v4) };
            mem::size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            let v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { ptr::from_mut(&mut raw).cast::<libc::sockaddr_in6>().write(v6) };
            mem::size_of::<libc::sockaddr_in6>()
        }
    };
    (raw, length as libc::socklen_t)
}

#[inline]
fn from_raw(raw: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(raw.ss_family) {
        libc::AF_INET => {
            // SAFETY: sockaddr_storage has the room and the alignment of every socket address, and the family says which.
            let v4 = unsafe { &*ptr::from_ref(raw).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*ptr::from_ref(raw).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id)))
        }
        _ => None,
    }
}

/// Octets of IP and UDP headers in front of a datagram to that address.
#[must_use]
pub const fn headers(to: IpAddr) -> usize {
    if to.is_ipv6() { 48 } else { 28 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_went() {
        for text in ["192.0.2.1:51820", "[2001:db8::1]:4789", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(from_raw(&to_raw(address).0), Some(address));
        }
    }

    #[test]
    fn datagrams_go_in_batches_and_come_with_their_sender() {
        let any = "127.0.0.1:0".parse().unwrap();
        let (Ok(a), Ok(b)) = (UdpSocket::open(any, "lo", true), UdpSocket::open(any, "lo", false)) else {
            // Binding to an interface needs a right on old kernels.
            return;
        };
        let to = SocketAddr::from(([127, 0, 0, 1], b.port()));
        let mut out = Outbox::new();
        for number in 0..BATCH as u8 {
            out.place().unwrap()[..3].fill(number);
            out.put(3, to, if number % 2 == 0 { 0xb8 } else { 0 });
        }
        assert!(out.is_full() && out.place().is_none());
        let mut sent = 0;
        out.send(&a, |result| sent += result.unwrap());
        assert_eq!((sent, out.is_empty()), (3 * BATCH, true));
        let mut inbox = Inbox::new();
        assert_eq!(inbox.receive(&b, BATCH).unwrap(), BATCH);
        for number in 0..BATCH {
            let (octets, from) = inbox.get(number).unwrap();
            assert_eq!((&*octets, from.port()), (&[number as u8; 3][..], a.port()));
        }
        assert_eq!(inbox.receive(&b, BATCH).unwrap(), 0);
    }
}

//! A UDP socket that is polled, with several datagrams per system call (`recvmmsg(2)`).

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::filter::Filter;
#[cfg(doc)]
use super::filter::Share;
use super::{check, set_option};

/// The most datagrams per system call.
pub const BATCH: usize = 16;
/// Octets of the longest datagram.
pub const MAX_DATAGRAM_LEN: usize = 10_240;
/// Octets of the kernel's buffer in each direction.
const QUEUE: libc::c_int = 4 << 20;
/// Words of the control messages with a datagram: a time stamp, and its class.
const CONTROL: usize = 8;
/// The MTU that every link carries with IPv6 (RFC 8200, section 5).
pub const LEAST_V6: usize = 1280;

/// A socket bound to a port and an interface.
#[derive(Debug)]
pub struct UdpSocket {
    socket: OwnedFd,
    v6: bool,
}

impl UdpSocket {
    /// Binds a socket to an address and an interface. Routers may fragment its datagrams over IPv4.
    /// Over IPv6, with `fragment`, the kernel does: routers never do, so no fragment is longer than
    /// what each link carries (RFC 8200, section 5).
    ///
    /// # Errors
    /// When another program has the port (`AddrInUse`), the address is not this machine's, or
    /// without `CAP_NET_RAW`.
    pub fn open(listen: SocketAddr, interface: &str, fragment: bool) -> io::Result<Self> {
        Self::bound(listen, interface, fragment, false)
    }

    /// As many sockets with one port, one for each of several threads ([`Share`]), in their order.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_shared(
        listen: SocketAddr,
        interface: &str,
        fragment: bool,
        threads: u8,
    ) -> io::Result<Vec<Self>> {
        // The port may be shared from here on, but not with another program.
        drop(Self::open(listen, interface, fragment)?);
        let open = |_| Self::bound(listen, interface, fragment, true);
        let sockets = (0..threads).map(open).collect::<io::Result<Vec<_>>>()?;
        if let Some(first) = sockets.first() {
            Filter::steering(threads).attach_to_port(&first.socket)?;
        }
        Ok(sockets)
    }

    fn bound(listen: SocketAddr, interface: &str, fragment: bool, shared: bool) -> io::Result<Self> {
        let v6 = listen.is_ipv6();
        let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers; a successful call returns a descriptor without another owner.
        let socket = unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?) };
        bind_to(&socket, interface)?;
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
            if fragment {
                set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU, &(LEAST_V6 as libc::c_int))?;
            }
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, &1i32)?;
        } else {
            set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_DONT)?;
            set_option(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, &1i32)?;
        }
        if shared {
            set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1i32)?;
        }
        let (address, length) = to_raw(listen);
        // SAFETY: pointer and length describe `address`, which the kernel only reads.
        check(unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(&address).cast(), length) })?;
        Ok(Self { socket, v6 })
    }

    /// Binds the socket to another interface. The port stays.
    ///
    /// # Errors
    /// When there is no such interface, or without `CAP_NET_RAW`.
    pub fn bind_to(&self, interface: &str) -> io::Result<()> {
        bind_to(&self.socket, interface)
    }

    /// Sends datagrams whole or not at all, whatever the kernel knows about the path; or as usual
    /// again. For probes over IPv4.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn whole(&self, whole: bool) -> io::Result<()> {
        if self.v6 {
            return Ok(());
        }
        let discover = if whole { libc::IP_PMTUDISC_PROBE } else { libc::IP_PMTUDISC_DONT };
        set_option(&self.socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &discover)
    }

    /// Accepts only datagrams that pass the filter from now on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn filter(&self, filter: &Filter) -> io::Result<()> {
        filter.attach(&self.socket)
    }

    /// Makes the kernel stamp datagrams when they arrive.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stamp(&self) -> io::Result<()> {
        set_option(&self.socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
    }

    /// Whether the socket is an IPv6 one.
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        self.v6
    }

    /// The port of the socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        // SAFETY: sockaddr_storage is plain data, valid as all zeroes.
        let mut address: libc::sockaddr_storage = unsafe { mem::zeroed() };
        let mut length = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: both pointers are to live values, and the length is that of `address`.
        let result = unsafe {
            libc::getsockname(self.socket.as_raw_fd(), ptr::from_mut(&mut address).cast(), &mut length)
        };
        if result == 0 { from_raw(&address).map_or(0, |address| address.port()) } else { 0 }
    }
}

/// The path MTU that the kernel knows for an address, out of an interface: that of the interface,
/// or a smaller one that a router reported by ICMP (`IP_MTU`). `None` without a route.
#[must_use]
pub fn path_mtu(index: i32, to: SocketAddr) -> Option<usize> {
    let v6 = to.is_ipv6();
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: no pointers; a successful call returns a descriptor without another owner.
    let socket = unsafe {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0)).ok()?)
    };
    set_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &index).ok()?;
    let (address, length) = to_raw(to);
    // SAFETY: pointer and length describe `address`, which the kernel only reads.
    check(unsafe { libc::connect(socket.as_raw_fd(), ptr::from_ref(&address).cast(), length) }).ok()?;
    let (level, name) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_MTU) } else { (libc::IPPROTO_IP, libc::IP_MTU) };
    let mut mtu: libc::c_int = 0;
    let mut length = mem::size_of_val(&mtu) as libc::socklen_t;
    // SAFETY: both pointers are to live values, and the length is that of `mtu`.
    let asked = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, ptr::from_mut(&mut mtu).cast(), &mut length)
    };
    check(asked).ok()?;
    usize::try_from(mtu).ok().filter(|mtu| *mtu > 0)
}

fn bind_to(socket: &OwnedFd, interface: &str) -> io::Result<()> {
    let mut name = [0u8; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(interface.bytes()) {
        *to = from;
    }
    set_option(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Received datagrams.
pub struct Inbox {
    octets: Box<[[u8; MAX_DATAGRAM_LEN]; BATCH]>,
    from: [libc::sockaddr_storage; BATCH],
    lengths: [usize; BATCH],
    stamps: [Option<i64>; BATCH],
    classes: [u8; BATCH],
}

impl Inbox {
    /// An empty inbox.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: sockaddr_storage is plain data, valid as all zeroes.
        let from = unsafe { mem::zeroed() };
        let (stamps, classes) = ([None; BATCH], [0; BATCH]);
        Self { octets: buffers(), from, lengths: [0; BATCH], stamps, classes }
    }

    /// Receives at most `most` datagrams. Returns their number.
    ///
    /// # Errors
    /// An error that the network reported for a sent datagram.
    #[inline]
    pub fn receive(&mut self, socket: &UdpSocket, most: usize) -> io::Result<usize> {
        let most = most.min(BATCH);
        // SAFETY: both are plain data, valid as all zeroes.
        let (mut heads, mut parts): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) = unsafe { mem::zeroed() };
        let mut controls = [[0u64; CONTROL]; BATCH];
        let places = heads.iter_mut().zip(&mut parts).zip(self.octets.iter_mut().zip(&mut self.from));
        for ((head, part), (octets, from)) in places.take(most) {
            *part = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: MAX_DATAGRAM_LEN };
            head.msg_hdr.msg_iov = part;
            head.msg_hdr.msg_iovlen = 1;
            head.msg_hdr.msg_name = ptr::from_mut(from).cast();
            head.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        for (head, control) in heads.iter_mut().zip(&mut controls).take(most) {
            head.msg_hdr.msg_control = control.as_mut_ptr().cast();
            head.msg_hdr.msg_controllen = mem::size_of_val(control) as _;
        }
        // SAFETY: the first `most` headers point to buffers, addresses and control messages of the
        // given lengths, all of which outlive the call; no timeout.
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
            // No valid datagram is longer than the buffer.
            *length = if whole { head.msg_len as usize } else { 0 };
        }
        let beside = self.stamps.iter_mut().zip(&mut self.classes);
        for (head, (stamp, class)) in heads.iter().zip(beside).take(count) {
            (*stamp, *class) = beside_of(&head.msg_hdr);
        }
        Ok(count)
    }

    /// The time stamp of one of the last received datagrams, if the socket has them: nanoseconds of
    /// the real-time clock.
    #[inline]
    #[must_use]
    pub fn stamp(&self, at: usize) -> Option<i64> {
        self.stamps.get(at).copied().flatten()
    }

    /// One of the last received datagrams, with its sender and the octet with DSCP and ECN.
    #[inline]
    pub fn get(&mut self, at: usize) -> Option<(&mut [u8], SocketAddr, u8)> {
        let from = from_raw(self.from.get(at)?)?;
        let class = *self.classes.get(at)?;
        Some((self.octets.get_mut(at)?.get_mut(..*self.lengths.get(at)?)?, from, class))
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

/// The time stamp of a datagram, and the octet with DSCP and ECN, from its control messages.
#[inline]
fn beside_of(head: &libc::msghdr) -> (Option<i64>, u8) {
    let (mut stamp, mut class) = (None, 0);
    // SAFETY: the kernel filled the control messages, whose length is in `head`; the macros stay
    // within it.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(head) };
    while !next.is_null() {
        // SAFETY: a pointer of these macros is to a whole header.
        let control = unsafe { &*next };
        match (control.cmsg_level, control.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                // SAFETY: this message has one timespec, not necessarily aligned.
                let time: libc::timespec = unsafe { ptr::read_unaligned(libc::CMSG_DATA(next).cast()) };
                stamp = Some(time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64);
            }
            // SAFETY: this message has one octet.
            (libc::IPPROTO_IP, libc::IP_TOS) => class = unsafe { *libc::CMSG_DATA(next) },
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // SAFETY: this message has one number, not necessarily aligned.
                let number: libc::c_int = unsafe { ptr::read_unaligned(libc::CMSG_DATA(next).cast()) };
                class = number as u8;
            }
            _ => {}
        }
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(head, next) };
    }
    (stamp, class)
}

fn buffers() -> Box<[[u8; MAX_DATAGRAM_LEN]; BATCH]> {
    // SAFETY: an array of octets is valid as all zeroes.
    unsafe { Box::<[[u8; MAX_DATAGRAM_LEN]; BATCH]>::new_zeroed().assume_init() }
}

pub(super) fn to_raw(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: sockaddr_storage is plain data, valid as all zeroes.
    let mut raw: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let length = match address {
        SocketAddr::V4(address) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage has the size and alignment of every socket address.
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
            // SAFETY: sockaddr_storage has the size and alignment of every socket address, and the
            // family tells the type.
            let v4 = unsafe { &*ptr::from_ref(raw).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { &*ptr::from_ref(raw).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            // The socket is bound to an interface, which says the zone.
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, 0)))
        }
        _ => None,
    }
}

/// Octets of the IP and UDP headers of a datagram to that address.
#[must_use]
pub const fn headers(to: IpAddr) -> usize {
    if to.is_ipv6() { 48 } else { 28 }
}

#[cfg(test)]
mod tests {
    use super::super::outbox::Outbox;
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in ["192.0.2.1:51820", "[2001:db8::1]:4789", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(from_raw(&to_raw(address).0), Some(address));
        }
    }

    #[test]
    fn kernel_knows_the_path_mtu() {
        let loopback = super::super::interface::mtu("lo").unwrap();
        for to in ["127.0.0.1:9", "[::1]:9"] {
            let known = path_mtu(1, to.parse().unwrap());
            assert!(known.is_none_or(|known| known <= loopback.max(65_536)), "{to}: {known:?}");
        }
        assert_eq!(path_mtu(1, "192.0.2.1:9".parse().unwrap()).filter(|known| *known == 0), None);
    }

    #[test]
    fn sockets_of_one_port_have_their_messages() {
        let any = "127.0.0.1:0".parse().unwrap();
        let Ok(from) = UdpSocket::open(any, "lo", true) else {
            // Old kernels require a capability to bind to an interface.
            return;
        };
        let port = UdpSocket::open(any, "lo", true).unwrap().port();
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let sockets = UdpSocket::open_shared(at, "lo", true, 3).unwrap();
        assert!(UdpSocket::open_shared(at, "lo", true, 2).is_err(), "another program's port");
        let mut out = Outbox::new();
        for (kind, index) in [(1, 2), (2, 1), (3, 2), (4, 0), (4, 1), (4, 2), (4, 3), (9, 1)] {
            let message = out.place().unwrap();
            message[..32].fill(0xff);
            (message[0], message[if kind == 2 { 8 } else { 4 }]) = (kind, 0xf8 | index);
            out.put(32, at, 0);
        }
        out.send(&from, None, |result| assert_eq!(result.unwrap(), 32));
        let kinds = sockets.iter().map(|socket| {
            let mut inbox = Inbox::new();
            let count = inbox.receive(socket, BATCH).unwrap();
            (0..count).map(|number| inbox.get(number).unwrap().0[0]).collect::<Vec<_>>()
        });
        assert_eq!(kinds.collect::<Vec<_>>(), [vec![1, 4, 4, 9], vec![2, 4], vec![3, 4]]);
    }

    #[test]
    fn batches_arrive_with_their_sender() {
        let any = "127.0.0.1:0".parse().unwrap();
        let (Ok(a), Ok(b)) = (UdpSocket::open(any, "lo", true), UdpSocket::open(any, "lo", false)) else {
            // Old kernels require a capability to bind to an interface.
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
        out.send(&a, None, |result| sent += result.unwrap());
        assert_eq!((sent, out.is_empty()), (3 * BATCH, true));
        let mut inbox = Inbox::new();
        assert_eq!(inbox.receive(&b, BATCH).unwrap(), BATCH);
        for number in 0..BATCH {
            let (octets, from, class) = inbox.get(number).unwrap();
            assert_eq!((&*octets, from.port()), (&[number as u8; 3][..], a.port()));
            assert_eq!(class, if number % 2 == 0 { 0xb8 } else { 0 });
        }
        assert_eq!(inbox.receive(&b, BATCH).unwrap(), 0);
    }
}

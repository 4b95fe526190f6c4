//! Raw `AF_PACKET` sockets (packet(7)), with the kernel's metadata.
//!
//! The kernel removes VLAN tags from received frames and leaves checksums unfinished; both appear
//! in ancillary data only. The emulated wire and the tap need both, a station neither.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::check;
use super::clock::timespec;

/// All EtherTypes.
pub const ALL: u16 = libc::ETH_P_ALL as u16;
/// Octets of the `virtio_net_hdr` in front of each frame when [`Options::vnet_header`] is set.
pub const VNET_HEADER_LEN: usize = 10;

const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// The most frames of one [`PacketSocket::send_copies`].
pub const BURST: usize = 32;

/// Options of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The EtherType to receive, or [`ALL`].
    pub protocol: u16,
    /// Receive frames for any address.
    pub promiscuous: bool,
    /// Puts a `virtio_net_hdr` in front of every frame, both ways.
    pub vnet_header: bool,
    /// Also receives frames that this machine sends through the interface.
    pub outgoing: bool,
    /// Requests VLAN tags and time stamps ([`Received::vlan`], [`Received::realtime_ns`]).
    pub metadata: bool,
    /// Requested octets of kernel buffer.
    pub receive_buffer: usize,
    /// Time-out of a waiting [`PacketSocket::receive`] in microseconds; 0: none.
    pub receive_timeout_us: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protocol: ALL,
            promiscuous: false,
            vnet_header: false,
            outgoing: false,
            metadata: false,
            receive_buffer: 1 << 20,
            receive_timeout_us: 0,
        }
    }
}

/// Metadata of a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Octets written to the buffer.
    pub len: usize,
    /// The tag that the kernel removed: TPID and TCI.
    pub vlan: Option<(u16, u16)>,
    /// This machine sent it through the interface.
    pub outgoing: bool,
    /// Time stamp of the kernel in nanoseconds since 1970; 0 if not requested.
    pub realtime_ns: u64,
}

/// A raw socket bound to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    address: [u8; 6],
}

impl PacketSocket {
    /// Opens a socket on `interface` in the calling thread's network namespace.
    pub fn open(interface: &str, options: Options) -> io::Result<Self> {
        let name = CString::new(interface).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: `name` is NUL-terminated.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // Protocol 0 receives nothing until bind names interface and protocol together.
        // SAFETY: takes integers only.
        let raw = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let mut socket = Self { fd, address: [0; 6] };

        let octets = options.receive_buffer as libc::c_int;
        if socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &octets).is_err() {
            // The limit of an ordinary user is lower.
            let _ = socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &octets);
        }
        if !options.outgoing {
            socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1)?;
        }
        if options.receive_timeout_us > 0 {
            let timeout = libc::timeval {
                tv_sec: (options.receive_timeout_us / 1_000_000) as libc::time_t,
                tv_usec: (options.receive_timeout_us % 1_000_000) as libc::suseconds_t,
            };
            socket.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout)?;
        }
        if options.vnet_header {
            socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
        }
        if options.metadata {
            socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
            socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)?;
        }
        // SAFETY: an all-zero sockaddr_ll is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = options.protocol.to_be();
        address.sll_ifindex = index as libc::c_int;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `address` is a valid sockaddr_ll of the length given.
        check(unsafe { libc::bind(socket.raw(), (&raw const address).cast(), len) })?;

        let mut filled = len;
        // SAFETY: `address` has room for `filled` octets.
        check(unsafe { libc::getsockname(socket.raw(), (&raw mut address).cast(), &raw mut filled) })?;
        socket.address.copy_from_slice(&address.sll_addr[..6]);
        if options.promiscuous {
            socket.membership(index, libc::PACKET_MR_PROMISC, [0; 6])?;
        }
        Ok(socket)
    }

    /// Also receives frames to this group address.
    pub fn join(&self, interface: &str, group: [u8; 6]) -> io::Result<()> {
        let name = CString::new(interface).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: `name` is NUL-terminated.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        self.membership(index, libc::PACKET_MR_MULTICAST, group)
    }

    /// Address of the interface.
    #[must_use]
    pub fn address(&self) -> [u8; 6] {
        self.address
    }

    /// Takes the next frame; `None` when none is there (without `wait`) or a signal came.
    pub fn receive(&self, buffer: &mut [u8], wait: bool) -> io::Result<Option<usize>> {
        let flags = libc::MSG_TRUNC | if wait { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: `buffer` is valid for its length.
        let got = unsafe { libc::recv(self.raw(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
        match usize::try_from(got) {
            // MSG_TRUNC reports the true length; a truncated frame is useless here.
            Ok(len) if len <= buffer.len() => Ok(Some(len)),
            Ok(_) => Ok(None),
            Err(_) => nothing_yet(),
        }
    }

    /// Takes the next frame with its metadata, without waiting.
    pub fn receive_with_metadata(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let mut control = Control([0; 256]);
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: an all-zero msghdr is a valid empty one.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // SAFETY: an all-zero sockaddr_ll is a valid value.
        let mut sender: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut sender).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len();
        // SAFETY: `message` points to a valid address, buffer and control area, all alive across the call.
        let got =
            unsafe { libc::recvmsg(self.raw(), &raw mut message, libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
        let Ok(len) = usize::try_from(got) else { return nothing_yet() };
        if len > buffer.len() {
            return Ok(None);
        }
        let outgoing = sender.sll_pkttype == libc::PACKET_OUTGOING;
        let mut received = Received { len, outgoing, ..Received::default() };
        // SAFETY: `message` was filled by recvmsg; the macros walk inside its control area only.
        let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        while !header.is_null() {
            // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return pointers to complete, aligned headers or null.
            let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
            if level == libc::SOL_PACKET && kind == libc::PACKET_AUXDATA {
                // SAFETY: the kernel puts one tpacket_auxdata here; read without assuming alignment.
                let aux: libc::tpacket_auxdata =
                    unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
                if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    let tpid = if aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
                        aux.tp_vlan_tpid
                    } else {
                        libc::ETH_P_8021Q as u16
                    };
                    received.vlan = Some((tpid, aux.tp_vlan_tci));
                }
            } else if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS {
                // SAFETY: the kernel puts one timespec here; read without assuming alignment.
                let at: libc::timespec = unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
                received.realtime_ns = at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64;
            }
            // SAFETY: as for CMSG_FIRSTHDR.
            header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
        }
        Ok(Some(received))
    }

    /// Sends one frame (with its `virtio_net_hdr` if the socket has one).
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: `frame` is valid for its length.
        let sent = unsafe { libc::send(self.raw(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sends past the queueing discipline of the interface.
    pub fn bypass_queue(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, PACKET_QDISC_BYPASS, &1)
    }

    /// Sends a frame so many times, at most [`BURST`], with one system call. Returns how many the
    /// kernel took.
    pub fn send_copies(&self, frame: &[u8], count: usize) -> usize {
        let mut part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        // SAFETY: plain data, valid as all zeroes.
        let mut messages: [libc::mmsghdr; BURST] = unsafe { std::mem::zeroed() };
        for message in &mut messages {
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (&raw mut part, 1);
        }
        let count = count.min(BURST) as libc::c_uint;
        // SAFETY: `count` messages, each of one part that is alive across the call; the kernel only
        // reads the frame.
        let sent = unsafe { libc::sendmmsg(self.raw(), messages.as_mut_ptr(), count, 0) };
        usize::try_from(sent).unwrap_or(0)
    }

    /// Waits for a frame or until `timeout_ns` has passed; false on time-out or signal.
    pub fn wait(&self, timeout_ns: u64) -> io::Result<bool> {
        wait_any(&[self], timeout_ns)
    }

    /// Frames dropped by the kernel since the last call, because the buffer was full.
    pub fn take_drops(&self) -> u64 {
        // SAFETY: an all-zero tpacket_stats is a valid value.
        let mut statistics: libc::tpacket_stats = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: `statistics` has room for `len` octets.
        let result = unsafe {
            libc::getsockopt(
                self.raw(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut len,
            )
        };
        if result == 0 { u64::from(statistics.tp_drops) } else { 0 }
    }

    fn membership(&self, index: libc::c_uint, kind: libc::c_int, group: [u8; 6]) -> io::Result<()> {
        // SAFETY: an all-zero packet_mreq is a valid value.
        let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
        request.mr_ifindex = index as libc::c_int;
        request.mr_type = kind as u16;
        request.mr_alen = 6;
        request.mr_address[..6].copy_from_slice(&group);
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    fn set<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: `value` is valid for its size; the kernel copies it and checks it.
        check(unsafe {
            libc::setsockopt(
                self.raw(),
                level,
                name,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        })
        .map(drop)
    }

    fn raw(&self) -> libc::c_int {
        self.fd.as_raw_fd()
    }
}

/// Waits until a socket has a frame or `timeout_ns` has passed; false on time-out or signal.
pub fn wait_any(sockets: &[&PacketSocket], timeout_ns: u64) -> io::Result<bool> {
    let idle = libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 };
    let mut polled = [idle; 4];
    for (slot, socket) in polled.iter_mut().zip(sockets) {
        slot.fd = socket.raw();
    }
    let timeout = timespec(timeout_ns);
    // SAFETY: `polled` holds as many entries as said (negative descriptors are skipped); the mask
    // may be null.
    let ready = unsafe {
        libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &raw const timeout, std::ptr::null())
    };
    match ready {
        0 => Ok(false),
        1.. => Ok(true),
        _ => nothing_yet::<()>().map(|_| false),
    }
}

/// Control data is aligned as a `cmsghdr`.
#[repr(align(8))]
struct Control([u8; 256]);

/// Maps the last error. No frame and an interruption are no errors, nor is a link that is down (the
/// socket stays bound and receives again once it is up).
fn nothing_yet<T>() -> io::Result<Option<T>> {
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR | libc::ENETDOWN) => Ok(None),
        _ => Err(error),
    }
}

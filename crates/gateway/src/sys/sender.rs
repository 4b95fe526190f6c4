//! Sends frames on an interface, one by one by a packet socket (`packet(7)`), or some with one
//! system call by an AF_XDP socket ([`super::xdp`]).
//!
//! The packet socket always is there: for frames that the other one does not take, for time stamps,
//! and for two interfaces. Held frames leave before it sends.

use std::cell::{Cell, RefCell};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use antedate_wire::vlan::TAG_LEN;

use super::age::{self, OVERDUE};
use super::interface::Interface;
use super::packet::sending_socket;
use super::xdp::{HELD, Tally, Xdp};

/// Sends whole frames on an interface, the same frames on two, or on one of two.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
    /// The second interface.
    twin: Option<OwnedFd>,
    /// The interfaces that carry, if there are two.
    carries: Carries,
    /// Whether the kernel refuses frames shorter than an Ethernet header.
    refuses: bool,
    /// The other way to the interface, if it is taken.
    xdp: Option<Box<RefCell<Xdp>>>,
    /// Whether frames of both sockets stay in order.
    in_order: bool,
    /// Whether no frame has left since the last [`Self::settle`].
    first: Cell<bool>,
}

/// The interfaces of two that a frame leaves by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carries {
    /// Both.
    #[default]
    Both,
    /// The first, and the second one where it has no link.
    First,
    /// The second, and the first one where it has no link.
    Second,
}

/// One octet less than an Ethernet header.
const TOO_SHORT: [u8; 13] = [0; 13];

impl Sender {
    /// Opens a send-only socket. With `bypass` frames skip the queueing discipline
    /// (PACKET_QDISC_BYPASS).
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` (`PermissionDenied`).
    pub fn open(interface: &Interface, bypass: bool) -> io::Result<Self> {
        let socket = sending_socket(interface, bypass)?;
        let mut sender = Self {
            socket,
            twin: None,
            carries: Carries::Both,
            refuses: true,
            xdp: None,
            in_order: true,
            first: Cell::new(true),
        };
        sender.rehearse();
        Ok(sender)
    }

    /// Sends each frame on this interface too.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn and(mut self, second: &Interface, bypass: bool) -> io::Result<Self> {
        self.twin = Some(sending_socket(second, bypass)?);
        Ok(self)
    }

    /// Sends by this socket from now on, apart from frames that it does not take. Where frames of
    /// both sockets stay `in_order`, a lone frame still leaves by the packet socket: its code is
    /// rehearsed, and one frame alone gains nothing. Does nothing with two interfaces.
    pub fn attach(&mut self, xdp: Xdp, in_order: bool) {
        if self.twin.is_none() {
            self.xdp = Some(Box::new(RefCell::new(xdp)));
            self.in_order = in_order;
        }
    }

    /// Whether frames leave by an AF_XDP socket.
    #[inline]
    #[must_use]
    pub const fn has_xdp(&self) -> bool {
        self.xdp.is_some()
    }

    /// Sends by these of two interfaces from now on.
    pub const fn carry_by(&mut self, carries: Carries) {
        self.carries = carries;
    }

    /// The interfaces that frames leave by.
    #[must_use]
    pub const fn carries(&self) -> Carries {
        self.carries
    }

    /// Runs half of a send, so that a frame after a pause finds the kernel's code in the cache. The
    /// kernel refuses a frame without a whole Ethernet header, but only once it is in a send
    /// buffer. Nothing is sent or counted.
    ///
    /// Does nothing after a kernel has sent such a frame.
    #[inline]
    pub fn rehearse(&mut self) {
        self.refuses = self.refuses && self.by_packet(self.carries, &TOO_SHORT).is_err();
        if let Some(xdp) = &self.xdp
            && !self.in_order
        {
            xdp.borrow_mut().rehearse();
        }
    }

    /// Sends a frame with the next ones, or with [`Self::settle`], if frames leave by an AF_XDP
    /// socket; otherwise at once, as the first one since the last [`Self::settle`]. `tag`: a VLAN
    /// tag behind the addresses, or nothing. Returns whether it is sent; one that is not is counted
    /// by the tally of [`Self::settle`].
    ///
    /// # Errors
    /// As [`Self::send`].
    #[inline]
    pub fn hold(&self, tag: Option<[u8; TAG_LEN]>, frame: &[u8]) -> io::Result<bool> {
        if let Some(xdp) = &self.xdp
            && !(self.first.replace(false) && self.in_order)
        {
            let mut xdp = xdp.borrow_mut();
            if xdp.put(parts(tag.as_ref(), frame)?) {
                if xdp.held() >= HELD {
                    xdp.kick();
                }
                return Ok(false);
            }
        }
        match tag {
            None => self.send(frame),
            Some(tag) => self.send_tagged(self.carries, tag, frame),
        }
        .map(|()| true)
    }

    /// Sends the held frames.
    #[inline]
    pub fn kick(&self) {
        if let Some(xdp) = &self.xdp {
            let mut xdp = xdp.borrow_mut();
            if xdp.held() > 0 {
                xdp.kick();
            }
        }
    }

    /// Sends the held frames, before a pause. Returns the fate of all held ones since the last
    /// call.
    #[inline]
    #[must_use]
    pub fn settle(&self) -> Option<Tally> {
        self.kick();
        self.first.set(true);
        self.xdp.as_ref().map(|xdp| xdp.borrow_mut().take_tally())
    }

    /// Sends a frame at once by the AF_XDP socket, behind those that are held. `None`: there is no
    /// such socket, or it does not take the frame; those that were held have left.
    #[inline]
    fn by_xdp(&self, tag: Option<&[u8; TAG_LEN]>, frame: &[u8]) -> Option<io::Result<()>> {
        let mut xdp = self.xdp.as_ref()?.borrow_mut();
        self.first.set(false);
        if self.in_order && xdp.held() == 0 {
            return None;
        }
        if parts(tag, frame).is_ok_and(|parts| xdp.put(parts)) {
            return Some(xdp.send());
        }
        if xdp.held() > 0 {
            xdp.kick();
        }
        None
    }

    /// Sends one frame. With two interfaces it is sent if one takes it.
    ///
    /// # Errors
    /// Those of `send(2)`: `ENETDOWN` without a link, `EMSGSIZE` over the MTU, `ENOBUFS` or
    /// `EAGAIN` when the queue is full. `ETIMEDOUT` if the frame became too old in this thread's
    /// hands ([`super::age::deadline`]).
    #[inline]
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.send_by(self.carries, frame)
    }

    /// As [`Self::send`], by these of two interfaces.
    ///
    /// # Errors
    /// As [`Self::send`].
    #[inline]
    pub fn send_by(&self, carries: Carries, frame: &[u8]) -> io::Result<()> {
        self.by_xdp(None, frame).unwrap_or_else(|| self.by_packet(carries, frame))
    }

    #[inline]
    fn by_packet(&self, carries: Carries, frame: &[u8]) -> io::Result<()> {
        // SAFETY: pointer and length describe `frame`; the kernel only reads it.
        let send = |socket: &OwnedFd| unsafe {
            libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        self.by_each(carries, send)
    }

    /// Sends by the sockets of the interfaces that carry.
    #[inline]
    fn by_each(&self, carries: Carries, send: impl Fn(&OwnedFd) -> isize) -> io::Result<()> {
        if age::is_over(age::deadline()) {
            return Err(io::Error::from_raw_os_error(OVERDUE));
        }
        let by = |socket: &OwnedFd| if send(socket) < 0 { again(|| send(socket)) } else { Ok(()) };
        let Some(twin) = &self.twin else { return by(&self.socket) };
        let (one, other) = match carries {
            Carries::Both => {
                let first = by(&self.socket);
                return by(twin).or(first);
            }
            Carries::First => (&self.socket, twin),
            Carries::Second => (twin, &self.socket),
        };
        by(one).or_else(|error| if has_no_link(&error) { by(other) } else { Err(error) })
    }

    /// As [`Self::send_by`], with a VLAN tag behind the addresses.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_tagged(&self, carries: Carries, tag: [u8; TAG_LEN], frame: &[u8]) -> io::Result<()> {
        if let Some(result) = self.by_xdp(Some(&tag), frame) {
            return result;
        }
        let mut parts = parts(Some(&tag), frame)?
            .map(|octets| libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() });
        // SAFETY: msghdr is plain data, valid as all zeroes.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
        // SAFETY: the message has three parts, each of them borrowed by this call; the kernel only
        // reads them.
        self.by_each(carries, |socket| unsafe {
            libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT)
        })
    }
}

/// Addresses, VLAN tag if any, and the rest.
#[inline]
fn parts<'a>(tag: Option<&'a [u8; TAG_LEN]>, frame: &'a [u8]) -> io::Result<[&'a [u8]; 3]> {
    let Some(tag) = tag else { return Ok([frame, &[], &[]]) };
    let (addresses, rest) = frame.split_at_checked(12).ok_or(io::ErrorKind::InvalidInput)?;
    Ok([addresses, tag, rest])
}

/// Whether a frame was refused because its interface is down, or gone.
#[must_use]
pub fn has_no_link(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO | libc::ENETUNREACH))
}

/// After a failed send: the kernel reports a link that was down once, at the first send after it,
/// even if the link is back.
#[cold]
pub(super) fn again(send: impl Fn() -> isize) -> io::Result<()> {
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENETDOWN) && send() >= 0 { Ok(()) } else { Err(error) }
}

impl AsRawFd for Sender {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

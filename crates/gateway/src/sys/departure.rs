//! Time stamps of frames as they leave, by the driver's word (`SO_TIMESTAMPING`, "Timestamping" in the
//! kernel's networking documentation), in nanoseconds of the real-time clock.
//!
//! The stamps are those of software: the driver takes them when it hands the frame to its card. A
//! socket with the option has the kernel stamp arrivals early too, when the driver passes them on, for
//! all sockets.

use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::ptr;

use antedate_wire::vlan::TAG_LEN;

use super::age;
use super::sender::Sender;
use super::sender::again;
use super::set_option_of;

const TX_SOFTWARE: u32 = 1 << 1;
const RX_SOFTWARE: u32 = 1 << 3;
const SOFTWARE: u32 = 1 << 4;
const TIMESTAMP_ONLY: u32 = 1 << 11;
/// Octets of the control message that asks for a stamp: header and flags, aligned.
const REQUEST_LEN: usize = 24;
/// Octets for the control messages of a stamp.
const ANSWER_LEN: usize = 256;
/// Octets of a control message's header.
const CONTROL_HEADER: usize = 16;
/// The most stamps of earlier frames that are dropped before one is sent.
const LATE_STAMPS: usize = 8;

/// Has the kernel stamp the frames of this sender for which [`send_stamped`] asks, and arrivals.
///
/// # Errors
/// When the kernel refuses the option.
pub fn stamp_departures(sender: &Sender) -> io::Result<()> {
    let flags = RX_SOFTWARE | SOFTWARE | TIMESTAMP_ONLY;
    set_option_of(sender.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
}

/// Sends a frame, with a VLAN tag behind the addresses. Returns the time of its departure, if it has
/// left and the driver stamps.
///
/// # Errors
/// As [`Sender::send`].
pub fn send_stamped(sender: &Sender, tag: Option<[u8; TAG_LEN]>, frame: &[u8]) -> io::Result<Option<u64>> {
    // Only a packet socket stamps.
    sender.kick();
    if age::is_over(age::deadline()) {
        return Err(io::Error::from_raw_os_error(age::OVERDUE));
    }
    // Stamps that came after their call.
    for _ in 0..LATE_STAMPS {
        if stamp(sender).is_none() {
            break;
        }
    }
    let (addresses, rest) = frame.split_at_checked(12).ok_or(io::ErrorKind::InvalidInput)?;
    let tag = tag.as_ref().map_or(&[][..], |tag| &tag[..]);
    let part =
        |octets: &[u8]| libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
    let mut parts = [part(addresses), part(tag), part(rest)];
    let mut request = request();
    // SAFETY: msghdr is plain data, valid as all zeroes.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
    message.msg_control = request.as_mut_ptr().cast();
    message.msg_controllen = REQUEST_LEN as _;
    // SAFETY: the message has three parts and a control message, all of which outlive the call; the
    // kernel only reads them.
    let send = || unsafe { libc::sendmsg(sender.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if send() < 0 {
        again(send)?;
    }
    Ok(stamp(sender))
}

/// The control message that asks for the stamp of one frame.
fn request() -> [u64; REQUEST_LEN / 8] {
    // struct cmsghdr: length, level and kind, then the flags.
    let mut octets = [0; REQUEST_LEN];
    octets[..8].copy_from_slice(&(CONTROL_HEADER + mem::size_of::<u32>()).to_ne_bytes());
    octets[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    octets[12..16].copy_from_slice(&libc::SO_TIMESTAMPING.to_ne_bytes());
    octets[16..20].copy_from_slice(&TX_SOFTWARE.to_ne_bytes());
    let word = |at: usize| octets[at..].first_chunk().copied().map_or(0, u64::from_ne_bytes);
    [word(0), word(8), word(16)]
}

/// The next stamp in the socket's error queue.
fn stamp(sender: &Sender) -> Option<u64> {
    let mut control = [0u64; ANSWER_LEN / 8];
    // SAFETY: msghdr is plain data, valid as all zeroes.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = ANSWER_LEN as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the message has no parts and one buffer for control messages, which the kernel fills.
    let received = unsafe { libc::recvmsg(sender.as_raw_fd(), &mut message, flags) };
    if received < 0 {
        return None;
    }
    // SAFETY: the kernel has filled the control messages, and set their length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(&message) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a header inside `control`, which is
        // aligned for it.
        let header = unsafe { &*next };
        let is_stamp = header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SO_TIMESTAMPING;
        if is_stamp && header.cmsg_len as usize >= CONTROL_HEADER + mem::size_of::<libc::timespec>() {
            // SAFETY: the message holds the three times of struct scm_timestamping; the first is that
            // of software. It may be aligned for less.
            let time: libc::timespec = unsafe { ptr::read_unaligned(libc::CMSG_DATA(next).cast()) };
            let nanoseconds = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            return (nanoseconds != 0).then_some(nanoseconds);
        }
        // SAFETY: `next` is a header inside the message.
        next = unsafe { libc::CMSG_NXTHDR(&message, next) };
    }
    None
}

//! Sends super-frames on an interface (`packet(7)`, PACKET_VNET_HDR). The kernel or the card cuts
//! them into segments.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use super::interface::Interface;
use super::packet::{Offload, PACKET_VNET_HDR, sending_socket};
use super::set_option;

/// The most parts of a super-frame.
pub const PARTS: usize = 16;

/// Sends super-frames, while the kernel accepts them.
#[derive(Debug)]
pub struct Segmenter {
    /// `None` after a refusal.
    socket: Option<OwnedFd>,
}

impl Segmenter {
    /// Opens a send-only socket. With `bypass` frames skip the queueing discipline
    /// (PACKET_QDISC_BYPASS).
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` (`PermissionDenied`).
    pub fn open(interface: &Interface, bypass: bool) -> io::Result<Self> {
        let socket = sending_socket(interface, bypass)?;
        set_option(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
        Ok(Self { socket: Some(socket) })
    }

    /// Whether super-frames are accepted.
    #[inline]
    #[must_use]
    pub const fn takes(&self) -> bool {
        self.socket.is_some()
    }

    /// Sends a super-frame of at most [`PARTS`] parts. Its first `headers` octets are the headers
    /// of each segment. False, with nothing sent, if the kernel does not support such frames; it is
    /// not tried again.
    ///
    /// # Errors
    /// Those of `sendmsg(2)`, as for [`super::sender::Sender::send`].
    #[inline]
    pub fn send<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]>,
        offload: Offload,
        headers: usize,
    ) -> io::Result<bool> {
        let Some(socket) = &self.socket else { return Ok(false) };
        let header = offload.emit(headers as u16);
        let part = |octets: &[u8]| libc::iovec {
            iov_base: octets.as_ptr().cast_mut().cast(),
            iov_len: octets.len(),
        };
        let mut vector = [part(&[]); 1 + PARTS];
        vector[0] = part(&header);
        let mut count = 1;
        for (place, octets) in vector[1..].iter_mut().zip(parts) {
            *place = part(octets);
            count += 1;
        }
        // SAFETY: plain data, valid as all zeroes.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = vector.as_mut_ptr();
        message.msg_iovlen = count as _;
        // SAFETY: the message points to `count` parts that outlive the call; the kernel only reads
        // them.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
        if sent >= 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
        tracing::warn!("the kernel takes no super-frames for a port; frames leave one by one");
        self.socket = None;
        Ok(false)
    }
}

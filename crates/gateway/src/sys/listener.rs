//! A packet socket for frames of one EtherType at a low rate (`packet(7)`).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use super::interface::Interface;
use super::packet::{PACKET_IGNORE_OUTGOING, bind, raw_socket};
use super::set_option;

/// A socket that receives frames of one EtherType, and sends.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
}

impl Listener {
    /// Opens a socket on the interface. It also receives these group addresses.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` (`PermissionDenied`), or when the kernel refuses an option.
    pub fn open(interface: &Interface, ethertype: u16, groups: &[[u8; 6]]) -> io::Result<Self> {
        let socket = raw_socket()?;
        set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
        for group in groups {
            let mut membership = libc::packet_mreq {
                mr_ifindex: interface.index,
                mr_type: libc::PACKET_MR_MULTICAST as u16,
                mr_alen: group.len() as u16,
                mr_address: [0; 8],
            };
            membership.mr_address[..group.len()].copy_from_slice(group);
            set_option(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        }
        bind(&socket, interface.index, ethertype)?;
        Ok(Self { socket })
    }

    /// A listener on another kind of socket.
    #[cfg(test)]
    pub(crate) const fn of(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// Receives the next frame, truncated to the buffer. `None` when there is none.
    #[must_use]
    pub fn receive(&self, frame: &mut [u8]) -> Option<usize> {
        // SAFETY: pointer and length describe `frame`, which the kernel fills.
        let length = unsafe {
            libc::recv(self.socket.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        usize::try_from(length).ok()
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// Those of `send(2)`.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: pointer and length describe `frame`; the kernel only reads it.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Clears a pending error, such as that of a link that went down. It would end every wait at
    /// once.
    pub fn take_error(&self) {
        let mut error: libc::c_int = 0;
        let mut length = mem::size_of_val(&error) as libc::socklen_t;
        // SAFETY: both pointers are to live values of the given lengths.
        unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                ptr::from_mut(&mut error).cast(),
                &mut length,
            )
        };
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

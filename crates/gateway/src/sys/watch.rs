//! News of the kernel about interfaces (`rtnetlink(7)`): a new address, another MTU, up or down.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::check;

/// The multicast group with the news of interfaces (`RTMGRP_LINK`).
const LINKS: u32 = 1;

/// Hears the news.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Opens the socket.
    ///
    /// # Errors
    /// When the process has no file descriptor left, or the kernel has no rtnetlink.
    pub fn open() -> io::Result<Self> {
        // SAFETY: no pointers; a successful call returns a descriptor without another owner.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            OwnedFd::from_raw_fd(check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?)
        };
        // SAFETY: sockaddr_nl is plain data, valid as all zeroes.
        let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = LINKS;
        let length = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: pointer and length describe `address`, which the kernel only reads.
        check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) })?;
        Ok(Self(socket))
    }

    /// Waits for news, at most this long. Returns whether there were any.
    #[must_use]
    pub fn wait(&self, most: Duration) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let most = libc::c_int::try_from(most.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: one pollfd that outlives the call.
        if unsafe { libc::poll(&raw mut poll, 1, most) } <= 0 {
            return false;
        }
        // What the news are does not matter: the interfaces are asked. An overrun is news too.
        let mut came = [0u8; 8192];
        // SAFETY: pointer and length describe `came`, which the kernel fills.
        while unsafe { libc::recv(self.0.as_raw_fd(), came.as_mut_ptr().cast(), came.len(), 0) } > 0 {}
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_machine_has_no_news() {
        let watch = Watch::open().unwrap();
        // Other tests may change interfaces at the same time.
        let quiet = (0..50).any(|_| !watch.wait(Duration::from_millis(10)));
        assert!(quiet);
    }
}

//! System calls, and the only `unsafe` of this crate.
//!
//! - [`packet`]: AF_PACKET sockets: the receive ring (`packet(7)`, TPACKET_V2)
//! - [`sender`]: sends frames on an interface, in either of two ways
//! - [`lanes`]: the two receive rings of a port
//! - [`fanout`]: the rings of a port for several threads
//! - [`age`]: the age of received frames
//! - [`departure`]: time stamps of sent frames
//! - [`segmenter`]: a sender of super-frames
//! - [`interface`]: index, address, MTU and link state of an interface (`netdevice(7)`)
//! - [`links`]: masters and addresses of interfaces, and notices of changes
//! - [`listener`]: AF_PACKET for frames of one EtherType at a low rate
//! - [`udp`]: a UDP socket with several datagrams per system call
//! - [`outbox`]: sends datagrams through a UDP socket, or as frames of an interface
//! - [`filter`]: packet filters of sockets
//! - [`route`]: next hops
//! - [`watch`]: news about interfaces
//! - [`thread`]: pinning, priority, timer slack, clocks
//! - [`warm`]: the hot text section, prefetches, first writes to pages
//! - [`xdp`]: a sender of several frames per system call (AF_XDP)
//! - [`event`]: an event counter that ends a wait (`eventfd(2)`)
#![allow(unsafe_code, reason = "system calls; each block states its argument")]

pub mod age;
pub mod departure;
pub mod event;
pub mod fanout;
pub mod filter;
pub mod interface;
pub mod lanes;
pub mod links;
pub mod listener;
pub mod outbox;
pub mod packet;
pub mod route;
pub mod segmenter;
pub mod sender;
pub mod thread;
pub mod udp;
pub mod warm;
pub mod watch;
pub mod xdp;

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Turns the -1 of a system call into its error.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `setsockopt(2)` with a plain value.
fn set_option<T: Copy>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    set_option_of(fd.as_raw_fd(), level, name, value)
}

/// As [`set_option`], of a descriptor that the caller borrows.
fn set_option_of<T: Copy>(fd: RawFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: pointer and length describe `value`, which outlives the call; the kernel only reads
    // it.
    let result = unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            std::ptr::from_ref(value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

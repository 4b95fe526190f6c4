//! News that this virtual machine goes on from a snapshot, or as a clone.
//!
//! The hypervisor then changes the VM generation ID. Linux draws new random numbers, and since
//! version 6.8 tells processes by an event of the device (`NEW_VMGENID=1`). What was sent after the
//! snapshot is unknown to the machine, so numbers of its keys would repeat. A hypervisor without
//! that device says nothing, nor does the kernel to a network namespace of another user namespace.

use std::io;
use std::os::fd::OwnedFd;
#[cfg(feature = "daemon")]
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recvfrom, socket_with};

/// The multicast group of the kernel's events.
const KERNEL: u32 = 1;
/// The longest event of the kernel (`UEVENT_BUFFER_SIZE`), and its header.
const LONGEST: usize = 4096;

/// Hears the news.
#[derive(Debug)]
pub struct Generation {
    socket: OwnedFd,
    changed: bool,
}

impl Generation {
    /// Hears of what comes from now on.
    ///
    /// # Errors
    /// When the process has no file descriptor left, or may not have this kind of socket.
    pub fn watch() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(KOBJECT_UEVENT))?;
        bind(&socket, &SocketAddrNetlink::new(0, KERNEL))?;
        Ok(Self { socket, changed: false })
    }

    /// Whether the machine went on from a snapshot since the start of the watch.
    pub fn is_changed(&mut self) -> bool {
        let mut event = [0; LONGEST];
        while !self.changed {
            match recvfrom(&self.socket, &mut event, RecvFlags::empty()) {
                Ok((len, _, from)) => {
                    let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
                    let is_kernel = from.is_some_and(|from| from.pid() == 0);
                    self.changed = is_kernel && tells(&event[..len.min(LONGEST)]);
                }
                // More events than the socket holds, none of which need be ours.
                Err(Errno::INTR | Errno::NOBUFS) => {}
                Err(_) => break,
            }
        }
        self.changed
    }

    /// Waits until the machine goes on from a snapshot.
    ///
    /// # Errors
    /// When the kernel ends the watch.
    pub fn wait(&mut self) -> io::Result<()> {
        while !self.is_changed() {
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Whether an event is that of a new generation: its variables end in zeros.
fn tells(event: &[u8]) -> bool {
    event.split(|octet| *octet == 0).any(|variable| variable == b"NEW_VMGENID=1")
}

/// Starts a thread that sets `stop` and the returned flag when the machine goes on from a snapshot.
///
/// # Errors
/// When the news cannot be heard, or the thread cannot be started.
#[cfg(feature = "daemon")]
pub fn stop_at_change(stop: Arc<AtomicBool>) -> io::Result<Arc<AtomicBool>> {
    let mut generation = Generation::watch()?;
    let changed = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&changed);
    let watch = move || match generation.wait() {
        Ok(()) => {
            flag.store(true, Ordering::Release);
            stop.store(true, Ordering::Release);
        }
        Err(error) => tracing::warn!(
            "nobody hears any more when this virtual machine goes on from a snapshot: {error} (remedy: restart this program)"
        ),
    };
    crate::helper::thread("generation").spawn(watch)?;
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_generation_is_told_from_other_events() {
        let event = |variables: &[&str]| tells(variables.join("\0").as_bytes());
        let head = ["change@/devices/platform/VMGENCTR:00", "ACTION=change", "SUBSYSTEM=platform"];
        assert!(event(&[&head[..], &["NEW_VMGENID=1", "SEQNUM=1"]].concat()));
        assert!(!event(&head));
        // Variables of an event that a user wrote to sysfs have a prefix.
        assert!(!event(&["change@/devices/x", "SYNTH_ARG_NEW_VMGENID=1"]));
        assert!(!event(&["NEW_VMGENID=0"]) && !event(&["NEW_VMGENID=11"]) && !tells(b""));
    }

    #[test]
    fn quiet_machine_goes_on() {
        assert!(!Generation::watch().unwrap().is_changed());
    }
}

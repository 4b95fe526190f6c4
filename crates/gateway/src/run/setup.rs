//! Parts of a start that all gateways have: control socket, waiting, CPUs, priorities.

use std::io;
use std::path::Path;
use std::thread::Builder;

use antedate_hardening::confine::{self, Capability};
use antedate_hardening::memory;
use antedate_host::control::Socket;
use antedate_host::fault::{Fault, MORE_FILES};

use crate::config::CONTROL_WORDS;
use crate::config::{Config, Poll};
use crate::run::governor::Mode;
use crate::sys::interface::Interface;
use crate::sys::thread;

/// Creates the control socket. It comes first: without it the gateway does not start, and no packet
/// number is reserved.
///
/// # Errors
/// When it cannot be created, or another gateway has it.
pub fn socket(config: &Config) -> Result<Socket, Fault> {
    Socket::bind(&config.control.socket, &CONTROL_WORDS).map_err(|fault| config.at("control.socket", fault))
}

pub(crate) fn no_socket(config: &Path, [from, to]: [&Interface; 2], error: &io::Error) -> Fault {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run as root, or give the program the capability: setcap cap_net_raw,cap_sys_nice,cap_ipc_lock+ep /usr/bin/antedate"
        }
        _ if error.raw_os_error() == Some(libc::EMFILE) => MORE_FILES,
        _ => "see that both interfaces exist and are up: ip link",
    };
    let what = format!("cannot open a packet socket from {} to {}: {error}", from.name, to.name);
    Fault::of_file(config, what, remedy)
}

/// The MTU of a reopened uplink. Warns if it is less than configured.
#[must_use]
pub fn uplink_mtu(config: &Config, interface: &Interface) -> usize {
    let carries = config.uplink.carries(interface.mtu);
    if let Some(path) = config.uplink.mtu.filter(|path| usize::from(*path) > carries) {
        tracing::warn!(
            interface = %interface.name, mtu = carries, configured = path,
            "the uplink carries less than uplink.mtu says: longer frames go in fragments or are refused"
        );
    }
    carries
}

/// How a forwarding thread waits.
#[must_use]
pub fn mode(poll: Poll) -> Mode {
    match poll {
        Poll::Adaptive { cpu_percent } => Mode::Adaptive { percent: cpu_percent },
        Poll::Busy => Mode::Busy,
        Poll::Block => Mode::Block,
    }
}

/// The CPU and priority that the calling thread received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Granted {
    /// Its CPU, if pinned.
    pub cpu: Option<usize>,
    /// Its `SCHED_FIFO` priority.
    pub priority: Option<u8>,
}

/// Pins the calling thread and raises its priority, as far as permitted. Logs refusals.
#[must_use]
pub fn place(cpu: Option<usize>, priority: Option<u8>) -> Granted {
    thread::precise_timers();
    let mut granted = Granted::default();
    if let Some(cpu) = cpu {
        match thread::pin(cpu) {
            Ok(()) => granted.cpu = Some(cpu),
            Err(error) => tracing::warn!(cpu, %error, "the forwarding thread is not pinned"),
        }
    }
    if let Some(priority) = priority {
        match thread::real_time(priority) {
            Ok(()) => granted.priority = Some(priority),
            Err(error) => {
                tracing::warn!(priority, %error, "no real-time priority; run as root or give CAP_SYS_NICE");
            }
        }
    }
    granted
}

/// Octets of the stack of a thread that handles frames, of which some 120 KiB are used. All of it is
/// locked.
const STACK: usize = 1 << 20;

/// A thread that handles frames, of this name.
pub fn forwarding(name: &str) -> Builder {
    Builder::new().name(name.into()).stack_size(STACK)
}

/// Gives up what a thread that handles frames does not need, once it has its place. Logs a refusal.
pub fn frames_only() {
    if let Err(error) = confine::frames_only() {
        tracing::warn!(%error, "a thread keeps rights that it does not need");
    }
}

/// Gives up the calling thread's capabilities but those for packet sockets, which an interface that
/// was replaced needs, and for locked memory. Logs a refusal at the level `debug`: a service manager
/// may forbid the call, and leaves no others then.
pub fn sockets_only() {
    if let Err(error) = confine::keep(&[Capability::NetRaw, Capability::IpcLock]) {
        tracing::debug!(%error, "a thread keeps capabilities that it does not need");
    }
}

/// Gives up the calling thread's capabilities but the one that sets interfaces up and down. Logs a
/// refusal at the level `debug`, as [`sockets_only`] does.
pub fn interfaces_only() {
    if let Err(error) = confine::keep(&[Capability::NetAdmin]) {
        tracing::debug!(%error, "a thread keeps capabilities that it does not need");
    }
}

/// Gives up the main thread's capabilities. With `preload` locks all memory of the gateway, whose
/// threads and rings are there, and brings it in; without, pages come by their first use, and then
/// stay. Logs a refusal.
pub fn settle(preload: bool) {
    sockets_only();
    if !preload {
        return;
    }
    if let Err(error) = memory::settle() {
        tracing::info!(
            %error,
            "memory is not locked: a page fault may delay a frame, and a stack may reach the swap; \
             give CAP_IPC_LOCK, or LimitMEMLOCK=infinity (ulimit -l unlimited)"
        );
    }
}

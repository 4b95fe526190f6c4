//! The uplinks of a gateway, and faults of their addresses.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use antedate_host::fault::{Fault, explain};

/// The rate in Mbit/s of an uplink that does not report one.
pub const SLOWEST_MBIT: u64 = 10;

/// One of the uplinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// `[uplink]`.
    First,
    /// `[overlay.second_uplink]`.
    Second,
}

impl Which {
    /// The key of its local address.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::First => "overlay.listen",
            Self::Second => "overlay.second_uplink.listen",
        }
    }
}

/// The fault of a local address that cannot be opened.
pub(crate) fn refused(file: &Path, key: &str, listen: SocketAddr, uplink: &str, error: &io::Error) -> Fault {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("another program has this port: stop it, or give {key} another one")
        }
        io::ErrorKind::AddrNotAvailable => format!("give {key} an address of this machine, or 0.0.0.0"),
        io::ErrorKind::PermissionDenied => "run as root, or give the program CAP_NET_RAW".to_owned(),
        _ => format!("see {key}, and that the uplink exists: ip addr"),
    };
    let what = format!("cannot listen on {listen} of {uplink}: {}", explain(error));
    // The address may be added to the interface later.
    let passing = error.kind() == io::ErrorKind::AddrNotAvailable;
    Fault { passing, ..Fault::of_file(file, what, remedy) }
}

//! The right to create namespaces: root's, or a user namespace's (user_namespaces(7)).

use std::io;
use std::process::{Command, Stdio};

use super::NamespaceError;
use crate::sys;

/// How the right was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// As root: real-time scheduling is possible.
    Root,
    /// As an ordinary user in a user namespace: the kernel refuses real-time scheduling.
    UserNamespace,
}

/// Acquires the right to build topologies. Must be called while the process has one thread.
///
/// Without root (or with a root that lacks the capabilities) the process becomes root of a new user
/// namespace with an empty `/run`; the caller should tell the user.
pub fn acquire() -> Result<Privilege, NamespaceError> {
    if sys::namespace::is_root() && may_add_namespaces()? {
        return Ok(if in_user_namespace() { Privilege::UserNamespace } else { Privilege::Root });
    }
    sys::namespace::become_root_of_new_user_namespace().map_err(NamespaceError::Forbidden)?;
    if may_add_namespaces()? {
        Ok(Privilege::UserNamespace)
    } else {
        Err(NamespaceError::Forbidden(io::Error::from(io::ErrorKind::PermissionDenied)))
    }
}

/// Tries it: root in a container may lack the capabilities.
fn may_add_namespaces() -> Result<bool, NamespaceError> {
    let name = format!("{}{}-probe", super::PREFIX, std::process::id());
    let status = Command::new("ip")
        .args(["netns", "add", &name])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|_| NamespaceError::IpMissing)?;
    if status.success() {
        super::ip(&["netns", "del", &name])?;
    }
    Ok(status.success())
}

/// In the initial user namespace all 2^32 - 1 identifiers are mapped to themselves.
fn in_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .map(|map| map.split_whitespace().map(str::to_owned).collect::<Vec<_>>() != ["0", "0", "4294967295"])
        .unwrap_or(false)
}

//! The agent of a fleet, which writes a daemon's files and runs as a user of its own.
//!
//! A daemon trusts nobody's files but its own user's and root's. One that is told of an agent takes
//! the agent's files too, if only its own group may read them, and opens its control socket to that
//! group. Both run in a group that has no other members.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use crate::process;

static AGENT: OnceLock<u32> = OnceLock::new();

/// Trusts the files of this user from now on. Called once, at the start.
pub fn trust(user: u32) {
    let _ = AGENT.set(user);
}

/// Whether this daemon has an agent.
#[must_use]
pub fn is_trusted() -> bool {
    AGENT.get().is_some()
}

/// Whether a file is the agent's, and nobody but it and this process's group has rights on it.
pub(crate) fn shares(about: &Metadata) -> bool {
    AGENT.get().is_some_and(|agent| {
        *agent == about.uid() && process::group() == Some(about.gid()) && is_for_group(about.mode())
    })
}

/// Whether a mode lets the group read, and nobody else.
const fn is_for_group(mode: u32) -> bool {
    mode & 0o077 == 0o040
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private_file;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn agent_shares_files_with_the_group() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("cak");
        private_file::create(&file, "key").unwrap();
        let mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o640);
        let mut text = [0; 16];
        // As the gateway, whose user is another one.
        let other = process::user() ^ 1;
        assert!(private_file::read(&file, other, &mut text).unwrap_err().what.contains("0640"));
        assert!(!is_trusted());
        trust(process::user());
        assert_eq!(private_file::read(&file, other, &mut text).unwrap(), 3);
        for wider in [0o644, 0o660, 0o650, 0o641] {
            mode(wider);
            assert!(private_file::read(&file, other, &mut text).is_err(), "{wider:o}");
        }
        for legal in [0o600, 0o640, 0o440] {
            assert_eq!(is_for_group(legal), legal != 0o600);
        }
    }
}

//! A member that speaks with a CAK of the key file, while the gateway still uses the file as it was.
//!
//! An operator who replaces the file and restarts one gateway means the others to follow. They do
//! when they hear a member with a CAK that stands in their own file by now. Nothing else makes them
//! read it: a CKN is public, so the ICV of an MKPDU counts, and a file is read once a version.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use antedate_channel::mka::{Config, Kay, Listed};

use super::random;
use crate::config::cak::CakFile;
use crate::config::machine::{Machine as _, ThisMachine};

/// A version of a file: device, inode, length and time of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version([u64; 3], [i64; 2]);

impl Version {
    fn of(file: &Path) -> Option<Self> {
        let about = fs::metadata(file).ok()?;
        Some(Self([about.dev(), about.ino(), about.len()], [about.ctime(), about.ctime_nsec()]))
    }
}

/// The key file beside the keys in use.
#[derive(Debug)]
pub(super) struct Newer {
    file: PathBuf,
    /// The version at the last look.
    seen: Option<Version>,
    /// The same, if it was there at the look before: one that is being written may lack keys.
    still: Option<Version>,
    /// The version that was read last.
    read: Option<Version>,
    /// Its keys, and participants that know its members.
    found: Option<(CakFile, Kay)>,
}

impl Newer {
    pub(super) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), seen: None, still: None, read: None, found: None }
    }

    /// Looks for another version.
    pub(super) fn look(&mut self) {
        let now = Version::of(&self.file);
        self.still = now.filter(|_| now == self.seen);
        self.seen = now;
    }

    /// The file's keys, if the sender of this MKPDU of an unknown CKN has one of them.
    pub(super) fn keys(&mut self, frame: &[u8], config: &Config) -> Option<Vec<Listed>> {
        if self.still.is_some() && self.still != self.read {
            self.read = self.still;
            self.found = self.load(config);
        }
        let sender = self.found.as_ref()?.1.sender(frame)?;
        let (file, _) = self.found.take()?;
        tracing::info!(
            member = %sender,
            "a member speaks with a CAK that is new in {}: the file is read again",
            file.file.display()
        );
        Some(file.list())
    }

    fn load(&self, config: &Config) -> Option<(CakFile, Kay)> {
        let file = CakFile::load(&self.file, ThisMachine.user());
        let file = file.inspect_err(|faults| {
            for fault in faults.iter() {
                tracing::warn!("MKPDUs of another CKN arrive, and the cak_file is not read again: {fault:#}");
            }
        });
        let file = file.ok()?;
        let kay = Kay::new(file.list(), config.clone(), &mut random);
        Some((file, kay))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use antedate_channel::mka::{Action, Cak, Participant};
    use antedate_wire::Sci;

    use super::*;

    /// An MKPDU of another member with this key of the name `new`.
    fn mkpdu(key: u8) -> Vec<u8> {
        let config = Config::new(Sci([2, 0, 0, 0, 0, 2, 0, 1]));
        let mut member = Participant::new(Cak::new(&[key; 16], b"new").expect("a key"), config, &mut random);
        member.tick(Duration::ZERO, &mut random);
        let Some(Action::Send(frame)) = member.next_action() else { panic!("it speaks") };
        frame
    }

    fn block(digits: &str, name: &str) -> String {
        format!("network={{\nmka_cak={}\nmka_ckn={name}\n}}\n", digits.repeat(16))
    }

    #[test]
    fn member_with_a_newer_file_is_followed() {
        let file = std::env::temp_dir().join(format!("antedate-newer-{}", std::process::id()));
        let write = |text: &str| {
            fs::write(&file, text).expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
        };
        let config = Config::new(Sci([2, 0, 0, 0, 0, 1, 0, 1]));
        let mut newer = Newer::new(&file);
        let mut hears = |looks: u32, key: u8| {
            (0..looks).for_each(|_| newer.look());
            newer.keys(&mkpdu(key), &config).map(|list| list.len())
        };
        let (old, new) = (block("01", "6f6c64"), block("02", "6e6577"));
        write(&old);
        assert_eq!(hears(2, 2), None, "the file does not have the key");
        write(&format!("{old}{new}"));
        assert_eq!(hears(1, 2), None, "it may be written still");
        assert_eq!(hears(1, 3), None, "everybody can send a CKN");
        assert_eq!(hears(0, 2), Some(2));
        assert_eq!(hears(9, 2), None, "once a version");
        write("mka_ckn=6e6577\n");
        assert_eq!(hears(2, 2), None, "a fault changes nothing");
        write(&new);
        assert_eq!(hears(2, 2), Some(1));
        fs::remove_file(&file).expect("removed");
        assert_eq!(hears(2, 2), None);
    }
}

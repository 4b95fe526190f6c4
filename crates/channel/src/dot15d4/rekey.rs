//! In-band key change: a message under the present key carries the next one, and both are valid
//! during the change.
//!
//! The standard leaves key distribution to higher layers. This method fits a schedule: all devices
//! know the slot number, so the message names the slot from which senders use the new key, and the
//! slot in which the old one is removed. A device that missed the message stays connected until
//! then, and can ask again. The message is a MAC payload or the content of a payload element, at
//! the caller's choice. It must be sent encrypted.

use antedate_wire::dot15d4::Asn;
use zeroize::Zeroize;

use super::key::{KEY_LEN, KeyConfig, KeyLookup, LinkKey};
use super::nonce::NonceKind;
use super::policy::Usage;
use super::{InstallError, Security};

/// The announcement of a key.
#[derive(Debug)]
pub struct KeyChange {
    /// the index of the new key, under the source of the old one
    pub index: u8,
    /// the new key
    pub key: LinkKey,
    /// the first slot in which senders use it
    pub from: Asn,
    /// the slot in which the old key is removed
    pub until: Asn,
}

/// Octets of an announcement.
pub const KEY_CHANGE_LEN: usize = 1 + KEY_LEN + 5 + 5;

impl KeyChange {
    /// Encodes the announcement. The octets are as secret as the key.
    pub fn to_octets(&self) -> [u8; KEY_CHANGE_LEN] {
        let mut out = [0; KEY_CHANGE_LEN];
        let (head, slots) = out.split_at_mut(1 + KEY_LEN);
        head[0] = self.index;
        head[1..].copy_from_slice(&self.key.0);
        slots[..5].copy_from_slice(&self.from.to_le_bytes());
        slots[5..].copy_from_slice(&self.until.to_le_bytes());
        out
    }

    /// Parses an announcement. `None` if its length is wrong, or the old key would be removed
    /// before the new one is in use.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let (index, rest) = octets.split_first()?;
        let (key, rest) = rest.split_first_chunk::<KEY_LEN>()?;
        let (from, rest) = rest.split_first_chunk()?;
        let until = rest.try_into().ok()?;
        let (from, until) = (Asn::from_le_bytes(*from), Asn::from_le_bytes(until));
        (from < until).then(|| Self { index: *index, key: LinkKey::new(*key), from, until })
    }
}

/// A key change in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// the old key's name
    pub old: KeyLookup,
    /// the new key's name
    pub new: KeyLookup,
    /// the first slot in which the new key is used for sending
    pub from: Asn,
    /// the slot in which the old key is removed
    pub until: Asn,
}

impl Change {
    /// The key to send with.
    pub fn sending(&self, asn: Asn) -> KeyLookup {
        if asn < self.from { self.old } else { self.new }
    }
}

impl Security {
    /// Installs the announced key beside the old one, for the same kinds of frames. `limit` bounds
    /// the slots in which it may be used, as for every key.
    pub fn begin_change(
        &mut self,
        old: KeyLookup,
        change: KeyChange,
        limit: u64,
    ) -> Result<Change, InstallError> {
        let KeyChange { index, mut key, from, until } = change;
        let new = old.with_index(index);
        if new == old {
            return Err(InstallError::LookupInUse);
        }
        let usage = self.keys.get(&old).map_or(Usage::ANY, |entry| entry.usage);
        let taken = LinkKey::new(key.0);
        key.0.zeroize();
        self.install_key(KeyConfig { limit, usage, ..KeyConfig::fresh(new, taken, NonceKind::Asn) })?;
        Ok(Change { old, new, from, until })
    }

    /// Removes the old key if it is due, and returns whether the change is complete.
    pub fn finish_change(&mut self, change: &Change, asn: Asn) -> bool {
        let over = asn >= change.until;
        if over {
            self.remove_key(&change.old);
        }
        over
    }
}

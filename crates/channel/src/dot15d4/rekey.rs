//! Another key in band: a message under the present key brings the next one, and both are valid during the change.
//!
//! The standard leaves key distribution to higher layers. This is one that fits a schedule: all devices know the slot
//! number, so the message says in which slot senders take the new key, and in which the old one goes. A device that missed the message
//! is not cut off before that, and asks again. The message is a MAC payload or the content of a payload element, as the
//! caller likes; it must be sent encrypted.

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
    /// from this slot on senders use it
    pub from: Asn,
    /// in this slot the old one is removed
    pub until: Asn,
}

/// Octets of an announcement.
pub const KEY_CHANGE_LEN: usize = 1 + KEY_LEN + 5 + 5;

impl KeyChange {
    /// The octets. They are as secret as the key.
    pub fn to_octets(&self) -> [u8; KEY_CHANGE_LEN] {
        let mut out = [0; KEY_CHANGE_LEN];
        let (head, slots) = out.split_at_mut(1 + KEY_LEN);
        head[0] = self.index;
        head[1..].copy_from_slice(&self.key.0);
        slots[..5].copy_from_slice(&self.from.to_le_bytes());
        slots[5..].copy_from_slice(&self.until.to_le_bytes());
        out
    }

    /// Reads the octets; none if their number is another, or the old key would go before the new one comes.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let (index, rest) = octets.split_first()?;
        let (key, rest) = rest.split_first_chunk::<KEY_LEN>()?;
        let (from, rest) = rest.split_first_chunk()?;
        let until = rest.try_into().ok()?;
        let (from, until) = (Asn::from_le_bytes(*from), Asn::from_le_bytes(until));
        (from < until).then(|| Self { index: *index, key: LinkKey::new(*key), from, until })
    }
}

/// A change under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// how the old key is named
    pub old: KeyLookup,
    /// how the new key is named
    pub new: KeyLookup,
    /// from this slot on the new one is used for sending
    pub from: Asn,
    /// in this slot the old one goes
    pub until: Asn,
}

impl Change {
    /// Which of the two to send with.
    pub fn sending(&self, asn: Asn) -> KeyLookup {
        if asn < self.from { self.old } else { self.new }
    }
}

impl Security {
    /// Installs the key that was announced beside the old one, for the same kinds of frames. `limit` bounds the slots in which it
    /// may be used, as for every key.
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

    /// Removes the old key if its time has come, and says whether the change is over.
    pub fn finish_change(&mut self, change: &Change, asn: Asn) -> bool {
        let over = asn >= change.until;
        if over {
            self.remove_key(&change.old);
        }
        over
    }
}

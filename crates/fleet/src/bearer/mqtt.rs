//! An MQTT group: publishers and readers with a key pair each, and the keys of epochs that the group's
//! manager publishes for them at the broker.
//!
//! A device is in it by the value `mqtt`. One with `reader=yes` may read only. The manager's file is the
//! operator's, as without a fleet ([`antedate_mqtt::manage`]); the group follows the fleet's members.
//! Documents bring a device its key pair and the members' group file. Epochs do not come by documents:
//! programs get them as rotation messages, which the broker retains.

use std::collections::BTreeMap;

use antedate_host::hex::{hex, parse_hex};
use antedate_mqtt::file::{Device, Member, Secret};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{Given, GroupError, Side};
use crate::random;

/// The file of a device's key pair, for `antedate mqtt --device`.
pub const DEVICE: &str = "mqtt.device";
/// The members' group file, for `antedate mqtt --keys`.
pub const GROUP: &str = "mqtt.toml";

/// A member's key pair.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    name: String,
    secret: String,
}

/// The members of a group, and its broker.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    ends: BTreeMap<String, End>,
    /// The broker, in the options of `antedate mqtt rotate`.
    #[serde(default)]
    pub broker: Vec<String>,
    /// The manager's user there.
    #[serde(default)]
    pub manager: String,
    /// Whether the broker may lack a key that a member shall have.
    #[serde(default)]
    pub unpublished: bool,
    /// The members' group file.
    #[serde(skip)]
    pub(crate) text: String,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group({} members)", self.ends.len())
    }
}

impl End {
    fn device(&self) -> Device {
        let mut secret: Secret = Zeroizing::new([0; 32]);
        // Written by this program. Another form is a key that no rotation message is for.
        let _ = parse_hex(&self.secret, &mut *secret);
        Device { name: self.name.clone(), secret }
    }
}

impl Group {
    /// Gives new members a key pair. True if there are any.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn join(&mut self, sides: &[Side<'_>]) -> Result<bool, GroupError> {
        let before = self.ends.len();
        for side in sides.iter().filter(|side| !self.ends.contains_key(side.id)).collect::<Vec<_>>() {
            let mut secret = Zeroizing::new([0; 32]);
            random(&mut *secret)?;
            let end = End { name: side.member.name.clone(), secret: hex(&*secret) };
            self.ends.insert(side.id.to_owned(), end);
        }
        Ok(self.ends.len() > before)
    }

    /// Those that have left: not among the members any more.
    pub fn left<'a>(&'a self, sides: &'a [Side<'a>]) -> impl Iterator<Item = &'a str> {
        let now: std::collections::BTreeSet<&str> = sides.iter().map(|side| side.id).collect();
        self.ends.keys().map(String::as_str).filter(move |id| !now.contains(id))
    }

    /// Forgets the key pairs of those that have left.
    pub fn forget_left(&mut self, sides: &[Side<'_>]) {
        let left: Vec<String> = self.left(sides).map(str::to_owned).collect();
        left.iter().for_each(|id| drop(self.ends.remove(id)));
    }

    /// The members as the manager's file has them.
    #[must_use]
    pub fn members(&self, sides: &[Side<'_>]) -> Vec<Member> {
        let of = |side: &Side<'_>| {
            let device = self.ends.get(side.id)?.device();
            let (public, verify) = (Some(device.public()), Some(device.verify()));
            Some(Member { name: device.name.clone(), public, publish: !side.is("reader"), verify })
        };
        sides.iter().filter_map(of).collect()
    }

    /// What a member gets.
    #[must_use]
    pub fn given(&self, of: &str) -> Given {
        let mut given = Given::default();
        if let Some(end) = self.ends.get(of) {
            given.files.insert(DEVICE.to_owned(), end.device().to_text().to_string());
            given.files.insert(GROUP.to_owned(), self.text.clone());
        }
        given
    }
}

//! A DTLS group: listeners, and connectors with an identity and a pre-shared key each.
//!
//! A device is in it by the value `dtls`. A listener has `listener=yes`, and the keys of all connectors in
//! its file; a connector has its own key.
//!
//! A change has three steps, and refuses nobody: the listeners have the next key beside the present one,
//! then the connector has the next one, then the listeners forget the one before.

use std::collections::{BTreeMap, BTreeSet};

use antedate_host::hex::hex;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{Given, GroupError, Side};
use crate::random;

/// The file of identities and keys, for `antedate dtls --psk`.
pub const FILE: &str = "dtls.psk";

/// An identity and its key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    identity: String,
    key: String,
    made: u64,
}

/// A connector.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    /// How many keys it has had.
    count: u64,
    key: Key,
    /// What the listeners know already.
    #[serde(default)]
    next: Option<Key>,
    /// What they still know.
    #[serde(default)]
    before: Option<Key>,
}

/// The keys of a group.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    connectors: BTreeMap<String, End>,
    listeners: BTreeSet<String>,
    /// A key that is written nowhere else. A file wants one, and a listener may have no connector.
    nobody: String,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group({} connectors)", self.connectors.len())
    }
}

impl Key {
    /// Each key has an identity of its own, so that a listener can have two of a connector.
    fn generate(name: &str, count: u64, now: u64) -> Result<Self, GroupError> {
        let mut key = Zeroizing::new([0; 32]);
        random(&mut *key)?;
        Ok(Self { identity: format!("{name}.{count}"), key: hex(&*key), made: now })
    }

    fn line(&self) -> String {
        format!("{}:{}\n", self.identity, self.key)
    }
}

impl End {
    /// Another key for the same device.
    fn following(&mut self, now: u64) -> Result<Key, GroupError> {
        self.count += 1;
        let name = self.key.identity.rsplit_once('.').map_or("", |(name, _)| name);
        Key::generate(name, self.count, now)
    }
}

impl Group {
    /// Follows the members: a new connector gets a key, and one that is gone loses it. When a listener is
    /// gone all keys are new, since it knew them. True if something changed.
    ///
    /// # Errors
    /// [`GroupError`], when the members make no group.
    pub fn follow(&mut self, name: &str, sides: &[Side<'_>], now: u64) -> Result<bool, GroupError> {
        let before = self.clone();
        let listeners: BTreeSet<String> =
            sides.iter().filter(|side| side.is("listener")).map(|side| side.id.to_owned()).collect();
        let is_lost = self.listeners.is_empty() && !self.connectors.is_empty();
        if listeners.is_empty() && !is_lost {
            return Err(GroupError::NoListener(name.to_owned()));
        }
        let connectors: BTreeMap<&str, &str> = sides
            .iter()
            .filter(|side| !listeners.contains(side.id))
            .map(|side| (side.id, side.member.name.as_str()))
            .collect();
        self.connectors.retain(|id, _| connectors.contains_key(id.as_str()));
        if !self.listeners.is_subset(&listeners) {
            self.rekey(now)?;
        }
        self.listeners = listeners;
        if self.nobody.is_empty() {
            self.nobody = Key::generate("nobody", 0, now)?.line();
        }
        for (id, name) in connectors {
            if !self.connectors.contains_key(id) {
                let key = Key::generate(name, 1, now)?;
                self.connectors.insert(id.to_owned(), End { count: 1, key, next: None, before: None });
            }
        }
        Ok(*self != before)
    }

    /// Is without a listener, since one is lost that knew all keys: all are new, and count when there is
    /// a listener.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn lose_listener(&mut self, now: u64) -> Result<(), GroupError> {
        self.listeners.clear();
        self.rekey(now)
    }

    fn rekey(&mut self, now: u64) -> Result<(), GroupError> {
        for end in self.connectors.values_mut() {
            let key = end.following(now)?;
            *end = End { count: end.count, key, next: None, before: None };
        }
        Ok(())
    }

    /// What a member gets.
    #[must_use]
    pub fn given(&self, of: &str) -> Given {
        let mut given = Given::default();
        let text = if self.listeners.contains(of) {
            let keys = self
                .connectors
                .values()
                .flat_map(|end| [Some(&end.key), end.next.as_ref(), end.before.as_ref()]);
            let lines: String = keys.flatten().map(Key::line).collect();
            if lines.is_empty() { self.nobody.clone() } else { lines }
        } else {
            self.connectors.get(of).map(|end| end.key.line()).unwrap_or_default()
        };
        if !text.is_empty() {
            given.files.insert(FILE.to_owned(), text);
        }
        given
    }

    /// The identifiers of listeners.
    #[must_use]
    pub const fn listeners(&self) -> &BTreeSet<String> {
        &self.listeners
    }

    /// The time at which the oldest key was made.
    #[must_use]
    pub fn made(&self) -> Option<u64> {
        self.connectors.values().map(|end| end.key.made).min()
    }

    /// The first step: the listeners get the next keys. A change that has begun goes on.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn begin(&mut self, now: u64) -> Result<(), GroupError> {
        for end in self.connectors.values_mut() {
            if end.next.is_none() && end.before.is_none() {
                end.next = Some(end.following(now)?);
            }
        }
        Ok(())
    }

    /// The second step: the connectors get the next keys.
    pub fn exchange(&mut self) {
        for end in self.connectors.values_mut() {
            if let Some(next) = end.next.take() {
                end.before = Some(std::mem::replace(&mut end.key, next));
            }
        }
    }

    /// The third step: the listeners forget the keys of before, except of these connectors, which have
    /// not answered.
    pub fn complete(&mut self, except: &BTreeSet<String>) {
        for (id, end) in &mut self.connectors {
            if !except.contains(id) {
                end.before = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Member;
    use crate::identity::{Identity, Seed};

    fn member(name: &str, octet: u8, listener: bool) -> (String, Member) {
        let keys = Identity::of(Seed::of([octet; 32])).public();
        let mut member = Member::new(name, "device", "", keys);
        member.dtls = "hall".into();
        if listener {
            member.values.insert("listener".into(), "yes".into());
        }
        (keys.id(), member)
    }

    fn sides(members: &[(String, Member)]) -> Vec<Side<'_>> {
        members.iter().map(|(id, member)| Side { id, member }).collect()
    }

    fn text(group: &Group, of: &(String, Member)) -> String {
        group.given(&of.0).files[FILE].clone()
    }

    #[test]
    fn change_refuses_nobody() {
        let members = [member("server", 1, true), member("press", 2, false), member("pump", 3, false)];
        let [server, press, _] = &members;
        let mut group = Group::default();
        assert!(group.follow("hall", &sides(&members), 5).unwrap());
        assert!(!group.follow("hall", &sides(&members), 6).unwrap());
        let first = text(&group, press);
        assert!(first.starts_with("press.1:") && first.lines().count() == 1);
        assert!(text(&group, server).contains(&first) && text(&group, server).lines().count() == 2);
        let known = |group: &Group| text(group, server).contains(&text(group, press));
        group.begin(7).unwrap();
        assert_eq!((text(&group, press), text(&group, server).lines().count()), (first.clone(), 4));
        // A change that was interrupted goes on with the same keys.
        let begun = group.clone();
        group.begin(8).unwrap();
        assert_eq!(group, begun);
        group.exchange();
        assert!(known(&group) && text(&group, press).starts_with("press.2:"));
        assert!(text(&group, server).contains(&first), "who has not got it yet is let in");
        group.complete(&BTreeSet::from([members[2].0.clone()]));
        assert!(known(&group) && !text(&group, server).contains(&first));
        assert!(text(&group, server).contains("pump.1:"), "it has not answered");
        assert!(!format!("{group:?}").contains(first.trim()) && group.made() == Some(7));
    }

    #[test]
    fn lost_member_leaves_no_key() {
        let mut members =
            vec![member("server", 1, true), member("press", 2, false), member("spare", 3, true)];
        let mut group = Group::default();
        group.follow("hall", &sides(&members), 5).unwrap();
        let first = text(&group, &members[1]);
        // A listener is lost: it knew all keys.
        let spare = members.pop().unwrap();
        assert!(group.listeners().contains(&spare.0) && group.follow("hall", &sides(&members), 6).unwrap());
        assert_ne!(text(&group, &members[1]), first);
        let press = members.pop().unwrap();
        group.follow("hall", &sides(&members), 7).unwrap();
        // A listener without connectors has a key that nobody has.
        let alone = text(&group, &members[0]);
        assert!(!alone.contains("press") && alone.starts_with("nobody") && alone.len() > 64);
        members.remove(0);
        let alone = [press];
        group = Group::default();
        assert_eq!(group.follow("hall", &sides(&alone), 8), Err(GroupError::NoListener("hall".into())));
    }

    #[test]
    fn lost_listener_knows_no_key() {
        let mut members = vec![member("server", 1, true), member("press", 2, false)];
        let mut group = Group::default();
        group.follow("hall", &sides(&members), 5).unwrap();
        let first = text(&group, &members[1]);
        members.remove(0);
        assert_eq!(group.follow("hall", &sides(&members), 6), Err(GroupError::NoListener("hall".into())));
        group.lose_listener(6).unwrap();
        group.follow("hall", &sides(&members), 6).unwrap();
        let second = text(&group, &members[0]);
        assert!(second.starts_with("press.2:") && second != first);
        assert!(!group.follow("hall", &sides(&members), 7).unwrap(), "and it stays so");
        // Another listener knows it.
        members.push(member("spare", 3, true));
        group.follow("hall", &sides(&members), 8).unwrap();
        assert_eq!((text(&group, &members[0]), text(&group, &members[1])), (second.clone(), second));
    }
}

//! A cell: devices with a common pre-shared key (CAK) for MACsec.
//!
//! A change has two steps, and loses no frame: first all members have the new CAK beside the old one,
//! then the old one goes.
//!
//! A cell follows its members: each key knows who was given it. When one of them is gone, the key
//! must change.

use std::collections::BTreeSet;

use antedate_host::hex::hex;
use serde::{Deserialize, Serialize};

use crate::{NoRandom, random};

/// The name of the file with the CAKs, which the configuration names as `cak_file`.
pub const FILE: &str = "cak";

/// A pre-shared key and its name.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cak {
    /// Its name (CKN) in hexadecimal digits.
    pub ckn: String,
    cak: String,
    /// Its preference: the largest first.
    pub priority: u32,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// The identifiers of the devices that were given it.
    #[serde(default)]
    holders: BTreeSet<String>,
}

impl std::fmt::Debug for Cak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cak({})", self.ckn)
    }
}

/// The keys of a cell: one, or two during a change. The preferred one is the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    keys: Vec<Cak>,
}

impl Cak {
    fn generate(priority: u32, now: u64) -> Result<Self, NoRandom> {
        let (mut cak, mut ckn) = ([0; 32], [0; 32]);
        random(&mut cak)?;
        random(&mut ckn)?;
        Ok(Self { ckn: hex(&ckn), cak: hex(&cak), priority, made: now, holders: BTreeSet::new() })
    }
}

impl Cell {
    /// A new one with a key of 256 bits.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn generate(now: u64) -> Result<Self, NoRandom> {
        Ok(Self { keys: vec![Cak::generate(1, now)?] })
    }

    /// Gives the keys to these members. True if one of them is new.
    pub fn follow<'a>(&mut self, members: impl Iterator<Item = &'a str>) -> bool {
        let mut is_new = false;
        for id in members {
            for key in &mut self.keys {
                is_new |= key.holders.insert(id.to_owned());
            }
        }
        is_new
    }

    /// The devices that were given the preferred key, and are no members any more.
    pub fn left<'a>(&'a self, is_member: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = &'a str> {
        let holders = self.preferred().into_iter().flat_map(|key| &key.holders);
        holders.map(String::as_str).filter(move |id| !is_member(id))
    }

    /// The preferred key.
    #[must_use]
    pub fn preferred(&self) -> Option<&Cak> {
        self.keys.last()
    }

    /// Whether a change has begun and is not complete.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.keys.len() > 1
    }

    /// Begins a change: a new key beside the old one. A change that has begun goes on.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn begin(&mut self, now: u64) -> Result<(), NoRandom> {
        if !self.changes() {
            let priority = self.preferred().map_or(1, |key| key.priority.saturating_add(1));
            self.keys.push(Cak::generate(priority, now)?);
        }
        Ok(())
    }

    /// Completes a change: the new key alone.
    pub fn complete(&mut self) {
        let old = self.keys.len().saturating_sub(1);
        self.keys.drain(..old);
    }

    /// A new key in place of all others, as after a revocation.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn replace(&mut self, now: u64) -> Result<(), NoRandom> {
        self.complete();
        self.begin(now)?;
        self.complete();
        Ok(())
    }

    /// The file for the gateway, in the form of `wpa_supplicant.conf(5)`.
    #[must_use]
    pub fn text(&self) -> String {
        let block = |key: &Cak| {
            format!("network={{\nmka_cak={}\nmka_ckn={}\npriority={}\n}}\n", key.cak, key.ckn, key.priority)
        };
        self.keys.iter().rev().map(block).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_has_two_steps() {
        let mut cell = Cell::generate(1).unwrap();
        let first = cell.preferred().unwrap().clone();
        cell.begin(2).unwrap();
        let second = cell.preferred().unwrap().clone();
        assert!(second.priority > first.priority && second.ckn != first.ckn);
        let text = cell.text();
        assert!(text.contains(&first.ckn) && text.contains(&second.ckn), "{text}");
        // The preferred key stands first.
        assert!(text.find(&second.ckn) < text.find(&first.ckn));
        // A change that was interrupted goes on with the same key.
        cell.begin(3).unwrap();
        assert_eq!(cell.preferred(), Some(&second));
        cell.complete();
        assert!(!cell.changes() && !cell.text().contains(&first.ckn));
    }

    #[test]
    fn who_left_knows_no_key_after_a_change() {
        let mut cell = Cell::generate(1).unwrap();
        assert!(cell.follow(["press", "hall"].into_iter()) && !cell.follow(["hall"].into_iter()));
        let left = |cell: &Cell| cell.left(|id| id == "hall").map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(left(&cell), ["press"]);
        cell.begin(2).unwrap();
        cell.follow(["hall"].into_iter());
        assert!(left(&cell).is_empty(), "it never had the new key");
        cell.complete();
        assert!(left(&cell).is_empty());
        // Who leaves during a change has both keys.
        cell.begin(3).unwrap();
        cell.follow(["hall", "pump"].into_iter());
        assert_eq!(left(&cell), ["pump"]);
        cell.replace(4).unwrap();
        assert!(left(&cell).is_empty());
        // A file of before tells of no holders.
        let text = serde_json::to_string(&cell).unwrap().replace(",\"holders\":[]", "");
        assert!(!text.contains("holders") && serde_json::from_str::<Cell>(&text).unwrap() == cell);
    }

    #[test]
    fn replacement_leaves_no_old_key() {
        let mut cell = Cell::generate(1).unwrap();
        cell.begin(2).unwrap();
        let before = cell.text();
        cell.replace(3).unwrap();
        let new = cell.preferred().unwrap();
        assert!(!before.contains(&new.ckn) && !cell.changes());
        assert!(!format!("{cell:?}").contains(&new.cak));
    }
}

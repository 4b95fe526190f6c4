//! What a group's manager does: make a group, rotate its key, revoke a member.

use std::path::Path;

use antedate_channel::mqtt::Algorithm;
use antedate_channel::mqtt::rotation::{self, Rotation};
use antedate_host::fault::{Fault, Faults};
use antedate_host::replace::Held;
use zeroize::Zeroizing;

use crate::file::{GroupFile, Key, Member, Secret};

/// Seconds that members read the epoch before, where nothing else was said.
pub const GRACE: u32 = 60;

/// A new random secret.
///
/// # Errors
/// When the system gives no random numbers.
pub fn random() -> Result<Secret, Fault> {
    let mut secret = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *secret).map_err(no_random)?;
    Ok(secret)
}

fn no_random(error: getrandom::Error) -> Fault {
    Fault::of_file(
        "antedate".as_ref(),
        format!("the system gives no random numbers: {error}"),
        "no keys can be made here",
    )
}

/// A new group with a key for epoch 1; with members it has a manager too.
///
/// # Errors
/// When the system gives no random numbers.
pub fn new_group(
    name: &str,
    algorithm: Algorithm,
    topics: Vec<String>,
    members: Vec<Member>,
) -> Result<GroupFile, Fault> {
    let signing = if members.iter().any(|member| member.public.is_some()) { Some(random()?) } else { None };
    Ok(GroupFile {
        file: std::path::PathBuf::new(),
        group: name.to_owned(),
        algorithm,
        topics,
        rotation_topic: format!("antedate/keys/{name}"),
        manager: signing.as_ref().map(|secret| rotation::manager_public(secret)),
        signing,
        keys: vec![Key { epoch: 1, secret: random()?, grace: None }],
        members,
    })
}

/// The message that brings the newest key to all members.
fn announce(group: &GroupFile) -> Result<Vec<u8>, Fault> {
    let fault = |what: String, remedy: &str| Fault::of_file(&group.file, what, remedy);
    let signing = group.signing.as_ref().ok_or_else(|| match group.manager {
        Some(_) => fault(
            "has no signing_key, so it is not the manager's file".into(),
            "rotate where the group was made",
        ),
        None => fault("has no manager, so nothing is published".into(), "copy the file to the members"),
    })?;
    let key = group.keys.last().ok_or_else(|| fault("has no [[key]]".into(), "make a new group"))?;
    let rotation = Rotation {
        epoch: key.epoch,
        algorithm: group.algorithm,
        secret: key.secret.clone(),
        grace: key.grace.unwrap_or(GRACE),
    };
    let sealed = rotation::seal(&group.group, &rotation, signing, &group.recipients(), getrandom::fill);
    sealed.map_err(|error| fault(error.to_string(), "correct the [[member]] entries"))
}

/// A group's file while nobody else rotates its key: from its reading until what follows is published too and this is dropped.
///
/// A group without a manager has the same file everywhere: nothing is published, and the members need the new file.
#[derive(Debug)]
pub struct Manager {
    held: Held,
    group: GroupFile,
}

impl Manager {
    /// Reads the file of a manager, or of a group without one, and holds it.
    ///
    /// # Errors
    /// When somebody else holds it, it has faults, or it is a member's of a group that has a manager.
    pub fn open(file: &Path) -> Result<Self, Faults> {
        let held = Held::take(file)?;
        let group = GroupFile::load(file)?;
        // Refused before anything changes. Without a manager nothing is announced, and each who has the file may rotate.
        if group.manager.is_some() {
            announce(&group)?;
        }
        Ok(Self { held, group })
    }

    /// The group as it is in the file.
    #[must_use]
    pub const fn group(&self) -> &GroupFile {
        &self.group
    }

    /// Adds the key of the next epoch, without those members, and writes the file. Members read the epoch before for so many seconds
    /// more, and it stays in the file too: not if there are none, nor if anybody is revoked, who could still seal under it.
    ///
    /// # Errors
    /// When a member is unknown, or the file cannot be written.
    pub fn rotate(&mut self, revoked: &[String], grace: u32) -> Result<u32, Faults> {
        let Self { held, group } = self;
        for name in revoked {
            if !group.members.iter().any(|member| member.name == *name) {
                let known: Vec<&str> = group.members.iter().map(|member| member.name.as_str()).collect();
                let what = format!("has no member {name:?}");
                return Err(
                    Fault::of_file(&group.file, what, format!("members: {}", known.join(", "))).into()
                );
            }
        }
        group.members.retain(|member| !revoked.contains(&member.name));
        let newest = group.keys.last().map_or(0, |key| key.epoch);
        let epoch = newest
            .checked_add(1)
            .ok_or_else(|| Fault::of_file(&group.file, "has no epoch left", "make a new group"))?;
        let grace = if revoked.is_empty() { grace } else { 0 };
        let told = group.signing.is_some().then_some(grace);
        group.keys.push(Key { epoch, secret: random()?, grace: told });
        let surplus = group.keys.len().saturating_sub(if grace == 0 { 1 } else { 2 });
        group.keys.drain(..surplus);
        held.replace(&group.to_checked_text(false)?)?;
        Ok(epoch)
    }

    /// The message that brings the newest key to all members, with the grace that it was made with.
    ///
    /// # Errors
    /// When there is no manager, or a member cannot be sealed for.
    pub fn announce(&self) -> Result<Vec<u8>, Fault> {
        announce(&self.group)
    }
}

#[cfg(test)]
mod tests;

//! The manager's tasks: make a group, rotate its key, revoke members.

use std::path::Path;

use antedate_channel::mqtt::Algorithm;
use antedate_channel::mqtt::rotation::{self, Rotation};
use antedate_host::fault::{Fault, Faults};
use antedate_host::replace::Held;
use zeroize::Zeroizing;

use crate::file::{GroupFile, Key, Member, Secret};

/// The default grace in seconds, during which members still read the previous epoch.
pub const GRACE: u32 = 60;

/// A new random secret.
///
/// # Errors
/// When the system has no random numbers.
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

/// A new group with a key for epoch 1. It has a manager if a member has a public key.
///
/// # Errors
/// When the system has no random numbers.
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
        max_ages: Vec::new(),
        signed: Vec::new(),
        rotation_topic: format!("antedate/keys/{name}"),
        manager: signing.as_ref().map(|secret| rotation::manager_public(secret)),
        signing,
        keys: vec![Key { epoch: 1, secret: random()?, grace: None }],
        members,
    })
}

/// The rotation message with the newest key for all members.
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

/// A group file, locked against other rotations until this is dropped, after the rotation is
/// published.
///
/// A group without a manager has the same file everywhere. Nothing is published; each member needs
/// the new file.
#[derive(Debug)]
pub struct Manager {
    held: Held,
    group: GroupFile,
}

impl Manager {
    /// Locks and reads the file of a manager, or of a group without one.
    ///
    /// # Errors
    /// When another process holds the file, it has faults, or it is a member's file of a group with
    /// a manager.
    pub fn open(file: &Path) -> Result<Self, Faults> {
        let held = Held::take(file)?;
        let group = GroupFile::load(file)?;
        // A member's file is refused before anything changes. Without a manager each file may
        // rotate.
        if group.manager.is_some() {
            announce(&group)?;
        }
        Ok(Self { held, group })
    }

    /// The group in the file.
    #[must_use]
    pub const fn group(&self) -> &GroupFile {
        &self.group
    }

    /// Adds the key of the next epoch, removes the revoked members and writes the file. Members
    /// still read the previous epoch for `grace` seconds, and its key stays in the file. With
    /// revoked members the grace is 0: they could still seal under the previous key.
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

    /// The rotation message with the newest key and its grace for all members.
    ///
    /// # Errors
    /// When there is no manager, or a member's public key is invalid.
    pub fn announce(&self) -> Result<Vec<u8>, Fault> {
        announce(&self.group)
    }
}

#[cfg(test)]
mod tests;

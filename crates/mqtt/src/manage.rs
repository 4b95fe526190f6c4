//! The manager's tasks: make a group, rotate its key, admit, replace and remove members.

use std::collections::BTreeMap;
use std::path::Path;

use antedate_channel::mqtt::Algorithm;
use antedate_channel::mqtt::enrol::{Code, Request};
use antedate_channel::mqtt::rotation::{self, Recipient, Rotation};
use antedate_host::fault::{Fault, Faults};
use antedate_host::replace::Held;
use zeroize::Zeroizing;

use crate::file::{GroupFile, Key, MEMBERS_MAX, Member, NAME_RULE, ONE_MESSAGE_MAX, Secret, is_name};

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
    let managed = members.iter().any(|member| member.public.is_some());
    let mut group = GroupFile { members, ..new_managed_group(name, algorithm, topics)? };
    group.per_member = is_per_member(&group);
    Ok(if managed { group } else { GroupFile { signing: None, manager: None, ..group } })
}

/// A new group with a manager, a key for epoch 1 and no members, who are [admitted](Manager::admit)
/// later.
///
/// # Errors
/// When the system has no random numbers.
pub fn new_managed_group(name: &str, algorithm: Algorithm, topics: Vec<String>) -> Result<GroupFile, Fault> {
    let signing = Some(random()?);
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
        keys: vec![Key { epoch: 1, secret: random()?, grace: None, without: Vec::new() }],
        members: Vec::new(),
        per_member: false,
        past_epochs: 0,
        topic_maps: Vec::new(),
        used_codes: Vec::new(),
    })
}

/// A message on a topic, retained by the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The topic.
    pub topic: String,
    /// The rotation message.
    pub message: Vec<u8>,
}

/// The rotation message with the newest key for some members.
fn announce(group: &GroupFile, recipients: &[Recipient<'_>]) -> Result<Vec<u8>, Fault> {
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
        past: past(group),
    };
    let sealed = rotation::seal(&group.group, &rotation, signing, recipients, getrandom::fill);
    sealed.map_err(|error| fault(error.to_string(), "correct the [[member]] entries"))
}

/// The name of a recipient in a message for nobody: no member may have it.
const NOBODY: &[u8] = b"#";

/// The rotation message with the newest key for all members at once. One without recipients would say
/// that each member has a message of its own, so that a device which was the last member would keep its
/// key: such a message is for nobody.
fn announce_to_all(group: &GroupFile) -> Result<Vec<u8>, Fault> {
    let mut recipients = group.recipients();
    if recipients.is_empty() {
        recipients.push(Recipient { name: NOBODY, public: *random()? });
    }
    announce(group, &recipients)
}

/// The keys before the newest one that rotations bring. The file has none from before a revocation, so
/// nobody who was revoked has one of them.
fn past(group: &GroupFile) -> Vec<Secret> {
    let before = group.keys.iter().rev().skip(1).zip(1..=group.past_epochs);
    let near = before.take_while(|(key, back)| key.epoch.checked_add(*back) == Some(group.epoch()));
    let mut past: Vec<Secret> = near.map(|(key, _)| key.secret.clone()).collect();
    past.reverse();
    past
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
            announce(&group, &[])?;
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
                return Err(unknown(group, name).into());
            }
        }
        // Kept from here on: what the broker retains for each member would be old otherwise.
        group.per_member |= is_per_member(group);
        group.members.retain(|member| !revoked.contains(&member.name));
        let grace = if revoked.is_empty() { grace } else { 0 };
        next_key(group, grace, revoked)?;
        held.replace(&group.to_checked_text(false)?)?;
        Ok(group.epoch())
    }

    /// Adds a device that asked with a code, and writes the file. No new epoch is needed. A second call
    /// with the same request changes nothing.
    ///
    /// # Errors
    /// When the group has no manager, the code was used by another device, the name is taken or none, or
    /// the file cannot be written.
    pub fn admit(&mut self, request: &Request, code: &Code, publish: bool) -> Result<(), Faults> {
        let Self { held, group } = self;
        if admissible(group, request, code)? {
            return Ok(());
        }
        if group.members.iter().any(|member| member.name == request.name) {
            let what = format!("has a member {:?} with another key", request.name);
            let remedy = "if the device was replaced or has new keys: antedate mqtt replace; otherwise give it another name";
            return Err(Fault::of_file(&group.file, what, remedy).into());
        }
        if group.members.len() >= MEMBERS_MAX {
            let what = format!("has {MEMBERS_MAX} members, the most of a group");
            return Err(Fault::of_file(&group.file, what, "make several groups").into());
        }
        group.members.push(Member {
            name: request.name.clone(),
            public: Some(request.public),
            publish,
            verify: Some(request.verify),
        });
        group.used_codes.push(code.mark());
        group.per_member |= is_per_member(group);
        held.replace(&group.to_checked_text(false)?)?;
        Ok(())
    }

    /// Gives a member the keys of another device, adds the key of the next epoch, which the former
    /// device does not get, and writes the file. The previous epoch ends at once. A second call with the
    /// same code changes nothing. Returns whether there is a new epoch.
    ///
    /// # Errors
    /// As [`admit`](Self::admit), or when there is no such member.
    pub fn replace(&mut self, device: &Request, code: Option<&Code>) -> Result<bool, Faults> {
        let Self { held, group } = self;
        if let Some(code) = code
            && admissible(group, device, code)?
        {
            return Ok(false);
        }
        manager_only(group)?;
        let Some(member) = group.members.iter_mut().find(|member| member.name == device.name) else {
            return Err(unknown(group, &device.name).into());
        };
        member.public = Some(device.public);
        // A group with signed topics keeps its files only with the new key.
        member.verify = Some(device.verify).filter(|key| *key != [0; 32]);
        group.used_codes.extend(code.map(Code::mark));
        group.per_member |= is_per_member(group);
        next_key(group, 0, &[])?;
        held.replace(&group.to_checked_text(false)?)?;
        Ok(true)
    }

    /// Makes the members those of a list, as of a fleet, and writes the file. If somebody has left, or has
    /// another public key, there is a new epoch without them, and the previous one ends at once. Returns
    /// whether there is. A list of the same members changes nothing.
    ///
    /// # Errors
    /// When the group has no manager, the list is too long, or the file cannot be written.
    pub fn follow(&mut self, members: Vec<Member>) -> Result<bool, Faults> {
        let Self { held, group } = self;
        manager_only(group)?;
        if has_members(group, &members) {
            return Ok(false);
        }
        if members.len() > MEMBERS_MAX {
            let what = format!("would have {} members, more than {MEMBERS_MAX}", members.len());
            return Err(Fault::of_file(&group.file, what, "make several groups").into());
        }
        // Before and after: what the broker retains for each member would be old otherwise.
        group.per_member |= is_per_member(group);
        let before = std::mem::replace(&mut group.members, members);
        group.per_member |= is_per_member(group);
        let now: BTreeMap<&str, Option<[u8; 32]>> =
            group.members.iter().map(|one| (one.name.as_str(), one.public)).collect();
        let is_new_epoch = before.iter().any(|old| now.get(old.name.as_str()) != Some(&old.public));
        let gone: Vec<String> =
            before.into_iter().map(|old| old.name).filter(|name| !now.contains_key(name.as_str())).collect();
        if is_new_epoch {
            next_key(group, 0, &gone)?;
        }
        held.replace(&group.to_checked_text(false)?)?;
        Ok(is_new_epoch)
    }

    /// The rotation message with the newest key and its grace for all members at once.
    ///
    /// # Errors
    /// When there is no manager, or a member's public key is invalid.
    pub fn announce(&self) -> Result<Vec<u8>, Fault> {
        announce_to_all(&self.group)
    }

    /// What the broker must retain so that all members get the newest key: one message, or one for each
    /// member, for those that the newest key was made without, and a notice where the one for all was.
    ///
    /// # Errors
    /// As [`announce`](Self::announce), for each message.
    pub fn announcements(&self) -> impl Iterator<Item = Result<Announcement, Fault>> {
        let group = &self.group;
        let each = is_per_member(group);
        let on = move |member: Option<&str>, message: Result<Vec<u8>, Fault>| {
            Ok(Announcement { topic: group.rotation_topic_here(member), message: message? })
        };
        let members = group.members.iter().filter(move |_| each).filter_map(|member| {
            let one = Recipient { name: member.name.as_bytes(), public: member.public? };
            Some((member.name.as_str(), one))
        });
        let without = group.keys.last().filter(|_| each).into_iter().flat_map(|key| &key.without);
        let all = std::iter::once_with(move || match each {
            true => on(None, announce(group, &[])),
            false => on(None, announce_to_all(group)),
        });
        members
            .map(move |(name, one)| on(Some(name), announce(group, &[one])))
            .chain(without.map(move |name| on(Some(name), announce(group, &[]))))
            .chain(all)
    }

    /// What the broker must retain so that one member gets the newest key.
    ///
    /// # Errors
    /// As [`announce`](Self::announce), or when there is no such member with a public key.
    pub fn announcement_for(&self, member: &str) -> Result<Announcement, Fault> {
        let group = &self.group;
        if !is_per_member(group) {
            return Ok(Announcement { topic: group.rotation_topic_here(None), message: self.announce()? });
        }
        let named = group.members.iter().find(|one| one.name == member);
        let public = named.and_then(|one| one.public).ok_or_else(|| unknown(group, member))?;
        let message = announce(group, &[Recipient { name: member.as_bytes(), public }])?;
        Ok(Announcement { topic: group.rotation_topic_here(Some(member)), message })
    }
}

/// Whether a group has these members and no others, in any order.
#[must_use]
pub fn has_members(group: &GroupFile, members: &[Member]) -> bool {
    let present: BTreeMap<&str, &Member> = group.members.iter().map(|one| (one.name.as_str(), one)).collect();
    present.len() == members.len() && members.iter().all(|one| present.get(one.name.as_str()) == Some(&one))
}

/// Whether a rotation has a message for each member.
fn is_per_member(group: &GroupFile) -> bool {
    group.per_member
        || group.members.iter().filter(|member| member.public.is_some()).count() > ONE_MESSAGE_MAX
}

/// Adds the key of the next epoch. With a grace the keys before stay for readers, and for rotations with
/// past epochs.
fn next_key(group: &mut GroupFile, grace: u32, without: &[String]) -> Result<(), Fault> {
    let epoch = group
        .epoch()
        .checked_add(1)
        .ok_or_else(|| Fault::of_file(&group.file, "has no epoch left", "make a new group"))?;
    let managed = group.signing.is_some();
    let told = managed.then_some(grace);
    let without = if managed { without.to_vec() } else { Vec::new() };
    group.keys.push(Key { epoch, secret: random()?, grace: told, without });
    let before = usize::try_from(group.past_epochs).unwrap_or(usize::MAX).max(1);
    let surplus = group.keys.len().saturating_sub(if grace == 0 { 1 } else { before + 1 });
    group.keys.drain(..surplus);
    Ok(())
}

/// Whether a request was admitted before. An error says why it cannot be.
fn admissible(group: &GroupFile, request: &Request, code: &Code) -> Result<bool, Fault> {
    manager_only(group)?;
    if !is_name(&request.name) {
        let what = format!("the device calls itself {:?}, which is no name", request.name);
        return Err(Fault::of_file(&group.file, what, NAME_RULE));
    }
    if !group.used_codes.contains(&code.mark()) {
        return Ok(false);
    }
    let same = |member: &Member| {
        member.name == request.name
            && member.public == Some(request.public)
            && member.verify == Some(request.verify)
    };
    if group.members.iter().any(same) {
        return Ok(true);
    }
    let remedy = "let the device ask again (antedate mqtt enrol), and take the code that it shows then";
    Err(Fault::of_file(&group.file, "knows this code: it was used before", remedy))
}

/// A fault for a file that is not a manager's.
fn manager_only(group: &GroupFile) -> Result<(), Fault> {
    if group.signing.is_some() {
        return Ok(());
    }
    let what = "has no manager, so each member has the keys in its file";
    let remedy = "make a group with one: antedate keygen mqtt --group NAME --managed";
    Err(Fault::of_file(&group.file, what, remedy))
}

fn unknown(group: &GroupFile, name: &str) -> Fault {
    const SHOWN: usize = 20;
    let mut known: Vec<&str> = group.members.iter().map(|one| one.name.as_str()).take(SHOWN).collect();
    if group.members.len() > SHOWN {
        known.push("..");
    }
    Fault::of_file(&group.file, format!("has no member {name:?}"), format!("members: {}", known.join(", ")))
}

#[cfg(test)]
mod tests;

//! The group file (topics, keys, members) and the device file (a device's own key pair).
//!
//! All members have the same `group`, `algorithm` and `topics`. With static keys each file has the
//! `[[key]]` entries. With a manager, members' files have its public key instead, and rotation
//! messages bring the keys. Only the manager's file has the `signing_key` and the `[[member]]`
//! entries.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use antedate_channel::mqtt::rotation::{
    PAST_MAX, Recipient, device_public, is_device_public, manager_public,
};
use antedate_channel::mqtt::{Algorithm, Dropped, Group, Opened, PUBLISHER_MAX, SECRET_LEN, signed, topic};
use antedate_host::document::{Document, Field, Section};
use antedate_host::fault::{Fault, Faults};
use antedate_host::hex::{hex, is_zero, parse_hex, push_hex};
use antedate_host::private_file;
use antedate_host::process;
use zeroize::Zeroizing;

use topics::{max_ages, signed_topics, topic_maps, topics};

mod topics;
pub use topics::TopicMap;

/// A secret of 32 octets, wiped on drop.
pub type Secret = Zeroizing<[u8; SECRET_LEN]>;

/// A public key of small order, or none at all.
pub const WEAK: &str =
    "is no public key: it is of small order, or no point of the curve, so everybody could know its secrets";

/// The most members of a group.
pub const MEMBERS_MAX: usize = 16_384;

/// The most members for whom one rotation message is made. A group with more has a message for each.
pub const ONE_MESSAGE_MAX: usize = 64;

/// Octets of the largest file: of a manager with [`MEMBERS_MAX`] members.
const FILE_MAX: usize = 384 * MEMBERS_MAX;

/// The content of a group file.
#[derive(Debug)]
pub struct GroupFile {
    /// The file's path, for faults.
    pub file: PathBuf,
    /// The group's name, an input of every key.
    pub group: String,
    /// The algorithm of all payloads.
    pub algorithm: Algorithm,
    /// The filters of the protected topics.
    pub topics: Vec<String>,
    /// Filters of topics whose messages age, and the seconds after which they are refused.
    pub max_ages: Vec<(String, u32)>,
    /// Filters of topics whose messages are signed by their publishers.
    pub signed: Vec<String>,
    /// The topic of the retained rotation messages.
    pub rotation_topic: String,
    /// The manager's Ed25519 public key, which verifies rotations.
    pub manager: Option<[u8; 32]>,
    /// The manager's secret key, in its own file only.
    pub signing: Option<Secret>,
    /// The keys, by ascending epoch.
    pub keys: Vec<Key>,
    /// The members, in the manager's file.
    pub members: Vec<Member>,
    /// The manager makes a rotation message for each member.
    pub per_member: bool,
    /// The epochs before the newest one that rotations bring, so that retained payloads stay
    /// readable, for newcomers too.
    pub past_epochs: u32,
    /// Names of topics behind a bridge with prefixes.
    pub topic_maps: Vec<TopicMap>,
    /// The marks of the enrolment codes that were used, in the manager's file.
    pub used_codes: Vec<[u8; 8]>,
}

/// The key of an epoch.
#[derive(Debug)]
pub struct Key {
    /// The epoch.
    pub epoch: u32,
    /// The epoch's secret.
    pub secret: Secret,
    /// Seconds for which members still read the previous epoch; 0 after a revocation. The manager's
    /// file has it, so that `rotate --again` repeats it.
    pub grace: Option<u32>,
    /// The members that this key was made without, so that `rotate --again` tells them again.
    pub without: Vec<String>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The name, as a publisher and at the broker.
    pub name: String,
    /// The X25519 public key, for rotations.
    pub public: Option<[u8; 32]>,
    /// Whether the member may publish.
    pub publish: bool,
    /// The Ed25519 public key, for signed topics.
    pub verify: Option<[u8; 32]>,
}

/// A device's name and key pair.
#[derive(Debug)]
pub struct Device {
    /// The name, also as a publisher.
    pub name: String,
    /// The X25519 secret key.
    pub secret: Secret,
}

impl Device {
    /// The X25519 public key.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        device_public(&self.secret)
    }

    /// The Ed25519 public key, for signed topics.
    #[must_use]
    pub fn verify(&self) -> [u8; 32] {
        manager_public(&self.signing())
    }

    /// The Ed25519 secret key, which is derived from the secret.
    pub(crate) fn signing(&self) -> Secret {
        signed::signing_secret(&self.secret)
    }

    /// Reads a device file, which only this user may read.
    ///
    /// # Errors
    /// All faults at once, each with its line. None shows the key.
    pub fn load(file: &Path) -> Result<Self, Faults> {
        let text = load(file, "`antedate keygen mqtt --device NAME` makes one")?;
        let document = Document::parse(file, &text);
        let mut root = document.root();
        let name = root.required("device", "name the device").and_then(|field| name(&field));
        let secret = root.required("secret", "write 64 hexadecimal digits").and_then(|field| secret(&field));
        root.finish();
        match (name, secret, document.into_faults()) {
            (Some(name), Some(secret), faults) if faults.is_empty() => Ok(Self { name, secret }),
            (_, _, faults) => Err(Faults::new(faults)),
        }
    }

    /// The text of the file.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(1024));
        text.push_str("# A device's own key: it never leaves the device, mode 0600.\n");
        text.push_str(&format!("# Its public key, for the group's manager: {}\n", hex(&self.public())));
        text.push_str(&format!(
            "# For signed topics, both keys: {}:{}\n",
            hex(&self.public()),
            hex(&self.verify())
        ));
        text.push_str(&format!("device = \"{}\"\nsecret = \"", self.name));
        push_hex(&mut text, &*self.secret);
        text.push_str("\"\n");
        text
    }
}

impl GroupFile {
    /// Reads a group file. Only this user may read a file with a secret. Others may read, but not
    /// change, a members' file without one.
    ///
    /// # Errors
    /// All faults at once, each with its line. None shows a key.
    pub fn load(file: &Path) -> Result<Self, Faults> {
        match load(file, "`antedate keygen mqtt --group NAME` makes one") {
            Ok(text) => Self::parse(file, &text),
            Err(refused) => load_shared(file).unwrap_or(Err(refused)),
        }
    }

    /// Parses the text of a group file. Faults name `file`.
    ///
    /// # Errors
    /// All faults at once, each with its line. None shows a key.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let document = Document::parse(file, text);
        let mut root = document.root();
        let group =
            root.required("group", "name the group, as all members do").and_then(|field| name(&field));
        let algorithms: Vec<(&str, Algorithm)> =
            Algorithm::ALL.iter().map(|one| (one.name(), *one)).collect();
        let algorithm = root
            .required("algorithm", "write algorithm = \"aes-ccm-16-64-128\" or another one")
            .and_then(|field| field.one_of("an algorithm", &algorithms));
        let topics = topics(&mut root);
        let rotation_topic = root.get("rotation_topic").and_then(|field| {
            let text = field.string()?;
            match topic::check_name(text) {
                Ok(()) => return Some(text.to_owned()),
                Err(why) => field.fault(why.to_string(), "give the name of a topic"),
            }
            None
        });
        let manager = root.get("manager").and_then(|field| {
            let manager = key(&field)?;
            if signed::is_verifying_key(&manager) {
                return Some(manager);
            }
            field.fault(WEAK, "copy the group file from its manager again");
            None
        });
        let signing = root.get("signing_key").and_then(|field| secret(&field));
        let keys = keys(&mut root);
        let members = members(&mut root);
        let max_ages = max_ages(&mut root, &topics);
        let signed = signed_topics(&mut root, &topics);
        let per_member = root
            .get("rotation")
            .and_then(|field| field.one_of("a way", &[("one-message", false), ("per-member", true)]));
        let past_epochs = root.get("past_epochs").and_then(|field| field.integer(0..=PAST_MAX as u64));
        let topic_maps = topic_maps(&mut root);
        let used_codes = used_codes(&mut root);
        // A manager may have no members yet.
        if !signed.is_empty() && signing.is_none() && !members.iter().any(|member| member.verify.is_some()) {
            root.fault(
                "signed",
                "no [[member]] has a verify key, so nobody could publish there",
                "add the members' keys: --member NAME=PUBLIC:VERIFY of antedate keygen mqtt",
            );
        }
        if keys.is_empty() && manager.is_none() && signing.is_none() {
            root.fault("", "there is neither a [[key]] nor a manager to get one from", "add one of them");
        }
        let rotation_topic =
            rotation_topic.or_else(|| group.as_ref().map(|group| format!("antedate/keys/{group}")));
        if let Some(name) = &rotation_topic
            && (manager.is_some() || signing.is_some())
            && let each = member_topic(name, "+")
            && let Some(filter) =
                topics.iter().find(|filter| topic::matches(filter, name) || topic::overlap(filter, &each))
        {
            root.fault(
                "topics",
                format!(
                    "\"{filter}\" takes in the rotation topic \"{name}\", whose messages are no payloads"
                ),
                "narrow the topics, or give rotation_topic = \"...\" another name",
            );
        }
        root.finish();
        let faults = document.into_faults();
        match (group, algorithm) {
            (Some(group), Some(algorithm)) if faults.is_empty() => Ok(Self {
                file: file.to_owned(),
                rotation_topic: rotation_topic.unwrap_or_default(),
                manager: signing.as_ref().map(|secret| manager_public(secret)).or(manager),
                group,
                algorithm,
                topics,
                max_ages,
                signed,
                signing,
                keys,
                members,
                per_member: per_member.unwrap_or(false),
                past_epochs: past_epochs.and_then(|past| u32::try_from(past).ok()).unwrap_or(0),
                topic_maps,
                used_codes,
            }),
            _ => Err(Faults::new(faults)),
        }
    }

    /// Whether the group protects a topic.
    #[must_use]
    pub fn covers(&self, topic: &str) -> bool {
        let name = topics::sealed_name(&self.topic_maps, topic);
        name.is_some_and(|name| self.topics.iter().any(|filter| topic::matches(filter, &name)))
    }

    /// Whether one of the group's filters covers all topics of a filter.
    #[must_use]
    pub fn covers_filter(&self, filter: &str) -> bool {
        let name = topics::sealed_name(&self.topic_maps, filter);
        name.is_some_and(|name| self.topics.iter().any(|wide| topic::covers(wide, &name)))
    }

    /// The name under which payloads of a [covered](Self::covers) topic are sealed: another one behind a
    /// bridge with a prefix.
    #[must_use]
    pub fn sealed_name<'a>(&self, topic: &'a str) -> Cow<'a, str> {
        topics::sealed_name(&self.topic_maps, topic).unwrap_or(Cow::Borrowed(topic))
    }

    /// The topic of the rotation messages at this broker: that for all, or that of one member.
    #[must_use]
    pub fn rotation_topic_here(&self, member: Option<&str>) -> String {
        let name = match member {
            Some(member) => member_topic(&self.rotation_topic, member),
            None => self.rotation_topic.clone(),
        };
        topics::topic_here(&self.topic_maps, &name).into_owned()
    }

    /// The seconds after which a message under a name is refused: the fewest of all filters that match.
    #[must_use]
    pub fn max_age(&self, name: &str) -> Option<u32> {
        let ages = self.max_ages.iter().filter(|(filter, _)| topic::matches(filter, name));
        ages.map(|(_, seconds)| *seconds).min()
    }

    /// Whether messages under a name are signed by their publishers.
    #[must_use]
    pub fn is_signed(&self, name: &str) -> bool {
        self.signed.iter().any(|filter| topic::matches(filter, name))
    }

    /// The key that verifies a publisher's signatures.
    #[must_use]
    pub fn verify_key(&self, publisher: &[u8]) -> Option<&[u8; 32]> {
        self.members.iter().find(|member| member.name.as_bytes() == publisher)?.verify.as_ref()
    }

    /// Takes the signature of a signed topic's payload away, once it is verified. `topic` is the
    /// [sealed name](Self::sealed_name).
    ///
    /// # Errors
    /// [`Dropped::Unsigned`], when it is not the publisher's.
    pub fn verified(&self, topic: &str, opened: &Opened, payload: &mut Vec<u8>) -> Result<(), Dropped> {
        if !self.is_signed(topic) {
            return Ok(());
        }
        let Opened { publisher, epoch, sequence, .. } = opened;
        let (epoch, sequence) = (*epoch, *sequence);
        let place = signed::SignedPlace { group: &self.group, topic, publisher, epoch, sequence };
        let range = self.verify_key(publisher).and_then(|key| place.verify(key, payload));
        let range = range.ok_or_else(|| Dropped::Unsigned {
            publisher: String::from_utf8_lossy(publisher).into_owned(),
        })?;
        payload.truncate(range.end);
        payload.drain(..range.start);
        Ok(())
    }

    /// The group with its keys, for opening messages.
    #[must_use]
    pub fn to_group(&self) -> Group {
        let mut group = Group::new(&self.group, self.algorithm);
        for key in &self.keys {
            group.install(key.epoch, &key.secret);
        }
        if !self.members.is_empty() {
            let publishers = self.members.iter().filter(|member| member.publish);
            group.allow(publishers.map(|member| member.name.clone().into_bytes()));
        }
        group
    }

    /// The members with a public key, for whom rotations are sealed.
    #[must_use]
    pub fn recipients(&self) -> Vec<Recipient<'_>> {
        let with_key = self.members.iter().filter_map(|member| Some((member, member.public?)));
        with_key.map(|(member, public)| Recipient { name: member.name.as_bytes(), public }).collect()
    }

    /// The newest key's epoch, 0 without one.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.keys.last().map_or(0, |key| key.epoch)
    }

    /// As [`to_text`](Self::to_text), checked by parsing it.
    ///
    /// # Errors
    /// The faults that the file would have.
    pub fn to_checked_text(&self, for_members: bool) -> Result<Zeroizing<String>, Faults> {
        let made = self.file.as_os_str().is_empty();
        let file = if made { Path::new("the new group file") } else { &self.file };
        let text = self.to_text(for_members);
        if text.len() > FILE_MAX {
            let what = format!("would be longer than {} KiB, and not be read again", FILE_MAX >> 10);
            return Err(Fault::of_file(file, what, "make several groups with fewer members or topics").into());
        }
        // The text has no file yet, so line numbers mean nothing.
        let nowhere = |fault| Fault { line: None, ..fault };
        let checked = Self::parse(file, &text);
        checked.map_err(|faults| Faults::new(faults.into_iter().map(nowhere).collect()))?;
        Ok(text)
    }

    /// The text of the file. With `for_members`, without the manager's parts and without keys that
    /// rotations bring.
    #[must_use]
    pub fn to_text(&self, for_members: bool) -> Zeroizing<String> {
        // Full capacity at once: a growing string leaves copies of the keys behind.
        let mut text = Zeroizing::new(String::with_capacity(self.capacity()));
        text.push_str("# A group of MQTT topics whose payloads are protected end to end.\n");
        let topics: Vec<String> = self.topics.iter().map(|topic| quoted(topic)).collect();
        text.push_str(&format!(
            "group = \"{}\"\nalgorithm = \"{}\"\ntopics = [{}]\nrotation_topic = {}\n",
            self.group,
            self.algorithm,
            topics.join(", "),
            quoted(&self.rotation_topic)
        ));
        if !for_members {
            self.put_managing(&mut text);
        }
        if let Some(manager) = &self.manager {
            text.push_str(&format!("# Who may rotate the key (Ed25519).\nmanager = \"{}\"\n", hex(manager)));
        }
        // Tables must follow all keys of the file itself.
        let fresh: String = self
            .max_ages
            .iter()
            .map(|(filter, seconds)| {
                format!("\n[[fresh]]\ntopics = [{}]\nmax_age = {seconds}\n", quoted(filter))
            })
            .collect();
        let signed: String = self
            .signed
            .iter()
            .map(|filter| format!("\n[[signed]]\ntopics = [{}]\n", quoted(filter)))
            .collect();
        if for_members && self.manager.is_some() {
            text.push_str(&fresh);
            text.push_str(&signed);
            // Whose signatures count, and who may publish. Their keys for rotations are the manager's matter.
            for member in self.members.iter().filter(|_| !self.signed.is_empty()) {
                put_member(&Member { public: None, ..member.clone() }, &mut text);
            }
            return text;
        }
        if let Some(signing) = &self.signing {
            text.push_str("# The manager's own key: whoever has it can rotate. Only this file has it.\nsigning_key = \"");
            push_hex(&mut text, &**signing);
            text.push_str("\"\n");
        }
        text.push_str(if fresh.is_empty() { FRESH_HINT } else { &fresh });
        text.push_str(&signed);
        for TopicMap { here, sealed } in &self.topic_maps {
            text.push_str(&format!(
                "\n[[topic_map]]\nhere = {}\nsealed = {}\n",
                quoted(here),
                quoted(sealed)
            ));
        }
        for Key { epoch, secret, grace, without } in &self.keys {
            text.push_str(&format!("\n[[key]]\nepoch = {epoch}\nsecret = \""));
            push_hex(&mut text, &**secret);
            text.push_str("\"\n");
            if let Some(grace) = grace {
                text.push_str(&format!("grace = {grace}\n"));
            }
            if !without.is_empty() {
                text.push_str(&format!("without = [\"{}\"]\n", without.join("\", \"")));
            }
        }
        self.members.iter().for_each(|member| put_member(member, &mut text));
        text
    }

    /// Octets that the text does not exceed.
    fn capacity(&self) -> usize {
        let escaped = |text: &String| 6 * text.len() + 64;
        let topics =
            self.topics.iter().chain(&self.signed).chain(self.max_ages.iter().map(|(filter, _)| filter));
        let maps = self.topic_maps.iter().flat_map(|map| [&map.here, &map.sealed]);
        let without = self.keys.iter().map(|key| 72 * key.without.len()).sum::<usize>();
        let texts: usize = topics.chain(maps).map(escaped).sum();
        2304 + 352 * (self.members.len() + self.keys.len())
            + texts
            + escaped(&self.rotation_topic)
            + without
            + 20 * self.used_codes.len()
    }

    /// Appends what is the manager's matter alone and no secret.
    fn put_managing(&self, text: &mut String) {
        if self.per_member {
            text.push_str("# A rotation has a message for each member.\nrotation = \"per-member\"\n");
        }
        if self.past_epochs > 0 {
            text.push_str(&format!("past_epochs = {}\n", self.past_epochs));
        }
        if !self.used_codes.is_empty() {
            let marks: Vec<String> = self.used_codes.iter().map(|mark| hex(mark)).collect();
            text.push_str(&format!("used_codes = [\"{}\"]\n", marks.join("\", \"")));
        }
    }
}

/// A group without a most age says how to get one. It is no default: it would refuse queued and retained
/// messages after their time, and leave nothing to prepare.
const FRESH_HINT: &str = "\n# Commands: a recorded one is new to who was away. A most age bounds that, in the files of all members.\n# [[fresh]]\n# topics = [\"plant/line4/valve\"]\n# max_age = 5\n";

/// The topic of one member's rotation messages.
fn member_topic(rotation_topic: &str, member: &str) -> String {
    format!("{rotation_topic}/{member}")
}

/// A fault for each further file of a group: only the first would get its rotations.
#[must_use]
pub fn doubled(files: &[GroupFile]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, group) in files.iter().enumerate() {
        if let Some(other) = files.iter().take(at).find(|other| other.group == group.group) {
            let what = format!("is of the group {:?}, as {} is", group.group, other.file.display());
            faults.push(Fault::of_file(&group.file, what, "name all topics of a group in one file"));
        }
    }
    faults
}

/// A fault for each file that gets its keys by rotations for a device, if there is no device.
#[must_use]
pub fn keyless(files: &[GroupFile], device: Option<&Device>) -> Vec<Fault> {
    let keyless = files.iter().filter(|file| device.is_none() && file.keys.is_empty());
    let what = "has no [[key]], and what its manager publishes is for devices";
    let remedy = "name the device's own key: --device, or plugin_opt_device (antedate keygen mqtt --device NAME makes one)";
    keyless.map(|file| Fault::of_file(&file.file, what, remedy)).collect()
}

/// A warning for each two files with a common topic, on which only the first file's keys are used.
#[must_use]
pub fn overlaps(files: &[GroupFile]) -> Vec<String> {
    let mut texts = Vec::new();
    for (at, second) in files.iter().enumerate() {
        for first in files.iter().take(at) {
            let mut pairs = first.topics.iter().flat_map(|a| second.topics.iter().map(move |b| (a, b)));
            if let Some((a, b)) = pairs.find(|(a, b)| topic::overlap(a, b)) {
                texts.push(format!(
                    "{}: {b:?} overlaps with {a:?} of {}, which was named first: where both match, only that one's keys are used",
                    second.file.display(),
                    first.file.display()
                ));
            }
        }
    }
    texts
}

/// Reads a group file that others can read too. `None` if it has a secret or another reason to
/// refuse it.
fn load_shared(file: &Path) -> Option<Result<GroupFile, Faults>> {
    let about = std::fs::metadata(file).ok()?;
    let owned = about.uid() == process::user() || about.uid() == 0;
    if !about.is_file() || about.mode() & 0o077 == 0 || about.len() > FILE_MAX as u64 || !owned {
        return None;
    }
    let text = Zeroizing::new(std::fs::read_to_string(file).ok()?);
    let group = GroupFile::parse(file, &text);
    let secret = match &group {
        Ok(group) => group.signing.is_some() || !group.keys.is_empty(),
        // An invalid file: these words may be in a comment or name a key.
        Err(_) => text.contains("secret") || text.contains("signing_key"),
    };
    if secret {
        return None;
    }
    if about.mode() & 0o022 != 0 {
        // They could replace the manager's key.
        let what = format!("others than its owner can change this file (mode {:04o})", about.mode() & 0o7777);
        return Some(Err(Fault::of_file(file, what, format!("chmod go-w {}", file.display())).into()));
    }
    Some(group)
}

/// Reads a file that only this user (or root) may read and change.
fn load(file: &Path, remedy: &str) -> Result<Zeroizing<String>, Faults> {
    // A file that grows meanwhile fills it, and is refused.
    let length = std::fs::metadata(file).map_or(0, |about| usize::try_from(about.len()).unwrap_or(FILE_MAX));
    let mut bytes = Zeroizing::new(vec![0; length.min(FILE_MAX) + 1]);
    let length = private_file::read(file, process::user(), &mut bytes)?;
    let text = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let text =
        text.ok_or_else(|| Fault::of_file(file, "is not text, so it is no group or device file", remedy))?;
    Ok(Zeroizing::new(text.to_owned()))
}

fn put_member(member: &Member, text: &mut String) {
    text.push_str(&format!("\n[[member]]\nname = \"{}\"\n", member.name));
    if let Some(public) = member.public {
        text.push_str(&format!("public = \"{}\"\n", hex(&public)));
    }
    if let Some(verify) = member.verify {
        text.push_str(&format!("verify = \"{}\"\n", hex(&verify)));
    }
    text.push_str(&format!("publish = {}\n", member.publish));
}

/// Text as a TOML string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn name(field: &Field<'_, '_>) -> Option<String> {
    let text = field.string()?;
    if is_name(text) {
        return Some(text.to_owned());
    }
    field.fault("is not a name", NAME_RULE);
    None
}

/// The remedy for an invalid name.
pub const NAME_RULE: &str = "use 1 to 64 letters, digits and - _ .";
const _: () = assert!(PUBLISHER_MAX == 64, "the rule says so");

/// Whether a group, a device or a member may have this name.
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=PUBLISHER_MAX).contains(&text.len())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

fn key(field: &Field<'_, '_>) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if parse_hex(field.string()?, &mut bytes) {
        return Some(bytes);
    }
    field.fault("is not 64 hexadecimal digits (32 bytes)", "copy the whole of it");
    None
}

fn secret(field: &Field<'_, '_>) -> Option<Secret> {
    let mut bytes = Zeroizing::new([0; 32]);
    if !parse_hex(field.string()?, &mut *bytes) {
        field.fault("is not 64 hexadecimal digits (32 bytes)", "copy the whole of it, or make a new one");
        return None;
    }
    if is_zero(&*bytes) {
        field.fault("is all zeros, which is no secret", "`antedate keygen mqtt` makes random secrets");
        return None;
    }
    Some(bytes)
}

fn keys(root: &mut Section<'_, '_>) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for field in root.get("key").and_then(|field| field.array()).unwrap_or_default() {
        let Some(mut section) = field.section() else { continue };
        let epoch = section.required("epoch", "number the keys from 1").and_then(|field| number(&field));
        let secret =
            section.required("secret", "write 64 hexadecimal digits").and_then(|field| secret(&field));
        let grace = section.get("grace").and_then(|field| number(&field));
        let without = section.get("without").and_then(|field| field.array()).unwrap_or_default();
        let without = without.iter().filter_map(name).collect();
        section.finish();
        let (Some(epoch), Some(secret)) = (epoch, secret) else { continue };
        if keys.iter().any(|other| other.epoch == epoch) {
            field.fault(format!("epoch {epoch} comes twice"), "give each [[key]] an epoch of its own");
        }
        // A later check would not see both keys.
        if keys.iter().any(|other| *other.secret == *secret) {
            field.fault("has the secret of another [[key]]", "make new ones with `antedate mqtt rotate`");
        }
        keys.push(Key { epoch, secret, grace, without });
    }
    keys.sort_by_key(|key| key.epoch);
    keys
}

fn number(field: &Field<'_, '_>) -> Option<u32> {
    field.integer(0..=u64::from(u32::MAX)).and_then(|number| u32::try_from(number).ok())
}

fn used_codes(root: &mut Section<'_, '_>) -> Vec<[u8; 8]> {
    let mut marks = Vec::new();
    for field in root.get("used_codes").and_then(|field| field.array()).unwrap_or_default() {
        let mut mark = [0; 8];
        match field.string() {
            Some(text) if parse_hex(text, &mut mark) => marks.push(mark),
            Some(_) => field.fault("is no mark of a code", "leave this list to `antedate mqtt admit`"),
            None => {}
        }
    }
    marks
}

fn members(root: &mut Section<'_, '_>) -> Vec<Member> {
    let (mut members, mut names) = (Vec::new(), BTreeSet::new());
    for field in root.get("member").and_then(|field| field.array()).unwrap_or_default() {
        let Some(mut section) = field.section() else { continue };
        let name = section.required("name", "name the device").and_then(|field| name(&field));
        let public = section.get("public").and_then(|field| {
            let public = key(&field)?;
            if is_device_public(&public) {
                return Some(public);
            }
            field.fault(WEAK, "ask the device for its own: antedate keygen mqtt --device prints it");
            None
        });
        let verify = section.get("verify").and_then(|field| {
            let verify = key(&field)?;
            if signed::is_verifying_key(&verify) {
                return Some(verify);
            }
            field.fault(WEAK, "ask the device for its own: antedate keygen mqtt --device prints it");
            None
        });
        let publish = section.get("publish").and_then(|field| field.boolean()).unwrap_or(true);
        section.finish();
        let Some(name) = name else { continue };
        if !names.insert(name.clone()) {
            field.fault(format!("the name \"{name}\" is used twice"), "give each member a name of its own");
        }
        members.push(Member { name, public, publish, verify });
    }
    members
}

#[cfg(test)]
mod tests;

//! The static MACsec key file: cipher suite, secure associations and members. All members share one
//! file.
//!
//! Values have the form of `ip macsec`: key, key identifier and SCI in hexadecimal digits; with XPN
//! suites also a salt per key and an SSCI per member (IEEE 802.1AE-2018, 10.7.8 and 14.7). A
//! gateway finds itself among the members by its SCI; the others are its peers.
//!
//! A nonce consists of SCI and packet number (14.5), or of salt, SSCI and packet number (14.7). Two
//! associations with one key, or two members with one SCI or SSCI, would repeat nonces. Such a file
//! is refused.
//!
//! Keys are wiped on drop, and no fault shows one.

pub mod channels;

use std::fmt;
use std::path::Path;

use antedate_channel::macsec::CipherSuite;
use antedate_host::document::{Document, Field, Section};
use antedate_host::fault::{Fault, Faults};
use antedate_host::hex::{is_zero, parse_hex, push_hex};
use antedate_host::numbers::KeyId;
use antedate_host::private_file::{self, MAX_KEY_FILE_LEN};
use antedate_wire::Sci;
use antedate_wire::macsec::An;
use zeroize::Zeroizing;

use crate::config::sci::parse_sci;
use crate::config::suite;

/// The most members of a key file.
pub const MEMBERS_MAX: usize = 16;
/// The most transmit channels of a member.
pub const CHANNELS_MAX: u16 = 8;

/// Static keys and the members that share them.
#[derive(Debug)]
pub struct KeyFile {
    /// The cipher suite of all associations.
    pub suite: CipherSuite,
    /// The secure associations in the order of the file. The first one transmits. One to four, each
    /// with its own AN and key.
    pub associations: Vec<Association>,
    /// The members that share the keys: at least two, each with its own name, SCI and SSCI.
    pub members: Vec<Member>,
}

/// A secure association with its key (SAK).
#[derive(Debug)]
pub struct Association {
    /// Its association number.
    pub an: An,
    /// The key identifier that `ip macsec` shows.
    pub key_id: [u8; 16],
    /// The SAK, of the length that the suite requires.
    pub key: SecretKey,
    /// The salt of an XPN suite; `None` otherwise.
    pub salt: Option<[u8; 12]>,
}

impl Association {
    /// The identity of the key in the state file.
    #[must_use]
    pub fn numbers_id(&self) -> KeyId {
        let id = KeyId::new("antedate SAK", self.key.as_bytes()).with_label(self.an.number());
        self.salt.iter().fold(id, |id, salt| id.with_salt("antedate salt", salt))
    }
}

/// A gateway that shares the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name, for people only.
    pub name: String,
    /// The SCI of its transmit channel.
    pub sci: Sci,
    /// Its SSCI with an XPN suite; `None` otherwise.
    pub ssci: Option<u32>,
    /// The number of its transmit channels ([`channels`]), 1 to [`CHANNELS_MAX`].
    pub channels: u16,
}

/// A key that is wiped on drop and never shown.
pub struct SecretKey(Zeroizing<Vec<u8>>);

impl SecretKey {
    /// Copies the key from `bytes`.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    /// The octets of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(not shown)")
    }
}

impl KeyFile {
    /// Reads a key file that only `user` (or root) can read and write.
    ///
    /// # Errors
    /// All faults, each with its line. None shows a key.
    pub fn load(file: &Path, user: u32) -> Result<Self, Faults> {
        let mut text = Zeroizing::new(vec![0; MAX_KEY_FILE_LEN + 1]);
        let length = private_file::read(file, user, &mut text)?;
        let text = text.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok()).ok_or_else(|| {
            Fault::of_file(file, "is not text, so it is no key file", "`antedate keygen macsec` makes one")
        })?;
        Self::parse(file, text)
    }

    /// Parses the text of a key file. `file` is the path for faults.
    ///
    /// # Errors
    /// All faults, each with its line. None shows a key.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let document = Document::parse(file, text);
        let mut root = document.root();
        let suite = root
            .required("suite", "write the cipher suite of the keys, e.g. suite = \"gcm-aes-128\"")
            .and_then(|field| suite(&field));
        let associations = associations(&mut root, suite);
        let members = members(&mut root, suite);
        root.finish();
        let faults = document.into_faults();
        match suite {
            Some(suite) if faults.is_empty() => Ok(Self { suite, associations, members }),
            _ => Err(Faults::new(faults)),
        }
    }

    /// Makes keys for two associations. `random` fills a buffer from the system's generator.
    ///
    /// The SSCIs of the XPN suites follow IEEE 802.1X-2020, 10.7.13: 1 for the numerically greatest
    /// SCI, and so on down.
    ///
    /// # Errors
    /// The error of `random`.
    pub fn generate<E>(
        suite: CipherSuite,
        members: Vec<(String, Sci)>,
        mut random: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut associations = Vec::with_capacity(2);
        for an in [An::default(), An::default().following()] {
            let mut key = Zeroizing::new(vec![0; suite.key_len()]);
            let mut key_id = [0; 16];
            let mut salt = [0; 12];
            random(&mut key)?;
            random(&mut key_id)?;
            random(&mut salt)?;
            associations.push(Association {
                an,
                key_id,
                key: SecretKey(key),
                salt: suite.is_xpn().then_some(salt),
            });
        }
        let greater = |sci: Sci| members.iter().filter(|(_, other)| *other > sci).count();
        let ssci = |sci| u32::try_from(1 + greater(sci)).ok().filter(|_| suite.is_xpn());
        let members = members.iter().map(|(name, sci)| Member {
            name: name.clone(),
            sci: *sci,
            ssci: ssci(*sci),
            channels: 1,
        });
        Ok(Self { suite, associations, members: members.collect() })
    }

    /// The same keys, with so many transmit channels of each member. The SSCIs keep their order.
    #[must_use]
    pub fn with_channels(mut self, channels: u16) -> Self {
        for member in &mut self.members {
            member.channels = channels;
            let first = |ssci: u32| ssci.saturating_sub(1).saturating_mul(channels.into()).saturating_add(1);
            member.ssci = member.ssci.map(first);
        }
        self
    }

    /// The member with this SCI.
    #[must_use]
    pub fn member(&self, sci: Sci) -> Option<&Member> {
        self.members.iter().find(|member| member.sci == sci)
    }

    /// All members with another SCI.
    pub fn peers(&self, sci: Sci) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |member| member.sci != sci)
    }

    /// The text of the file, comments included.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        // Full capacity from the start: a string that grows leaves copies of the keys in freed
        // memory.
        let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_FILE_LEN));
        text.push_str(HEAD);
        text.push_str(&format!("\nsuite = \"{}\"\n", self.suite.name()));
        for association in &self.associations {
            text.push_str(&format!("\n[[sa]]\nan = {}\nkey_id = \"", association.an));
            push_hex(&mut text, &association.key_id);
            text.push_str("\"\nkey = \"");
            push_hex(&mut text, association.key.as_bytes());
            text.push_str("\"\n");
            if let Some(salt) = association.salt {
                text.push_str("salt = \"");
                push_hex(&mut text, &salt);
                text.push_str("\"\n");
            }
        }
        for member in &self.members {
            text.push_str(&format!("\n[[member]]\nname = \"{}\"\nsci = \"{}\"\n", member.name, member.sci));
            if let Some(ssci) = member.ssci {
                text.push_str(&format!("ssci = {ssci}\n"));
            }
            if member.channels > 1 {
                text.push_str(&format!("channels = {}\n", member.channels));
            }
        }
        text
    }

    /// Writes a new file that only its owner can read. An existing file is not changed.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn write_new(&self, file: &Path) -> Result<(), Fault> {
        private_file::create(file, &self.to_text())
    }
}

const HEAD: &str = "\
# Static MACsec keys (IEEE 802.1AE) for the members below.
# Whoever reads this file reads the traffic and can forge it: mode 0600, and a safe way to the other members.
# The first [[sa]] transmits, all of them receive. A key whose state file is lost must never be used again.
";

fn associations(root: &mut Section<'_, '_>, suite: Option<CipherSuite>) -> Vec<Association> {
    let fields = entries(root, "sa", "add [[sa]] with an, key_id and key");
    let mut associations: Vec<Association> = Vec::new();
    for field in &fields {
        let Some(association) = association(field, suite) else { continue };
        if associations.iter().any(|other| other.an == association.an) {
            field.fault(
                format!("AN {} is used twice", association.an),
                "give each [[sa]] an AN of its own, 0 to 3",
            );
        }
        // Not in constant time: both keys are read here from local files, and the network cannot
        // observe the time.
        if associations.iter().any(|other| other.key.as_bytes() == association.key.as_bytes()) {
            field.fault(
                "has the key of another [[sa]], so packet numbers would be used twice under it",
                "give each [[sa]] a key of its own; `antedate keygen macsec` makes them",
            );
        }
        associations.push(association);
    }
    associations
}

fn association(field: &Field<'_, '_>, suite: Option<CipherSuite>) -> Option<Association> {
    let mut section = field.section()?;
    let an =
        section.required("an", "write the association number, 0 to 3").and_then(|field| field.integer(0..=3));
    let key_id = section.required("key_id", "write 32 hexadecimal digits").and_then(|field| {
        let mut key_id = [0; 16];
        hex_field(&field, "the key identifier", &mut key_id).then_some(key_id)
    });
    let key = section.required("key", "write the key in hexadecimal digits").and_then(|field| {
        let mut key = Zeroizing::new(vec![0; suite?.key_len()]);
        if !hex_field(&field, &format!("a key for {}", suite?.name()), &mut key) {
            return None;
        }
        if is_zero(&key) {
            field.fault("is all zeros, which is no secret", "`antedate keygen macsec` makes random keys");
            return None;
        }
        Some(SecretKey(key))
    });
    let salt = section.get("salt");
    let salt = match (suite.map(|suite| suite.is_xpn()), salt) {
        (Some(true), Some(field)) => {
            let mut salt = [0; 12];
            hex_field(&field, "the salt", &mut salt).then_some(Some(salt))
        }
        (Some(true), None) => {
            section.fault("salt", "is missing, and the XPN suites need it", "write 24 hexadecimal digits");
            None
        }
        (Some(false), Some(field)) => {
            field.fault("belongs to the XPN suites", "remove the line, or write suite = \"gcm-aes-xpn-128\"");
            None
        }
        _ => Some(None),
    };
    section.finish();
    let an = an.and_then(|an| u8::try_from(an).ok()).and_then(An::new);
    Some(Association { an: an?, key_id: key_id?, key: key?, salt: salt? })
}

/// Fills `out`, or reports a fault that does not show the digits.
fn hex_field(field: &Field<'_, '_>, what: &str, out: &mut [u8]) -> bool {
    let Some(text) = field.string() else { return false };
    if parse_hex(text, out) {
        return true;
    }
    let wanted = 2 * out.len();
    let count = text.chars().count();
    if count == wanted {
        field.fault("has other characters than hexadecimal digits", "write 0 to 9 and a to f only");
    } else {
        field.fault(
            format!("{what} has {wanted} hexadecimal digits ({} octets), not {count}", out.len()),
            "copy the whole of it, or make new keys with `antedate keygen macsec`",
        );
    }
    false
}

fn members(root: &mut Section<'_, '_>, suite: Option<CipherSuite>) -> Vec<Member> {
    let fields = entries(root, "member", "add [[member]] with name and sci for each gateway");
    let mut members: Vec<Member> = Vec::new();
    for field in &fields {
        let Some(member) = member(field, suite) else { continue };
        if let Some(other) = members.iter().find(|other| other.name == member.name) {
            field.fault(
                format!("the name \"{}\" is used twice", other.name),
                "give each member a name of its own",
            );
        }
        channels::apart(field, &members, &member);
        members.push(member);
    }
    if let [only] = fields.as_slice() {
        only.fault("is the only member, so there is no peer", "add [[member]] for the other gateway");
    }
    if let Some(surplus) = fields.get(MEMBERS_MAX) {
        surplus.fault(
            format!("is one more than the {MEMBERS_MAX} members that a key file may have"),
            "use fewer",
        );
    }
    members
}

fn member(field: &Field<'_, '_>, suite: Option<CipherSuite>) -> Option<Member> {
    let mut section = field.section()?;
    let name = section.required("name", "name the gateway").and_then(|field| {
        let name = field.string()?;
        let legal = is_member_name(name);
        if !legal {
            field.fault("is not a name", "use 1 to 64 letters, digits and - _ .");
        }
        legal.then(|| name.to_owned())
    });
    let sci = section.required("sci", "write its address and port, e.g. \"02:00:5e:10:00:01/1\"").and_then(|field| {
        let text = field.string()?;
        let sci = parse_sci(text);
        if sci.is_none() {
            field.fault(
                format!("\"{text}\" is not an SCI"),
                "give 16 hexadecimal digits as `ip macsec` does, or address and port: \"02:00:5e:10:00:01/1\"",
            );
        }
        sci
    });
    let ssci = section.get("ssci");
    let ssci = match (suite.map(|suite| suite.is_xpn()), ssci) {
        (Some(true), Some(field)) => field.integer(1..=u32::MAX.into()).map(|ssci| u32::try_from(ssci).ok()),
        (Some(true), None) => {
            section.fault("ssci", "is missing, and the XPN suites need it", "number the members from 1");
            None
        }
        (Some(false), Some(field)) => {
            field.fault("belongs to the XPN suites", "remove the line, or write suite = \"gcm-aes-xpn-128\"");
            None
        }
        _ => Some(None),
    };
    let channels = section.get("channels").map(|field| channels::read(&field, sci)).unwrap_or(Some(1));
    section.finish();
    Some(Member { name: name?, sci: sci?, ssci: ssci?, channels: channels? })
}

/// Whether `name` is a legal member name.
#[must_use]
pub fn is_member_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// The tables of an array that must not be empty.
fn entries<'d, 't>(root: &mut Section<'d, 't>, key: &'static str, remedy: &str) -> Vec<Field<'d, 't>> {
    let Some(field) = root.required(key, remedy) else { return Vec::new() };
    if !field.is_array() {
        field.fault("must be a list", format!("write [[{key}]] with two brackets"));
        return Vec::new();
    }
    let fields = field.array().unwrap_or_default();
    if fields.is_empty() {
        field.fault("is empty", remedy);
    }
    fields
}

#[cfg(test)]
mod tests;

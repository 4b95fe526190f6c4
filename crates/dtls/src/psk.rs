//! The file of identities and pre-shared keys: lines of `identity:key in hexadecimal digits`, as
//! GnuTLS's `psktool` writes them. A line that begins with `#` is a comment.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use antedate_channel::dtls::{Client, Keyring, Psk};
use antedate_host::fault::Fault;
use antedate_host::hex::{is_zero, parse_hex, push_hex};
use antedate_host::private_file::{self, MAX_KEY_FILE_LEN};
use antedate_host::process;
use zeroize::Zeroizing;

/// The shortest key in octets: 128 bits.
pub const MIN_KEY: usize = 16;
/// The longest key in octets.
pub const MAX_KEY: usize = 64;
/// The longest identity in octets (RFC 4279 section 5.3).
pub const MAX_IDENTITY: usize = 128;

/// Identities and their keys.
pub struct PskFile {
    keys: HashMap<Vec<u8>, Psk>,
    /// The identities in the order of the file.
    identities: Vec<String>,
}

impl PskFile {
    /// Reads the file, which only its owner may read.
    ///
    /// # Errors
    /// The first fault, with line and remedy. It shows no key.
    pub fn load(file: &Path) -> Result<Self, Fault> {
        let mut text = Zeroizing::new(vec![0; MAX_KEY_FILE_LEN + 1]);
        let len = private_file::read(file, process::user(), &mut text)?;
        let text = std::str::from_utf8(text.get(..len).unwrap_or_default()).map_err(|_| {
            Fault::of_file(file, "is not text", "write a line IDENTITY:HEXKEY for each device")
        })?;
        Self::parse(text)
            .map_err(|(line, what, remedy)| Fault { line: Some(line), ..Fault::of_file(file, what, remedy) })
    }

    /// Parses the text of a file. An error has line, fault and remedy.
    ///
    /// # Errors
    /// Malformed lines, keys that are too short or too long, duplicate identities, or no identity.
    pub fn parse(text: &str) -> Result<Self, (usize, String, &'static str)> {
        let mut this = Self { keys: HashMap::new(), identities: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = index + 1;
            let (identity, key) = line.rsplit_once(':').ok_or((
                at,
                "no colon between identity and key".to_owned(),
                "write IDENTITY:HEXKEY",
            ))?;
            if identity.is_empty() || identity.len() > MAX_IDENTITY {
                let what = format!("an identity of {} octets", identity.len());
                return Err((at, what, "identities have 1 to 128 octets"));
            }
            let key = hex(key).ok_or((
                at,
                "the key is not of hexadecimal digits, two an octet".to_owned(),
                "write the key as 0123abcd...",
            ))?;
            if !(MIN_KEY..=MAX_KEY).contains(&key.len()) {
                let what = format!("a key of {} octets", key.len());
                return Err((at, what, "keys have 16 to 64 random octets; a passphrase can be guessed"));
            }
            if is_zero(&key) {
                let what = "a key of zeros, which is no secret".to_owned();
                return Err((at, what, "`antedate keygen dtls` makes random keys"));
            }
            if this.keys.insert(identity.as_bytes().to_vec(), key).is_some() {
                return Err((
                    at,
                    format!("{identity} comes twice"),
                    "give each device an identity of its own",
                ));
            }
            this.identities.push(identity.to_owned());
        }
        if this.identities.is_empty() {
            return Err((1, "there is no key".to_owned(), "write a line IDENTITY:HEXKEY for each device"));
        }
        Ok(this)
    }

    /// The client of an identity, or of the only one in the file.
    ///
    /// # Errors
    /// Fault and remedy, when the identity is missing or ambiguous.
    pub fn client(&self, identity: Option<&str>) -> Result<Client, (String, String)> {
        let chosen = match (identity, self.identities.as_slice()) {
            (Some(identity), _) => identity,
            (None, [only]) => only,
            (None, several) => {
                let what = format!("the key file has {} identities", several.len());
                return Err((what, "choose one with --identity NAME".to_owned()));
            }
        };
        let key = self.key(chosen.as_bytes()).ok_or_else(|| {
            let known = self.identities.join(", ");
            (format!("the key file has no identity {chosen}"), format!("it has {known}"))
        })?;
        Ok(Client { identity: chosen.as_bytes().to_vec(), key })
    }
}

impl Keyring for PskFile {
    fn key(&self, identity: &[u8]) -> Option<Psk> {
        self.keys.get(identity).cloned()
    }
}

impl fmt::Debug for PskFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PskFile({} identities, ..)", self.identities.len())
    }
}

fn hex(text: &str) -> Option<Psk> {
    if text.is_empty() || !text.len().is_multiple_of(2) {
        return None;
    }
    // Full length at once: a growing vector leaves copies of the key behind.
    let mut octets = Zeroizing::new(vec![0; text.len() / 2]);
    parse_hex(text, &mut octets).then_some(octets)
}

/// The lines of new random keys of `octets` octets.
///
/// # Errors
/// When the system has no random numbers.
pub fn generate(identities: &[String], octets: usize) -> Result<Zeroizing<String>, getrandom::Error> {
    let mut text =
        Zeroizing::new(String::with_capacity(identities.iter().map(|i| i.len() + 2 + 2 * octets).sum()));
    for identity in identities {
        let mut key = Zeroizing::new(vec![0; octets]);
        getrandom::fill(&mut key)?;
        text.push_str(identity);
        text.push(':');
        push_hex(&mut text, &key);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn lines_are_identities_and_keys() {
        let file = PskFile::parse(&format!("# the wind park\nturbine 3:{KEY}\n\nurn:x:4:{KEY}ff\n")).unwrap();
        assert_eq!(file.identities.len(), 2);
        assert_eq!(file.key(b"turbine 3").unwrap()[..], core::array::from_fn::<u8, 16, _>(|i| i as u8));
        assert_eq!(file.key(b"urn:x:4").unwrap().len(), 17);
        assert!(file.key(b"turbine").is_none());
        assert!(file.client(None).is_err());
        assert_eq!(file.client(Some("turbine 3")).unwrap().identity, b"turbine 3");
    }

    #[test]
    fn faults_name_the_line_and_show_no_key() {
        let short = &KEY[..30];
        for (text, line) in [
            ("", 1),
            ("x\n", 1),
            (&format!("a:{KEY}\nb:{short}"), 2),
            (&format!("a:{KEY}\na:{KEY}"), 2),
            (&format!(":{KEY}"), 1),
            (&format!("a:{KEY}0"), 1),
            (&format!("a:{KEY}zz"), 1),
            (&format!("b:{KEY}\na:{}", "0".repeat(32)), 2),
        ] {
            let (at, what, remedy) = PskFile::parse(text).unwrap_err();
            assert_eq!(at, line, "{text}");
            assert!(!what.contains(short) && !remedy.is_empty());
        }
    }

    #[test]
    fn generated_files_are_private_and_readable() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("psk");
        let text = generate(&["a".to_owned(), "b".to_owned()], 16).unwrap();
        private_file::create(&file, &text).unwrap();
        let read = PskFile::load(&file).unwrap();
        assert_eq!(read.identities.len(), 2);
        assert_ne!(read.key(b"a"), read.key(b"b"));
        std::process::Command::new("chmod").arg("644").arg(&file).status().unwrap();
        assert!(PskFile::load(&file).unwrap_err().to_string().contains("chmod 600"));
    }
}

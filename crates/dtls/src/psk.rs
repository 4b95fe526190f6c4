//! The file of identities and pre-shared keys: lines of `identity:key in hexadecimal digits`, as
//! GnuTLS's `psktool` writes them. A line that begins with `#` is a comment.

use std::fmt;
use std::fs;
use std::path::Path;

use antedate_channel::dtls::{Client, Keyring, Psk};
use antedate_host::fault::Fault;
use antedate_host::hex::{is_zero, parse_hex, push_hex};
use antedate_host::private_file;
use antedate_host::process;
use zeroize::Zeroizing;

/// The shortest key in octets: 128 bits.
pub const MIN_KEY: usize = 16;
/// The longest key in octets.
pub const MAX_KEY: usize = 64;
/// The longest identity in octets (RFC 4279 section 5.3).
pub const MAX_IDENTITY: usize = 128;

/// The largest file in octets: more than 100,000 identities.
pub const MAX_FILE_LEN: usize = 32 << 20;
/// The most identities in a fault's text.
const SHOWN: usize = 8;

/// Identities and their keys.
pub struct PskFile {
    /// All identities, each followed by its key.
    octets: Zeroizing<Vec<u8>>,
    /// In the order of the identities.
    entries: Vec<Entry>,
}

/// The place of an identity and its key, whose lengths fit an octet.
#[derive(Clone, Copy)]
struct Entry {
    at: u32,
    line: u32,
    identity: u8,
    key: u8,
}

impl Entry {
    fn identity(self, octets: &[u8]) -> &[u8] {
        let at = self.at as usize;
        octets.get(at..at + usize::from(self.identity)).unwrap_or_default()
    }

    fn key(self, octets: &[u8]) -> &[u8] {
        let at = self.at as usize + usize::from(self.identity);
        octets.get(at..at + usize::from(self.key)).unwrap_or_default()
    }
}

impl PskFile {
    /// Reads the file, which only its owner may read.
    ///
    /// # Errors
    /// The first fault, with line and remedy. It shows no key.
    pub fn load(file: &Path) -> Result<Self, Fault> {
        let len = fs::metadata(file).map_or(0, |about| about.len());
        let len = usize::try_from(len).unwrap_or(MAX_FILE_LEN).min(MAX_FILE_LEN);
        let mut text = Zeroizing::new(vec![0; len + 1]);
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
        if text.len() > MAX_FILE_LEN {
            return Err((1, "the file is longer than 32 MiB".to_owned(), "give the path of a key file"));
        }
        // Full length at once: a growing vector leaves copies of the keys behind.
        let mut this = Self { octets: Zeroizing::new(Vec::with_capacity(text.len())), entries: Vec::new() };
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
            let place = this.octets.len() as u32;
            this.octets.extend_from_slice(identity.as_bytes());
            this.octets.extend_from_slice(&key);
            let (identity, key) = (identity.len() as u8, key.len() as u8);
            this.entries.push(Entry { at: place, line: at as u32, identity, key });
        }
        let octets: &[u8] = &this.octets;
        this.entries.sort_unstable_by_key(|entry| (entry.identity(octets), entry.line));
        let again = |pair: &[Entry]| match *pair {
            [one, other] if one.identity(octets) == other.identity(octets) => Some(other),
            _ => None,
        };
        if let Some(again) = this.entries.windows(2).filter_map(again).min_by_key(|entry| entry.line) {
            let identity = String::from_utf8_lossy(again.identity(octets));
            let what = format!("{identity} comes twice");
            return Err((again.line as usize, what, "give each device an identity of its own"));
        }
        if this.entries.is_empty() {
            return Err((1, "there is no key".to_owned(), "write a line IDENTITY:HEXKEY for each device"));
        }
        Ok(this)
    }

    /// The number of identities.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a file without an identity is a fault")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// This identity, or the only one in the file.
    ///
    /// # Errors
    /// Fault and remedy, when the identity is missing or ambiguous.
    pub fn only(&self, identity: Option<&str>) -> Result<String, (String, String)> {
        match (identity, self.entries.as_slice()) {
            (Some(identity), _) if self.key(identity.as_bytes()).is_some() => Ok(identity.to_owned()),
            (Some(identity), _) => Err(self.lacks(identity)),
            (None, [only]) => Ok(String::from_utf8_lossy(only.identity(&self.octets)).into_owned()),
            (None, several) => {
                let what = format!("the key file has {} identities", several.len());
                Err((
                    what,
                    "choose one with --identity NAME, or give each device its own with --devices".to_owned(),
                ))
            }
        }
    }

    /// The fault of a missing identity, and its remedy.
    pub(crate) fn lacks(&self, identity: &str) -> (String, String) {
        let known = self.entries.iter().take(SHOWN);
        let known: Vec<_> =
            known.map(|entry| String::from_utf8_lossy(entry.identity(&self.octets))).collect();
        let more = self.entries.len().saturating_sub(SHOWN);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        (format!("the key file has no identity {identity}"), format!("it has {}{more}", known.join(", ")))
    }

    /// The client of an identity, or of the only one in the file.
    ///
    /// # Errors
    /// Fault and remedy, when the identity is missing or ambiguous.
    pub fn client(&self, identity: Option<&str>) -> Result<Client, (String, String)> {
        let identity = self.only(identity)?;
        let key = self.key(identity.as_bytes()).ok_or_else(|| self.lacks(&identity))?;
        Ok(Client { identity: identity.into_bytes(), key })
    }
}

impl Keyring for PskFile {
    fn key(&self, identity: &[u8]) -> Option<Psk> {
        let place = self.entries.binary_search_by_key(&identity, |entry| entry.identity(&self.octets));
        let entry = self.entries.get(place.ok()?)?;
        Some(Zeroizing::new(entry.key(&self.octets).to_vec()))
    }
}

impl fmt::Debug for PskFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PskFile({} identities, ..)", self.len())
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
        assert_eq!(file.len(), 2);
        assert_eq!(file.key(b"turbine 3").unwrap()[..], core::array::from_fn::<u8, 16, _>(|i| i as u8));
        assert_eq!(file.key(b"urn:x:4").unwrap().len(), 17);
        assert!(file.key(b"turbine").is_none());
        assert!(file.client(None).is_err());
        assert_eq!(file.client(Some("turbine 3")).unwrap().identity, b"turbine 3");
    }

    #[test]
    fn fleet_of_100_000_has_its_keys() {
        let name = |i: u32| format!("urn:dev:mac:{:012x}", i.wrapping_mul(2_654_435_761));
        let key = |i: u32| format!("{:064x}", u64::from(i) + 1);
        let text: String = (0..100_000).map(|i| format!("{}:{}\n", name(i), key(i))).collect();
        let file = PskFile::parse(&text).unwrap();
        assert_eq!(file.len(), 100_000);
        for i in [0, 1, 4711, 99_999] {
            assert_eq!(file.key(name(i).as_bytes()).unwrap()[28..], (i + 1).to_be_bytes(), "{i}");
        }
        assert!(file.key(b"urn:dev:mac:").is_none());
        let (what, remedy) = file.client(Some("who")).unwrap_err();
        assert!(what.contains("who") && remedy.ends_with("and 99992 more"), "{remedy}");
        let twice = format!("{text}{}:{}\n", name(5), key(1));
        assert_eq!(PskFile::parse(&twice).unwrap_err().0, 100_001);
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
        assert_eq!(read.len(), 2);
        assert_ne!(read.key(b"a"), read.key(b"b"));
        std::process::Command::new("chmod").arg("644").arg(&file).status().unwrap();
        assert!(PskFile::load(&file).unwrap_err().to_string().contains("chmod 600"));
    }
}

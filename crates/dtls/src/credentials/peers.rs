//! The file of allowed peers: lines of `NAME sha256:DIGEST`, or a line `NAME` and a public key in PEM
//! behind it. The digest is of a SubjectPublicKeyInfo, which a raw public key is and a certificate
//! contains, or of a whole certificate. A line that begins with `#` is a comment.

use std::fmt;
use std::path::Path;

use antedate_channel::dtls::PublicKey;
use antedate_host::fault::Fault;
use antedate_host::hex::parse_hex;
use pki_types::pem::SectionKind;
use sha2::{Digest, Sha256};

use super::{digest, pem};

const FORM: &str = "write NAME sha256:DIGEST, as `antedate dtls digest FILE` prints it";
const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";
/// The longest name in octets.
const MAX_NAME: usize = 128;

struct Entry {
    digest: [u8; 32],
    line: usize,
    name: String,
}

/// Names of peers, by digest.
pub struct Peers {
    /// In the order of the digests.
    entries: Vec<Entry>,
}

impl Peers {
    /// Reads the file.
    ///
    /// # Errors
    /// The first fault, with line and remedy.
    pub fn load(file: &Path) -> Result<Self, Fault> {
        let octets = pem::read_public(file, FORM)?;
        let text = str::from_utf8(&octets).map_err(|_| Fault::of_file(file, "is not text", FORM))?;
        Self::parse(text)
            .map_err(|(line, what, remedy)| Fault { line: Some(line), ..Fault::of_file(file, what, remedy) })
    }

    /// Parses the text of a file. An error has line, fault and remedy.
    ///
    /// # Errors
    /// Malformed lines and keys, duplicate digests, or no peer.
    pub fn parse(text: &str) -> Result<Self, (usize, String, &'static str)> {
        let mut entries = Vec::new();
        // The name in front of a key, and the key's text with the line of its beginning.
        let mut name: Option<(usize, String)> = None;
        let mut key: Option<(usize, String)> = None;
        for (index, line) in text.lines().enumerate() {
            let (at, line) = (index + 1, line.trim());
            if let Some((begun, mut text)) = key.take() {
                text.push_str(line);
                text.push('\n');
                if line == END {
                    let (digest, spki) = public_key(&text).map_err(|no| (begun, no.to_string(), FORM))?;
                    let name = name.take().map_or_else(|| super::digest(&spki), |(_, name)| name);
                    entries.push(Entry { digest, line: begun, name });
                } else {
                    key = Some((begun, text));
                }
            } else if line == BEGIN {
                key = Some((at, format!("{line}\n")));
            } else if line.is_empty() || line.starts_with('#') {
                continue;
            } else {
                if let Some((at, name)) = name.take() {
                    return Err((at, format!("there is no digest behind {name}"), FORM));
                }
                match line.rsplit_once(char::is_whitespace) {
                    Some((before, digits)) if digits.starts_with("sha256:") => {
                        let mut digest = [0; 32];
                        if !parse_hex(digits.trim_start_matches("sha256:"), &mut digest) {
                            let what = format!("{digits} has not 64 hexadecimal digits");
                            return Err((at, what, FORM));
                        }
                        entries.push(Entry { digest, line: at, name: named(at, before)? });
                    }
                    _ => name = Some((at, named(at, line)?)),
                }
            }
        }
        if let Some((at, _)) = key {
            return Err((at, "the key has no end".to_owned(), FORM));
        }
        if let Some((at, name)) = name {
            return Err((at, format!("there is no digest or key behind {name}"), FORM));
        }
        entries.sort_by_key(|entry| (entry.digest, entry.line));
        let again =
            entries.windows(2).find(|pair| matches!(pair, [one, other] if one.digest == other.digest));
        if let Some([one, other]) = again {
            let what = format!("{} has the digest of {}, line {}", other.name, one.name, one.line);
            return Err((other.line, what, "each key is one peer's; remove a line"));
        }
        if entries.is_empty() {
            return Err((1, "there is no peer".to_owned(), FORM));
        }
        Ok(Self { entries })
    }

    /// The number of peers.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a file without a peer is a fault")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The name of the peer with one of these keys or certificates.
    pub(super) fn name(&self, shown: &[&[u8]]) -> Option<&str> {
        let find = |octets: &&[u8]| {
            let digest: [u8; 32] = Sha256::digest(octets).into();
            let place = self.entries.binary_search_by_key(&digest, |entry| entry.digest).ok()?;
            Some(self.entries.get(place)?.name.as_str())
        };
        shown.iter().find_map(find)
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peers({})", self.len())
    }
}

fn named(at: usize, name: &str) -> Result<String, (usize, String, &'static str)> {
    let name = name.trim();
    if name.len() > MAX_NAME || name.starts_with("sha256:") || name.chars().any(char::is_control) {
        return Err((at, "there is no name of up to 128 octets in front".to_owned(), FORM));
    }
    Ok(name.to_owned())
}

/// The digest of a public key in PEM, and the key.
fn public_key(text: &str) -> Result<([u8; 32], Vec<u8>), NoKey> {
    let sections = pem::sections(text.as_bytes()).map_err(NoKey::Form)?;
    let key = sections.into_iter().find(|(kind, _)| *kind == SectionKind::PublicKey);
    let (_, spki) = key.ok_or(NoKey::Missing)?;
    if PublicKey::from_spki(&spki).is_none() {
        return Err(NoKey::Curve(digest(&spki)));
    }
    Ok((Sha256::digest(&spki).into(), spki))
}

/// The reason why a text is no public key.
enum NoKey {
    Form(pki_types::pem::Error),
    Missing,
    /// The key with this digest is on another curve.
    Curve(String),
}

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(error) => f.write_str(&pem::wrong_form(error)),
            Self::Missing => f.write_str("there is no public key"),
            Self::Curve(digest) => write!(f, "the public key {digest} is not one on P-256"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::own::{generate, public_pem};

    #[test]
    fn lines_are_digests_or_keys() {
        let [(_, a), (_, b), (_, c)] = [(); 3].map(|()| generate().unwrap());
        let text = format!(
            "# the wind park\nturbine 3 {}\n\nturbine-4\n{}\n{}",
            digest(&a),
            public_pem(&b),
            public_pem(&c)
        );
        let peers = Peers::parse(&text).unwrap();
        assert_eq!(peers.len(), 3);
        assert_eq!(peers.name(&[&a]), Some("turbine 3"));
        assert_eq!(peers.name(&[b"another", &b]), Some("turbine-4"));
        assert_eq!(peers.name(&[&c]), Some(digest(&c).as_str()));
        assert_eq!(peers.name(&[b"another"]), None);
        assert_eq!(format!("{peers:?}"), "Peers(3)");
    }

    #[test]
    fn faults_name_the_line() {
        let digits = "ab".repeat(32);
        let (_, key) = generate().unwrap();
        let pem = public_pem(&key);
        let torn = pem.lines().take(2).collect::<Vec<_>>().join("\n");
        let other = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----";
        for (text, line) in [
            (String::new(), 1),
            ("# nobody".to_owned(), 1),
            ("a sha256:12".to_owned(), 1),
            (format!("a sha256:{digits}\nsha256:{digits}"), 2),
            (format!("a sha256:{digits}\nb sha256:{digits}"), 2),
            ("a\nb\n".to_owned(), 1),
            (format!("{} sha256:{digits}", "n".repeat(129)), 1),
            (format!("a\n{torn}"), 2),
            (format!("a\n{other}"), 2),
            (
                format!("a sha256:{}\n{pem}", crate::credentials::digest(&key).trim_start_matches("sha256:")),
                2,
            ),
        ] {
            let (at, what, remedy) = Peers::parse(&text).map(drop).unwrap_err();
            assert_eq!(at, line, "{what}");
            assert!(!remedy.is_empty());
        }
    }

    #[test]
    fn fleet_of_100_000_is_found() {
        let text: String =
            (0..100_000_u32).map(|i| format!("device-{i} {}\n", digest(&i.to_be_bytes()))).collect();
        let peers = Peers::parse(&text).unwrap();
        for i in [0_u32, 4711, 99_999] {
            assert_eq!(peers.name(&[&i.to_be_bytes()]), Some(format!("device-{i}").as_str()));
        }
    }

    #[test]
    fn file_that_all_may_write_is_refused() {
        let made = crate::credentials::made::Made::new();
        std::fs::write(made.at("peers"), format!("a sha256:{}\n", "ab".repeat(32))).unwrap();
        assert!(Peers::load(&made.at("peers")).is_ok());
        std::process::Command::new("chmod").arg("666").arg(made.at("peers")).status().unwrap();
        assert!(Peers::load(&made.at("peers")).unwrap_err().to_string().contains("chmod o-w"));
    }
}

//! What the state file says, and its text: a line a record, a checksum over all of them at the end.
//!
//! ```text
//! antedate packet numbers 1
//! transmit <SAK> <salt or -> <AN> <first packet number that was never used>
//! receive <SAK> <SCI> <AN> <lowest acceptable packet number>
//! sha256 <digest of everything above>
//! ```
//!
//! Keys are there as digests only.

use std::collections::BTreeMap;
use std::fmt::Write;

use antedate_wire::Sci;
use antedate_wire::macsec::An;
use sha2::{Digest, Sha256};

use crate::names::{hex, parse_hex};

/// The first line; the number is the version of the format.
const HEAD: &str = "antedate packet numbers ";
const VERSION: &str = "1";
/// More records than this are refused: a static key file makes a handful.
const RECORDS_MAX: usize = 10_000;
/// Of these, the ones that what is received does not take: whoever sends much must not keep us from sending.
const TRANSMIT_ONLY: usize = 1_000;

/// A digest that tells keys or salts apart and does not give them away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The digest of a key or salt; `domain` keeps the two apart.
    pub(super) fn of(domain: &str, bytes: &[u8]) -> Self {
        let digest = Sha256::new().chain_update(domain).chain_update([0]).chain_update(bytes).finalize();
        let mut first = [0; 16];
        first.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        Self(first)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        parse_hex(text, &mut bytes).then_some(Self(bytes))
    }
}

/// What is known of a key that we transmitted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transmitted {
    /// The salt that it was used with.
    pub(super) salt: Option<Fingerprint>,
    /// For people only.
    pub(super) an: An,
    /// The first packet number that was certainly never used.
    pub(super) next: u64,
}

/// What is known of a channel that we received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Received {
    /// For people only.
    pub(super) an: An,
    /// The lowest packet number that is still acceptable.
    pub(super) lowest: u64,
}

/// All records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Records {
    pub(super) transmitted: BTreeMap<Fingerprint, Transmitted>,
    pub(super) received: BTreeMap<(Fingerprint, Sci), Received>,
}

/// Why a state file is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It is cut, changed, or no state file.
    Corrupt,
    /// Another version of Antedate wrote it.
    Version,
}

impl Records {
    pub(super) fn is_full(&self) -> bool {
        self.transmitted.len() + self.received.len() >= RECORDS_MAX
    }

    pub(super) fn is_full_of_received(&self) -> bool {
        self.transmitted.len() + self.received.len() >= RECORDS_MAX
            || self.received.len() >= RECORDS_MAX - TRANSMIT_ONLY
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{HEAD}{VERSION}\n");
        for (key, Transmitted { salt, an, next }) in &self.transmitted {
            let salt = salt.map_or_else(|| "-".to_owned(), |salt| hex(&salt.0));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "transmit {} {salt} {an} {next}", hex(&key.0));
        }
        for ((key, sci), Received { an, lowest }) in &self.received {
            let _ = writeln!(text, "receive {} {sci} {an} {lowest}", hex(&key.0));
        }
        let digest = hex(&Sha256::digest(text.as_bytes()));
        let _ = writeln!(text, "sha256 {digest}");
        text.into_bytes()
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(bytes).map_err(|_| Unreadable::Corrupt)?;
        let version =
            text.lines().next().and_then(|line| line.strip_prefix(HEAD)).ok_or(Unreadable::Corrupt)?;
        if version != VERSION {
            let is_number = !version.is_empty() && version.bytes().all(|c| c.is_ascii_digit());
            return Err(if is_number { Unreadable::Version } else { Unreadable::Corrupt });
        }
        let (body, last) = text.trim_end_matches('\n').rsplit_once('\n').ok_or(Unreadable::Corrupt)?;
        let mut digest = Sha256::new();
        digest.update(body);
        digest.update("\n");
        if last != format!("sha256 {}", hex(&digest.finalize())) || !text.ends_with('\n') {
            return Err(Unreadable::Corrupt);
        }
        let mut records = Self::default();
        for line in body.lines().skip(1) {
            records.parse_line(line).ok_or(Unreadable::Corrupt)?;
        }
        Ok(records)
    }

    fn parse_line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, key, other, an, number] = words.as_slice() else { return None };
        let key = Fingerprint::parse(key)?;
        let an = an.parse().ok().and_then(An::new)?;
        let number = number.parse().ok().filter(|number| *number > 0)?;
        let doubled = match *kind {
            "transmit" => {
                let salt = if *other == "-" { None } else { Some(Fingerprint::parse(other)?) };
                self.transmitted.insert(key, Transmitted { salt, an, next: number }).is_some()
            }
            "receive" => {
                self.received.insert((key, other.parse().ok()?), Received { an, lowest: number }).is_some()
            }
            _ => return None,
        };
        (!doubled).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_records() -> Records {
        let key = Fingerprint::of("SAK", b"one");
        let an = An::default().following();
        let mut records = Records::default();
        records
            .transmitted
            .insert(key, Transmitted { salt: Some(Fingerprint::of("salt", b"x")), an, next: u64::MAX });
        records.transmitted.insert(Fingerprint::of("SAK", b"two"), Transmitted { salt: None, an, next: 1 });
        records.received.insert((key, Sci([2, 0, 0, 0, 0, 1, 0, 1])), Received { an, lowest: 77 });
        records
    }

    #[test]
    fn records_come_back_as_they_went() {
        for records in [Records::default(), some_records()] {
            assert_eq!(Records::parse(&records.to_bytes()), Ok(records));
        }
    }

    #[test]
    fn a_file_that_was_cut_anywhere_is_not_believed() {
        let bytes = some_records().to_bytes();
        for length in 0..bytes.len() {
            assert!(Records::parse(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_file_with_any_bit_changed_is_not_believed() {
        let bytes = some_records().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Records::parse(&changed).is_err(), "{bit}");
        }
    }

    #[test]
    fn a_later_version_is_told_from_damage() {
        assert_eq!(Records::parse(b"antedate packet numbers 2\nanything\n"), Err(Unreadable::Version));
        assert_eq!(Records::parse(b"antedate packet numbers x\n"), Err(Unreadable::Corrupt));
        assert_eq!(Records::parse(b""), Err(Unreadable::Corrupt));
    }

    #[test]
    fn the_file_does_not_hold_the_key() {
        let mut records = Records::default();
        records.transmitted.insert(
            Fingerprint::of("SAK", b"0123456789abcdef"),
            Transmitted { salt: None, an: An::default(), next: 1 },
        );
        let text = String::from_utf8(records.to_bytes()).unwrap();
        assert!(!text.contains("0123456789abcdef") && !text.contains(&hex(b"0123456789abcdef")));
    }
}

//! The records of a state file and their text: a line per record, then a checksum over all lines.
//!
//! ```text
//! antedate packet numbers 2
//! home <state> <write> <machine or -> <inode or -> <birth time or ->
//! transmit <key> <salt or -> <label> <first number that was never used>
//! receive <key> <place> <label> <lowest acceptable number>
//! sha256 <digest of everything above>
//! ```
//!
//! Keys and machines appear as digests only. Version 1 has no home.

use std::collections::BTreeMap;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::Place;
use super::home::{Home, Origin};
use crate::hex::{hex, parse_hex};

/// The first line, up to the version of the format.
const HEAD: &str = "antedate packet numbers ";
const VERSION: &str = "2";
/// Without a home.
const FIRST_VERSION: &str = "1";
/// The most records of a file.
const RECORDS_MAX: usize = 10_000;
/// Of these, records that only sending may add: a peer with many places must not keep this end from
/// sending.
const TRANSMIT_ONLY: usize = 1_000;
/// The largest label: that of an association number (IEEE 802.1AE-2018, 9.6).
const LABEL_MAX: u8 = 3;

/// A digest that identifies a key or a salt without revealing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fingerprint(pub(super) [u8; 16]);

impl Fingerprint {
    /// The digest of a key or a salt. `domain` separates the two.
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

/// A key for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transmitted {
    /// The salt, if any.
    pub(super) salt: Option<Fingerprint>,
    /// For people only.
    pub(super) label: u8,
    /// The first number that was never used.
    pub(super) next: u64,
}

/// A place with a key for receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Received {
    /// For people only.
    pub(super) label: u8,
    /// The lowest number that is still acceptable.
    pub(super) lowest: u64,
}

/// All records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Records {
    /// `None`: an earlier version wrote the file.
    pub(super) home: Option<Home>,
    pub(super) transmitted: BTreeMap<Fingerprint, Transmitted>,
    pub(super) received: BTreeMap<(Fingerprint, Place), Received>,
}

/// The reason to refuse a state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordsError {
    /// It is truncated, changed, or another kind of file.
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
        let version = if self.home.is_some() { VERSION } else { FIRST_VERSION };
        let mut text = format!("{HEAD}{version}\n");
        if let Some(home) = &self.home {
            let _ = writeln!(text, "{}", home_line(home));
        }
        for (key, Transmitted { salt, label, next }) in &self.transmitted {
            let salt = salt.map_or_else(|| "-".to_owned(), |salt| hex(&salt.0));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "transmit {} {salt} {label} {next}", hex(&key.0));
        }
        for ((key, place), Received { label, lowest }) in &self.received {
            let _ = writeln!(text, "receive {} {} {label} {lowest}", hex(&key.0), hex(&place.0));
        }
        let digest = hex(&Sha256::digest(text.as_bytes()));
        let _ = writeln!(text, "sha256 {digest}");
        text.into_bytes()
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, RecordsError> {
        let text = std::str::from_utf8(bytes).map_err(|_| RecordsError::Corrupt)?;
        let version =
            text.lines().next().and_then(|line| line.strip_prefix(HEAD)).ok_or(RecordsError::Corrupt)?;
        if ![VERSION, FIRST_VERSION].contains(&version) {
            let is_number = !version.is_empty() && version.bytes().all(|c| c.is_ascii_digit());
            return Err(if is_number { RecordsError::Version } else { RecordsError::Corrupt });
        }
        let (body, last) = text.trim_end_matches('\n').rsplit_once('\n').ok_or(RecordsError::Corrupt)?;
        let mut digest = Sha256::new();
        digest.update(body);
        digest.update("\n");
        if last != format!("sha256 {}", hex(&digest.finalize())) || !text.ends_with('\n') {
            return Err(RecordsError::Corrupt);
        }
        let mut records = Self::default();
        let mut lines = body.lines().skip(1);
        if version == VERSION {
            records.home = Some(lines.next().and_then(parse_home).ok_or(RecordsError::Corrupt)?);
        }
        for line in lines {
            records.parse_line(line).ok_or(RecordsError::Corrupt)?;
        }
        Ok(records)
    }

    fn parse_line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, key, other, label, number] = words.as_slice() else { return None };
        let key = Fingerprint::parse(key)?;
        let label = label.parse().ok().filter(|label| *label <= LABEL_MAX)?;
        let number = number.parse().ok().filter(|number| *number > 0)?;
        let doubled = match *kind {
            "transmit" => {
                let salt = if *other == "-" { None } else { Some(Fingerprint::parse(other)?) };
                self.transmitted.insert(key, Transmitted { salt, label, next: number }).is_some()
            }
            "receive" => self
                .received
                .insert((key, Place::parse(other)?), Received { label, lowest: number })
                .is_some(),
            _ => return None,
        };
        (!doubled).then_some(())
    }
}

fn home_line(Home { state, writes, origin }: &Home) -> String {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let machine = or_none(origin.machine.map(|machine| hex(&machine)));
    let [inode, birth] = [origin.inode, origin.birth].map(|number| or_none(number.map(|n| n.to_string())));
    format!("home {} {writes} {machine} {inode} {birth}", hex(state))
}

fn parse_home(line: &str) -> Option<Home> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["home", state, writes, machine, inode, birth] = words.as_slice() else { return None };
    let number = |text: &str| if text == "-" { Some(None) } else { text.parse().ok().map(Some) };
    let machine = if *machine == "-" { None } else { Some(Fingerprint::parse(machine)?.0) };
    let origin = Origin { machine, inode: number(inode)?, birth: number(birth)? };
    Some(Home { state: Fingerprint::parse(state)?.0, writes: writes.parse().ok()?, origin })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_records() -> Records {
        let key = Fingerprint::of("SAK", b"one");
        let label = 1;
        let mut records = Records::default();
        records
            .transmitted
            .insert(key, Transmitted { salt: Some(Fingerprint::of("salt", b"x")), label, next: u64::MAX });
        records
            .transmitted
            .insert(Fingerprint::of("SAK", b"two"), Transmitted { salt: None, label, next: 1 });
        records.received.insert((key, Place([2, 0, 0, 0, 0, 1, 0, 1])), Received { label, lowest: 77 });
        records
    }

    #[test]
    fn records_round_trip() {
        let origin = Origin { machine: Some([7; 16]), inode: Some(8), birth: Some(u64::MAX) };
        let homes = [origin, Origin::default()].map(|origin| Home { state: [6; 16], writes: 9, origin });
        let homes = homes.map(|home| Records { home: Some(home), ..some_records() });
        for records in [Records::default(), some_records()].into_iter().chain(homes) {
            assert_eq!(Records::parse(&records.to_bytes()), Ok(records));
        }
    }

    #[test]
    fn truncated_file_is_refused() {
        let bytes = some_records().to_bytes();
        for length in 0..bytes.len() {
            assert!(Records::parse(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn file_with_flipped_bit_is_refused() {
        let bytes = some_records().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Records::parse(&changed).is_err(), "{bit}");
        }
    }

    /// A file of these lines, with the right digest.
    fn signed(lines: &str) -> Vec<u8> {
        let text = format!("{HEAD}{FIRST_VERSION}\n{lines}");
        let digest = hex(&Sha256::digest(text.as_bytes()));
        format!("{text}sha256 {digest}\n").into_bytes()
    }

    #[test]
    fn impossible_records_are_damage() {
        let (key, salt, place) = ("a".repeat(32), "b".repeat(32), "c".repeat(16));
        let transmit =
            |salt: &str, label: &str, next: &str| format!("transmit {key} {salt} {label} {next}\n");
        let receive =
            |place: &str, label: &str, lowest: &str| format!("receive {key} {place} {label} {lowest}\n");
        let good = [transmit("-", "0", "1"), transmit(&salt, "3", "9"), receive(&place, "3", "1")];
        for lines in &good {
            let records = Records::parse(&signed(lines)).unwrap();
            assert_eq!(records.to_bytes(), signed(lines));
        }
        let bad = [
            transmit("-", "4", "1"),
            transmit("-", "0", "0"),
            transmit("-", "0", "18446744073709551616"),
            transmit(&salt[1..], "0", "1"),
            receive(&place, "4", "1"),
            receive(&place, "0", "0"),
            receive(&place[1..], "0", "1"),
            receive("-", "0", "1"),
            // Twice, and with a word too many or too few.
            [transmit("-", "0", "1"), transmit("-", "0", "2")].concat(),
            [receive(&place, "0", "1"), receive(&place, "0", "2")].concat(),
            transmit("-", "0", "1 1"),
            "transmit\n".to_owned(),
            transmit("-", "0", "1").replace("transmit", "other"),
            transmit("-", "0", "1").replace(&key, &key[1..]),
        ];
        for lines in bad {
            assert_eq!(Records::parse(&signed(&lines)), Err(RecordsError::Corrupt), "{lines}");
        }
    }

    #[test]
    fn impossible_home_is_damage() {
        let (state, machine) = ("a".repeat(32), "b".repeat(32));
        let second = |lines: &str| {
            let text = format!("{HEAD}2\n{lines}");
            format!("{text}sha256 {}\n", hex(&Sha256::digest(text.as_bytes()))).into_bytes()
        };
        let good = format!("home {state} 1 {machine} 2 3\n");
        assert_eq!(Records::parse(&second(&good)).unwrap().to_bytes(), second(&good));
        for bad in [
            String::new(),
            good.repeat(2),
            good.replace("home", "transmit"),
            good.replace(&state, "-"),
            good.replace(&machine, &machine[1..]),
            good.replace(" 1 ", " - "),
            good.replace(" 2 ", " x "),
            good.replace(" 3\n", "\n"),
            good.replace(" 3\n", " 3 4\n"),
        ] {
            assert_eq!(Records::parse(&second(&bad)), Err(RecordsError::Corrupt), "{bad}");
        }
        assert_eq!(Records::parse(&signed(&good)), Err(RecordsError::Corrupt), "not in version 1");
    }

    #[test]
    fn later_version_is_not_damage() {
        assert_eq!(Records::parse(b"antedate packet numbers 3\nanything\n"), Err(RecordsError::Version));
        assert_eq!(Records::parse(b"antedate packet numbers x\n"), Err(RecordsError::Corrupt));
        assert_eq!(Records::parse(b""), Err(RecordsError::Corrupt));
    }

    #[test]
    fn file_does_not_contain_the_key() {
        let mut records = Records::default();
        records.transmitted.insert(
            Fingerprint::of("SAK", b"0123456789abcdef"),
            Transmitted { salt: None, label: 0, next: 1 },
        );
        let text = String::from_utf8(records.to_bytes()).unwrap();
        assert!(!text.contains("0123456789abcdef") && !text.contains(&hex(b"0123456789abcdef")));
    }
}

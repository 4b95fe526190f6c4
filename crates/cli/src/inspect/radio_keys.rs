//! The file with keys and devices of IEEE 802.15.4.

use std::path::Path;

use antedate_channel::dot15d4::{ExtendedAddress, KeyIdentifier, LinkKey, PanId, ShortAddress};
use antedate_host::document::{Document, Field, Section};
use antedate_host::fault::{Fault, Faults};
use antedate_host::hex::parse_hex;
use antedate_host::private_file::{self, MAX_KEY_FILE_LEN};
use antedate_host::process;
use zeroize::Zeroizing;

/// The most keys and devices.
const MOST: usize = 1000;
/// Octets of a key.
const KEY_LEN: usize = 16;

/// A key, and its name in frames.
pub(super) struct RadioKey {
    octets: Zeroizing<[u8; KEY_LEN]>,
    /// `None`: tried for every name.
    pub(super) name: Option<KeyIdentifier>,
}

impl RadioKey {
    pub(super) fn key(&self) -> LinkKey {
        LinkKey::new(*self.octets)
    }
}

/// A device, whose extended address is in nonces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RadioDevice {
    pub(super) extended: ExtendedAddress,
    pub(super) short: Option<ShortAddress>,
    /// `None`: any.
    pub(super) pan: Option<PanId>,
}

/// Keys and devices.
#[derive(Default)]
pub(super) struct RadioKeys {
    pub(super) keys: Vec<RadioKey>,
    pub(super) devices: Vec<RadioDevice>,
}

impl RadioKeys {
    /// Reads a file that only its owner may read.
    pub(super) fn load(file: &Path) -> Result<Self, Faults> {
        let mut text = Zeroizing::new(vec![0; MAX_KEY_FILE_LEN + 1]);
        let length = private_file::read(file, process::user(), &mut text)?;
        let text =
            text.get(..length).and_then(|octets| std::str::from_utf8(octets).ok()).ok_or_else(|| {
                let remedy = "name a file as in the manual's chapter \"Looking into the traffic\"";
                Fault::of_file(file, "is not text, so it is no key file", remedy)
            })?;
        Self::parse(file, text)
    }

    fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let document = Document::parse(file, text);
        let mut root = document.root();
        let keys = root.required("key", "add [[key]] with the key's 32 hexadecimal digits");
        let keys = sections(keys, key);
        let devices = sections(root.get("device"), device);
        root.finish();
        let faults = document.into_faults();
        if faults.is_empty() { Ok(Self { keys, devices }) } else { Err(Faults::new(faults)) }
    }
}

/// Reads the sections of an array.
fn sections<T>(field: Option<Field<'_, '_>>, read: fn(&mut Section<'_, '_>) -> Option<T>) -> Vec<T> {
    let Some(field) = field else { return Vec::new() };
    let Some(all) = field.array() else { return Vec::new() };
    if all.len() > MOST {
        field.fault(format!("has {} entries", all.len()), format!("give at most {MOST}"));
        return Vec::new();
    }
    let one = |field: &Field<'_, '_>| {
        let mut section = field.section()?;
        let found = read(&mut section);
        section.finish();
        found
    };
    all.iter().filter_map(one).collect()
}

fn octets<const N: usize>(field: &Field<'_, '_>) -> Option<Zeroizing<[u8; N]>> {
    let digits = Zeroizing::new(field.string()?.replace(':', ""));
    let mut octets = Zeroizing::new([0; N]);
    if digits.len() == 2 * N && parse_hex(&digits, &mut octets[..]) {
        return Some(octets);
    }
    field.fault(format!("is not {N} octets"), format!("write {} hexadecimal digits", 2 * N));
    None
}

fn key(section: &mut Section<'_, '_>) -> Option<RadioKey> {
    let octets =
        section.required("key", "write the key's 32 hexadecimal digits").and_then(|f| self::octets(&f));
    let index = section.get("index").map(|field| field.integer(1..=255));
    let source = section.get("source");
    let implicit = section.get("implicit").map(|field| field.boolean());
    let index = match index {
        Some(index) => Some(u8::try_from(index?).ok()?),
        None => None,
    };
    let name = match (index, source, implicit) {
        (None, None, None | Some(Some(false))) => None,
        (None, None, Some(Some(true))) => Some(KeyIdentifier::Implicit),
        (Some(index), None, None | Some(Some(false))) => Some(KeyIdentifier::Index(index)),
        (Some(index), Some(source), None | Some(Some(false))) => {
            let long = source.as_string().is_some_and(|text| text.replace(':', "").len() > 8);
            Some(if long {
                KeyIdentifier::Source8(*self::octets(&source)?, index)
            } else {
                KeyIdentifier::Source4(*self::octets(&source)?, index)
            })
        }
        (None, Some(source), _) => {
            source.fault("needs an index", "add index = N, as the frames have it");
            return None;
        }
        (_, _, Some(None)) => return None,
        (Some(_), _, Some(Some(true))) => {
            section.fault("implicit", "an implicit key has no index", "remove implicit or index");
            return None;
        }
    };
    Some(RadioKey { octets: octets?, name })
}

fn device(section: &mut Section<'_, '_>) -> Option<RadioDevice> {
    let extended =
        section.required("address", "write the extended address, e.g. \"02:00:00:00:00:00:00:0b\"");
    let extended = extended.and_then(|field| octets::<8>(&field));
    let short = section.get("short").map(|field| field.integer(0..=0xfffd));
    let pan = section.get("pan").map(|field| field.integer(0..=0xfffe));
    // A fault of one does not hide that of another.
    let half = |value: Option<Option<u64>>| match value {
        None => Some(None),
        Some(value) => u16::try_from(value?).ok().map(Some),
    };
    let (short, pan) = (half(short)?, half(pan)?);
    Some(RadioDevice {
        extended: ExtendedAddress(*extended?),
        short: short.map(ShortAddress),
        pan: pan.map(PanId),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RadioKeys, Faults> {
        RadioKeys::parse(Path::new("radio.toml"), text)
    }

    const KEY: &str = "[[key]]\nkey = \"c0c1c2c3c4c5c6c7c8c9cacbcccdcecf\"\n";

    #[test]
    fn names_of_keys_are_those_of_frames() {
        for (lines, name) in [
            ("", None),
            ("implicit = true\n", Some(KeyIdentifier::Implicit)),
            ("index = 7\n", Some(KeyIdentifier::Index(7))),
            ("index = 7\nsource = \"04030201\"\n", Some(KeyIdentifier::Source4([4, 3, 2, 1], 7))),
            (
                "index = 7\nsource = \"08:07:06:05:04:03:02:01\"\n",
                Some(KeyIdentifier::Source8([8, 7, 6, 5, 4, 3, 2, 1], 7)),
            ),
        ] {
            let keys = parse(&format!("{KEY}{lines}")).expect(lines);
            assert_eq!(keys.keys.iter().map(|key| key.name).collect::<Vec<_>>(), [name], "{lines}");
        }
        let device = "[[device]]\naddress = \"02:00:00:00:00:00:00:0b\"\nshort = 1\npan = 0xabcd\n";
        let devices = parse(&format!("{KEY}{device}")).expect("a device").devices;
        let extended = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0b]);
        assert_eq!(
            devices,
            [RadioDevice { extended, short: Some(ShortAddress(1)), pan: Some(PanId(0xabcd)) }]
        );
    }

    #[test]
    fn faults_have_lines_and_remedies() {
        for (text, expected) in [
            ("", "key: is missing"),
            ("[[key]]\nkey = \"c0\"\n", "radio.toml:2: key[0].key: is not 16 octets"),
            (&format!("{KEY}index = 0\n"), "radio.toml:3: key[0].index: 0 is out of range"),
            (&format!("{KEY}source = \"04030201\"\n"), "radio.toml:3: key[0].source: needs an index"),
            (&format!("{KEY}index = 1\nsource = \"0403\"\n"), "is not 4 octets"),
            (&format!("{KEY}index = 1\nimplicit = true\n"), "an implicit key has no index"),
            (&format!("{KEY}indx = 1\n"), "did you mean \"index\"?"),
            (&format!("{KEY}[[device]]\nshort = 1\n"), "device[0].address: is missing"),
            (&format!("{KEY}[[device]]\naddress = \"02\"\nshort = 70000\n"), "is out of range"),
        ] {
            let found = parse(text).err().map(|faults| faults.to_string()).unwrap_or_default();
            assert!(found.contains(expected) && found.contains("remedy: "), "{text}: {found}");
            assert!(!found.contains("c0c1"), "shows a key: {found}");
        }
    }
}

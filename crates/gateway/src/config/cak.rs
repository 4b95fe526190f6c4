//! The file with the pre-shared keys, in the form of `wpa_supplicant.conf(5)`: lines `mka_cak=` and
//! `mka_ckn=` with hexadecimal digits, alone or in a block `network={ ... }`.
//!
//! Several blocks are several CAKs. `priority=` orders them as in wpa_supplicant: the larger the
//! value, the sooner it is used; those of the same value in the order of the file. As there, a block
//! with `disabled=1` is left out. Other lines are ignored, and so are blocks without a CAK. No fault
//! shows a key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use antedate_channel::mka::{Cak, Listed};
use antedate_host::fault::{Fault, Faults};
use antedate_host::hex::{hex, is_zero, parse_hex, push_hex};
use antedate_host::private_file::{self, MAX_KEY_FILE_LEN};
use zeroize::Zeroizing;

/// The most octets of a key or a name.
const MAX_LEN: usize = 32;
/// The most CAKs of a file. Each has MKPDUs of its own.
pub const MAX_CAKS: usize = 4;

/// The pre-shared keys of a gateway.
#[derive(Debug)]
pub struct CakFile {
    /// The file of the keys.
    pub file: PathBuf,
    /// The keys in the order of the file, one at least.
    pub entries: Vec<Entry>,
}

/// A pre-shared key and its name.
#[derive(Debug)]
pub struct Entry {
    /// The key with its name, and the keys derived from it. Shared, so that there is one copy.
    cak: Arc<Cak>,
    /// The preference: the largest first.
    pub priority: i32,
}

/// A `network` block, or the lines outside of blocks.
#[derive(Default)]
struct Block<'a> {
    /// Settings with the number of their line.
    lines: Vec<(usize, &'a str, &'a str)>,
}

impl<'a> Block<'a> {
    /// The lines outside of blocks, then each block.
    fn split(text: &'a str) -> Vec<Self> {
        let (mut outside, mut blocks, mut inside) = (Self::default(), Vec::new(), None);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            let Some((name, value)) = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()))
            else {
                if line == "}" {
                    blocks.extend(inside.take());
                }
                continue;
            };
            if value == "{" {
                blocks.extend(inside.take());
                // Blocks of other kinds have no CAK.
                inside = Some(Self::default());
            } else {
                inside.as_mut().unwrap_or(&mut outside).lines.push((number, name, value));
            }
        }
        blocks.extend(inside);
        blocks.insert(0, outside);
        blocks
    }

    fn has(&self, key: &str, value: &str) -> bool {
        self.lines.iter().any(|(_, name, other)| *name == key && *other == value)
    }

    fn has_a_cak(&self) -> bool {
        let named = self.lines.iter().any(|(_, name, _)| matches!(*name, "mka_cak" | "mka_ckn"));
        named && !self.has("disabled", "1")
    }

    fn read(&self, file: &Path, faults: &mut Vec<Fault>) -> Option<Entry> {
        let mut fault = |line, key: &str, what: &str, remedy: String| {
            faults.push(Fault { line, key: key.to_owned(), ..Fault::of_file(file, what, remedy) });
        };
        let mut value = |key: &'static str, lengths: fn(usize) -> bool, right: &str| {
            let found: Vec<_> = self.lines.iter().filter(|(_, name, _)| *name == key).collect();
            match found[..] {
                [] => {
                    // In a block, the fault names the line of its other half.
                    let near = self.lines.iter().find(|(_, name, _)| name.starts_with("mka_c"));
                    let remedy = format!("add a line {key}= with {right}");
                    fault(near.map(|(line, ..)| *line), key, "is missing", remedy);
                }
                [(line, _, digits)] => {
                    let mut octets = Zeroizing::new(vec![0; digits.len().min(2 * MAX_LEN + 2) / 2]);
                    if !lengths(octets.len()) || !parse_hex(digits, &mut octets) {
                        fault(Some(*line), key, "is not what it must be", format!("write {right}"));
                    } else if key == "mka_cak" && is_zero(&octets) {
                        let remedy = "`antedate keygen macsec --cak` makes a random key";
                        fault(Some(*line), key, "is all zeros, which is no secret", remedy.to_owned());
                    } else {
                        return Some(octets);
                    }
                }
                [_, (line, ..), ..] => {
                    let remedy =
                        "keep one of the lines, or put each key with its name into a block network={ }";
                    fault(Some(*line), key, "comes twice", remedy.to_owned());
                }
            }
            None
        };
        let key = value("mka_cak", |len| matches!(len, 16 | 32), "32 or 64 hexadecimal digits");
        let name = value("mka_ckn", |len| (1..=MAX_LEN).contains(&len), "2 to 64 hexadecimal digits");
        let mut priority = 0;
        for (line, _, value) in self.lines.iter().filter(|(_, name, _)| *name == "priority") {
            match value.parse() {
                Ok(number) => priority = number,
                Err(_) => fault(
                    Some(*line),
                    "priority",
                    "is no number",
                    "write a number: the block with the largest is preferred".to_owned(),
                ),
            }
        }
        Some(Entry::new(&key?, &name?, priority))
    }
}

impl Entry {
    /// A key and a name of legal lengths.
    fn new(key: &[u8], name: &[u8], priority: i32) -> Self {
        match Cak::new(key, name) {
            Ok(cak) => Self { cak: Arc::new(cak), priority },
            Err(error) => unreachable!("the callers checked the lengths: {error}"),
        }
    }

    /// Length of the key in bits.
    #[must_use]
    pub fn bits(&self) -> usize {
        8 * self.cak.secret().len()
    }

    /// The name (CKN) in hexadecimal digits.
    #[must_use]
    pub fn name(&self) -> String {
        hex(self.cak.name().as_bytes())
    }
}

impl CakFile {
    /// Reads a file that only `user` (or root) can read and write.
    ///
    /// # Errors
    /// All faults, each with its line. None shows a key.
    pub fn load(file: &Path, user: u32) -> Result<Self, Faults> {
        let mut text = Zeroizing::new(vec![0; MAX_KEY_FILE_LEN + 1]);
        let length = private_file::read(file, user, &mut text)?;
        let text = text.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok()).ok_or_else(|| {
            Fault::of_file(
                file,
                "is not text, so it holds no key",
                "`antedate keygen macsec --cak` makes one",
            )
        })?;
        Self::parse(file, text)
    }

    /// Parses the text of such a file. `file` is the path for faults.
    ///
    /// # Errors
    /// All faults, each with its line. None shows a key.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let blocks = Block::split(text);
        let disabled = blocks.iter().any(|block| block.has("disabled", "1"));
        let mut entries: Vec<Entry> = Vec::new();
        for block in blocks.iter().filter(|block| block.has_a_cak()) {
            let Some(entry) = block.read(file, &mut faults) else { continue };
            if entries.iter().any(|other| other.cak.name() == entry.cak.name()) {
                let line = block.lines.iter().find(|(_, name, _)| *name == "mka_ckn").map(|(line, ..)| *line);
                let fault = Fault::of_file(file, "is the name of another block", "give each CAK its own CKN");
                faults.push(Fault { line, key: "mka_ckn".to_owned(), ..fault });
            }
            entries.push(entry);
        }
        if entries.len() > MAX_CAKS {
            let what = format!("has {} CAKs, and at most {MAX_CAKS} are in use at once", entries.len());
            faults.push(Fault::of_file(file, what, "remove the oldest blocks"));
        }
        if entries.is_empty() && faults.is_empty() {
            if disabled {
                let remedy = "remove the line disabled=1 of one block";
                return Err(Faults::new(vec![Fault::of_file(file, "has disabled blocks only", remedy)]));
            }
            Block::default().read(file, &mut faults);
        }
        if faults.is_empty() { Ok(Self { file: file.to_owned(), entries }) } else { Err(Faults::new(faults)) }
    }

    /// The CAKs with their preference.
    #[must_use]
    pub fn list(&self) -> Vec<Listed> {
        let listed = |entry: &Entry| Listed { cak: Arc::clone(&entry.cak), priority: entry.priority };
        self.entries.iter().map(listed).collect()
    }

    /// Makes a key of 256 bits, or of 128 otherwise, with a random name. One with a priority above 0
    /// is written as a block, to stand beside others. `random` fills a buffer from the system's
    /// generator.
    ///
    /// # Errors
    /// The error of `random`.
    pub fn generate<E>(
        bits: usize,
        priority: i32,
        mut random: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut key = Zeroizing::new(vec![0; if bits == 256 { 32 } else { 16 }]);
        let mut name = vec![0; MAX_LEN];
        random(&mut key)?;
        random(&mut name)?;
        Ok(Self { file: PathBuf::new(), entries: vec![Entry::new(&key, &name, priority)] })
    }

    /// A file with this key, which is preferred to those of an earlier file. Of those, the preferred
    /// one stays, so that members without the new key are heard.
    #[must_use]
    pub fn renewed(cak: Cak, before: Option<Self>) -> Self {
        let mut entries = before.map_or_else(Vec::new, |before| before.entries);
        entries.retain(|entry| entry.cak.name() != cak.name());
        // A stable order: of equal ones, the first of the file is preferred.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.priority));
        entries.truncate(1);
        let priority = entries.first().map_or(1, |entry| entry.priority.saturating_add(1).max(1));
        entries.insert(0, Entry { cak: Arc::new(cak), priority });
        Self { file: PathBuf::new(), entries }
    }

    /// The text of the file, comments included.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        // Full capacity from the start: a string that grows leaves copies of the key in freed
        // memory.
        let mut text = Zeroizing::new(String::with_capacity(1024));
        text.push_str(HEAD);
        for Entry { cak, priority } in &self.entries {
            let block = *priority > 0;
            text.push_str(if block { "network={\n" } else { "" });
            text.push_str("mka_cak=");
            push_hex(&mut text, cak.secret());
            text.push_str("\nmka_ckn=");
            push_hex(&mut text, cak.name().as_bytes());
            text.push('\n');
            if block {
                text.push_str(&format!("priority={priority}\n}}\n"));
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
# A pre-shared key for MACsec Key Agreement (IEEE 802.1X), in the form of wpa_supplicant.conf(5).
# Whoever has it is a member of the association: mode 0600, and a safe way to the other members.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> String {
        CakFile::parse(Path::new("cak"), text).unwrap_err().to_string()
    }

    #[test]
    fn written_key_reads_back() {
        for (bits, priority) in [(128, 0), (256, 0), (128, 7)] {
            let made = CakFile::generate(bits, priority, |octets: &mut [u8]| {
                octets.fill(0xab);
                Ok::<_, ()>(())
            })
            .unwrap();
            let read = CakFile::parse(Path::new("cak"), &made.to_text()).unwrap();
            let entry = &read.entries[0];
            assert_eq!((entry.bits(), entry.name(), entry.priority), (bits, "ab".repeat(32), priority));
            assert_eq!(entry.cak.secret(), vec![0xab; bits / 8]);
        }
    }

    #[test]
    fn wpa_supplicant_block_is_read() {
        let text = "network={\n key_mgmt=NONE\n  mka_cak=000102030405060708090A0B0C0D0E0F # comment\n  mka_ckn=61\n  mka_priority=16\n}\n";
        let read = CakFile::parse(Path::new("cak"), text).unwrap();
        assert_eq!((read.entries[0].bits(), read.entries[0].name().as_str()), (128, "61"));
    }

    /// A block of one repeated digit pair, with its own name.
    fn block(digits: &str, more: &str) -> String {
        format!("network={{\n mka_cak={}\n mka_ckn={digits}\n{more}}}\n", digits.repeat(16))
    }

    #[test]
    fn several_blocks_are_several_caks() {
        let wifi = "ctrl_interface=/run\nnetwork={\n ssid=\"a=b\"\n psk=\"x\"\n}\n";
        let off = block("77", "disabled=1\n");
        let text = format!("{wifi}{}{off}{}", block("1c", ""), block("2e", " priority=-3 # later\n"));
        let read = CakFile::parse(Path::new("cak"), &text).unwrap();
        let all: Vec<_> = read.entries.iter().map(|entry| (entry.name(), entry.priority)).collect();
        assert_eq!(all, [("1c".to_owned(), 0), ("2e".to_owned(), -3)]);
        // The lines that `keygen` writes, and a block behind them.
        let text = format!("mka_cak={}\nmka_ckn=aa\n{}", "11".repeat(16), block("bb", "priority=1\n"));
        assert_eq!(CakFile::parse(Path::new("cak"), &text).unwrap().entries.len(), 2);
    }

    #[test]
    fn renewed_file_has_the_last_two_keys() {
        let cak = |octet: u8| Cak::new(&[octet; 16], &[octet]).unwrap();
        let mut file = CakFile::renewed(cak(1), None);
        for (octet, priorities) in [(2, [2, 1]), (3, [3, 2]), (3, [3, 2])] {
            file = CakFile::renewed(cak(octet), Some(file));
            let read = CakFile::parse(Path::new("cak"), &file.to_text()).unwrap();
            let all: Vec<_> = read.entries.iter().map(|entry| (entry.name(), entry.priority)).collect();
            let last = if priorities == [3, 2] { 2 } else { 1 };
            assert_eq!(
                all,
                [(format!("{octet:02x}"), priorities[0]), (format!("{last:02x}"), priorities[1])]
            );
        }
        let by_hand = CakFile::parse(Path::new("cak"), &block("1c", " priority=-3\n")).unwrap();
        assert_eq!(CakFile::renewed(cak(1), Some(by_hand)).entries[0].priority, 1);
    }

    #[test]
    fn faults_of_blocks_name_their_lines() {
        let twice = faults(&format!("{}{}", block("1c", ""), block("1c", "")));
        assert!(twice.contains("cak:7: mka_ckn: is the name of another block"), "{twice}");
        let half = faults(&format!("{}network={{\nmka_ckn=01\n}}", block("1c", "")));
        assert!(half.contains("cak:6: mka_cak: is missing"), "{half}");
        assert!(faults(&block("1c", "priority=high\n")).contains("cak:4: priority: is no number"));
        assert!(faults(&block("1c", "disabled=1\n")).contains("disabled blocks only"));
        let many: String = ["11", "22", "33", "44", "55"].map(|digits| block(digits, "")).concat();
        assert!(faults(&many).contains("has 5 CAKs"));
        assert!(faults("network={\nkey_mgmt=NONE\n}\n").contains("mka_cak: is missing"));
    }

    #[test]
    fn faults_never_show_the_key() {
        let found = faults("mka_cak=00112233445566778899aabbccddee\nmka_ckn=\n");
        assert!(found.contains("cak:1: mka_cak: is not what it must be"), "{found}");
        assert!(found.contains("cak:2: mka_ckn") && !found.contains("0011"), "{found}");
        let key = "mka_cak=00112233445566778899aabbccddeeff\n";
        assert!(faults(key).contains("mka_ckn: is missing"));
        assert!(faults(&format!("mka_cak={}\nmka_ckn=01", "0".repeat(32))).contains("all zeros"));
        assert!(faults(&format!("{key}{key}mka_ckn=01")).contains("cak:2: mka_cak: comes twice"));
        assert!(faults(&format!("{}\nmka_ckn=01", key.replace('0', "x"))).contains("hexadecimal"));
        assert!(faults(&format!("{key}mka_ckn={}", "01".repeat(33))).contains("2 to 64"));
    }
}

//! The file with the pre-shared key, in the form of `wpa_supplicant.conf(5)`: lines `mka_cak=` and
//! `mka_ckn=` with hexadecimal digits.
//!
//! A whole `network={ ... }` block is accepted, so that wpa_supplicant can use the same file. Other
//! lines are ignored. No fault shows the key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use antedate_channel::mka::Cak;
use antedate_host::fault::{Fault, Faults};
use antedate_host::hex::{hex, is_zero, parse_hex, push_hex};
use antedate_host::private_file::{self, MAX_KEY_FILE_LEN};
use zeroize::Zeroizing;

/// The most octets of a key or a name.
const MAX_LEN: usize = 32;

/// A pre-shared key and its name.
#[derive(Debug)]
pub struct CakFile {
    /// The file of the key.
    pub file: PathBuf,
    /// The key with its name, and the keys derived from it. Shared, so that there is one copy.
    pub cak: Arc<Cak>,
}

impl CakFile {
    /// Reads a file that only `user` (or root) can read and write.
    ///
    /// # Errors
    /// All faults, each with its line. None shows the key.
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
    /// All faults, each with its line. None shows the key.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        let mut faults = Vec::new();
        let mut value = |key: &'static str, lengths: fn(usize) -> bool, right: &str| {
            let lines = text.lines().enumerate().filter_map(|(number, line)| {
                let (name, value) = line.split('#').next()?.split_once('=')?;
                (name.trim() == key).then(|| (number + 1, value.trim()))
            });
            let found: Vec<_> = lines.collect();
            let mut fault = |line, what: &str, remedy: String| {
                faults.push(Fault { line, key: key.to_owned(), ..Fault::of_file(file, what, remedy) });
            };
            match found[..] {
                [] => fault(None, "is missing", format!("add a line {key}= with {right}")),
                [(line, digits)] => {
                    let mut octets = Zeroizing::new(vec![0; digits.len().min(2 * MAX_LEN + 2) / 2]);
                    if !lengths(octets.len()) || !parse_hex(digits, &mut octets) {
                        fault(Some(line), "is not what it must be", format!("write {right}"));
                    } else if key == "mka_cak" && is_zero(&octets) {
                        let remedy = "`antedate keygen macsec --cak` makes a random key";
                        fault(Some(line), "is all zeros, which is no secret", remedy.to_owned());
                    } else {
                        return Some(octets);
                    }
                }
                [_, (line, _), ..] => {
                    fault(Some(line), "comes twice", "keep one of the lines".to_owned());
                }
            }
            None
        };
        let key = value("mka_cak", |len| matches!(len, 16 | 32), "32 or 64 hexadecimal digits");
        let name = value("mka_ckn", |len| (1..=MAX_LEN).contains(&len), "2 to 64 hexadecimal digits");
        match (key, name) {
            (Some(key), Some(name)) => Ok(Self::of(file, &key, &name)),
            _ => Err(Faults::new(faults)),
        }
    }

    /// Makes a key of 256 bits, or of 128 otherwise, with a random name. `random` fills a buffer from the system's
    /// generator.
    ///
    /// # Errors
    /// The error of `random`.
    pub fn generate<E>(bits: usize, mut random: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut key = Zeroizing::new(vec![0; if bits == 256 { 32 } else { 16 }]);
        let mut name = vec![0; MAX_LEN];
        random(&mut key)?;
        random(&mut name)?;
        Ok(Self::of(Path::new(""), &key, &name))
    }

    /// A key and a name of legal lengths.
    fn of(file: &Path, key: &[u8], name: &[u8]) -> Self {
        match Cak::new(key, name) {
            Ok(cak) => Self { file: file.to_owned(), cak: Arc::new(cak) },
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

    /// The text of the file, comments included.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        // Full capacity from the start: a string that grows leaves copies of the key in freed
        // memory.
        let mut text = Zeroizing::new(String::with_capacity(1024));
        text.push_str(HEAD);
        text.push_str("mka_cak=");
        push_hex(&mut text, self.cak.secret());
        text.push_str("\nmka_ckn=");
        push_hex(&mut text, self.cak.name().as_bytes());
        text.push('\n');
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
        for bits in [128, 256] {
            let made = CakFile::generate(bits, |octets: &mut [u8]| {
                octets.fill(0xab);
                Ok::<_, ()>(())
            })
            .unwrap();
            let read = CakFile::parse(Path::new("cak"), &made.to_text()).unwrap();
            assert_eq!((read.bits(), read.name()), (bits, "ab".repeat(32)));
            assert_eq!(read.cak.secret(), vec![0xab; bits / 8]);
        }
    }

    #[test]
    fn wpa_supplicant_block_is_read() {
        let text = "network={\n key_mgmt=NONE\n  mka_cak=000102030405060708090A0B0C0D0E0F # comment\n  mka_ckn=61\n  mka_priority=16\n}\n";
        let read = CakFile::parse(Path::new("cak"), text).unwrap();
        assert_eq!((read.bits(), read.name().as_str()), (128, "61"));
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

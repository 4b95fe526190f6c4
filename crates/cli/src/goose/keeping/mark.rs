//! The mark beside a key: which addresses have published with it. With it, `--first` cannot begin
//! the numbers of a key and an address for a second time, wherever the state is.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use antedate_host::fault::Fault;
use antedate_host::hex::hex;
use antedate_host::numbers::KeyId;
use antedate_host::private_file;
use antedate_wire::EthernetAddress;

/// The longest file. A line has 51 octets.
const MAX_LEN: u64 = 1 << 20;

/// The mark of a key and an address.
pub(in super::super) struct Mark {
    file: PathBuf,
    line: String,
    is_there: bool,
}

impl Mark {
    /// The file beside a key.
    pub(in super::super) fn file(key_file: &Path) -> PathBuf {
        let mut file = key_file.as_os_str().to_owned();
        file.push(".publishers");
        PathBuf::from(file)
    }

    /// Reads the file beside the key.
    pub(super) fn read(key_file: &Path, key: &KeyId, sender: [u8; 6]) -> Result<Self, Fault> {
        let file = Self::file(key_file);
        let line = format!("{} {}", hex(&key.digest()), EthernetAddress(sender));
        let text = match fs::metadata(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Ok(about) if about.len() > MAX_LEN => {
                return Err(Fault::of_file(&file, "is too long", "make a new key with another name"));
            }
            _ => fs::read_to_string(&file)
                .map_err(|error| Fault::of_io(&file, "read the mark", &error, "run as its owner"))?,
        };
        for (at, known) in text.lines().enumerate() {
            if known.len() != line.len() {
                let remedy = "make a new key, since nobody knows who used this one";
                return Err(Fault { line: Some(at + 1), ..Fault::of_file(&file, "is no mark", remedy) });
            }
        }
        let is_there = text.lines().any(|known| known == line);
        Ok(Self { file, line, is_there })
    }

    /// Refuses a second beginning.
    pub(super) fn must_be_new(&self) -> Result<(), Fault> {
        if !self.is_there {
            return Ok(());
        }
        Err(Fault::of_file(
            &self.file,
            "this interface's address published with this key before, and its numbers would repeat",
            "leave --first away and name its state directory; if that is lost, make a new key",
        ))
    }

    /// Writes it, durably, unless it is there.
    pub(super) fn write(&self) -> Result<(), Fault> {
        if self.is_there {
            return Ok(());
        }
        let written = || {
            let mut file = OpenOptions::new().append(true).create(true).open(&self.file)?;
            file.write_all(format!("{}\n", self.line).as_bytes())?;
            file.sync_all()?;
            private_file::sync_directory_of(&self.file)
        };
        written().map_err(|error| {
            let remedy = "let the publisher write beside its key at its first start";
            Fault::of_io(&self.file, "mark the key as used", &error, remedy)
        })
    }
}

//! The directory in one file, and back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use antedate_host::fault::Fault;
use antedate_host::replace::replace;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::files::{make_directory, read};
use super::{FLEET, Home, SIGNING};
use crate::enrol::is_name;
use crate::now;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backup {
    backup_of: String,
    made: u64,
    files: BTreeMap<String, String>,
}

impl Home {
    /// All files of the directory, for a backup. The signing key is left out unless it is wanted.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn pack(&self, with_signing_key: bool) -> Result<String, Fault> {
        let mut files = BTreeMap::new();
        let mut places = vec![self.directory.clone()];
        while let Some(place) = places.pop() {
            let cannot = |error| Fault::of_io(&place, "read for the backup", &error, "run as its owner");
            for entry in fs::read_dir(&place).map_err(cannot)?.flatten() {
                let path = entry.path();
                let name = path.strip_prefix(&self.directory).unwrap_or(&path).to_string_lossy().into_owned();
                if path.is_dir() {
                    places.push(path);
                } else if name != "lock" && (with_signing_key || name != SIGNING) {
                    let content = Zeroizing::new(fs::read(&path).map_err(cannot)?);
                    files.insert(name, STANDARD.encode(&*content));
                }
            }
        }
        let backup = Backup { backup_of: self.fleet.name.clone(), made: now(), files };
        Ok(serde_json::to_string(&backup).unwrap_or_default())
    }

    /// Unpacks a backup into a directory that has no fleet.
    ///
    /// # Errors
    /// When there is one, or the backup is damaged.
    pub fn unpack(file: &Path, directory: &Path) -> Result<Self, Fault> {
        if directory.join(FLEET).exists() {
            let remedy = "move it away first; nothing of it is overwritten";
            return Err(Fault::of_file(directory, "there is a fleet already", remedy));
        }
        let Backup { files, .. } = read(file)?;
        let damaged = |name: &str| {
            Fault::of_file(
                file,
                format!("is damaged, or not of this program: \"{name}\""),
                "give another backup",
            )
        };
        let mut unpacked = Vec::new();
        for (name, content) in &files {
            let is_safe = name.split('/').all(is_name);
            let content = STANDARD.decode(content).ok().filter(|_| is_safe).ok_or_else(|| damaged(name))?;
            unpacked.push((name, Zeroizing::new(content)));
        }
        if !files.contains_key(FLEET) {
            return Err(damaged(FLEET));
        }
        make_directory(directory)?;
        // fleet.json comes last: a part of a backup is no fleet.
        unpacked.sort_by_key(|(name, _)| *name == FLEET);
        for (name, content) in unpacked {
            let place = directory.join(name);
            place.parent().map_or(Ok(()), make_directory)?;
            replace(&place, &content)?;
        }
        Self::open(directory)
    }
}

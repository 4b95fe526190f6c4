//! Files of the directory, for its owner alone.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use antedate_host::fault::Fault;
use antedate_host::replace::replace;
use antedate_host::{private_file, process};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// The most octets of a file of the directory.
const MAX_LEN: usize = 64 << 20;

/// Makes a directory for its owner alone.
///
/// # Errors
/// When it cannot be made.
pub fn make_directory(path: &Path) -> Result<(), Fault> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Fault::of_io(path, "make the directory", &error, "give one that you can write to"))
}

pub(super) fn write<T: Serialize>(file: &Path, value: &T) -> Result<(), Fault> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    replace(file, Zeroizing::new(text).as_bytes()).map(drop)
}

pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Result<T, Fault> {
    let length = fs::metadata(file).map_or(0, |about| usize::try_from(about.len()).unwrap_or(MAX_LEN));
    let mut text = Zeroizing::new(vec![0; length.min(MAX_LEN) + 2]);
    let length = private_file::read(file, process::user(), &mut text)?;
    serde_json::from_slice(text.get(..length).unwrap_or_default()).map_err(|error| {
        Fault::of_file(file, format!("has another form: {error}"), "bring it back: `antedate fleet restore`")
    })
}

pub(super) fn lock(directory: &Path) -> Result<File, Fault> {
    let file = directory.join("lock");
    let cannot =
        |error: &std::io::Error| Fault::of_io(&file, "lock the fleet", error, "run as the directory's owner");
    let open =
        File::options().create(true).truncate(false).write(true).open(&file).map_err(|e| cannot(&e))?;
    match open.try_lock() {
        Ok(()) => Ok(open),
        Err(fs::TryLockError::WouldBlock) => {
            let what = "another `antedate fleet` command is at work in this directory";
            Err(Fault { passing: true, ..Fault::of_file(directory, what, "wait until it has ended") })
        }
        Err(fs::TryLockError::Error(error)) => Err(cannot(&error)),
    }
}

//! The broker's own configuration, read for ways around the plugin: Mosquitto does not tell a plugin
//! for which listeners it is asked.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use antedate_mqtt::bypass;

use crate::OptionError;

/// Refuses a configuration in which messages pass by this plugin.
pub(crate) fn check() -> Result<(), OptionError> {
    let unread = |file: &Path, why: String| {
        OptionError(format!(
            "{}: {why}, so nobody knows whether messages pass by this plugin (remedy: make it readable for the broker's user, and start the broker with an absolute path after -c)",
            file.display()
        ))
    };
    let command = Path::new("/proc/self/cmdline");
    let line = fs::read(command).map_err(|error| unread(command, error.to_string()))?;
    // Without a file there is no plugin either.
    let Some(file) = named(&line) else { return Ok(()) };
    let mut text = String::new();
    read(&file, true, &mut text).map_err(|(file, error)| unread(&file, error.to_string()))?;
    match bypass::find(text.lines()) {
        Some(found) => Err(OptionError(format!("{}: {found}", file.display()))),
        None => Ok(()),
    }
}

/// The configuration file of a command line, whose words end with a zero.
fn named(command: &[u8]) -> Option<PathBuf> {
    let mut words = command.split(|octet| *octet == 0);
    let mut file = None;
    while let Some(word) = words.next() {
        if matches!(word, b"-c" | b"--config-file") {
            file = words.next().map(|name| PathBuf::from(OsStr::from_bytes(name)));
        }
    }
    file
}

/// Appends a file's lines. Mosquitto follows `include_dir` in the first file alone, and reads a
/// directory's `.conf` files by name.
fn read(file: &Path, follow: bool, text: &mut String) -> Result<(), (PathBuf, std::io::Error)> {
    let of = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    for line in String::from_utf8_lossy(&fs::read(file).map_err(of(file))?).lines() {
        text.push_str(line);
        text.push('\n');
        let directory = line.trim_start().strip_prefix("include_dir").filter(|_| follow);
        let Some(directory) = directory.map(|rest| PathBuf::from(rest.trim())) else { continue };
        let entries = fs::read_dir(&directory).map_err(of(&directory))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|path| path.extension().is_some_and(|end| end == "conf"));
        files.sort();
        for included in files {
            read(&included, false, text)?;
        }
    }
    Ok(())
}

//! Output of results: standard output, or a file for programs.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use antedate_host::fault::Fault;

use crate::failure::{Done, Failure};

/// A kind of results, by which a file of earlier ones is known. No other file is overwritten.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// JSON: an object with this key, or a list of such objects. Any JSON for an empty key.
    Json(&'a str),
    /// A text that begins so.
    Text(&'a str),
    /// A text whose first line ends so.
    #[cfg_attr(not(feature = "plan"), allow(dead_code, reason = "only plans write tables"))]
    Table(&'a str),
    /// A capture of the demonstration.
    Capture,
}

/// A figure.
pub(crate) const SVG: Kind<'_> = Kind::Text("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ");

impl Kind<'_> {
    fn knows(self, octets: &[u8]) -> bool {
        match self {
            Self::Json(key) => serde_json::from_slice(octets)
                .is_ok_and(|value| objects(&value).all(|keys| key.is_empty() || keys.contains_key(key))),
            Self::Text(begin) => octets.starts_with(begin.as_bytes()),
            Self::Table(end) => octets
                .split(|octet| *octet == b'\n')
                .next()
                .is_some_and(|line| line.ends_with(end.as_bytes())),
            Self::Capture => antedate_lab::tap::pcap::is_ours(octets),
        }
    }
}

type Keys = serde_json::Map<String, serde_json::Value>;

/// An object, or those of a list. Other values have an object without keys.
fn objects(value: &serde_json::Value) -> impl Iterator<Item = Keys> {
    let all: Vec<Keys> = match value {
        serde_json::Value::Array(all) => {
            all.iter().map(|one| one.as_object().cloned().unwrap_or_default()).collect()
        }
        one => vec![one.as_object().cloned().unwrap_or_default()],
    };
    all.into_iter()
}

/// Refuses an existing file with something else than earlier results. An empty one may be replaced.
fn keep_others(option: &str, kind: Kind<'_>, file: &Path) -> Done {
    if !fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() > 0) {
        return Ok(());
    }
    // One that cannot be read cannot be told.
    if fs::read(file).is_ok_and(|octets| kind.knows(&octets)) {
        return Ok(());
    }
    let remedy =
        format!("give {option} a file that is not there, or remove this one; write it behind other files");
    Err(Fault::of_file(file, "is there, and no result of this command", remedy).into())
}

/// Writes a result to a file that is not there or has an earlier one.
pub(crate) fn replace(option: &str, kind: Kind<'_>, file: &Path, text: &str) -> Done {
    keep_others(option, kind, file)?;
    Ok(fs::write(file, text).map_err(|error| {
        let remedy = format!("give {option} a file that you can write to");
        Fault::of_file(file, format!("cannot be written: {error}"), remedy)
    })?)
}

/// Like [`replace`], but a full disk leaves the earlier file as it was: the text is written beside it
/// first.
#[cfg(feature = "lab")]
pub(crate) fn replace_whole(option: &str, kind: Kind<'_>, file: &Path, text: &str) -> Done {
    keep_others(option, kind, file)?;
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, file));
    Ok(written.map_err(|error| {
        // What remains of it takes space.
        let _ = fs::remove_file(&part);
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull => "free some space and give the same command again".to_owned(),
            _ => format!("give {option} a folder that you can write to"),
        };
        Fault::of_file(file, format!("cannot be written: {error}"), remedy)
    })?)
}

/// Writes a result as JSON, to standard output for `-`.
pub(crate) fn json(file: &Path, value: &impl serde::Serialize) -> Done {
    let cannot = |error: serde_json::Error| {
        let remedy = "give --json a file that you can write to, or - for standard output";
        Fault::of_file(file, format!("cannot be written: {error}"), remedy)
    };
    let mut text = serde_json::to_string_pretty(value).map_err(cannot)?;
    text.push('\n');
    if file == Path::new("-") {
        return print(&text);
    }
    // The first name of a document is its mark.
    let first = text.split('"').nth(1).filter(|_| text.starts_with(['{', '['])).unwrap_or_default();
    replace("--json", Kind::Json(first), file, &text)
}

/// Checks before long work that the file of an option can be written and has no other content, and
/// leaves it unchanged.
pub(crate) fn writable(option: &str, kind: Kind<'_>, file: &Path) -> Done {
    keep_others(option, kind, file)?;
    antedate_lab::demo::writable(file).map_err(|error| {
        let what = format!("{option} {}: {error}", file.display());
        Failure::usage(what, format!("give {option} a file that you can write to"))
    })
}

/// Writes a line to standard error. A failure is ignored.
pub(crate) fn tell(text: impl Display) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Prints to standard output. A closed reader is no error.
pub(crate) fn print(text: &str) -> Done {
    print_while_read(text).map(drop)
}

/// Like `print`; false if the reader has closed.
pub(crate) fn print_while_read(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) => unwritten(&error).map(|()| false),
    }
}

/// Maps an error of standard output. A closed reader is no error.
pub(crate) fn unwritten(error: &io::Error) -> Done {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(());
    }
    let what = format!("cannot be written: {error}");
    Err(Fault::of_file("standard output".as_ref(), what, "give it somewhere to go").into())
}

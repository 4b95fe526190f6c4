//! Output of results: standard output, or a file for programs.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use antedate_host::fault::Fault;

use crate::failure::{Done, Failure};

/// Writes a result as JSON, to standard output for `-`.
pub(crate) fn json(file: &Path, value: &impl serde::Serialize) -> Done {
    let cannot = |what: String| {
        Fault::of_file(file, what, "give --json a file that you can write to, or - for standard output")
    };
    let mut text =
        serde_json::to_string_pretty(value).map_err(|error| cannot(format!("cannot be written: {error}")))?;
    text.push('\n');
    if file == Path::new("-") {
        print(&text)
    } else {
        Ok(fs::write(file, text).map_err(|error| cannot(format!("cannot be written: {error}")))?)
    }
}

/// Checks before long work that the file of an option can be written, and leaves it unchanged.
pub(crate) fn writable(option: &str, file: &Path) -> Done {
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

//! Files with secrets: read only if other users cannot, and created with mode 0600.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::agent;
use crate::fault::Fault;

/// The largest key file in octets.
pub const MAX_KEY_FILE_LEN: usize = 1 << 16;

/// Reads a regular file that only `user` or root can read and write, or that an [`agent`] shares.
/// Its mode is checked before its content. Returns the number of octets in `text`, which has one
/// more than the longest legal file.
///
/// # Errors
/// When it cannot be read, others have rights on it, or it fills `text`.
pub fn read(file: &Path, user: u32, text: &mut [u8]) -> Result<usize, Fault> {
    let cannot = |error: io::Error| {
        Fault::of_io(file, "read the key file", &error, "`antedate keygen` makes one; run this as its owner")
    };
    // Opening a FIFO must not wait for a writer.
    let mut open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file).map_err(cannot)?;
    // The metadata of the open file: the name may point elsewhere by now.
    let about = open.metadata().map_err(cannot)?;
    if !about.is_file() {
        return Err(Fault::of_file(file, "is not a regular file", "give the path of a key file"));
    }
    let shown = file.display();
    let is_shared = agent::shares(&about);
    if about.mode() & 0o077 != 0 && !is_shared {
        return Err(Fault::of_file(
            file,
            format!(
                "others than its owner have rights on this key file (mode {:04o})",
                about.mode() & 0o7777
            ),
            format!("chmod 600 {shown}; if others may have read it, make new keys"),
        ));
    }
    if about.uid() != user && about.uid() != 0 && !is_shared {
        return Err(Fault::of_file(
            file,
            format!("this key file belongs to user {}, and this runs as user {user}", about.uid()),
            format!("chown {user} {shown}, or run this as its owner"),
        ));
    }
    read_up_to(&mut open, text).map_err(cannot).and_then(|length| {
        if length >= text.len() {
            let what =
                format!("longer than {} KiB, so it is no key file", text.len().saturating_sub(1) >> 10);
            return Err(Fault::of_file(file, what, "give the path of a key file"));
        }
        Ok(without_mark(text, length))
    })
}

/// Removes the byte order mark that some editors put in front of a text. Returns the new length.
fn without_mark(text: &mut [u8], length: usize) -> usize {
    const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
    match text.get(..length) {
        Some(read) if read.starts_with(&MARK) => {
            text.copy_within(MARK.len()..length, 0);
            length - MARK.len()
        }
        _ => length,
    }
}

fn read_up_to(open: &mut File, text: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = text.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match open.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Writes a new file that only its owner can read. An existing one is not changed, and a failed
/// write leaves none.
///
/// # Errors
/// When the file exists or cannot be written.
pub fn create(file: &Path, text: &str) -> Result<(), Fault> {
    let cannot = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Fault::of_file(
            file,
            "exists already, and keys are not overwritten",
            "give another name, or move the old file away",
        ),
        _ => Fault::of_io(
            file,
            "write the key file",
            &error,
            "give a file in a directory that exists and that you can write to",
        ),
    };
    let mut open = open_new(file).map_err(cannot)?;
    let written = open.write_all(text.as_bytes()).and_then(|()| open.sync_all());
    written.and_then(|()| sync_directory_of(file)).map_err(|error| {
        // A partial file would block the next attempt.
        let _ = fs::remove_file(file);
        cannot(error)
    })
}

/// Opens a new file that only its owner can read.
///
/// # Errors
/// When the name exists, or the file cannot be created.
pub fn open_new(file: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

/// Opens a log of keys, which is made if it is not there, to append to it. The caller
/// warns that keys are written down.
///
/// # Errors
/// When others than `user` have rights on the file, or it cannot be written.
pub fn open_key_log(file: &Path, user: u32) -> Result<File, Fault> {
    let open = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
    let cannot = |error: io::Error| {
        Fault::of_io(file, "write the key log", &error, "give --keylog a file that you can write to")
    };
    let open = open.map_err(cannot)?;
    // An existing file may belong to another user.
    let about = open.metadata().map_err(cannot)?;
    if about.mode() & 0o077 != 0 || about.uid() != user {
        let what = "others than this user have rights on this file, and keys would be written into it";
        return Err(Fault::of_file(file, what, "give --keylog a file that is not there yet"));
    }
    Ok(open)
}

/// Synchronizes the directory of a file.
///
/// # Errors
/// When the directory cannot be opened or synchronized.
pub fn sync_directory_of(file: &Path) -> io::Result<()> {
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| ".".as_ref()))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn key_log_refuses_shared_files() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keys.log");
        let user = fs::metadata(directory.path()).unwrap().uid();
        drop(open_key_log(&file, user).map_err(|fault| fault.to_string()).unwrap());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(open_key_log(&file, user).is_ok(), "it goes on where it stopped");
        assert!(open_key_log(&file, user + 1).is_err(), "another user's");
        for mode in [0o604, 0o640, 0o620] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let refused = open_key_log(&file, user).err().map(|fault| fault.to_string()).unwrap_or_default();
            assert!(refused.contains("others") && refused.contains("--keylog"), "{mode:o}: {refused}");
        }
    }

    #[test]
    fn byte_order_mark_is_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let mut text = [0; 16];
        for (number, (content, read)) in
            [("\u{feff}mka", "mka"), ("mka", "mka"), ("\u{feff}", ""), ("m\u{feff}", "m\u{feff}")]
                .iter()
                .enumerate()
        {
            let file = directory.path().join(number.to_string());
            create(&file, content).unwrap();
            let length = super::read(&file, crate::process::user(), &mut text).unwrap();
            assert_eq!(&text[..length], read.as_bytes());
        }
    }
}

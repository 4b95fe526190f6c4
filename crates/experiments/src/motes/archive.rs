//! The programs of the motes as an installed `antedate` has them: a tar archive under gzip, which
//! `cargo xtask firmware` makes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;

/// The archive's place below the prefix whose `bin` has the program.
pub(super) const PLACE: &str = "share/antedate/motes.tar.gz";

/// Octets of a block of a tar archive.
const BLOCK: usize = 512;
/// The most octets of an unpacked archive: a damaged one does not fill the disk.
const MOST: u64 = 64 << 20;

/// Unpacks an archive below a folder.
pub(super) fn unpack(archive: &Path, folder: &Path) -> io::Result<()> {
    unpack_from(GzDecoder::new(File::open(archive)?).take(MOST), folder)
}

fn unpack_from(mut from: impl Read, folder: &Path) -> io::Result<()> {
    let mut header = [0; BLOCK];
    loop {
        from.read_exact(&mut header)?;
        if header.iter().all(|octet| *octet == 0) {
            return Ok(());
        }
        let (name, size, kind) = entry(&header).ok_or_else(|| damaged("a header"))?;
        // Folders follow from the names of files.
        if kind == b'5' {
            continue;
        }
        let safe = name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !safe || !matches!(kind, b'0' | 0) {
            return Err(damaged("an entry that is not a file below the archive"));
        }
        let mut content =
            vec![
                0;
                usize::try_from(size).ok().filter(|size| *size < 1 << 24).ok_or_else(|| damaged("a size"))?
            ];
        from.read_exact(&mut content)?;
        let padding = content.len().next_multiple_of(BLOCK) - content.len();
        from.read_exact(&mut header[..padding])?;
        let to = folder.join(&name);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(to, content)?;
    }
}

/// The name, size and kind of an entry (POSIX.1-1988 ustar).
fn entry(header: &[u8; BLOCK]) -> Option<(PathBuf, u64, u8)> {
    let text = |field: &[u8]| {
        let end = field.iter().position(|octet| *octet == 0).unwrap_or(field.len());
        String::from_utf8(field[..end].to_vec()).ok()
    };
    let octal = |field: &[u8]| u64::from_str_radix(text(field)?.trim(), 8).ok();
    // The sum is that of the header with spaces in its place.
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(at, of)| if (148..156).contains(&at) { 32 } else { u64::from(*of) })
        .sum();
    if octal(&header[148..156])? != sum {
        return None;
    }
    let (prefix, name) = (text(&header[345..500])?, text(&header[..100])?);
    let name = if prefix.is_empty() { PathBuf::from(name) } else { Path::new(&prefix).join(name) };
    Some((name, octal(&header[124..136])?, header[156]))
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the archive is damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archived(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut header = [0; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = kind;
        let sum: u64 = header.iter().map(|octet| u64::from(*octet)).sum();
        header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
        let mut all = header.to_vec();
        all.extend(content);
        all.resize(all.len().next_multiple_of(BLOCK), 0);
        all
    }

    fn unpacked(archive: &[u8]) -> io::Result<tempfile::TempDir> {
        let folder = tempfile::tempdir()?;
        unpack_from(archive, folder.path()).map(|()| folder)
    }

    #[test]
    fn files_of_an_archive_are_unpacked() {
        let end = vec![0; 2 * BLOCK];
        let archive = [
            archived("./arm", b'5', &[]),
            archived("./arm/small/ccm", b'0', &[7; 700]),
            archived("node", b'0', b"x"),
            end,
        ]
        .concat();
        let folder = unpacked(&archive).expect("an archive");
        assert_eq!(fs::read(folder.path().join("arm/small/ccm")).expect("a file"), [7; 700]);
        assert_eq!(fs::read(folder.path().join("node")).expect("a file"), b"x");
        // Cut off anywhere before its end.
        for len in [0, 100, 600, 1_300, archive.len() - 2 * BLOCK] {
            assert!(unpacked(&archive[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn archive_does_not_leave_its_folder() {
        for (name, kind) in [("../out", b'0'), ("/tmp/out", b'0'), ("link", b'2'), ("a/../../out", b'0')] {
            assert!(unpacked(&archived(name, kind, b"x")).is_err(), "{name}");
        }
        let mut changed = archived("ccm", b'0', b"x");
        changed[0] ^= 1;
        assert!(unpacked(&changed).is_err(), "the sum");
    }
}

//! The archive of an initial RAM disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A cpio archive in the kernel's format (`newc`).
#[derive(Default)]
pub(super) struct Cpio {
    bytes: Vec<u8>,
    inode: u32,
}

impl Cpio {
    pub(super) fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.inode += 1;
        let length = data.len();
        // inode, mode, uid, gid, links, mtime, size, dev (2), rdev (2), name's length with its end, checksum
        let fields = [self.inode, mode, 0, 0, 1, 0, length as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }

    pub(super) fn file(&mut self, name: &str, path: &Path) -> Result<(), String> {
        let data = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mode = fs::metadata(path).map_err(|e| e.to_string())?.permissions().mode();
        self.entry(name, 0o100000 | (mode & 0o777), &data);
        Ok(())
    }

    fn pad(&mut self) {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

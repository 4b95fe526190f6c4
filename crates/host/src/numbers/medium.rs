//! A storage medium for tests, with power cuts.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::home::Home;
use super::record::Records;
use super::{Disk, Origin, Stored};

/// The identity of a file with this inode.
fn origin(inode: u64) -> Origin {
    Origin { inode: Some(inode), ..Origin::default() }
}

/// A medium that loses unsynchronized content when the power is cut, at any step or within it.
#[derive(Debug, Clone, Default)]
pub struct Medium(Rc<RefCell<Content>>);

#[derive(Debug, Default)]
struct Content {
    /// The content that a reader sees.
    current: Option<Stored>,
    /// The content that surely survives.
    durable: Option<Stored>,
    new: Vec<u8>,
    /// Inodes of all files so far.
    inodes: u64,
    /// The number of the last write, which is noted in memory.
    witnessed: u64,
    new_synced: bool,
    /// The step of the power cut, counted from now, and the part of it that reaches the medium.
    cut: Option<(u32, Keep)>,
    off: bool,
    /// Synchronization of the directory has no effect.
    forgetful: bool,
}

/// The part of an unfinished write that reaches the medium.
#[derive(Debug, Clone, Copy)]
pub enum Keep {
    /// Only synchronized content.
    Nothing,
    /// The new name; of unsynchronized content only a part.
    Name,
}

impl Medium {
    /// Counts a step. An error at the power cut.
    fn step(&self) -> io::Result<()> {
        let mut content = self.0.borrow_mut();
        if content.off {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        match content.cut {
            Some((0, _)) => {
                content.off = true;
                Err(io::ErrorKind::BrokenPipe.into())
            }
            Some((steps, keep)) => {
                content.cut = Some((steps - 1, keep));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Cuts the power at a later step, counted from now.
    pub fn cut_at(&self, step: u32, keep: Keep) {
        self.0.borrow_mut().cut = Some((step, keep));
    }

    /// Restores the power.
    pub fn restart(&self) {
        let mut content = self.0.borrow_mut();
        let keep = content.cut.take().map_or(Keep::Nothing, |(_, keep)| keep);
        if let Keep::Name = keep {
            content.durable = content.current.clone();
        }
        content.current = content.durable.clone();
        content.new_synced = false;
        content.off = false;
        content.witnessed = 0;
    }
}

impl Disk for Medium {
    fn read(&self) -> io::Result<Option<Stored>> {
        Ok(self.0.borrow().current.clone())
    }

    fn witnessed(&mut self, _: &[u8; 16]) -> u64 {
        self.0.borrow().witnessed
    }

    fn witness(&mut self, _: &[u8; 16], writes: u64) {
        self.0.borrow_mut().witnessed = writes;
    }

    fn create_new(&mut self) -> io::Result<Origin> {
        let mut content = self.0.borrow_mut();
        content.inodes += 1;
        Ok(origin(content.inodes))
    }

    fn write_new(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        let mut content = self.0.borrow_mut();
        content.new = bytes.to_vec();
        content.new_synced = false;
        Ok(())
    }

    fn sync_new(&mut self) -> io::Result<()> {
        self.step()?;
        self.0.borrow_mut().new_synced = true;
        Ok(())
    }

    fn replace(&mut self) -> io::Result<()> {
        // The rename may have reached the medium even if cut here.
        let cut = self.step();
        let mut content = self.0.borrow_mut();
        if cut.is_ok() || matches!(content.cut, Some((0, Keep::Name))) && content.off {
            let whole = content.new.len();
            let kept = if content.new_synced { whole } else { whole / 2 };
            let origin = origin(content.inodes);
            content.current = content.new.get(..kept).map(|kept| Stored { bytes: kept.to_vec(), origin });
        }
        cut
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.step()?;
        let mut content = self.0.borrow_mut();
        if !content.forgetful {
            content.durable = content.current.clone();
        }
        Ok(())
    }
}

impl Medium {
    /// A medium with a state file without keys.
    #[must_use]
    pub fn with_empty_file() -> Self {
        let medium = Self::default();
        let mut content = medium.0.borrow_mut();
        let home = Some(Home { state: [0; 16], writes: 1, origin: origin(0) });
        let bytes = Records { home, ..Records::default() }.to_bytes();
        content.current = Some(Stored { bytes, origin: origin(0) });
        content.durable = content.current.clone();
        drop(content);
        medium
    }

    /// The file that a reader sees.
    #[must_use]
    pub fn file(&self) -> Option<Stored> {
        self.0.borrow().current.clone()
    }

    /// Someone else moves this file into the place of the other, durably; `None` removes it.
    pub fn put(&self, file: Option<Stored>) {
        let mut inner = self.0.borrow_mut();
        inner.durable.clone_from(&file);
        inner.current = file;
    }

    /// Someone else writes this content into the file, durably.
    pub fn overwrite(&self, bytes: Vec<u8>) {
        let origin = self.file().unwrap_or_else(|| Stored { bytes: Vec::new(), origin: origin(0) }).origin;
        self.put(Some(Stored { bytes, origin }));
    }

    /// The same medium, but one that only says that a new name is durable.
    #[must_use]
    pub fn forgetful(self) -> Self {
        self.0.borrow_mut().forgetful = true;
        self
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.0.borrow().off
    }

    /// Models a killed process on a running machine: all writes survive.
    pub fn keep_all(&self) {
        let mut content = self.0.borrow_mut();
        content.durable = content.current.clone();
    }
}

//! A medium for tests, whose power can be cut.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::Disk;
use super::record::Records;

/// A medium that forgets what was not synchronized, and whose power can be cut at any step or within it.
#[derive(Debug, Clone, Default)]
pub struct Medium(Rc<RefCell<Content>>);

#[derive(Debug, Default)]
struct Content {
    /// What a reader sees now.
    current: Option<Vec<u8>>,
    /// What survives for certain.
    durable: Option<Vec<u8>>,
    new: Vec<u8>,
    new_synced: bool,
    /// The step, counted from now, at which the power goes; `keep`: what of it reaches the medium.
    cut: Option<(u32, Keep)>,
    off: bool,
}

/// The part of an unfinished write that reaches the medium.
#[derive(Debug, Clone, Copy)]
pub enum Keep {
    /// Nothing that was not synchronized.
    Nothing,
    /// The new name; if the new content was not synchronized, only a part of that.
    Name,
}

impl Medium {
    /// Whether this step is the one that is not finished.
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

    /// Cuts the power at a step of the next write, counted from now.
    pub fn cut_at(&self, step: u32, keep: Keep) {
        self.0.borrow_mut().cut = Some((step, keep));
    }

    /// The power comes back.
    pub fn restart(&self) {
        let mut content = self.0.borrow_mut();
        let keep = content.cut.take().map_or(Keep::Nothing, |(_, keep)| keep);
        if let Keep::Name = keep {
            content.durable = content.current.clone();
        }
        content.current = content.durable.clone();
        content.new_synced = false;
        content.off = false;
    }
}

impl Disk for Medium {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.borrow().current.clone())
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
        // Cut here, the new name may still have reached the medium.
        let cut = self.step();
        let mut content = self.0.borrow_mut();
        if cut.is_ok() || matches!(content.cut, Some((0, Keep::Name))) && content.off {
            let whole = content.new.len();
            let kept = if content.new_synced { whole } else { whole / 2 };
            content.current = content.new.get(..kept).map(<[u8]>::to_vec);
        }
        cut
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.step()?;
        let mut content = self.0.borrow_mut();
        content.durable = content.current.clone();
        Ok(())
    }
}

impl Medium {
    /// A medium with a number file that knows no key.
    #[must_use]
    pub fn with_empty_file() -> Self {
        let medium = Self::default();
        let mut content = medium.0.borrow_mut();
        content.current = Some(Records::default().to_bytes());
        content.durable = content.current.clone();
        drop(content);
        medium
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.0.borrow().off
    }

    /// The process was killed and the machine lives on: every write is there, synchronized or not.
    pub fn keep_all(&self) {
        let mut content = self.0.borrow_mut();
        content.durable = content.current.clone();
    }
}

//! The reserved numbers of one key: which are spent, which are durable, when to reserve more.

use super::{Disk, KeyId, NumberFile, NumbersError};

/// The numbers of a key that may be used: those from [`next`](Self::next) on and below [`limit`](Self::limit).
///
/// The limit is on the medium before a number below it is used, so a number is never given out twice: not after an
/// error, a crash or a power cut.
#[derive(Debug, Clone, Copy)]
pub struct Reservation {
    key: KeyId,
    next: u64,
    limit: u64,
    end: u64,
}

impl Reservation {
    /// The numbers of a key from the first one that was never used, none of them reserved yet. `end` is the first number
    /// that the key's cipher does not have.
    ///
    /// # Errors
    /// When the key was used with another salt.
    pub fn open<D: Disk>(file: &NumberFile<D>, key: KeyId, end: u64) -> Result<Self, NumbersError> {
        let next = file.next(&key)?.min(end);
        Ok(Self { key, next, limit: next, end })
    }

    /// Numbers of a key that protects nothing: the file does not know them.
    #[must_use]
    pub const fn fleeting(key: KeyId) -> Self {
        Self { key, next: 1, limit: u64::MAX, end: u64::MAX }
    }

    /// Reserves `count` numbers of each key from its next one on, in one write.
    ///
    /// # Errors
    /// When it did not become durable. The old limits hold then.
    pub fn extend_all<'a, D: Disk>(
        these: impl IntoIterator<Item = &'a mut Self>,
        file: &mut NumberFile<D>,
        count: u64,
    ) -> Result<(), NumbersError> {
        let mut these: Vec<&mut Self> = these.into_iter().collect();
        for this in &mut these {
            // A number beyond the own limit is another reservation's.
            let known = file.next(&this.key)?.min(this.end);
            if known > this.limit {
                (this.next, this.limit) = (known, known);
            }
        }
        let raised = |this: &Self| this.limit.max(this.next.saturating_add(count).min(this.end));
        let limits: Vec<(KeyId, u64)> = these.iter().map(|this| (this.key, raised(this))).collect();
        file.reserve(&limits)?;
        these.into_iter().for_each(|this| this.limit = raised(this));
        Ok(())
    }

    /// Reserves the next `count` numbers.
    ///
    /// # Errors
    /// When it did not become durable. The old limit holds then.
    pub fn extend<D: Disk>(&mut self, file: &mut NumberFile<D>, count: u64) -> Result<(), NumbersError> {
        Self::extend_all([self], file, count)
    }

    /// Reserves `count` numbers from the next one on if at most half as many are left. Returns the new limit, `None` when there was no need.
    ///
    /// # Errors
    /// When it did not become durable. The old limit holds then; call again.
    pub fn refill<D: Disk>(
        &mut self,
        file: &mut NumberFile<D>,
        count: u64,
    ) -> Result<Option<u64>, NumbersError> {
        if self.limit >= self.end || self.left() > count / 2 {
            return Ok(None);
        }
        self.extend(file, count)?;
        Ok(Some(self.limit))
    }

    /// The next number, which is spent now. `None` when no reserved number is left.
    pub fn take(&mut self) -> Option<u64> {
        let number = self.next;
        (number < self.limit).then(|| {
            self.next += 1;
            number
        })
    }

    /// Takes note that the numbers below `next` are spent, where another thread counts.
    pub fn spend_below(&mut self, next: u64) {
        self.next = self.next.max(next).min(self.limit);
    }

    /// The key.
    #[must_use]
    pub const fn key(&self) -> KeyId {
        self.key
    }

    /// The next number.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The first number that may not be used yet.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The first number that the key's cipher does not have.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Reserved numbers that are left.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.next)
    }

    /// Whether no number is left, now or later.
    #[must_use]
    pub const fn is_exhausted(&self) -> bool {
        self.next >= self.end
    }
}

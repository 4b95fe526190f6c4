//! The reserved numbers of one key.

use super::{Disk, KeyId, NumberFile, NumbersError};

/// The usable numbers of a key: from [`next`](Self::next) to below [`limit`](Self::limit).
///
/// The limit is durable before a number below it is used. So no number is used twice, even after an
/// error, a crash or a power cut.
#[derive(Debug, Clone, Copy)]
pub struct Reservation {
    key: KeyId,
    next: u64,
    limit: u64,
    end: u64,
}

impl Reservation {
    /// Opens a key at the first number that was never used, with nothing reserved. `end` is the
    /// first number beyond the cipher's range.
    ///
    /// # Errors
    /// When the key was used with another salt.
    pub fn open<D: Disk>(file: &NumberFile<D>, key: KeyId, end: u64) -> Result<Self, NumbersError> {
        let next = file.next(&key)?.min(end);
        Ok(Self { key, next, limit: next, end })
    }

    /// Numbers of a key that protects nothing. They are not recorded.
    #[must_use]
    pub const fn fleeting(key: KeyId) -> Self {
        Self { key, next: 1, limit: u64::MAX, end: u64::MAX }
    }

    /// Reserves `count` numbers of each key, in one write.
    ///
    /// # Errors
    /// When the write did not become durable. The old limits remain in force.
    pub fn extend_all<'a, D: Disk>(
        these: impl IntoIterator<Item = &'a mut Self>,
        file: &mut NumberFile<D>,
        count: u64,
    ) -> Result<(), NumbersError> {
        let mut these: Vec<&mut Self> = these.into_iter().collect();
        for this in &mut these {
            // A number above the own limit belongs to another reservation.
            let known = file.next(&this.key)?.min(this.end);
            if known > this.limit {
                (this.next, this.limit) = (known, known);
            }
        }
        let raised = |this: &Self| this.limit.max(this.next.saturating_add(count).min(this.end));
        // A fleeting reservation never reaches the file.
        these.retain(|this| raised(this) > this.limit);
        let limits: Vec<(KeyId, u64)> = these.iter().map(|this| (this.key, raised(this))).collect();
        if !limits.is_empty() {
            file.reserve(&limits)?;
        }
        these.into_iter().for_each(|this| this.limit = raised(this));
        Ok(())
    }

    /// Reserves the next `count` numbers.
    ///
    /// # Errors
    /// When the write did not become durable. The old limit remains in force.
    pub fn extend<D: Disk>(&mut self, file: &mut NumberFile<D>, count: u64) -> Result<(), NumbersError> {
        Self::extend_all([self], file, count)
    }

    /// Reserves `count` numbers if at most half as many are left. Returns the new limit, or `None`
    /// when there was no need.
    ///
    /// # Errors
    /// When the write did not become durable: the old limit remains in force; call again. When the
    /// machine went on from a snapshot: no number may be used.
    pub fn refill<D: Disk>(
        &mut self,
        file: &mut NumberFile<D>,
        count: u64,
    ) -> Result<Option<u64>, NumbersError> {
        if let Err(error) = file.check_machine() {
            self.next = self.limit;
            return Err(error);
        }
        if self.limit >= self.end || self.left() > count / 2 {
            return Ok(None);
        }
        self.extend(file, count)?;
        Ok(Some(self.limit))
    }

    /// Spends the next number. `None` when no reserved number is left.
    pub fn take(&mut self) -> Option<u64> {
        let number = self.next;
        (number < self.limit).then(|| {
            self.next += 1;
            number
        })
    }

    /// Marks the numbers below `next` as spent, for a counter in another thread.
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

    /// The first number that is not reserved.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The first number beyond the cipher's range.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Number of unspent reserved numbers.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.limit.saturating_sub(self.next)
    }

    /// Whether the cipher's range is used up.
    #[must_use]
    pub const fn is_exhausted(&self) -> bool {
        self.next >= self.end
    }
}

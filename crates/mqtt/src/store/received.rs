//! Lowest acceptable numbers of publishers on topics, in an embedded database (redb).
//!
//! A batch of numbers is written first, and counts once the state file beside the database says so:
//! that is the moment at which a payload was passed on. At opening, a batch that does not count is
//! undone, and a database that is older or newer than the state file is refused.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use antedate_host::fault::Fault;
use redb::backends::FileBackend;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

/// The file in the state directory.
pub(super) const NAME: &str = "received.redb";
/// Memory for pages of the database.
const CACHE: usize = 16 << 20;
/// The batch of a new database. The state file's bound of an unknown key is 1.
pub(super) const FIRST_BATCH: u64 = 2;

/// The digest of an epoch's key, and that of publisher and topic.
pub(super) type Pair = [u8; 32];
/// The same of earlier versions, with eight octets for publisher and topic.
pub(super) type Former = [u8; 24];

const LOWEST: TableDefinition<'_, Pair, u64> = TableDefinition::new("lowest");
const FORMER: TableDefinition<'_, Former, u64> = TableDefinition::new("lowest of earlier versions");
/// The numbers before the last batch. 0: none.
const UNDO: TableDefinition<'_, Pair, u64> = TableDefinition::new("before the last batch");
const BATCH: TableDefinition<'_, (), u64> = TableDefinition::new("last batch");

/// The database.
pub(super) struct Received {
    path: PathBuf,
    database: Database,
    has_former: bool,
}

impl std::fmt::Debug for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Received({})", self.path.display())
    }
}

/// Runs steps on a database, whose errors have many types.
macro_rules! steps {
    ($path:expr, $body:block) => {
        (|| -> Result<_, redb::Error> { $body })().map_err(|error| fault($path, &error))
    };
}

impl Received {
    /// Makes the database of a state directory, with the numbers of an earlier version. One that is
    /// there was never counted, and is replaced.
    pub(super) fn create(directory: &Path, former: &[(Former, u64)]) -> Result<Self, Fault> {
        let path = directory.join(NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unopened(&path, &error)),
            _ => {}
        }
        let file = options().create_new(true).open(&path).map_err(|error| unopened(&path, &error))?;
        let mut made = Self::of(path, file)?;
        steps!(&made.path, {
            let transaction = durable(&made.database)?;
            transaction.open_table(LOWEST)?;
            transaction.open_table(UNDO)?;
            let mut table = transaction.open_table(FORMER)?;
            for (pair, lowest) in former {
                table.insert(pair, lowest)?;
            }
            drop(table);
            transaction.open_table(BATCH)?.insert((), FIRST_BATCH)?;
            Ok(transaction.commit()?)
        })?;
        made.has_former = !former.is_empty();
        Ok(made)
    }

    /// Opens the database of a state directory, whose state file counts all batches up to `counted`.
    pub(super) fn open(directory: &Path, counted: u64) -> Result<Self, Fault> {
        let path = directory.join(NAME);
        let file = options().open(&path).map_err(|error| unopened(&path, &error))?;
        let mut found = Self::of(path, file)?;
        let checked = catch_unwind(AssertUnwindSafe(|| {
            found.database.check_integrity().map_err(|error| fault(&found.path, &error.into()))
        }));
        checked.map_err(|_| damaged(&found.path))??;
        let (batch, former) = steps!(&found.path, {
            let transaction = found.database.begin_read()?;
            let batch = transaction.open_table(BATCH)?.get(())?.map_or(0, |batch| batch.value());
            Ok((batch, transaction.open_table(FORMER)?.is_empty()?))
        })?;
        found.has_former = !former;
        match batch.checked_sub(counted) {
            Some(0) => Ok(found),
            Some(1) => found.undo(counted).map(|()| found),
            before => {
                let what = if before.is_none() { "is older than" } else { "is not of" };
                Err(Fault::of_file(
                    &found.path,
                    format!("{what} the state file beside it, so nobody knows which messages were received"),
                    remedy(&found.path),
                ))
            }
        }
    }

    fn of(path: PathBuf, file: File) -> Result<Self, Fault> {
        let open = || redb::Builder::new().set_cache_size(CACHE).create_with_backend(FileBackend::new(file)?);
        // The library trusts a file that was closed, and panics at one that was damaged since.
        match catch_unwind(AssertUnwindSafe(open)) {
            Ok(Ok(database)) => Ok(Self { path, database, has_former: false }),
            Ok(Err(error)) => Err(fault(&path, &error.into())),
            Err(_) => Err(damaged(&path)),
        }
    }

    /// The lowest acceptable number of a pair, and of what earlier versions called it.
    pub(super) fn lowest(&self, pair: &Pair, former: [Former; 2]) -> Result<u64, Fault> {
        steps!(&self.path, {
            let transaction = self.database.begin_read()?;
            let mut lowest = transaction.open_table(LOWEST)?.get(pair)?.map_or(1, |lowest| lowest.value());
            if self.has_former {
                let table = transaction.open_table(FORMER)?;
                for one in former {
                    lowest = table.get(one)?.map_or(lowest, |before| before.value().max(lowest));
                }
            }
            Ok(lowest)
        })
    }

    /// Writes a batch durably. It is the one after the last that counts: with the same number as the
    /// one before, that one did not come to count.
    pub(super) fn write(&self, batch: u64, bounds: &[(Pair, u64)]) -> Result<(), Fault> {
        steps!(&self.path, {
            let transaction = durable(&self.database)?;
            let before = transaction.open_table(BATCH)?.insert((), batch)?.map(|before| before.value());
            let mut undo = transaction.open_table(UNDO)?;
            if before != Some(batch) {
                undo.retain(|_, _| false)?;
            }
            let mut table = transaction.open_table(LOWEST)?;
            for (pair, lowest) in bounds {
                let known = table.get(pair)?.map_or(0, |known| known.value());
                if undo.get(pair)?.is_none() {
                    undo.insert(pair, known)?;
                }
                table.insert(pair, known.max(*lowest))?;
            }
            drop((table, undo));
            Ok(transaction.commit()?)
        })
    }

    /// Undoes the batch after `counted`.
    fn undo(&self, counted: u64) -> Result<(), Fault> {
        steps!(&self.path, {
            let transaction = durable(&self.database)?;
            let (mut table, mut undo) = (transaction.open_table(LOWEST)?, transaction.open_table(UNDO)?);
            for entry in undo.iter()? {
                let (pair, before) = entry?;
                match before.value() {
                    0 => drop(table.remove(pair.value())?),
                    before => drop(table.insert(pair.value(), before)?),
                }
            }
            undo.retain(|_, _| false)?;
            drop((table, undo));
            transaction.open_table(BATCH)?.insert((), counted)?;
            Ok(transaction.commit()?)
        })
    }

    /// Removes the numbers under these keys durably.
    pub(super) fn forget(&self, keys: &[[u8; 16]]) -> Result<(), Fault> {
        steps!(&self.path, {
            let transaction = durable(&self.database)?;
            for key in keys {
                for definition in [LOWEST, UNDO] {
                    let of_key = under::<32>(key, 0)..=under::<32>(key, 0xff);
                    transaction.open_table(definition)?.retain_in(of_key, |_, _| false)?;
                }
                let of_key = under::<24>(key, 0)..=under::<24>(key, 0xff);
                transaction.open_table(FORMER)?.retain_in(of_key, |_, _| false)?;
            }
            Ok(transaction.commit()?)
        })
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

/// A transaction that is on the medium when its commit returns.
fn durable(database: &Database) -> Result<redb::WriteTransaction, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    Ok(transaction)
}

/// The first or last key of the table under a digest.
fn under<const N: usize>(key: &[u8; 16], fill: u8) -> [u8; N] {
    let mut pair = [fill; N];
    // Longer than the digest.
    let _ = (&mut pair[..]).write(key);
    pair
}

fn remedy(path: &Path) -> String {
    let directory = path.parent().unwrap_or(path).display();
    format!(
        "put both back as they were last; if that cannot be, rotate the group's key, then remove {directory} and call antedate mqtt init {directory}"
    )
}

fn damaged(path: &Path) -> Fault {
    let what = "the record of received messages is damaged, so a repeated message would not be noticed";
    Fault::of_file(path, what, remedy(path))
}

fn unopened(path: &Path, error: &std::io::Error) -> Fault {
    match error.kind() {
        ErrorKind::NotFound => {
            let what =
                "the record of received messages is missing, so a repeated message would not be noticed";
            Fault::of_file(path, what, remedy(path))
        }
        _ => Fault::of_io(
            path,
            "open the record of received messages",
            error,
            "make it writable for the user that runs this",
        ),
    }
}

fn fault(path: &Path, error: &redb::Error) -> Fault {
    match error {
        redb::Error::Io(error) => Fault::of_io(
            path,
            "write the record of received messages",
            error,
            "make it writable for the user that runs this",
        ),
        redb::Error::DatabaseAlreadyOpen => Fault::of_file(
            path,
            "another process holds the record of received messages",
            "give each client a state directory of its own",
        ),
        redb::Error::UpgradeRequired(_) => Fault::of_file(
            path,
            "another version wrote it",
            "use the version of antedate that wrote it, or a later one",
        ),
        _ => damaged(path),
    }
}

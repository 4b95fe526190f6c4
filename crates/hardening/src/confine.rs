//! The rights that a daemon gives up once it has what it needs.
//!
//! [`process`] is called before there are other threads, which then inherit its limits: no new
//! privileges, no capabilities but the named ones, no files but the named ones (Landlock), and no
//! system calls but those of a network daemon (seccomp). A thread that handles frames limits itself
//! further by [`frames_only`].

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io, thread};

use landlock::{
    ABI, Access, AccessFs, BitFlags, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use crate::calls;
use crate::sys::rights;
pub use crate::sys::rights::Capability;

/// Where a name is looked up, the library for that included. Directories, since such files are
/// replaced by new ones.
const NAMES: [&str; 5] = ["/etc", "/run", "/lib", "/lib64", "/usr/lib"];
/// The state of kernel and interfaces.
const KERNEL: [&str; 2] = ["/proc", "/sys"];

/// The file that names resolvers. Often a link to one outside of [`NAMES`].
const RESOLVERS: &str = "/etc/resolv.conf";

/// Whether this process limits its capabilities. One that did not call [`process`], such as a test,
/// keeps those of its threads too.
static CAPABILITIES: AtomicBool = AtomicBool::new(false);
/// Whether it limits its system calls.
static CALLS: AtomicBool = AtomicBool::new(false);
/// Whether root needs its power over files, since one of them belongs to another user.
static FOREIGN: AtomicBool = AtomicBool::new(false);

/// What a daemon still needs.
#[derive(Debug, Default)]
pub struct Needs {
    /// Capabilities, if it has them.
    pub capabilities: Vec<Capability>,
    /// Files and directories to write. Of a missing one, the closest directory above that exists.
    pub writes: Vec<PathBuf>,
    /// Files to read again. Their directories may be read, since files are replaced by new ones.
    pub reads: Vec<PathBuf>,
    /// Whether it looks up host names.
    pub names: bool,
}

/// The reason for not giving up rights.
#[derive(Debug)]
pub enum ConfineError {
    /// The kernel refused to limit files.
    Files(RulesetError),
    /// The kernel refused to limit system calls.
    Calls(io::Error),
    /// The kernel refused to take capabilities, or to forbid new ones.
    Rights(io::Error),
}

impl std::fmt::Display for ConfineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Files(error) => write!(f, "files are not limited (Landlock): {error}"),
            Self::Calls(error) => write!(f, "system calls are not limited (seccomp): {error}"),
            Self::Rights(error) => write!(f, "capabilities are not given up: {error}"),
        }
    }
}

impl std::error::Error for ConfineError {}

/// Gives up the rights of this process that it does not need. Returns whether the kernel limits
/// files fully: a kernel without Landlock (before 5.13) does not, and an older one less.
///
/// # Errors
/// When the kernel refuses a limit. The others are in force.
pub fn process(needs: &Needs) -> Result<bool, ConfineError> {
    let places = Places::of(needs);
    FOREIGN.store(places.belong_to_others(), Ordering::Relaxed);
    let privileges = rights::no_new_privileges();
    // Opens the named directories, for which capabilities may be needed.
    let files = files(&places, needs.names);
    CAPABILITIES.store(true, Ordering::Relaxed);
    let capabilities = keep(&needs.capabilities);
    let calls = calls::daemon();
    CALLS.store(calls.is_ok(), Ordering::Relaxed);
    privileges.map_err(ConfineError::Rights)?;
    capabilities?;
    calls.map_err(ConfineError::Calls)?;
    Ok(files.map_err(ConfineError::Files)?.ruleset == RulesetStatus::FullyEnforced)
}

/// Gives up the calling thread's capabilities but these, if [`process`] was called. Threads that it
/// starts have no others.
///
/// # Errors
/// When the kernel refuses.
pub fn keep(capabilities: &[Capability]) -> Result<(), ConfineError> {
    if !CAPABILITIES.load(Ordering::Relaxed) {
        return Ok(());
    }
    let files = FOREIGN.load(Ordering::Relaxed).then_some(Capability::DacOverride);
    let kept: Vec<_> = capabilities.iter().copied().chain(files).collect();
    rights::keep(&kept).map_err(ConfineError::Rights)
}

/// Gives up all capabilities of the calling thread, if [`process`] was called. Silent, since a
/// service manager may forbid the call: the units of this project do, and leave one capability.
pub fn keep_none() {
    if CAPABILITIES.load(Ordering::Relaxed) {
        let _ = rights::keep(&[]);
    }
}

/// Octets of the stack of a thread that starts others. The C library keeps it, locked as all memory
/// is, for the next thread with no more.
const STACK: usize = 512 << 10;

/// Does something on a thread without capabilities, so that the threads it starts have none.
///
/// # Panics
/// When no thread can be started.
pub fn without_capabilities<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let work = || {
        keep_none();
        work()
    };
    let done = thread::scope(|scope| {
        let started = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        started.unwrap_or_else(|error| panic!("no thread can be started: {error}")).join()
    });
    match done {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Limits the calling thread to what frames need, if [`process`] was called: no capability, and no
/// file to open.
///
/// # Errors
/// When the kernel refuses.
pub fn frames_only() -> Result<(), ConfineError> {
    keep_none();
    if !CALLS.load(Ordering::Relaxed) {
        return Ok(());
    }
    calls::frames().map_err(ConfineError::Calls)
}

/// Existing files and directories.
struct Places {
    writes: Vec<PathBuf>,
    reads: Vec<PathBuf>,
}

impl Places {
    fn of(needs: &Needs) -> Self {
        let absolute = |path: &PathBuf| {
            let here = path.as_os_str().is_empty();
            std::path::absolute(if here { Path::new(".") } else { path }).ok()
        };
        let existing = |path: PathBuf| path.ancestors().find(|path| path.exists()).map(Path::to_owned);
        // The directory of a link, and that of its target.
        let directories = |path: PathBuf| {
            let target = fs::canonicalize(&path).ok();
            [Some(path), target].into_iter().flatten().filter_map(|file| file.parent().map(Path::to_owned))
        };
        Self {
            writes: needs.writes.iter().filter_map(absolute).filter_map(existing).collect(),
            reads: needs.reads.iter().filter_map(absolute).flat_map(directories).collect(),
        }
    }

    /// Whether one of them belongs to another user than this and root.
    fn belong_to_others(&self) -> bool {
        let owner = |path: &PathBuf| fs::metadata(path).ok().map(|about| about.uid());
        let user = rights::user();
        self.writes.iter().chain(&self.reads).filter_map(owner).any(|owner| owner != user && owner != 0)
    }
}

fn files(places: &Places, names: bool) -> Result<RestrictionStatus, RulesetError> {
    let abi = ABI::V6;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write: BitFlags<AccessFs> = AccessFs::from_all(abi)
        & !(AccessFs::Execute | AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    let mut readable: Vec<PathBuf> = KERNEL.map(PathBuf::from).into();
    readable.extend(places.reads.iter().cloned());
    if names {
        readable.extend(NAMES.map(PathBuf::from));
        let resolvers = fs::canonicalize(RESOLVERS).ok();
        readable.extend(resolvers.iter().filter_map(|file| file.parent()).map(Path::to_owned));
    }
    // The random numbers of old kernels, and the machine that a state belongs to.
    let files = ["/dev/urandom", "/dev/random", "/etc/machine-id", "/run/machine-id"].map(Path::new);
    Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(files, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(&places.writes, write))?
        .restrict_self()
}

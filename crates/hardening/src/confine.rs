//! The rights that a daemon gives up once it has what it needs.
//!
//! [`process`] is called before there are other threads, which then inherit its limits: no new
//! privileges, no capabilities but the named ones, no files but the named ones (Landlock), and no
//! system calls but those of a network daemon (seccomp). A thread that handles frames limits itself
//! further by [`frames_only`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Whether this process gave up rights.
static CONFINED: AtomicBool = AtomicBool::new(false);

/// What a daemon still needs.
#[derive(Debug, Default)]
pub struct Needs {
    /// Capabilities, if it has them.
    pub capabilities: Vec<Capability>,
    /// Files and directories to write. Of a missing one, the closest directory above that exists.
    pub writes: Vec<PathBuf>,
    /// Files to read.
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
/// When the kernel refuses a limit. Those before it stay.
pub fn process(needs: &Needs) -> Result<bool, ConfineError> {
    rights::no_new_privileges().map_err(ConfineError::Rights)?;
    let files = files(needs).map_err(ConfineError::Files)?;
    rights::keep(&needs.capabilities).map_err(ConfineError::Rights)?;
    calls::daemon().map_err(ConfineError::Calls)?;
    CONFINED.store(true, Ordering::Relaxed);
    Ok(files.ruleset == RulesetStatus::FullyEnforced)
}

/// Gives up the calling thread's capabilities but these, if [`process`] was called.
///
/// # Errors
/// When the kernel refuses.
pub fn keep(capabilities: &[Capability]) -> Result<(), ConfineError> {
    if !CONFINED.load(Ordering::Relaxed) {
        return Ok(());
    }
    rights::keep(capabilities).map_err(ConfineError::Rights)
}

/// Limits the calling thread to what frames need, if [`process`] was called: no capability, and no
/// file to open.
///
/// # Errors
/// When the kernel refuses.
pub fn frames_only() -> Result<(), ConfineError> {
    if !CONFINED.load(Ordering::Relaxed) {
        return Ok(());
    }
    // A service manager may forbid the call. The filter below leaves capabilities without use.
    let _ = rights::keep(&[]);
    calls::frames().map_err(ConfineError::Calls)
}

fn files(needs: &Needs) -> Result<RestrictionStatus, RulesetError> {
    let abi = ABI::V6;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write: BitFlags<AccessFs> = AccessFs::from_all(abi)
        & !(AccessFs::Execute | AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    let names: &[&str] = if needs.names { &NAMES } else { &[] };
    let existing = needs.writes.iter().filter_map(|path| {
        let path = std::path::absolute(path).ok()?;
        path.ancestors().find(|path| path.exists()).map(Path::to_owned)
    });
    // The random numbers of old kernels, and where output may be sent.
    let devices = ["/dev/urandom", "/dev/random"].map(Path::new);
    Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(KERNEL.iter().chain(names), read))?
        .add_rules(path_beneath_rules(devices, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(&needs.reads, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(existing, write))?
        .restrict_self()
}

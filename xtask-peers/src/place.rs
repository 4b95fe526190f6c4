//! The folder for what a run writes.

use std::fs::File;
use std::path::PathBuf;
use std::sync::OnceLock;
use xtask::shell::cache;

static OWNER: OnceLock<&str> = OnceLock::new();

/// Gives this process's peer a folder of its own, since two peers may run at a time.
pub(crate) fn belongs_to(peer: &'static str) {
    let _ = OWNER.set(peer);
}

/// The folder of this process's peer, or of the benches.
pub(crate) fn run() -> Result<PathBuf, String> {
    cache(&format!("peers/run/{}", OWNER.get().unwrap_or(&"bench")))
}

/// The right to make a thing that several peers use; it ends with the value.
pub(crate) fn lock(name: &str) -> Result<File, String> {
    let path = cache("peers")?.join(format!("{name}.lock"));
    let file = File::create(&path).and_then(|file| file.lock().map(|()| file));
    file.map_err(|e| format!("{}: {e}", path.display()))
}

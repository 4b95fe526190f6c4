//! The working directory of a command under test.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A temporary working directory.
pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Calls the command there.
    pub(crate) fn call(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_antedate"))
            .args(arguments)
            .env_remove("RUST_LOG")
            .current_dir(self.0.path())
            .output()
            .expect("the command")
    }
}

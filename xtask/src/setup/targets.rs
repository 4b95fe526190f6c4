//! The standard libraries of other targets.

use crate::shell::{Run, has_program, program};
use std::path::Path;

/// True if the running toolchain has the `core` of a target.
pub fn has_core(target: &str) -> bool {
    let sysroot = program("rustc").args(["--print", "sysroot"]).read(10).unwrap_or_default();
    Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib").is_dir()
}

/// Adds a target by `rustup`, if there is one; true if that installed its `core`.
pub fn fetch_core(target: &str) -> bool {
    has_program("rustup")
        && program("rustup").args(["target", "add", target]).echoed(120).is_ok()
        && has_core(target)
}

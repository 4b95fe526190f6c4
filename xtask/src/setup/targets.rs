//! The standard libraries of other targets.

use crate::shell::{Run, has_program, program};
use std::path::Path;

/// True if the running toolchain has the `core` of a target.
pub fn has_core(target: &str) -> bool {
    let sysroot = program("rustc").args(["--print", "sysroot"]).read(10).unwrap_or_default();
    Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib").is_dir()
}

/// Has `rustup`, where there is one, add a target; true if that gave its `core`.
pub fn fetch_core(target: &str) -> bool {
    has_program("rustup")
        && program("rustup").args(["target", "add", target]).echoed(120).is_ok()
        && has_core(target)
}

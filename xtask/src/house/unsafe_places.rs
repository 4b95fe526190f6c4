//! `unsafe` only in cipher backends, system calls, borders to C, `bench/`, `firmware/`, and tests that read raw memory.

use super::{Fault, Source};

pub(super) const REMEDY: &str = "move it below `backend/` or `sys/`, behind a safe function";

/// Parts of the paths where it is allowed.
const PLACES: [&str; 4] = ["/backend/", "/sys/", "/tests/", "/examples/"];
/// Folders where it is allowed: borders to C, and programs that are not the product.
const FOLDERS: [&str; 7] =
    ["crates/capi/", "crates/mosquitto-plugin/", "crates/python/", "python/", "node/", "bench/", "firmware/"];
/// Files where it is allowed: the addresses that kernels for holes get.
const FILES: [&str; 2] = ["crates/aead/src/sparse.rs", "crates/aead/src/holes/values.rs"];

/// `unsafe` in other places.
pub(super) fn faults(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| !is_allowed(&source.path)) {
        for at in source.words("unsafe") {
            faults.push(Fault::new(&source.path, source.line(at), "`unsafe` in this place".to_string()));
        }
    }
    faults
}

fn is_allowed(path: &str) -> bool {
    FOLDERS.iter().any(|folder| path.starts_with(folder))
        || PLACES.iter().any(|part| path.contains(part))
        || FILES.contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_outside_its_places_is_found() {
        let text = "// unsafe\n#![deny(unsafe_code)]\nfn a() { unsafe { b() } }";
        let lines = |path: &str| faults(&[Source::new(path, text)]).len();
        assert_eq!(lines("crates/aead/src/pool.rs"), 1);
        for path in
            ["crates/aead/src/backend/x86/aes.rs", "crates/gateway/src/sys/near.rs", "crates/capi/src/lib.rs"]
        {
            assert_eq!(lines(path), 0, "{path}");
        }
    }
}

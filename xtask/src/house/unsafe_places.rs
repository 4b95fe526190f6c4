//! The places of `unsafe`: cipher backends, system calls, C interfaces, `bench/`, `firmware/`,
//! `timing/`, and tests that read raw memory.

use super::{Fault, Source};

pub(super) const REMEDY: &str = "move it below `backend/` or `sys/`, behind a safe function";

/// Parts of allowed paths.
const PLACES: [&str; 4] = ["/backend/", "/sys/", "/tests/", "/examples/"];
/// Allowed folders: the emulated CPU of the tests, C interfaces, and programs outside the product.
const FOLDERS: [&str; 9] = [
    "crates/aead-emulated/",
    "crates/capi/",
    "crates/mosquitto-plugin/",
    "crates/python/",
    "python/",
    "node/",
    "bench/",
    "firmware/",
    "timing/",
];
/// Allowed files: the addresses of the sparse kernels.
const FILES: [&str; 1] = ["crates/aead/src/holes/values.rs"];

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

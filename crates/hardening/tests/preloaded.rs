//! Locked memory comes by its first use, until all of it is brought in.

use std::fs;
use std::process::Command;

use antedate_hardening::memory::{self, Locked};

/// Set for the process that locks its memory.
const CHILD: &str = "ANTEDATE_TEST_PRELOADED";
/// Octets of a buffer that nobody uses.
const UNUSED: usize = 64 << 20;
/// KiB that may come and go beside it.
const NOISE: u64 = 8 << 10;

#[path = "../../wire/tests/skip/mod.rs"]
mod skip;

/// A line of `/proc/self/status`, in KiB.
fn kib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn unused_memory_is_resident_after_settling() {
    if std::env::var_os(CHILD).is_none() {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        let said = child.args(["--exact", "unused_memory_is_resident_after_settling", "--nocapture"]);
        let said = said.env(CHILD, "1").output().expect("it runs");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        if String::from_utf8_lossy(&said.stdout).contains("no right to lock") {
            skip::skipped("locked memory: needs CAP_IPC_LOCK, or no limit on locked memory");
        }
        return;
    }
    // Root without CAP_SYS_RESOURCE, as in a container, cannot raise the limit: then later memory is not
    // locked by itself, and settling locks and brings in the present one all the same.
    let locks_all = memory::close().expect("what every process may do") == Locked::All;
    let before = kib("VmRSS");
    let buffer = Vec::<u8>::with_capacity(UNUSED);
    assert!(kib("VmRSS") < before + NOISE, "a page comes before its use");
    let locked = kib("VmLck") >= (UNUSED >> 10) as u64;
    assert_eq!(locked, locks_all, "later memory");
    if let Err(error) = memory::settle() {
        assert!(!locks_all, "all is locked already: {error}");
        println!("no right to lock");
        return;
    }
    assert!(kib("VmRSS") + NOISE > before + (buffer.capacity() >> 10) as u64, "a page is missing");
}

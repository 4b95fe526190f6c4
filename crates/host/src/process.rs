//! The user of this process.

use std::fs;

/// The effective user of this process (`proc_pid_status(5)`); `u32::MAX` where `/proc` is missing.
#[must_use]
pub fn user() -> u32 {
    // Uid: real, effective, saved, file system.
    status("Uid").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok()).unwrap_or(u32::MAX)
}

/// The effective group of this process; `None` where `/proc` is missing.
#[must_use]
pub fn group() -> Option<u32> {
    status("Gid").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok())
}

/// A line of `/proc/self/status`.
#[must_use]
pub fn status(key: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
}

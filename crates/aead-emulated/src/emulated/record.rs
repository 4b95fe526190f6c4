//! The file of kernels that ran.

use core::sync::atomic::{AtomicBool, Ordering};
use std::{format, fs::OpenOptions, io::Write};

/// Names the file.
pub(crate) const FILE: &str = "ANTEDATE_KERNELS";

/// Place and features of each kernel, one a line.
pub(crate) const KERNELS: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.txt"));

/// Writes the first run of a kernel.
#[cold]
pub(crate) fn note(ran: &AtomicBool, place: &str, features: &str) {
    if !ran.swap(true, Ordering::Relaxed) {
        write(&format!("ran\t{place}\t{features}\n"));
    }
}

/// Appends whole lines: tests of several threads write to the file.
pub(crate) fn write(lines: &str) {
    let Some(path) = std::env::var_os(FILE) else { return };
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(lines.as_bytes()));
    assert!(written.is_ok(), "{}: {written:?}", path.display());
}

//! Whether the disk holds what a command builds.

use crate::setup::Purpose;
use crate::shell::target;
use std::fs;
use std::path::Path;
use std::process::Command;

/// GiB that a fresh clone needs under its target directory.
const fn needed(purpose: Purpose) -> u64 {
    match purpose {
        // Every program and test in two profiles, the fuzz targets, images of motes, a guest, virtual environments.
        Purpose::Test => 8,
        Purpose::Bench | Purpose::Ciphers | Purpose::Firmware | Purpose::Peers => 4,
        Purpose::Demo => 2,
    }
}

/// Refuses to begin what would fail in the middle. What is built already counts; where the disk tells nothing, nothing is refused.
pub(crate) fn check(purpose: Purpose) -> Result<(), String> {
    let target = target();
    fs::create_dir_all(&target).map_err(|e| format!("cannot make {}: {e}", target.display()))?;
    let (Some(free), needed) = (ask("df", &["--output=avail", "-k"], &target), needed(purpose) << 20) else {
        return Ok(());
    };
    // Counting what is there takes a moment, so that is asked last.
    if free >= needed || ask("du", &["-s", "-D", "-k"], &target).is_none_or(|built| free + built >= needed) {
        return Ok(());
    }
    Err(format!(
        "{} needs some {} GiB, and {:.1} are free: make room, or set CARGO_TARGET_DIR to a place on a larger disk",
        target.display(),
        needed >> 20,
        free as f64 / f64::from(1 << 20)
    ))
}

/// What `df` or `du` says of a place in KiB. Both tell a number and fail where a file goes away meanwhile.
fn ask(name: &str, arguments: &[&str], place: &Path) -> Option<u64> {
    let said = Command::new(name).args(arguments).arg(place).output().ok()?;
    kibibytes(&String::from_utf8_lossy(&said.stdout))
}

/// The first number in what they say.
fn kibibytes(said: &str) -> Option<u64> {
    said.split_whitespace().find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_in_what_either_program_says() {
        assert_eq!(kibibytes("  Avail\n67108864\n"), Some(67_108_864));
        assert_eq!(kibibytes("7025664\t/a/target\n"), Some(7_025_664));
        assert_eq!(kibibytes("df: no such file"), None);
    }
}

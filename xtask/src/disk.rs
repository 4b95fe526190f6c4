//! Whether the disk holds what a command builds.

use crate::setup::Purpose;
use crate::shell::{Run, program, target};
use std::fs;
use std::path::Path;

/// GiB that a fresh clone needs under its target directory.
const fn needed(purpose: Purpose) -> u64 {
    match purpose {
        // Every program and test in two profiles, the fuzz targets, images of motes, a guest, virtual environments.
        Purpose::Test => 8,
        Purpose::Bench | Purpose::Ciphers | Purpose::Firmware | Purpose::Peers => 4,
        Purpose::Demo => 2,
    }
}

/// Refuses to begin what would fail in the middle. What is built already counts.
pub(crate) fn check(purpose: Purpose) -> Result<(), String> {
    let target = target();
    fs::create_dir_all(&target).map_err(|e| format!("cannot make {}: {e}", target.display()))?;
    let free = kibibytes(program("df").args(["--output=avail", "-k"]).arg(&target).read(10)?);
    let (Some(free), needed) = (free, needed(purpose) << 20) else { return Ok(()) };
    // Counting what is there takes a moment, so that is asked last.
    if free >= needed || free + built(&target) >= needed {
        return Ok(());
    }
    Err(format!(
        "{} needs some {} GiB, and {:.1} are free: make room, or set CARGO_TARGET_DIR to a place on a larger disk",
        target.display(),
        needed >> 20,
        free as f64 / f64::from(1 << 20)
    ))
}

fn built(target: &Path) -> u64 {
    program("du").args(["-s", "-k"]).arg(target).read(60).ok().and_then(kibibytes).unwrap_or(0)
}

/// The first number in what `df` or `du` says.
fn kibibytes(said: String) -> Option<u64> {
    said.split_whitespace().find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_in_what_either_program_says() {
        assert_eq!(kibibytes("  Avail\n67108864\n".into()), Some(67_108_864));
        assert_eq!(kibibytes("7025664\t/a/target\n".into()), Some(7_025_664));
        assert_eq!(kibibytes("df: no such file".into()), None);
    }
}

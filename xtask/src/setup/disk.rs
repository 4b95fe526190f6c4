//! The free disk space, checked before a command builds.

use crate::shell::target;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Refuses a command if less than `gibibytes` are free. Existing build products count as free; an
/// unknown size is accepted.
pub(super) fn check(gibibytes: u64) -> Result<(), String> {
    let target = target();
    fs::create_dir_all(&target).map_err(|e| format!("cannot make {}: {e}", target.display()))?;
    let (Some(free), needed) = (ask("df", &["--output=avail", "-k"], &target), gibibytes << 20) else {
        return Ok(());
    };
    // `du` is slow, so it comes last.
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

/// KiB of a path by `df` or `du`. Both print a number even if they fail because a file disappears.
fn ask(name: &str, arguments: &[&str], place: &Path) -> Option<u64> {
    let said = Command::new(name).args(arguments).arg(place).output().ok()?;
    kibibytes(&String::from_utf8_lossy(&said.stdout))
}

/// The first number of the output.
fn kibibytes(said: &str) -> Option<u64> {
    said.split_whitespace().find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_read_from_df_and_du() {
        assert_eq!(kibibytes("  Avail\n67108864\n"), Some(67_108_864));
        assert_eq!(kibibytes("7025664\t/a/target\n"), Some(7_025_664));
        assert_eq!(kibibytes("df: no such file"), None);
    }
}

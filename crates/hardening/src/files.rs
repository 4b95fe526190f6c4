//! The bound of open files. Services and shells set it low, for old programs that use `select`.

use crate::sys::files;

/// Raises this process's bound of open files to `wanted`, or as far as the hard bound permits.
/// Returns the bound. It is never lowered.
#[must_use]
pub fn allow(wanted: usize) -> usize {
    let Ok((soft, hard)) = files::bounds() else { return 0 };
    let higher = wanted.min(hard);
    if higher > soft && files::raise(higher).is_ok() { higher } else { soft }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_is_raised_and_never_lowered() {
        let (soft, hard) = files::bounds().expect("bounds");
        assert_eq!(allow(0), soft);
        let more = soft.saturating_add(1).min(hard);
        for wanted in [more, 3] {
            assert_eq!(allow(wanted), more);
            assert_eq!(files::bounds().expect("bounds"), (more, hard));
        }
    }
}

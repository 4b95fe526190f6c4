//! The bound of open files of this process (`RLIMIT_NOFILE`).

use std::io;

use super::check;

/// The soft bound, which applies, and the hard one, to which it may be raised.
pub(crate) fn bounds() -> io::Result<(usize, usize)> {
    let limit = limit()?;
    let [soft, hard] =
        [limit.rlim_cur, limit.rlim_max].map(|bound| usize::try_from(bound).unwrap_or(usize::MAX));
    Ok((soft, hard))
}

/// Sets the soft bound.
pub(crate) fn raise(soft: usize) -> io::Result<()> {
    let mut limit = limit()?;
    limit.rlim_cur = soft.try_into().unwrap_or(limit.rlim_max);
    // SAFETY: the pointer is to a live rlimit, which the kernel only reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }).map(drop)
}

fn limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit, which the kernel writes.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    Ok(limit)
}

//! Lines of standard input, read by a thread, so that repetitions keep their times.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use antedate_lab::sys::signal;

/// The longest line.
const MAX_LINE: u64 = 1 << 16;
/// Lines that wait. A writer that is faster waits too.
const QUEUE: usize = 16;
/// The time after which a signal is noticed.
const LOOK: Duration = Duration::from_millis(100);

/// What comes next.
pub(super) enum Next {
    /// a line
    Line(String),
    /// a line that is longer than the longest
    TooLong,
    /// nothing yet
    Nothing,
    /// the end of the input, or a signal
    End,
}

/// The lines.
pub(super) struct Input {
    lines: Receiver<Option<String>>,
    count: u64,
}

impl Input {
    /// Starts the thread. It ends with the process.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, lines) = sync_channel(QUEUE);
        std::thread::Builder::new().name("input".into()).spawn(move || {
            let mut input = io::stdin().lock();
            while let Some(line) = one(&mut input) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { lines, count: 0 })
    }

    /// Waits for the next line, at most so long. Empty lines are skipped.
    pub(super) fn next(&mut self, most: Duration) -> Next {
        if signal::stopping() {
            return Next::End;
        }
        match self.lines.recv_timeout(most.min(LOOK)) {
            Ok(line) => {
                self.count += 1;
                match line {
                    Some(line) if line.trim().is_empty() => Next::Nothing,
                    Some(line) => Next::Line(line),
                    None => Next::TooLong,
                }
            }
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    /// The number of the last line.
    pub(super) const fn line(&self) -> u64 {
        self.count
    }
}

/// The next line, `Some(None)` if it is too long or no UTF-8, or `None` at the end.
fn one(input: &mut impl BufRead) -> Option<Option<String>> {
    let mut line = Vec::new();
    let got = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).ok()?;
    if got == 0 {
        return None;
    }
    if got as u64 == MAX_LINE && line.last() != Some(&b'\n') {
        input.skip_until(b'\n').ok()?;
        return Some(None);
    }
    Some(String::from_utf8(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_does_not_hide_the_next() {
        let text = [&b"one\n"[..], &vec![b'x'; MAX_LINE as usize + 9], b"\n\xff\ntwo"].concat();
        let mut input = &text[..];
        let mut lines = Vec::new();
        while let Some(line) = one(&mut input) {
            lines.push(line);
        }
        assert_eq!(lines, [Some("one\n".into()), None, None, Some("two".into())]);
    }
}

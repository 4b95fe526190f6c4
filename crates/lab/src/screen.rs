//! A text on a terminal that is drawn again in its place.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::sys::terminal;

/// The place of the text.
#[derive(Debug, Default)]
pub struct Screen {
    lines: usize,
}

impl Screen {
    /// Draws the text over the one before. Lines beyond the terminal's height are left out.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn draw(&mut self, text: &str) -> io::Result<()> {
        let rows = terminal::rows().map_or(usize::MAX, |rows| rows.saturating_sub(1));
        let (out, lines) = redrawn(text, self.lines, rows);
        self.lines = lines;
        let mut stdout = io::stdout().lock();
        stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush())
    }

    /// Whether nothing was drawn.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lines == 0
    }
}

/// The text over so many lines drawn before, and the number of its lines. Lines are cut to the
/// terminal's width, since a wrapped line would be two.
fn redrawn(text: &str, before: usize, rows: usize) -> (String, usize) {
    let mut out = if before > 0 { format!("\x1b[{before}A") } else { String::new() };
    out.push_str("\x1b[?7l");
    let mut lines = 0;
    for line in text.lines().take(rows) {
        let _ = writeln!(out, "\x1b[2K{line}");
        lines += 1;
    }
    // What the text before had more.
    if lines < before {
        out.push_str("\x1b[J");
    }
    (out + "\x1b[?7h", lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_goes_on_in_the_next_row() {
        let wide = "x".repeat(200);
        let (first, lines) = redrawn(&format!("a\n{wide}\n"), 0, 50);
        assert_eq!((first, lines), (format!("\x1b[?7l\x1b[2Ka\n\x1b[2K{wide}\n\x1b[?7h"), 2));
        assert!(redrawn("a\nb\n", 2, 50).0.starts_with("\x1b[2A\x1b[?7l"));
    }

    #[test]
    fn shorter_text_leaves_nothing_behind() {
        let (out, lines) = redrawn("a\n", 3, 50);
        assert_eq!((out.as_str(), lines), ("\x1b[3A\x1b[?7l\x1b[2Ka\n\x1b[J\x1b[?7h", 1));
        assert_eq!(redrawn("a\nb\nc\n", 0, 2).1, 2, "no more than the terminal has");
    }
}

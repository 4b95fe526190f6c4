//! Lines of JSON from a process of the lab to its parent.

use std::io::{self, Write};

use serde::Serialize;

/// Destination of the lines.
pub struct Output(Box<dyn Write + Send>);

impl Output {
    /// Writes to standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self(Box::new(io::stdout()))
    }

    /// Writes to another destination.
    pub fn to(writer: impl Write + Send + 'static) -> Self {
        Self(Box::new(writer))
    }

    /// Writes one line at once. A closed reader is ignored.
    pub fn line(&mut self, value: &impl Serialize) {
        if let Ok(mut text) = serde_json::to_string(value) {
            text.push('\n');
            let _ = self.0.write_all(text.as_bytes()).and_then(|()| self.0.flush());
        }
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Output")
    }
}

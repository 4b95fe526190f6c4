//! Lines of JSON from one of the lab's processes to whoever started it.

use std::io::{self, Write};

use serde::Serialize;

/// Where the lines go.
pub struct Output(Box<dyn Write + Send>);

impl Output {
    /// To standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self(Box::new(io::stdout()))
    }

    /// To anything else.
    pub fn to(writer: impl Write + Send + 'static) -> Self {
        Self(Box::new(writer))
    }

    /// Writes one line at once. Whoever reads may have gone; the work goes on without.
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

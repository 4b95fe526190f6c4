//! A payload that was opened: text if it is some, else hexadecimal digits.

use std::fmt;

use antedate_host::hex::hex;
use serde::{Serialize, Serializer};

/// Octets of a payload in a line for people. JSON has all.
const SHOWN: usize = 96;

/// The octets of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Payload(Vec<u8>);

impl Payload {
    pub(super) fn new(octets: &[u8]) -> Self {
        Self(octets.to_vec())
    }

    #[cfg(feature = "dtls")]
    pub(super) fn octets(&self) -> &[u8] {
        &self.0
    }
}

/// Characters that move no cursor; the end of a line is written as in a program.
fn text(octets: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(octets).ok()?;
    let text = text.replace('\r', "\\r").replace('\n', "\\n").replace('\t', "\\t");
    (!text.chars().any(char::is_control)).then_some(text)
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match text(&self.0) {
            Some(text) if text.chars().count() <= SHOWN => f.write_str(&text),
            Some(text) => write!(f, "{}...", text.chars().take(SHOWN).collect::<String>()),
            None => {
                let shown = self.0.get(..SHOWN / 2).unwrap_or(&self.0);
                write!(f, "{}{}", hex(shown), if shown.len() < self.0.len() { "..." } else { "" })
            }
        }
    }
}

/// Hexadecimal digits always: a reader of JSON need not guess.
impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_text() {
        assert_eq!(Payload::new(b"{\"bar\":2.5}").to_string(), "{\"bar\":2.5}");
        assert_eq!(Payload::new(b"21.5\r\n").to_string(), "21.5\\r\\n");
        assert_eq!(Payload::new(b"\x1b[2J").to_string(), "1b5b324a", "no terminal obeys it");
        assert_eq!(Payload::new(&[0xff, 1]).to_string(), "ff01");
        assert!(Payload::new(&[0xff; 200]).to_string().ends_with("ff..."));
        assert_eq!(serde_json::to_string(&Payload::new(b"ab")).unwrap(), "\"6162\"");
    }
}

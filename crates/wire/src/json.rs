//! A JSON reader (RFC 8259) without allocation, from front to back: the tokens of a message and
//! their places.

use core::ops::Range;

use crate::{Error, Result};

/// The deepest nesting of objects and arrays.
pub const MAX_DEPTH: usize = 16;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `}` or `]`
    End,
    /// the name of a member
    Name,
    /// a string
    Text,
    /// a number
    Number,
    /// `true`, `false` or `null`
    Word,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// its kind
    pub kind: Kind,
    /// its place; of a name or a text without the quotation marks
    pub range: Range<usize>,
    /// number of objects and arrays around it
    pub depth: usize,
}

/// Reads a text token by token. Ends after an error.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Open objects (true) and arrays (false).
    open: [bool; MAX_DEPTH],
    depth: usize,
    expect: Expect,
}

/// The permitted next token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// The first value of an array, which may be empty.
    FirstValue,
    /// The first name of an object, which may be empty.
    FirstName,
    Name,
    Comma,
    Nothing,
}

impl<'a> Reader<'a> {
    /// A reader at the front.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, open: [false; MAX_DEPTH], depth: 0, expect: Expect::Value }
    }

    /// The octets of a token.
    pub fn octets(&self, token: &Token) -> &'a [u8] {
        self.bytes.get(token.range.clone()).unwrap_or_default()
    }

    fn peek(&self) -> Result<u8> {
        self.bytes.get(self.at).copied().ok_or(Error::Truncated)
    }

    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The next token; none at the end.
    pub fn next_token(&mut self) -> Result<Option<Token>> {
        self.space();
        if self.expect == Expect::Nothing {
            return if self.at == self.bytes.len() { Ok(None) } else { Err(Error::Value) };
        }
        if self.expect == Expect::Comma {
            let object = self.open[self.depth - 1];
            match (self.peek()?, object) {
                (b',', _) => {
                    self.at += 1;
                    self.space();
                    self.expect = if object { Expect::Name } else { Expect::Value };
                }
                (b'}', true) | (b']', false) => return self.close().map(Some),
                _ => return Err(Error::Value),
            }
        }
        let token = match (self.expect, self.peek()?) {
            (Expect::FirstName, b'}') | (Expect::FirstValue, b']') => self.close()?,
            (Expect::FirstName | Expect::Name, b'"') => {
                let range = self.text()?;
                self.space();
                if self.peek()? != b':' {
                    return Err(Error::Value);
                }
                self.at += 1;
                self.expect = Expect::Value;
                return Ok(Some(Token { kind: Kind::Name, range, depth: self.depth }));
            }
            (Expect::FirstName | Expect::Name, _) => return Err(Error::Value),
            (_, open @ (b'{' | b'[')) => self.begin(open == b'{')?,
            (_, b'"') => self.value(Kind::Text)?,
            (_, b'-' | b'0'..=b'9') => self.value(Kind::Number)?,
            (_, b't' | b'f' | b'n') => self.value(Kind::Word)?,
            _ => return Err(Error::Value),
        };
        Ok(Some(token))
    }

    fn begin(&mut self, object: bool) -> Result<Token> {
        let depth = self.depth;
        *self.open.get_mut(depth).ok_or(Error::Value)? = object;
        self.depth += 1;
        self.at += 1;
        self.expect = if object { Expect::FirstName } else { Expect::FirstValue };
        let kind = if object { Kind::Object } else { Kind::Array };
        Ok(Token { kind, range: self.at - 1..self.at, depth })
    }

    fn close(&mut self) -> Result<Token> {
        self.at += 1;
        self.depth -= 1;
        self.done();
        Ok(Token { kind: Kind::End, range: self.at - 1..self.at, depth: self.depth })
    }

    fn done(&mut self) {
        self.expect = if self.depth == 0 { Expect::Nothing } else { Expect::Comma };
    }

    fn value(&mut self, kind: Kind) -> Result<Token> {
        let range = match kind {
            Kind::Text => self.text()?,
            Kind::Number => self.number()?,
            _ => self.word()?,
        };
        self.done();
        Ok(Token { kind, range, depth: self.depth })
    }

    fn text(&mut self) -> Result<Range<usize>> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek()? {
                b'"' => break,
                0..=0x1f => return Err(Error::Value),
                b'\\' => {
                    self.at += 1;
                    match self.peek()? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        b'u' => {
                            let digits = self.bytes.get(self.at + 1..self.at + 5).ok_or(Error::Truncated)?;
                            if !digits.iter().all(u8::is_ascii_hexdigit) {
                                return Err(Error::Value);
                            }
                            self.at += 4;
                        }
                        _ => return Err(Error::Value),
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        let range = start..self.at;
        core::str::from_utf8(&self.bytes[range.clone()]).map_err(|_| Error::Value)?;
        self.at += 1;
        Ok(range)
    }

    fn digits(&mut self) -> Result<usize> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(Error::Value) } else { Ok(self.at - start) }
    }

    fn number(&mut self) -> Result<Range<usize>> {
        let start = self.at;
        self.at += usize::from(self.peek()? == b'-');
        let zero = self.bytes.get(self.at) == Some(&b'0');
        if self.digits()? > 1 && zero {
            return Err(Error::Value);
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(start..self.at)
    }

    fn word(&mut self) -> Result<Range<usize>> {
        let start = self.at;
        let rest = &self.bytes[start..];
        let word = [&b"true"[..], b"false", b"null"].into_iter().find(|word| rest.starts_with(word));
        self.at += word.ok_or(Error::Value)?.len();
        Ok(start..self.at)
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Token>;

    fn next(&mut self) -> Option<Result<Token>> {
        let token = self.next_token();
        if token.is_err() {
            (self.expect, self.at) = (Expect::Nothing, self.bytes.len());
        }
        token.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;
    use std::vec::Vec;

    fn read(text: &str) -> Result<Vec<(Kind, &str)>> {
        let reader = Reader::new(text.as_bytes());
        reader.map(|token| token.map(|token| (token.kind, &text[token.range]))).collect()
    }

    #[test]
    fn tokens_have_their_ranges() {
        use Kind::*;
        assert_eq!(
            read(r#" {"a" : [ -1.5e3 , "x\"y"], "b":{}, "c":null} "#),
            Ok([
                (Object, "{"),
                (Name, "a"),
                (Array, "["),
                (Number, "-1.5e3"),
                (Text, r#"x\"y"#),
                (End, "]"),
                (Name, "b"),
                (Object, "{"),
                (End, "}"),
                (Name, "c"),
                (Word, "null"),
                (End, "}"),
            ]
            .to_vec())
        );
    }

    #[test]
    fn invalid_json_is_refused() {
        for text in [
            "",
            "{",
            "[1,]",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":1,}"#,
            "01",
            "-",
            "1.",
            "1e",
            "+1",
            "[1 2]",
            "tru",
            "[}",
            "\"\u{1}\"",
            r#""\x""#,
            r#""\u12g4""#,
            "1 1",
            "{1:2}",
            "\"",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(Reader::new(b"\"\xff\"").any(|token| token.is_err()), "no UTF-8");
        assert!(read(&"[".repeat(MAX_DEPTH + 1)).is_err());
        let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert!(read(&deep).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_terminates(text in "[\\[\\]{}:,\"0-9a-u.\\\\ -]{0,40}") {
            let tokens: Vec<_> = Reader::new(text.as_bytes()).collect();
            prop_assert!(tokens.len() <= text.len() + 1);
            prop_assert!(tokens.iter().rev().skip(1).all(Result::is_ok));
        }

        #[test]
        fn any_string_is_one_token(text: String) {
            let mut quoted = String::from("\"");
            quoted.extend(text.chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\'));
            quoted.push('"');
            prop_assert!(read(&quoted).is_ok_and(|tokens| tokens.len() == 1));
        }
    }
}

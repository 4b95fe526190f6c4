//! Reads a TOML file and collects all faults instead of stopping at the first. A file of another kind
//! has one fault, not one for each of its lines.
//!
//! There is no list of known keys: a key is known if the code that reads the section asks for it.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::fault::{Fault, nearest, suggest};

/// The most syntax faults of a file that was meant to be TOML.
const SYNTAX_MAX: usize = 5;

/// A parsed file and its faults so far.
pub struct Document<'t> {
    file: &'t Path,
    root: DeTable<'t>,
    faults: RefCell<Vec<Fault>>,
    /// The ends of the lines: counting them for each value would take the square of the file's length.
    ends: Vec<usize>,
    /// The only fault, if the file is of another kind: all others follow from it.
    no_toml: bool,
}

impl<'t> Document<'t> {
    /// Parses the text. Syntax faults are collected with the others. A text without any key, or with
    /// more syntax faults than a writer makes, is no TOML, which is its only fault.
    pub fn parse(file: &'t Path, text: &'t str) -> Self {
        let (root, errors) = DeTable::parse_recoverable(text);
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
        let root = root.into_inner();
        let no_toml = errors.len() > SYNTAX_MAX || (root.is_empty() && !errors.is_empty());
        let document = Self { file, root, faults: RefCell::default(), ends, no_toml };
        if no_toml {
            let first = errors.first().and_then(toml::de::Error::span).map(|span| document.line(span.start));
            let remedy = "look whether this is the file that was meant; if it is, correct its syntax, see https://toml.io";
            document.fault(first, "", "the file is not TOML from here on", remedy);
            return document;
        }
        for error in errors {
            // Not the error's own text: it quotes the line, which may hold a key.
            let line = error.span().map(|span| document.line(span.start));
            document.fault(
                line,
                "",
                format!("not TOML: {}", error.message()),
                "correct the syntax, see https://toml.io",
            );
        }
        document
    }

    /// The top-level section.
    pub fn root<'d>(&'d self) -> Section<'d, 't> {
        Section::new(self, String::new(), None, Some(&self.root))
    }

    /// Adds a fault.
    pub fn fault(
        &self,
        line: Option<usize>,
        key: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.faults.borrow_mut().push(Fault {
            file: self.file.to_owned(),
            line,
            key: key.into(),
            what: what.into(),
            remedy: remedy.into(),
            passing: false,
        });
    }

    /// The faults, in the order of their discovery.
    pub fn into_faults(self) -> Vec<Fault> {
        let mut faults = self.faults.into_inner();
        if self.no_toml {
            faults.truncate(1);
        }
        faults
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.ends.partition_point(|end| *end < offset)
    }
}

/// A table of the file, present or not.
pub struct Section<'d, 't> {
    document: &'d Document<'t>,
    path: String,
    line: Option<usize>,
    table: Option<&'d DeTable<'t>>,
    asked: Vec<&'static str>,
}

impl<'d, 't> Section<'d, 't> {
    fn new(
        document: &'d Document<'t>,
        path: String,
        line: Option<usize>,
        table: Option<&'d DeTable<'t>>,
    ) -> Self {
        Self { document, path, line, table, asked: Vec::new() }
    }

    /// Whether the file has this section.
    pub fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// The line of the section's header.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The value of a key, if present.
    pub fn get(&mut self, key: &'static str) -> Option<Field<'d, 't>> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        let (name, value) = self.table?.get_key_value(key)?;
        Some(Field {
            document: self.document,
            path: self.path_of(key),
            line: self.document.line(name.span().start),
            value: value.get_ref(),
        })
    }

    /// The value of a key that is required if the section is present.
    pub fn required(&mut self, key: &'static str, remedy: &str) -> Option<Field<'d, 't>> {
        let field = self.get(key);
        if field.is_none() && self.is_present() {
            self.document.fault(self.line, self.path_of(key), "is missing", remedy);
        }
        field
    }

    /// A subsection.
    pub fn section(&mut self, key: &'static str) -> Section<'d, 't> {
        let absent = Section::new(self.document, self.path_of(key), None, None);
        match self.get(key) {
            Some(field) => field.section().unwrap_or(absent),
            None => absent,
        }
    }

    /// A required subsection.
    pub fn required_section(&mut self, key: &'static str, remedy: &str) -> Section<'d, 't> {
        if self.table.is_some_and(|table| !table.contains_key(key)) {
            self.document.fault(None, format!("[{}]", self.path_of(key)), "is missing", remedy);
        }
        self.section(key)
    }

    /// Adds a fault of the whole section.
    pub fn fault(&self, key: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let key = if key.is_empty() { self.path.clone() } else { self.path_of(key) };
        self.document.fault(self.line, key, what, remedy);
    }

    /// Refuses all keys that were not asked for.
    pub fn finish(self) {
        let Some(table) = self.table else { return };
        for (name, _) in table.iter() {
            let key = name.get_ref().as_ref();
            if self.asked.contains(&key) {
                continue;
            }
            let known = self.asked.iter().copied();
            let remedy = match nearest(key, known.clone()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => {
                    let place = if self.path.is_empty() {
                        "at the top of the file".into()
                    } else {
                        format!("in [{}]", self.path)
                    };
                    format!("remove it; known {place}: {}", known.collect::<Vec<_>>().join(", "))
                }
            };
            self.document.fault(
                Some(self.document.line(name.span().start)),
                self.path_of(key),
                "unknown key",
                remedy,
            );
        }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// A value with its position.
pub struct Field<'d, 't> {
    document: &'d Document<'t>,
    path: String,
    line: usize,
    value: &'d DeValue<'t>,
}

impl<'d, 't> Field<'d, 't> {
    /// The line of the key.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Adds a fault of this value.
    pub fn fault(&self, what: impl Into<String>, remedy: impl Into<String>) {
        self.document.fault(Some(self.line), self.path.clone(), what, remedy);
    }

    fn mistyped(&self, wanted: &str, remedy: &str) {
        // The value is not shown: it may be a key without its quotes.
        self.fault(format!("must be {wanted}, not {}", article(self.value.type_str())), remedy);
    }

    /// The string, or a fault.
    pub fn string(&self) -> Option<&'d str> {
        if let DeValue::String(text) = self.value {
            return Some(text.as_ref());
        }
        self.mistyped("a string", "write it in quotes");
        None
    }

    /// The string, if it is one.
    pub fn as_string(&self) -> Option<&'d str> {
        self.value.as_str()
    }

    /// Whether the value is an array.
    pub fn is_array(&self) -> bool {
        self.value.is_array()
    }

    /// The number, or a fault.
    pub fn integer(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let limits = format!("a whole number from {} to {}", range.start(), range.end());
        let Some(integer) = self.value.as_integer() else {
            self.mistyped(&limits, "write the digits without quotes");
            return None;
        };
        let number =
            i128::from_str_radix(integer.as_str(), integer.radix()).ok().and_then(|n| u64::try_from(n).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(number),
            None => {
                self.fault(format!("{integer} is out of range"), format!("give {limits}"));
                None
            }
        }
    }

    /// `true` or `false`, or a fault.
    pub fn boolean(&self) -> Option<bool> {
        if let DeValue::Boolean(value) = self.value {
            return Some(*value);
        }
        self.mistyped("true or false", "write true or false without quotes");
        None
    }

    /// One of several names, or a fault with the nearest one.
    pub fn one_of<T: Copy>(&self, what: &str, names: &[(&str, T)]) -> Option<T> {
        let text = self.string()?;
        if let Some((_, value)) = names.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        self.fault(format!("\"{text}\" is not {what}"), suggest(text, names.iter().map(|(name, _)| *name)));
        None
    }

    /// The elements of an array, or a fault.
    pub fn array(&self) -> Option<Vec<Field<'d, 't>>> {
        let DeValue::Array(array) = self.value else {
            self.mistyped("an array", "write it in brackets, [ ... ]");
            return None;
        };
        let element = |(index, value): (usize, &'d toml::Spanned<DeValue<'t>>)| Field {
            document: self.document,
            path: format!("{}[{index}]", self.path),
            line: self.document.line(value.span().start),
            value: value.get_ref(),
        };
        Some(array.iter().enumerate().map(element).collect())
    }

    /// The table, or a fault.
    pub fn section(&self) -> Option<Section<'d, 't>> {
        let DeValue::Table(table) = self.value else {
            self.mistyped(
                "a section",
                &format!("write [{}] on a line of its own, its keys below", self.path),
            );
            return None;
        };
        Some(Section::new(self.document, self.path.clone(), Some(self.line), Some(table)))
    }
}

fn article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str, read: impl FnOnce(&mut Section<'_, '_>)) -> Vec<String> {
        let document = Document::parse(Path::new("x.toml"), text);
        let mut root = document.root();
        read(&mut root);
        root.finish();
        document.into_faults().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_faults_are_found_in_one_pass() {
        let found = faults("a = 70000\nb = \"no\"\nhallo = 1\n", |root| {
            root.get("a").unwrap().integer(0..=65535);
            root.get("b").unwrap().boolean();
            root.required("hello", "say hello");
        });
        assert_eq!(
            found,
            [
                "x.toml:1: a: 70000 is out of range\n    remedy: give a whole number from 0 to 65535",
                "x.toml:2: b: must be true or false, not a string\n    remedy: write true or false without quotes",
                "x.toml: hello: is missing\n    remedy: say hello",
                "x.toml:3: hallo: unknown key\n    remedy: did you mean \"hello\"?",
            ]
        );
    }

    #[test]
    fn syntax_faults_have_their_line() {
        let found = faults("a = 1\nb = \n", |root| drop((root.get("a"), root.get("b"))));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("x.toml:2: not TOML: "), "{found:?}");
    }

    #[test]
    fn file_of_another_kind_has_one_fault() {
        let list = "root:x:0:0\n".repeat(30);
        let table = format!("a = 1\n{list}");
        for (text, line) in [("# A letter.\nhello world\n", 2), (list.as_str(), 1), (table.as_str(), 2)] {
            let found = faults(text, |root| drop(root.required("b", "write it")));
            let told = format!("x.toml:{line}: the file is not TOML from here on\n    remedy: look whether");
            assert!(found.len() == 1 && found[0].starts_with(&told), "{found:?}");
        }
    }

    #[test]
    fn mistyped_value_is_not_shown() {
        let found = faults("key = 0x0123456789abcdef\n", |root| {
            root.get("key").unwrap().string();
        });
        assert_eq!(
            found,
            ["x.toml:1: key: must be a string, not an integer\n    remedy: write it in quotes"]
        );
    }
}

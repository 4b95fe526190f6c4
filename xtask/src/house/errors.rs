//! Each variant of a public error enum is named by a test of its crate: `Enum::Variant`, or in a
//! `use Enum::{...}`.
//!
//! An error enum has a name of [`is_error`]. If several modules of a crate have one of the same name,
//! the test must be in the variant's module: below the same file or folder of `src`.

use super::source::is_word;
use super::{Fault, Source};
use std::collections::BTreeSet;

pub(super) const REMEDY: &str =
    "write a test that produces it, remove it, or add it to EXCEPTIONS of xtask/src/house/errors.rs";

/// The crates with a test for each error.
const CRATES: [&str; 8] = ["channel", "dtls", "gateway", "goose", "host", "mqtt", "plan", "smoltcp"];

/// Variants without a test in their crate: crate, variant, reason.
const EXCEPTIONS: [(&str, &str, &str); 13] = [
    ("channel", "Dropped::Stale", "the guard of crates/mqtt makes it, and tests it"),
    ("channel", "Dropped::Unsigned", "the guard of crates/mqtt makes it, and tests it"),
    ("channel", "Dropped::Undated", "the guard of crates/mqtt makes it, and tests it"),
    ("channel", "RotationError::OtherKey", "the guard of crates/mqtt makes it, and tests it"),
    ("gateway", "InstallError::Receive", "no test yet: keys are checked before; channel tests the refusals"),
    ("gateway", "InstallError::Switch", "no test yet: keys are checked before; channel tests the refusals"),
    ("gateway", "InstallError::Transmit", "no test yet: keys are checked before; channel tests the refusals"),
    ("gateway", "RunError::Forwarding", "no test yet: a thread that ends by itself is a bug"),
    ("gateway", "RunError::NotRecorded", "no test yet: needs a daemon whose disk fails at its end"),
    ("gateway", "RunError::NotStarted", "no test yet: holds the fault of one of many steps"),
    ("gateway", "SwitchSaError::NoAnswer", "no test yet: needs a forwarding thread that hangs"),
    ("gateway", "SwitchSaError::NoThread", "no test yet: needs a gateway without an uplink"),
    ("gateway", "SwitchSaError::Refused", "no test yet: channel tests the refusals of the switch"),
];

/// True for the names of reasons that a caller or an operator sees.
fn is_error(name: &str) -> bool {
    ["Error", "ErrorKind"].iter().any(|end| name.ends_with(end))
        || ["Discard", "Dropped", "Failure", "Fault", "Status"].contains(&name)
}

/// A public enum.
struct Enum<'a> {
    source: &'a Source,
    name: &'a str,
    /// The variants, each with its offset.
    variants: Vec<(usize, &'a str)>,
}

/// Variants that no test names, and exceptions that are none.
pub(super) fn faults(sources: &[Source]) -> Vec<Fault> {
    CRATES.iter().flat_map(|name| of_crate(name, sources, &EXCEPTIONS)).collect()
}

fn of_crate(name: &str, sources: &[Source], exceptions: &[(&str, &str, &str)]) -> Vec<Fault> {
    let folder = format!("crates/{name}/");
    let own: Vec<&Source> = sources.iter().filter(|source| source.path.starts_with(&folder)).collect();
    let enums: Vec<Enum<'_>> = own.iter().flat_map(|source| enums(source)).collect();
    let tests: Vec<(&str, BTreeSet<String>)> =
        own.iter().map(|source| (module(&source.path), named(tests(source)))).collect();
    let mut excused: BTreeSet<&str> =
        exceptions.iter().filter(|(of, ..)| *of == name).map(|(_, variant, _)| *variant).collect();
    let mut faults = Vec::new();
    for one in &enums {
        let alone = enums.iter().filter(|other| other.name == one.name).count() == 1;
        for (at, variant) in &one.variants {
            let path = format!("{}::{variant}", one.name);
            let here = |of: &str| alone || of.is_empty() || of == module(&one.source.path);
            let is_tested = tests.iter().any(|(of, named)| here(of) && named.contains(&path));
            let is_excused = excused.remove(path.as_str());
            if is_tested == is_excused {
                let what = if is_tested { "has a test, and is an exception" } else { "is named by no test" };
                faults.push(Fault::new(&one.source.path, one.source.line(*at), format!("`{path}` {what}")));
            }
        }
    }
    let gone = excused.iter().map(|variant| format!("the exception `{variant}` of {name} does not exist"));
    faults.extend(gone.map(|what| Fault::new("xtask/src/house/errors.rs", 1, what)));
    faults
}

/// The first file or folder below `src`; empty for tests beside `src`.
fn module(path: &str) -> &str {
    let below = path.split_once("/src/").map_or("", |(_, below)| below);
    let first = below.split('/').next().unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first)
}

/// The test code of a file: all of a file of tests, otherwise what follows `#[cfg(test)]` on a
/// module with a body.
fn tests(source: &Source) -> &str {
    if source.path.contains("/tests/") || source.path.ends_with("/tests.rs") {
        return &source.code;
    }
    let mark = source.code.match_indices("#[cfg(test)]").find(|(at, mark)| {
        let item = source.code[at + mark.len()..].trim_start();
        item.starts_with("mod ") && item.find('{') < item.find(';')
    });
    mark.map_or("", |(at, _)| &source.code[at..])
}

/// The paths `Enum::Variant` in test code, those of lists included.
fn named(code: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for (at, _) in code.match_indices("::") {
        let before = code[..at].rsplit(|c| !is_word(c)).next().unwrap_or_default();
        let rest = &code[at + 2..];
        if let Some(list) = rest.strip_prefix('{') {
            let list = list.split('}').next().unwrap_or_default();
            let items = list.split(',').map(|item| word(item.trim_start()));
            named.extend(items.map(|item| format!("{before}::{item}")));
        } else {
            named.insert(format!("{before}::{}", word(rest)));
        }
    }
    named
}

/// The word at the start of a text.
fn word(text: &str) -> &str {
    text.split(|c| !is_word(c)).next().unwrap_or_default()
}

/// The public error enums of a file, without its tests. The macro `refusals!` makes `Dropped` of its
/// lines.
fn enums(source: &Source) -> Vec<Enum<'_>> {
    let end = source.code.len() - tests(source).len();
    let code = &source.code[..end];
    let mut found = Vec::new();
    for at in source.words("enum").filter(|at| *at < end && code[..*at].trim_end().ends_with("pub")) {
        let name = word(code[at + "enum".len()..].trim_start());
        let Some(open) = code[at..].find('{').map(|open| at + open + 1) else { continue };
        let body = &code[open..open + body(&code[open..])];
        // The body of a macro's definition.
        if is_error(name) && !body.contains('$') {
            found.push(Enum { source, name, variants: items(open, body, ',') });
        }
    }
    for (at, mark) in code.match_indices("refusals! {") {
        let open = at + mark.len();
        let body = &code[open..open + body(&code[open..])];
        found.push(Enum { source, name: "Dropped", variants: items(open, body, ';') });
    }
    found
}

/// Octets up to the bracket that closes a body.
fn body(code: &str) -> usize {
    let mut depth = 0_i32;
    let end = code.char_indices().find(|(_, c)| {
        depth += i32::from("{([".contains(*c)) - i32::from("})]".contains(*c));
        depth < 0
    });
    end.map_or(code.len(), |(at, _)| at)
}

/// The first word of each item of a list, with its offset. Attributes are skipped.
fn items(from: usize, list: &str, separator: char) -> Vec<(usize, &str)> {
    let (mut depth, mut start, mut items) = (0_i32, 0, Vec::new());
    for (at, c) in list.char_indices().chain([(list.len(), separator)]) {
        depth += i32::from("{([".contains(c)) - i32::from("})]".contains(c));
        if depth != 0 || c != separator {
            continue;
        }
        let mut item = &list[start..at];
        while let Some(rest) = item.trim_start().strip_prefix("#[") {
            item = rest.split_once(']').map_or("", |(_, rest)| rest);
        }
        let name = word(item.trim_start());
        if !name.is_empty() {
            let skipped = item.len() - item.trim_start().len();
            items.push((from + at - item.len() + skipped, name));
        }
        start = at + 1;
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "pub enum AError {\n    /// One, of {two}.\n    One,\n    #[x(y)]\n    Two(u8, u8),\n    \
                       Three { a: u8, b: [u8; 2] },\n}\nenum BError { One }\npub enum C { One }\n";

    fn told(files: &[(&str, &str)], exceptions: &[(&str, &str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        of_crate("a", &sources, exceptions).iter().map(Fault::to_string).collect()
    }

    #[test]
    fn untested_variants_are_found() {
        let none = [
            "crates/a/src/x.rs:3: `AError::One` is named by no test",
            "crates/a/src/x.rs:5: `AError::Two` is named by no test",
            "crates/a/src/x.rs:6: `AError::Three` is named by no test",
        ];
        assert_eq!(told(&[("crates/a/src/x.rs", LIB)], &[]), none);
        // Code, comments, literals and other crates are no tests.
        let used = "fn f() { AError::One; } // AError::Two\nconst A: &str = \"AError::Three\";";
        let others = [("crates/a/src/x.rs", LIB), ("crates/a/src/y.rs", used), ("crates/b/tests/y.rs", used)];
        assert_eq!(told(&others, &[]), none);
    }

    #[test]
    fn tests_name_variants_in_each_form() {
        let inside = format!("{LIB}#[cfg(test)]\nmod tests {{ use AError::{{One, Two as T}}; }}");
        for (path, text, left) in [
            ("crates/a/src/x.rs", inside.as_str(), 1),
            ("crates/a/src/x/tests.rs", "f(AError::One, AError::Two(1, 2))", 1),
            ("crates/a/tests/z.rs", "matches!(a, Err(a::AError::Three { .. }))", 2),
            ("crates/a/src/y.rs", "#[cfg(test)]\nmod tests;\nfn f() { AError::One }", 3),
        ] {
            let files = [("crates/a/src/x.rs", LIB), (path, text)];
            let from = usize::from(path == files[0].0);
            assert_eq!(told(&files[from..], &[]).len(), left, "{path}: {text}");
        }
    }

    #[test]
    fn modules_with_one_name_have_their_own_tests() {
        let refusals = "macro_rules! refusals { () => { pub enum Dropped { $( $name, )* } } }\n\
                        refusals! {\n    /// it is old\n    Late, late, \"too late\";\n    Bad, bad, \"b;\";\n}";
        let other = "pub enum Dropped { Late }";
        let here = [
            ("crates/a/src/x/counters.rs", refusals),
            ("crates/a/src/x/tests.rs", "Dropped::Late; Dropped::Bad"),
            ("crates/a/src/y.rs", other),
        ];
        assert_eq!(told(&here[..2], &[]), [""; 0]);
        assert_eq!(told(&here, &[]), ["crates/a/src/y.rs:1: `Dropped::Late` is named by no test"]);
    }

    #[test]
    fn exceptions_must_be_needed() {
        let files =
            [("crates/a/src/x.rs", "pub enum AError { One, Two }"), ("crates/a/tests/z.rs", "AError::One")];
        assert_eq!(told(&files, &[("a", "AError::Two", "why")]), [""; 0]);
        assert_eq!(
            told(&files, &[("a", "AError::One", "why"), ("a", "AError::Three", "why"), ("b", "X", "why")]),
            [
                "crates/a/src/x.rs:1: `AError::One` has a test, and is an exception",
                "crates/a/src/x.rs:1: `AError::Two` is named by no test",
                "xtask/src/house/errors.rs:1: the exception `AError::Three` of a does not exist",
            ]
        );
    }
}

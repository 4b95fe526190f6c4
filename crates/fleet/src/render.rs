//! The files of a device: those of its role, with its values, and those of its groups.
//!
//! A role is a directory of templates. `${name}`, `${role}`, `${cell}`, `${id}` and `${KEY}` stand for
//! values of the device; in an overlay also `${tunnel}` and `${peers}`.

use std::collections::BTreeMap;

use crate::bearer::Given;
use crate::document::Settings;
use crate::enrol::is_name;

/// Why the files of a device cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A template asks for a value that the device does not have.
    #[error("{file}, line {line}: ${{{key}}} has no value: `antedate fleet set device {device} {key}=VALUE`")]
    NoValue {
        /// The template.
        file: String,
        /// Its line.
        line: usize,
        /// The name of the value.
        key: String,
        /// The device.
        device: String,
    },
    /// `${` without an end.
    #[error("{file}, line {line}: ${{ has no end: write ${{NAME}}")]
    NoEnd {
        /// The template.
        file: String,
        /// Its line.
        line: usize,
    },
    /// The role has no files.
    #[error("the role \"{0}\" has no files: `antedate fleet set role {0} gateway.toml`")]
    NoRole(String),
    /// A template has the name of a file that the groups of the device fill.
    #[error(
        "the role has a template \"{0}\", which is the name of the file with the keys of a group: give it another name"
    )]
    Taken(String),
    /// A name must not be that of a file.
    #[error("\"{0}\" is not the name of a file that a device takes: letters, digits and - _ .")]
    Name(String),
}

/// What the templates say of a device.
#[derive(Debug, Clone, Copy)]
pub struct Device<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its identifier.
    pub id: &'a str,
    /// Its role.
    pub role: &'a str,
    /// Its cell, or empty.
    pub cell: &'a str,
    /// Its values.
    pub values: &'a BTreeMap<String, String>,
}

/// The files of a device.
///
/// # Errors
/// [`RenderError`].
pub fn render(
    device: Device<'_>,
    templates: &BTreeMap<String, String>,
    given: Given,
) -> Result<Settings, RenderError> {
    if templates.is_empty() && given.files.is_empty() {
        return Err(RenderError::NoRole(device.role.to_owned()));
    }
    let mut files = given.files;
    for (file, template) in templates {
        if !is_name(file) {
            return Err(RenderError::Name(file.clone()));
        }
        if files.contains_key(file) {
            return Err(RenderError::Taken(file.clone()));
        }
        files.insert(file.clone(), fill(device, file, template, &given.values)?);
    }
    Ok(Settings { files, ..Settings::default() })
}

fn fill(
    device: Device<'_>,
    file: &str,
    template: &str,
    given: &BTreeMap<String, String>,
) -> Result<String, RenderError> {
    let mut text = String::with_capacity(template.len());
    for (index, line) in template.split_inclusive('\n').enumerate() {
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once("${") {
            text.push_str(before);
            let line = index + 1;
            let (key, behind) =
                behind.split_once('}').ok_or_else(|| RenderError::NoEnd { file: file.to_owned(), line })?;
            let value = match key {
                "name" => Some(device.name),
                "id" => Some(device.id),
                "role" => Some(device.role),
                "cell" => Some(device.cell),
                _ => given.get(key).or_else(|| device.values.get(key)).map(String::as_str),
            };
            let no_value = || RenderError::NoValue {
                file: file.to_owned(),
                line,
                key: key.to_owned(),
                device: device.name.to_owned(),
            };
            text.push_str(value.ok_or_else(no_value)?);
            rest = behind;
        }
        text.push_str(rest);
    }
    Ok(text)
}

/// Lines that came and went, of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The file.
    pub file: String,
    /// Lines that are new.
    pub added: usize,
    /// Lines that are gone.
    pub removed: usize,
}

/// What differs between two settings. Contents are not shown: they may be keys.
#[must_use]
pub fn differences(before: &Settings, after: &Settings) -> Vec<Difference> {
    let mut names: Vec<&String> = before.files.keys().chain(after.files.keys()).collect();
    names.sort();
    names.dedup();
    let lines = |settings: &Settings, name: &str| -> Vec<String> {
        settings.files.get(name).map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default()
    };
    let missing = |of: &[String], within: &[String]| of.iter().filter(|line| !within.contains(line)).count();
    let mut found = Vec::new();
    for file in names {
        if before.files.get(file) == after.files.get(file) {
            continue;
        }
        let (old, new) = (lines(before, file), lines(after, file));
        found.push(Difference {
            file: file.clone(),
            added: missing(&new, &old),
            removed: missing(&old, &new),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn device(values: &BTreeMap<String, String>) -> Device<'_> {
        Device { name: "press", id: "abcdefghijklmnop", role: "gateway", cell: "line4", values }
    }

    #[test]
    fn values_fill_templates() {
        let values = files(&[("port", "eth1")]);
        let templates = files(&[("gateway.toml", "# ${name} of ${cell}\ninterface = \"${port}\"\n")]);
        let given = || Given { files: files(&[("cak", "key")]), values: files(&[("peers", "a\nb\n")]) };
        let settings = render(device(&values), &templates, given()).unwrap();
        assert_eq!(settings.files["gateway.toml"], "# press of line4\ninterface = \"eth1\"\n");
        assert_eq!(settings.files["cak"], "key");
        let templates = files(&[("peers", "${peers}")]);
        assert_eq!(render(device(&values), &templates, given()).unwrap().files["peers"], "a\nb\n");
        let taken = render(device(&values), &files(&[("cak", "mine")]), given());
        assert_eq!(taken, Err(RenderError::Taken("cak".into())));
    }

    #[test]
    fn faults_have_their_line() {
        let none = BTreeMap::new();
        let render = |of: &[(&str, &str)]| render(device(&none), &files(of), Given::default()).unwrap_err();
        let missing = render(&[("gateway.toml", "a\n${port}\n")]);
        assert!(matches!(&missing, RenderError::NoValue { line: 2, key, .. } if key == "port"), "{missing}");
        assert!(matches!(render(&[("gateway.toml", "${port\n")]), RenderError::NoEnd { line: 1, .. }));
        assert_eq!(render(&[]), RenderError::NoRole("gateway".into()));
        assert_eq!(render(&[("../x", "")]), RenderError::Name("../x".into()));
    }

    #[test]
    fn differences_show_no_content() {
        let settings = |of| Settings { files: files(of), ..Settings::default() };
        let before = settings(&[("a", "1\n2\n"), ("b", "x\n"), ("c", "same")]);
        let after = settings(&[("a", "1\n3\n4\n"), ("c", "same"), ("d", "y\n")]);
        let shown: Vec<(String, usize, usize)> =
            differences(&before, &after).into_iter().map(|d| (d.file, d.added, d.removed)).collect();
        assert_eq!(shown, [("a".into(), 2, 1), ("b".into(), 0, 1), ("d".into(), 1, 0)]);
    }
}

//! The files of figures in the report's folder: a report replaces those that an earlier one wrote,
//! and no other.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::figures::{self, Figure};
use super::{ReportError, chosen};

/// Endings of a figure's files.
const ENDINGS: [&str; 2] = ["svg", "csv"];

/// The files of an earlier report, by its `report.json`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Earlier {
    /// Names of figures, with digests of their files.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
}

impl Earlier {
    /// Reads the earlier report of a folder. A file that is no report has written nothing.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join("report.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The first of these files in `folder` that is there, has content, and is none that the earlier
    /// report wrote: another program's, or one that was changed since.
    #[must_use]
    pub fn foreign<'a>(&self, folder: &Path, names: impl IntoIterator<Item = &'a str>) -> Option<PathBuf> {
        names.into_iter().find_map(|name| {
            let path = folder.join(name);
            // What cannot be read is not ours, unless it is not there.
            let octets = match fs::read(&path) {
                Ok(octets) => octets,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
                Err(_) => return Some(path),
            };
            let ours = octets.is_empty() || self.files.get(name).is_some_and(|of| *of == digest(&octets));
            (!ours).then_some(path)
        })
    }
}

/// The names of all files that a report on these papers may write for figures.
///
/// # Errors
///
/// The data of a paper does not have its form.
pub fn figure_files(only: Option<&str>) -> Result<Vec<String>, ReportError> {
    let papers = chosen(only)?;
    let names = papers
        .iter()
        .flat_map(|paper| paper.figures.iter().map(|figure| format!("{}-{}", paper.name, figure.name)));
    let names = names.chain(figures::OWN.map(str::to_owned));
    Ok(names.flat_map(|name| ENDINGS.map(|ending| format!("{name}.{ending}"))).collect())
}

/// The digests of the files of figures, by name.
pub(super) fn digests(figures: &[Figure]) -> BTreeMap<String, String> {
    let of = |figure: &Figure| {
        let texts = [figure.svg.clone(), figure.csv.clone()];
        ENDINGS
            .into_iter()
            .zip(texts)
            .map(|(ending, text)| (format!("{}.{ending}", figure.name), digest(text.as_bytes())))
            .collect::<Vec<_>>()
    };
    figures.iter().flat_map(of).collect()
}

/// The beginning of the SHA-256, in hex.
fn digest(octets: &[u8]) -> String {
    Sha256::digest(octets).iter().take(8).map(|octet| format!("{octet:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_files_are_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let figure = Figure {
            name: "own-latencies".into(),
            paper: String::new(),
            title: String::new(),
            svg: "<svg/>".into(),
            csv: "case\r\n".into(),
        };
        let files = digests(&[figure]);
        let report = serde_json::json!({ "files": files }).to_string();
        fs::write(path("report.json"), report).expect("written");
        let names = ["own-latencies.csv", "own-latencies.svg"];
        let earlier = Earlier::read(folder.path());
        assert_eq!(earlier.foreign(folder.path(), names), None, "none is there");
        fs::write(path(names[0]), "case\r\n").expect("written");
        fs::write(path(names[1]), "").expect("written");
        assert_eq!(earlier.foreign(folder.path(), names), None, "one is ours, one is empty");
        fs::write(path(names[0]), "case\r\nmine\r\n").expect("written");
        assert_eq!(earlier.foreign(folder.path(), names), Some(path(names[0])), "it was changed");
        assert_eq!(Earlier::default().foreign(folder.path(), names), Some(path(names[0])));
        fs::remove_file(path(names[0])).expect("removed");
        fs::create_dir(path(names[0])).expect("a folder");
        assert_eq!(earlier.foreign(folder.path(), names), Some(path(names[0])), "it cannot be read");
        for broken in ["", "[]", "{\"files\":3}"] {
            fs::write(path("report.json"), broken).expect("written");
            assert!(Earlier::read(folder.path()).files.is_empty(), "{broken}");
        }
    }

    #[test]
    fn every_figure_has_its_name_in_advance() {
        let all = figure_files(None).expect("the papers' files");
        assert!(all.len() > 40 && all.contains(&"lackorzynski2020-figure-4b.csv".to_owned()), "{all:?}");
        assert!(figure_files(Some("hohmann2020")).expect("a paper").len() < all.len());
    }
}

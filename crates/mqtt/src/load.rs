//! Reads the files of a client: groups, its own key, its state.

use std::path::PathBuf;

use antedate_host::fault::{Fault, Faults};
use antedate_host::numbers::VOLATILE;

use crate::file::{Device, GroupFile, NAME_RULE, doubled, is_name, keyless, overlaps};
use crate::guard::Guard;
use crate::store::Store;

/// The files of a client.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// Group files.
    pub keys: Vec<PathBuf>,
    /// The device's own key, for groups with a manager.
    pub device: Option<PathBuf>,
    /// The directory of the sequence numbers.
    pub state: Option<PathBuf>,
}

impl Files {
    /// Reads the files. `publisher` defaults to the device's name. Returns warnings too, a line each.
    ///
    /// # Errors
    /// All faults of the files, or that of the state.
    pub fn load(&self, publisher: Option<String>) -> Result<(Guard, Vec<String>), Faults> {
        let mut faults = Vec::new();
        let mut groups = Vec::new();
        for file in &self.keys {
            match GroupFile::load(file) {
                Ok(group) => groups.push(group),
                Err(found) => faults.extend(found),
            }
        }
        faults.extend(doubled(&groups));
        let device = match &self.device {
            Some(file) => Device::load(file).map_err(|found| faults.extend(found)).ok(),
            None => {
                faults.extend(keyless(&groups, None));
                None
            }
        };
        if let Some(name) = publisher.as_ref().filter(|name| !is_name(name)) {
            faults.push(Fault::of_file(name.as_ref(), "is no publisher's name", NAME_RULE));
        }
        if !faults.is_empty() {
            return Err(Faults::new(faults));
        }
        let mut warnings: Vec<String> = groups
            .iter()
            .filter(|group| !group.algorithm.is_authenticated())
            .map(|group| {
                format!(
                    "{}: {} authenticates nothing: for measurements only",
                    group.file.display(),
                    group.algorithm
                )
            })
            .collect();
        warnings.extend(overlaps(&groups));
        let store = self.state.as_deref().map(Store::open).transpose()?;
        if let (Some(store), Some(state)) = (&store, &self.state) {
            let state = state.display();
            if store.is_homeless() {
                warnings
                    .push(format!("{state}: made by an earlier version; copies of it are told from now on"));
            }
            if store.is_volatile() {
                warnings.push(format!("{state}: {VOLATILE}"));
            }
        }
        Ok((Guard::new(groups, device, store, publisher), warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_are_told_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = |name: &str| folder.path().join(name);
        let files = Files { keys: vec![missing("a"), missing("b")], device: Some(missing("c")), state: None };
        let faults = files.load(Some("no name".into())).expect_err("nothing is there");
        assert_eq!(faults.len(), 4, "{faults}");
    }
}

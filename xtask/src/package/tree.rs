//! The installed files.

use crate::shell::{Run, program, root};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The program.
pub(super) const PROGRAM: &str = "usr/bin/antedate";
const DOCUMENTS: &str = "usr/share/doc/antedate";

/// A folder with the files of a package at their places.
pub(super) struct Tree {
    pub(super) place: PathBuf,
    /// The seconds of the newest commit since 1970, so that the same sources give the same package.
    pub(super) time: String,
}

impl Tree {
    /// An empty one.
    pub(super) fn new(place: &Path) -> Result<Self, String> {
        if place.exists() {
            fs::remove_dir_all(place).map_err(|e| format!("{}: {e}", place.display()))?;
        }
        fs::create_dir_all(place).map_err(|e| format!("{}: {e}", place.display()))?;
        let time = program("git").args(["log", "-1", "--format=%ct"]).read(20)?.trim().to_owned();
        Ok(Self { place: place.to_owned(), time })
    }

    /// Adds the program, stripped.
    pub(super) fn program(&mut self, strip: &str, binary: &Path) -> Result<(), String> {
        let to = self.folder("usr/bin")?.join("antedate");
        program(strip).arg("-o").arg(&to).arg(binary).read(60)?;
        mode(&to, 0o755)
    }

    /// Adds all other files: these units, and the defaults of their options.
    pub(super) fn rest(&self, units: &[&str]) -> Result<(), String> {
        let (sources, packaging) = (root(), root().join("packaging"));
        let examples = sources.join("docs/examples");
        for unit in units {
            self.copy(&examples.join(unit), "usr/lib/systemd/system")?;
        }
        self.copy_as(&packaging.join("sysusers.conf"), "usr/lib/sysusers.d/antedate.conf")?;
        self.copy_as(&packaging.join("tmpfiles.conf"), "usr/lib/tmpfiles.d/antedate.conf")?;
        for file in files(&packaging.join("etc"))? {
            let below = file.strip_prefix(&packaging).map_err(|e| e.to_string())?;
            let owner = file.file_name().map(|name| format!("{}.service", name.display()));
            if below.starts_with("etc/default") && owner.is_some_and(|unit| !units.contains(&&*unit)) {
                continue;
            }
            self.copy_as(&file, &below.display().to_string())?;
        }
        for file in files(&sources.join("docs/src"))? {
            let below = file.strip_prefix(sources.join("docs/src")).map_err(|e| e.to_string())?;
            self.copy_as(&file, &format!("{DOCUMENTS}/{}", below.display()))?;
        }
        for example in ["antedate.rules.yml", "antedate.dashboard.json", "antedate-events.service"] {
            self.copy(&examples.join(example), &format!("{DOCUMENTS}/examples"))?;
        }
        self.copy(&packaging.join("wireshark/antedate.lua"), &format!("{DOCUMENTS}/wireshark"))?;
        self.copy(&sources.join("CHANGELOG.md"), DOCUMENTS)?;
        let licences = ["LICENSE-APACHE", "LICENSE-MIT"].map(|name| fs::read_to_string(sources.join(name)));
        let [apache, mit] = licences;
        let texts = (apache.map_err(|e| e.to_string())?, mit.map_err(|e| e.to_string())?);
        let copyright = format!("Antedate is licensed under Apache-2.0 or MIT.\n\n{}\n{}", texts.0, texts.1);
        self.write(&format!("{DOCUMENTS}/copyright"), &copyright)
    }

    /// Each file of `etc`, from the root, in order.
    pub(super) fn conffiles(&self) -> Result<Vec<String>, String> {
        self.below("etc")
    }

    /// Each file below a folder of the tree, from the root, in order.
    pub(super) fn below(&self, folder: &str) -> Result<Vec<String>, String> {
        let found = files(&self.place.join(folder))?;
        Ok(found
            .iter()
            .filter_map(|file| file.strip_prefix(&self.place).ok()?.to_str().map(Into::into))
            .collect())
    }

    /// The octets of a file.
    pub(super) fn size_of(&self, file: &str) -> Result<u64, String> {
        let file = self.place.join(file);
        Ok(fs::metadata(&file).map_err(|e| format!("{}: {e}", file.display()))?.len())
    }

    /// Packs the tree in a tarball, below a folder of this name.
    pub(super) fn tar(&self, name: &str, tarball: &Path) -> Result<(), String> {
        let mut command = program("tar");
        command.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        command.arg(format!("--mtime=@{}", self.time)).arg(format!("--transform=s,^\\.,{name},"));
        command.arg("--exclude=./DEBIAN").arg("-f").arg(tarball).arg("-C").arg(&self.place).arg(".");
        command.env("GZIP", "-n").read(120).map(drop)
    }

    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.place.join(name);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(folder)
    }

    /// Writes a file.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let to = self.place.join(name);
        self.folder(Path::new(name).parent().and_then(Path::to_str).unwrap_or_default())?;
        fs::write(&to, text).map_err(|e| format!("{}: {e}", to.display()))?;
        mode(&to, 0o644)
    }

    pub(super) fn copy(&self, file: &Path, folder: &str) -> Result<(), String> {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.copy_as(file, &format!("{folder}/{name}"))
    }

    fn copy_as(&self, file: &Path, name: &str) -> Result<(), String> {
        let to = self.place.join(name);
        self.folder(Path::new(name).parent().and_then(Path::to_str).unwrap_or_default())?;
        fs::copy(file, &to).map_err(|e| format!("{}: {e}", file.display()))?;
        mode(&to, 0o644)
    }
}

/// Sets the rights of a file.
pub(super) fn mode(file: &Path, mode: u32) -> Result<(), String> {
    fs::set_permissions(file, fs::Permissions::from_mode(mode))
        .map_err(|e| format!("{}: {e}", file.display()))
}

/// All files below a folder, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let fault = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::cache;

    #[test]
    fn gateway_alone_has_its_units() {
        let place = cache("tree-test").expect("a folder");
        let tree = Tree::new(&place).expect("a tree");
        tree.rest(&["antedate-gateway.service", "antedate-overlay.service"]).expect("the files");
        let names = |folder| tree.below(folder).expect("files");
        assert_eq!(names("usr/lib/systemd/system").len(), 2);
        assert_eq!(names("etc"), ["etc/antedate/gateway.toml", "etc/antedate/overlay.toml"]);
        tree.rest(&["antedate-mqtt-proxy.service"]).expect("the files");
        assert!(names("etc").contains(&"etc/default/antedate-mqtt-proxy".into()));
        fs::remove_dir_all(place).expect("removed");
    }
}

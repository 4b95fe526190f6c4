//! An image in the layout of the Open Container Initiative (image-spec 1.0): a folder of blobs, each
//! named by its SHA-256. It has one layer and needs no daemon to be made.

use super::tree::{PROGRAM, Tree};
use crate::shell::{Run, program};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the image in the layout.
const NAME: &str = "org.opencontainers.image.ref.name";
/// The user of the program: `nobody` of Debian. The gateway needs `--user 0`, or a capability.
const USER: &str = "65534:65534";

/// A layout in a folder, to which an image for each CPU is added.
pub(super) struct Layout {
    place: PathBuf,
    /// The name of the images.
    name: String,
    manifests: Vec<Value>,
}

impl Layout {
    /// An empty one.
    pub(super) fn new(place: &Path, version: &str) -> Result<Self, String> {
        if place.exists() {
            fs::remove_dir_all(place).map_err(|e| format!("{}: {e}", place.display()))?;
        }
        fs::create_dir_all(place.join("blobs/sha256")).map_err(|e| format!("{}: {e}", place.display()))?;
        // A tag has neither `~` nor `+`.
        let name = version.replace(['~', '+'], "-");
        Ok(Self { place: place.to_owned(), name, manifests: Vec::new() })
    }

    /// Adds the image of a tree whose program is static, for a CPU as Go names it.
    pub(super) fn add(&mut self, tree: &Tree, architecture: &str) -> Result<(), String> {
        let layer = self.place.join("layer.tar");
        let mut tar = program("tar");
        tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.arg(format!("--mtime=@{}", tree.time)).arg("-f").arg(&layer).arg("-C").arg(&tree.place);
        tar.args([PROGRAM, "usr/share/doc/antedate/copyright"]).read(60)?;
        let plain = sha256(&layer)?;
        program("gzip").args(["-n", "-9"]).arg(&layer).read(120)?;
        let layer =
            self.blob(&self.place.join("layer.tar.gz"), "application/vnd.oci.image.layer.v1.tar+gzip")?;
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": { "Entrypoint": [format!("/{PROGRAM}")], "Cmd": ["--help"], "User": USER },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{plain}")] },
        });
        let config = self.json(&config, "application/vnd.oci.image.config.v1+json")?;
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({ "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer] });
        let mut manifest = self.json(&manifest, kind)?;
        manifest["platform"] = json!({ "architecture": architecture, "os": "linux" });
        self.manifests.push(manifest);
        Ok(())
    }

    /// Writes the index of the images, and that of the layout, which has one entry of the name: readers
    /// take the first of a name, and choose by CPU below it.
    pub(super) fn finish(self) -> Result<PathBuf, String> {
        let kind = "application/vnd.oci.image.index.v1+json";
        let images = json!({ "schemaVersion": 2, "mediaType": kind, "manifests": self.manifests });
        let mut images = self.json(&images, kind)?;
        images["annotations"] = json!({ NAME: self.name });
        let index = json!({ "schemaVersion": 2, "mediaType": kind, "manifests": [images] });
        for (name, text) in [("index.json", index), ("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }))]
        {
            let file = self.place.join(name);
            fs::write(&file, text.to_string()).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        Ok(self.place)
    }

    fn json(&self, document: &Value, kind: &str) -> Result<Value, String> {
        let file = self.place.join("document");
        fs::write(&file, document.to_string()).map_err(|e| format!("{}: {e}", file.display()))?;
        self.blob(&file, kind)
    }

    /// Moves a file among the blobs. Returns its descriptor.
    fn blob(&self, file: &Path, kind: &str) -> Result<Value, String> {
        let digest = sha256(file)?;
        let size = fs::metadata(file).map_err(|e| format!("{}: {e}", file.display()))?.len();
        let to = self.place.join("blobs/sha256").join(&digest);
        fs::rename(file, &to).map_err(|e| format!("{}: {e}", to.display()))?;
        Ok(json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": size }))
    }
}

fn sha256(file: &Path) -> Result<String, String> {
    let said = program("sha256sum").arg(file).read(60)?;
    said.split_whitespace().next().map(Into::into).ok_or_else(|| format!("{}: no digest", file.display()))
}

#[cfg(test)]
#[path = "../../../crates/wire/tests/skip/mod.rs"]
mod skip;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{cache, has_program};

    /// What an independent reader takes for a CPU.
    fn chosen(place: &Path, architecture: &str) -> Value {
        let mut skopeo = program("skopeo");
        skopeo.args(["--override-arch", architecture, "inspect", "--config"]);
        let said = skopeo.arg(format!("oci:{}:0.1.0-1", place.display())).read(20).expect("an image");
        serde_json::from_str(&said).expect("JSON")
    }

    /// The blob that a descriptor names.
    fn blob(place: &Path, descriptor: &Value) -> PathBuf {
        let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        let file = place.join("blobs/sha256").join(digest.expect("a digest"));
        assert_eq!(sha256(&file).as_deref(), Ok(digest.expect("a digest")));
        assert_eq!(fs::metadata(&file).expect("a blob").len(), descriptor["size"].as_u64().expect("a size"));
        file
    }

    fn document(file: &Path) -> Value {
        serde_json::from_str(&fs::read_to_string(file).expect("a text")).expect("JSON")
    }

    #[test]
    fn digests_lead_from_index_to_program() {
        let folder = cache("oci-test").expect("a folder");
        let tree = Tree::new(&folder.join("tree")).expect("a tree");
        tree.write(PROGRAM, "the program\n").expect("written");
        tree.write("usr/share/doc/antedate/copyright", "the licence\n").expect("written");
        let make = || {
            let mut layout = Layout::new(&folder.join("image"), "0.1.0~1").expect("a layout");
            layout.add(&tree, "amd64").expect("an image");
            layout.add(&tree, "arm64").expect("an image");
            let place = layout.finish().expect("an index");
            (fs::read(place.join("index.json")).expect("an index"), place)
        };
        let (first, place) = make();
        assert_eq!(make().0, first, "the same sources give the same image");
        let index = document(&place.join("index.json"));
        assert_eq!(index["manifests"].as_array().map(Vec::len), Some(1), "a name has one entry");
        assert_eq!(index["manifests"][0]["annotations"][NAME], "0.1.0-1");
        let images = document(&blob(&place, &index["manifests"][0]));
        assert_eq!(images["manifests"].as_array().map(Vec::len), Some(2));
        let manifest = document(&blob(&place, &images["manifests"][1]));
        let config = document(&blob(&place, &manifest["config"]));
        assert_eq!(config["architecture"], "arm64");
        let layer = blob(&place, &manifest["layers"][0]);
        let said = program("tar").arg("-xzOf").arg(&layer).arg(PROGRAM).read(20).expect("unpacked");
        assert_eq!(said, "the program\n");
        let mut plain = program("sh");
        plain.args(["-c", "gzip -dc \"$0\" | sha256sum"]).arg(&layer);
        let plain = plain.read(20).expect("a digest");
        let named = config["rootfs"]["diff_ids"][0].as_str().expect("a digest").to_owned();
        assert_eq!(
            Some(&*named),
            plain.split_whitespace().next().map(|sum| format!("sha256:{sum}")).as_deref()
        );
        if has_program("skopeo") {
            for architecture in ["amd64", "arm64"] {
                let config = chosen(&place, architecture);
                assert_eq!(config["architecture"], architecture);
                assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/antedate");
            }
            let copy = folder.join("copy.tar");
            let (from, to) =
                (format!("oci:{}:0.1.0-1", place.display()), format!("docker-archive:{}", copy.display()));
            program("skopeo")
                .args(["--override-arch", "arm64", "copy", &from, &to])
                .read(20)
                .expect("a copy");
            assert!(fs::metadata(copy).expect("a copy").len() > 0);
        } else {
            skip::skipped("the image by an independent reader: no program skopeo");
        }
        fs::remove_dir_all(folder).expect("removed");
    }
}

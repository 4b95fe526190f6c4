//! `cargo xtask sbom`: lists of the components of what is shipped, in the format CycloneDX, by
//! cargo-cyclonedx.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::setup::tools;
use xtask::shell::{Run, cache, cargo, program, root};

/// What is shipped: the packages that have a list of their own.
const SHIPPED: [&str; 5] =
    ["antedate", "antedate-capi", "antedate-mosquitto-plugin", "antedate-node", "antedate-python"];
/// Name of the files that the tool writes beside each manifest.
const NAME: &str = "antedate-sbom";
/// The version of the format, as of ECMA-424.
const FORMAT: &str = "1.5";

/// Writes the lists to `target/sbom`, and prints the number of components of each.
pub(crate) fn main() -> Result<bool, String> {
    let folder = cache("sbom")?;
    for package in SHIPPED {
        let (file, components) = write(package, &folder)?;
        println!("{}: {components} components", file.display());
    }
    Ok(true)
}

/// Writes the list of a package.
fn write(package: &str, folder: &Path) -> Result<(PathBuf, usize), String> {
    let manifests = manifests()?;
    let (_, own) = manifests.iter().find(|(name, _)| name == package).ok_or_else(|| unknown(package))?;
    let made = made(&manifests);
    // The tool ignores the lock file's absence; with it the versions are those that are built.
    let mut tool = program(tools::cargo_cyclonedx()?);
    tool.args(["cyclonedx", "--format", "json", "--spec-version", FORMAT, "--override-filename", NAME]);
    tool.args(["--no-build-deps", "--quiet", "--manifest-path"]).arg(own);
    // The time of the commit, so that a list of the same sources is the same.
    let done = tool.env("SOURCE_DATE_EPOCH", commit_time()?).bounded(120);
    let list = own.with_file_name(format!("{NAME}.json"));
    let text = done.and_then(|()| fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display())));
    for file in &made {
        // It writes one for each member of the workspace.
        let _ = fs::remove_file(file);
    }
    let text = text?;
    let components = check(&text, package)?;
    let file = folder.join(format!("{package}.cdx.json"));
    fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok((file, components))
}

/// The files that the tool makes.
fn made(manifests: &[(String, PathBuf)]) -> Vec<PathBuf> {
    manifests.iter().map(|(_, manifest)| manifest.with_file_name(format!("{NAME}.json"))).collect()
}

/// Names and manifests of the workspace's packages.
fn manifests() -> Result<Vec<(String, PathBuf)>, String> {
    let metadata = cargo().args(["metadata", "--format-version=1", "--no-deps"]).read(60)?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let about = |package: &Value| {
        let text = |name: &str| package[name].as_str().map(str::to_owned);
        Some((text("name")?, text("manifest_path")?.into()))
    };
    Ok(packages.iter().filter_map(about).collect())
}

fn unknown(package: &str) -> String {
    format!("no package `{package}` in {}", root().display())
}

/// The seconds of the newest commit since 1970.
fn commit_time() -> Result<String, String> {
    Ok(program("git").args(["log", "-1", "--format=%ct"]).read(20)?.trim().to_owned())
}

/// The number of components of a list, each of which has a name, a version and a licence.
fn check(text: &str, package: &str) -> Result<usize, String> {
    let list: Value = serde_json::from_str(text).map_err(|e| format!("{package}: {e}"))?;
    if list["bomFormat"] != "CycloneDX" || list["metadata"]["component"]["name"] != package {
        return Err(format!("{package}: not its list: {:.200}", text));
    }
    let components = list["components"].as_array().ok_or_else(|| format!("{package}: no components"))?;
    let lacks = |component: &&Value| {
        let has = |name: &str| component[name].as_str().is_some_and(|text| !text.is_empty());
        !has("name") || !has("version") || !component["licenses"].is_array()
    };
    match components.iter().find(lacks) {
        Some(component) => {
            Err(format!("{package}: a component without name, version or licence: {component}"))
        }
        None => Ok(components.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn list_without_licences_is_refused() {
        let list = |licenses: Value| {
            let component = json!({ "name": "a", "version": "1", "licenses": licenses });
            let about = json!({ "component": { "name": "p" } });
            json!({ "bomFormat": "CycloneDX", "metadata": about, "components": [component] }).to_string()
        };
        let licensed = list(json!([{ "expression": "MIT" }]));
        assert_eq!(check(&licensed, "p"), Ok(1));
        assert!(check(&licensed, "other").is_err());
        assert!(check(&list(Value::Null), "p").is_err());
    }

    #[test]
    fn shipped_packages_are_of_the_workspace() {
        let manifests = manifests().expect("the packages");
        for package in SHIPPED {
            assert!(manifests.iter().any(|(name, _)| name == package), "{package}");
        }
    }
}

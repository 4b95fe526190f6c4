//! The Node package in programs with mqtt.js, and its nodes in Node-RED, both of npm.

use std::fs;
use std::path::PathBuf;
use xtask::shell::{Run, antedate, cache, cargo, profile, program, root};

use crate::peers::npm;

const PACKAGE: &str = "antedate-node";

/// Builds the package, and installs its partners. A machine that cannot fetch them goes on without
/// them, and [`run`] says so.
pub(super) fn prepare() -> Result<(), String> {
    cargo().args(["build", "--locked", "--profile", &profile(), "--package", PACKAGE]).bounded(600)?;
    let (from, to) = (root().join("crates/node"), package()?);
    fs::create_dir_all(to.join("node-red")).map_err(|e| e.to_string())?;
    for file in ["package.json", "index.js", "index.d.ts", "node-red/antedate.js", "node-red/antedate.html"] {
        fs::copy(from.join(file), to.join(file)).map_err(|e| format!("{file}: {e}"))?;
    }
    let native = antedate().with_file_name("libantedate_node.so");
    fs::copy(native, to.join("antedate.node")).map_err(|e| e.to_string())?;
    if let Err(reason) = npm::install("node", "applications.js") {
        println!("   Node-RED and mqtt.js are left out, they cannot be fetched here: {reason}");
    }
    Ok(())
}

fn package() -> Result<PathBuf, String> {
    cache("peers/node-package")
}

/// Runs the applications. `false`: the partners are not there.
pub(super) fn run() -> Result<bool, String> {
    let folder = cache("peers/node")?;
    if !folder.join("node_modules/.package-lock.json").exists() {
        return Ok(false);
    }
    let work = cache("peers")?.join("mqtt-node");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(|e| e.to_string())?;
    let mut node = program("node");
    node.arg(folder.join("applications.js")).arg(antedate()).arg(package()?).arg(&work);
    let said = node.arg(root().join("docs/src/mqtt-applications.md")).read(120)?;
    print!("{said}");
    match said.lines().last() {
        Some(r#"{"passed": true}"#) => Ok(true),
        _ => Err(format!("node: no verdict:\n{said}")),
    }
}

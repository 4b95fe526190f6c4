//! Modules of Maven, for partners in Java.

use std::fs;
use std::path::PathBuf;
use xtask::shell::{Run, cache, has_program, program, root};

/// The file with the class path of a peer, which is there once its modules are.
pub(super) fn class_path(name: &str) -> Result<PathBuf, String> {
    Ok(cache(&format!("peers/{name}"))?.join("class-path"))
}

/// Fetches the modules of a peer's pom.xml, once for each pom.xml.
pub(super) fn install(name: &str) -> Result<(), String> {
    if !has_program("mvn") {
        return Err("there is no mvn".into());
    }
    let (path, pom) = (class_path(name)?, root().join("peers").join(name).join("pom.xml"));
    let (text, known) =
        (fs::read_to_string(&pom).map_err(|e| e.to_string())?, path.with_file_name("pom.xml"));
    if path.exists() && fs::read_to_string(&known).is_ok_and(|known| known == text) {
        return Ok(());
    }
    let _ = fs::remove_file(&path);
    fs::write(&known, text).map_err(|e| e.to_string())?;
    let mut maven = program("mvn");
    maven.args(["-q", "-B", "-f"]).arg(&known).arg("dependency:build-classpath");
    maven.arg(format!("-Dmdep.outputFile={}", path.display())).echoed(240)
}

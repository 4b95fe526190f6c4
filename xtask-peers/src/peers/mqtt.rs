//! Mosquitto between our client and paho-mqtt, and our envelopes read by pycose: in both
//! directions, forged, repeated, after kills.

use super::python;
use std::path::PathBuf;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Run, antedate, cache, cargo, profile, program};

/// The number of kills of the publisher.
const KILLS: &str = "200";

/// Makes the Python environment and the broker's plugin.
pub(crate) fn prepare() -> Result<(), Stop> {
    python()?;
    let mut build = cargo();
    build.args(["build", "--locked", "--profile", &profile(), "--package", "antedate-mosquitto-plugin"]);
    build.bounded(600)?;
    // Checks the layouts that the plugin assumes against Mosquitto's own headers.
    program("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-fsyntax-only"])
        .arg(python::script("mqtt/layout.c"))
        .bounded(60)?;
    Ok(())
}

fn python() -> Result<PathBuf, String> {
    python::environment(
        "mqtt",
        &["cbor2==6.2.1", "cryptography==50.0.2", "paho-mqtt==2.2.0", "pycose==1.1.0"],
    )
}

/// Runs all parts of the script, each with its own broker.
pub(crate) fn run() -> StepResult {
    let work = cache("peers")?.join("mqtt-run");
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(&work).map_err(|e| e.to_string())?;
    let mut script = program(python()?);
    script.arg(python::script("mqtt/peer.py")).arg(antedate()).arg(&work).arg(KILLS);
    // Cargo puts it beside the product of the same profile.
    script.arg(antedate().with_file_name("libantedate_mosquitto_plugin.so"));
    let said = script.read(400)?;
    print!("{said}");
    match said.lines().last() {
        Some(r#"{"passed": true}"#) => {
            Ok("Mosquitto, paho-mqtt over 3.1.1 and 5, pycose both ways; kills of all three".into())
        }
        _ => Err(format!("no verdict:\n{said}").into()),
    }
}

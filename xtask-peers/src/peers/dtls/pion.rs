//! pion/dtls, an independent DTLS in Go, as client and server of ours with connection IDs (RFC
//! 9146): addresses change, and sessions continue.

use super::moves;
use super::{Echo, IDENTITY, KEY, MESSAGES, Place, free, listening};
use xtask::shell::{Run, cache, program, root, until};

const SUITE: &str = "TLS_PSK_WITH_AES_128_CCM_8";

/// Builds the program with the modules of its go.sum. On a machine without access to Go's module
/// proxy there is no program, and the report says so.
pub(super) fn build() -> Result<(), String> {
    let out = cache("peers")?.join("pion");
    let _ = std::fs::remove_file(&out);
    let mut fetch = program("go");
    fetch.current_dir(root().join("peers/pion")).args(["mod", "download"]);
    if let Err(reason) = fetch.env("GOFLAGS", "").echoed(60) {
        println!("   pion/dtls is left out, its modules cannot be fetched here: {reason}");
        return Ok(());
    }
    let mut go = program("go");
    go.current_dir(root().join("peers/pion"))
        .args(["build", "-mod=readonly", "-trimpath", "-o"])
        .arg(&out)
        .arg(".");
    go.env("GOFLAGS", "").env("CGO_ENABLED", "0").echoed(240)
}

/// True if the program is built.
pub(super) fn is_there() -> Result<bool, String> {
    Ok(cache("peers")?.join("pion").exists())
}

/// pion's client changes its port after half of its messages.
pub(super) fn client(place: &Place) -> Result<String, String> {
    let echo = Echo::start()?;
    let server = place.ours("listen", free()?, echo.at, &["--suite", SUITE])?;
    let mut pion = program(cache("peers")?.join("pion"));
    pion.args(["client", &listening(&server)?.to_string(), IDENTITY, KEY, &MESSAGES.to_string()]);
    let said = pion.read(30).map_err(|e| format!("{e}\n{:#}", server.status().unwrap_or_default()))?;
    if said.trim() != format!("answers {MESSAGES}") {
        return Err(format!("pion's client: {said}"));
    }
    moves::one_session("pion's client", &server.status()?)?;
    server.stop()?;
    Ok(format!("pion's client with connection IDs: {MESSAGES} of {MESSAGES} answered, its port changed"))
}

/// Our address seems to change.
pub(super) fn server(place: &Place) -> Result<String, String> {
    let at = free()?;
    let mut pion = program(cache("peers")?.join("pion"));
    pion.args(["server", &at.to_string(), IDENTITY, KEY]);
    let mut pion = pion.background(&place.dir.join("pion-server.log"))?;
    until("pion's server", 10.0, || match pion.alive() {
        Err(e) => Some(Err(e)),
        Ok(()) => pion.output().contains("listening").then_some(Ok(())),
    })??;
    moves::ours(place, "pion's server", at, SUITE).map_err(|e| format!("{e}\n{}", pion.output()))?;
    let accepted = pion.output().matches("accepted").count();
    let _ = pion.stop(5);
    match accepted {
        1 => Ok(format!("its server: {MESSAGES} of {MESSAGES}, ours moved to another port")),
        _ => Err(format!("pion's server accepted {accepted} connections")),
    }
}

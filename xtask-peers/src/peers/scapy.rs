//! scapy's MACsecSA opens our frames, and the gateway opens scapy's: all cipher suites, encrypted
//! and integrity only.

use super::python;
use crate::daemon::{Gateway, Keys, Options, SALT, SUITES};
use crate::net::{self, End};
use serde_json::json;
use std::path::PathBuf;
use xtask::report::{StepResult, Stop};
use xtask::shell::Run;

pub(crate) fn prepare() -> Result<(), Stop> {
    python()?;
    Ok(())
}

pub(super) fn python() -> Result<PathBuf, String> {
    python::environment("scapy", &["scapy==2.8.0", "cryptography==50.0.2"])
}

/// Runs one gateway with scapy on both sides of it.
pub(crate) fn run() -> StepResult {
    let python = python()?;
    for space in ["gw", "far"] {
        net::namespace(space)?;
    }
    let end = |space, name, octet| End { space, name, octet };
    net::link(end("far", "machine", 0x01), end("gw", "field", 0xa1), net::FIELD_MTU)?;
    net::link(end("gw", "uplink", 0xa2), end("far", "wire", 0x0f), net::WIRE_MTU)?;
    let mut shown = Vec::new();
    for suite in SUITES {
        for encrypt in [true, false] {
            let keys = Keys::new(suite, 0x40, [("gateway", net::mac(0xa2)), ("scapy", net::mac(0x0f))]);
            let case = json!({
                "suite": keys.suite, "key": keys.key, "salt": SALT, "gateway": keys.sci(0), "own": keys.sci(1), "encrypt": encrypt,
            });
            let macsec = format!("confidentiality = {encrypt}");
            let options = Options { keys: Some(keys), macsec, allow: vec!["all"], ..Options::default() };
            let gateway = Gateway::start("gw", &options)?;
            let mut far = net::inside("far", &python);
            let said = far.arg(python::script("scapy/macsec.py")).arg(case.to_string()).read(60);
            let said = said.map_err(|e| {
                format!("{}, encrypt {encrypt}: {e}\n{:#}", suite.0, gateway.status().unwrap_or_default())
            })?;
            println!("   {} encrypt {encrypt}: {}", suite.0, said.trim());
            // Six forgeries: one changes the SCI, one the packet number, four other octets.
            let refused: u64 = ["InPktsNotValid", "InPktsUnknownSCI", "InPktsNoSCI", "InPktsLate"]
                .iter()
                .map(|name| gateway.counter(name).unwrap_or(0))
                .sum();
            if refused != 6 {
                return Err(format!("6 forged frames, {refused} counted:\n{:#}", gateway.status()?).into());
            }
            gateway.stop()?;
        }
        shown.push(suite.0);
    }
    Ok(format!("{}; encrypted and integrity only, both ways, forgeries counted", shown.join(", ")))
}

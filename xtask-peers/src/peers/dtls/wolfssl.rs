//! wolfSSL of Debian as client and server of ours, on a good and a bad wire.
//!
//! Its packages are fetched and unpacked in the cache. None is installed.

use super::relay::Faults;
use super::talk::{client_asks, device_speaks, serve};
use super::{BAD_WIRE, IDENTITY, KEY, MESSAGES, Place, free};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use xtask::shell::{Run, cache, program, root};

/// The packages, and the folder of the library in them.
const PACKAGES: [&str; 2] = ["libwolfssl-dev", "libwolfssl35"];
/// wolfSSL's names of suites. Debian builds it without those of RFC 6655 (CCM) for a pre-shared key.
const PSK: &str = "PSK-CHACHA20-POLY1305";
const ECDHE: [&str; 2] = ["ECDHE-PSK-CHACHA20-POLY1305", "ECDHE-PSK-AES128-GCM-SHA256"];

fn folder() -> Result<PathBuf, String> {
    cache("peers/wolfssl")
}

/// Fetches the packages, once, and builds the program.
pub(super) fn build() -> Result<(), String> {
    let (folder, source) = (folder()?, root().join("peers/wolfssl/main.c"));
    let (tree, out) = (folder.join("tree"), folder.join("wolfssl"));
    let _ = fs::remove_file(&out);
    if !tree.join("usr/include/wolfssl/ssl.h").exists() {
        unpack(&folder)?;
    }
    let multiarch = program("cc").arg("-print-multiarch").read(10)?;
    let library = tree.join("usr/lib").join(multiarch.trim());
    let mut cc = program("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&out).arg(source);
    cc.arg("-I").arg(tree.join("usr/include")).arg("-L").arg(&library).arg("-lwolfssl");
    cc.arg(format!("-Wl,-rpath,{}", library.display())).echoed(60)
}

/// Fetches and unpacks the packages in `tree`, which is there only when all of them are.
fn unpack(folder: &std::path::Path) -> Result<(), String> {
    let (debs, part) = (folder.join("debs"), folder.join("part"));
    for old in [&debs, &part] {
        let _ = fs::remove_dir_all(old);
    }
    fs::create_dir_all(&debs).map_err(|e| e.to_string())?;
    let apt = |words: &[&str]| {
        let mut apt = program("apt-get");
        apt.current_dir(&debs).args(["-qq", "-o", "APT::Sandbox::User=root"]).args(words);
        apt.read(120)
    };
    let fetch = || apt(&[&["download"], &PACKAGES[..]].concat());
    // A stale index names versions that the mirror has no more.
    if let Err(first) = fetch() {
        let updated = apt(&["update"]).err().unwrap_or_default();
        fetch().map_err(|again| format!("{first}\n{updated}\n{again}"))?;
    }
    for deb in fs::read_dir(&debs).map_err(|e| e.to_string())? {
        let deb = deb.map_err(|e| e.to_string())?.path();
        program("dpkg-deb").arg("-x").arg(deb).arg(&part).read(60)?;
    }
    let tree = folder.join("tree");
    let _ = fs::remove_dir_all(&tree);
    fs::rename(&part, &tree).map_err(|e| e.to_string())
}

/// True if the program is built.
pub(super) fn is_there() -> Result<bool, String> {
    Ok(folder()?.join("wolfssl").exists())
}

fn wolfssl(words: &[&str]) -> Result<Command, String> {
    let mut command = program(folder()?.join("wolfssl"));
    command.args(words);
    Ok(command)
}

/// Runs all cases.
pub(super) fn run(place: &Place) -> Result<String, String> {
    let good = Faults::default();
    let mut notes = Vec::new();
    for (suite, faults) in [(PSK, good), (ECDHE[0], good), (ECDHE[1], good), (ECDHE[0], BAD_WIRE)] {
        let count = MESSAGES.to_string();
        let client = client_asks(place, "wolfSSL's client", &[], faults, |port| {
            wolfssl(&["client", port, IDENTITY, KEY, suite, &count])
        })?;
        let at = free()?;
        let command = wolfssl(&["server", &at.port().to_string(), IDENTITY, KEY, suite])?;
        let server = serve(place, "wolfssl", command)?;
        let came = device_speaks(place, "wolfSSL's server", at, faults)
            .map_err(|e| format!("{e}\n{}", server.output()))?;
        let _ = server.stop(5);
        notes.push(format!("client {client} and server {came}"));
    }
    Ok(format!("wolfSSL with three suites and on a bad wire: {}", notes.join(", ")))
}

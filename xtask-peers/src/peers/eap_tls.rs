//! Debian's hostapd and wpa_supplicant authenticate two gateways to each other by certificates, and
//! `antedate gateway eap` gives both the CAK.
//!
//! A supplicant with a certificate of another authority gets none. Then both gateways run with the
//! first CAK, and hostapd authenticates again while pings pass: the CAK changes, and none is lost.

use crate::daemon::{Gateway, Options};
use crate::net;
use crate::place;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, antedate, program, tail, until};

/// Seconds between two authentications.
const AGAIN: u32 = 8;
/// Pings of the flood: some sixteen seconds, so that the CAK changes at least once.
const PINGS: u32 = 3200;

/// Does nothing: packages suffice.
pub(crate) fn prepare() -> Result<(), Stop> {
    Ok(())
}

pub(crate) fn run() -> StepResult {
    let dir = place::run()?;
    let pki = dir.join("pki");
    for (authority, names) in [("plant", &["press", "hall"][..]), ("other", &["rogue"])] {
        certificates(&pki, authority, names)?;
    }
    net::cell()?;
    net::address("plc", "eth0", "10.7.0.1/24", None)?;
    net::address("dev", "eth0", "10.7.0.2/24", None)?;
    let caks = ["gwa", "gwb"].map(|space| dir.join(space).join("cak"));
    for cak in &caks {
        let _ = fs::remove_file(cak);
    }
    let server = authenticator(&pki, AGAIN)?;
    let rogue = supplicant(&pki, "rogue")?;
    until("a refusal", 20.0, || server.output().contains("CTRL-EVENT-EAP-FAILURE").then_some(()))
        .map_err(|e| format!("{e}\n{}", tail(&server.output(), 15)))?;
    if let Some(cak) = caks.iter().find(|cak| cak.exists()) {
        return Err(format!("another authority's certificate gave {}", cak.display()).into());
    }
    rogue.stop(10)?;
    // After a failure, hostapd would hold its tongue for a minute (quietPeriod).
    server.stop(10)?;
    let mut server = authenticator(&pki, AGAIN)?;
    let client = supplicant(&pki, "hall")?;
    until("the first CAK", 30.0, || caks.iter().all(|cak| cak.exists()).then_some(()))
        .map_err(|e| format!("{e}\n{}\n{}", tail(&server.output(), 15), tail(&client.output(), 15)))?;
    let [first, same] = [text(&caks[0])?, text(&caks[1])?];
    if first != same {
        return Err("the ends derived different CAKs".into());
    }
    let options = |cak| Options { cak: Some(cak), allow: vec!["arp", "ipv4"], ..Options::default() };
    let a = Gateway::start("gwa", &options(first))?;
    let b = Gateway::start("gwb", &options(same))?;
    until("a ping", 30.0, || {
        let mut ping = net::inside("plc", "ping");
        ping.args(["-q", "-n", "-W", "1", "-c", "1", "10.7.0.2"]).read(5).is_ok().then_some(())
    })?;
    let before = carrier(&a)?;
    let mut flood = net::inside("plc", "ping");
    flood.args(["-q", "-n", "-i", "0.005", "-W", "2", "-c", &PINGS.to_string(), "10.7.0.2"]);
    let pings = flood.background(&dir.join("flood"))?.finish(60)?;
    server.alive()?;
    let after = carrier(&a)?;
    if after == before || carrier(&b)? != after {
        return Err(format!("the CAK {before} did not change on both: {after}, {}", carrier(&b)?).into());
    }
    if !pings.contains(&format!("{PINGS} packets transmitted, {PINGS} received")) {
        return Err(format!("pings were lost while the CAK changed\n{}", tail(&pings, 4)).into());
    }
    let changes = server.output().matches(" is authenticated").count() - 1;
    a.stop()?;
    b.stop()?;
    Ok(format!(
        "another authority's certificate is refused; both derive the same CAK, and {changes} changes lose 0 of {PINGS} pings"
    ))
}

fn text(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

/// The name of the CAK that carries.
fn carrier(gateway: &Gateway) -> Result<String, String> {
    let status = gateway.status()?;
    let caks = status["macsec"]["agreement"]["caks"].as_array().cloned().unwrap_or_default();
    let carries = caks.iter().find(|cak| cak["carries"] == true);
    let name = carries.and_then(|cak| cak["ckn"].as_str().map(str::to_owned));
    name.ok_or_else(|| {
        format!("no CAK carries: {:#}", status["macsec"].get("agreement").unwrap_or(&Value::Null))
    })
}

/// Makes an authority with certificates of these names.
pub(super) fn certificates(dir: &Path, authority: &str, names: &[&str]) -> Result<(), String> {
    fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let file = |name: &str, kind: &str| dir.join(format!("{name}.{kind}"));
    let openssl = |words: &[&str], files: &[(&str, PathBuf)]| {
        let mut command = program("openssl");
        command.args(words);
        for (option, file) in files {
            command.arg(option).arg(file);
        }
        command.read(30).map(drop)
    };
    let new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj"];
    let subject = |name: &str| format!("/CN={name}.plant.example");
    let ca = [("-keyout", file(authority, "key")), ("-out", file(authority, "pem"))];
    openssl(&[&new[..], &[&subject(authority), "-x509", "-days", "2"]].concat(), &ca)?;
    for name in names {
        let request = [("-keyout", file(name, "key")), ("-out", file(name, "csr"))];
        openssl(&[&new[..], &[&subject(name)]].concat(), &request)?;
        let signed = [
            ("-in", file(name, "csr")),
            ("-CA", file(authority, "pem")),
            ("-CAkey", file(authority, "key")),
            ("-out", file(name, "pem")),
        ];
        openssl(&["x509", "-req", "-days", "2", "-CAcreateserial"], &signed)?;
    }
    Ok(())
}

/// Starts hostapd on the first gateway's uplink, under `antedate gateway eap`, which authenticates again
/// after these seconds.
pub(super) fn authenticator(pki: &Path, again: u32) -> Result<Background, String> {
    let users = pki.join("users");
    fs::write(&users, "* TLS\n").map_err(|e| e.to_string())?;
    let pki = pki.display();
    let settings = format!(
        "interface=uplink\ndriver=wired\nieee8021x=1\nuse_pae_group_addr=1\neap_server=1\n\
         eap_reauth_period={again}\neap_user_file={pki}/users\nca_cert={pki}/plant.pem\n\
         server_cert={pki}/press.pem\nprivate_key={pki}/press.key\n"
    );
    under_eap("gwa", "hostapd.conf", &settings, |file| vec!["hostapd".into(), "-K".into(), "-d".into(), file])
}

/// The same of wpa_supplicant on the second gateway's, with this certificate.
fn supplicant(pki: &Path, name: &str) -> Result<Background, String> {
    let pki = pki.display();
    let settings = format!(
        "ap_scan=0\nnetwork={{\nkey_mgmt=IEEE8021X\neapol_flags=0\neap=TLS\nidentity=\"{name}\"\n\
         ca_cert=\"{pki}/plant.pem\"\nclient_cert=\"{pki}/{name}.pem\"\nprivate_key=\"{pki}/{name}.key\"\n\
         domain_match=\"press.plant.example\"\n}}\n"
    );
    under_eap("gwb", "supplicant.conf", &settings, |file| {
        let words = ["wpa_supplicant", "-K", "-d", "-D", "wired", "-i", "uplink", "-c"];
        words.map(str::to_owned).into_iter().chain([file]).collect()
    })
}

/// Starts `antedate gateway eap` with a program and its settings.
fn under_eap(
    space: &str,
    name: &str,
    settings: &str,
    words: impl FnOnce(String) -> Vec<String>,
) -> Result<Background, String> {
    let dir = place::run()?;
    let (own, file) = (dir.join(space), dir.join(name));
    fs::create_dir_all(&own).map_err(|e| format!("{}: {e}", own.display()))?;
    // That of the gateway will have the same paths.
    let config = own.join("gateway.toml");
    let gateway = "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n[macsec]\ncak_file = \"cak\"\n\
                   [state]\ndirectory = \"state\"\n[control]\nsocket = \"s\"\n";
    fs::write(&config, gateway).map_err(|e| format!("{}: {e}", config.display()))?;
    fs::write(&file, settings).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut command = net::inside(space, antedate());
    command.args(["gateway", "eap"]).arg(&config).arg("--").args(words(file.display().to_string()));
    command.background(&dir.join(format!("{space}.eap")))
}

//! OpenVPN as a bridged layer-2 tunnel: two mutually pinned certificates, AES-128-GCM, UDP.

use super::placement::Placement;
use crate::net;
use std::path::{Path, PathBuf};
use xtask::shell::{Background, Run, cache, program, until};

/// OpenVPN's frames are longer than ours; this MTU spares it the cost of fragments.
const WIRE_MTU: u32 = 1600;

/// Makes missing certificates, starts both ends, at real-time `priority` if it is given, and waits
/// until the tunnel is up.
pub(crate) fn start(placement: Placement, priority: Option<u8>) -> Result<Vec<Background>, String> {
    let dir = cache("bench/openvpn")?;
    let prints = [identity(&dir, "gwa")?, identity(&dir, "gwb")?];
    let addresses = ["192.0.2.1", "192.0.2.2"];
    let mut ends = Vec::new();
    for (side, space) in ["gwa", "gwb"].into_iter().enumerate() {
        net::ip(&["-n", space, "link", "set", "uplink", "mtu", &WIRE_MTU.to_string()])?;
        net::address(space, "uplink", &format!("{}/24", addresses[side]), None)?;
        net::ip(&["-n", space, "tuntap", "add", "dev", "tap0", "mode", "tap"])?;
        net::ip(&["-n", space, "link", "set", "tap0", "mtu", &net::FIELD_MTU.to_string(), "up"])?;
        net::bridge(space, &["field", "tap0"])?;
        let mut command = match priority {
            Some(priority) => {
                let mut command = placement.program(space, side, "chrt");
                command.args(["--fifo", &priority.to_string(), "openvpn"]);
                command
            }
            None => placement.program(space, side, "openvpn"),
        };
        command.args(["--dev", "tap0", "--dev-type", "tap", "--proto", "udp"]);
        command.args(["--local", addresses[side], "--remote", addresses[1 - side], "--port", "1194"]);
        command.args(["--data-ciphers", "AES-128-GCM", "--cipher", "AES-128-GCM", "--disable-dco"]);
        command.args([
            "--tun-mtu",
            &net::FIELD_MTU.to_string(),
            "--mssfix",
            "0",
            "--fast-io",
            "--txqueuelen",
            "1000",
        ]);
        command.args(["--sndbuf", "4194304", "--rcvbuf", "4194304", "--verb", "3", "--cert"]);
        command.arg(file(&dir, space, "crt")).arg("--key").arg(file(&dir, space, "key"));
        command.args(["--peer-fingerprint", &prints[1 - side]]);
        command.args(if side == 0 { &["--tls-server", "--dh", "none"][..] } else { &["--tls-client"][..] });
        ends.push(command.background(&dir.join(format!("{space}.log")))?);
    }
    until("OpenVPN's tunnel", 30.0, || {
        for end in &mut ends {
            if let Err(e) = end.alive() {
                return Some(Err(e));
            }
        }
        let is_up = |end: &Background| end.output().contains("Initialization Sequence Completed");
        ends.iter().all(is_up).then_some(Ok(()))
    })??;
    for end in &ends {
        if !end.output().contains("Data Channel: cipher 'AES-128-GCM'")
            && !end.output().contains("Cipher 'AES-128-GCM' initialized")
        {
            return Err(format!(
                "OpenVPN agreed on another cipher:\n{}",
                xtask::shell::tail(&end.output(), 30)
            ));
        }
    }
    Ok(ends)
}

fn file(dir: &Path, name: &str, kind: &str) -> PathBuf {
    dir.join(format!("{name}.{kind}"))
}

/// Makes a key with its self-signed certificate; returns the certificate's SHA-256 fingerprint.
fn identity(dir: &Path, name: &str) -> Result<String, String> {
    let (key, certificate) = (file(dir, name, "key"), file(dir, name, "crt"));
    if !certificate.exists() {
        let mut command = program("openssl");
        command.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "3650",
        ]);
        command
            .args(["-subj", &format!("/CN={name}"), "-keyout"])
            .arg(key)
            .arg("-out")
            .arg(&certificate)
            .read(30)?;
    }
    let mut command = program("openssl");
    let text =
        command.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(&certificate).read(10)?;
    let print = text.trim().split_once('=').map(|(_, print)| print.to_string());
    print.ok_or(format!("openssl gave no fingerprint: {text}"))
}

/// The first line of `openvpn --version`.
pub(crate) fn version() -> String {
    // OpenVPN ends with status 1 here, so the status is ignored.
    let output = program("openvpn").arg("--version").output().map(|o| o.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_string()
}

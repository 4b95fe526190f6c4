//! wpa_supplicant with MACsec of its own (`macsec_policy=1`) as the far end of a gateway whose CAK comes
//! from EAP-TLS: hostapd authenticates it beside the gateway, and each end derives the CAK by itself
//! (IEEE 802.1X-2020 clause 6.2.2).

use super::super::eap_tls::{authenticator, certificates};
use super::{HOST, PEER, context, losses, ping, stop, up};
use crate::daemon::{Gateway, Options};
use crate::guest::Guest;
use crate::net;
use crate::place;
use std::fs;
use std::path::Path;
use xtask::shell::{Run, tail, until};

/// Seconds between two authentications: none again while this runs. wpa_supplicant removes its keys when
/// it is authenticated anew.
const ONCE: u32 = 3600;
/// Pings of the flood.
const PINGS: u32 = 400;

pub(super) fn run(guest: &mut Guest) -> Result<String, String> {
    let dir = place::run()?;
    let pki = dir.join("eap-pki");
    certificates(&pki, "plant", &["press", "hall"])?;
    let cak = dir.join("gwa").join("cak");
    let _ = fs::remove_file(&cak);
    let server = authenticator(&pki, ONCE)?;
    for (name, file) in [("ca.pem", "plant.pem"), ("hall.pem", "hall.pem"), ("hall.key", "hall.key")] {
        copy(guest, &pki.join(file), name)?;
    }
    let config = "eapol_version=3\\nap_scan=0\\nnetwork={\\nkey_mgmt=IEEE8021X\\neapol_flags=0\\neap=TLS\\n\
                  identity=\"hall\"\\nca_cert=\"/tmp/ca.pem\"\\nclient_cert=\"/tmp/hall.pem\"\\n\
                  private_key=\"/tmp/hall.key\"\\nmacsec_policy=1\\nmacsec_integ_only=0\\n\
                  macsec_replay_protect=1\\nmacsec_replay_window=0\\nmacsec_port=1\\nmka_priority=64\\n}\\n";
    guest.run(&format!("printf '{config}' > /tmp/wpa.conf"))?;
    guest.run(
        "wpa_supplicant -B -i eth0 -D macsec_linux -c /tmp/wpa.conf -P /tmp/wpa.pid -f /tmp/wpa.log -d -t",
    )?;
    until("the CAK of EAP", 30.0, || cak.exists().then_some(())).map_err(|e| {
        let log = guest.run("tail -n 40 /tmp/wpa.log").unwrap_or_default();
        format!("{e}\n{}\n{log}", tail(&server.output(), 15))
    })?;
    let text = fs::read_to_string(&cak).map_err(|e| format!("{}: {e}", cak.display()))?;
    let options = Options {
        cak: Some(text),
        macsec: "mka_priority = 16".into(),
        allow: vec!["arp", "ipv4"],
        ..Options::default()
    };
    let gateway = Gateway::start("gwa", &options)?;
    let lost = carry(guest).map_err(|e| context(e, guest, &gateway))?;
    if gateway.counter("InPktsNotValid")? != 0 {
        return Err("the gateway's InPktsNotValid is not 0".into());
    }
    stop(guest)?;
    gateway.stop()?;
    server.stop(10)?;
    Ok(format!("a CAK of EAP-TLS, wpa_supplicant's own MACsec at the far end: {lost} of {PINGS} pings lost"))
}

fn carry(guest: &mut Guest) -> Result<u32, String> {
    up(guest)?;
    until("a ping", 30.0, || ping("host", 1, "0.2").is_ok().then_some(()))?;
    let mut flood = net::inside("host", "ping");
    flood.args(["-q", "-n", "-i", "0.005", "-W", "2", "-c", &PINGS.to_string(), PEER]);
    let lost = losses(&flood.read(30)?)?;
    if lost > 0 {
        return Err(format!("{lost} of {PINGS} pings were lost"));
    }
    guest.run(&format!("ping -q -n -c 3 -i 0.05 -W 2 {HOST}"))?;
    Ok(lost)
}

/// Writes a file of text into the guest's `/tmp`.
fn copy(guest: &mut Guest, file: &Path, name: &str) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    guest.run(&format!("printf %b '{}' > /tmp/{name}", text.replace('\n', "\\n"))).map(drop)
}

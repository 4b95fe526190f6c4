//! The package's dissector in Lua: fragments, features and echoes of two gateways, and recorded MQTT
//! envelopes.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use xtask::shell::{Run, antedate, program, root, until};

use super::Capture;
use crate::daemon::{Gateway, Options};
use crate::net;

/// A path on which a full frame with MACsec needs two fragments.
const MTU: &str = "1500";
const CAK: &str = "mka_cak=000102030405060708090a0b0c0d0e0f\nmka_ckn=0102\n";

/// On the path of [`net::cell`], whose gateways have ended.
pub(super) fn run(dir: &Path) -> Result<String, String> {
    for space in ["gwa", "gwb"] {
        net::ip(&["-n", space, "link", "set", "uplink", "mtu", MTU])?;
    }
    net::address("plc", "eth0", "10.9.0.1/24", None)?;
    net::address("dev", "eth0", "10.9.0.2/24", None)?;
    let options = Options { cak: Some(CAK.into()), allow: vec!["arp", "ipv4"], ..Options::default() };
    // A gateway's own frames pass its interface's queue by, and with it each recorder there.
    let ends = [Capture::on("gwa", "uplink")?, Capture::on("gwb", "uplink")?];
    let (a, b) = (Gateway::start("gwa", &options)?, Gateway::start("gwb", &options)?);
    let ping = |words: &[&str]| net::inside("plc", "ping").args(words).arg("10.9.0.2").read(20);
    until("a ping through both gateways", 20.0, || ping(&["-c", "1", "-W", "1"]).ok())?;
    ping(&["-c", "5", "-i", "0.1", "-s", "1472"])?;
    let mut call = program(antedate());
    call.args(["gateway", "ping", "--count", "3", "--socket"]).arg(a.socket()).read(20)?;
    thread::sleep(Duration::from_millis(200));
    let wire = dir.join("wire.pcap");
    let mut merge = program("mergecap");
    merge.args(["-F", "pcap", "-w"]).arg(&wire);
    for end in ends {
        merge.arg(end.stop()?);
    }
    merge.read(30)?;
    a.stop()?;
    b.stop()?;

    let marks = fields(&wire, "antedate.fragment", &["antedate.fragment"])?;
    if !["the first", "the last"].iter().all(|mark| marks.contains(*mark)) {
        return Err(format!("fragments are {marks:?}"));
    }
    let suites = fields(&wire, "antedate.mka.suite", &["antedate.mka.reassembles", "antedate.mka.suite"])?;
    if !suites.iter().any(|line| line.contains("1|") && line.contains("GCM-AES-128")) {
        return Err(format!("features are {suites:?}"));
    }
    let (plain, cak) = (dir.join("within.pcap"), dir.join("gwa/cak"));
    let mut inspect = program(antedate());
    inspect
        .arg("inspect")
        .arg(&wire)
        .arg("--cak")
        .arg(&cak)
        .arg("--quiet")
        .arg("--write")
        .arg(&plain)
        .read(30)?;
    let kinds = fields(&plain, "antedate.kind", &["antedate.kind"])?;
    if !["echo request", "echo answer"].iter().all(|kind| kinds.contains(*kind)) {
        return Err(format!("messages between gateways are {kinds:?}"));
    }
    let recorded = root().join("crates/cli/tests/inspect/recorded/mqtt.pcap");
    let of_envelopes = ["antedate.mqtt.publisher", "antedate.mqtt.number", "antedate.mqtt.algorithm"];
    let envelopes = fields(&recorded, "antedate.mqtt.number", &of_envelopes)?;
    let expected = "press7|2|AES-CCM-16-64-128";
    if !envelopes.contains(expected) {
        return Err(format!("envelopes are {envelopes:?}, without {expected}"));
    }
    Ok(format!(
        "the dissector in Lua reads fragments, features, {} kinds of messages, envelopes",
        kinds.len()
    ))
}

/// The different values of these fields, with a bar between them.
fn fields(file: &Path, filter: &str, names: &[&str]) -> Result<BTreeSet<String>, String> {
    let script = root().join("packaging/wireshark/antedate.lua");
    let mut tshark = program("tshark");
    tshark.arg("-X").arg(format!("lua_script:{}", script.display())).args(["-n", "-T", "fields"]);
    tshark.args(["-E", "separator=|", "-E", "occurrence=a", "-Y", filter]).arg("-r").arg(file);
    for name in names {
        tshark.args(["-e", name]);
    }
    Ok(tshark.read(60)?.lines().map(str::to_owned).collect())
}

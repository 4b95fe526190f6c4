//! Wireshark's dissector reads the traffic of the lab's PLC and IO device through two gateways as
//! PROFINET, without an expert warning: an independent check of the fields of IEC 61158-6-10.

use crate::daemon::Pair;
use crate::net;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Run, antedate, cache, program, until};

/// Does nothing: packages suffice.
pub(crate) fn prepare() -> Result<(), Stop> {
    Ok(())
}

/// Captures on both field sides while the two stations run.
pub(crate) fn run() -> StepResult {
    let dir = cache("peers/run")?;
    net::cell()?;
    let pair = Pair::start(&["profinet-rt", "profinet-dcp-read", "lldp"])?;
    let mut captures = Vec::new();
    for space in ["plc", "dev"] {
        let file = dir.join(format!("{space}.pcap"));
        // dumpcap, because tcpdump changes to another user, which a user namespace lacks.
        let mut command = net::inside(space, "dumpcap");
        command.args(["-q", "-i", "eth0", "-w"]).arg(&file);
        let mut capture = command.background(&dir.join(format!("dumpcap-{space}.log")))?;
        until("dumpcap", 10.0, || match capture.alive() {
            Err(e) => Some(Err(e)),
            Ok(()) => capture.output().contains("File: ").then_some(Ok(())),
        })??;
        captures.push((space, file, capture));
    }
    let station = |space, options: serde_json::Value| {
        let mut command = net::inside(space, antedate());
        command.arg("lab-station").arg(options.to_string());
        command
    };
    let device = json!({ "role": "device", "cycle_us": 1000, "seconds": 4.0 });
    let device = station("dev", device).background(&dir.join("device.log"))?;
    station("plc", json!({ "role": "plc", "cycle_us": 1000, "seconds": 3.0 })).read(30)?;
    device.finish(20)?;
    let mut notes = Vec::new();
    for (space, file, capture) in captures {
        capture.stop(5)?;
        notes.push(format!("{space}: {}", dissect(&file).map_err(|e| format!("{space}: {e}"))?));
    }
    pair.finish()?;
    net::remove_cell();
    Ok(notes.join("; "))
}

/// Checks that each frame is of a kind of the lab, that each kind occurs, and that no frame carries
/// a warning or an error.
fn dissect(file: &Path) -> Result<String, String> {
    let mut tshark = program("tshark");
    tshark.args([
        "-n",
        "-T",
        "fields",
        "-E",
        "separator=|",
        "-e",
        "frame.protocols",
        "-e",
        "_ws.expert.severity",
    ]);
    let text = tshark.args(["-e", "_ws.expert.message", "-r"]).arg(file).read(120)?;
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let mut fields = line.split('|');
        let protocols = fields.next().unwrap_or_default();
        let severities = fields.next().unwrap_or_default();
        let message = fields.next().unwrap_or_default();
        // Wireshark's PI_WARN; lower severities are chats and notes, which every conversation has.
        const WARNING: u64 = 0x0060_0000;
        if severities.split(',').filter_map(|s| s.parse::<u64>().ok()).any(|s| s >= WARNING) {
            return Err(format!("frame {}: {message} ({protocols})", number + 1));
        }
        let kind = match protocols {
            p if p.contains("pn_dcp") => "DCP",
            p if p.contains("pn_rt") => "cyclic PROFINET",
            p if p.contains("lldp") => "LLDP",
            _ => return Err(format!("frame {} is {protocols}", number + 1)),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    // Of some 6,000 cyclic frames; a machine that withholds its cores loses the others, which does
    // not matter here.
    match (kinds.get("DCP"), kinds.get("cyclic PROFINET"), kinds.get("LLDP")) {
        (Some(_), Some(1000..), Some(_)) => {
            Ok(kinds.iter().map(|(k, n)| format!("{n} {k}")).collect::<Vec<_>>().join(", "))
        }
        _ => Err(format!("too little was exchanged: {kinds:?}")),
    }
}

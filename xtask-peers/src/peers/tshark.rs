//! Wireshark's dissector reads the traffic of the lab's PLC and IO device through two gateways as
//! PROFINET, without an expert warning: an independent check of the fields of IEC 61158-6-10. It reads
//! the project's own formats with the dissector in Lua of the package.

mod plugin;

use crate::daemon::Pair;
use crate::net;
use crate::place;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Background, Run, antedate, program, until};

/// Does nothing: packages suffice.
pub(crate) fn prepare() -> Result<(), Stop> {
    Ok(())
}

/// Captures on both field sides while the two stations run.
pub(crate) fn run() -> StepResult {
    let dir = place::run()?;
    net::cell()?;
    let pair = Pair::start(&["profinet"])?;
    let mut captures = Vec::new();
    for space in ["plc", "dev"] {
        captures.push((space, Capture::start(space)?));
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
    for (space, capture) in captures {
        let kinds = dissect(&capture.stop()?, None).map_err(|e| format!("{space}: {e}"))?;
        let said = enough(&kinds).ok_or_else(|| format!("{space}: too little was exchanged: {kinds:?}"))?;
        notes.push(format!("{space}: {said}"));
    }
    pair.finish()?;
    notes.push(plugin::run(&dir).map_err(|error| format!("the dissector in Lua: {error}"))?);
    net::remove_cell();
    Ok(notes.join("; "))
}

/// dumpcap in a namespace.
pub(super) struct Capture {
    process: Background,
    file: PathBuf,
}

impl Capture {
    /// On `eth0`.
    pub(super) fn start(space: &str) -> Result<Self, String> {
        Self::on(space, "eth0")
    }

    pub(super) fn on(space: &str, interface: &str) -> Result<Self, String> {
        let dir = place::run()?;
        let file = dir.join(format!("{space}.pcap"));
        // dumpcap, because tcpdump changes to another user, which a user namespace lacks.
        let mut command = net::inside(space, "dumpcap");
        command.args(["-q", "-P", "-i", interface, "-w"]).arg(&file);
        let mut process = command.background(&dir.join(format!("dumpcap-{space}.log")))?;
        until("dumpcap", 10.0, || match process.alive() {
            Err(e) => Some(Err(e)),
            Ok(()) => process.output().contains("File: ").then_some(Ok(())),
        })??;
        Ok(Self { process, file })
    }

    /// Ends it. Returns its file.
    pub(super) fn stop(self) -> Result<PathBuf, String> {
        // It reads its ring a few times a second, and not once more at the end.
        thread::sleep(Duration::from_millis(600));
        self.process.stop(5)?;
        Ok(self.file)
    }
}

/// Kinds of frames with their numbers.
pub(super) type Kinds = BTreeMap<&'static str, u64>;

/// Checks that each frame that passes the display filter is of a kind of the lab and carries no
/// warning or error.
pub(super) fn dissect(file: &Path, filter: Option<&str>) -> Result<Kinds, String> {
    let mut tshark = program("tshark");
    tshark.args(["-n", "-T", "fields", "-E", "separator=|", "-e", "frame.protocols"]);
    tshark.args(["-e", "_ws.expert.severity", "-e", "_ws.expert.message", "-e", "pn_rt.frame_id"]);
    if let Some(filter) = filter {
        tshark.args(["-Y", filter]);
    }
    let text = tshark.arg("-r").arg(file).read(120)?;
    let mut kinds = Kinds::new();
    for (number, line) in text.lines().enumerate() {
        let mut fields = line.split('|');
        let mut field = || fields.next().unwrap_or_default();
        let (protocols, severities, message, frame_id) = (field(), field(), field(), field());
        // Wireshark's PI_WARN; lower severities are chats and notes, which every conversation has.
        const WARNING: u64 = 0x0060_0000;
        if severities.split(',').filter_map(|s| s.parse::<u64>().ok()).any(|s| s >= WARNING) {
            return Err(format!("frame {}: {message} ({protocols})", number + 1));
        }
        // The FrameIDs of alarms, 0xfc01 and 0xfe01.
        let is_alarm = ["64513", "65025"].contains(&frame_id);
        let kind = match protocols {
            p if p.contains("dcerpc") => "RPC",
            p if p.contains("pn_dcp") => "DCP",
            p if p.contains("pn_rt") && is_alarm => "PROFINET alarm",
            p if p.contains("pn_rt") => "cyclic PROFINET",
            p if p.contains("lldp") => "LLDP",
            p if p.contains("arp") => "ARP",
            _ => return Err(format!("frame {} is {protocols}", number + 1)),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    Ok(kinds)
}

/// All kinds occurred. Of some 6,000 cyclic frames; a machine that withholds its cores loses the
/// others, which does not matter here.
fn enough(kinds: &Kinds) -> Option<String> {
    let all = ["DCP", "LLDP", "ARP", "RPC", "PROFINET alarm"].iter().all(|kind| kinds.contains_key(kind));
    let cyclic = kinds.get("cyclic PROFINET").is_some_and(|&frames| frames >= 1_000);
    let said = || kinds.iter().map(|(kind, n)| format!("{n} {kind}")).collect::<Vec<_>>().join(", ");
    (all && cyclic).then(said)
}

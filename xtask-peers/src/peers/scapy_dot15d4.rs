//! scapy parses our secured IEEE 802.15.4 frames and we read frames that it builds: all levels, all
//! key identifier modes. Its cipher is AES-CCM of the Python package `cryptography`.

use super::dot15d4::{End, KEY, MODES, Own, header, hex, key, octets};
use super::{python, scapy};
use antedate_channel::dot15d4::{Header, NonceKind, SecurityLevel, Status};
use antedate_wire::dot15d4::{FrameVersion, append_fcs, check_fcs};
use serde_json::{Value, json};
use xtask::report::StepResult;
use xtask::shell::{Run, program};

const SCAPY: End = End::new(1);
const OURS: End = End::new(2);

/// Runs scapy once over all combinations.
pub(crate) fn run() -> StepResult {
    let python = scapy::python()?;
    let (mut ours, mut frames) = (Vec::new(), Vec::new());
    for level in &SecurityLevel::ALL[1..] {
        for mode in MODES {
            let counter = 1 + ours.len() as u64;
            let numbers = (NonceKind::FrameCounter, counter);
            let mut own = Own::new([OURS, SCAPY], *level, mode, key(), numbers)?;
            let payload = format!("antedate at {level}");
            let header = Header { version: FrameVersion::V2006, ..header([OURS, SCAPY], counter as u8) };
            let mut frame = own.secure(&header, payload.as_bytes(), None)?;
            let len = frame.len();
            frame.extend([0; 2]);
            append_fcs(&mut frame, len).ok_or("no room for the FCS")?;
            frames.push(json!({
                "frame": hex(&frame), "level": level.number(), "mode": mode.mode(), "counter": counter,
                "payload": hex(payload.as_bytes()),
            }));
            ours.push(own);
        }
    }
    let extended = |end: End| hex(&end.extended.0);
    let work = json!({ "key": KEY, "ours": extended(OURS), "own": extended(SCAPY), "frames": frames });
    let mut far = program(&python);
    let said = far.arg(python::script("scapy/dot15d4.py")).arg(work.to_string()).read(60)?;
    let said: Value = serde_json::from_str(&said).map_err(|e| format!("scapy: {e}: {said}"))?;
    let made = said["frames"].as_array().filter(|made| made.len() == ours.len());
    for (own, made) in ours.iter_mut().zip(made.ok_or("scapy made another number of frames")?) {
        opens(own, made).map_err(|e| format!("{:?}: {e}: {made}", own.protection))?;
    }
    Ok(format!("{} combinations of level and key identifier mode, both ways", ours.len()))
}

/// Checks that our side opens a frame of scapy once, and refuses damaged ones.
fn opens(own: &mut Own, made: &Value) -> Result<(), String> {
    let field = |name: &str| octets(made[name].as_str().unwrap_or_default());
    let (frame, payload) = (field("frame")?, field("payload")?);
    let frame = check_fcs(&frame).map_err(|e| e.to_string())?;
    if own.protection.level.mic_len() > 0 {
        for at in 0..frame.len() {
            let mut damaged = frame.to_vec();
            damaged[at] ^= 0x10;
            if let Ok(payload) = own.unsecure(&damaged, None) {
                return Err(format!("octet {at} changed, and it says {}", hex(&payload)));
            }
        }
    }
    match own.unsecure(frame, None) {
        Ok(found) if found == payload => {}
        other => return Err(format!("{other:?}")),
    }
    match own.unsecure(frame, None) {
        Err(Status::CounterError) => Ok(()),
        other => Err(format!("a second time: {other:?}")),
    }
}

//! Bodies for what the gateway reads: its files, and frames with what a network card left undone.

use std::path::Path;

use antedate_gateway::config::Config;
use antedate_gateway::config::policy::{Policy, Traffic};
use antedate_gateway::gate::{Class, Gate, Way};
use antedate_gateway::keys::KeyFile;
use antedate_gateway::offload;
use antedate_gateway::sys::packet::{Offload, Received};

/// A configuration: either it is legal, or every fault has a remedy.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(faults) = Config::parse(Path::new("fuzz.toml"), text) {
        assert!(!faults.is_empty() && faults.iter().all(|fault| !fault.remedy.is_empty()), "{faults}");
    }
}

/// A key file: what is legal reads back the same from its own text.
pub fn key_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(keys) = KeyFile::parse(Path::new("keys.toml"), text) {
        let again = KeyFile::parse(Path::new("keys.toml"), &keys.to_text()).expect("its own text is legal");
        assert_eq!((keys.suite, keys.members), (again.suite, again.members));
    }
}

/// The policy on any frame: a closed gate passes nothing, an open one passes what is a frame.
pub fn gate(data: &[u8]) {
    let closed = Gate::new(&Policy::default());
    let open = Gate::new(&Policy { allow: vec![Traffic::All], ..Policy::default() });
    for way in [Way::Out, Way::In] {
        assert!(!closed.decide(way, data).passes);
        let verdict = open.decide(way, data);
        assert_eq!(verdict.passes, verdict.class != Class::Malformed);
    }
}

/// Any offload header before any frame: no segment is longer than its room, and no payload octet is lost or made up.
pub fn offload(data: &[u8]) {
    let Some((header, frame)) = data.split_first_chunk::<8>() else { return };
    let [flags, segmentation, a, b, c, d, e, f] = *header;
    let received = Offload {
        needs_checksum: flags & 1 != 0,
        segmentation,
        segment_bytes: u16::from_be_bytes([a, b]),
        checksum_start: u16::from_be_bytes([c, d]),
        checksum_offset: u16::from_be_bytes([e, f]),
    };
    let shifted = if flags & 2 != 0 { 4 } else { 0 };
    let mut frame = frame.to_vec();
    let len = frame.len();
    let (mut passed, mut longest) = (0, 0);
    let mut scratch = [0; 2048];
    let done =
        offload::finish(Received { frame: &mut frame, offload: received, shifted }, &mut scratch, |piece| {
            passed += 1;
            longest = longest.max(piece.len());
        });
    match done {
        Ok(count) => assert!(count == passed && longest <= len),
        Err(offload::Unsupported) => assert_eq!(passed, 0),
    }
}

//! The gateway's inputs: its files, and frames with pending network card offloads.

use std::path::Path;
use std::sync::LazyLock;

use antedate_gateway::config::Config;
use antedate_gateway::config::keys::KeyFile;
use antedate_gateway::config::policy::{Action, Class, Direction, Limit, Policy, Rule, Traffic};
use antedate_gateway::frames::gate::narrowest::{Kind, Narrowest};
use antedate_gateway::frames::gate::{Gate, Way};
use antedate_gateway::frames::joiner::{Joined, Joiner};
use antedate_gateway::frames::offload;
use antedate_gateway::run::http::request::Request;
use antedate_gateway::sys::packet::{Offload, Received};
use antedate_wire::checksum::Sum;

/// A configuration: it is valid, or every fault has a remedy.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(faults) = Config::parse(Path::new("fuzz.toml"), text) {
        assert!(!faults.is_empty() && faults.iter().all(|fault| !fault.remedy.is_empty()), "{faults}");
    }
}

/// A key file: a valid one reads back the same from its own text.
pub fn key_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(keys) = KeyFile::parse(Path::new("keys.toml"), text) {
        let again = KeyFile::parse(Path::new("keys.toml"), &keys.to_text()).expect("its own text is legal");
        assert_eq!((keys.suite, keys.members), (again.suite, again.members));
    }
}

/// A request for a page: it is of a known form, and a name that is not this machine's is no address.
pub fn http_request(data: &[u8]) {
    let Ok(request) = Request::parse(data) else { return };
    assert!(
        request.path.starts_with('/') && request.path.is_ascii() && !request.path.contains(['?', ' ', '\r'])
    );
    for text in [request.host.unwrap_or_default(), request.accept, request.authorization, request.fetched_by]
    {
        assert!(!text.contains(['\r', '\n', '\0']));
    }
    if request.is_for(&[]) {
        let host = request.host.unwrap_or("localhost").to_ascii_lowercase();
        assert!(
            host.starts_with("localhost")
                || host.starts_with('[')
                || host.starts_with(|c: char| c.is_ascii_digit())
        );
    }
}

/// The policy on any frame: a closed gate passes nothing, an open one passes every frame, the
/// narrowest policy for a frame passes it, and a rule that denies stops what it would allow.
pub fn gate(data: &[u8]) {
    static NARROWEST: LazyLock<Narrowest> = LazyLock::new(Narrowest::default);
    let rule = |conditions, action| Rule {
        line: 1,
        direction: Direction::Both,
        conditions,
        action,
        limit: Limit::default(),
    };
    let closed = Gate::new(&Policy::default());
    let open = Gate::new(&Policy { allow: vec![Traffic::All], ..Policy::default() });
    let (narrow, without) = match NARROWEST.of(data) {
        Kind::Named(traffic) => {
            let rules =
                traffic.rules().into_iter().map(|conditions| rule(conditions, Action::Deny)).collect();
            (Policy { allow: vec![traffic], rules: Vec::new(), ..Policy::default() }, rules)
        }
        Kind::Rule(conditions) => {
            let policy = Policy {
                rules: vec![rule((*conditions).clone(), Action::Allow)],
                allow: Vec::new(),
                ..Policy::default()
            };
            (policy, vec![rule(*conditions, Action::Deny)])
        }
        Kind::Nothing => {
            (Policy { allow: vec![Traffic::All], rules: Vec::new(), ..Policy::default() }, Vec::new())
        }
    };
    let is_something = !without.is_empty();
    let (narrow, without) = (
        Gate::new(&narrow),
        Gate::new(&Policy { rules: without, allow: vec![Traffic::All], ..Policy::default() }),
    );
    for way in [Way::Out, Way::In] {
        assert!(!closed.decide(way, data).passes);
        let verdict = open.decide(way, data);
        assert_eq!(verdict.passes, verdict.class != Class::Malformed);
        if is_something {
            assert!(narrow.decide(way, data).passes && !without.decide(way, data).passes);
        }
    }
}

/// Any offload header before any frame: no segment exceeds its buffer, and no payload octet is lost
/// or invented.
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
    let received = Received { shifted, ..Received::alone(&mut frame, received) };
    let done = offload::finish(received, &mut scratch, |piece| {
        passed += 1;
        longest = longest.max(piece.frame().len());
    });
    match done {
        Ok(count) => assert!(count == passed && longest <= len),
        Err(offload::UnsupportedError) => assert_eq!(passed, 0),
    }
}

/// Consecutive segments, some with an octet changed: joining and then cutting them returns them in
/// order. The input is flags (1: IPv6, 2: changed segments get correct checksums), a number of
/// frames, a payload length in two octets, then changes: frame, place, XOR.
pub fn joiner(data: &[u8]) {
    let Some(([flags, count, a, b], changes)) = data.split_first_chunk() else { return };
    let (v6, len) = (flags & 1 != 0, usize::from(u16::from_be_bytes([*a, *b])) % 1_501);
    let mut frames: Vec<_> = (0..u32::from(*count)).map(|at| segment(v6, at, len)).collect();
    for [frame, at, change] in changes.as_chunks().0 {
        let count = frames.len().max(1);
        let Some(frame) = frames.get_mut(usize::from(*frame) % count) else { return };
        let at = usize::from(*at) % frame.len();
        frame[at] ^= change;
        if flags & 2 != 0 {
            mend(v6, frame);
        }
    }
    // Zero and all ones are the same checksum, and cutting writes only one of them.
    let t = if v6 { 54 } else { 34 };
    frames.retain(|frame| frame[t + 16..t + 18] != [0, 0]);
    let (mut joiner, mut out) = (Joiner::new(), Vec::new());
    let give = |joiner: &mut Joiner, out: &mut Vec<Vec<u8>>| {
        let Some(Joined { frame, count, offload, .. }) = joiner.take() else { return };
        let received = Received::alone(frame, offload);
        let done = offload::finish(received, &mut [0; 2048], |frame| out.push(frame.frame().to_vec()));
        assert_eq!(done, Ok(count));
    };
    for frame in &frames {
        if joiner.add(frame) {
            continue;
        }
        give(&mut joiner, &mut out);
        if !joiner.add(frame) {
            out.push(frame.clone());
        }
    }
    give(&mut joiner, &mut out);
    assert_eq!(out, frames);
}

fn segment(v6: bool, at: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((20 + len as u16).to_be_bytes());
        frame.extend([6, 64]);
        frame.extend(1..33);
    } else {
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((40 + len as u16).to_be_bytes());
        frame.extend((0xfff0 + at).to_be_bytes()[2..].iter());
        frame.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    frame.extend([0x30, 0x39, 0x00, 0x50]);
    frame.extend((at * len as u32).to_be_bytes());
    frame.extend([0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.extend((0..len).map(|octet| (octet as u32 * 7 + at) as u8));
    mend(v6, &mut frame);
    frame
}

/// Corrects the checksums that do not match the headers.
fn mend(v6: bool, frame: &mut [u8]) {
    let (t, addresses) = if v6 { (54, 22..54) } else { (34, 26..34) };
    if !v6 {
        frame[24..26].fill(0);
        let sum = Sum::of(&frame[14..34]).checksum();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame[t + 16..t + 18].fill(0);
    let pseudo = Sum::of(&frame[addresses]).and(Sum::of_u16(6)).and(Sum::of_u16((frame.len() - t) as u16));
    let sum = pseudo.and(Sum::of(&frame[t..])).checksum();
    frame[t + 16..t + 18].copy_from_slice(&sum.to_be_bytes());
}

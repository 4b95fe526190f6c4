//! tshark decrypts and verifies our frames: frames with counters, and TSCH frames with their slot
//! in the capture. We read the captures that it writes.

#![allow(clippy::unwrap_used, reason = "a test ends at a failure")]

#[path = "../../wire/tests/skip/mod.rs"]
mod skip;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use antedate_channel::dot15d4::tsch::{
    Action, Cell, CellKind, Node, NodeConfig, Outgoing, Schedule, Slotframe,
};
use antedate_channel::dot15d4::{
    Address, Addressing, Asn, Config, Device, ExtendedAddress, Header, KeyConfig, KeyIdentifier, KeyLookup,
    Levels, LinkKey, NonceKind, PanId, Policy, Protection, Security, SecurityLevel, ShortAddress, Status,
};
use antedate_wire::dot15d4::advertisement::{Link, Repr, SlotframeRepr};
use antedate_wire::dot15d4::capture::{Captured, LinkType, emit_tap};
use antedate_wire::dot15d4::sixtop::{Message, MessageType};
use antedate_wire::dot15d4::{FrameVersion, fcs};
use skip::skipped;

const KEY: &str = "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf";
const PAN: PanId = PanId(0xabcd);
const SENDER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0b]);
const RECEIVER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0a]);

/// The key's name in frames: key identifier modes 0 to 3.
const MODES: [KeyIdentifier; 4] = [
    KeyIdentifier::Implicit,
    KeyIdentifier::Index(1),
    KeyIdentifier::Source4([4, 3, 2, 1], 1),
    KeyIdentifier::Source8([8, 7, 6, 5, 4, 3, 2, 1], 1),
];

/// A device with the key under this mode, for frames to and from `peer`, that knows the other
/// device.
fn device(own: ExtendedAddress, peer: Address, nonces: NonceKind, mode: KeyIdentifier) -> Security {
    let (other, short) = if own == SENDER { (RECEIVER, 2) } else { (SENDER, 1) };
    let mut security = Security::new(Config {
        extended: own,
        pan: PAN,
        short: Some(ShortAddress(short)),
        policy: Policy::uniform(Levels::of(&LEVELS)),
        enc_without_mic: true,
    });
    let short = Some(ShortAddress(3 - short));
    security.add_device(Device { pan: PAN, extended: other, short, exempt: false });
    let key = std::array::from_fn(|i| 0xc0 + i as u8);
    let lookup = match mode {
        KeyIdentifier::Implicit => KeyLookup::Peer(PAN, peer),
        identifier => KeyLookup::Identified(identifier),
    };
    security.install_key(KeyConfig::fresh(lookup, LinkKey::new(key), nonces)).unwrap();
    security
}

fn payload(level: SecurityLevel) -> Vec<u8> {
    [&[0][..], b"antedate ", level.name().as_bytes()].concat()
}

fn secure(security: &mut Security, header: &Header, protection: Protection, asn: Option<Asn>) -> Vec<u8> {
    let mut out = [0; 127];
    let payload = payload(protection.level);
    let len = security.secure(header, &[], &payload, protection, asn, &mut out).unwrap();
    out[..len].to_vec()
}

fn tap(asn: Asn, frame: &[u8]) -> Vec<u8> {
    [&emit_tap(asn), frame].concat()
}

/// Writes a capture of this link type.
fn write(path: &Path, link: LinkType, frames: &[Vec<u8>]) {
    let mut pcap = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, link.number()] {
        pcap.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            pcap.extend(word.to_le_bytes());
        }
        pcap.extend(frame);
    }
    std::fs::write(path, pcap).unwrap();
}

/// The link type and the packets of a capture.
fn read(path: &Path) -> (LinkType, Vec<Vec<u8>>) {
    let pcap = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), 0xa1b2_c3d4);
    let (mut at, mut packets) = (24, Vec::new());
    while at < pcap.len() {
        let len = word(at + 8) as usize;
        packets.push(pcap[at + 16..at + 16 + len].to_vec());
        at += 16 + len;
    }
    (LinkType::from_number(word(20)).unwrap(), packets)
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs tshark. `None` if it is not installed.
fn tshark(arguments: &[&OsStr]) -> Option<String> {
    match Command::new("tshark").args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skipped("secured IEEE 802.15.4 frames: tshark is not installed");
            None
        }
        Err(error) => panic!("tshark: {error}"),
    }
}

/// tshark's view of each frame: the payload, and warnings. `None` without tshark.
fn dissect(name: &str, link: LinkType, frames: &[Vec<u8>]) -> Option<Vec<String>> {
    let path = place(name);
    write(&path, link, frames);
    // An implicit key has no index, which tshark reads as 0.
    let keys = ["1", "0"].map(|index| format!("uat:ieee802154_keys:\"{KEY}\",\"{index}\",\"No hash\""));
    let mut arguments: Vec<&OsStr> = Vec::new();
    for word in ["-o", &keys[0], "-o", &keys[1], "-T", "fields", "-E", "separator=|"] {
        arguments.push(word.as_ref());
    }
    for word in ["-e", "data.data", "-e", "_ws.expert.message"] {
        arguments.push(word.as_ref());
    }
    for other in ["6lowpan", "zbee_nwk", "zbee_nwk_gp", "lwm"] {
        arguments.extend(["--disable-protocol".as_ref(), other.as_ref() as &OsStr]);
    }
    arguments.extend(["-r".as_ref(), path.as_os_str()]);
    Some(tshark(&arguments)?.lines().map(str::to_owned).collect())
}

const LEVELS: [SecurityLevel; 7] = [
    SecurityLevel::Mic32,
    SecurityLevel::Mic64,
    SecurityLevel::Mic128,
    SecurityLevel::Enc,
    SecurityLevel::EncMic32,
    SecurityLevel::EncMic64,
    SecurityLevel::EncMic128,
];

/// Checks that tshark decrypts all frames but the last without a warning, level by level in each
/// mode, and reports the last one as faulty.
fn judge(lines: &[String]) {
    let expected = MODES.iter().flat_map(|mode| LEVELS.map(|level| (mode, level)));
    assert_eq!(lines.len(), MODES.len() * LEVELS.len() + 1, "{lines:?}");
    for (line, (mode, level)) in lines.iter().zip(expected) {
        let hex: String = payload(level).iter().map(|octet| format!("{octet:02x}")).collect();
        assert_eq!(line, &format!("{hex}|"), "{level} {mode:?}: {lines:?}");
    }
    assert!(lines.last().is_some_and(|line| !line.ends_with('|')), "{lines:?}");
}

const DAMAGED: Protection = Protection { level: SecurityLevel::EncMic32, key: MODES[1] };

#[test]
fn tshark_verifies_counter_frames() {
    let peer = Address::Short(ShortAddress(1));
    let header = Header {
        version: FrameVersion::V2006,
        ..Header::data(1, Addressing::within(PAN, peer, Address::Extended(SENDER)))
    };
    let mut frames = Vec::new();
    for key in MODES {
        let mut security = device(SENDER, peer, NonceKind::FrameCounter, key);
        frames.extend(LEVELS.map(|level| secure(&mut security, &header, Protection { level, key }, None)));
    }
    let mut security = device(SENDER, peer, NonceKind::FrameCounter, MODES[1]);
    let mut changed = secure(&mut security, &header, DAMAGED, None);
    *changed.last_mut().unwrap() ^= 1;
    frames.push(changed);
    if let Some(lines) = dissect("dot15d4.pcap", LinkType::NoFcs, &frames) {
        judge(&lines);
    }
    for frame in &mut frames {
        frame.extend(fcs(frame).to_le_bytes());
    }
    if let Some(lines) = dissect("dot15d4-fcs.pcap", LinkType::WithFcs, &frames) {
        judge(&lines);
    }
}

/// TSCH frames at each level in each mode with a TAP header, and one of another slot than its
/// header names.
fn tsch(dst: Address, src: Address) -> Vec<Vec<u8>> {
    let header = Header::data(1, Addressing::within(PAN, dst, src));
    let mut number = 0x01_0000_0000;
    let mut next = || {
        number += 1;
        Asn::new(number).unwrap()
    };
    let mut frames = Vec::new();
    for key in MODES {
        let mut security = device(SENDER, dst, NonceKind::Asn, key);
        for level in LEVELS {
            let slot = next();
            frames.push(tap(slot, &secure(&mut security, &header, Protection { level, key }, Some(slot))));
        }
    }
    let mut security = device(SENDER, dst, NonceKind::Asn, MODES[1]);
    let damaged = secure(&mut security, &header, DAMAGED, Some(next()));
    frames.push(tap(next(), &damaged));
    frames
}

const ENDS: [(&str, Address, Address); 2] = [
    ("extended", Address::Extended(RECEIVER), Address::Extended(SENDER)),
    ("short", Address::Short(ShortAddress(1)), Address::Short(ShortAddress(2))),
];

#[test]
fn tshark_verifies_tsch_frames() {
    for (name, dst, src) in ENDS {
        if let Some(lines) = dissect(&format!("{name}.pcap"), LinkType::Tap, &tsch(dst, src)) {
            judge(&lines);
        }
    }
}

#[test]
fn tshark_captures_are_read_and_opened() {
    for (name, dst, src) in ENDS {
        let frames = tsch(dst, src);
        let bare: Vec<_> = frames
            .iter()
            .map(|packet| Captured::parse(LinkType::Tap, packet).unwrap().frame.to_vec())
            .collect();
        let with_fcs =
            bare.iter().map(|frame| [&frame[..], &fcs(frame).to_le_bytes()].concat()).collect::<Vec<_>>();
        for (link, packets) in
            [(LinkType::Tap, &frames), (LinkType::NoFcs, &bare), (LinkType::WithFcs, &with_fcs)]
        {
            let [from, next_generation, to] = ["from.pcap", "pcapng", "to.pcap"]
                .map(|end| place(&format!("{name}-{}-{end}", link.number())));
            write(&from, link, packets);
            // To Wireshark's own format and back.
            for (from, to, format) in [(&from, &next_generation, "pcapng"), (&next_generation, &to, "pcap")] {
                let words: [&OsStr; 6] = [
                    "-r".as_ref(),
                    from.as_ref(),
                    "-w".as_ref(),
                    to.as_ref(),
                    "-F".as_ref(),
                    format.as_ref(),
                ];
                if tshark(&words).is_none() {
                    return;
                }
            }
            let (found, packets) = read(&to);
            assert_eq!((found, packets.len()), (link, frames.len()));
            let mut receivers = MODES.map(|mode| device(RECEIVER, src, NonceKind::Asn, mode));
            for (i, (packet, original)) in packets.iter().zip(&frames).enumerate() {
                let captured = Captured::parse(found, packet).unwrap();
                // If the capture does not tell the slot, the test does.
                let said = Captured::parse(LinkType::Tap, original).unwrap().asn;
                assert_eq!(captured.asn, said.filter(|_| link == LinkType::Tap));
                let receiver = receivers.get_mut(i / LEVELS.len()).unwrap_or_else(|| panic!("{i}"));
                let mut out = [0; 127];
                let result = receiver.unsecure(captured.frame, said, None, &mut out);
                let opened = result.map(|received| out[..received.len].to_vec());
                assert_eq!(opened, Ok(payload(LEVELS[i % LEVELS.len()])), "{name} {link:?} {i}");
                if i + 2 == packets.len() {
                    break;
                }
            }
            let last = Captured::parse(found, packets.last().unwrap()).unwrap().frame;
            let wrong = Captured::parse(LinkType::Tap, frames.last().unwrap()).unwrap().asn;
            let refused = receivers[1].unsecure(last, wrong, None, &mut [0; 127]);
            assert_eq!(refused.map(|_| ()), Err(Status::SecurityError));
        }
    }
}

#[test]
fn tshark_reads_beacons_and_elements() {
    let key = MODES[1];
    let cell = Cell { slot: 0, channel_offset: 0, kind: CellKind::Shared, neighbour: None };
    let schedule =
        Schedule::new(vec![Slotframe { length: 1, cells: vec![cell] }], Schedule::HOPPING.to_vec());
    let config = NodeConfig {
        beacons: Protection { level: SecurityLevel::Mic32, key },
        ..NodeConfig::new(Protection { level: SecurityLevel::EncMic32, key })
    };
    let security = device(SENDER, Address::Extended(RECEIVER), NonceKind::Asn, key);
    let mut node = Node::new(security, schedule.unwrap(), config, Asn::new(99).unwrap(), 1);
    let links = [Link { slot: 0, channel_offset: 0, options: 0x0f }];
    node.beacon(&Repr::minimal(3, &[SlotframeRepr { handle: 0, length: 101, links: &links }])).unwrap();
    let mut elements = [0; 40];
    let message =
        Message { kind: MessageType::Request, code: 4, function: 0, sequence: 9, fields: &[1, 0, 0] };
    let len = message.emit(&mut elements).unwrap();
    let payload = &elements[..len];
    node.send_frame(Outgoing { command: false, elements: true, to: None, payload, late: 0 }).unwrap();
    let mut frames = Vec::new();
    for number in [0x01_0000_0007, 0x01_0000_0008] {
        while node.idle(100) > 0 {}
        let slot = Asn::new(number).unwrap();
        let Action::Transmit { frame, .. } = node.begin(slot) else { panic!("nothing was sent") };
        frames.push(tap(slot, frame));
        node.end();
    }
    let path = place("beacon.pcap");
    write(&path, LinkType::Tap, &frames);
    let keys = format!("uat:ieee802154_keys:\"{KEY}\",\"1\",\"No hash\"");
    let Some(text) = tshark(&["-V".as_ref(), "-o".as_ref(), keys.as_ref(), "-r".as_ref(), path.as_os_str()])
    else {
        return;
    };
    assert!(!text.contains("Expert Info (Warning") && !text.contains("Expert Info (Error"), "{text}");
    for part in [
        "TSCH Synchronization IE",
        "Absolute Slot Number: 4294967303",
        "TSCH Timeslot IE",
        "Channel Hopping IE",
        "TSCH Slotframe and Link IE",
        "IETF Payload IE",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

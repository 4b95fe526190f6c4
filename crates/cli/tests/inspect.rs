//! `antedate inspect` on a capture that gzip packed, with an outer VLAN tag and a refused frame, and
//! on one of IEEE 802.15.4.

mod folder;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use antedate_channel::dot15d4::{
    Address, Addressing, Asn, Config, ExtendedAddress, Header, KeyConfig, KeyIdentifier, KeyLookup, Levels,
    LinkKey, NonceKind, PanId, Policy, Protection, Security, SecurityLevel, ShortAddress,
};
use antedate_channel::macsec::{An, CipherSuite, Sak, Transmit, TransmitConfig};
use antedate_wire::Sci;
use antedate_wire::dot15d4::capture::{LinkType, emit_tap};
use flate2::Compression;
use flate2::write::GzEncoder;
use folder::Folder;

/// A protected frame of this sender.
fn protected(last: u8) -> Vec<u8> {
    let sak = Sak::new(CipherSuite::GcmAes128, &[7; 16], None).expect("a key");
    let sci = Sci([2, 0, 0x5e, 0, 0, last, 0, 1]);
    let mut transmit = Transmit::new(TransmitConfig::new(sak.suite(), sci)).expect("a channel");
    transmit.install(An::default(), &sak, 1, 100).expect("installed");
    transmit.set_encoding_sa(An::default()).expect("in use");
    let machine = [&[2, 0, 0x5e, 0, 0, 9, 2, 0, 0x5e, 0, 0, 8, 0x88, 0x92][..], &[5; 60]].concat();
    let mut frame = vec![0; 200];
    let length = transmit.protect(&machine, &mut frame).expect("protected");
    frame.truncate(length);
    frame
}

/// A capture of these frames of Ethernet, a second apart.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    capture_of(1, frames)
}

fn capture_of(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link]);
    for (second, frame) in (0..).zip(frames) {
        file.extend(words(&[second, 0, frame.len() as u32, frame.len() as u32]));
        file.extend(frame);
    }
    file
}

#[test]
fn packed_capture_is_opened_and_explained() {
    let folder = Folder::new();
    let keys = folder.path("keys.toml");
    let text = format!(
        "suite = \"gcm-aes-128\"\n[[sa]]\nan = 0\nkey_id = \"{}\"\nkey = \"{}\"\n\
         [[member]]\nname = \"a\"\nsci = \"02:00:5e:00:00:01/1\"\n\
         [[member]]\nname = \"b\"\nsci = \"02:00:5e:00:00:02/1\"\n",
        "01".repeat(16),
        "07".repeat(16)
    );
    fs::write(&keys, text).expect("keys");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).expect("their mode");
    let known = protected(1);
    let tagged = [&known[..12], &[0x81, 0, 0, 42], &known[12..]].concat();
    let packed = folder.path("plant.pcap.gz");
    let mut packer = GzEncoder::new(fs::File::create(&packed).expect("a file"), Compression::default());
    packer.write_all(&capture(&[tagged, protected(3)])).expect("packed");
    packer.finish().expect("packed");

    let run = |more: &[&str]| {
        let words = ["inspect", "plant.pcap.gz", "--keys", "keys.toml"];
        let output = folder.call(&[&words[..], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("a text")
    };
    let said = run(&["--why"]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].contains("VLAN 42") && lines[0].ends_with("[8892] authentic"), "{said}");
    assert!(
        lines[1].contains("refused: unknown secure channel; it fits so: the SCI 02005e0000030001"),
        "{said}"
    );
    assert_eq!(lines[2], "2 frames, 1 opened, 1 refused");
    let said = run(&[]);
    assert!(said.contains("refused: unknown secure channel\n"), "{said}");
    let said = run(&["--json"]);
    assert!(said.contains("\"vlans\":[42]"), "{said}");
}

const PAN: PanId = PanId(0xabcd);
const MOTE: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 0x0b]);

/// A frame of the mote in a slot, with the slot in front of it.
fn slotted(slot: u64, payload: &[u8]) -> Vec<u8> {
    // Each frame is of a mote that knows nothing of the others: numbers repeat.
    let (short, level) = (ShortAddress(2), SecurityLevel::EncMic32);
    let mut mote = Security::new(Config {
        extended: MOTE,
        pan: PAN,
        short: Some(short),
        policy: Policy::uniform(Levels::of(&[level])),
        enc_without_mic: false,
    });
    let key = KeyIdentifier::Index(1);
    let config = KeyConfig::fresh(KeyLookup::Identified(key), LinkKey::new([7; 16]), NonceKind::Asn);
    mote.install_key(config).expect("installed");
    let addressing = Addressing::within(PAN, Address::Short(ShortAddress(1)), Address::Short(short));
    let asn = Asn::new(slot).expect("a slot");
    let mut out = [0; 127];
    let protection = Protection { level, key };
    let len = mote.secure(&Header::data(9, addressing), &[], payload, protection, Some(asn), &mut out);
    [&emit_tap(asn), &out[..len.expect("secured")]].concat()
}

#[test]
fn radio_frames_are_opened_and_audited() {
    let folder = Folder::new();
    let file = |name: &str, content: &[u8]| {
        let file = folder.path(name);
        fs::write(&file, content).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    };
    let key = "07".repeat(16);
    file(
        "radio.toml",
        format!("[[key]]\nkey = \"{key}\"\n[[device]]\naddress = \"{MOTE}\"\nshort = 2\n").as_bytes(),
    );
    file("stranger.toml", format!("[[key]]\nkey = \"{key}\"\nindex = 1\n").as_bytes());
    let mut forged = slotted(103, b"shut");
    *forged.last_mut().expect("a frame") ^= 1;
    let right = [slotted(100, b"open"), slotted(102, b"shut"), forged];
    file("radio.pcap", &capture_of(LinkType::Tap.number(), &right));
    let run = |words: &[&str]| {
        let output = folder.call(&[&["inspect"][..], words].concat());
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, said, error) = run(&["radio.pcap", "--radio-keys", "radio.toml"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(status, Some(0), "{said}{error}");
    assert!(lines[0].contains("data    #9 ENC-MIC-32 key 1 PN 100 authentic: 6f70656e"), "{said}");
    assert!(lines[1].contains("PN 102 (1 missing before it) authentic: 73687574"), "{said}");
    assert!(lines[2].contains("PN 103 refused: the MIC is wrong: "), "{said}");
    assert_eq!(lines[3], "3 frames, 2 opened, 1 refused");
    assert_eq!(
        lines[4..],
        [
            "02:00:00:00:00:00:00:0b key 1: 2 frames, PN 100 to 102, 1 missing, 0 late, 0 copies, 0 numbers with another content"
        ]
    );
    // A slot with two frames of one mote.
    file("twice.pcap", &capture_of(283, &[slotted(7, b"open"), slotted(7, b"shut"), slotted(7, b"open")]));
    let (status, said, _) = run(&["twice.pcap", "--radio-keys", "radio.toml"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("PN 7 (USED BEFORE) authentic") && said.contains("A NONCE WAS USED TWICE"),
        "{said}"
    );
    assert!(said.contains("1 copies, 1 numbers with another content"), "{said}");
    let (status, said, _) = run(&["twice.pcap", "--json", "--quiet"]);
    assert!(status == Some(1) && said.contains("\"reused\":1"), "without keys: {said}");
    // The nonce has the extended address, which the frames do not.
    let (_, said, _) = run(&["radio.pcap", "--radio-keys", "stranger.toml"]);
    assert!(said.contains("refused: the file has no device of this source address"), "{said}");
    for words in [&["radio.pcap", "--keys", "radio.toml"][..], &["radio.pcap", "--write", "plain.pcap"]] {
        let (status, said, error) = run(words);
        assert!(status == Some(2) && error.contains("is for Ethernet"), "{said}{error}");
    }
    file("plant.pcap", &capture(&[protected(1)]));
    let (status, _, error) = run(&["plant.pcap", "--radio-keys", "radio.toml"]);
    assert!(status == Some(2) && error.contains("IEEE 802.15.4"), "{error}");
}

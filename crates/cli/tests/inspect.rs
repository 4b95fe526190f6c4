//! `antedate inspect` on a capture that gzip packed, with an outer VLAN tag and a refused frame.

mod folder;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use antedate_channel::macsec::{An, CipherSuite, Sak, Transmit, TransmitConfig};
use antedate_wire::Sci;
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

/// A capture of these frames, a second apart.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
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

//! `antedate inspect` on a capture that gzip packed, with an outer VLAN tag and a refused frame, on
//! one of IEEE 802.15.4, on one of WireGuard with its key log, on those of GOOSE, DTLS and MQTT.

#[cfg(feature = "dtls")]
#[path = "inspect/dtls.rs"]
mod dtls;
mod folder;
#[cfg(feature = "mqtt")]
#[path = "inspect/mqtt.rs"]
mod mqtt;
#[path = "inspect/recorded.rs"]
mod recorded;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use antedate_aead::{Aes128Gcm, Key};
use antedate_channel::dot15d4::{
    Address, Addressing, Asn, Config, ExtendedAddress, Header, KeyConfig, KeyIdentifier, KeyLookup, Levels,
    LinkKey, NonceKind, PanId, Policy, Protection, Security, SecurityLevel, ShortAddress,
};
use antedate_channel::goose::{Counter, Form, KeyPeriod, Layout, Publisher};
use antedate_channel::macsec::{An, CipherSuite, Sak, Transmit, TransmitConfig};
use antedate_channel::wireguard::{
    Device, Environment, HEADROOM, KeyLogEntry, LONGEST_HANDSHAKE, Received, Settings, Timestamp,
};
use antedate_gateway::config::tunnel_keys::encode;
use antedate_wire::dot15d4::capture::{LinkType, emit_tap};
use antedate_wire::goose::{Message, Publisher as Block, Value, Values};
use antedate_wire::{EthernetAddress, Sci};
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

#[test]
fn capture_comes_by_a_pipe_and_is_counted() {
    let folder = Folder::new();
    let file = capture(&[protected(1), protected(1), protected(3)]);
    let inspect = |octets: &[u8], words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_antedate"));
        command.args(["inspect", "-"]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the command");
        child.stdin.take().expect("its input").write_all(octets).expect("taken");
        let output = child.wait_with_output().expect("its output");
        let text = |octets| String::from_utf8(octets).expect("a text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, said, _) = inspect(&file, &[]);
    assert_eq!((status, said.lines().count()), (Some(0), 6), "{said}");
    let (status, said, told) = inspect(&file[..file.len() - 1], &["--quiet"]);
    assert!(
        status == Some(0) && said.starts_with("2 frames") && told.contains("ends within a frame"),
        "{told}"
    );
    let (status, said, _) = inspect(&file, &["--stats"]);
    let row = said.lines().nth(1).unwrap_or_default();
    assert!(status == Some(0) && row.trim_start().starts_with("3 ") && row.contains("1000.000"), "{said}");
    let (_, said, _) = inspect(&file, &["--stats", "--json"]);
    let table: serde_json::Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&table["stats"][0]["frames"], &table["stats"][0]["longest"]), (&3.into(), &1.0.into()));
    let (status, _, told) = inspect(&capture_of(195, &[vec![1; 20]]), &[]);
    assert!(status == Some(2) && told.contains("give --radio-keys"), "{told}");
    let output = folder.call(&["inspect", "--interface", "none0"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && told.contains("cannot listen at none0"), "{told}");
}

#[test]
fn pipe_without_reader_or_with_a_signal_ends() {
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_antedate"));
        let command = command.args(["inspect", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null()).spawn().expect("the command")
    };
    let file = capture(&[protected(1)]);
    // Nobody reads its lines: it takes no more frames.
    let mut child = start();
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("its input");
    input.write_all(&file).expect("taken");
    let is_refused = (0..1_000_000).any(|_| input.write_all(&file[24..]).is_err());
    assert!(is_refused, "it goes on");
    child.wait().expect("it ends");
    // A signal ends a quiet one, with the summary of what came.
    let mut child = start();
    let mut input = child.stdin.take().expect("its input");
    input.write_all(&file).expect("taken");
    let mut lines = BufReader::new(child.stdout.take().expect("its lines")).lines().map_while(Result::ok);
    assert!(lines.next().is_some_and(|line| line.contains("macsec")));
    Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert!(lines.any(|line| line.starts_with("1 frames")));
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    drop(input);
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

/// A clock that stands, and numbers that differ.
struct World(u8);

impl Environment for World {
    fn now(&self) -> u64 {
        1_000_000_000
    }

    fn timestamp(&self) -> Timestamp {
        [0x40; 12]
    }

    fn random(&mut self, out: &mut [u8]) {
        for octet in out {
            self.0 = self.0.wrapping_mul(29).wrapping_add(7);
            *octet = self.0;
        }
    }
}

/// A datagram between these last octets of addresses, without checksums, which a reader of captures
/// does not ask for.
fn datagram([from, to]: [u8; 2], ports: [u16; 2], content: &[u8]) -> Vec<u8> {
    let length = (content.len() + 8) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend((length + 20).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, from, 192, 0, 2, to]);
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(content);
    packet
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], packet].concat()
}

/// Two devices: the datagrams of a handshake and of these packets from the first one, and the log of
/// the second.
fn tunnel(packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<KeyLogEntry>) {
    let keys = [[0x11; 32], [0x22; 32]];
    let [mut a, mut b] = keys.map(|key| Device::new(&key));
    b.log_keys();
    let ends = [1, 2].map(|last| std::net::SocketAddr::from(([192, 0, 2, last], 51_820)));
    let settings = |other: usize| {
        let mut settings = Settings::new(Device::public_of(&keys[other]));
        settings.preshared = [9; 32];
        settings.endpoint = (other == 1).then_some(ends[1]);
        settings
    };
    let peer = a.add_peer(&settings(1)).expect("a peer");
    b.add_peer(&settings(0)).expect("a peer");
    let (mut world, mut out, mut all) = (World(3), [0; LONGEST_HANDSHAKE], Vec::new());
    a.want_handshake(world.now(), peer);
    let sent = a.poll(&mut world, &mut out).expect("an initiation");
    all.push(out[..sent.len].to_vec());
    let mut answer = [0; LONGEST_HANDSHAKE];
    let received = b.receive(&mut world, ends[0], &mut all[0].clone(), &mut answer).expect("taken");
    let Received::Answer { len } = received else { panic!("{received:?}") };
    all.push(answer[..len].to_vec());
    a.receive(&mut world, ends[1], &mut all[1].clone(), &mut out).expect("taken");
    for packet in packets {
        let mut sealed = vec![0; packet.len() + 64];
        sealed[HEADROOM..HEADROOM + packet.len()].copy_from_slice(packet);
        let (_, len) = a.seal(world.now(), peer, &mut sealed, packet.len()).expect("sealed");
        sealed.truncate(len);
        all.push(sealed);
    }
    (all, b.take_key_log())
}

#[test]
fn tunnel_is_opened_with_its_key_log() {
    let machine = [&[2, 0, 0x5e, 0, 0, 9, 2, 0, 0x5e, 0, 0, 8, 0x88, 0x92][..], &[5; 60]].concat();
    let vxlan = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &machine].concat();
    let inner = datagram([66, 67], [40_000, 4_789], &vxlan);
    let (datagrams, log) = tunnel(&[inner.clone(), vec![0x80; 20], inner]);
    let mut frames: Vec<_> = datagrams
        .iter()
        .enumerate()
        .map(|(at, content)| {
            let ends = if at == 1 { [2, 1] } else { [1, 2] };
            ethernet(&datagram(ends, [51_820; 2], content))
        })
        .collect();
    let mut forged = frames[2].clone();
    *forged.last_mut().expect("octets") ^= 1;
    frames.extend([forged, frames[2].clone(), machine.clone()]);

    let folder = Folder::new();
    fs::write(folder.path("site.pcap"), capture(&frames)).expect("a capture");
    let [KeyLogEntry { local_static, local_ephemeral, remote_static, preshared }] = &log[..] else {
        panic!("{} sessions", log.len());
    };
    let lines = [
        ("LOCAL_STATIC_PRIVATE_KEY", &**local_static),
        ("REMOTE_STATIC_PUBLIC_KEY", remote_static),
        ("LOCAL_EPHEMERAL_PRIVATE_KEY", &**local_ephemeral),
        ("PRESHARED_KEY", &**preshared),
    ];
    let text: String = lines.iter().map(|(name, key)| format!("{name} = {}\n", &*encode(key))).collect();
    let keys = folder.path("keys.log");
    fs::write(&keys, text).expect("keys");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).expect("their mode");

    let words = ["inspect", "site.pcap", "--wireguard-keys", "keys.log"];
    let output = folder.call(&[&words[..], &["--write", "plain.pcap"]].concat());
    let said = String::from_utf8(output.stdout).expect("a text");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = said.lines().collect();
    for (at, end) in [
        (0, "initiation begins a handshake"),
        (1, "response   a session whose keys are logged"),
        (2, "VNI 42 [8892] authentic"),
        (3, "a message or a piece of a frame between Antedates"),
        (4, "VNI 42 [8892] authentic"),
        (5, "refused: wrong tag"),
        (6, "(a copy) VNI 42 [8892] authentic"),
    ] {
        assert!(lines[at].ends_with(end), "{end}: {said}");
    }
    assert!(said.contains("8 frames, 7 of WireGuard, 4 opened, 1 refused"), "{said}");
    let plain = fs::read(folder.path("plain.pcap")).expect("written");
    assert_eq!(plain.windows(machine.len()).filter(|window| **window == machine[..]).count(), 3);

    let json = folder.call(&[&words[..], &["--json"]].concat()).stdout;
    let json = String::from_utf8(json).expect("a text");
    let line = json.lines().nth(2).expect("a line");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!((line["vni"].as_u64(), line["number"].as_u64()), (Some(42), Some(0)), "{line}");

    // Without the log of this session nothing is opened, and nothing is a fault.
    let other = folder.path("other.log");
    fs::write(&other, "LOCAL_STATIC_PRIVATE_KEY = AAAA\n").expect("keys");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).expect("their mode");
    let refused = folder.call(&["inspect", "site.pcap", "--wireguard-keys", "other.log"]);
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("other.log:1") && refused.contains("32 octets in Base64"), "{refused}");
}

/// Frames of a publisher whose numbers begin here: an event, and two repetitions.
fn events(form: Form, first: u64) -> Vec<Vec<u8>> {
    let source = [2, 0, 0, 0, 0, 1];
    let values = [Value::Boolean(true), Value::int32(7)];
    let message = Message {
        appid: 0x3001,
        publisher: Block {
            gocb_ref: b"bayLD0/LLN0$GO$gcbTrip",
            time_allowed_to_live: 500,
            dat_set: b"bayLD0/LLN0$dsTrip",
            go_id: None,
        },
        t: [0; 8],
        st_num: 0,
        sq_num: 0,
        simulation: false,
        conf_rev: 1,
        nds_com: false,
        all_data: Values::Given(&values),
    };
    let period = KeyPeriod { key: 7, since: 1_790_000_000, minutes_left: 60 };
    let group = EthernetAddress([1, 0x0c, 0xcd, 1, 0, 1]);
    let layout = Layout::new(group, EthernetAddress(source), &message, form, period).expect("a layout");
    let key = Key::<Aes128Gcm>::new(&[0x17; 16]).expect("a key");
    let mut publisher =
        Publisher::new(key, Counter::new(source, first, 1_000), &layout).expect("a publisher");
    let (mut out, mut all) = (vec![0; 512], Vec::new());
    let length = publisher.event([0; 8], 500, &values, &mut out).expect("an event");
    all.push(out[..length].to_vec());
    for _ in 0..2 {
        let length = publisher.repeat(500, &mut out).expect("a repetition");
        all.push(out[..length].to_vec());
    }
    all
}

#[test]
fn goose_is_checked_and_audited() {
    let folder = Folder::new();
    let key = folder.path("key");
    fs::write(&key, "17".repeat(16)).expect("a key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("its mode");
    let mut frames = events(Form::Authenticated, 5);
    let tagged = [&frames[1][..12], &[0x81, 0, 0x80, 0], &frames[1][12..]].concat();
    let mut forged = frames[2].clone();
    let at = forged.len() - 40;
    forged[at] ^= 1;
    frames.extend([tagged, forged]);
    frames.extend(events(Form::Encrypted, 20));
    fs::write(folder.path("bay.pcap"), capture(&frames)).expect("a capture");
    let words = ["inspect", "bay.pcap", "--goose-key", "key", "--goose-key-number"];
    let run = |number: &str| {
        let output = folder.call(&[&words[..], &[number]].concat());
        (String::from_utf8(output.stdout).expect("a text"), output.status.code())
    };
    let (said, code) = run("7");
    let lines: Vec<&str> = said.lines().collect();
    for (at, end) in [
        (0, "goose   3001 bayLD0/LLN0$GO$gcbTrip state 1 sequence 0 IV 5 authentic"),
        (1, "sequence 1 IV 6 authentic"),
        (3, "IV 6 (a copy) authentic"),
        (5, "state 1 sequence 0 IV 20 (12 missing before it) authentic, was encrypted"),
    ] {
        assert!(lines[at].ends_with(end), "{end}: {said}");
    }
    assert!(lines[4].contains("refused: "), "{said}");
    assert!(said.contains("8 frames, 8 of GOOSE or sampled values, 7 authentic, 1 refused"), "{said}");
    assert_eq!(code, Some(0));
    assert!(run("8").0.contains("0 authentic, 8 refused"));

    // The same numbers for other contents.
    let mut frames = events(Form::Authenticated, 5);
    frames.extend(events(Form::Encrypted, 6));
    fs::write(folder.path("bay.pcap"), capture(&frames)).expect("a capture");
    let (said, code) = run("7");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("(USED BEFORE)"), "{said}");
}

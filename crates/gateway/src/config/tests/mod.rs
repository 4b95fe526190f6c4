//! Whole files with their whole messages.

mod machine;
mod manual;
mod workers;

use std::path::Path;
use std::time::Duration;

use antedate_channel::macsec::CipherSuite;
use antedate_channel::mka::AUTOMATIC;
use antedate_wire::vlan::VlanId;
use antedate_wire::{EthernetAddress, Sci};

use super::policy::conditions::UNTAGGED;
use super::policy::{Action, AddressMatch, Conditions, Direction, Limit, Ranges, Rule, Traffic};
use super::*;

const SMALLEST: &str = "\
[field]
interface = \"eth1\"
[uplink]
interface = \"eth0\"
[macsec]
key_file = \"keys\"
";

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("/etc/antedate/g.toml"), text)
        .map_err(|faults| faults.to_string().replace("/etc/antedate/", ""))
}

/// The faults of the smallest configuration with these lines appended. `keys` is its last line,
/// number 6.
fn faults_with(lines: &str) -> String {
    parse(&format!("{SMALLEST}{lines}")).expect_err("a fault")
}

#[test]
fn second_uplink_has_a_window() {
    let second = "[second_uplink]\ninterface = \"eth2\"\n";
    let config = parse(&format!("{SMALLEST}{second}")).unwrap();
    let interface = InterfaceName::new("eth2").unwrap();
    assert_eq!(config.second_uplink, Some(SecondUplink { interface, waiting: None }));
    let Protection::Macsec(macsec) = &config.protection else { panic!("{config:?}") };
    assert_eq!(macsec.replay_window, 1024);
    for (lines, fault) in [
        (
            format!("replay_window = 63\n{second}"),
            "g.toml:7: macsec.replay_window: 63 is out of range\n    remedy: give a whole number from 64 to 1024",
        ),
        (
            format!("{second}[ptp]\ntransparent_clock = true\n"),
            "g.toml:10: ptp.transparent_clock: two uplinks are two ways",
        ),
        (
            second.replace("eth2", "eth0"),
            "g.toml:8: second_uplink.interface: \"eth0\" is the uplink's interface",
        ),
        (
            second.replace("eth2", "eth1"),
            "g.toml:8: second_uplink.interface: \"eth1\" is the field's interface",
        ),
        ("[second_uplink]\n".into(), "second_uplink.interface"),
        (
            format!("{second}preempt = true\n"),
            "g.toml:9: second_uplink.preempt: belongs to mode = \"waiting\"",
        ),
        (format!("{second}mode = \"one\"\n"), "g.toml:9: second_uplink.mode: \"one\""),
        (format!("{second}mode = \"waiting\"\nhello_ms = 4\n"), "g.toml:10: second_uplink.hello_ms: 4"),
    ] {
        let faults = faults_with(&lines);
        assert!(faults.contains(fault), "{faults}");
    }
    let whole = parse(&format!("{SMALLEST}replay_window = 64\n{second}"));
    assert!(whole.is_ok(), "{whole:?}");
}

#[test]
fn waiting_uplink_says_hello() {
    let read = |lines: &str| {
        let text = format!("{SMALLEST}[second_uplink]\ninterface = \"eth2\"\n{lines}");
        let config = parse(&text).unwrap();
        (config.second_uplink.as_ref().and_then(|second| second.waiting), config.hello())
    };
    let ms = Duration::from_millis;
    assert_eq!(read("mode = \"both\"\n"), (None, None));
    let usual = Waiting { hello: None, preempt: false };
    assert_eq!(read("mode = \"waiting\"\n"), (Some(usual), Some(ms(100))));
    assert_eq!(read("mode = \"waiting\"\n[run]\npriority = 50\n").1, Some(ms(10)));
    let other = Waiting { hello: Some(ms(50)), preempt: true };
    let lines = "mode = \"waiting\"\nhello_ms = 50\npreempt = true\n";
    assert_eq!(read(lines), (Some(other), Some(ms(50))));
    // One hello for both.
    assert_eq!(read(&format!("{lines}[link_loss]\nhello_ms = 20\n")).1, Some(ms(20)));
}

#[test]
fn link_loss_has_times() {
    let read = |lines: &str| parse(&format!("{SMALLEST}{lines}")).map(|config| config.link_loss);
    let ms = Duration::from_millis;
    assert_eq!(read(""), Ok(None));
    let defaults = LinkLoss { hello: None, hold: ms(0), recovery: ms(1000) };
    assert_eq!([None, Some(1)].map(|priority| defaults.hello(priority)), [ms(100), ms(10)]);
    assert_eq!(read("[link_loss]\n"), Ok(Some(defaults)));
    let others = LinkLoss { hello: Some(ms(5)), hold: ms(10_000), recovery: ms(0) };
    assert_eq!(read("[link_loss]\nhello_ms = 5\nhold_ms = 10_000\nrecovery_ms = 0\n"), Ok(Some(others)));
    for (line, range) in [
        ("hello_ms = 4", "5 to 1000"),
        ("hello_ms = 1001", "5 to 1000"),
        ("hold_ms = 10_001", "0 to 10000"),
        ("recovery_ms = 60_001", "0 to 60000"),
    ] {
        let faults = faults_with(&format!("[link_loss]\n{line}\n"));
        assert!(faults.contains(range), "{faults}");
    }
}

#[test]
fn standby_has_a_group() {
    let read = |lines: &str| parse(&format!("{SMALLEST}{lines}")).map(|config| config.standby);
    let ms = Duration::from_millis;
    assert_eq!(read(""), Ok(None));
    let defaults = StandbySettings { group: 7, priority: 100, hello: ms(20), preempt: false };
    assert_eq!(read("[standby]\ngroup = 7\n"), Ok(Some(defaults)));
    let others = StandbySettings { group: 255, priority: 1, hello: ms(5), preempt: true };
    let lines = "[standby]\ngroup = 255\npriority = 1\nhello_ms = 5\npreempt = true\n";
    assert_eq!(read(lines), Ok(Some(others)));
    for (lines, fault) in [
        ("", "standby.group: is missing"),
        ("group = 0\n", "1 to 255"),
        ("group = 1\npriority = 256\n", "1 to 255"),
        ("group = 1\nhello_ms = 4\n", "5 to 1000"),
        ("group = 1\npreempt = 1\n", "standby.preempt"),
    ] {
        let faults = faults_with(&format!("[standby]\n{lines}"));
        assert!(faults.contains(fault), "{faults}");
    }
}

#[test]
fn loop_detection_has_times() {
    let read = |lines: &str| parse(&format!("{SMALLEST}{lines}")).map(|config| config.loops);
    let settings = |probe, hold| {
        Some(LoopSettings { probe: Duration::from_millis(probe), hold: Duration::from_millis(hold) })
    };
    assert_eq!(read(""), Ok(None));
    assert_eq!(read("[loop_detection]\n"), Ok(settings(1_000, 10_000)));
    assert_eq!(read("[loop_detection]\nprobe_ms = 100\nhold_ms = 0\n"), Ok(settings(100, 0)));
    for (line, range) in [("probe_ms = 99", "100 to 10000"), ("hold_ms = 600_001", "0 to 600000")] {
        let faults = faults_with(&format!("[loop_detection]\n{line}\n"));
        assert!(faults.contains(range), "{faults}");
    }
}

#[test]
fn defaults_are_as_documented() {
    let config = parse(SMALLEST).unwrap();
    assert_eq!(config.field.interface.as_str(), "eth1");
    let eth0 = InterfaceName::new("eth0").unwrap();
    assert_eq!(
        config.uplink,
        UplinkPort { interface: eth0, mtu: None, outer: None, carries_link_local: false, io: Io::Auto }
    );
    assert_eq!(
        config.protection,
        Protection::Macsec(Macsec {
            cipher: Cipher::Unsaid,
            keys: Keys::Static("/etc/antedate/keys".into()),
            identity: Identity::OfUplink { port: 1 },
            confidentiality: true,
            sci_mode: SciMode::Explicit,
            fragmentation: Fragmentation::Auto,
            replay_window: 0,
        })
    );
    assert!(config.policy.passes_nothing());
    assert_eq!(
        config.run,
        Run {
            threads: Threads::One(None),
            poll: Poll::Adaptive { cpu_percent: 10 },
            priority: None,
            prepare: 16,
            qdisc_bypass: true,
            preload: true,
            max_age: Bounds::new(Some(Duration::from_secs(1)), Some(Duration::from_millis(100))),
        }
    );
    assert_eq!(config.state, State { directory: "/var/lib/antedate".into(), reserve: 1 << 20 });
    assert_eq!(config.control.socket, Path::new("/run/antedate/gateway.sock"));
}

#[test]
fn every_key_is_read() {
    let config = parse(
        "[field]\ninterface = \"eth1\"\n[uplink]\ninterface = \"eth0\"\nmtu = 1550\n\
         carry_link_local = true\nvlan = \"outside\"\nvlan_id = 100\nvlan_priorities = [1, 1, 2, 3, 4, 5, 6, 7]\n\
         [macsec]\ncipher = \"aes-256-gcm\"\nkey_file = \"/k\"\nsci = \"02:00:00:00:00:01/7\"\nconfidentiality = false\n\
         include_sci = false\nreplay_window = 64\nvalidate = \"strict\"\n\
         [policy]\nallow = [\"profinet-rt\", \"lldp\"]\n\
         [[policy.rule]]\naction = \"deny\"\ndirection = \"in\"\nframe_id = [0x8000, 0x80ff]\nvlan = \"untagged\"\n\
         source = \"01:0e:cf:00:00:00/24\"\n\
         [[policy.rule]]\naction = \"allow\"\nethertype = \"goose\"\nvlan = 7\ndestination = \"01-0c-cd-01-00-01\"\n\
         [run]\nthreads = 2\ncpus = [0, 1]\npoll = \"block\"\npriority = 20\nprepare = 8\nqdisc_bypass = false\npreload = false\n\
         [state]\ndirectory = \"s\"\nreserve = 65536\n[control]\nsocket = \"c.sock\"\n",
    )
    .unwrap();
    assert_eq!(config.uplink.mtu, Some(1550));
    let outer = OuterTag { vlan: VlanId::new(100), priorities: [1, 1, 2, 3, 4, 5, 6, 7] };
    assert_eq!(config.uplink.outer, Some(outer));
    assert!(config.uplink.carries_link_local);
    let Protection::Macsec(macsec) = &config.protection else { panic!("{:?}", config.protection) };
    assert_eq!(macsec.cipher, Cipher::Named(CipherSuite::GcmAes256));
    assert_eq!(macsec.identity, Identity::Explicit(Sci([2, 0, 0, 0, 0, 1, 0, 7])));
    assert_eq!(
        (macsec.sci_mode, macsec.confidentiality, macsec.replay_window),
        (SciMode::PointToPoint, false, 64)
    );
    assert_eq!(config.policy.allow, [Traffic::ProfinetRt, Traffic::Lldp]);
    let [deny, allow] = config.policy.rules.as_slice() else { panic!("{:?}", config.policy.rules) };
    assert_eq!(
        *deny,
        Rule {
            line: 20,
            direction: Direction::In,
            conditions: Conditions {
                source: vec![AddressMatch { address: EthernetAddress([1, 0x0e, 0xcf, 0, 0, 0]), prefix: 24 }],
                vlan: Ranges::one(UNTAGGED),
                frame_id: Ranges(vec![0x8000..=0x80ff]),
                ..Conditions::default()
            },
            action: Action::Deny,
            limit: Limit::default(),
        }
    );
    let Conditions { ethertype, vlan, .. } = &allow.conditions;
    assert_eq!((ethertype, vlan, allow.line), (&Ranges::one(0x88b8), &Ranges::one(7), 26));
    assert_eq!(config.run.threads, Threads::Two([Some(0), Some(1)]));
    assert_eq!((config.run.poll, config.run.priority), (Poll::Block, Some(20)));
    assert_eq!(config.state.directory, Path::new("/etc/antedate/s"));
    assert_eq!(config.control.socket, Path::new("/etc/antedate/c.sock"));
}

#[test]
fn bounds_belong_to_what_passes() {
    const HEAD: &str =
        "[field]\ninterface = \"a\"\n[uplink]\ninterface = \"b\"\n[macsec]\nkey_file = \"k\"\n[policy]\n";
    let read = |lines: &str| parse(&format!("{HEAD}{lines}\n"));
    let policy = read(
        "broadcast_limit = 100\nmulticast_limit = 0\nunknown_limit = 7\nburst_frames = 9\n[[policy.rule]]\n\
         action = \"allow\"\nframes_per_second = 20\noctets_per_second = 30_000\nburst_frames = 5\n\
         burst_octets = 6000\n[[policy.rule]]\naction = \"deny\"",
    )
    .unwrap()
    .policy;
    let Policy { broadcast_limit, multicast_limit, unknown_limit, burst, .. } = policy;
    assert_eq!((broadcast_limit, multicast_limit, unknown_limit, burst), (100, 0, 7, 9));
    let limits: Vec<_> = policy.rules.iter().map(|rule| rule.limit).collect();
    assert_eq!(
        limits,
        [Limit { frames: 20, octets: 30_000, burst_frames: 5, burst_octets: 6000 }, Limit::default(),]
    );
    for (lines, fault) in [
        ("broadcast_limit = -1", "g.toml:8: policy.broadcast_limit: "),
        ("multicast_limit = \"many\"", "g.toml:8: policy.multicast_limit: "),
        (
            "[[policy.rule]]\naction = \"deny\"\nframes_per_second = 1",
            "g.toml:10: policy.rule[0].frames_per_second: bounds frames that pass",
        ),
        (
            "[[policy.rule]]\naction = \"allow\"\noctets_per_second = 0",
            "g.toml:10: policy.rule[0].octets_per_second: 0 is out of range",
        ),
        (
            "[[policy.rule]]\naction = \"allow\"\nburst_frames = 5",
            "g.toml:10: policy.rule[0].burst_frames: is a burst without a bound",
        ),
        (
            "[[policy.rule]]\naction = \"allow\"\noctets_per_second = 9\nburst_octets = 100",
            "g.toml:11: policy.rule[0].burst_octets: 100 is out of range",
        ),
        (
            "multicast_limit = 0\nburst_frames = 5",
            "g.toml:9: policy.burst_frames: is a burst without a bound",
        ),
    ] {
        let found = read(lines).unwrap_err();
        assert!(found.contains(fault), "{lines}: {found}");
    }
}

#[test]
fn classes_follow_the_priority() {
    let read = |dscp: &str| {
        let text = format!(
            "[field]\ninterface = \"a\"\n[uplink]\ninterface = \"b\"\n[overlay]\nprivate_key_file = \"k\"\n\
             address = \"10.66.0.1\"\nvni = 42\n{dscp}\n[[overlay.peer]]\nname = \"p\"\naddress = \"10.66.0.2\"\n\
             public_key = \"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\"\n"
        );
        parse(&text).map(|config| match config.protection {
            Protection::Overlay(overlay) => overlay.dscp,
            other => panic!("{other:?}"),
        })
    };
    let selectors = [0, 8, 16, 24, 32, 40, 48, 56];
    for (line, dscp) in [
        ("", overlay::Dscp::ByPriority(selectors)),
        ("dscp = \"copy\"", overlay::Dscp::ByPriority(selectors)),
        ("dscp = \"off\"", overlay::Dscp::Fixed(0)),
        ("dscp = 46", overlay::Dscp::Fixed(46)),
        ("dscp = [0, 8, 16, 24, 32, 40, 46, 48]", overlay::Dscp::ByPriority([0, 8, 16, 24, 32, 40, 46, 48])),
    ] {
        assert_eq!(read(line), Ok(dscp), "{line}");
    }
    for (line, fault) in [
        ("dscp = [0, 8]", "g.toml:9: overlay.dscp: has 2 values"),
        ("dscp = [0, 8, 16, 24, 32, 40, 46, 64]", "64 is out of range"),
    ] {
        let found = read(line).unwrap_err();
        assert!(found.contains(fault), "{line}: {found}");
    }
}

#[test]
fn outer_tags_have_a_place() {
    const HEAD: &str = "[field]\ninterface = \"eth1\"\n[uplink]\ninterface = \"eth0\"\n";
    let read = |lines: &str| parse(&format!("{HEAD}{lines}\n[macsec]\nkey_file = \"k\"\n"));
    for lines in ["", "vlan = \"inside\""] {
        assert_eq!(read(lines).unwrap().uplink.outer, None, "{lines}");
    }
    let priorities = [0, 1, 2, 3, 4, 5, 6, 7];
    for (lines, vlan) in [("vlan = \"copy\"", None), ("vlan = \"outside\"", Some(VlanId::PRIORITY))] {
        assert_eq!(read(lines).unwrap().uplink.outer, Some(OuterTag { vlan, priorities }), "{lines}");
    }
    for (lines, fault) in [
        ("vlan = \"out\"", "g.toml:5: uplink.vlan: \"out\" is not a place of VLAN tags"),
        ("vlan = 7", "g.toml:5: uplink.vlan: "),
        ("vlan_id = 7", "g.toml:5: uplink.vlan_id: belongs to vlan = \"outside\""),
        ("vlan = \"copy\"\nvlan_id = 7", "g.toml:6: uplink.vlan_id: belongs to vlan = \"outside\""),
        ("vlan = \"outside\"\nvlan_id = 4095", "g.toml:6: uplink.vlan_id: 4095 is out of range"),
        ("vlan_priorities = [0]", "g.toml:5: uplink.vlan_priorities: belongs to a tag outside"),
        ("vlan = \"copy\"\nvlan_priorities = [0]", "g.toml:6: uplink.vlan_priorities: has 1 values"),
        ("vlan = \"copy\"\nvlan_priorities = [0, 1, 2, 3, 4, 5, 6, 8]", "8 is out of range"),
    ] {
        let found = read(lines).unwrap_err();
        assert!(found.contains(fault), "{lines}: {found}");
    }
}

#[test]
fn all_faults_come_together() {
    let text = "\
[field]
intreface = \"eth1\"
[uplink]
interface = \"an-interface-name-too-long\"
mtu = 70000
[macsec]
cipher = \"gcm-aes-182\"
key_fiel = \"keys\"
validate = \"check\"
[policy]
allow = [
  \"profinet-rt\",
  \"proifnet-dcp-read\",
]
[run]
threads = 3
poll = \"busy\"
priority = 20
[metrics]
listen = \"0.0.0.0:9464\"
[plicy]
";
    assert_eq!(
        parse(text).unwrap_err(),
        "\
g.toml:1: field.interface: is missing
    remedy: name the interface of the side with the machines
g.toml:2: field.intreface: unknown key
    remedy: did you mean \"interface\"?
g.toml:4: uplink.interface: \"an-interface-name-too-long\" cannot be the name of an interface
    remedy: give a name of at most 15 characters as `ip link` shows it
g.toml:5: uplink.mtu: 70000 is out of range
    remedy: give a whole number from 128 to 65535
g.toml:6: macsec.key_file: is missing
    remedy: name the file that `antedate keygen macsec` wrote
g.toml:7: macsec.cipher: \"gcm-aes-182\" is not a cipher suite
    remedy: did you mean \"gcm-aes-128\"?
g.toml:8: macsec.key_fiel: unknown key
    remedy: did you mean \"key_file\"?
g.toml:9: macsec.validate: \"check\" would let frames that nobody authenticated reach the machines
    remedy: write \"strict\" or remove the line
g.toml:13: policy.allow[1]: \"proifnet-dcp-read\" is not a kind of traffic
    remedy: did you mean \"profinet-dcp-read\"?
g.toml:16: run.threads: 3 is out of range
    remedy: give a whole number from 1 to 2
g.toml:18: run.priority: a real-time thread that never sleeps is stopped by the kernel for 50 ms in each second
    remedy: poll = \"adaptive\" with poll_cpu_percent of at most 90, or no priority
g.toml:20: metrics.listen: 0.0.0.0:9464 can be reached from other machines, and nobody is asked who they are
    remedy: give a loopback address and an SSH tunnel, or a token_file, and a proxy with TLS in front
g.toml:21: plicy: unknown key
    remedy: did you mean \"policy\"?"
    );
}

#[test]
fn empty_file_gets_full_remedies() {
    assert_eq!(
        parse("").unwrap_err(),
        "\
g.toml: [field]: is missing
    remedy: add [field] with the interface of the side with the machines
g.toml: [uplink]: is missing
    remedy: add [uplink] with the interface of the untrusted side
g.toml: [macsec]: is missing
    remedy: add [macsec] with a cak_file (`antedate keygen macsec --cak` makes one), or [overlay] between sites"
    );
}

#[test]
fn same_interface_twice_is_refused() {
    let text = SMALLEST.replace("eth0", "eth1");
    assert_eq!(
        parse(&text).unwrap_err(),
        "g.toml:4: uplink.interface: \"eth1\" is the field's interface already\n    \
         remedy: a gateway needs two interfaces: one to the machines, one to the untrusted side"
    );
}

#[test]
fn macsec_and_plain_exclude_each_other() {
    assert_eq!(
        faults_with("[plain]\n"),
        "g.toml:7: plain: stands beside [macsec], and only one of the two can hold\n    remedy: remove [plain]"
    );
}

#[test]
fn plain_is_warned_of() {
    let text = SMALLEST.replace("[macsec]\nkey_file = \"keys\"\n", "[plain]\n");
    let config = parse(&text).unwrap();
    assert_eq!(config.protection, Protection::Plain);
    let warnings: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    assert!(warnings[0].starts_with("/etc/antedate/g.toml:5: plain: NOTHING IS PROTECTED"), "{warnings:?}");
    assert!(warnings[1].contains("policy: nothing is named, so nothing passes"), "{warnings:?}");
}

#[test]
fn key_agreement_needs_cak_file_alone() {
    let agreed = |lines: &str| {
        let text = SMALLEST.replace("key_file = \"keys\"\n", &format!("cak_file = \"cak\"\n{lines}"));
        parse(&text).map(|config| match config.protection {
            Protection::Macsec(Macsec { keys: Keys::Agreed(settings), .. }) => settings,
            other => panic!("{other:?}"),
        })
    };
    let settings = agreed("").unwrap();
    assert_eq!(settings.cak_file, Path::new("/etc/antedate/cak"));
    assert_eq!((settings.destinations, settings.priority), (AUTOMATIC.to_vec(), 128));
    assert!(!settings.delay_protect);
    let all = "mka_destination = \"02:00:00:00:00:05\"\nmka_priority = 0\nmka_rekey_seconds = 60\nmka_delay_protect = true\n";
    let settings = agreed(all).unwrap();
    assert_eq!((settings.destinations, settings.priority), (vec![EthernetAddress([2, 0, 0, 0, 0, 5])], 0));
    assert_eq!((settings.rekey_after, settings.delay_protect), (Some(Duration::from_secs(60)), true));
    let named = |name: &str| agreed(&format!("mka_destination = \"{name}\"\n")).unwrap().destinations;
    assert_eq!(named("nearest-bridge"), [EthernetAddress::LLDP_NEAREST_BRIDGE]);
    assert_eq!(named("auto"), AUTOMATIC);
    for (lines, expected) in [
        ("mka_destination = \"00:00:00:00:00:00\"\n", "is nobody's address"),
        ("mka_destination = \"nearest-brigde\"\n", "did you mean \"nearest-bridge\"?"),
        ("mka_priority = 256\n", "g.toml:7: macsec.mka_priority: 256 is out of range"),
        ("mka_rekey_seconds = 1\n", "g.toml:7: macsec.mka_rekey_seconds: 1 is out of range"),
    ] {
        let found = agreed(lines).expect_err("a fault");
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn cipher_is_named_or_chosen() {
    let cipher = |lines: &str| {
        let text = SMALLEST.replace("key_file = \"keys\"\n", lines);
        parse(&text).map(|config| match config.protection {
            Protection::Macsec(macsec) => macsec.cipher,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(cipher("cak_file = \"c\"\n").unwrap(), Cipher::Unsaid);
    let named = "cak_file = \"c\"\ncipher = \"aegis-128l\"\n";
    assert_eq!(cipher(named).unwrap(), Cipher::Named(CipherSuite::Aegis128L));
    let Cipher::Auto(all) = cipher("cak_file = \"c\"\ncipher = \"auto\"\n").unwrap() else { panic!() };
    assert!(all.len() == 6 && !all.contains(&CipherSuite::Morus1280), "{all:?}");
    for (name, suite) in
        [("ascon-aead128", CipherSuite::AsconAead128), ("aes-128-ocb3", CipherSuite::Aes128Ocb3)]
    {
        assert!(!all.contains(&suite), "{name} is off unless configured");
        let named = format!("cak_file = \"c\"\ncipher = \"{name}\"\n");
        assert_eq!(cipher(&named).unwrap(), Cipher::Named(suite));
        let asked = format!("cak_file = \"c\"\ncipher = \"auto\"\nauto_ciphers = [\"{name}\"]\n");
        assert_eq!(cipher(&asked).unwrap(), Cipher::Auto(vec![suite]));
    }
    let some =
        "cak_file = \"c\"\ncipher = \"auto\"\nauto_ciphers = [\"gcm-aes-128\", \"chacha20-poly1305\"]\n";
    let expected = Cipher::Auto(vec![CipherSuite::GcmAes128, CipherSuite::ChaCha20Poly1305]);
    assert_eq!(cipher(some).unwrap(), expected);
    for (lines, expected) in [
        ("key_file = \"keys\"\ncipher = \"auto\"\n", "macsec.cipher: \"auto\" needs key agreement"),
        ("cak_file = \"c\"\nauto_ciphers = []\n", "macsec.auto_ciphers: belongs to cipher = \"auto\""),
        (
            "cak_file = \"c\"\ncipher = \"auto\"\nauto_ciphers = []\n",
            "macsec.auto_ciphers: names no cipher suite",
        ),
        ("cak_file = \"c\"\ncipher = \"auto\"\nauto_ciphers = [\"aegis\"]\n", "did you mean \"aegis-128l\"?"),
    ] {
        let found = cipher(lines).expect_err("a fault");
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn contradictions_within_macsec_are_refused() {
    for (lines, expected) in [
        (
            "sci = \"02005e1000010001\"\nport = 2\n",
            "g.toml:8: macsec.port: the SCI has its port number already",
        ),
        ("sci = \"0200\"\n", "g.toml:7: macsec.sci: \"0200\" is not an SCI"),
        ("include_sci = true\nend_station = true\n", "g.toml:8: macsec.end_station: contradicts include_sci"),
        ("cak_file = \"x\"\n", "g.toml:6: macsec.key_file: stands beside cak_file"),
        ("mka_priority = 1\n", "g.toml:7: macsec.mka_priority: belongs to key agreement"),
        ("fragmentation = 1\n", "g.toml:7: macsec.fragmentation: must be true or false, not an integer"),
        (
            "fragmentation = \"aut\"\n",
            "g.toml:7: macsec.fragmentation: \"aut\" is not a way to fragment\n    remedy: did you mean \"auto\"?",
        ),
        (
            "validate = \"strikt\"\n",
            "g.toml:7: macsec.validate: \"strikt\" is not a way to validate\n    remedy: did you mean \"strict\"?",
        ),
        (
            "fragmentation = \"yes\"\n",
            "g.toml:7: macsec.fragmentation: \"yes\" is not a way to fragment\n    \
             remedy: write true or false without quotes, \"auto\" or \"marked\"",
        ),
        (
            "replay_window = 1025\n",
            "g.toml:7: macsec.replay_window: 1025 is out of range\n    remedy: give a whole number from 0 to 1024",
        ),
        ("port = 0\n", "g.toml:7: macsec.port: 0 is out of range"),
        (
            "confidentiality = \"yes\"\n",
            "g.toml:7: macsec.confidentiality: must be true or false, not a string",
        ),
    ] {
        let found = faults_with(lines);
        assert!(found.starts_with(expected), "{found}");
        assert_eq!(found.matches("remedy").count(), 1, "{found}");
    }
}

#[test]
fn contradictions_within_run_are_refused() {
    for (lines, expected) in [
        (
            "poll = \"block\"\npoll_cpu_percent = 5\n",
            "g.toml:9: run.poll_cpu_percent: bounds adaptive polling only",
        ),
        ("threads = 2\ncpus = [0]\n", "g.toml:9: run.cpus: names 1 CPUs for 2 forwarding thread(s)"),
        ("cpus = [0, 1]\n", "g.toml:8: run.cpus: names 2 CPUs for 1 forwarding thread(s)"),
        ("cpus = 0\n", "g.toml:8: run.cpus: must be an array, not an integer"),
        ("priority = 1\npoll_cpu_percent = 91\n", "g.toml:8: run.priority: a real-time thread"),
        ("poll_cpu_percent = 0\n", "g.toml:8: run.poll_cpu_percent: 0 is out of range"),
        (
            "prepare = 1000\n",
            "g.toml:8: run.prepare: 1000 is out of range\n    remedy: give a whole number from 0 to 16",
        ),
    ] {
        let found = faults_with(&format!("[run]\n{lines}"));
        assert!(found.starts_with(expected), "{found}");
        assert_eq!(found.matches("remedy").count(), 1, "{found}");
    }
}

#[test]
fn rule_faults_have_their_line() {
    for (lines, expected) in [
        ("direction = \"in\"\n", "g.toml:7: policy.rule[0].action: is missing"),
        (
            "action = \"alow\"\n",
            "g.toml:8: policy.rule[0].action: \"alow\" is not an action\n    remedy: did you mean \"allow\"?",
        ),
        ("action = \"allow\"\nvlan = 4095\n", "g.toml:9: policy.rule[0].vlan: 4095 is out of range"),
        ("action = \"allow\"\nvlan = \"none\"\n", "g.toml:9: policy.rule[0].vlan: \"none\" is not a VLAN"),
        (
            "action = \"allow\"\nframe_id = [2, 1]\n",
            "g.toml:9: policy.rule[0].frame_id: begins behind its end",
        ),
        (
            "action = \"allow\"\nframe_id = [1]\n",
            "g.toml:9: policy.rule[0].frame_id: must be the first and the last",
        ),
        (
            "action = \"allow\"\nframe_id = 1\nethertype = 0x0800\n",
            "g.toml:10: policy.rule[0].ethertype: only Profinet has",
        ),
        ("action = \"allow\"\nethertype = 46\n", "g.toml:9: policy.rule[0].ethertype: 46 is out of range"),
        (
            "action = \"allow\"\nsource = \"01:0e:cf:00:00:01/24\"\n",
            "g.toml:9: policy.rule[0].source: \"01:0e:cf:00:00:01/24\" is not an address",
        ),
        (
            "action = \"allow\"\nsorce = \"x\"\n",
            "g.toml:9: policy.rule[0].sorce: unknown key\n    remedy: did you mean \"source\"?",
        ),
    ] {
        let found = faults_with(&format!("[[policy.rule]]\n{lines}"));
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn duplicate_traffic_is_refused() {
    let found = faults_with("[policy]\nallow = [\"arp\", \"arp\"]\n");
    assert_eq!(found, "g.toml:8: policy.allow[1]: \"arp\" is named twice\n    remedy: remove one of the two");
}

#[test]
fn section_must_be_a_table() {
    let text = SMALLEST
        .replace("[uplink]\ninterface = \"eth0\"\n", "")
        .replace("[field]", "uplink = \"eth0\"\n[field]");
    let found = parse(&text).unwrap_err();
    assert!(found.starts_with("g.toml:1: uplink: must be a section, not a string"), "{found}");
}

#[test]
fn syntax_faults_hide_no_others() {
    let found = faults_with("[run]\nthreads = \nprioritty = 3\n");
    assert!(found.contains("g.toml:8: not TOML: "), "{found}");
    assert!(
        found.contains("g.toml:9: run.prioritty: unknown key\n    remedy: did you mean \"priority\"?"),
        "{found}"
    );
}

#[test]
fn unreadable_file_is_a_fault() {
    let found = Config::load(Path::new("/nowhere/g.toml")).unwrap_err().to_string();
    assert!(
        found.starts_with("/nowhere/g.toml: cannot read the configuration: no such file or directory"),
        "{found}"
    );
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "\\PC*") {
            let _ = Config::parse(Path::new("x"), &text);
        }

        #[test]
        fn edited_file_never_panics(at in 0..SMALLEST.len(), with in "\\PC{0,6}", cut in 0usize..8) {
            let mut text = SMALLEST.to_owned();
            let end = (at + cut).min(text.len());
            text.replace_range(at..end, &with);
            let _ = Config::parse(Path::new("x"), &text);
        }
    }
}

#[test]
fn flow_octets_count_from_ethertype() {
    assert_eq!(parse(SMALLEST).unwrap().flows, None);
    let text = "[flows]\n[[flows.shape]]\nbegins = \"8892 80 01\"\nvaries = [[20, 39], [60, 60]]\n";
    let flows = parse(&format!("{SMALLEST}{text}")).unwrap().flows.unwrap();
    assert_eq!(flows.tables, FlowTables::Auto);
    let shape = FlowShape { begins: vec![0x88, 0x92, 0x80, 0x01], holes: vec![8..28, 48..49] };
    assert_eq!(flows.shapes, [shape]);
    let text = "[flows]\ntables = false\n[[flows.shape]]\nbegins = \"88b8\"\nvaries = []\n";
    assert_eq!(parse(&format!("{SMALLEST}{text}")).unwrap().flows.unwrap().tables, FlowTables::Off);
}

#[test]
fn flow_faults_have_remedies() {
    let with = |begins: &str, varies: &str| {
        faults_with(&format!("[flows]\n[[flows.shape]]\nbegins = \"{begins}\"\nvaries = {varies}\n"))
    };
    assert!(with("88", "[]").contains("is not an EtherType and what follows it"));
    assert!(with("8892 8", "[]").contains("hexadecimal digits"));
    assert!(with("8892", "[[30, 20]]").contains("is not the first and the last octet that vary"));
    assert!(with("8892", "[[2, 20]]").contains("out of range"));
    assert!(with("88+2", "[]").contains("hexadecimal digits"));
    // Shapes without a possible table.
    assert!(with("8892", "[[20, 39], [39, 50]]").contains("has an octet twice"));
    let most = "[flows]\n[[flows.shape]]\nbegins = \"8892\"\nvaries = [[28, 267]]\n";
    assert!(parse(&format!("{SMALLEST}{most}")).is_ok());
    assert!(with("8892", "[[28, 268]]").contains("touches 16 blocks of 16 octets"));
    let many =
        |count: usize| (0..count).map(|at| format!("[{0}, {0}]", 28 + 2 * at)).collect::<Vec<_>>().join(", ");
    assert!(parse(&format!("{SMALLEST}{}", most.replace("[28, 267]", &many(15)))).is_ok());
    assert!(with("8892", &format!("[{}]", many(16))).contains("once for each stretch"));
    assert!(with("8892", "[[1600, 1612]]").contains("1612 is out of range"));
    assert!(faults_with("[flows]\ntables = true\n").contains("add [[flows.shape]]"));
}

#[test]
fn watch_of_flows_needs_no_shape() {
    let read = |lines: &str| {
        let config = parse(&format!("{SMALLEST}{lines}")).unwrap();
        (config.watchdog_cycles, config.flows.is_some())
    };
    assert_eq!(read(""), (3, false));
    assert_eq!(read("[flows]\n"), (3, false));
    assert_eq!(read("[flows]\nwatchdog_cycles = 10\n"), (10, false));
    assert_eq!(read("[flows]\nwatch = false\nwatchdog_cycles = 10\n"), (0, false));
    let shape = "[[flows.shape]]\nbegins = \"8892\"\nvaries = []\n";
    assert_eq!(read(&format!("[flows]\nwatch = true\n{shape}")), (3, true));
    for lines in ["watchdog_cycles = 1", "watchdog_cycles = 256", "watch = 1", "tables = true"] {
        let said = faults_with(&format!("[flows]\n{lines}\n"));
        let key = if lines.starts_with("tables") { "shape" } else { lines.split(' ').next().unwrap() };
        assert!(said.contains(&format!("flows.{key}")), "{lines}: {said}");
    }
}

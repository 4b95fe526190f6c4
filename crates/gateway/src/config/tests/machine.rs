//! Configurations checked against a machine.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use antedate_host::numbers::{KeyId, NumberFile};

use super::*;
use crate::config::CONTROL_WORDS;
use crate::config::check::{check, check_without_state};
use crate::config::host::Host;
use crate::config::io::Card;
use crate::config::machine::{Interface, Machine};
use crate::sys::interface::Witness;
use crate::sys::links::Link;
use crate::sys::xdp::XdpError;

/// A machine with eth0 and eth1, two CPUs and all privileges.
struct Bench {
    privileged: bool,
    user: u32,
    mbit: Option<u64>,
    /// The error of every `listen`, if any.
    deaf: Option<(u16, io::ErrorKind)>,
    host: Host,
    sends_elsewhere: bool,
    /// The transmit side of each interface, if AF_XDP can send there.
    card: Option<Card>,
}

impl Bench {
    fn of(user: u32) -> Self {
        let host = Host::default();
        let card = Some(Card { queues: 1, driver: None });
        Self { privileged: true, user, mbit: None, deaf: None, host, sends_elsewhere: false, card }
    }
}

impl Machine for Bench {
    fn interface(&self, name: &str) -> io::Result<Interface> {
        let last = match name {
            "eth0" => 0,
            "eth1" => 1,
            "eth2" => 2,
            "lo" => return Err(io::ErrorKind::Unsupported.into()),
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Interface {
            name: name.to_owned(),
            index: 2 + i32::from(last),
            address: [2, 0, 0, 0, 0, last],
            mtu: 1500,
            witness: Witness::default(),
        })
    }

    fn speed(&self, _: &str) -> Option<u64> {
        self.mbit
    }

    fn interfaces(&self) -> Vec<String> {
        ["lo", "eth0", "eth1"].map(str::to_owned).to_vec()
    }

    fn user(&self) -> u32 {
        self.user
    }

    fn may_open_packet_sockets(&self) -> bool {
        self.privileged
    }

    fn cpus(&self) -> Vec<usize> {
        vec![0, 1]
    }

    fn host(&self, _: &[(i32, &str)]) -> Host {
        self.host.clone()
    }

    fn sends_elsewhere(&self, _: &KeyId, _: Sci) -> bool {
        self.sends_elsewhere
    }

    fn listen(&self, at: SocketAddr, _: &str) -> io::Result<()> {
        if at.port() == 0 {
            let own = ["192.0.2.1", "192.0.2.255", "fe80::a"].contains(&at.ip().to_string().as_str());
            return if own { Ok(()) } else { Err(io::ErrorKind::AddrNotAvailable.into()) };
        }
        self.deaf.filter(|(port, _)| *port == at.port()).map_or(Ok(()), |(_, kind)| Err(kind.into()))
    }

    fn card(&self, _: &Interface) -> Result<Card, XdpError> {
        self.card.clone().ok_or(XdpError::Busy)
    }
}

pub(super) const KEYS: &str = "\
suite = \"gcm-aes-128\"
[[sa]]
an = 0
key_id = \"00000000000000000000000000000001\"
key = \"000102030405060708090a0b0c0d0e0f\"
[[member]]
name = \"here\"
sci = \"0200000000000001\"
[[member]]
name = \"there\"
sci = \"0200000000000002\"
";

/// A directory with a configuration, its keys and its state.
pub(super) struct Site {
    directory: tempfile::TempDir,
    machine: Bench,
}

impl Site {
    pub(super) fn new(lines: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let user = fs::metadata(directory.path()).unwrap().uid();
        let site = Self { directory, machine: Bench { mbit: Some(1_000), ..Bench::of(user) } };
        fs::write(
            site.path("g.toml"),
            format!("{SMALLEST}{lines}[state]\ndirectory = \"state\"\n[control]\nsocket = \"c.sock\"\n"),
        )
        .unwrap();
        site.keys(KEYS);
        NumberFile::create(&site.path("state")).unwrap();
        site
    }

    /// As [`Self::new`], with key agreement.
    pub(super) fn agreed(lines: &str) -> Self {
        let site = Self::new(lines);
        site.edit("key_file = \"keys\"", "cak_file = \"cak\"");
        fs::write(site.path("cak"), "mka_cak=000102030405060708090a0b0c0d0e0f\nmka_ckn=0102\n").unwrap();
        site.mode("cak", 0o600);
        site
    }

    /// Changes the text of the configuration.
    pub(super) fn edit(&self, before: &str, changed: &str) {
        let text = fs::read_to_string(self.path("g.toml")).unwrap();
        assert!(text.contains(before), "{text}");
        fs::write(self.path("g.toml"), text.replacen(before, changed, 1)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn keys(&self, text: &str) {
        fs::write(self.path("keys"), text).unwrap();
        self.mode("keys", 0o600);
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    pub(super) fn check(&self) -> Result<Checked, String> {
        let base = format!("{}/", self.directory.path().display());
        check(&self.path("g.toml"), &self.machine).map_err(|faults| faults.to_string().replace(&base, ""))
    }
}

#[test]
fn host_around_the_gateway_is_examined() {
    let mut site = Site::new("");
    let link = |index: i32, name: &str, kind: &str, master| Link {
        index,
        name: name.into(),
        kind: kind.into(),
        master,
        ..Link::default()
    };
    site.machine.host.links =
        vec![link(2, "eth0", "", None), link(3, "eth1", "", Some(7)), link(7, "br0", "bridge", None)];
    let checked = site.check().expect("a warning only");
    let warning = checked.warnings.iter().find(|warning| warning.what.contains("bridge br0")).unwrap();
    assert_eq!((warning.line, warning.key.as_str()), (Some(2), "field.interface"));
    assert_eq!(warning.remedy, "ip link set dev eth1 nomaster");
    site.machine.host.links[0].master = Some(7);
    let faults = site.check().expect_err("frames pass around it").to_string();
    assert!(faults.contains("eth1 and eth0 are in one bridge of this host, br0"), "{faults}");
}

#[test]
fn host_around_the_second_uplink_is_examined() {
    let mut site = Site::new("[second_uplink]\ninterface = \"eth2\"\n");
    let link = |index: i32, name: &str, kind: &str, master| Link {
        index,
        name: name.into(),
        kind: kind.into(),
        master,
        ..Link::default()
    };
    site.machine.host.links =
        vec![link(3, "eth1", "", Some(7)), link(4, "eth2", "", None), link(7, "br0", "bridge", None)];
    let warnings = site.check().expect("a warning only").warnings;
    let of_field: Vec<_> = warnings.iter().filter(|warning| warning.key == "field.interface").collect();
    assert_eq!(of_field.len(), 1, "{warnings:?}");
    site.machine.host.links[1].master = Some(7);
    let faults = site.check().expect_err("frames pass around it").to_string();
    assert!(faults.contains("eth1 and eth2 are in one bridge of this host, br0"), "{faults}");
}

#[test]
fn second_sender_with_the_keys_is_found() {
    let mut site = Site::new("");
    site.machine.sends_elsewhere = true;
    let faults = site.check().expect_err("another one sends");
    assert!(faults.to_string().contains("another process of this machine sends with these keys"), "{faults}");
    // The running gateway of this configuration.
    let _socket = std::os::unix::net::UnixListener::bind(site.path("c.sock")).unwrap();
    assert!(site.check().is_ok());
}

#[test]
fn key_agreement_needs_private_cak_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("g.toml");
    let text = "[field]\ninterface = \"eth1\"\n[uplink]\ninterface = \"eth0\"\n[macsec]\ncak_file = \"cak\"\n\
                [policy]\nallow = [\"arp\"]\n[state]\ndirectory = \"nowhere\"\n[control]\nsocket = \"c.sock\"\n";
    fs::write(&file, text).unwrap();
    let user = fs::metadata(&file).unwrap().uid();
    let bench = Bench::of(user);
    let faults = check(&file, &bench).expect_err("no CAK").to_string();
    assert!(faults.contains("cak: cannot read the key file"), "{faults}");
    let cak = directory.path().join("cak");
    fs::write(&cak, "mka_cak=000102030405060708090a0b0c0d0e0f\nmka_ckn=0102\n").unwrap();
    fs::set_permissions(&cak, Permissions::from_mode(0o644)).unwrap();
    let faults = check(&file, &bench).expect_err("others can read it").to_string();
    assert!(faults.contains("chmod 600"), "{faults}");
    fs::set_permissions(&cak, Permissions::from_mode(0o600)).unwrap();
    let checked = check(&file, &bench).unwrap();
    let Keyed::Agreed { own, cak, .. } = &checked.protection else { panic!("{:?}", checked.protection) };
    assert_eq!((own.to_string().as_str(), cak.entries[0].bits()), ("0200000000000001", 128));
    assert!(checked.warnings.is_empty(), "{:?}", checked.warnings);
    fs::write(&file, text.replace("[macsec]", "mtu = 299\n[macsec]")).unwrap();
    let warnings = check(&file, &bench).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].to_string().contains("g.toml:5: uplink.mtu: carries 299 octets: the MKPDUs"),
        "{warnings:?}"
    );
    let switched = text.replace("[policy]", "mka_destination = \"broadcast\"\n[policy]");
    fs::write(&file, switched.replace("\"arp\"", "\"arp\", \"lldp\"")).unwrap();
    let warnings = check(&file, &bench).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let warning = warnings[0].to_string();
    assert!(
        warning.contains("lldp ends at the first switch") && warning.contains("g.toml:8: policy"),
        "{warning}"
    );
    fs::write(&file, switched).unwrap();
    assert!(check(&file, &bench).unwrap().warnings.is_empty());
    fs::write(&file, text.replace("[policy]", "mka_destination = \"02:00:00:00:00:00\"\n[policy]")).unwrap();
    let faults = check(&file, &bench).expect_err("its own address").to_string();
    assert!(faults.contains("g.toml:7: macsec.mka_destination"), "{faults}");
}

#[test]
fn fitting_configuration_is_accepted() {
    let site = Site::new("[policy]\nallow = [\"arp\"]\n");
    let checked = site.check().unwrap();
    let Keyed::Macsec { own, keys, .. } = &checked.protection else { panic!("{:?}", checked.protection) };
    assert_eq!(*own, Sci([2, 0, 0, 0, 0, 0, 0, 1]));
    assert_eq!(keys.peers(*own).map(|peer| peer.name.as_str()).collect::<Vec<_>>(), ["there"]);
    assert_eq!(checked.uplink_mtu(), 1500);
    let warnings: Vec<String> = checked.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].ends_with(
            "g.toml:4: uplink.interface: carries 1500 octets: payloads of the field over 1464 octets will be refused\n    \
             remedy: ip link set dev eth0 mtu 1536 (and all of the path), fragmentation = \"marked\" in [macsec] of all gateways, or a smaller MTU on the field's side"
        ),
        "{warnings:?}"
    );
}

#[test]
fn unwise_settings_are_warned_of() {
    let said = |lines: &str, keys: &str| {
        let site = Site::new(lines);
        site.keys(keys);
        let warnings = site.check().unwrap().warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let policy = "[policy]\nallow = [\"arp\"]\n";
    let morus = KEYS.replace("gcm-aes-128", "morus-1280-128");
    assert!(said(policy, &morus).contains("for research only"));
    assert!(!said(policy, KEYS).contains("for research only"));
    let express = format!("{policy}[express]\ntraffic = [\"profinet-rt\"]\nrate_mbit = 100\n");
    assert!(said(&express, KEYS).contains("waits for the whole frame"));
    let fragments = format!("fragmentation = true\n{express}");
    assert_eq!(said(&fragments, KEYS), "");
    let nobody = fragments.replace("traffic = [\"profinet-rt\"]\n", "");
    assert!(said(&nobody, KEYS).contains("g.toml:10: express: picks no frame"));
    let flows =
        format!("fragmentation = true\n{policy}[flows]\n[[flows.shape]]\nbegins = \"8892\"\nvaries = []\n");
    assert_eq!(said(&flows, KEYS), "");
    assert!(
        said(&format!("confidentiality = false\n{flows}"), KEYS).contains("g.toml:11: flows: does nothing")
    );
    let aegis = KEYS.replace("gcm-aes-128", "aegis-128l");
    assert!(said(&flows, &aegis).contains("g.toml:10: flows: does nothing"));
    // With three members, each receives only part of the others' packet numbers.
    let three = format!("{KEYS}[[member]]\nname = \"third\"\nsci = \"0200000000000003\"\n");
    let found = said(&fragments, &three);
    assert!(found.contains("g.toml:7: macsec.fragmentation: among 3 members a switch sends"), "{found}");
    assert_eq!(said(&fragments.replace("true", "\"marked\""), &three), "");
}

#[test]
fn unknown_link_rate_is_warned_of() {
    let express = "fragmentation = true\n[policy]\nallow = [\"arp\"]\n[express]\ntraffic = [\"arp\"]\nrate_mbit = \"link\"\n";
    let mut site = Site::new(express);
    assert!(site.check().unwrap().warnings.is_empty());
    site.machine.mbit = None;
    let warnings = site.check().unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].to_string().contains("g.toml:12: express.rate_mbit: eth0 does not say"),
        "{warnings:?}"
    );
}

#[test]
fn macsec_sections_need_macsec() {
    let lines = "[policy]\nallow = [\"arp\"]\n[express]\ntraffic = [\"arp\"]\nrate_mbit = 100\n\
                 [flows]\n[[flows.shape]]\nbegins = \"8892\"\nvaries = []\n[link_loss]\n";
    let site = Site::new(lines);
    assert!(site.check().is_ok());
    let text = fs::read_to_string(site.path("g.toml")).unwrap();
    fs::write(site.path("g.toml"), text.replace("[macsec]\nkey_file = \"keys\"\n", "[plain]\n")).unwrap();
    assert_eq!(
        site.check().unwrap_err(),
        "g.toml:8: express: belongs to [macsec]\n    remedy: remove [express]\n\
         g.toml:11: flows: belongs to [macsec]\n    remedy: remove tables and [[flows.shape]]\n\
         g.toml:15: link_loss: belongs to [macsec] or WireGuard\n    remedy: remove [link_loss]"
    );
}

#[test]
fn link_loss_of_an_overlay_needs_wireguard() {
    let loss = format!("{PEER}endpoint = \"192.0.2.2:4000\"\n[link_loss]\n");
    let wireguard = overlay("private_key_file = \"wg.key\"\nlisten = 4000\n", &loss);
    assert!(wireguard.check().is_ok(), "{:?}", wireguard.check().err());
    let bare: String =
        PEER.lines().filter(|line| !line.contains("public_key")).map(|line| format!("{line}\n")).collect();
    let bare = overlay("wireguard = false\n", &format!("{bare}endpoint = \"192.0.2.2:4000\"\n[link_loss]\n"));
    let faults = bare.check().unwrap_err();
    assert!(faults.contains("link_loss: belongs to [macsec] or WireGuard"), "{faults}");
}

#[test]
fn standby_needs_key_agreement_alone() {
    let site = Site::new("[standby]\ngroup = 1\n[link_loss]\n");
    let faults = site.check().unwrap_err();
    assert!(faults.contains("g.toml:7: standby: needs key agreement"), "{faults}");
    assert!(faults.contains("g.toml:9: link_loss: cannot be beside [standby]"), "{faults}");
    let text = fs::read_to_string(site.path("g.toml")).unwrap();
    fs::write(site.path("g.toml"), text.replace("[macsec]\nkey_file = \"keys\"\n", "[plain]\n")).unwrap();
    let faults = site.check().unwrap_err();
    assert!(faults.contains("standby: belongs to [macsec]"), "{faults}");
    let site = Site::new("[loop_detection]\n");
    assert!(site.check().is_ok(), "static keys suffice");
    let text = fs::read_to_string(site.path("g.toml")).unwrap();
    fs::write(site.path("g.toml"), text.replace("[macsec]\nkey_file = \"keys\"\n", "[plain]\n")).unwrap();
    let faults = site.check().unwrap_err();
    assert!(faults.contains("loop_detection: belongs to [macsec]"), "{faults}");
}

#[test]
fn express_ssci_collision_is_refused() {
    let xpn = |sscis: [u32; 2]| {
        let mut keys = KEYS.replace("gcm-aes-128", "gcm-aes-xpn-128");
        keys = keys.replace(
            "[[member]]\nname = \"here\"",
            "salt = \"000102030405060708090a0b\"\n[[member]]\nname = \"here\"",
        );
        for (sci, ssci) in ["0200000000000001", "0200000000000002"].iter().zip(sscis) {
            keys = keys.replace(sci, &format!("{sci}\"\nssci = {ssci}\n#\""));
        }
        keys
    };
    let express = "[express]\ntraffic = [\"arp\"]\nrate_mbit = 100\n";
    for (lines, sscis, expected) in [
        (express, [1, 2], None),
        ("", [1, 2_147_483_649], None),
        (
            express,
            [1, 2_147_483_649],
            Some("g.toml:7: express: the express channel of \"0200000000000001\" (here) would have the SSCI"),
        ),
    ] {
        let site = Site::new(lines);
        site.keys(&xpn(sscis));
        let found = site.check().err();
        assert_eq!(found.is_some(), expected.is_some(), "{sscis:?} {found:?}");
        assert!(found.is_none_or(|found| found.contains(expected.unwrap_or_default())), "{sscis:?}");
    }
}

#[test]
fn passing_faults_are_marked() {
    let site = Site::new("");
    let faults = |from: &str, to: &str| {
        let text = fs::read_to_string(site.path("g.toml")).unwrap();
        fs::write(site.path("h.toml"), text.replace(from, to)).unwrap();
        check(&site.path("h.toml"), &site.machine).unwrap_err()
    };
    assert!(faults("eth1", "eth7").may_pass());
    assert!(!faults("eth1", "lo").may_pass());
    assert!(!faults("[macsec]", "mtu = 1600\n[macsec]").may_pass());
    assert!(!faults("interface = \"eth1\"", "interface = \"eth7\"\nmtu = 3").may_pass());
}

#[test]
fn uplink_mtu_is_capped_by_interface() {
    let port = |mtu| UplinkPort {
        interface: InterfaceName::new("eth0").unwrap(),
        mtu,
        outer: None,
        carries_link_local: false,
        io: Io::Auto,
    };
    assert_eq!(port(None).carries(1500), 1500);
    assert_eq!((port(Some(1300)).carries(1500), port(Some(1300)).carries(700)), (1300, 700));
}

#[test]
fn machine_and_text_faults_come_together() {
    let mut site = Site::new("[run]\ncpus = [7]\nprioritty = 1\n");
    site.machine.privileged = false;
    let text = fs::read_to_string(site.path("g.toml")).unwrap();
    fs::write(site.path("g.toml"), text.replace("eth1", "eth11").replace("eth0", "lo")).unwrap();
    site.mode("keys", 0o644);
    site.mode("state", 0o777);
    let program = std::env::current_exe().unwrap();
    assert_eq!(
        site.check().unwrap_err(),
        format!(
            "\
g.toml: this process may not open packet sockets (CAP_NET_RAW)
    remedy: run it with sudo, or give the program the right: sudo setcap cap_net_raw,cap_sys_nice,cap_ipc_lock+ep {}
g.toml:2: field.interface: there is no interface \"eth11\" here
    remedy: did you mean \"eth1\"?
g.toml:4: uplink.interface: \"lo\" is no Ethernet interface
    remedy: name one that `ip link` shows with link/ether
g.toml:8: run.cpus: CPU 7 is not there, or not allowed to this process
    remedy: choose of: 0, 1
g.toml:9: run.prioritty: unknown key
    remedy: did you mean \"priority\"?
g.toml:11: state.directory: state: others than its owner can write to this directory (mode 0777)
    remedy: chmod 700 state
keys: others than its owner have rights on this key file (mode 0644)
    remedy: chmod 600 keys; if others may have read it, make new keys",
            program.display()
        )
    );
}

#[test]
fn foreign_sci_is_told_the_members() {
    let site = Site::new("");
    site.keys(&KEYS.replace("0200000000000001", "0200000000990001"));
    assert_eq!(
        site.check().unwrap_err(),
        "g.toml:5: macsec.port: this gateway's SCI 0200000000000001 is not among the members of keys\n    \
         remedy: set sci to the member that this gateway is: \"0200000000990001\" (here), \"0200000000000002\" (there)"
    );
}

#[test]
fn cipher_must_match_the_keys() {
    let site = Site::new("cipher = \"gcm-aes-256\"\n");
    assert_eq!(
        site.check().unwrap_err(),
        "g.toml:7: macsec.cipher: \"gcm-aes-256\", but the keys of keys are for gcm-aes-128\n    \
         remedy: remove the line, or make keys with `antedate keygen macsec --suite gcm-aes-256`"
    );
}

#[test]
fn frames_without_sci_need_one_peer() {
    let site = Site::new("include_sci = false\n");
    assert!(site.check().is_ok());
    site.keys(&format!("{KEYS}[[member]]\nname = \"third\"\nsci = \"0200000000000003\"\n"));
    let found = site.check().unwrap_err();
    assert!(
        found.starts_with(
            "g.toml:7: macsec.include_sci: without an SCI in the frame there can be one peer only"
        ),
        "{found}"
    );
}

#[test]
fn end_station_has_port_one() {
    let site = Site::new("end_station = true\nport = 2\n");
    site.keys(&KEYS.replace("0200000000000001", "0200000000000002").replace("02\"\n[[m", "03\"\n[[m"));
    let found = site.check().unwrap_err();
    assert!(found.contains("g.toml:7: macsec.end_station: an end station's port number is 1"), "{found}");
}

#[test]
fn mtu_above_interface_is_refused() {
    let site = Site::new("");
    let text = fs::read_to_string(site.path("g.toml")).unwrap();
    fs::write(site.path("g.toml"), text.replace("[macsec]", "mtu = 1600\n[macsec]")).unwrap();
    assert_eq!(
        site.check().unwrap_err(),
        "g.toml:5: uplink.mtu: 1600 is more than the 1500 that eth0 carries\n    \
         remedy: ip link set dev eth0 mtu 1600, or remove the line"
    );
}

#[test]
fn missing_state_file_is_refused() {
    let site = Site::new("");
    fs::remove_dir_all(site.path("state")).unwrap();
    assert_eq!(
        site.check().unwrap_err(),
        "g.toml:8: state.directory: state: there is no such directory\n    \
         remedy: antedate gateway init FILE creates it, only for keys that were never used before"
    );
    assert!(check_without_state(&site.path("g.toml"), &site.machine).is_ok());
    fs::create_dir(site.path("state")).unwrap();
    site.mode("state", 0o700);
    let found = site.check().unwrap_err();
    assert!(found.contains("state/packet-numbers: there is no state file, so nobody knows"), "{found}");
    assert!(!site.path("state/packet-numbers").exists(), "check changes nothing");
}

#[test]
fn running_gateway_is_only_a_warning() {
    let site = Site::new("");
    let _held = NumberFile::open(&site.path("state")).unwrap();
    assert!(site.check().is_ok());
}

#[test]
fn one_fault_hides_no_other() {
    let site = Site::new("");
    let text = "[field]\ninterface = \"fld\"\n[uplink]\ninterface = \"fld\"\nmtu = 100\n[macsec]\ncipher = \"gcm-aes-127\"\n\
                cak_file = \"nocak\"\n[control]\nsocket = \"c.sock\"\n";
    fs::write(site.path("g.toml"), text).unwrap();
    let found = site.check().unwrap_err();
    for expected in [
        "g.toml:2: field.interface: there is no interface \"fld\" here",
        "g.toml:4: uplink.interface: \"fld\" is the field's interface already",
        "g.toml:4: uplink.interface: there is no interface \"fld\" here",
        "g.toml:5: uplink.mtu: 100 is out of range",
        "g.toml:7: macsec.cipher: \"gcm-aes-127\" is not a cipher suite",
        "nocak: cannot read the key file",
    ] {
        assert!(found.contains(expected), "{expected} in\n{found}");
    }
    assert_eq!(found.matches("remedy").count(), 6, "{found}");
    let text = SMALLEST.replace("keys", "nokeys") + "port = 0\n[state]\ndirectory = \"none\"\nreserve = 1\n";
    fs::write(site.path("g.toml"), text + "[control]\nsocket = \"c.sock\"\n").unwrap();
    let found = site.check().unwrap_err();
    for expected in [
        "nokeys: cannot read the key file",
        "port: 0 is out",
        "none: there is no such directory",
        "reserve: 1 is out",
    ] {
        assert!(found.contains(expected), "{expected} in\n{found}");
    }
}

#[test]
fn unusable_control_socket_is_refused() {
    let site = Site::new("");
    let text = fs::read_to_string(site.path("g.toml")).unwrap();
    let with = |socket: &str| {
        fs::write(site.path("g.toml"), text.replace("c.sock", socket)).unwrap();
        site.check()
    };
    fs::write(site.path("file"), "").unwrap();
    for (socket, expected) in [
        (
            "no/such/s.sock",
            "g.toml:10: control.socket: no/such/s.sock: cannot make the control socket: no such file or directory",
        ),
        ("file", "g.toml:10: control.socket: file: exists and is no socket"),
        (
            "file/s.sock",
            "g.toml:10: control.socket: file/s.sock: cannot make the control socket: not a directory",
        ),
    ] {
        let found = with(socket).unwrap_err();
        assert!(found.starts_with(expected), "{found}");
        assert_eq!(found.matches("remedy").count(), 1, "{found}");
    }
    assert!(with("run/s.sock").is_ok(), "its directory is made");
    assert!(!site.path("run").exists(), "check changes nothing");
    let _held = antedate_host::control::Socket::bind(&site.path("s.sock"), &CONTROL_WORDS).unwrap();
    let warnings = with("s.sock").unwrap().warnings;
    let said = warnings.iter().any(|warning| {
        warning.to_string().contains("g.toml:10: control.socket: ")
            && warning.to_string().contains("another gateway answers on this control socket")
    });
    assert!(said, "{warnings:?}");
}

#[test]
fn overlay_faults_come_together() {
    let site = Site::new("");
    let key = "public_key = \"aWsyqkWZWsLKS2qKdIT2pkmsmgXfZGHVyvhmsxXRSBE=\"\naddress = \"10.66.0.2\"\n\
               preshared_key_file = \"nopsk\"\n";
    let text = format!(
        "[field]\ninterface = \"eth1\"\n[uplink]\ninterface = \"eth0\"\n[overlay]\nprivate_key_file = \"nokey\"\n\
         address = \"10.66.0.1\"\nvni = 42\n[overlay.second_uplink]\ninterface = \"eth7\"\n[[overlay.peer]]\n{key}\
         [control]\nsocket = \"c.sock\"\n"
    );
    fs::write(site.path("g.toml"), &text).unwrap();
    let found = site.check().unwrap_err();
    assert!(
        found.contains("g.toml:9: overlay.second_uplink: there is no interface \"eth7\" here"),
        "{found}"
    );
    assert!(found.contains("nokey: cannot read the key file"), "{found}");
    fs::write(site.path("g.toml"), text.replace("42", "99999999")).unwrap();
    let found = site.check().unwrap_err();
    assert!(found.contains("overlay.vni: 99999999 is out of range"), "{found}");
    for file in ["nokey", "nopsk"] {
        assert!(found.contains(&format!("{file}: cannot read the key file")), "{found}");
    }
    // Also for an incomplete peer.
    fs::write(site.path("g.toml"), text.replace("10.66.0.2", "nowhere")).unwrap();
    let found = site.check().unwrap_err();
    assert!(found.contains("\"nowhere\" is not the IPv4 address"), "{found}");
    assert!(found.contains("nopsk: cannot read the key file"), "{found}");
}

/// A site with an overlay.
pub(super) fn overlay(overlay: &str, peers: &str) -> Site {
    let site = Site::new("");
    fs::write(site.path("wg.key"), "uLlJ4UhUBfK3epJF5VDyoQ8HVLzAbyqkA1yFUGEA2G4=\n").unwrap();
    site.mode("wg.key", 0o600);
    let text = format!(
        "[field]\ninterface = \"eth1\"\n[uplink]\ninterface = \"eth0\"\n[overlay]\naddress = \"10.66.0.1\"\nvni = 42\n\
         {overlay}{peers}[policy]\nallow = [\"arp\"]\n[control]\nsocket = \"c.sock\"\n"
    );
    fs::write(site.path("g.toml"), text).unwrap();
    site
}

pub(super) const PEER: &str = "[[overlay.peer]]\npublic_key = \"aWsyqkWZWsLKS2qKdIT2pkmsmgXfZGHVyvhmsxXRSBE=\"\naddress = \"10.66.0.2\"\n";

#[test]
fn overlay_without_port_is_refused() {
    let mut site = overlay("private_key_file = \"wg.key\"\nlisten = 4000\n", PEER);
    assert!(site.check().is_ok());
    for (kind, remedy, passes) in [
        (
            io::ErrorKind::AddrInUse,
            "another program has this port: stop it, or give overlay.listen another one",
            false,
        ),
        (io::ErrorKind::AddrNotAvailable, "give overlay.listen an address of this machine, or 0.0.0.0", true),
    ] {
        site.machine.deaf = Some((4000, kind));
        let found = site.check().unwrap_err();
        assert!(
            found.starts_with("g.toml:9: overlay.listen: cannot listen on 0.0.0.0:4000 of eth0: "),
            "{found}"
        );
        assert!(found.contains(remedy), "{found}");
        assert_eq!(check(&site.path("g.toml"), &site.machine).unwrap_err().may_pass(), passes);
    }
    // The running gateway holds the port.
    site.machine.deaf = Some((4000, io::ErrorKind::AddrInUse));
    let _running = antedate_host::control::Socket::bind(&site.path("c.sock"), &CONTROL_WORDS).unwrap();
    assert!(site.check().is_ok());
}

#[test]
fn overlay_contradictions_are_refused() {
    for (taken, whose) in [("eth0", "the uplink's"), ("eth1", "the field's")] {
        let second = format!("[overlay.second_uplink]\ninterface = \"{taken}\"\nlisten = 4001\n");
        let found = overlay(&format!("private_key_file = \"wg.key\"\n{second}"), PEER).check().unwrap_err();
        let expected = format!("g.toml:9: overlay.second_uplink: \"{taken}\" is {whose} interface already");
        assert!(found.starts_with(&expected) && found.matches("remedy").count() == 1, "{found}");
    }
    let with = |listen: &str, endpoint: &str| {
        let listen = if listen.is_empty() { String::new() } else { format!("listen = \"{listen}\"\n") };
        let peer = format!("{PEER}endpoint = \"{endpoint}\"\n");
        overlay(&format!("private_key_file = \"wg.key\"\n{listen}"), &peer).check()
    };
    for (listen, endpoint, wrong) in [
        ("", "192.0.2.1:51820", "is this machine, or a broadcast address"),
        ("", "192.0.2.255:51820", "is this machine, or a broadcast address"),
        ("", "224.0.0.5:51820", "is a multicast or broadcast address"),
        ("", "255.255.255.255:51820", "is a multicast or broadcast address"),
        ("[::]:51820", "[ff02::1%eth0]:51820", "is a multicast or broadcast address"),
        ("[::]:51820", "[fe80::a%eth0]:51820", "is this machine, or a broadcast address"),
        ("[::]:51820", "[fe80::1%eth1]:51820", "the zone %eth1 is not the interface eth0"),
        ("[fe80::a%7]:51820", "[fe80::1]:51820", "the zone %7 is not the interface eth0"),
        ("", "192.0.2.300:51820", "is not address and port, nor host name and port"),
    ] {
        let found = with(listen, endpoint).unwrap_err();
        assert!(found.contains(wrong) && found.matches("remedy").count() == 1, "{endpoint}: {found}");
    }
    for (listen, endpoint) in [
        ("", "192.0.2.2:51820"),
        ("", "hall.example:51820"),
        ("[::]:51820", "[fe80::1%eth0]:51820"),
        ("[fe80::a%2]:51820", "[fe80::1%2]:51820"),
        ("fe80::a%eth0", "[fe80::1]:51820"),
    ] {
        assert_eq!(with(listen, endpoint).map(drop), Ok(()), "{endpoint}");
    }
    let zeros = PEER.replace("aWsyqkWZWsLKS2qKdIT2pkmsmgXfZGHVyvhmsxXRSBE=", &format!("{}=", "A".repeat(43)));
    let found = overlay("private_key_file = \"wg.key\"\n", &zeros).check().unwrap_err();
    assert!(found.contains("is all zeros"), "{found}");
    let plain = |first: &str, second: &str| {
        let peers = format!(
            "[[overlay.peer]]\naddress = \"10.66.0.2\"\nendpoint = \"192.0.2.2:51820\"\n{first}\
             [[overlay.peer]]\naddress = \"10.66.0.3\"\nendpoint = \"{second}\"\n"
        );
        overlay("wireguard = false\n", &peers).check()
    };
    assert!(plain("", "192.0.2.3:51820").is_ok());
    let found = plain("", "192.0.2.2:51821").unwrap_err();
    assert!(
        found.contains("told by their IP addresses, and that of the endpoint is that of another peer"),
        "{found}"
    );
    let found = plain("preshared_key_file = \"psk\"\n", "192.0.2.3:51820").unwrap_err();
    assert!(found.contains("preshared_key_file: is not used without WireGuard"), "{found}");
}

#[test]
fn way_of_frames_is_chosen() {
    let ways = |lines: &str, change: &dyn Fn(&mut Site)| {
        let mut site = Site::new(lines);
        change(&mut site);
        site.check()
            .map(|checked| checked.leave.map(|leave| (leave.xdp, leave.must, leave.in_order, leave.why)))
    };
    let card = |queues, driver: &'static str| {
        move |site: &mut Site| {
            site.machine.card = Some(Card { queues, driver: Some(driver.to_owned()) });
        }
    };
    let same = |xdp, why: &str| [(); 2].map(|()| (xdp, false, true, why.to_owned()));
    assert_eq!(ways("", &|_| {}), Ok(same(true, "the interface has one transmit queue")));
    assert_eq!(ways("", &card(4, "veth")), Ok(same(true, "it costs less on a veth pair")));
    let [(xdp, _, _, why), _] = ways("", &card(4, "igc")).expect("a way");
    assert!(!xdp && why.contains("4 transmit queues"), "{why}");
    assert_eq!(
        ways("[run]\nqdisc_bypass = false\n", &|_| {}),
        Ok(same(false, "frames pass the queueing discipline"))
    );
    assert_eq!(
        ways("[ptp]\ntransparent_clock = true\n", &|_| {}),
        Ok(same(false, "only a packet socket stamps PTP messages"))
    );
    let [field, uplink] = ways("[second_uplink]\ninterface = \"eth2\"\n", &|_| {}).expect("a way");
    assert_eq!((field.0, uplink.0, &*uplink.3), (true, false, "there are two uplinks"));
}

#[test]
fn configured_way_is_kept_or_refused() {
    let with = |io: &str, lines: &str| {
        let site = Site::new(lines);
        let text = fs::read_to_string(site.path("g.toml")).unwrap();
        let text = text.replace("interface = \"eth1\"", &format!("interface = \"eth1\"\nio = \"{io}\""));
        fs::write(site.path("g.toml"), text).unwrap();
        site
    };
    let mut site = with("xdp", "");
    site.machine.card = Some(Card { queues: 4, driver: Some("igc".to_owned()) });
    let [field, _] = site.check().expect("a way").leave;
    // The super-frames would leave by another queue.
    assert_eq!((field.xdp, field.must, field.in_order), (true, true, false));
    let [field, uplink] = with("ring", "").check().expect("a way").leave;
    assert_eq!((field.xdp, &*field.why, uplink.xdp), (false, "as configured", true));
    let faults = with("xdp", "[run]\nqdisc_bypass = false\n").check().expect_err("it cannot be");
    assert!(faults.contains("field.io") && faults.contains("remove run.qdisc_bypass"), "{faults}");
    let faults = with("fast", "").check().expect_err("no such way");
    assert!(faults.contains("\"fast\" is not a way to send"), "{faults}");
}

#[test]
fn obstacles_of_af_xdp_have_remedies() {
    let refused = io::Error::from_raw_os_error(libc::EAFNOSUPPORT);
    for (error, text, remedy) in [
        (XdpError::Cpu, "32 bits", "io = \"ring\""),
        (XdpError::Mtu(9000), "9000 octets", "at most 4078"),
        (XdpError::Driver, "virtio_net", "io = \"ring\""),
        (XdpError::Busy, "another AF_XDP socket", "stop the other program"),
        (XdpError::Memory, "lock enough memory", "LimitMEMLOCK=infinity"),
        (XdpError::Kernel(refused), "Address family not supported", "CONFIG_XDP_SOCKETS"),
    ] {
        assert!(error.to_string().contains(text), "{error}");
        assert!(error.remedy().contains(remedy), "{error}");
    }
}

//! Checks a configuration against the machine, the key files and the state directory, and reports
//! all faults together.

use std::io;
use std::path::{Path, PathBuf};

use antedate_channel::fragment::Marks;
use antedate_channel::macsec::CipherSuite;
use antedate_host::control;
use antedate_host::fault::{Fault, Faults, explain, suggest};
use antedate_host::numbers;
use antedate_wire::{EthernetAddress, Sci};

use super::agreement;
use super::cak::CakFile;
use super::machine::{Interface, Machine};
use super::read::{self, Draft, KeyPath};
use super::state;
use super::{
    CONTROL_WORDS, Cipher, Config, Control, FlowTables, Fragmentation, Identity, InterfaceName, Keys, Macsec,
    Overlay, Protection, Rate, SciMode, Threads,
};
use crate::config::express::{express_sci, express_ssci};
use crate::config::keys::{KeyFile, Member};
use crate::config::tunnel_keys::{self, Secret};
use crate::config::uplink::SLOWEST_MBIT;
use crate::config::uplink::Which;
use crate::config::uplink::refused;

/// Octets that MACsec adds to the payload of a frame, without the SCI: the rest of the SecTAG, the
/// original EtherType and the ICV (IEEE 802.1AE-2018, 9.1).
const OVERHEAD: usize = 6 + 2 + 16;
/// Octets of an SCI.
const SCI: usize = 8;
/// Octets of an MKPDU between two gateways, with all parameter sets and the longest CKN. Each
/// further gateway adds 16.
const MKPDU: usize = 300;
/// Octets of a VLAN tag. An interface's MTU does not count them.
const VLAN_TAG: usize = 4;

/// A configuration that fits the machine. The daemon starts from it.
#[derive(Debug)]
pub struct Checked {
    /// The configuration.
    pub config: Config,
    /// The interface of the field.
    pub field: Interface,
    /// The interface of the uplink.
    pub uplink: Interface,
    /// The protection, with its keys.
    pub protection: Keyed,
    /// Legal settings that are probably not intended.
    pub warnings: Vec<Fault>,
}

impl Checked {
    /// The longest payload that the uplink carries: the interface's MTU, or less if configured.
    #[must_use]
    pub fn uplink_mtu(&self) -> usize {
        self.config.uplink.carries(self.uplink.mtu)
    }
}

/// The protection of the uplink, with the keys read.
#[derive(Debug)]
pub enum Keyed {
    /// IEEE 802.1AE with static keys.
    Macsec {
        /// The settings of the file.
        macsec: Macsec,
        /// The keys and all members.
        keys: KeyFile,
        /// This gateway's own SCI, one of the members.
        own: Sci,
    },
    /// IEEE 802.1AE with key agreement.
    Agreed {
        /// The settings of the file.
        macsec: Macsec,
        /// The settings of key agreement.
        settings: agreement::Settings,
        /// The pre-shared key.
        cak: CakFile,
        /// This gateway's own SCI.
        own: Sci,
    },
    /// VXLAN in WireGuard.
    Overlay {
        /// The settings of the file.
        overlay: Box<Overlay>,
        /// The private key. `None` without WireGuard.
        private: Option<Secret>,
        /// The preshared key of each peer, if any.
        preshared: Vec<Option<Secret>>,
    },
    /// No protection.
    Plain,
}

/// Reads the configuration and checks it against the machine, the key files and the state
/// directory. Changes nothing.
///
/// # Errors
/// All faults.
pub fn check(file: &Path, machine: &dyn Machine) -> Result<Checked, Faults> {
    look(file, machine, true)
}

/// As [`check`], before the state directory exists.
///
/// # Errors
/// All faults, apart from those of the state directory.
pub fn check_without_state(file: &Path, machine: &dyn Machine) -> Result<Checked, Faults> {
    look(file, machine, false)
}

fn look(file: &Path, machine: &dyn Machine, with_state: bool) -> Result<Checked, Faults> {
    let text = read::text(file)?;
    let (draft, mut faults) = read::read(file, &text);

    let name = |port: Option<&InterfaceName>| port.map(|name| name.as_str().to_owned());
    let field = name(draft.field.as_ref().map(|port| &port.interface));
    let uplink = name(draft.uplink.interface.as_ref());
    let field = field.and_then(|name| port(&draft, "field.interface", &name, machine, &mut faults));
    let uplink = uplink.and_then(|name| port(&draft, "uplink.interface", &name, machine, &mut faults));
    if let (Some(port), Some(mtu)) = (&uplink, draft.uplink.mtu.flatten())
        && usize::from(mtu) > port.mtu
    {
        let what = format!("{mtu} is more than the {} that {} carries", port.mtu, port.name);
        let remedy = format!("ip link set dev {} mtu {mtu}, or remove the line", port.name);
        faults.push(draft.lines.fault(file, "uplink.mtu", what, remedy));
    }
    cpus(&draft, machine, &mut faults);
    let mut answered = None;
    if let Some(Control { socket }) = &draft.control {
        match control::inspect(socket, &CONTROL_WORDS) {
            Ok(false) => {}
            Ok(true) => answered = Some(CONTROL_WORDS.taken(socket)),
            Err(fault) => faults.push(draft.lines.at(file, "control.socket", fault)),
        }
    }
    let protection = match &draft.protection {
        Some(Protection::Macsec(macsec)) => keyed(&draft, macsec, uplink.as_ref(), machine, &mut faults),
        Some(Protection::Overlay(overlay)) => {
            listens(&draft, overlay, uplink.as_ref(), answered.is_some(), machine, &mut faults);
            overlaid(&draft, overlay, machine, &mut faults)
        }
        Some(Protection::Plain) => {
            without_macsec(&draft, &mut faults);
            Some(Keyed::Plain)
        }
        // Report faults of the key files even if other settings of the section are wrong.
        None => {
            let found = match &draft.keys {
                Some(KeyPath::Static(file)) => KeyFile::load(file, machine.user()).err(),
                Some(KeyPath::Agreed(file)) => CakFile::load(file, machine.user()).err(),
                Some(KeyPath::Tunnel(files)) => {
                    let found = files.iter().filter_map(|file| tunnel_keys::load(file, machine.user()).err());
                    Some(Faults::new(found.collect()))
                }
                None => None,
            };
            faults.extend(found.into_iter().flatten());
            None
        }
    };
    if with_state
        && let (Some(KeyPath::Static(_)), Some(directory)) = (&draft.keys, &draft.state_directory)
        && let Err(error) = numbers::inspect(directory)
    {
        faults.push(state::fault(&error, draft.lines.fault(file, "state.directory", "", "")));
    }
    if !machine.may_open_packet_sockets() {
        faults.push(permission(file));
    }
    match (draft.finish(), field, uplink, protection) {
        (Some(config), Some(field), Some(uplink), Some(protection)) if faults.is_empty() => {
            let mut checked = Checked { warnings: config.warnings(), config, field, uplink, protection };
            let more = [
                short_uplink(&checked),
                mute_uplink(&checked),
                research(&checked),
                unbounded_express(&checked),
                unmarked_fragments(&checked),
                idle_tables(&checked),
                unknown_rate(&checked, machine),
                answered.map(|fault| checked.config.at("control.socket", fault)),
            ];
            checked.warnings.extend(more.into_iter().flatten());
            Ok(checked)
        }
        _ => Err(Faults::new(faults)),
    }
}

fn port(
    draft: &Draft,
    key: &'static str,
    name: &str,
    machine: &dyn Machine,
    faults: &mut Vec<Fault>,
) -> Option<Interface> {
    let error = match machine.interface(name) {
        Ok(interface) => return Some(interface),
        Err(error) => error,
    };
    let may_come = error.kind() == io::ErrorKind::NotFound;
    let (what, remedy) = match error.kind() {
        io::ErrorKind::NotFound => {
            let mut here = machine.interfaces();
            here.retain(|name| name != "lo");
            let remedy = if here.is_empty() {
                "this network namespace has no interface but lo; see `ip link`".to_owned()
            } else {
                suggest(name, here.iter().map(String::as_str))
            };
            (format!("there is no interface \"{name}\" here"), remedy)
        }
        io::ErrorKind::Unsupported => (
            format!("\"{name}\" is no Ethernet interface"),
            "name one that `ip link` shows with link/ether".to_owned(),
        ),
        _ => (format!("cannot ask for \"{name}\": {}", explain(&error)), "see `ip link show`".to_owned()),
    };
    faults.push(Fault { passing: may_come, ..draft.lines.fault(&draft.file, key, what, remedy) });
    None
}

fn cpus(draft: &Draft, machine: &dyn Machine, faults: &mut Vec<Fault>) {
    let here = machine.cpus();
    let wanted = match draft.run.as_ref().map(|run| run.threads) {
        Some(Threads::One(cpu)) => vec![cpu],
        Some(Threads::Two(cpus)) => cpus.to_vec(),
        None => Vec::new(),
    };
    for cpu in wanted.into_iter().flatten().filter(|cpu| !here.contains(cpu)) {
        let known = here.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let what = format!("CPU {cpu} is not there, or not allowed to this process");
        faults.push(draft.lines.fault(&draft.file, "run.cpus", what, format!("choose of: {known}")));
    }
}

fn keyed(
    draft: &Draft,
    macsec: &Macsec,
    uplink: Option<&Interface>,
    machine: &dyn Machine,
    faults: &mut Vec<Fault>,
) -> Option<Keyed> {
    let file = match &macsec.keys {
        Keys::Static(file) => file,
        Keys::Agreed(settings) => return agreed(draft, macsec, settings, uplink, machine, faults),
    };
    let keys = match KeyFile::load(file, machine.user()) {
        Ok(keys) => keys,
        Err(found) => {
            faults.extend(found);
            return None;
        }
    };
    let mut fault =
        |key, what: String, remedy: String| faults.push(draft.lines.fault(&draft.file, key, what, remedy));
    if let Cipher::Named(cipher) = macsec.cipher
        && cipher != keys.suite
    {
        let file = file.display();
        fault(
            "macsec.cipher",
            format!("\"{}\", but the keys of {file} are for {}", cipher.name(), keys.suite.name()),
            format!("remove the line, or make keys with `antedate keygen macsec --suite {}`", cipher.name()),
        );
    }
    if macsec.sci_mode == SciMode::PointToPoint && keys.members.len() > 2 {
        fault(
            "macsec.include_sci",
            format!(
                "without an SCI in the frame there can be one peer only, and the key file has {} members",
                keys.members.len()
            ),
            "remove the line".to_owned(),
        );
    }
    let (own, key) = own(macsec, uplink?);
    let express = forms(draft, macsec, own, &mut fault);
    if express && let Some(member) = keys.members.iter().find(|m| keys.member(express_sci(m.sci)).is_some()) {
        fault(
            "express",
            format!("the express channel of {} would have the SCI of another member", describe(member)),
            "give the members of the key file SCIs that differ in more than the highest bit of the port"
                .to_owned(),
        );
    }
    let taken = |ssci: u32| keys.members.iter().any(|member| member.ssci == Some(ssci));
    if express && let Some(member) = keys.members.iter().find(|m| m.ssci.map(express_ssci).is_some_and(taken))
    {
        fault(
            "express",
            format!(
                "the express channel of {} would have the SSCI of another member, and nonces would come twice",
                describe(member)
            ),
            "give the members of the key file SSCIs below 2147483648".to_owned(),
        );
    }
    if keys.member(own).is_none() {
        let members: Vec<String> = keys.members.iter().map(describe).collect();
        fault(
            key,
            format!("this gateway's SCI {own} is not among the members of {}", file.display()),
            format!("set sci to the member that this gateway is: {}", members.join(", ")),
        );
        return None;
    }
    let mut keys = keys;
    if express {
        let channels: Vec<Member> = keys.peers(own).map(express_channel).collect();
        keys.members.extend(channels);
    }
    Some(Keyed::Macsec { macsec: macsec.clone(), keys, own })
}

/// This gateway's SCI, and the setting that defines it.
fn own(macsec: &Macsec, uplink: &Interface) -> (Sci, &'static str) {
    match macsec.identity {
        Identity::Explicit(sci) => (sci, "macsec.sci"),
        Identity::OfUplink { port } => (Sci::new(EthernetAddress(uplink.address), port), "macsec.port"),
    }
}

/// Checks that the SecTAG's form fits the SCI. Returns whether there is an express channel.
fn forms(
    draft: &Draft,
    macsec: &Macsec,
    own: Sci,
    fault: &mut impl FnMut(&'static str, String, String),
) -> bool {
    if macsec.sci_mode == SciMode::EndStation && own.port() != Sci::PORT_END_STATION {
        fault(
            "macsec.end_station",
            format!("an end station's port number is 1, and this gateway's SCI is {own}"),
            "remove the line, or use the SCI of port 1".to_owned(),
        );
    }
    let express = draft.express.as_ref().is_some_and(Option::is_some);
    if express && macsec.sci_mode != SciMode::Explicit {
        fault(
            "express",
            "needs the SCI in each frame, for it is a secure channel of its own".to_owned(),
            "remove [express], or include_sci and end_station from [macsec]".to_owned(),
        );
    }
    express
}

/// Checks `[macsec]` with key agreement. The members are not known in advance.
fn agreed(
    draft: &Draft,
    macsec: &Macsec,
    settings: &agreement::Settings,
    uplink: Option<&Interface>,
    machine: &dyn Machine,
    faults: &mut Vec<Fault>,
) -> Option<Keyed> {
    let cak = CakFile::load(&settings.cak_file, machine.user()).map_err(|found| faults.extend(found)).ok();
    let own = own(macsec, uplink?).0;
    let mut fault =
        |key, what: String, remedy: String| faults.push(draft.lines.fault(&draft.file, key, what, remedy));
    forms(draft, macsec, own, &mut fault);
    if settings.destination == EthernetAddress(uplink?.address) {
        fault(
            "macsec.mka_destination",
            format!("{} is this gateway's own address", settings.destination),
            "give the address of the other gateway, or a group".to_owned(),
        );
    }
    Some(Keyed::Agreed { macsec: macsec.clone(), settings: settings.clone(), cak: cak?, own })
}

/// Checks that an overlay can open its ports. A running gateway with this configuration holds them.
fn listens(
    draft: &Draft,
    overlay: &Overlay,
    uplink: Option<&Interface>,
    runs: bool,
    machine: &dyn Machine,
    faults: &mut Vec<Fault>,
) {
    let first = uplink.map(|uplink| (Which::First, overlay.listen, uplink.name.clone()));
    let second = overlay.second_uplink.as_ref();
    let second = second.filter(|second| machine.interface(&second.interface).is_ok());
    let second = second.map(|second| (Which::Second, second.listen, second.interface.clone()));
    for (which, listen, interface) in first.into_iter().chain(second) {
        let Err(error) = machine.listen(listen, &interface) else { continue };
        let said = match error.kind() {
            io::ErrorKind::AddrInUse => runs,
            io::ErrorKind::PermissionDenied => !machine.may_open_packet_sockets(),
            _ => false,
        };
        if !said {
            let Fault { what, remedy, passing, .. } =
                refused(&draft.file, which.key(), listen, &interface, &error);
            let fault = draft.lines.fault(&draft.file, which.key(), what, remedy);
            faults.push(Fault { passing, ..fault });
        }
    }
}

/// Reads the keys of an overlay, and checks its settings against each other.
fn overlaid(
    draft: &Draft,
    overlay: &Overlay,
    machine: &dyn Machine,
    faults: &mut Vec<Fault>,
) -> Option<Keyed> {
    if let Some(second) = &overlay.second_uplink {
        port(draft, "overlay.second_uplink", &second.interface, machine, faults);
    }
    let others = [
        ("the field's", draft.field.as_ref().map(|port| &port.interface)),
        ("the uplink's", draft.uplink.interface.as_ref()),
    ];
    without_macsec(draft, faults);
    let mut fault =
        |key, what: String, remedy: &str| faults.push(draft.lines.fault(&draft.file, key, what, remedy));
    if matches!(draft.run.as_ref().map(|run| run.threads), Some(Threads::Two(_))) {
        let what = "an overlay has one forwarding thread: sealing and opening share its sessions";
        fault("run.threads", what.to_owned(), "remove the line, and name one CPU");
    }
    let second = overlay.second_uplink.as_ref().map(|second| second.interface.as_str());
    for (whose, _) in others.into_iter().filter(|(_, other)| other.map(InterfaceName::as_str) == second) {
        if let Some(second) = second {
            let what = format!("\"{second}\" is {whose} interface already");
            fault("overlay.second_uplink", what, "give the second uplink an interface of its own");
        }
    }
    for peer in &overlay.peers {
        if peer.endpoint.is_some_and(|at| at.is_ipv6() != overlay.listen.is_ipv6()) {
            let what = format!("the endpoint of {} is of another version of IP than listen", peer.name);
            fault("overlay.listen", what, "listen = \"[::]:51820\" for IPv6, \"0.0.0.0:51820\" for IPv4");
        }
        match (peer.second_endpoint, &overlay.second_uplink) {
            (Some(_), None) => {
                let what = format!("{} has a second_endpoint, but there is no second uplink", peer.name);
                fault("overlay", what, "add [overlay.second_uplink] with its interface, or remove the line");
            }
            (Some(at), Some(second)) if at.is_ipv6() != second.listen.is_ipv6() => {
                let what =
                    format!("the second_endpoint of {} is of another version of IP than listen", peer.name);
                fault(
                    "overlay.second_uplink",
                    what,
                    "listen = \"[::]:51820\" for IPv6, \"0.0.0.0:51820\" for IPv4",
                );
            }
            _ => {}
        }
        if peer.address == overlay.address {
            let what = format!("{} has this gateway's own address {}", peer.name, peer.address);
            fault("overlay", what, "give each end an address of its own");
        }
    }
    let macs: usize = overlay.peers.iter().map(|peer| peer.macs.len()).sum();
    if macs > overlay.mac_limit {
        let what = format!("{macs} static MAC addresses, but mac_limit is {}", overlay.mac_limit);
        fault("overlay", what, "raise mac_limit");
    }
    let mut load = |file: &PathBuf| tunnel_keys::load(file, machine.user()).map_err(|f| faults.push(f)).ok();
    let private = overlay.private_key_file.as_ref().map(&mut load);
    let preshared: Vec<_> =
        overlay.peers.iter().map(|peer| peer.preshared_key_file.as_ref().map(&mut load)).collect();
    let private = match private {
        Some(None) => return None,
        Some(Some(private)) => Some(private),
        None => None,
    };
    if let Some(private) = &private {
        let own = tunnel_keys::public_of(private);
        if let Some(peer) = overlay.peers.iter().find(|peer| peer.public_key == own) {
            let what = format!("the public key of {} is this gateway's own", peer.name);
            let remedy = "write what `antedate keygen wireguard --public FILE` prints at the other end";
            faults.push(draft.lines.fault(&draft.file, "overlay", what, remedy));
        }
    }
    let preshared = preshared.into_iter().map(|key| key.map_or(Some(None), |key| key.map(Some)));
    let preshared = preshared.collect::<Option<Vec<_>>>()?;
    Some(Keyed::Overlay { overlay: Box::new(overlay.clone()), private, preshared })
}

/// Refuses sections that need MACsec.
fn without_macsec(draft: &Draft, faults: &mut Vec<Fault>) {
    let mut fault =
        |key, remedy| faults.push(draft.lines.fault(&draft.file, key, "belongs to [macsec]", remedy));
    if draft.express.as_ref().is_some_and(Option::is_some) {
        fault("express", "remove [express]");
    }
    if draft.flows.as_ref().is_some_and(Option::is_some) {
        fault("flows", "remove [flows]");
    }
}

/// The express channel of a member, as a member.
fn express_channel(member: &Member) -> Member {
    Member {
        name: format!("{}.express", member.name),
        sci: express_sci(member.sci),
        ssci: member.ssci.map(express_ssci),
    }
}

/// Whether [`express_channel`] made this member.
pub(crate) fn is_express_channel(keys: &KeyFile, member: &Member) -> bool {
    keys.member(express_sci(member.sci)).is_some_and(|of| express_channel(of).name == member.name)
}

fn describe(member: &Member) -> String {
    format!("\"{}\" ({})", member.sci, member.name)
}

fn permission(file: &Path) -> Fault {
    let program =
        std::env::current_exe().map_or_else(|_| "antedate".to_owned(), |path| path.display().to_string());
    Fault::of_file(
        file,
        "this process may not open packet sockets (CAP_NET_RAW)",
        format!(
            "run it with sudo, or give the program the right: sudo setcap cap_net_raw,cap_sys_nice,cap_ipc_lock+ep {program}"
        ),
    )
}

/// Full frames of the field that do not fit the uplink.
fn short_uplink(checked: &Checked) -> Option<Fault> {
    let (Keyed::Macsec { macsec, .. } | Keyed::Agreed { macsec, .. }) = &checked.protection else {
        return None;
    };
    let overhead = OVERHEAD + if macsec.sci_mode == SciMode::Explicit { SCI } else { 0 };
    let needed = checked.field.mtu + overhead + VLAN_TAG;
    let carried = checked.uplink_mtu();
    if carried >= needed || may_fragment(checked) {
        return None;
    }
    let uplink = &checked.uplink.name;
    let config = &checked.config;
    let key = if config.uplink.mtu.is_some() { "uplink.mtu" } else { "uplink.interface" };
    Some(config.lines.fault(
        &config.file,
        key,
        format!(
            "carries {carried} octets: payloads of the field over {} octets will be refused",
            carried.saturating_sub(overhead + VLAN_TAG)
        ),
        format!(
            "ip link set dev {uplink} mtu {needed} (and all of the path), fragmentation = \"marked\" in [macsec] of all \
             gateways, or a smaller MTU on the field's side"
        ),
    ))
}

/// MKPDUs that do not fit the uplink.
fn mute_uplink(checked: &Checked) -> Option<Fault> {
    let carried = checked.uplink_mtu();
    if !matches!(checked.protection, Keyed::Agreed { .. }) || carried >= MKPDU {
        return None;
    }
    let config = &checked.config;
    let key = if config.uplink.mtu.is_some() { "uplink.mtu" } else { "uplink.interface" };
    let what = format!(
        "carries {carried} octets: the MKPDUs of key agreement have some 200 to {MKPDU} between two gateways, and are never \
         sent in fragments"
    );
    let remedy = format!("an MTU of {MKPDU} and 16 for each further gateway, or static keys");
    Some(config.lines.fault(&config.file, key, what, remedy))
}

impl Keyed {
    /// The cipher suites in use, in the order of the configuration. More than one only if the
    /// members choose.
    #[must_use]
    pub fn suites(&self) -> Vec<CipherSuite> {
        match self {
            Self::Macsec { keys, .. } => vec![keys.suite],
            Self::Agreed { macsec, .. } => match &macsec.cipher {
                Cipher::Unsaid => vec![CipherSuite::GcmAes128],
                Cipher::Named(suite) => vec![*suite],
                Cipher::Auto(suites) => suites.clone(),
            },
            Self::Plain | Self::Overlay { .. } => Vec::new(),
        }
    }

    /// The name of the cipher suite, or `auto` before one is chosen.
    #[must_use]
    pub fn cipher(&self) -> &'static str {
        match self {
            Self::Agreed { macsec: Macsec { cipher: Cipher::Auto(_), .. }, .. } => "auto",
            _ => self.suites().first().map_or("", |suite| suite.name()),
        }
    }
}

/// Whether long frames may be sent in fragments: if configured, or once key agreement shows that
/// all members read them.
fn may_fragment(checked: &Checked) -> bool {
    match &checked.protection {
        Keyed::Plain | Keyed::Overlay { .. } => false,
        Keyed::Macsec { macsec, .. } => macsec.fragmentation.agreed().is_some(),
        Keyed::Agreed { macsec, .. } => macsec.fragmentation != Fragmentation::Off,
    }
}

/// A research suite.
fn research(checked: &Checked) -> Option<Fault> {
    let suite = checked.protection.suites().into_iter().find(|suite| suite.is_research())?;
    let config = &checked.config;
    let what = format!("{} is for research only: it does not protect anything that matters", suite.name());
    let remedy = "make keys for a standard suite: antedate keygen macsec --suite gcm-aes-128";
    Some(config.lines.fault(&config.file, "macsec", what, remedy))
}

/// An express channel at the rate of a link that does not report its rate.
fn unknown_rate(checked: &Checked, machine: &dyn Machine) -> Option<Fault> {
    let config = &checked.config;
    let asked = config.express.as_ref().is_some_and(|express| express.rate == Rate::OfLink);
    if !asked || machine.speed(&checked.uplink.name).is_some() {
        return None;
    }
    let what = format!(
        "{} does not say at which rate it runs: until it does, bulk leaves at {SLOWEST_MBIT} Mbit/s",
        checked.uplink.name
    );
    let remedy = "plug the link in, or write the rate as a number, e.g. rate_mbit = 100";
    Some(config.lines.fault(&config.file, "express.rate_mbit", what, remedy))
}

/// Express frames that may wait for a whole frame.
fn unbounded_express(checked: &Checked) -> Option<Fault> {
    let config = &checked.config;
    if config.express.is_none() || may_fragment(checked) {
        return None;
    }
    let what = "without fragments an express frame waits for the whole frame before it";
    let remedy = "fragmentation = \"marked\" in [macsec] of all gateways";
    Some(config.lines.fault(&config.file, "express", what, remedy))
}

/// Fragments whose receivers see only part of the packet numbers.
fn unmarked_fragments(checked: &Checked) -> Option<Fault> {
    let Keyed::Macsec { macsec, keys, .. } = &checked.protection else { return None };
    let members = keys.members.iter().filter(|member| !is_express_channel(keys, member)).count();
    if macsec.fragmentation != Fragmentation::On(Marks::More) || members < 3 {
        return None;
    }
    let config = &checked.config;
    let what = format!(
        "among {members} members a switch sends each only some of the frames, and behind each gap one more is refused as it \
         may be the rest of another"
    );
    let remedy = "fragmentation = \"marked\" in [macsec] of all gateways";
    Some(config.lines.fault(&config.file, "macsec.fragmentation", what, remedy))
}

/// Flow tables that the cipher suite never uses.
fn idle_tables(checked: &Checked) -> Option<Fault> {
    let (Keyed::Macsec { macsec, .. } | Keyed::Agreed { macsec, .. }) = &checked.protection else {
        return None;
    };
    let config = &checked.config;
    let asked = config.flows.as_ref().is_some_and(|flows| flows.tables != FlowTables::Off);
    if !asked
        || macsec.confidentiality && checked.protection.suites().iter().any(|suite| suite.has_flow_tables())
    {
        return None;
    }
    let what = "does nothing: flow tables are for AES-GCM with encryption";
    Some(config.lines.fault(&config.file, "flows", what, "remove [flows]"))
}

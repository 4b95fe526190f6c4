//! Checks a configuration against the machine, the key files and the state directory, and reports
//! all faults together.

mod leave;
pub(super) mod overlay;
mod warnings;
pub(super) mod workers;

use std::io;
use std::path::Path;

use antedate_channel::macsec::CipherSuite;
use antedate_host::control;
use antedate_host::fault::{Fault, Faults, explain, suggest};
use antedate_host::numbers;
use antedate_wire::{EthernetAddress, Sci};

use self::leave::Side;
use super::agreement;
use super::cak::CakFile;
use super::host::{Finding, Port, examine};
use super::io::Leave;
use super::machine::{Interface, Machine};
use super::read::{self, Draft, KeyPath};
use super::state;
use super::{
    CONTROL_WORDS, Cipher, Config, Control, Identity, InterfaceName, Keys, Macsec, Overlay, Protection,
    SciMode,
};
use crate::config::express::{express_sci, express_ssci};
use crate::config::keys::{KeyFile, Member, channels};
use crate::config::tunnel_keys::{self, TunnelKeys};

/// A configuration that fits the machine. The daemon starts from it.
#[derive(Debug)]
pub struct Checked {
    /// The configuration.
    pub config: Config,
    /// The interface of the field.
    pub field: Interface,
    /// The interface of the uplink.
    pub uplink: Interface,
    /// That of the second uplink, if any.
    pub second: Option<Interface>,
    /// How frames leave by the field port and by the uplink.
    pub leave: [Leave; 2],
    /// The protection, with its keys.
    pub protection: Keyed,
    /// Legal settings that are probably not intended.
    pub warnings: Vec<Fault>,
}

impl Checked {
    /// The interfaces of all uplinks of MACsec.
    #[must_use]
    pub fn uplinks(&self) -> Vec<&Interface> {
        [&self.uplink].into_iter().chain(&self.second).collect()
    }

    /// The longest payload that all uplinks carry: that of the interface with the lower MTU, or less
    /// if configured.
    #[must_use]
    pub fn uplink_mtu(&self) -> usize {
        let second = self.second.as_ref().map_or(usize::MAX, |second| second.mtu);
        self.config.uplink.carries(self.uplink.mtu.min(second))
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
        /// The public key. `None` without WireGuard.
        public: Option<[u8; 32]>,
        /// The keys, until the overlay runs.
        keys: TunnelKeys,
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
    let second = draft.second_uplink.as_ref().and_then(Option::as_ref);
    let second = name(second.map(|second| &second.interface));
    let has_second = second.is_some();
    let second = second.and_then(|name| port(&draft, "second_uplink.interface", &name, machine, &mut faults));
    if let (Some(port), Some(mtu)) = (&uplink, draft.uplink.mtu.flatten())
        && usize::from(mtu) > port.mtu
    {
        let what = format!("{mtu} is more than the {} that {} carries", port.mtu, port.name);
        let remedy = format!("ip link set dev {} mtu {mtu}, or remove the line", port.name);
        faults.push(draft.lines.fault(file, "uplink.mtu", what, remedy));
    }
    // The datagrams of an overlay have the host's own address.
    let transparent = !matches!(draft.protection, Some(Protection::Overlay(_)));
    let mut surroundings = Vec::new();
    for (key, uplink) in [("uplink.interface", &uplink), ("second_uplink.interface", &second)] {
        let (Some(field), Some(uplink)) = (&field, uplink) else { continue };
        let [field, uplink] = Port::of(field, uplink, transparent);
        let found = around(&draft, [field, Port { key, ..uplink }], machine, &mut faults);
        // Those of the field are the same.
        let new: Vec<_> = found.into_iter().filter(|fault| !surroundings.contains(fault)).collect();
        surroundings.extend(new);
    }
    cpus(&draft, machine, &mut faults);
    standing_by(&draft, &mut faults);
    workers::fit(&draft, &mut faults);
    let mut answered = None;
    if let Some(Control { socket }) = &draft.control {
        match control::inspect(socket, &CONTROL_WORDS) {
            Ok(false) => {}
            Ok(true) => answered = Some(CONTROL_WORDS.taken(socket)),
            Err(fault) => faults.push(draft.lines.at(file, "control.socket", fault)),
        }
    }
    for http in [&draft.metrics, &draft.page].into_iter().flatten().flatten() {
        if let Err(fault) = http.token(machine.user()) {
            faults.push(draft.lines.at(file, http.token_key, fault));
        }
    }
    let protection = match &draft.protection {
        Some(Protection::Macsec(macsec)) => keyed(&draft, macsec, uplink.as_ref(), machine, &mut faults),
        Some(Protection::Overlay(overlay)) => {
            overlay::listens(&draft, overlay, uplink.as_ref(), answered.is_some(), machine, &mut faults);
            overlay::overlaid(&draft, overlay, machine, &mut faults)
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
    if let (Some(Keyed::Macsec { keys, own, .. }), None) = (&protection, &answered)
        && keys.associations.iter().any(|sa| machine.sends_elsewhere(&sa.numbers_id(), *own))
    {
        let what = format!("another process of this machine sends with these keys as {own}");
        let remedy =
            "stop it: two senders with one key use the same packet numbers, and both lose their secrecy";
        faults.push(draft.lines.fault(file, "macsec.key_file", what, remedy));
    }
    if !machine.may_open_packet_sockets() {
        faults.push(permission(file));
    }
    let mut way = |side, port: Option<&Interface>| {
        let chosen =
            leave::choose(&draft, side, port.filter(|_| machine.may_open_packet_sockets())?, machine);
        chosen.map_err(|fault| faults.push(fault)).ok()
    };
    let leave = [way(Side::Field, field.as_ref()), way(Side::Uplink, uplink.as_ref())];
    match (draft.finish(), field, uplink, protection, leave) {
        (Some(config), Some(field), Some(uplink), Some(protection), [Some(to_field), Some(to_uplink)])
            if faults.is_empty() && second.is_some() == has_second =>
        {
            let leave = [to_field, to_uplink];
            let mut checked =
                Checked { warnings: config.warnings(), config, field, uplink, second, leave, protection };
            let more = [
                warnings::short_uplink(&checked),
                warnings::mute_uplink(&checked),
                warnings::research(&checked),
                warnings::unbounded_express(&checked),
                warnings::unmarked_fragments(&checked),
                warnings::unknown_rate(&checked, machine),
                answered.map(|fault| checked.config.at("control.socket", fault)),
            ];
            checked.warnings.extend(more.into_iter().flatten());
            let more = warnings_of(&checked.config, &checked.protection);
            checked.warnings.extend(more.into_iter().chain(surroundings));
            Ok(checked)
        }
        _ => Err(Faults::new(faults)),
    }
}

/// Warnings about settings that may change while the gateway runs.
pub(super) fn warnings_of(config: &Config, protection: &Keyed) -> Vec<Fault> {
    let all = [
        warnings::idle_tables(config, protection),
        warnings::idle_workers(config, protection),
        warnings::kept_by_switches(config, protection),
    ];
    all.into_iter().flatten().collect()
}

/// Examines the host around the ports. Returns the warnings.
fn around(draft: &Draft, ports: [Port<'_>; 2], machine: &dyn Machine, faults: &mut Vec<Fault>) -> Vec<Fault> {
    let host = machine.host(&ports.map(|port| (port.index, port.name)));
    let mut warnings = Vec::new();
    for Finding { key, what, remedy, refused } in examine(&host, ports) {
        let fault = draft.lines.fault(&draft.file, key, what, remedy);
        (if refused { &mut *faults } else { &mut warnings }).push(fault);
    }
    warnings
}

/// Refuses settings that a gateway that stands by cannot have.
fn standing_by(draft: &Draft, faults: &mut Vec<Fault>) {
    if draft.standby.is_none_or(|settings| settings.is_none()) {
        return;
    }
    let mut fault =
        |key, what: &str, remedy: &str| faults.push(draft.lines.fault(&draft.file, key, what, remedy));
    if matches!(draft.keys, Some(KeyPath::Static(_))) {
        let remedy = "write macsec.cak_file in the place of the static keys";
        fault("standby", "needs key agreement, whose CAK authenticates the hellos", remedy);
    }
    if draft.link_loss.is_some_and(|settings| settings.is_some()) {
        let remedy = "remove one: with [standby] another gateway takes over, and no port needs to go down";
        fault("link_loss", "cannot be beside [standby]", remedy);
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
    let wanted = draft.run.as_ref().map(|run| run.threads.cpus()).unwrap_or_default();
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
    let every = || keys.members.iter().flat_map(channels::all);
    let used = |sci: Sci| every().any(|(other, _)| other == sci);
    if express && let Some(member) = keys.members.iter().find(|m| used(express_sci(m.sci))) {
        fault(
            "express",
            format!("the express channel of {} would have the SCI of another member", describe(member)),
            "give the members of the key file SCIs that differ in more than the highest bit of the port"
                .to_owned(),
        );
    }
    let taken = |ssci: u32| every().any(|(_, other)| other == Some(ssci));
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
    workers::channels_suffice(draft, &keys, own, &mut fault);
    let mut keys = keys;
    let mut more: Vec<Member> = keys.peers(own).flat_map(channels::further).collect();
    if express {
        more.extend(keys.peers(own).map(express_channel));
    }
    keys.members.extend(more);
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
    workers::ports_suffice(draft, own, &mut fault);
    let address = EthernetAddress(uplink?.address);
    if settings.destinations.contains(&address) {
        fault(
            "macsec.mka_destination",
            format!("{address} is this gateway's own address"),
            "give the address of the other gateway, or a group".to_owned(),
        );
    }
    Some(Keyed::Agreed { macsec: macsec.clone(), settings: settings.clone(), cak: cak?, own })
}

/// Refuses sections that need MACsec.
pub(super) fn without_macsec(draft: &Draft, faults: &mut Vec<Fault>) {
    let tunnels = matches!(
        &draft.protection, Some(Protection::Overlay(overlay)) if overlay.private_key_file.is_some()
    );
    if draft.link_loss.is_some_and(|settings| settings.is_some()) && !tunnels {
        let what = "belongs to [macsec] or WireGuard";
        faults.push(draft.lines.fault(&draft.file, "link_loss", what, "remove [link_loss]"));
    }
    let mut fault =
        |key, remedy| faults.push(draft.lines.fault(&draft.file, key, "belongs to [macsec]", remedy));
    if draft.express.as_ref().is_some_and(Option::is_some) {
        fault("express", "remove [express]");
    }
    if draft.uplink.outer.as_ref().is_some_and(Option::is_some) {
        fault("uplink.vlan", "remove the line");
    }
    if draft.uplink.carries_link_local == Some(true) {
        fault("uplink.carry_link_local", "remove the line");
    }
    if draft.second_uplink.as_ref().is_some_and(Option::is_some) {
        let remedy = if matches!(draft.protection, Some(Protection::Overlay(_))) {
            "write [overlay.second_uplink]"
        } else {
            "remove [second_uplink]"
        };
        fault("second_uplink", remedy);
    }
    if draft.standby.is_some_and(|settings| settings.is_some()) {
        fault("standby", "remove [standby]");
    }
    if draft.loops.is_some_and(|settings| settings.is_some()) {
        fault("loop_detection", "remove [loop_detection]");
    }
    if draft.flows.as_ref().is_some_and(Option::is_some) {
        fault("flows", "remove tables and [[flows.shape]]");
    }
}

/// The express channel of a member, as a member.
fn express_channel(member: &Member) -> Member {
    Member {
        name: format!("{}.express", member.name),
        sci: express_sci(member.sci),
        ssci: member.ssci.map(express_ssci),
        channels: 1,
    }
}

/// Whether [`express_channel`] made this member.
pub(crate) fn is_express_channel(keys: &KeyFile, member: &Member) -> bool {
    keys.member(express_sci(member.sci)).is_some_and(|of| express_channel(of).name == member.name)
}

/// Whether this member is a further channel of another one, and not in the file.
pub(super) fn is_derived(keys: &KeyFile, member: &Member) -> bool {
    channels::is_further(&member.name) || is_express_channel(keys, member)
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

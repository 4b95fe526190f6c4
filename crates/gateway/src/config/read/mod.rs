//! Parses the text of a configuration.
//!
//! Each section is parsed into an `Option` of its own. So a fault in one section hides no fault of
//! another, and the sections without faults are still checked against the machine.

mod endpoint;
mod express;
mod flows;
mod http;
mod macsec;
mod overlay;
mod policy;
mod ptp;
mod run;

use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use antedate_channel::macsec::CipherSuite;
use antedate_host::control::LONGEST_PATH;
use antedate_host::document::{Document, Field, Section};
use antedate_host::fault::Fault;
use antedate_wire::vlan::VlanId;

use super::http::Http;
use super::io::Io;
use super::link_loss::LinkLoss;
use super::loops::LoopSettings;
use super::policy::Policy;
use super::standby::StandbySettings;
use super::uplink::{OuterTag, Waiting};
use super::{
    Config, Control, Express, FieldPort, Flows, InterfaceName, Lines, Protection, RESERVE, Run, SecondUplink,
    State, UplinkPort,
};

/// The largest configuration file in octets.
const MAX_CONFIG_LEN: u64 = 1 << 20;
const U16_MAX: u64 = 0xffff;
const SUITES: [(&str, CipherSuite); 14] = [
    ("gcm-aes-128", CipherSuite::GcmAes128),
    ("gcm-aes-256", CipherSuite::GcmAes256),
    ("gcm-aes-xpn-128", CipherSuite::GcmAesXpn128),
    ("gcm-aes-xpn-256", CipherSuite::GcmAesXpn256),
    ("chacha20-poly1305", CipherSuite::ChaCha20Poly1305),
    ("aegis-128l", CipherSuite::Aegis128L),
    ("ascon-aead128", CipherSuite::AsconAead128),
    ("aes-128-ocb3", CipherSuite::Aes128Ocb3),
    ("morus-1280-128", CipherSuite::Morus1280),
    ("aes-128-gcm", CipherSuite::GcmAes128),
    ("aes-256-gcm", CipherSuite::GcmAes256),
    ("aes-xpn-128-gcm", CipherSuite::GcmAesXpn128),
    ("aes-xpn-256-gcm", CipherSuite::GcmAesXpn256),
    ("ocb3-aes-128", CipherSuite::Aes128Ocb3),
];

/// Reads the name of a cipher suite, with either order of its parts.
pub(crate) fn suite(field: &Field<'_, '_>) -> Option<CipherSuite> {
    field.one_of("a cipher suite", &SUITES)
}

/// The parts of a configuration without faults of their own.
pub(super) struct Draft {
    pub(super) file: PathBuf,
    pub(super) field: Option<FieldPort>,
    pub(super) uplink: UplinkDraft,
    pub(super) second_uplink: Option<Option<SecondUplink>>,
    pub(super) protection: Option<Protection>,
    /// The key files, even if other settings of the section are wrong.
    pub(super) keys: Option<KeyPath>,
    pub(super) standby: Option<Option<StandbySettings>>,
    pub(super) loops: Option<Option<LoopSettings>>,
    pub(super) link_loss: Option<Option<LinkLoss>>,
    pub(super) express: Option<Option<Express>>,
    pub(super) flows: Option<Option<Flows>>,
    pub(super) watchdog_cycles: Option<u64>,
    pub(super) policy: Policy,
    pub(super) run: Option<Run>,
    pub(super) state: Option<State>,
    /// The state directory, even if other settings of the section are wrong.
    pub(super) state_directory: Option<PathBuf>,
    pub(super) control: Option<Control>,
    pub(super) metrics: Option<Option<Http>>,
    pub(super) page: Option<Option<Http>>,
    pub(super) transparent_clock: Option<bool>,
    pub(super) lines: Lines,
}

/// The parts of `[uplink]`, each checked on its own.
pub(super) struct UplinkDraft {
    pub(super) interface: Option<InterfaceName>,
    pub(super) mtu: Option<Option<u16>>,
    pub(super) outer: Option<Option<OuterTag>>,
    pub(super) carries_link_local: Option<bool>,
    pub(super) io: Option<Io>,
}

/// The paths of the key files of `[macsec]` or `[overlay]`.
pub(super) enum KeyPath {
    Static(PathBuf),
    Agreed(PathBuf),
    Tunnel(Vec<PathBuf>),
}

impl Draft {
    /// The configuration, if no part is missing.
    pub(super) fn finish(self) -> Option<Config> {
        Some(Config {
            file: self.file,
            field: self.field?,
            uplink: UplinkPort {
                interface: self.uplink.interface?,
                mtu: self.uplink.mtu?,
                outer: self.uplink.outer?,
                carries_link_local: self.uplink.carries_link_local?,
                io: self.uplink.io?,
            },
            second_uplink: self.second_uplink?,
            protection: self.protection?,
            standby: self.standby?,
            loops: self.loops?,
            link_loss: self.link_loss?,
            express: self.express?,
            flows: self.flows?,
            watchdog_cycles: self.watchdog_cycles?,
            policy: self.policy,
            run: self.run?,
            state: self.state?,
            control: self.control?,
            metrics: self.metrics?,
            page: self.page?,
            transparent_clock: self.transparent_clock?,
            lines: self.lines,
        })
    }
}

/// Reads the text of a file.
pub(super) fn text(file: &Path) -> Result<String, Fault> {
    let remedy = "give the path of the gateway's configuration, see docs/src/gateway.md for an example";
    let mut text = String::new();
    let read = File::open(file).and_then(|open| open.take(MAX_CONFIG_LEN + 1).read_to_string(&mut text));
    match read {
        Err(error) => Err(Fault::of_io(file, "read the configuration", &error, remedy)),
        Ok(length) if length as u64 > MAX_CONFIG_LEN => {
            Err(Fault::of_file(file, "longer than 1 MiB, so this is no configuration", remedy))
        }
        Ok(_) => Ok(text),
    }
}

/// Parses the parts of a configuration, and collects all faults.
pub(super) fn read(file: &Path, text: &str) -> (Draft, Vec<Fault>) {
    let document = Document::parse(file, text);
    let base = file.parent().unwrap_or(Path::new(""));
    let mut root = document.root();
    let mut lines = Lines::default();

    let field = field_port(
        root.required_section("field", "add [field] with the interface of the side with the machines"),
        &mut lines,
    );
    let uplink = uplink_port(
        root.required_section("uplink", "add [uplink] with the interface of the untrusted side"),
        &mut lines,
    );
    if let (Some(field), Some(uplink)) = (&field, &uplink.interface)
        && field.interface == *uplink
    {
        document.fault(
            lines.0.get("uplink.interface").copied(),
            "uplink.interface",
            format!("\"{uplink}\" is the field's interface already"),
            "a gateway needs two interfaces: one to the machines, one to the untrusted side",
        );
    }
    let second_uplink = second_uplink(root.section("second_uplink"), &mut lines);
    if let Some(Some(SecondUplink { interface: second, .. })) = &second_uplink {
        let port = [
            ("the field", field.as_ref().map(|port| &port.interface)),
            ("the uplink", uplink.interface.as_ref()),
        ];
        if let Some((whose, _)) = port.into_iter().find(|(_, name)| *name == Some(second)) {
            document.fault(
                lines.0.get("second_uplink.interface").copied(),
                "second_uplink.interface",
                format!("\"{second}\" is {whose}'s interface already"),
                "name an interface of its own, with another way to the other gateways",
            );
        }
    }
    let (keys, protection) = protection(&mut root, base, second_uplink != Some(None), &mut lines);
    let no_time = match &protection {
        Some(Protection::Overlay(_)) => Some(ptp::OVERLAY),
        _ if second_uplink != Some(None) => Some(ptp::TWO_WAYS),
        _ => None,
    };
    let (state_directory, state) = state(root.section("state"), base, &mut lines);
    let (flows, watchdog_cycles) = flows::flows(root.section("flows"), &mut lines);
    let draft = Draft {
        file: file.to_owned(),
        field,
        uplink,
        second_uplink,
        protection,
        keys,
        standby: standby(root.section("standby"), &mut lines),
        loops: loops(root.section("loop_detection"), &mut lines),
        link_loss: link_loss(root.section("link_loss"), &mut lines),
        express: express::express(root.section("express"), &mut lines),
        flows,
        watchdog_cycles,
        policy: policy::policy(root.section("policy"), &mut lines),
        run: run::run(root.section("run"), &mut lines),
        state,
        state_directory,
        control: control(root.section("control"), base, &mut lines),
        metrics: http::http(root.section("metrics"), &http::METRICS, base, &mut lines),
        page: http::http(root.section("page"), &http::PAGE, base, &mut lines),
        transparent_clock: ptp::ptp(root.section("ptp"), no_time, &mut lines),
        lines,
    };
    root.finish();
    (draft, document.into_faults())
}

fn field_port(mut section: Section<'_, '_>, lines: &mut Lines) -> Option<FieldPort> {
    lines.note("field", section.line());
    let interface =
        interface(&mut section, "field.interface", "name the interface of the side with the machines", lines);
    let io = io(&mut section, "field.io", lines);
    section.finish();
    Some(FieldPort { interface: interface?, io: io? })
}

fn uplink_port(mut section: Section<'_, '_>, lines: &mut Lines) -> UplinkDraft {
    lines.note("uplink", section.line());
    let interface =
        interface(&mut section, "uplink.interface", "name the interface of the untrusted side", lines);
    let mtu = section.get("mtu");
    let mtu = mtu.map(|field| {
        lines.note("uplink.mtu", Some(field.line()));
        number(&field, 128..=U16_MAX)
    });
    let outer = outer_tag(&mut section, lines);
    let carries = section.get("carry_link_local").map(|field| {
        lines.note("uplink.carry_link_local", Some(field.line()));
        field.boolean()
    });
    let io = io(&mut section, "uplink.io", lines);
    section.finish();
    let carries_link_local = all(carries).map(Option::unwrap_or_default);
    UplinkDraft { interface, mtu: all(mtu), outer, carries_link_local, io }
}

fn io(section: &mut Section<'_, '_>, key: &'static str, lines: &mut Lines) -> Option<Io> {
    let io = section.get("io").map(|field| {
        lines.note(key, Some(field.line()));
        field.one_of("a way to send", &Io::NAMES)
    });
    all(io).map(Option::unwrap_or_default)
}

/// `Some(None)`: there is no section.
fn second_uplink(mut section: Section<'_, '_>, lines: &mut Lines) -> Option<Option<SecondUplink>> {
    lines.note("second_uplink", section.line());
    if !section.is_present() {
        section.finish();
        return Some(None);
    }
    let remedy = "name the interface of the second way to the other gateways";
    let interface = interface(&mut section, "second_uplink.interface", remedy, lines);
    let waits =
        section.get("mode").map(|field| field.one_of("a mode", &[("both", false), ("waiting", true)]));
    let (hello, preempt) = (section.get("hello_ms"), section.get("preempt"));
    let waits = all(waits)?.unwrap_or_default();
    if let Some(field) = hello.as_ref().or(preempt.as_ref()).filter(|_| !waits) {
        field.fault("belongs to mode = \"waiting\"", "remove the line, or write mode = \"waiting\"");
        return None;
    }
    let hello = all(hello.map(|field| number::<u64>(&field, 5..=1_000)));
    let preempt = all(preempt.map(|field| field.boolean()));
    section.finish();
    let waiting = Waiting { hello: hello?.map(Duration::from_millis), preempt: preempt?.unwrap_or_default() };
    Some(Some(SecondUplink { interface: interface?, waiting: waits.then_some(waiting) }))
}

/// `Some(None)`: tags stay behind the SecTAG.
fn outer_tag(section: &mut Section<'_, '_>, lines: &mut Lines) -> Option<Option<OuterTag>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Place {
        Inside,
        Copy,
        Outside,
    }
    const PLACES: [(&str, Place); 3] =
        [("inside", Place::Inside), ("copy", Place::Copy), ("outside", Place::Outside)];
    let place = section.get("vlan").map(|field| {
        lines.note("uplink.vlan", Some(field.line()));
        field.one_of("a place of VLAN tags", &PLACES)
    });
    let (id, priorities) = (section.get("vlan_id"), section.get("vlan_priorities"));
    let place = all(place)?.unwrap_or(Place::Inside);
    if let Some(field) = id.as_ref().filter(|_| place != Place::Outside) {
        field.fault("belongs to vlan = \"outside\"", "remove the line, or write vlan = \"outside\"");
        return None;
    }
    if let Some(field) = priorities.as_ref().filter(|_| place == Place::Inside) {
        field.fault("belongs to a tag outside", "remove the line, or write vlan = \"copy\" or \"outside\"");
        return None;
    }
    let id = id.map(|field| number(&field, 0..=0xffe).and_then(VlanId::new));
    let priorities = priorities.map(|field| by_priority(&field, 7));
    let (id, priorities) = (all(id), all(priorities));
    let priorities = priorities?.unwrap_or([0, 1, 2, 3, 4, 5, 6, 7]);
    let vlan = (place == Place::Outside).then_some(id?.unwrap_or(VlanId::PRIORITY));
    Some((place != Place::Inside).then_some(OuterTag { vlan, priorities }))
}

/// A table with a value for each VLAN priority.
fn by_priority(field: &Field<'_, '_>, most: u64) -> Option<[u8; 8]> {
    let table: Vec<u8> = field.array()?.iter().map(|one| number(one, 0..=most)).collect::<Option<_>>()?;
    let count = table.len();
    let table = <[u8; 8]>::try_from(table).ok();
    if table.is_none() {
        field.fault(format!("has {count} values"), "give eight, for the priorities 0 to 7");
    }
    table
}

fn interface(
    section: &mut Section<'_, '_>,
    key: &'static str,
    remedy: &str,
    lines: &mut Lines,
) -> Option<InterfaceName> {
    let field = section.required("interface", remedy)?;
    lines.note(key, Some(field.line()));
    let text = field.string()?;
    let name = InterfaceName::new(text);
    if name.is_none() {
        field.fault(
            format!("\"{text}\" cannot be the name of an interface"),
            "give a name of at most 15 characters as `ip link` shows it",
        );
    }
    name
}

fn protection(
    root: &mut Section<'_, '_>,
    base: &Path,
    two_paths: bool,
    lines: &mut Lines,
) -> (Option<KeyPath>, Option<Protection>) {
    let mut secured = root.section("macsec");
    let tunnels = root.section("overlay");
    let plain = root.section("plain");
    let (has_macsec, has_plain) = (secured.is_present(), plain.is_present());
    let has_overlay = tunnels.is_present();
    lines.note("macsec", secured.line());
    lines.note("plain", plain.line());
    if has_macsec && has_plain {
        plain.fault("", "stands beside [macsec], and only one of the two can hold", "remove [plain]");
    }
    if has_overlay && (has_macsec || has_plain) {
        let other = if has_macsec { "macsec" } else { "plain" };
        let what = format!("stands beside [{other}], and only one of the two can hold");
        tunnels.fault("", what, "remove one of the two");
    }
    if !has_macsec && !has_plain && !has_overlay {
        root.fault(
            "[macsec]",
            "is missing",
            "add [macsec] with a cak_file (`antedate keygen macsec --cak` makes one), or [overlay] between sites",
        );
    }
    plain.finish();
    let (named, keys) = macsec::keys(&mut secured, base, lines);
    let secured = macsec::macsec(secured, keys, two_paths, lines);
    let (tunnel_keys, tunnels) = overlay::overlay(tunnels, base, lines);
    let protection = match (has_macsec, has_overlay, has_plain) {
        (true, false, false) => secured.map(Protection::Macsec),
        (false, true, false) => tunnels.map(|overlay| Protection::Overlay(Box::new(overlay))),
        (false, false, true) => Some(Protection::Plain),
        _ => None,
    };
    (named.or(has_overlay.then_some(KeyPath::Tunnel(tunnel_keys))), protection)
}

/// `Some(None)`: there is no section.
fn standby(mut section: Section<'_, '_>, lines: &mut Lines) -> Option<Option<StandbySettings>> {
    lines.note("standby", section.line());
    let remedy = "write a number of 1 to 255, the same at the gateways of one field and no others";
    let group = section.required("group", remedy).map(|field| number::<u8>(&field, 1..=255));
    let priority = section.get("priority").map(|field| number::<u8>(&field, 1..=255));
    let hello = section.get("hello_ms").map(|field| number::<u64>(&field, 5..=1_000));
    let preempt = section.get("preempt").map(|field| field.boolean());
    let there = section.is_present();
    section.finish();
    if !there {
        return Some(None);
    }
    Some(Some(StandbySettings {
        group: group??,
        priority: all(priority)?.unwrap_or(100),
        hello: Duration::from_millis(all(hello)?.unwrap_or(20)),
        preempt: all(preempt)?.unwrap_or(false),
    }))
}

/// `Some(None)`: there is no section.
fn loops(mut section: Section<'_, '_>, lines: &mut Lines) -> Option<Option<LoopSettings>> {
    lines.note("loop_detection", section.line());
    let mut time = |key, range: RangeInclusive<u64>, usual| {
        let written = section.get(key).map(|field| number::<u64>(&field, range));
        all(written).map(|written| Duration::from_millis(written.unwrap_or(usual)))
    };
    let (probe, hold) = (time("probe_ms", 100..=10_000, 1_000), time("hold_ms", 0..=600_000, 10_000));
    let there = section.is_present();
    section.finish();
    let settings = LoopSettings { probe: probe?, hold: hold? };
    Some(there.then_some(settings))
}

/// `Some(None)`: there is no section.
fn link_loss(mut section: Section<'_, '_>, lines: &mut Lines) -> Option<Option<LinkLoss>> {
    lines.note("link_loss", section.line());
    let mut time = |key, range: RangeInclusive<u64>| {
        let written = section.get(key).map(|field| number::<u64>(&field, range));
        all(written).map(|written| written.map(Duration::from_millis))
    };
    let (hello, hold, recovery) =
        (time("hello_ms", 5..=1_000), time("hold_ms", 0..=10_000), time("recovery_ms", 0..=60_000));
    let there = section.is_present();
    section.finish();
    let settings = LinkLoss {
        hello: hello?,
        hold: hold?.unwrap_or_default(),
        recovery: recovery?.unwrap_or(Duration::from_secs(1)),
    };
    Some(there.then_some(settings))
}

/// The directory, and the whole section.
fn state(mut section: Section<'_, '_>, base: &Path, lines: &mut Lines) -> (Option<PathBuf>, Option<State>) {
    lines.note("state", section.line());
    let directory = section.get("directory").map(|field| {
        lines.note("state.directory", Some(field.line()));
        path(&field, base, "name the directory that keeps the packet numbers")
    });
    let reserve = section.get("reserve").map(|field| number(&field, 1 << 12..=1 << 24));
    section.finish();
    let directory = all(directory).map(|named| named.unwrap_or_else(|| "/var/lib/antedate".into()));
    let state = directory.clone().zip(all(reserve));
    let state = state.map(|(directory, reserve)| State { directory, reserve: reserve.unwrap_or(RESERVE) });
    (directory, state)
}

fn control(mut section: Section<'_, '_>, base: &Path, lines: &mut Lines) -> Option<Control> {
    lines.note("control", section.line());
    let socket = section.get("socket").map(|field| {
        lines.note("control.socket", Some(field.line()));
        let socket = path(&field, base, "name the socket that the daemon answers on")?;
        if socket.as_os_str().len() > LONGEST_PATH {
            field.fault(
                format!(
                    "{} is longer than the {LONGEST_PATH} bytes that a socket's path may have",
                    socket.display()
                ),
                "give a shorter path",
            );
            return None;
        }
        Some(socket)
    });
    section.finish();
    Some(Control { socket: all(socket)?.unwrap_or_else(|| "/run/antedate/gateway.sock".into()) })
}

fn path(field: &Field<'_, '_>, base: &Path, remedy: &str) -> Option<PathBuf> {
    let text = field.string()?;
    if text.is_empty() || text.contains('\0') {
        field.fault("is not a path", remedy);
        return None;
    }
    Some(base.join(text))
}

fn number<T: TryFrom<u64>>(field: &Field<'_, '_>, range: RangeInclusive<u64>) -> Option<T> {
    field.integer(range)?.try_into().ok()
}

/// `None`: the value is faulty. `Some(None)`: there is no value.
fn all<T>(written: Option<Option<T>>) -> Option<Option<T>> {
    match written {
        Some(Some(value)) => Some(Some(value)),
        Some(None) => None,
        None => Some(None),
    }
}

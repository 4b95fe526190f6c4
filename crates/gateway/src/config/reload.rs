//! The configuration of a running gateway, read again.
//!
//! What may change while frames pass: `[policy]`, `[metrics]`, `[page]`, `[flows]`, the frames of
//! `[express]`, ages and polling of `[run]`, the peers and some limits of `[overlay]`, and the CAKs.
//! All else is set at the start: a file that changes it is refused as a whole.

use antedate_host::fault::{Fault, Faults};

use super::cak::CakFile;
use super::check::{self, Keyed};
use super::keys::KeyFile;
use super::machine::Machine;
use super::read::{self, Draft};
use super::tunnel_keys::TunnelKeys;
use super::{Config, Express, Keys, Macsec, Overlay, Protection, Run, State};

/// A configuration that a running gateway can take over.
#[derive(Debug)]
pub struct Reread {
    /// The configuration.
    pub config: Config,
    /// The keys that were read with it.
    pub keys: Rekeyed,
    /// The settings that differ.
    pub changed: Vec<&'static str>,
    /// Legal settings that are probably not intended.
    pub warnings: Vec<Fault>,
}

/// The keys of a configuration that was read again.
#[derive(Debug)]
pub enum Rekeyed {
    /// None that can change.
    None,
    /// The CAKs of key agreement.
    Caks(CakFile),
    /// The keys of an overlay.
    Peers(TunnelKeys),
}

/// Reads the file of a running gateway again, and the key files that it names.
///
/// # Errors
/// All faults, and each setting that cannot change while the gateway runs.
pub fn reread(running: &Config, protection: &Keyed, machine: &dyn Machine) -> Result<Reread, Faults> {
    let file = &running.file;
    let (draft, mut faults) = read::read(file, &read::text(file)?);
    check::workers::fit(&draft, &mut faults);
    let keys = rekeyed(&draft, protection, machine, &mut faults);
    let (Some(keys), Some(config), true) = (keys, draft.finish(), faults.is_empty()) else {
        return Err(Faults::new(faults));
    };
    let pair = Changed { old: running, new: &config };
    let faults = pair.refused();
    if !faults.is_empty() {
        return Err(Faults::new(faults));
    }
    let changed = pair.taken_over();
    let mut warnings = config.warnings();
    warnings.extend(check::warnings_of(&config, protection));
    Ok(Reread { config, keys, changed, warnings })
}

/// Reads and checks the key files. `None` after a fault.
fn rekeyed(
    draft: &Draft,
    protection: &Keyed,
    machine: &dyn Machine,
    faults: &mut Vec<Fault>,
) -> Option<Rekeyed> {
    match (draft.protection.as_ref()?, protection) {
        (Protection::Overlay(overlay), Keyed::Overlay { .. }) => {
            let read = check::overlay::overlaid(draft, overlay, machine, faults)?;
            let Keyed::Overlay { keys, .. } = read else { return None };
            Some(Rekeyed::Peers(keys))
        }
        (Protection::Macsec(Macsec { keys: Keys::Agreed(settings), .. }), Keyed::Agreed { .. }) => {
            let read = CakFile::load(&settings.cak_file, machine.user());
            read.map(Rekeyed::Caks).map_err(|found| faults.extend(found)).ok()
        }
        (Protection::Macsec(Macsec { keys: Keys::Static(file), .. }), Keyed::Macsec { keys: before, .. }) => {
            let read = KeyFile::load(file, machine.user()).map_err(|found| faults.extend(found)).ok()?;
            let ids = |keys: &KeyFile| keys.associations.iter().map(|sa| sa.numbers_id()).collect::<Vec<_>>();
            let members = before.members.iter().filter(|member| !check::is_derived(before, member));
            if ids(&read) != ids(before) || !members.eq(&read.members) {
                let fault = draft.lines.fault(&draft.file, "macsec.key_file", "", "");
                faults.push(restart(fault, "packet numbers of static keys are reserved at the start"));
            }
            Some(Rekeyed::None)
        }
        (Protection::Plain, Keyed::Plain) => {
            check::without_macsec(draft, faults);
            Some(Rekeyed::None)
        }
        // Another kind of protection is refused by the comparison.
        _ => Some(Rekeyed::None),
    }
}

/// The fault of a setting that needs a restart.
fn restart(at: Fault, why: &str) -> Fault {
    Fault {
        what: format!("cannot change while the gateway runs: {why}"),
        remedy: "put it back and reload, or restart the gateway".into(),
        ..at
    }
}

/// Two configurations of one gateway. Each struct is taken apart whole, so that a new setting is
/// assigned to one of the two kinds.
struct Changed<'a> {
    old: &'a Config,
    new: &'a Config,
}

impl Changed<'_> {
    /// The settings that may change, and do.
    fn taken_over(&self) -> Vec<&'static str> {
        let Self { old, new } = self;
        let mut all = vec![
            ("policy", old.policy == new.policy),
            ("flows", old.flows == new.flows && old.watchdog_cycles == new.watchdog_cycles),
            ("express", old.express == new.express),
            ("run.poll", old.run.poll == new.run.poll),
            ("run.max_age_ms", old.run.max_age == new.run.max_age),
            ("metrics", old.metrics == new.metrics),
            ("page", old.page == new.page),
        ];
        if let (Protection::Overlay(old), Protection::Overlay(new)) = (&old.protection, &new.protection) {
            all.extend([
                ("overlay.tcp_mss", old.tcp_mss == new.tcp_mss),
                ("overlay.private_key_file", old.private_key_file == new.private_key_file),
                ("overlay.dscp", old.dscp == new.dscp),
                ("overlay.relay", old.relay == new.relay),
                ("overlay.storm_limit", old.storm_limit == new.storm_limit),
                ("overlay.mac_ageing_seconds", old.mac_ageing_seconds == new.mac_ageing_seconds),
            ]);
        }
        all.into_iter().filter(|(_, same)| !same).map(|(key, _)| key).collect()
    }

    /// The faults of those that may not.
    fn refused(&self) -> Vec<Fault> {
        let mut found: Vec<(&'static str, &'static str)> = Vec::new();
        let mut keep = |key, same: bool, why| {
            if !same {
                found.push((key, why));
            }
        };
        let Config {
            file: _,
            field,
            uplink,
            second_uplink,
            protection,
            standby,
            loops,
            link_loss,
            express,
            flows: _,
            watchdog_cycles: _,
            policy: _,
            run,
            state,
            control,
            metrics: _,
            page: _,
            transparent_clock,
            lines: _,
        } = self.old;
        let new = self.new;
        const PORTS: &str = "the ports are opened at the start";
        keep("field.interface", field.interface == new.field.interface, PORTS);
        keep("uplink.interface", uplink.interface == new.uplink.interface, PORTS);
        keep("field.io", field.io == new.field.io, PORTS);
        keep("uplink.io", uplink.io == new.uplink.io, PORTS);
        keep("second_uplink", *second_uplink == new.second_uplink, PORTS);
        keep("uplink.mtu", uplink.mtu == new.uplink.mtu, "the path's length is set at the start");
        keep(
            "uplink.carry_link_local",
            uplink.carries_link_local == new.uplink.carries_link_local,
            "the other gateways expect the same",
        );
        keep("uplink.vlan", uplink.outer == new.uplink.outer, "the other gateways expect the tag");
        keep("standby", *standby == new.standby, "its threads are started with it");
        keep("loop_detection", *loops == new.loops, "its thread is started with it");
        keep("link_loss", *link_loss == new.link_loss, "its thread is started with it");
        let Run { threads, poll: _, priority, prepare, qdisc_bypass, preload, max_age: _ } = run;
        const THREADS: &str = "the threads are started with it, and have given up the right to change it";
        keep(threads_key(self.old, new), *threads == new.run.threads, THREADS);
        keep("run.priority", *priority == new.run.priority, THREADS);
        keep(
            "run.prepare",
            *prepare == new.run.prepare,
            "the pools of prepared packet numbers are made at the start",
        );
        keep("run.qdisc_bypass", *qdisc_bypass == new.run.qdisc_bypass, PORTS);
        keep("run.preload", *preload == new.run.preload, "memory is brought in at the start");
        let State { directory, reserve } = state;
        const STATE: &str = "the state file is open";
        keep("state.directory", *directory == new.state.directory, STATE);
        keep("state.reserve", *reserve == new.state.reserve, STATE);
        keep(
            "ptp.transparent_clock",
            *transparent_clock == new.transparent_clock,
            "the kernel's time stamps are asked for at the start",
        );
        keep("control.socket", control.socket == new.control.socket, "the control socket is open");
        // Which frames are express may change; the channel has keys of its own.
        let channel = |express: &Option<Express>| express.is_some();
        keep("express", channel(express) == channel(&new.express), "its secure channel is made at the start");
        match (protection, &new.protection) {
            (Protection::Macsec(old), Protection::Macsec(new)) => macsec(old, new, &mut keep),
            (Protection::Overlay(old), Protection::Overlay(new)) => overlay(old, new, &mut keep),
            (Protection::Plain, Protection::Plain) => {}
            (_, Protection::Macsec(_)) => keep("macsec", false, PROTECTION),
            (_, Protection::Overlay(_)) => keep("overlay", false, PROTECTION),
            (_, Protection::Plain) => keep("plain", false, PROTECTION),
        }
        let fault = |(key, why): (&'static str, &str)| restart(new.lines.fault(&new.file, key, "", ""), why);
        found.into_iter().map(fault).collect()
    }
}

const PROTECTION: &str = "the kind of protection is chosen at the start";

/// The key by which the threads differ.
fn threads_key(old: &Config, new: &Config) -> &'static str {
    let (old, new) = (&old.run.threads, &new.run.threads);
    if old.channels() != new.channels() {
        "run.workers"
    } else if std::mem::discriminant(old) == std::mem::discriminant(new) {
        "run.cpus"
    } else {
        "run.threads"
    }
}

fn macsec(old: &Macsec, new: &Macsec, keep: &mut impl FnMut(&'static str, bool, &'static str)) {
    let Macsec { cipher, keys, identity, confidentiality, sci_mode, fragmentation, replay_window } = old;
    const CHANNELS: &str = "the secure channels are made at the start";
    const AGREEMENT: &str = "the other members know this gateway by it";
    keep("macsec.cipher", *cipher == new.cipher, CHANNELS);
    keep("macsec.sci", *identity == new.identity, CHANNELS);
    keep("macsec.confidentiality", *confidentiality == new.confidentiality, CHANNELS);
    keep("macsec.include_sci", *sci_mode == new.sci_mode, CHANNELS);
    keep(
        "macsec.fragmentation",
        *fragmentation == new.fragmentation,
        "the other members were told at the start",
    );
    keep("macsec.replay_window", *replay_window == new.replay_window, CHANNELS);
    match (keys, &new.keys) {
        (Keys::Static(old), Keys::Static(new)) => keep("macsec.key_file", old == new, CHANNELS),
        (Keys::Agreed(old), Keys::Agreed(new)) => {
            let super::agreement::Settings { cak_file, destinations, priority, delay_protect, rekey_after } =
                old;
            keep(
                "macsec.cak_file",
                *cak_file == new.cak_file,
                "the content of the file may change, not its place",
            );
            keep("macsec.mka_destination", *destinations == new.destinations, AGREEMENT);
            keep("macsec.mka_priority", *priority == new.priority, AGREEMENT);
            keep("macsec.mka_delay_protect", *delay_protect == new.delay_protect, AGREEMENT);
            keep("macsec.mka_rekey_seconds", *rekey_after == new.rekey_after, AGREEMENT);
        }
        (_, Keys::Static(_)) => keep("macsec.key_file", false, PROTECTION),
        (_, Keys::Agreed(_)) => keep("macsec.cak_file", false, PROTECTION),
    }
}

fn overlay(old: &Overlay, new: &Overlay, keep: &mut impl FnMut(&'static str, bool, &'static str)) {
    let Overlay {
        listen,
        direct,
        private_key_file,
        address,
        vni,
        port,
        fragmentation,
        tcp_mss: _,
        dscp: _,
        relay: _,
        storm_limit: _,
        release_clock_us,
        mac_ageing_seconds: _,
        mac_limit,
        second_uplink,
        zones: _,
        peers: _,
    } = old;
    const SOCKET: &str = "the socket is opened at the start";
    const ENDS: &str = "all ends were told at the start";
    keep("overlay.listen", *listen == new.listen, SOCKET);
    keep("overlay.direct", *direct == new.direct, SOCKET);
    // Another key is taken over, but a gateway has WireGuard or has not.
    keep(
        "overlay.private_key_file",
        private_key_file.is_some() == new.private_key_file.is_some(),
        PROTECTION,
    );
    keep("overlay.address", *address == new.address, ENDS);
    keep("overlay.vni", *vni == new.vni, ENDS);
    keep("overlay.vxlan_port", *port == new.port, ENDS);
    keep("overlay.fragmentation", *fragmentation == new.fragmentation, SOCKET);
    keep("overlay.release_clock_us", *release_clock_us == new.release_clock_us, "the clock holds frames");
    keep("overlay.mac_limit", *mac_limit == new.mac_limit, "the table is made at the start");
    keep("overlay.second_uplink", *second_uplink == new.second_uplink, SOCKET);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const MACSEC: &str = "[field]\ninterface = \"a\"\n[uplink]\ninterface = \"b\"\n[macsec]\ncak_file = \"cak\"\n[express]\n\
        traffic = [\"ptcp\"]\nrate_mbit = 100\n[policy]\nallow = [\"profinet-rt\"]\n[run]\npoll = \"block\"\n[state]\n[control]\n";
    const OVERLAY: &str = "[field]\ninterface = \"a\"\n[uplink]\ninterface = \"b\"\n[overlay]\nprivate_key_file = \"key\"\n\
        address = \"10.66.0.1\"\nvni = 42\n[[overlay.peer]]\npublic_key = \"HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=\"\n\
        address = \"10.66.0.2\"\n[policy]\nallow = [\"profinet-rt\"]\n[run]\n";

    /// The settings that are taken over, and those that are refused, after a change of the text.
    fn changed(text: &str, before: &str, after: &str) -> (Vec<&'static str>, Vec<String>) {
        let parse =
            |text: &str| Config::parse(Path::new("g.toml"), text).unwrap_or_else(|faults| panic!("{faults}"));
        assert!(text.contains(before), "{before}");
        let (old, new) = (parse(text), parse(&text.replacen(before, after, 1)));
        let pair = Changed { old: &old, new: &new };
        let faults = pair.refused();
        assert!(faults.iter().all(|fault| fault.what.contains("cannot change while")));
        (pair.taken_over(), faults.into_iter().map(|fault| fault.key).collect())
    }

    #[test]
    fn each_setting_is_of_one_kind() {
        for (text, before, after, taken, refused) in [
            (MACSEC, "[run]", "[run]", &[][..], &[][..]),
            (MACSEC, "profinet-rt", "lldp", &["policy"], &[]),
            (MACSEC, "ptcp", "lldp", &["express"], &[]),
            (
                MACSEC,
                "[run]",
                "[flows]\n[[flows.shape]]\nbegins = \"8892\"\nvaries = [[20, 30]]\n[run]",
                &["flows"],
                &[],
            ),
            (MACSEC, "\"block\"", "\"adaptive\"", &["run.poll"], &[]),
            (MACSEC, "[run]", "[run]\nmax_age_cyclic_ms = 7", &["run.max_age_ms"], &[]),
            (MACSEC, "[state]", "[metrics]\nlisten = \"[::1]:9464\"\n[state]", &["metrics"], &[]),
            (MACSEC, "[state]", "[page]\nlisten = \"127.0.0.1:9465\"\n[state]", &["page"], &[]),
            (MACSEC, "\"a\"", "\"c\"", &[], &["field.interface"]),
            (MACSEC, "\"b\"", "\"c\"\nmtu = 1400", &[], &["uplink.interface", "uplink.mtu"]),
            (MACSEC, "\"b\"", "\"b\"\nvlan = \"copy\"", &[], &["uplink.vlan"]),
            (
                MACSEC,
                "[express]",
                "[ptp]\ntransparent_clock = true\n[express]",
                &[],
                &["ptp.transparent_clock"],
            ),
            (MACSEC, "\"b\"", "\"b\"\ncarry_link_local = true", &[], &["uplink.carry_link_local"]),
            (MACSEC, "[express]\ntraffic = [\"ptcp\"]\nrate_mbit = 100\n", "", &["express"], &["express"]),
            (MACSEC, "\"cak\"", "\"other\"", &[], &["macsec.cak_file"]),
            (MACSEC, "cak_file = \"cak\"", "key_file = \"keys\"", &[], &["macsec.key_file"]),
            (MACSEC, "\"cak\"", "\"cak\"\ncipher = \"auto\"", &[], &["macsec.cipher"]),
            (MACSEC, "\"cak\"", "\"cak\"\nport = 2", &[], &["macsec.sci"]),
            (MACSEC, "\"cak\"", "\"cak\"\nconfidentiality = false", &[], &["macsec.confidentiality"]),
            (MACSEC, "\"cak\"", "\"cak\"\nfragmentation = true", &[], &["macsec.fragmentation"]),
            (MACSEC, "\"cak\"", "\"cak\"\nreplay_window = 8", &[], &["macsec.replay_window"]),
            (MACSEC, "\"cak\"", "\"cak\"\nmka_priority = 1", &[], &["macsec.mka_priority"]),
            (MACSEC, "\"cak\"", "\"cak\"\nmka_destination = \"broadcast\"", &[], &["macsec.mka_destination"]),
            (MACSEC, "\"cak\"", "\"cak\"\nmka_delay_protect = true", &[], &["macsec.mka_delay_protect"]),
            (MACSEC, "\"cak\"", "\"cak\"\nmka_rekey_seconds = 60", &[], &["macsec.mka_rekey_seconds"]),
            (MACSEC, "[run]", "[run]\nthreads = 2", &[], &["run.threads"]),
            (MACSEC, "[run]", "[run]\ncpus = [0]", &[], &["run.cpus"]),
            (MACSEC, "[run]", "[run]\npriority = 5", &[], &["run.priority"]),
            (
                MACSEC,
                "[run]",
                "[run]\nprepare = 5\nqdisc_bypass = false\npreload = false",
                &[],
                &["run.prepare", "run.qdisc_bypass", "run.preload"],
            ),
            (
                MACSEC,
                "[state]",
                "[state]\nreserve = 4096\ndirectory = \"x\"",
                &[],
                &["state.directory", "state.reserve"],
            ),
            (MACSEC, "[control]", "[control]\nsocket = \"x\"", &[], &["control.socket"]),
            (OVERLAY, "10.66.0.2", "10.66.0.3", &[], &[]),
            (
                OVERLAY,
                "vni = 42",
                "vni = 42\nstorm_limit = 5\nrelay = true",
                &["overlay.relay", "overlay.storm_limit"],
                &[],
            ),
            (
                OVERLAY,
                "vni = 42",
                "vni = 42\ntcp_mss = 700\ndscp = 8",
                &["overlay.tcp_mss", "overlay.dscp"],
                &[],
            ),
            (OVERLAY, "vni = 42", "vni = 42\nmac_ageing_seconds = 50", &["overlay.mac_ageing_seconds"], &[]),
            (OVERLAY, "vni = 42", "vni = 43", &[], &["overlay.vni"]),
            (
                OVERLAY,
                "vni = 42",
                "vni = 42\nlisten = 7\ndirect = false",
                &[],
                &["overlay.listen", "overlay.direct"],
            ),
            (
                OVERLAY,
                "vni = 42",
                "vni = 42\nvxlan_port = 7\nfragmentation = \"off\"",
                &[],
                &["overlay.vxlan_port", "overlay.fragmentation"],
            ),
            (
                OVERLAY,
                "vni = 42",
                "vni = 42\nmac_limit = 16\nrelease_clock_us = 9",
                &[],
                &["overlay.release_clock_us", "overlay.mac_limit"],
            ),
            (OVERLAY, "\"key\"", "\"other\"", &["overlay.private_key_file"], &[]),
            (OVERLAY, "10.66.0.1", "10.66.0.4", &[], &["overlay.address"]),
            (
                OVERLAY,
                "[[overlay.peer]]",
                "[overlay.second_uplink]\ninterface = \"c\"\n[[overlay.peer]]",
                &[],
                &["overlay.second_uplink"],
            ),
        ] {
            let found = changed(text, before, after);
            assert_eq!(
                (&found.0[..], &found.1[..]),
                (taken, &refused.iter().map(ToString::to_string).collect::<Vec<_>>()[..]),
                "{after}"
            );
        }
    }

    #[test]
    fn kind_of_protection_stays() {
        let macsec = "[macsec]\ncak_file = \"cak\"\n";
        for (after, key) in [("[plain]\n", "plain"), ("[macsec]\nkey_file = \"keys\"\n", "macsec.key_file")] {
            let text = MACSEC.replace("[express]\ntraffic = [\"ptcp\"]\nrate_mbit = 100\n", "");
            assert_eq!(changed(&text, macsec, after).1, [key]);
        }
    }
}

//! Legal settings that are probably not intended.

use antedate_channel::fragment::Marks;
use antedate_host::fault::Fault;
use antedate_wire::vlan::TAG_LEN as VLAN_TAG_LEN;

use super::{Checked, Keyed, is_derived};
use crate::config::machine::Machine;
use crate::config::uplink::SLOWEST_MBIT;
use crate::config::{Config, FlowTables, Fragmentation, Rate, SciMode};

/// Octets that MACsec adds to the payload of a frame, without the SCI: the rest of the SecTAG, the
/// original EtherType and the ICV (IEEE 802.1AE-2018, 9.1).
const OVERHEAD: usize = 6 + 2 + 16;
/// Octets of an SCI.
const SCI: usize = 8;
/// Octets of an MKPDU between two gateways, with all parameter sets and the longest CKN. Each
/// further gateway adds 16.
const MKPDU: usize = 300;
/// Octets that the channel of each worker behind the first one adds.
const WORKER: usize = 16;

/// Full frames of the field that do not fit the uplink.
pub(super) fn short_uplink(checked: &Checked) -> Option<Fault> {
    let (Keyed::Macsec { macsec, .. } | Keyed::Agreed { macsec, .. }) = &checked.protection else {
        return None;
    };
    let overhead = OVERHEAD + if macsec.sci_mode == SciMode::Explicit { SCI } else { 0 };
    let needed = checked.field.mtu + overhead + VLAN_TAG_LEN;
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
            carried.saturating_sub(overhead + VLAN_TAG_LEN)
        ),
        format!(
            "ip link set dev {uplink} mtu {needed} (and all of the path), fragmentation = \"marked\" in [macsec] of all \
             gateways, or a smaller MTU on the field's side"
        ),
    ))
}

/// MKPDUs that do not fit the uplink.
pub(super) fn mute_uplink(checked: &Checked) -> Option<Fault> {
    let carried = checked.uplink_mtu();
    let config = &checked.config;
    let longest = MKPDU + WORKER * (config.run.threads.channels() - 1);
    if !matches!(checked.protection, Keyed::Agreed { .. }) || carried >= longest {
        return None;
    }
    let key = if config.uplink.mtu.is_some() { "uplink.mtu" } else { "uplink.interface" };
    let what = format!(
        "carries {carried} octets: the MKPDUs of key agreement have some 200 to {longest} between two gateways, and are never \
         sent in fragments"
    );
    let remedy = format!("an MTU of {longest} and 16 for each further gateway, or static keys");
    Some(config.lines.fault(&config.file, key, what, remedy))
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
pub(super) fn research(checked: &Checked) -> Option<Fault> {
    let suite = checked.protection.suites().into_iter().find(|suite| suite.is_research())?;
    let config = &checked.config;
    let what = format!("{} is for research only: it does not protect anything that matters", suite.name());
    let remedy = "make keys for a standard suite: antedate keygen macsec --suite gcm-aes-128";
    Some(config.lines.fault(&config.file, "macsec", what, remedy))
}

/// An express channel at the rate of a link that does not report its rate.
pub(super) fn unknown_rate(checked: &Checked, machine: &dyn Machine) -> Option<Fault> {
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
pub(super) fn unbounded_express(checked: &Checked) -> Option<Fault> {
    let config = &checked.config;
    if config.express.is_none() || may_fragment(checked) {
        return None;
    }
    let what = "without fragments an express frame waits for the whole frame before it";
    let remedy = "fragmentation = \"marked\" in [macsec] of all gateways";
    Some(config.lines.fault(&config.file, "express", what, remedy))
}

/// Fragments whose receivers see only part of the packet numbers.
pub(super) fn unmarked_fragments(checked: &Checked) -> Option<Fault> {
    let Keyed::Macsec { macsec, keys, .. } = &checked.protection else { return None };
    let members = keys.members.iter().filter(|member| !is_derived(keys, member)).count();
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

/// Workers of an overlay without a peer.
pub(super) fn idle_workers(config: &Config, protection: &Keyed) -> Option<Fault> {
    let Keyed::Overlay { overlay, .. } = protection else { return None };
    let (workers, peers) = (config.run.threads.channels(), overlay.peers.len());
    if workers == 1 || workers <= peers {
        return None;
    }
    let what =
        format!("{workers} workers share {peers} peer(s), each of which one worker has: the rest idle");
    Some(config.lines.fault(&config.file, "run.workers", what, "as many workers as peers, or fewer"))
}

/// Flow tables that the cipher suite never uses.
pub(super) fn idle_tables(config: &Config, protection: &Keyed) -> Option<Fault> {
    let (Keyed::Macsec { macsec, .. } | Keyed::Agreed { macsec, .. }) = protection else { return None };
    let asked = config.flows.as_ref().is_some_and(|flows| flows.tables != FlowTables::Off);
    if !asked || macsec.confidentiality && protection.suites().iter().any(|suite| suite.has_flow_tables()) {
        return None;
    }
    let what = "does nothing: flow tables are for AES-GCM with encryption";
    Some(config.lines.fault(&config.file, "flows", what, "remove [flows]"))
}

/// Traffic to groups that no switch forwards, beside a destination of MKPDUs for switches.
pub(super) fn kept_by_switches(config: &Config, protection: &Keyed) -> Option<Fault> {
    let Keyed::Agreed { settings, .. } = protection else { return None };
    let [destination] = settings.destinations[..] else { return None };
    let named = config
        .policy
        .allow
        .iter()
        .flat_map(|traffic| [*traffic].into_iter().chain(traffic.parts().iter().copied()));
    let kept: Vec<_> = named.filter(|traffic| traffic.ends_at_switches()).collect();
    if destination.is_link_local() || kept.is_empty() || config.uplink.carries_link_local {
        return None;
    }
    let names: Vec<_> = kept.iter().map(|traffic| traffic.name()).collect();
    let what = format!(
        "{} ends at the first switch, whatever protects it, and mka_destination = \"{destination}\" means switches between",
        names.join(", ")
    );
    let remedy = "write carry_link_local = true in [uplink] of all gateways, connect them by a cable, use [overlay], or remove it from allow";
    Some(config.lines.fault(&config.file, "policy", what, remedy))
}

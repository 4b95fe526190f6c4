//! The metrics of a gateway, from its status. Their names are stable, and listed in the manual.

use super::text::{Family, Sample, Value};
use crate::config::io::XDP;
use crate::run::status::{Flow, Forwarding, Macsec, OverlayPeer, Port, Status, TransmitSa};

/// How samples are read from a status.
type Read = fn(&Status) -> Vec<Sample>;

/// Name, unit, help and samples of each family.
const FAMILIES: [(&str, &str, &str, Read); 49] = [
    ("antedate_build", "", "1, with the version and the protection as labels.", |s| {
        let labels = vec![("version", s.antedate.clone()), ("protection", s.protection.clone())];
        vec![(labels, Value::Gauge(1.0))]
    }),
    ("antedate_uptime_seconds", "seconds", "Time since the start.", |s| gauge(s.uptime_seconds)),
    ("antedate_forwarding", "", "1 if the forwarding threads answer.", |s| gauge(flag(s.forwarding))),
    (
        "antedate_warning",
        "",
        "1 for each condition that needs the operator, by its name in the manual.",
        |s| conditions(s, false),
    ),
    ("antedate_notice", "", "1 for each condition that may last in a healthy network.", |s| {
        conditions(s, true)
    }),
    ("antedate_link_up", "", "1 if the port has a link.", |s| ports(s, |p| Value::Gauge(flag(p.link)))),
    ("antedate_port_xdp", "", "1 if frames leave by AF_XDP, 0 by a packet socket.", |s| {
        ports(s, |p| Value::Gauge(flag(p.io == XDP)))
    }),
    ("antedate_link_downs", "", "Losses of the link.", |s| ports(s, |p| Value::Count(p.link_downs))),
    ("antedate_port_received_frames", "", "Frames received.", |s| {
        ports(s, |p| Value::Count(p.received_frames))
    }),
    ("antedate_port_sent_frames", "", "Frames sent.", |s| ports(s, |p| Value::Count(p.sent_frames))),
    ("antedate_port_ring_drops", "", "Frames dropped because the ring was full.", |s| {
        ports(s, |p| Value::Count(p.ring_drops))
    }),
    ("antedate_port_urgent_ring_drops", "", "Those of them that have a deadline.", |s| {
        ports(s, |p| Value::Count(p.urgent_ring_drops))
    }),
    ("antedate_port_send_errors", "", "Frames that could not be sent.", |s| {
        ports(s, |p| Value::Count(p.send_errors))
    }),
    ("antedate_forwarded_frames", "", "Frames sent to the other port.", |s| ways(s, |w| w.forwarded_frames)),
    ("antedate_forwarded_bytes", "bytes", "Octets of these frames.", |s| ways(s, |w| w.forwarded_octets)),
    ("antedate_refused_frames", "", "Frames dropped, by reason.", refused),
    (
        "antedate_rule_frames",
        "",
        "Frames decided by each rule of the policy, in the order of the file.",
        rules,
    ),
    ("antedate_flow_frames", "", "Frames of the watched flow.", |s| flows(s, |f| Value::Count(f.frames))),
    ("antedate_flow_cycle_seconds", "seconds", "Its learnt cycle.", |s| {
        flows(s, |f| Value::Gauge(f.cycle_us / 1e6))
    }),
    ("antedate_flow_jitter_seconds", "seconds", "Mean deviation of its intervals from the cycle.", |s| {
        flows(s, |f| Value::Gauge(f.jitter_us / 1e6))
    }),
    ("antedate_flow_interval_seconds", "seconds", "Its intervals.", |s| flows(s, intervals)),
    (
        "antedate_flow_longest_seconds",
        "seconds",
        "Its longest interval of the last one to two minutes.",
        |s| flows(s, |f| Value::Gauge(f.longest_us / 1e6)),
    ),
    (
        "antedate_flow_watchdog_margin_ratio",
        "ratio",
        "The share of the watchdog's time that this interval, or the present silence, left.",
        |s| flows(s, |f| Value::Gauge(f.margin_percent / 100.0)),
    ),
    ("antedate_flow_missed_cycles", "", "Cycles without a frame.", |s| {
        flows(s, |f| Value::Count(f.missed_cycles))
    }),
    ("antedate_flow_watchdog_expirations", "", "Intervals longer than the watchdog's time.", |s| {
        flows(s, |f| Value::Count(f.watchdog_expired))
    }),
    (
        "antedate_flow_bus_error",
        "",
        "1 if the flow stopped, or its data status is stop, invalid or problem.",
        |s| flows(s, |f| Value::Gauge(flag(f.has_bus_error()))),
    ),
    ("antedate_thread_cpu_ratio", "ratio", "Share of a CPU since the last status or scrape.", |s| {
        let thread = |t: &crate::run::status::Thread| {
            (vec![("direction", t.direction.clone())], Value::Gauge(t.cpu_percent / 100.0))
        };
        s.threads.iter().map(thread).collect()
    }),
    ("antedate_macsec_frames", "", "MACsec's counters, by their names in IEEE 802.1AE.", |s| {
        let counter =
            |(name, count): (&String, &u64)| (vec![("counter", name.clone())], Value::Count(*count));
        s.macsec.iter().flat_map(|m| &m.counters).map(counter).collect()
    }),
    ("antedate_macsec_encoding", "", "1 if there is a key to protect with.", |s| {
        macsec(s, |m| Value::Gauge(flag(m.encoding_sa.is_some())))
    }),
    ("antedate_macsec_next_packet_number", "", "The next packet number of each association.", |s| {
        associations(s, |sa| sa.next_pn)
    }),
    ("antedate_macsec_reserved_packet_number", "", "The first packet number that is not reserved.", |s| {
        associations(s, |sa| sa.reserved_until)
    }),
    ("antedate_macsec_prepared", "", "Packet numbers prepared for sending.", |s| {
        macsec(s, |m| Value::Gauge(m.sealing.prepared as f64))
    }),
    ("antedate_macsec_path_mtu_bytes", "bytes", "The path MTU to the other gateways, if known.", |s| {
        let path = s.macsec.as_ref().and_then(|m| m.path.as_ref());
        path.map_or_else(Vec::new, |path| gauge(path.mtu as f64))
    }),
    ("antedate_mka_members", "", "The other members, live or not.", |s| {
        let Some(agreement) = s.macsec.as_ref().and_then(|m| m.agreement.as_ref()) else { return Vec::new() };
        let count = |live| agreement.members.iter().filter(|member| member.live == live).count() as f64;
        [("yes", true), ("no", false)]
            .map(|(name, live)| (vec![("live", name.to_owned())], Value::Gauge(count(live))))
            .into()
    }),
    ("antedate_mka_key_age_seconds", "seconds", "Age of the key that protects.", |s| {
        let agreement = s.macsec.as_ref().and_then(|m| m.agreement.as_ref());
        let key = agreement.and_then(|a| a.keys.iter().find(|key| key.transmits));
        key.map_or_else(Vec::new, |key| gauge(key.age_seconds))
    }),
    ("antedate_mka_keys", "", "Keys since the start.", |s| {
        let agreement = s.macsec.as_ref().and_then(|m| m.agreement.as_ref());
        agreement.map_or_else(Vec::new, |a| vec![(Vec::new(), Value::Count(a.fresh_keys))])
    }),
    ("antedate_mka_cak_carries", "", "1 for the CAK that carries, by its name.", |s| {
        let agreement = s.macsec.as_ref().and_then(|m| m.agreement.as_ref());
        let caks = agreement.into_iter().flat_map(|a| &a.caks);
        caks.map(|cak| (vec![("ckn", cak.ckn.clone())], Value::Gauge(flag(cak.carries)))).collect()
    }),
    ("antedate_peer_session", "", "1 if there is a session with the peer.", |s| {
        peers(s, |p| Some(Value::Gauge(flag(p.session))))
    }),
    ("antedate_peer_handshakes", "", "Completed handshakes.", |s| {
        peers(s, |p| Some(Value::Count(p.handshakes)))
    }),
    ("antedate_peer_handshake_age_seconds", "seconds", "Time since the last handshake.", |s| {
        peers(s, |p| p.handshake_age_seconds.map(Value::Gauge))
    }),
    ("antedate_peer_silent_seconds", "seconds", "Time since the last datagram of the peer.", |s| {
        peers(s, |p| p.silent_seconds.map(Value::Gauge))
    }),
    ("antedate_peer_sent_frames", "", "Frames sent to the peer.", |s| {
        peers(s, |p| Some(Value::Count(p.sent_frames)))
    }),
    ("antedate_peer_received_frames", "", "Frames received from the peer.", |s| {
        peers(s, |p| Some(Value::Count(p.received_frames)))
    }),
    ("antedate_peer_frames_without_session", "", "Frames dropped for lack of a session.", |s| {
        peers(s, |p| Some(Value::Count(p.frames_without_session)))
    }),
    ("antedate_peer_path_mtu_bytes", "bytes", "The MTU of the path to the peer, if it is searched.", |s| {
        peers(s, |p| (p.path_mtu > 0).then_some(Value::Gauge(p.path_mtu as f64)))
    }),
    ("antedate_peer_machines", "", "Known machines behind the peer.", |s| {
        peers(s, |p| Some(Value::Gauge(p.macs as f64)))
    }),
    ("antedate_overlay_refused", "", "Datagrams and packets dropped behind the socket, by reason.", |s| {
        let reasons = s.overlay.iter().flat_map(|o| &o.refused);
        reasons.map(|(name, count)| (vec![("reason", name.clone())], Value::Count(*count))).collect()
    }),
    ("antedate_overlay_loops", "", "Loops between the sites.", |s| overlay(s, |o| o.loops)),
    ("antedate_overlay_machines_moved", "", "Machines that moved from one place to another.", |s| {
        overlay(s, |o| o.macs_moved)
    }),
];

/// All families of a status.
pub(super) fn of(status: &Status) -> Vec<Family> {
    let family = |(name, unit, help, read): &(&'static str, &'static str, &'static str, Read)| Family {
        name,
        unit,
        help,
        samples: read(status),
    };
    FAMILIES.iter().map(family).collect()
}

fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

fn gauge(value: f64) -> Vec<Sample> {
    vec![(Vec::new(), Value::Gauge(value))]
}

fn conditions(status: &Status, notice: bool) -> Vec<Sample> {
    let some = status.warnings.iter().filter(|warning| warning.notice == notice);
    let sample = |warning: &crate::run::status::Warning| {
        (vec![("name", warning.name.clone()), ("about", warning.about.clone())], Value::Gauge(1.0))
    };
    some.map(sample).collect()
}

fn ports(status: &Status, value: impl Fn(&Port) -> Value) -> Vec<Sample> {
    let both = [("field", &status.field), ("uplink", &status.uplink)];
    both.map(|(port, of)| (vec![("port", port.to_owned()), ("interface", of.interface.clone())], value(of)))
        .into()
}

/// The directions by name.
fn named(status: &Status) -> [(&'static str, &Forwarding); 2] {
    [("out", &status.out), ("in", &status.inward)]
}

fn ways(status: &Status, count: impl Fn(&Forwarding) -> u64) -> Vec<Sample> {
    named(status).map(|(way, of)| (vec![("direction", way.to_owned())], Value::Count(count(of)))).into()
}

fn refused(status: &Status) -> Vec<Sample> {
    let reasons =
        named(status).into_iter().flat_map(|(way, of)| of.refused.iter().map(move |one| (way, one)));
    let sample = |(way, (reason, count)): (&str, (&String, &u64))| {
        (vec![("direction", way.to_owned()), ("reason", reason.clone())], Value::Count(*count))
    };
    reasons.map(sample).collect()
}

fn rules(status: &Status) -> Vec<Sample> {
    let all = named(status).into_iter().flat_map(|(way, of)| (1..).zip(&of.rules).map(move |one| (way, one)));
    let sample = |(way, (number, count)): (&str, (u32, &u64))| {
        (vec![("direction", way.to_owned()), ("rule", number.to_string())], Value::Count(*count))
    };
    all.map(sample).collect()
}

fn macsec(status: &Status, value: impl Fn(&Macsec) -> Value) -> Vec<Sample> {
    status.macsec.iter().map(|macsec| (Vec::new(), value(macsec))).collect()
}

fn associations(status: &Status, number: impl Fn(&TransmitSa) -> u64) -> Vec<Sample> {
    let all = || status.macsec.iter().flat_map(|macsec| &macsec.transmit);
    let several = all().any(|sa| all().next().is_some_and(|first| first.sci != sa.sci));
    let labels = |sa: &TransmitSa| {
        let channel = several.then(|| ("sci", sa.sci.clone()));
        channel.into_iter().chain([("an", sa.an.to_string())]).collect()
    };
    all().map(|sa| (labels(sa), Value::Gauge(number(sa) as f64))).collect()
}

fn peers(status: &Status, value: impl Fn(&OverlayPeer) -> Option<Value>) -> Vec<Sample> {
    let all = status.overlay.iter().flat_map(|overlay| &overlay.peers);
    all.filter_map(|peer| Some((vec![("peer", peer.name.clone())], value(peer)?))).collect()
}

fn flows(status: &Status, value: impl Fn(&Flow) -> Value) -> Vec<Sample> {
    let all = status.flows.iter().flat_map(|known| &known.flows);
    let labels = |flow: &Flow| {
        vec![
            ("direction", flow.direction.clone()),
            ("protocol", flow.protocol.clone()),
            ("id", flow.id.clone()),
            ("source", flow.source.clone()),
            ("destination", flow.destination.clone()),
        ]
    };
    all.map(|flow| (labels(flow), value(flow))).collect()
}

/// The intervals of a flow, with a bound for each octave. The last bucket of the flow has longer ones
/// too, so it has no bound.
fn intervals(flow: &Flow) -> Value {
    let upto = |bound: f64| {
        flow.intervals.iter().filter(move |one| one.below_us <= bound * 1.000_001).map(|one| one.count)
    };
    let bounds = (14..=32).map(|octave| f64::from(1u32 << (octave - 14)) * 16.384);
    let buckets = bounds.map(|bound| (bound / 1e6, upto(bound).sum())).collect();
    let count = flow.intervals.iter().map(|one| one.count).sum();
    Value::Histogram(buckets, count, flow.span_seconds)
}

fn overlay(status: &Status, count: impl Fn(&crate::run::status::Overlay) -> u64) -> Vec<Sample> {
    status.overlay.iter().map(|overlay| (Vec::new(), Value::Count(count(overlay)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_has_every_family() {
        let manual = include_str!("../../../../../docs/src/monitoring.md");
        let rules = include_str!("../../../../../docs/examples/antedate.rules.yml");
        for (name, unit, help, read) in &FAMILIES {
            let counts = matches!(read(&full()).first(), Some((_, Value::Count(_))));
            let shown = format!("| `{name}{}` |", if counts { "_total" } else { "" });
            assert!(manual.contains(&shown), "{shown} is not in the manual");
            assert!(unit.is_empty() || name.ends_with(&format!("_{unit}")), "{name}: {unit}");
            assert!(help.ends_with('.') && !help.contains(['\\', '\n']), "{help}");
        }
        for word in rules.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            let known = |(name, ..): &(&str, &str, &str, Read)| word.trim_end_matches("_total") == *name;
            assert!(
                !word.starts_with("antedate_") || FAMILIES.iter().any(known),
                "{word} of the rules is no metric"
            );
        }
    }

    /// A status with all parts.
    fn full() -> Status {
        use crate::run::status::{
            Agreement, AgreementCak, AgreementKey, Flows, Overlay, PathMtu, Thread, TransmitSa, Warning,
        };
        let counts = || [("x".to_owned(), 1)].into();
        let warning = |notice| Warning { notice, ..Warning::default() };
        let forwarding = Forwarding { refused: counts(), rules: vec![1], ..Forwarding::default() };
        let agreement = Agreement {
            keys: vec![AgreementKey { transmits: true, ..AgreementKey::default() }],
            caks: vec![AgreementCak::default()],
            ..Agreement::default()
        };
        let peer = OverlayPeer {
            handshake_age_seconds: Some(1.0),
            silent_seconds: Some(1.0),
            path_mtu: 1500,
            ..OverlayPeer::default()
        };
        Status {
            warnings: vec![warning(false), warning(true)],
            out: forwarding.clone(),
            inward: forwarding,
            flows: Some(Flows { flows: vec![Flow::default()], ..Flows::default() }),
            threads: vec![Thread::default()],
            macsec: Some(Macsec {
                transmit: vec![TransmitSa::default()],
                path: Some(PathMtu::default()),
                agreement: Some(agreement),
                counters: counts(),
                ..Macsec::default()
            }),
            overlay: Some(Overlay { peers: vec![peer], refused: counts(), ..Overlay::default() }),
            ..Status::default()
        }
    }

    #[test]
    fn intervals_are_counted_up_to_each_octave() {
        let interval = |below_us, count| crate::run::status::Interval { below_us, count };
        let intervals =
            vec![interval(10.24, 1), interval(16.384, 2), interval(1_048.576, 4), interval(8_589_934.592, 8)];
        let flow = Flow { intervals, span_seconds: 9.5, ..Flow::default() };
        let Value::Histogram(buckets, count, sum) = super::intervals(&flow) else { panic!("a histogram") };
        assert_eq!((count, sum, buckets.len()), (15, 9.5, 19));
        assert_eq!(buckets[0], (16.384e-6, 3));
        let far = buckets.iter().filter(|(bound, _)| *bound > 0.001);
        assert!(far.clone().count() > 10 && far.clone().all(|(_, count)| *count == 7), "{buckets:?}");
    }

    #[test]
    fn full_status_has_every_family() {
        for family in of(&full()) {
            assert!(!family.samples.is_empty(), "{}", family.name);
        }
        let bare = of(&Status::default());
        assert!(bare.iter().any(|family| family.samples.is_empty()));
    }
}

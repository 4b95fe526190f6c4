//! Each name of `allow`: the frames that it passes, and their class.

use super::ip::{other4, other6, tcp4, udp4, udp6};
use super::*;

fn profinet(payload: &[u8]) -> Vec<u8> {
    frame(&[0xc000], 0x8892, payload)
}

/// A DCP PDU of the frame ID Get/Set with these blocks: option, value.
fn set(kind: u8, blocks: &[(u16, &[u8])]) -> Vec<u8> {
    let mut data = Vec::new();
    for (option, value) in blocks {
        data.extend(option.to_be_bytes());
        data.extend((value.len() as u16).to_be_bytes());
        data.extend(*value);
        data.resize(data.len().next_multiple_of(2), 0);
    }
    let mut pdu = vec![0xfe, 0xfd, 4, kind, 0, 0, 0, 1, 0, 0];
    pdu.extend((data.len() as u16).to_be_bytes());
    pdu.extend(data);
    profinet(&pdu)
}

fn set_ip() -> Vec<u8> {
    set(0, &[(0x0102, &[0, 1, 10, 0, 0, 5, 255, 255, 255, 0, 0, 0, 0, 0])])
}

fn set_name() -> Vec<u8> {
    set(0, &[(0x0202, &[0, 1, b'd', b'e', b'v'])])
}

/// A call from a dynamic port to another.
fn call(v6: bool) -> Vec<u8> {
    let mut pdu = [0; 90];
    (pdu[0], pdu[4]) = (4, 0x10);
    pdu[24..40].copy_from_slice(&[
        0x01, 0x00, 0xa0, 0xde, 0x97, 0x6c, 0xd1, 0x11, 0x82, 0x71, 0x00, 0xa0, 0x24, 0x42, 0xdf, 0x7d,
    ]);
    if v6 { udp6(49153, 49200, &pdu) } else { udp4(49153, 49200, &pdu) }
}

fn passes(name: Traffic, frame: &[u8]) -> bool {
    let g = gate(&[name], vec![]);
    let verdicts = [Way::Out, Way::In].map(|way| g.decide(way, frame).passes);
    assert_eq!(verdicts[0], verdicts[1]);
    verdicts[0]
}

/// A frame of each kind, with its class and the names that pass it.
fn samples() -> Vec<(Vec<u8>, Class, Vec<Traffic>)> {
    use Traffic::*;
    let named = |frame: Vec<u8>, class: Traffic, more: &[Traffic]| {
        (frame, Class::Named(class), [&[class][..], more].concat())
    };
    let ip = |frame: Vec<u8>, class: Traffic, more: &[Traffic]| named(frame, class, more);
    vec![
        named(profinet(&[0x80, 0x00]), ProfinetRt, &[Profinet]),
        named(profinet(&[0xbb, 0xff]), ProfinetRt, &[Profinet]),
        named(profinet(&[0xbf, 0xff]), ProfinetRt, &[Profinet]),
        named(profinet(&[0xc0, 0x00]), ProfinetRt, &[Profinet]),
        named(profinet(&[0xfb, 0xff]), ProfinetRt, &[Profinet]),
        named(profinet(&[0xfc, 0x01]), ProfinetAlarm, &[Profinet]),
        named(profinet(&[0xfe, 0x01]), ProfinetAlarm, &[Profinet]),
        named(profinet(&[0xfe, 0xfe, 5, 0]), ProfinetDcpRead, &[Profinet]),
        named(profinet(&[0xfe, 0xff, 5, 1]), ProfinetDcpRead, &[Profinet]),
        named(profinet(&[0xfe, 0xfd, 3, 0]), ProfinetDcpRead, &[Profinet]),
        named(profinet(&[0xfe, 0xfd, 3, 1]), ProfinetDcpRead, &[Profinet]),
        named(profinet(&[0xfe, 0xfc, 6, 0]), ProfinetDcpRead, &[Profinet]),
        // A refusal without a subject.
        named(set(5, &[]), ProfinetDcpRead, &[Profinet]),
        named(set_ip(), ProfinetDcpSetIp, &[ProfinetDcpSet, Profinet]),
        named(set(0, &[(0x0103, &[0; 40])]), ProfinetDcpSetIp, &[ProfinetDcpSet, Profinet]),
        named(set(1, &[(0x0504, &[1, 2, 0])]), ProfinetDcpSetIp, &[ProfinetDcpSet, Profinet]),
        named(
            set(0, &[(0x0501, &[0, 0]), (0x0102, &[0; 14]), (0x0502, &[0, 0])]),
            ProfinetDcpSetIp,
            &[ProfinetDcpSet, Profinet],
        ),
        named(set_name(), ProfinetDcpSetName, &[ProfinetDcpSet]),
        named(set(1, &[(0x0504, &[2, 2, 0])]), ProfinetDcpSetName, &[ProfinetDcpSet]),
        named(set(0, &[(0x0503, &[0, 0, 1, 0])]), ProfinetDcpSignal, &[ProfinetDcpSet]),
        named(set(0, &[(0x0505, &[0, 0])]), ProfinetDcpReset, &[ProfinetDcpSet]),
        named(set(0, &[(0x0506, &[0, 4])]), ProfinetDcpReset, &[ProfinetDcpSet]),
        // Several subjects, another one, none, and a block beyond the end.
        named(set(0, &[(0x0102, &[0; 14]), (0x0202, &[0, 1, b'd'])]), ProfinetDcpSet, &[]),
        named(set(0, &[(0x0102, &[0; 14]), (0x0506, &[0, 4])]), ProfinetDcpSet, &[]),
        named(set(0, &[(0x0302, &[0, 0])]), ProfinetDcpSet, &[]),
        named(set(0, &[(0x0501, &[0, 0])]), ProfinetDcpSet, &[]),
        named(set(0, &[]), ProfinetDcpSet, &[]),
        named(profinet(&[0xfe, 0xfd, 4, 0, 0, 0, 0, 1, 0, 0, 0, 8, 1, 2, 0, 90]), ProfinetDcpSet, &[]),
        (profinet(&[0xfe, 0xfd, 9, 0]), Class::Other, vec![]),
        (profinet(&[0xfe, 0x02]), Class::Other, vec![]),
        (profinet(&[0xfe, 0xfb, 5, 0]), Class::Other, vec![]),
        (profinet(&[0xff, 0x44]), Class::Other, vec![]),
        (profinet(&[0x01, 0x00]), Class::Other, vec![]),
        (profinet(&[0x20, 0x00]), Class::Other, vec![]),
        (profinet(&[0x7f, 0xff]), Class::Other, vec![]),
        (profinet(&[0xfc, 0x00]), Class::Other, vec![]),
        (profinet(&[0xfe, 0x00]), Class::Other, vec![]),
        named(profinet(&[0x00, 0x00]), Ptcp, &[]),
        named(profinet(&[0x00, 0x80]), Ptcp, &[]),
        named(profinet(&[0x00, 0xff]), Ptcp, &[]),
        named(profinet(&[0xff, 0x00]), Ptcp, &[]),
        named(profinet(&[0xff, 0x43]), Ptcp, &[]),
        named(frame(&[], 0x88cc, &[]), Lldp, &[Profinet]),
        named(frame(&[], 0x0806, &[]), Arp, &[Profinet, EthernetIp, OpcUa]),
        named(frame(&[], 0x88b8, &[]), Goose, &[]),
        named(frame(&[], 0x88ba, &[]), SampledValues, &[]),
        named(frame(&[], 0x88a4, &[]), Ethercat, &[]),
        named(frame(&[], 0x88e3, &[]), Mrp, &[]),
        named(frame(&[], 0x88f7, &[]), Ptp, &[]),
        named(frame(&[], 0x0026, &[0x42, 0x42, 3]), Rstp, &[]),
        named(frame(&[], 0x88cd, &[]), Sercos, &[]),
        named(frame(&[], 0x88ab, &[]), Powerlink, &[]),
        named(frame(&[], 0x890f, &[]), CcLinkIe, &[]),
        named(frame(&[], 0x88fb, &[]), HsrPrp, &[]),
        named(frame(&[], 0x892f, &[0, 52, 0, 7, 0x88, 0xb8]), HsrPrp, &[]),
        named(frame(&[], 0xb62c, &[]), OpcUa, &[]),
        (frame(&[], 0x88e5, &[]), Class::Other, vec![]),
        (frame(&[], 0x88b9, &[]), Class::Other, vec![]),
        (frame(&[], 0x0026, &[0x42, 0x43, 3]), Class::Other, vec![]),
        (frame(&[], 0x05dd, &[0x42, 0x42, 3]), Class::Other, vec![]),
        ip(udp4(49152, 34964, &[1]), Ipv4, &[Profinet, ProfinetRpc]),
        ip(udp4(34964, 49152, &[1]), Ipv4, &[Profinet, ProfinetRpc]),
        ip(udp6(34964, 49152, &[1]), Ipv6, &[Profinet, ProfinetRpc]),
        ip(call(false), Ipv4, &[Profinet, ProfinetRpc]),
        ip(call(true), Ipv6, &[Profinet, ProfinetRpc]),
        ip(udp4(49153, 49200, &[1; 90]), Ipv4, &[]),
        ip(tcp4(34964, 34964), Ipv4, &[]),
        ip(udp4(1, 319, &[]), Ipv4, &[Ptp]),
        ip(udp6(1, 320, &[]), Ipv6, &[Ptp]),
        ip(udp4(1, 321, &[]), Ipv4, &[]),
        ip(tcp4(50000, 44818), Ipv4, &[EthernetIp]),
        ip(udp4(44818, 50000, &[]), Ipv4, &[EthernetIp]),
        ip(udp4(2222, 2222, &[]), Ipv4, &[EthernetIp]),
        ip(tcp4(1, 2222), Ipv4, &[]),
        ip(other4(2), Ipv4, &[EthernetIp]),
        ip(tcp4(4840, 50000), Ipv4, &[OpcUa]),
        ip(udp6(1, 4840, &[]), Ipv6, &[OpcUa]),
        ip(udp4(68, 67, &[]), Ipv4, &[Dhcp]),
        ip(udp6(546, 547, &[]), Ipv6, &[Dhcp]),
        ip(udp4(546, 547, &[]), Ipv4, &[]),
        ip(udp6(68, 67, &[]), Ipv6, &[]),
        ip(other4(1), Ipv4, &[Icmp]),
        ip(other6(58), Ipv6, &[Icmp, OpcUa]),
        ip(other4(58), Ipv4, &[]),
        ip(other6(1), Ipv6, &[]),
    ]
}

#[test]
fn each_name_passes_its_frames_alone() {
    for (frame, class, names) in samples() {
        let verdict = gate(&[], vec![]).decide(Way::Out, &frame);
        assert_eq!((verdict.class, verdict.passes), (class, false), "{frame:02x?}");
        for (name, traffic) in Traffic::NAMES {
            let expected = traffic == Traffic::All || names.contains(&traffic);
            assert_eq!(passes(traffic, &frame), expected, "{name}: {frame:02x?}");
        }
    }
}

#[test]
fn each_name_has_a_sample() {
    let samples = samples();
    for (name, traffic) in Traffic::NAMES {
        let is_sample = samples.iter().any(|(_, _, names)| names.contains(&traffic));
        assert!(is_sample || traffic == Traffic::All, "{name}");
    }
}

#[test]
fn tags_do_not_hide_the_kind() {
    for tags in [&[][..], &[(0x8100, 0xc000)], &[(0x88a8, 1), (0x8100, 2)], &[(0x9100, 1)]] {
        for (ethertype, payload, kind) in [
            (0x8892, &[0x80, 0x01][..], Traffic::ProfinetRt),
            (0x88cc, &[], Traffic::Lldp),
            (0x0026, &[0x42, 0x42, 3], Traffic::Rstp),
        ] {
            let verdict = gate(&[kind], vec![]).decide(Way::Out, &stacked(tags, ethertype, payload));
            assert_eq!((verdict.class, verdict.passes), (Class::Named(kind), true), "{tags:x?}");
        }
    }
}

#[test]
fn services_that_are_allowed_may_come_together() {
    let several = set(0, &[(0x0102, &[0; 14]), (0x0202, &[0, 1, b'd'])]);
    let both = [Traffic::ProfinetDcpSetIp, Traffic::ProfinetDcpSetName];
    assert!(gate(&both, vec![]).decide(Way::Out, &several).passes);
    assert!(!gate(&both[..1], vec![]).decide(Way::Out, &several).passes);
    let deny = deny(Conditions { dcp: Some(Dcp::SET_NAME), ..Conditions::default() });
    let g = gate(&[Traffic::All], vec![deny]);
    assert!(!g.decide(Way::Out, &several).passes && !g.decide(Way::Out, &set_name()).passes);
    assert!(g.decide(Way::Out, &set_ip()).passes && g.decide(Way::Out, &profinet(&[0x80, 0])).passes);
}

#[test]
fn kinds_leave_space_for_all_rules() {
    let rules: usize = Traffic::NAMES.iter().map(|(_, traffic)| traffic.rules().len()).sum();
    assert!(rules <= 64, "{rules}");
}

use super::*;
use crate::config::policy::conditions::UNTAGGED;
use crate::config::policy::{
    Action, AddressMatch, Conditions, Dcp, Direction, IpPrefix, Limit, Ranges, Rule, Traffic,
};
use antedate_wire::EthernetAddress;

mod ip;
mod kinds;
mod properties;

/// A frame with customer tags.
fn frame(tags: &[u16], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let tags: Vec<_> = tags.iter().map(|tag| (0x8100, *tag)).collect();
    stacked(&tags, ethertype, payload)
}

/// A frame with these tags: protocol, control information.
fn stacked(tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (protocol, tag) in tags {
        f.extend(protocol.to_be_bytes());
        f.extend(tag.to_be_bytes());
    }
    f.extend(ethertype.to_be_bytes());
    f.extend(payload);
    f.resize(f.len().max(60), 0);
    f
}

fn gate(allow: &[Traffic], rules: Vec<Rule>) -> Gate {
    Gate::new(&Policy { rules, allow: allow.to_vec(), ..Policy::default() })
}

fn allow(conditions: Conditions) -> Rule {
    Rule { line: 1, direction: Direction::Both, conditions, action: Action::Allow, limit: Limit::default() }
}

fn deny(conditions: Conditions) -> Rule {
    Rule { action: Action::Deny, ..allow(conditions) }
}

/// Whether the frame passes a single rule that allows, and whether a rule that denies stops it.
fn both(conditions: &Conditions, frame: &[u8]) -> (bool, bool) {
    let allowed = gate(&[], vec![allow(conditions.clone())]).decide(Way::Out, frame);
    let denied = gate(&[Traffic::All], vec![deny(conditions.clone())]).decide(Way::Out, frame);
    (allowed.passes, !denied.passes)
}

#[test]
fn only_named_kinds_pass() {
    let g = gate(&[Traffic::ProfinetRt, Traffic::ProfinetDcpRead], vec![]);
    assert!(g.decide(Way::In, &frame(&[], 0x8892, &[0x80, 0])).passes);
    assert!(g.decide(Way::In, &frame(&[], 0x8892, &[0xfe, 0xfd, 3, 0])).passes);
    assert!(!g.decide(Way::In, &frame(&[], 0x8892, &[0xfe, 0xfd, 4, 0])).passes, "DCP Set");
    assert!(!g.decide(Way::In, &frame(&[], 0x0800, &[])).passes);
}

#[test]
fn all_passes_everything_well_formed() {
    let g = gate(&[Traffic::All], vec![]);
    assert!(g.decide(Way::Out, &frame(&[], 0x1234, &[])).passes);
    assert!(g.decide(Way::Out, &frame(&[], 0x0806, &[])).passes);
    assert!(g.decide(Way::Out, &frame(&[], 0x0026, &[0x42])).passes);
    let mut from_group = frame(&[], 0x0800, &[]);
    from_group[6] |= 1;
    let hidden = frame(&[], 0x892f, &[0, 52, 0, 7, 0x81, 0, 0, 7]);
    for bad in
        [&[0; 13][..], &[], &from_group, &hidden, &[0x02, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x81, 0][..]]
    {
        let verdict = g.decide(Way::Out, bad);
        assert_eq!((verdict.class, verdict.passes), (Class::Malformed, false));
    }
}

#[test]
fn first_matching_rule_decides() {
    let cyclic = Conditions { frame_id: Ranges(vec![0x8000..=0x80ff]), ..Conditions::default() };
    let deny = Rule { direction: Direction::In, ..deny(cyclic.clone()) };
    let vlan = Conditions { vlan: Ranges::one(5), ethertype: Ranges::one(0x0800), ..Conditions::default() };
    let g = gate(&[Traffic::ProfinetRt], vec![deny, allow(vlan), allow(cyclic)]);
    let cyclic = frame(&[], 0x8892, &[0x80, 0x10]);
    assert_eq!(g.decide(Way::In, &cyclic).rule, Some(0));
    assert!(!g.decide(Way::In, &cyclic).passes);
    let verdict = g.decide(Way::Out, &cyclic);
    assert_eq!((verdict.passes, verdict.rule), (true, Some(2)), "the first rule is for the other direction");
    assert_eq!(g.decide(Way::Out, &frame(&[], 0x8892, &[0x81, 0])).rule, None);
    assert!(g.decide(Way::Out, &frame(&[0x2005], 0x0800, &[])).passes);
    assert!(!g.decide(Way::Out, &frame(&[], 0x0800, &[])).passes);
}

#[test]
fn rule_holds_in_its_direction_only() {
    for (direction, out, inward) in
        [(Direction::Out, true, false), (Direction::In, false, true), (Direction::Both, true, true)]
    {
        let g = gate(&[], vec![Rule { direction, ..allow(Conditions::default()) }]);
        let passes = |way| g.decide(way, &frame(&[], 0x0800, &[])).passes;
        assert_eq!((passes(Way::Out), passes(Way::In)), (out, inward), "{direction:?}");
    }
}

#[test]
fn each_address_is_compared() {
    let source = |last, prefix| AddressMatch::new(EthernetAddress([2, 0, 0, 0, 0, last]), prefix).unwrap();
    for (match_, is_source, is_destination) in [
        (source(2, 48), true, false),
        (source(1, 48), false, true),
        (source(0, 46), true, true),
        (source(4, 46), false, false),
    ] {
        let from = Conditions { source: vec![match_], ..Conditions::default() };
        assert_eq!(both(&from, &frame(&[], 0x0800, &[])), (is_source, is_source), "{match_:?}");
        let to = Conditions { destination: vec![match_], ..Conditions::default() };
        assert_eq!(both(&to, &frame(&[], 0x0800, &[])), (is_destination, is_destination), "{match_:?}");
    }
    let one_of = Conditions { source: vec![source(9, 48), source(2, 48)], ..Conditions::default() };
    assert_eq!(both(&one_of, &frame(&[], 0x0800, &[])), (true, true));
}

#[test]
fn ethertypes_are_lists_and_ranges() {
    let some =
        Conditions { ethertype: Ranges(vec![0x88b8..=0x88ba, 0x22f0..=0x22f0]), ..Conditions::default() };
    for (ethertype, matches) in [
        (0x22ef, false),
        (0x22f0, true),
        (0x22f1, false),
        (0x88b7, false),
        (0x88b8, true),
        (0x88ba, true),
        (0x88bb, false),
        (0xffff, false),
    ] {
        assert_eq!(both(&some, &frame(&[], ethertype, &[])), (matches, matches), "{ethertype:04x}");
    }
    let last = Conditions { ethertype: Ranges(vec![0xfff0..=0xffff]), ..Conditions::default() };
    assert_eq!(both(&last, &frame(&[], 0xffff, &[])), (true, true));
    assert_eq!(both(&last, &frame(&[], 0x0000, &[])), (false, false));
}

#[test]
fn vlan_rule_looks_at_every_tag() {
    let vlan = |ids: &[u64]| Conditions { vlan: Ranges::list(ids), ..Conditions::default() };
    for (tags, ids, allows, denies) in [
        (&[][..], &[UNTAGGED][..], true, true),
        (&[], &[0], false, false),
        (&[(0x8100, 0xc000)], &[0], true, true),
        (&[(0x8100, 0xc000)], &[UNTAGGED], false, false),
        (&[(0x8100, 0xc007)], &[7], true, true),
        (&[(0x8100, 0xc007)], &[8], false, false),
        // A tag without a VLAN does not count beside one with a VLAN.
        (&[(0x8100, 0xc000), (0x8100, 7)], &[7], true, true),
        (&[(0x8100, 0xc000), (0x8100, 7)], &[0], false, false),
        (&[(0x8100, 0xc000), (0x8100, 0)], &[0], true, true),
        // A second tag is no way around a rule.
        (&[(0x8100, 1), (0x8100, 7)], &[7], false, true),
        (&[(0x8100, 1), (0x8100, 7)], &[1], false, true),
        (&[(0x8100, 1), (0x8100, 7)], &[1, 7], true, true),
        (&[(0x8100, 1), (0x8100, 7)], &[2, 3], false, false),
        (&[(0x88a8, 1), (0x8100, 7)], &[7], false, true),
        (&[(0x9100, 1), (0x8100, 7)], &[7], false, true),
        (&[(0x9200, 7), (0x8100, 1)], &[7], false, true),
        (&[(0x88a8, 1), (0x8100, 2), (0x9300, 3), (0x8100, 7)], &[7], false, true),
    ] {
        let found = both(&vlan(ids), &stacked(tags, 0x0800, &[]));
        assert_eq!(found, (allows, denies), "{tags:x?} {ids:?}");
    }
    let range = Conditions { vlan: Ranges(vec![10..=20]), ..Conditions::default() };
    for (id, is) in [(9, false), (10, true), (20, true), (21, false), (0xfff, false)] {
        assert_eq!(both(&range, &frame(&[id], 0x0800, &[])), (is, is), "{id}");
    }
    // Five tags are more than real networks have.
    let deep = stacked(&[(0x8100, 1); 5], 0x0800, &[]);
    assert_eq!(gate(&[Traffic::All], vec![]).decide(Way::Out, &deep).class, Class::Malformed);
}

#[test]
fn priority_rule_looks_at_every_tag() {
    let high = Conditions { priority: Ranges(vec![6..=7]), ..Conditions::default() };
    for (tags, allows, denies) in [
        (&[][..], false, false),
        (&[0xc000][..], true, true),
        (&[0xa000], false, false),
        (&[0xe001, 0xc001], true, true),
        (&[0xe001, 0x0001], false, true),
    ] {
        assert_eq!(both(&high, &frame(tags, 0x0800, &[])), (allows, denies), "{tags:x?}");
    }
}

#[test]
fn frame_ids_are_profinets_alone() {
    let ids =
        Conditions { frame_id: Ranges(vec![0x0100..=0x7fff, 0xff80..=0xff8f]), ..Conditions::default() };
    for (ethertype, id, is) in [
        (0x8892, [0x01, 0x00], true),
        (0x8892, [0x7f, 0xff], true),
        (0x8892, [0x80, 0x00], false),
        (0x8892, [0x00, 0xff], false),
        (0x8892, [0xff, 0x8f], true),
        (0x8892, [0xff, 0x90], false),
        (0x88b8, [0x01, 0x00], false),
    ] {
        assert_eq!(both(&ids, &frame(&[], ethertype, &id)), (is, is), "{ethertype:04x} {id:02x?}");
    }
    // A cut frame ID fulfils nothing and passes nothing.
    let cut = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &[0x88, 0x92, 0x80]].concat();
    assert_eq!(gate(&[Traffic::All], vec![deny(ids)]).decide(Way::Out, &cut), Verdict::MALFORMED);
}

#[test]
fn llc_frames_have_rules() {
    let bpdu = frame(&[], 0x0026, &[0x42, 0x42, 3]);
    let cdp = frame(&[], 0x0060, &[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0]);
    let pvst = frame(&[], 0x0032, &[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x01, 0x0b]);
    let snap = Conditions { snap: Ranges::one(0x0c_2000), ..Conditions::default() };
    assert_eq!((both(&snap, &cdp), both(&snap, &pvst)), ((true, true), (false, false)));
    assert_eq!(both(&snap, &bpdu), (false, false));
    let access = Conditions { dsap: Ranges::one(0x42), ..Conditions::default() };
    assert_eq!((both(&access, &bpdu), both(&access, &cdp)), ((true, true), (false, false)));
    let other = Conditions { ssap: Ranges::one(0x42), ..Conditions::default() };
    assert_eq!(both(&other, &frame(&[], 0x0026, &[0x42, 0x43, 3])), (false, false));
    assert_eq!(both(&other, &frame(&[], 0x0026, &[0x43, 0x42, 3])), (true, true));
    // Neither a length beyond LLC nor an EtherType is LLC.
    for ethertype in [0x05dd, 0x0800] {
        assert_eq!(both(&access, &frame(&[], ethertype, &[0x42, 0x42, 3])), (false, false));
    }
    // A rule on the Ethernet header does not read LLC, which is cut here.
    let tagged = Conditions { vlan: Ranges::one(7), ..Conditions::default() };
    let cut = [&frame(&[7], 0x0026, &[])[..18], &[0x42]].concat();
    assert_eq!(both(&tagged, &cut), (true, true));
    let verdict = gate(&[], vec![allow(tagged), allow(access.clone())]).decide(Way::Out, &cut);
    assert_eq!(verdict, Verdict::MALFORMED);
    assert!(gate(&[Traffic::Rstp], vec![]).decide(Way::In, &bpdu).passes);
    assert!(!gate(&[Traffic::Rstp], vec![]).decide(Way::In, &cdp).passes);
}

#[test]
fn hundred_rules_are_tried_in_order() {
    let port = |port: u64| Conditions {
        ip_protocol: Ranges::one(17),
        port: Ranges::one(port),
        ..Conditions::default()
    };
    let mut rules: Vec<Rule> = (0..150).map(|index| allow(port(5000 + index))).collect();
    rules.push(deny(port(5007)));
    rules.push(deny(port(6000)));
    let g = gate(&[Traffic::Ipv4], rules);
    for (port, passes, rule) in [
        (5000, true, Some(0)),
        (5149, true, Some(149)),
        (5007, true, Some(7)),
        (6000, false, Some(151)),
        (1, true, None),
    ] {
        let verdict = g.decide(Way::Out, &ip::udp4(port, 9, &[]));
        assert_eq!((verdict.passes, verdict.rule), (passes, rule), "{port}");
    }
}

#[test]
fn compiled_rules_agree_with_their_text() {
    // Each pair of a small set of conditions on each frame of a small set, by the definition.
    let conditions = [
        Conditions { ethertype: Ranges::one(0x0800), ..Conditions::default() },
        Conditions { vlan: Ranges(vec![1..=4]), ..Conditions::default() },
        Conditions { priority: Ranges::one(0), ..Conditions::default() },
        Conditions { frame_id: Ranges::one(0x8001), ..Conditions::default() },
        Conditions { port: Ranges::one(53), ..Conditions::default() },
    ];
    let frames = [
        frame(&[], 0x8892, &[0x80, 1]),
        frame(&[3], 0x8892, &[0x80, 2]),
        ip::udp4(53, 9, &[]),
        ip::udp4(9, 54, &[]),
        frame(&[0xa004], 0x88b8, &[]),
    ];
    for first in &conditions {
        for second in &conditions {
            for frame in &frames {
                let g = gate(&[Traffic::All], vec![deny(first.clone()), allow(second.clone())]);
                let expected = match (both(first, frame).1, both(second, frame).0) {
                    (true, _) => (false, Some(0)),
                    (false, true) => (true, Some(1)),
                    (false, false) => (true, None),
                };
                let verdict = g.decide(Way::Out, frame);
                assert_eq!((verdict.passes, verdict.rule), expected, "{first} / {second}");
            }
        }
    }
}

#[test]
fn each_class_has_its_own_counter() {
    let names: Vec<_> = Class::names().collect();
    assert_eq!(names.len(), Class::COUNT);
    assert_eq!(names[Class::Other.index()], "other");
    assert_eq!(names[Class::Malformed.index()], "malformed");
    assert_eq!(names[Class::Named(Traffic::Lldp).index()], "lldp");
}

#[test]
fn rule_that_stays_keeps_its_count() {
    let rule = |number: u64, line| {
        let conditions = Conditions { ethertype: Ranges::one(number), ..Conditions::default() };
        Rule { line, ..allow(conditions) }
    };
    let before = Policy { rules: vec![rule(0x88cc, 1), rule(0x8892, 2)], allow: vec![], ..Policy::default() };
    let after = Policy { rules: vec![rule(0x8892, 9), rule(0x0806, 10)], allow: vec![], ..Policy::default() };
    let (old, new) = (Gate::new(&before), Gate::after(&after, &before));
    old.hits(Way::Out)[0].add(3);
    old.hits(Way::Out)[1].add(5);
    old.hits(Way::In)[1].add(7);
    new.take_over(Way::Out, &old);
    let counts = |way| new.hits(way).iter().map(Counter::get).collect::<Vec<_>>();
    assert_eq!((counts(Way::Out), counts(Way::In)), (vec![5, 0], vec![0, 0]));
    new.take_over(Way::In, &old);
    assert_eq!(counts(Way::In), [7, 0]);
}

#[test]
fn cut_snap_header_is_malformed() {
    let snap = Conditions { snap: Ranges::one(0x0c_2000), ..Conditions::default() };
    let gate = gate(&[Traffic::All], vec![deny(snap)]);
    let mut whole = frame(&[], 8, &[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 1]);
    assert!(gate.decide(Way::Out, &whole).passes);
    whole.truncate(14 + 7);
    assert_eq!(gate.decide(Way::Out, &whole), Verdict::MALFORMED);
}

#[test]
fn igmp_is_narrowed_to_its_protocol() {
    let kind = |ethertype, payload: &[u8]| {
        narrowest::Narrowest::default().of(&frame(&[], ethertype, &[payload, &[0; 40]].concat()))
    };
    let v4 = [0x46, 0, 0, 60, 0, 0, 0, 0, 1, 2, 0, 0, 10, 0, 0, 1, 224, 0, 0, 22, 0x94, 4, 0, 0];
    let narrowest::Kind::Rule(rule) = kind(0x0800, &v4) else { panic!("a kind that passes more") };
    assert_eq!(rule.ip_protocol, Ranges::one(2));
    // The same protocol number elsewhere is no IGMP.
    let v6 = [0x60, 0, 0, 0, 0, 40, 2, 1].into_iter().chain([0xfe; 32]).collect::<Vec<_>>();
    assert!(matches!(kind(0x88cc, &v6), narrowest::Kind::Named(Traffic::Lldp)));
}

#[test]
fn blocks_of_a_set_are_its_subjects() {
    // Option, suboption, length and value of each block; Start and Stop enclose the others.
    const START: &[u8] = &[5, 1, 0, 2, 0, 0];
    const STOP: &[u8] = &[5, 2, 0, 2, 0, 0];
    const NAME: &[u8] = &[2, 2, 0, 4, 0, 1, b'i', b'o'];
    let set = |blocks: &[&[u8]]| {
        let blocks = blocks.concat();
        let head = [0xfe, 0xfd, 4, 0, 0, 0, 0, 1, 0, 0, 0, blocks.len() as u8];
        frame(&[], 0x8892, &[&head[..], &blocks].concat())
    };
    let name = Conditions { dcp: Some(Dcp::SET_NAME), ..Conditions::default() };
    let gate = gate(&[], vec![allow(name)]);
    for (blocks, passes) in [
        (&[NAME][..], true),
        (&[START, NAME, STOP], true),
        (&[START, START, START, NAME], false),
        (&[START, NAME, STOP, STOP], false),
        // The result of a name, in a request.
        (&[&[5, 4, 0, 4, 2, 2, 0, 0]], false),
        (&[&[5, 4, 0, 6, 0, 0, 2, 2, 0, 0]], false),
    ] {
        assert_eq!(gate.decide(Way::Out, &set(blocks)).passes, passes, "{blocks:02x?}");
    }
}

#[test]
fn narrowest_rule_has_all_that_tells() {
    let rule = |frame: &[u8]| match narrowest::Narrowest::default().of(frame) {
        narrowest::Kind::Rule(conditions) => *conditions,
        _ => panic!("{frame:02x?}"),
    };
    let llc = rule(&frame(&[], 3, &[0x36, 0x37, 3]));
    assert_eq!((llc.dsap, llc.ssap), (Ranges::one(0x36), Ranges::one(0x37)));
    // Neither a length nor an EtherType.
    let between = frame(&[], 0x05ee, &[]);
    assert!(matches!(narrowest::Narrowest::default().of(&between), narrowest::Kind::Nothing));
    // A later fragment, first of UDP, then of what its first fragment tells.
    let fragment = |next: u8| {
        let mut packet = vec![0x60, 0, 0, 0, 0, 16, 44, 64];
        packet.extend([&[0xfd; 16][..], &[0xfe; 16], &[next, 0, 0, 8, 0, 0, 0, 9], &[0; 8]].concat());
        frame(&[], 0x86dd, &packet)
    };
    let later = rule(&fragment(17));
    assert_eq!((&later.ethertype, later.later_fragment), (&Ranges::one(0x86dd), Some(true)));
    assert_eq!(later.ip_protocol, Ranges::one(17));
    let whole =
        |octet: u8| vec![IpPrefix { address: std::net::Ipv6Addr::from([octet; 16]).into(), prefix: 128 }];
    assert_eq!((later.source_ip, later.destination_ip), (whole(0xfd), whole(0xfe)));
    assert_eq!(rule(&fragment(60)).ip_protocol, Ranges::default());
}

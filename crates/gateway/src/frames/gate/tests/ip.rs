//! Rules on IP packets.

use super::*;

/// An IPv4 packet in a frame.
fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 1, 2]);
    packet.extend(payload);
    frame(&[], 0x0800, &packet)
}

/// An IPv6 packet in a frame. `headers` are extension headers.
fn ipv6(next: u8, headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(((headers.len() + payload.len()) as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend(headers);
    packet.extend(payload);
    frame(&[], 0x86dd, &packet)
}

/// A UDP header before its payload.
pub(super) fn datagram(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = [from.to_be_bytes(), to.to_be_bytes()].concat();
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}

pub(super) fn udp4(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    ipv4(17, 0, &datagram(from, to, payload))
}

pub(super) fn udp6(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    ipv6(17, &[], &datagram(from, to, payload))
}

pub(super) fn tcp4(from: u16, to: u16) -> Vec<u8> {
    ipv4(6, 0, &[&from.to_be_bytes()[..], &to.to_be_bytes(), &[0; 16]].concat())
}

pub(super) fn other4(protocol: u8) -> Vec<u8> {
    ipv4(protocol, 0, &[8, 0, 0, 0])
}

pub(super) fn other6(protocol: u8) -> Vec<u8> {
    ipv6(protocol, &[], &[135, 0, 0, 0])
}

fn udp(ports: Conditions) -> Conditions {
    Conditions { ip_protocol: Ranges::one(17), ..ports }
}

#[test]
fn protocol_and_ports_are_compared() {
    let d = Conditions::default;
    let to = udp(Conditions { destination_port: Ranges(vec![4800..=4900]), ..d() });
    let from = udp(Conditions { source_port: Ranges::one(4840), ..d() });
    let either = udp(Conditions { port: Ranges::list(&[4840, 7]), ..d() });
    for (frame, is_to, is_from, is_either) in [
        (udp4(1, 4840, &[]), true, false, true),
        (udp4(4840, 1, &[]), false, true, true),
        (udp4(7, 7, &[]), false, false, true),
        (udp4(4799, 4901, &[]), false, false, false),
        (udp6(1, 4840, &[]), true, false, true),
        (udp6(4840, 4800, &[]), true, true, true),
        (tcp4(4840, 4840), false, false, false),
        (other4(1), false, false, false),
        (frame(&[], 0x88b8, &datagram(4840, 4840, &[])), false, false, false),
    ] {
        for (conditions, is) in [(&to, is_to), (&from, is_from), (&either, is_either)] {
            assert_eq!(both(conditions, &frame), (is, is), "{conditions} {frame:02x?}");
        }
    }
    // Without a protocol, ports are those of any protocol that has them.
    let any = Conditions { port: Ranges::one(4840), ..d() };
    assert_eq!((both(&any, &tcp4(4840, 1)), both(&any, &other4(1))), ((true, true), (false, false)));
}

#[test]
fn ip_addresses_are_compared() {
    let prefix = |text: &str, bits| IpPrefix::new(text.parse().unwrap(), bits).unwrap();
    let (four, six) = (udp4(1, 2, &[]), udp6(1, 2, &[]));
    for (prefixes, from4, to4, from6, to6) in [
        (vec![prefix("10.0.0.0", 24)], true, false, false, false),
        (vec![prefix("10.0.0.0", 15)], true, true, false, false),
        (vec![prefix("10.0.1.2", 32)], false, true, false, false),
        (vec![prefix("0.0.0.0", 0)], true, true, false, false),
        (vec![prefix("fd00::", 32)], false, false, true, false),
        (vec![prefix("fd00::", 31)], false, false, true, true),
        (vec![prefix("::", 0)], false, false, true, true),
        (vec![prefix("10.0.0.1", 32), prefix("fd00:1::2", 128)], true, false, false, true),
    ] {
        let from = Conditions { source_ip: prefixes.clone(), ..Conditions::default() };
        let to = Conditions { destination_ip: prefixes.clone(), ..Conditions::default() };
        for (conditions, frame, is) in
            [(&from, &four, from4), (&to, &four, to4), (&from, &six, from6), (&to, &six, to6)]
        {
            assert_eq!(both(conditions, frame), (is, is), "{conditions}");
        }
    }
}

#[test]
fn extension_headers_are_followed() {
    let port = udp(Conditions { port: Ranges::one(4840), ..Conditions::default() });
    let inner = datagram(1, 4840, &[]);
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    for next in [0, 43, 60, 135] {
        assert_eq!(both(&port, &ipv6(next, &options, &inner)), (true, true), "{next}");
    }
    for words in [2u8, 4] {
        let mut authentication = vec![17, words];
        authentication.resize((usize::from(words) + 2) * 4, 0);
        assert_eq!(both(&port, &ipv6(51, &authentication, &inner)), (true, true));
    }
    let first = [17, 0, 0, 1, 0, 0, 0, 9];
    assert_eq!(both(&port, &ipv6(44, &first, &inner)), (true, true), "first fragment");
    let chain = [&[60, 0, 1, 4, 0, 0, 0, 0][..], &[44, 0, 1, 4, 0, 0, 0, 0], &first].concat();
    assert_eq!(both(&port, &ipv6(0, &chain, &inner)), (true, true));
    let endless = [0, 0, 1, 4, 0, 0, 0, 0].repeat(20);
    // Neither an allow nor a deny passes a chain without an end, or one that is cut.
    for bad in
        [ipv6(0, &endless, &[]), ipv6(0, &[17, 9, 1, 4, 0, 0, 0, 0], &[]), ipv6(44, &[17, 0, 0, 1], &[])]
    {
        assert_eq!(both(&port, &bad), (false, true));
    }
    let protocol = Conditions { ip_protocol: Ranges::one(59), ..Conditions::default() };
    assert_eq!(both(&protocol, &ipv6(59, &[], &[])), (true, true));
}

#[test]
fn later_fragments_have_no_ports() {
    let port = udp(Conditions { port: Ranges::one(4840), ..Conditions::default() });
    let first = ipv4(17, 0x2000, &datagram(4840, 1, &[]));
    let later = ipv4(17, 0x0001, &datagram(4840, 1, &[]));
    let last6 = ipv6(44, &[17, 0, 0, 8, 0, 0, 0, 9], &datagram(4840, 1, &[]));
    assert_eq!(both(&port, &first), (true, true));
    let far6 = ipv6(44, &[17, 0, 1, 0, 0, 0, 0, 9], &datagram(4840, 1, &[]));
    let cut = ipv6(44, &[17, 0, 0, 8], &[]);
    assert_eq!(both(&udp(Conditions::default()), &cut), (false, true), "a cut header is malformed");
    for later in [&later, &last6, &far6] {
        assert_eq!(both(&port, later), (false, true), "an allow misses it, a deny stops it");
        let protocol = udp(Conditions::default());
        assert_eq!(both(&protocol, later), (true, true));
        let fragments = udp(Conditions { later_fragment: Some(true), ..Conditions::default() });
        assert_eq!((both(&fragments, later), both(&fragments, &first)), ((true, true), (false, false)));
        let rpc = Conditions { profinet_rpc: true, ..Conditions::default() };
        assert_eq!(both(&rpc, later), (false, true));
    }
    // The protocol behind the fragment's extension headers is in the first fragment.
    let hidden = ipv6(44, &[60, 0, 0, 8, 0, 0, 0, 9], &datagram(4840, 1, &[]));
    assert_eq!(both(&udp(Conditions::default()), &hidden), (false, true));
    // A later fragment of ICMP has no ports in the first either.
    let icmp = ipv4(1, 0x0001, &[0; 8]);
    assert_eq!(both(&Conditions { port: Ranges::one(1), ..Conditions::default() }, &icmp), (false, false));
}

#[test]
fn malformed_packets_pass_no_ip_rule() {
    let protocol = Conditions { ip_protocol: Ranges::one(17), ..Conditions::default() };
    let good = udp4(1, 2, &[]);
    assert_eq!(both(&protocol, &good), (true, true));
    for (at, value) in [(14, 0x55), (14, 0x44), (14, 0x4f), (17, 200), (17, 19), (17, 27), (17, 23)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(both(&protocol, &bad), (false, true), "{at} {value}");
        let verdict = gate(&[Traffic::All], vec![deny(protocol.clone())]).decide(Way::Out, &bad);
        assert_eq!(verdict, Verdict::MALFORMED);
    }
    let mut six = udp6(1, 2, &[]);
    six[14] = 0x40;
    assert_eq!(both(&protocol, &six), (false, true));
    let mut six = udp6(1, 2, &[]);
    six[19] = 100;
    assert_eq!(both(&protocol, &six), (false, true));
    // Without a rule on IP the EtherType suffices.
    assert!(gate(&[Traffic::Ipv4], vec![]).decide(Way::Out, &frame(&[], 0x0800, &[0xff; 50])).passes);
}

//! Super-frames in tunnels of the machines.

use super::*;

/// A header of the frame under construction. Lengths and checksums are those of a super-frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Ethernet(u16),
    Vlan(u16),
    /// With the protocol of the next header.
    Ipv4(u8),
    Ipv6(u8),
    /// IPv6 with a limit of tunnels in destination options, as Linux writes it.
    Ipv6Limited(u8),
    /// With or without a checksum.
    Udp(bool),
    Vxlan,
    /// With words of options and the EtherType of the next header.
    Geneve(u8, u16),
    /// With flags and the EtherType of the next header.
    Gre(u16, u16),
    Tcp,
}

use Part::*;

fn head(part: Part) -> Vec<u8> {
    match part {
        Ethernet(kind) => [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind.to_be_bytes()].concat(),
        Vlan(kind) => [&[0, 5][..], &kind.to_be_bytes()].concat(),
        Ipv4(next) => {
            vec![0x45, 0, 0xff, 0xff, 0x12, 0x34, 0x40, 0, 64, next, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
        }
        Ipv6(next) => [&[0x60, 0, 0, 0, 0xff, 0xff, next, 64][..], &[0xfd; 32]].concat(),
        Ipv6Limited(next) => [head(Ipv6(60)), vec![next, 0, 4, 1, 4, 1, 1, 0]].concat(),
        Udp(checked) => vec![0xc0, 1, 0x12, 0xb5, 0xff, 0xff, u8::from(checked), 0],
        Vxlan => vec![8, 0, 0, 0, 0, 0, 9, 0],
        Geneve(words, kind) => {
            let mut header = vec![words, 0, (kind >> 8) as u8, kind as u8, 0, 0, 9, 0];
            header.resize(8 + usize::from(words) * 4, 0x5a);
            header
        }
        Gre(flags, kind) => {
            let mut header = [flags.to_be_bytes(), kind.to_be_bytes()].concat();
            header.resize(4 + 4 * (flags & 0xb000).count_ones() as usize, 0);
            header
        }
        Tcp => {
            let mut header = tcp4(&[], false)[34..].to_vec();
            header[13] = 0x18;
            header
        }
    }
}

/// The frame, and the place of each part.
fn build(parts: &[Part], payload: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let (mut frame, mut places) = (Vec::new(), Vec::new());
    for part in parts {
        places.push(frame.len());
        frame.extend(head(*part));
    }
    frame.extend(payload);
    (frame, places)
}

/// Checks lengths, numbers and checksums of one segment.
fn examine(parts: &[Part], places: &[usize], segment: &[u8], index: usize) {
    let mut ip: Option<(usize, bool)> = None;
    let consistent = |ip: Option<(usize, bool)>, at: usize, protocol: u8| {
        let (ip, v6) = ip.unwrap();
        let addresses = if v6 { ip + 8..ip + 40 } else { ip + 12..ip + 20 };
        let length = (segment.len() - at) as u16;
        let pseudo = Sum::of(&segment[addresses]).and(Sum::of_u16(u16::from(protocol) + length));
        pseudo.and(Sum::of(&segment[at..])).is_consistent()
    };
    for (part, at) in parts.iter().zip(places.iter().copied()) {
        let length = half(segment, at + 2).map(usize::from);
        match part {
            Ipv4(_) => {
                assert_eq!(length, Some(segment.len() - at), "total length of {part:?}");
                assert_eq!(half(segment, at + 4), Some(0x1234 + index as u16));
                assert!(Sum::of(&segment[at..at + 20]).is_consistent());
                ip = Some((at, false));
            }
            Ipv6(_) | Ipv6Limited(_) => {
                assert_eq!(half(segment, at + 4), Some((segment.len() - at - 40) as u16));
                ip = Some((at, true));
            }
            Udp(checked) => {
                assert_eq!(half(segment, at + 4), Some((segment.len() - at) as u16));
                assert_eq!(half(segment, at + 6) != Some(0), *checked);
                assert!(!checked || consistent(ip, at, PROTOCOL_UDP), "{parts:?}");
            }
            Gre(flags, _) if flags & 0x8000 != 0 => assert!(Sum::of(&segment[at..]).is_consistent()),
            Tcp => {
                let sequence = u32::from_be_bytes(segment[at + 4..at + 8].try_into().unwrap());
                assert_eq!(sequence, 0xffff_fff0u32.wrapping_add(1000 * index as u32));
                assert!(consistent(ip, at, PROTOCOL_TCP), "{parts:?}");
            }
            _ => {}
        }
    }
}

/// Cuts TCP in these headers, and examines the segments.
fn cut_in(parts: &[Part], v6: bool) -> Result<(), UnsupportedError> {
    let payload: Vec<u8> = (0..2500u32).map(|i| i as u8).collect();
    let parts = [parts, &[Tcp]].concat();
    let (frame, places) = build(&parts, &payload);
    let transport = *places.last().unwrap();
    let kind = if v6 { SEGMENT_TCP6 } else { SEGMENT_TCP4 };
    let segments = cut(frame.clone(), super_frame(kind, 1000, transport as u16, 16), 0)?;
    assert_eq!(segments.len(), 3);
    for (index, segment) in segments.iter().enumerate() {
        examine(&parts, &places, segment, index);
    }
    let joined: Vec<u8> = segments.iter().flat_map(|segment| segment[transport + 20..].to_vec()).collect();
    assert_eq!(joined, payload);
    // A tag that the kernel took off shifts all places alike.
    let tagged = [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat();
    assert_eq!(cut(tagged, super_frame(kind, 1000, transport as u16, 16), 4)?.len(), 3);
    Ok(())
}

const V4: u16 = 0x0800;
const V6: u16 = 0x86dd;

#[test]
fn vxlan_is_cut() {
    for checked in [false, true] {
        assert_eq!(
            cut_in(&[Ethernet(V4), Ipv4(17), Udp(checked), Vxlan, Ethernet(V4), Ipv4(6)], false),
            Ok(())
        );
        assert_eq!(
            cut_in(&[Ethernet(V6), Ipv6(17), Udp(checked), Vxlan, Ethernet(V4), Ipv4(6)], false),
            Ok(())
        );
        assert_eq!(
            cut_in(&[Ethernet(V4), Ipv4(17), Udp(checked), Vxlan, Ethernet(V6), Ipv6(6)], true),
            Ok(())
        );
    }
    let tagged = [Ethernet(V4), Ipv4(17), Udp(false), Vxlan, Ethernet(0x8100), Vlan(V4), Ipv4(6)];
    assert_eq!(cut_in(&tagged, false), Ok(()));
}

#[test]
fn geneve_is_cut() {
    for words in [0, 1, 8, 63] {
        let ethernet = [Ethernet(V4), Ipv4(17), Udp(true), Geneve(words, 0x6558), Ethernet(V6), Ipv6(6)];
        assert_eq!(cut_in(&ethernet, true), Ok(()));
        assert_eq!(cut_in(&[Ethernet(V6), Ipv6(17), Udp(false), Geneve(words, V4), Ipv4(6)], false), Ok(()));
    }
}

#[test]
fn gre_is_cut_and_numbered_gre_refused() {
    for flags in [0, 0x2000, 0x8000, 0xa000] {
        assert_eq!(cut_in(&[Ethernet(V4), Ipv4(47), Gre(flags, V4), Ipv4(6)], false), Ok(()));
        assert_eq!(cut_in(&[Ethernet(V6), Ipv6Limited(47), Gre(flags, V6), Ipv6(6)], true), Ok(()));
        let ethernet = [Ethernet(V4), Ipv4(47), Gre(flags, 0x6558), Ethernet(V4), Ipv4(6)];
        assert_eq!(cut_in(&ethernet, false), Ok(()));
    }
    for flags in [0x1000, 0x4000, 0x0001] {
        let numbered = cut_in(&[Ethernet(V4), Ipv4(47), Gre(flags, V4), Ipv4(6)], false);
        assert_eq!(numbered, Err(UnsupportedError), "{flags:04x}");
    }
}

#[test]
fn ip_in_ip_is_cut() {
    assert_eq!(cut_in(&[Ethernet(V4), Ipv4(4), Ipv4(6)], false), Ok(()));
    assert_eq!(cut_in(&[Ethernet(V4), Ipv4(41), Ipv6(6)], true), Ok(()));
    assert_eq!(cut_in(&[Ethernet(V6), Ipv6(41), Ipv6(6)], true), Ok(()));
    assert_eq!(cut_in(&[Ethernet(V6), Ipv6Limited(4), Ipv4(6)], false), Ok(()));
    assert_eq!(cut_in(&[Ethernet(V4), Ipv4(17), Udp(true), Ipv4(6)], false), Ok(()));
}

#[test]
fn headers_beside_the_goal_are_refused() {
    let parts = [Ethernet(V4), Ipv4(17), Udp(true), Vxlan, Ethernet(V4), Ipv4(6), Tcp];
    let (frame, places) = build(&parts, &[7; 2500]);
    let at = places[6] as u16;
    let offload = super_frame(SEGMENT_TCP4, 1000, at, 16);
    assert_eq!(cut(frame.clone(), offload, 0).map(|all| all.len()), Ok(3));
    for start in [at - 1, at + 1, at - 20, 34, 42, 5000] {
        let elsewhere = super_frame(SEGMENT_TCP4, 1000, start, 16);
        assert_eq!(cut(frame.clone(), elsewhere, 0), Err(UnsupportedError), "{start}");
    }
    assert_eq!(cut(frame.clone(), super_frame(SEGMENT_TCP6, 1000, at, 16), 0), Err(UnsupportedError));
    assert_eq!(cut(frame.clone(), super_frame(SEGMENT_UDP, 1000, at, 6), 0), Err(UnsupportedError));
    // Fragments, another protocol, and a third IP header.
    for (place, octet) in [(places[1] + 6, 0x20), (places[5] + 7, 1), (places[5] + 9, 17), (places[1], 0x46)]
    {
        let mut bad = frame.clone();
        bad[place] = octet;
        assert_eq!(cut(bad, offload, 0), Err(UnsupportedError), "{place}");
    }
    let nested = [Ethernet(V4), Ipv4(4), Ipv4(17), Udp(false), Vxlan, Ethernet(V4), Ipv4(6)];
    assert_eq!(cut_in(&nested, false), Err(UnsupportedError));
}

#[test]
fn udp_in_a_tunnel_is_cut() {
    let parts = [Ethernet(V4), Ipv4(17), Udp(true), Vxlan, Ethernet(V4), Ipv4(17), Udp(true)];
    let (frame, places) = build(&parts, &[7; 2500]);
    let segments = cut(frame, super_frame(SEGMENT_UDP, 1000, places[6] as u16, 6), 0).unwrap();
    assert_eq!(segments.len(), 3);
    for (index, segment) in segments.iter().enumerate() {
        examine(&parts, &places, segment, index);
    }
}

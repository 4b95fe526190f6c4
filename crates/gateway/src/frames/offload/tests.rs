use super::*;
use antedate_wire::EtherType;

mod tunnels;

/// The EtherType of a frame and the offset of its network header, after VLAN tags.
fn network(frame: &[u8]) -> Option<(EtherType, usize)> {
    let tag = if half(frame, 12)? == 0x8100 { 4 } else { 0 };
    Some((EtherType::from_number(half(frame, 12 + tag)?), 14 + tag))
}

/// An Ethernet, IPv4 and TCP header with FIN, PSH and CWR set, followed by `payload`.
fn tcp4(payload: &[u8], vlan: bool) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if vlan {
        f.extend([0x81, 0x00, 0xc0, 0x05]);
    }
    f.extend([0x08, 0x00]);
    f.extend([0x45, 0, 0xff, 0xff, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    f.extend([
        0x30, 0x39, 0x00, 0x50, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 1, 0x50, 0x99, 1, 0, 0xab, 0xcd, 0, 0,
    ]);
    f.extend(payload);
    f
}

fn tcp6(payload: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 6, 64];
    f.extend(1..33);
    f.extend([0x30, 0x39, 0x00, 0x50, 0, 0, 0, 5, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    f.extend(payload);
    f
}

fn super_frame(segmentation: u8, segment_bytes: u16, checksum_start: u16, checksum_offset: u16) -> Offload {
    Offload { needs_checksum: true, segmentation, segment_bytes, checksum_start, checksum_offset }
}

fn cut(mut frame: Vec<u8>, offload: Offload, shifted: usize) -> Result<Vec<Vec<u8>>, UnsupportedError> {
    let mut out = Vec::new();
    let received = Received { shifted, ..Received::alone(&mut frame, offload) };
    finish(received, &mut [0; 2048], |f| out.push(f.frame().to_vec()))?;
    Ok(out)
}

/// Whether the sum over pseudo header and segment is right.
fn verify(frame: &[u8], protocol: u8) -> bool {
    let (ethertype, ip) = network(frame).unwrap();
    let (transport, addresses) =
        if ethertype == EtherType::Ipv6 { (ip + 40, ip + 8..ip + 40) } else { (ip + 20, ip + 12..ip + 20) };
    let length = (frame.len() - transport) as u16;
    let pseudo = Sum::of(&frame[addresses]).and(Sum::of_u16(u16::from(protocol) + length));
    pseudo.and(Sum::of(&frame[transport..])).is_consistent()
}

#[test]
fn tcp_super_frame_is_cut() {
    let payload: Vec<u8> = (0..2500u32).map(|i| i as u8).collect();
    for vlan in [false, true] {
        let shifted = if vlan { 4 } else { 0 };
        let segments =
            cut(tcp4(&payload, vlan), super_frame(SEGMENT_TCP4 | SEGMENT_ECN, 1000, 34, 16), shifted)
                .unwrap();
        assert_eq!(segments.len(), 3);
        let mut joined = Vec::<u8>::new();
        for (i, s) in segments.iter().enumerate() {
            let (_, ip) = network(s).unwrap();
            assert_eq!(usize::from(half(s, ip + 2).unwrap()), s.len() - ip, "total length");
            assert_eq!(half(s, ip + 4), Some(0x1234 + i as u16), "identification");
            assert!(Sum::of(&s[ip..ip + 20]).is_consistent(), "IP checksum");
            assert!(verify(s, PROTOCOL_TCP), "TCP checksum");
            let t = ip + 20;
            let sequence = u32::from_be_bytes(s[t + 4..t + 8].try_into().unwrap());
            assert_eq!(sequence, 0xffff_fff0u32.wrapping_add(1000 * i as u32));
            assert_eq!(s[t + 13], [0x90, 0x10, 0x19][i], "CWR on the first, FIN and PSH on the last");
            joined.extend(&s[t + 20..]);
        }
        assert_eq!(joined, payload);
    }
}

#[test]
fn ipv6_and_udp_super_frames_are_cut() {
    let payload = [7; 1700];
    let segments = cut(tcp6(&payload), super_frame(SEGMENT_TCP6, 1000, 54, 16), 0).unwrap();
    assert_eq!(segments.iter().map(|s| s.len() - 74).collect::<Vec<_>>(), [1000, 700]);
    assert!(segments.iter().all(|s| verify(s, PROTOCOL_TCP)));

    let mut udp = tcp4(&[], false)[..34].to_vec();
    udp[23] = PROTOCOL_UDP;
    udp.extend([0x30, 0x39, 0x00, 0x50, 0xff, 0xff, 0, 0]);
    udp.extend(payload);
    let segments = cut(udp, super_frame(SEGMENT_UDP, 1000, 34, 6), 0).unwrap();
    assert_eq!(segments.iter().map(|s| half(s, 38).unwrap()).collect::<Vec<_>>(), [1008, 708]);
    assert!(segments.iter().all(|s| verify(s, PROTOCOL_UDP)));
}

#[test]
fn ipv6_options_are_cut() {
    let inside = |next: u8, header: &[u8]| {
        let mut frame = tcp6(&[7; 1700]);
        frame[20] = next;
        frame.splice(54..54, header.iter().copied());
        let transport = 54 + header.len() as u16;
        cut(frame, super_frame(SEGMENT_TCP6, 1000, transport, 16), 0)
    };
    let options = [[60, 0, 1, 4, 0, 0, 0, 0], [6, 0, 1, 4, 0, 0, 0, 0]].concat();
    assert_eq!(inside(0, &options).map(|all| all.len()), Ok(2));
    // With stops left in a routing header, the checksum is over the last of them.
    for (left, cut) in [(0, Ok(2)), (1, Err(UnsupportedError))] {
        let routing = [&[6, 2, 4, left, 0, 0, 0, 0][..], &[0xfd; 16]].concat();
        assert_eq!(inside(43, &routing).map(|all| all.len()), cut);
    }
}

#[test]
fn too_many_segments_are_refused() {
    let of = |len: usize| tcp4(&vec![7; len], false);
    let tcp = |len, size| cut(of(len), super_frame(SEGMENT_TCP4, size, 34, 16), 0).map(|all| all.len());
    assert_eq!(tcp(65_000, 48), Ok(1_355));
    assert_eq!((tcp(1_366, 1), tcp(1_367, 1)), (Ok(1_366), Err(UnsupportedError)));
    let mut udp = of(12 + 8 * MOST_UDP);
    (udp[23], udp[16], udp[17]) = (PROTOCOL_UDP, 0, 0);
    assert_eq!(cut(udp.clone(), super_frame(SEGMENT_UDP, 9, 34, 6), 0).map(|all| all.len()), Ok(117));
    assert_eq!(cut(udp, super_frame(SEGMENT_UDP, 7, 34, 6), 0), Err(UnsupportedError));
}

#[test]
fn partial_checksum_is_completed() {
    let mut frame = tcp4(b"hello", false);
    let length = (frame.len() - 34) as u16;
    let pseudo = Sum::of(&frame[26..34]).and(Sum::of_u16(6 + length));
    frame[50..52].copy_from_slice(&pseudo.number().to_be_bytes());
    let out = cut(frame, super_frame(0, 0, 34, 16), 0).unwrap();
    assert!(verify(&out[0], PROTOCOL_TCP));
}

#[test]
fn unknown_offloads_are_refused() {
    let frame = || tcp4(&[1; 100], false);
    for offload in [
        super_frame(0, 0, 150, 16),
        super_frame(0, 0, 34, 200),
        super_frame(0, 0, 0, 2),
        super_frame(3, 1000, 34, 6),
        super_frame(SEGMENT_TCP4, 0, 34, 16),
        super_frame(SEGMENT_TCP4, 1000, 38, 16),
        super_frame(SEGMENT_TCP4, 3000, 34, 16),
        super_frame(SEGMENT_TCP6, 1000, 34, 16),
    ] {
        let longer = if offload.segment_bytes == 3000 { tcp4(&[1; 4000], false) } else { frame() };
        assert_eq!(cut(longer, offload, 0), Err(UnsupportedError), "{offload:?}");
    }
    let mut sctp = frame();
    sctp[23] = 132;
    assert_eq!(cut(sctp, super_frame(0, 0, 34, 8), 0), Err(UnsupportedError));
    assert_eq!(cut(vec![0; 14], super_frame(SEGMENT_TCP4, 1000, 34, 16), 0), Err(UnsupportedError));
}

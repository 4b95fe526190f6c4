//! Completes the work that the sender's network stack left to the hardware: checksums, and the
//! segmentation of super-frames.
//!
//! Virtual ports, and cards with offloads, hand a raw socket frames without a TCP or UDP checksum,
//! and super-frames far longer than the MTU. Both must be completed before the frame is encrypted.
//! Follows RFC 9293 (TCP), RFC 768 (UDP), RFC 1071 (checksum) and the virtio specification, section
//! 5.1.6.

use antedate_wire::EtherType;
use antedate_wire::checksum::{Sum, complete_partial};

use crate::sys::outbox::SEGMENT_UDP;
use crate::sys::packet::{Offload, Received};

pub(crate) const PROTOCOL_TCP: u8 = 6;
pub(crate) const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_SCTP: u8 = 132;
/// The routing header of IPv6.
const ROUTING: u8 = 43;

/// Kinds of super-frames, as in `struct virtio_net_hdr`.
pub(crate) const SEGMENT_TCP4: u8 = 1;
pub(crate) const SEGMENT_TCP6: u8 = 4;
const SEGMENT_ECN: u8 = 0x80;

/// The most segments of a super-frame: Linux makes TCP segments of at least 48 octets, and at most
/// 128 of UDP. More are forged, and would delay all other frames.
const MOST_TCP: usize = 65_535 / 48 + 1;
pub(crate) const MOST_UDP: usize = 128;

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Free octets before and after a segment, so that it can be protected in place.
const MARGIN: usize = 32;

/// A buffer for segments with headers of this length.
pub(crate) fn scratch(headers: usize, offload: Offload) -> Vec<u8> {
    vec![0; headers + usize::from(offload.segment_bytes) + 2 * MARGIN]
}

/// The offload is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsupportedError;

/// Passes on `received`, completed: the frame itself, or its segments, which are built in `scratch`
/// with free octets around them. Returns their number.
///
/// # Errors
/// [`UnsupportedError`] for a super-frame of an unknown kind or of too many segments, for offsets
/// outside the frame and for SCTP. No frame was passed on then.
#[inline]
pub fn finish(
    received: Received<'_>,
    scratch: &mut [u8],
    mut pass: impl FnMut(Received<'_>),
) -> Result<usize, UnsupportedError> {
    if received.offload.is_done() {
        pass(received);
        return Ok(1);
    }
    finish_rest(received, scratch, pass)
}

/// [`finish`] for frames with an offload. A function of its own, to keep it out of the common
/// path's code.
#[inline(never)]
fn finish_rest(
    received: Received<'_>,
    scratch: &mut [u8],
    mut pass: impl FnMut(Received<'_>),
) -> Result<usize, UnsupportedError> {
    let Received { space, place, offload, shifted, late } = received;
    let frame = space.get_mut(place.clone()).unwrap_or_default();
    if offload.segmentation != 0 {
        return Segments::new(frame, offload, shifted)?.each(frame, scratch, pass);
    }
    complete_checksum(frame, offload, shifted)?;
    pass(Received { space, place, offload: Offload::default(), shifted, late });
    Ok(1)
}

/// Completes a checksum whose field holds the sum over the pseudo header.
fn complete_checksum(frame: &mut [u8], offload: Offload, shifted: usize) -> Result<(), UnsupportedError> {
    // SCTP has a CRC at this offset; no other protocol has a checksum there.
    let is_crc = offload.checksum_offset == 8 && protocol(frame) == Some(PROTOCOL_SCTP);
    let start = usize::from(offload.checksum_start) + shifted;
    if is_crc || start < 14 {
        return Err(UnsupportedError);
    }
    complete_partial(frame, start, offload.checksum_offset.into()).map_err(|_| UnsupportedError)
}

pub(crate) fn half(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

/// The EtherType of a frame and the offset of its network header, after VLAN tags.
fn network(frame: &[u8]) -> Option<(EtherType, usize)> {
    let mut at = 12;
    loop {
        match EtherType::from_number(half(frame, at)?) {
            EtherType::Vlan | EtherType::ServiceVlan => at += 4,
            other => return Some((other, at + 2)),
        }
    }
}

/// Offset of the TCP or UDP header in an IPv6 packet, after options and routing headers (RFC 8200,
/// section 4). `None` if another header follows, as in a tunnel, or if a routing header has stops
/// left: the checksum is over the final destination.
fn behind_extensions(frame: &[u8], ip: usize, protocol: u8) -> Option<usize> {
    let (mut next, mut at) = (*frame.get(ip + 6)?, ip + 40);
    while matches!(next, 0 | ROUTING | 60) {
        let [following, length, _, segments_left] = *frame.get(at..)?.first_chunk()?;
        if next == ROUTING && segments_left > 0 {
            return None;
        }
        next = following;
        at += 8 * (usize::from(length) + 1);
    }
    (next == protocol).then_some(at)
}

fn protocol(frame: &[u8]) -> Option<u8> {
    match network(frame)? {
        (EtherType::Ipv4, at) => frame.get(at + 9).copied(),
        (EtherType::Ipv6, at) => frame.get(at + 6).copied(),
        _ => None,
    }
}

/// How to cut a super-frame.
#[derive(Debug, Clone, Copy)]
struct Segments {
    /// Offset of the IP header, and whether it is version 6.
    ip: usize,
    v6: bool,
    /// Offset of the TCP or UDP header, then of the payload.
    transport: usize,
    payload: usize,
    tcp: bool,
    ecn: bool,
    size: usize,
}

impl Segments {
    fn new(frame: &[u8], offload: Offload, shifted: usize) -> Result<Self, UnsupportedError> {
        let (ethertype, ip) = network(frame).ok_or(UnsupportedError)?;
        let transport = usize::from(offload.checksum_start) + shifted;
        let size = usize::from(offload.segment_bytes);
        let (tcp, v6) = match (offload.segmentation & !SEGMENT_ECN, ethertype) {
            (SEGMENT_TCP4, EtherType::Ipv4) => (true, false),
            (SEGMENT_TCP6, EtherType::Ipv6) => (true, true),
            (SEGMENT_UDP, EtherType::Ipv4) => (false, false),
            (SEGMENT_UDP, EtherType::Ipv6) => (false, true),
            _ => return Err(UnsupportedError),
        };
        let headers_agree = if v6 {
            let protocol = if tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
            behind_extensions(frame, ip, protocol) == Some(transport)
        } else {
            let length = frame.get(ip).ok_or(UnsupportedError)? & 0x0f;
            transport == ip + usize::from(length) * 4 && transport >= ip + 20
        };
        let payload = if tcp {
            let words = frame.get(transport + 12).ok_or(UnsupportedError)? >> 4;
            if words < 5 {
                return Err(UnsupportedError);
            }
            transport + usize::from(words) * 4
        } else {
            transport + 8
        };
        let most = if tcp { MOST_TCP } else { MOST_UDP };
        if size == 0 || !headers_agree || payload > frame.len() || frame.len() - payload > most * size {
            return Err(UnsupportedError);
        }
        let ecn = offload.segmentation & SEGMENT_ECN != 0;
        Ok(Self { ip, v6, transport, payload, tcp, ecn, size })
    }

    fn each(
        self,
        frame: &[u8],
        scratch: &mut [u8],
        mut pass: impl FnMut(Received<'_>),
    ) -> Result<usize, UnsupportedError> {
        let (header, payload) = frame.split_at(self.payload);
        if header.len() + self.size.min(payload.len()) + 2 * MARGIN > scratch.len() {
            return Err(UnsupportedError);
        }
        let count = payload.len().div_ceil(self.size).max(1);
        let mut done = 0;
        for index in 0..count {
            let piece = &payload[done..(done + self.size).min(payload.len())];
            let place = MARGIN..MARGIN + header.len() + piece.len();
            let segment = &mut scratch[place.clone()];
            segment[..header.len()].copy_from_slice(header);
            segment[header.len()..].copy_from_slice(piece);
            self.number(segment, index, count, done);
            pass(Received {
                space: &mut *scratch,
                place,
                offload: Offload::default(),
                shifted: 0,
                late: false,
            });
            done += piece.len();
        }
        Ok(count)
    }

    /// Fits the copied headers to segment `index` of `count`, whose payload starts at `offset`.
    fn number(self, segment: &mut [u8], index: usize, count: usize, offset: usize) {
        let ip_bytes = segment.len() - self.ip;
        if self.v6 {
            segment[self.ip + 4..self.ip + 6].copy_from_slice(&((ip_bytes - 40) as u16).to_be_bytes());
        } else {
            segment[self.ip + 2..self.ip + 4].copy_from_slice(&(ip_bytes as u16).to_be_bytes());
            let id = half(segment, self.ip + 4).unwrap_or(0).wrapping_add(index as u16);
            segment[self.ip + 4..self.ip + 6].copy_from_slice(&id.to_be_bytes());
            segment[self.ip + 10..self.ip + 12].fill(0);
            let sum = Sum::of(&segment[self.ip..self.transport]).checksum();
            segment[self.ip + 10..self.ip + 12].copy_from_slice(&sum.to_be_bytes());
        }
        let transport_bytes = (segment.len() - self.transport) as u16;
        let (field, protocol) = if self.tcp {
            let t = self.transport;
            let first = u32::from_be_bytes([segment[t + 4], segment[t + 5], segment[t + 6], segment[t + 7]]);
            segment[t + 4..t + 8].copy_from_slice(&first.wrapping_add(offset as u32).to_be_bytes());
            if index + 1 < count {
                segment[t + 13] &= !FIN_PSH;
            }
            if self.ecn && index > 0 {
                segment[t + 13] &= !CWR;
            }
            (t + 16, PROTOCOL_TCP)
        } else {
            segment[self.transport + 4..self.transport + 6].copy_from_slice(&transport_bytes.to_be_bytes());
            (self.transport + 6, PROTOCOL_UDP)
        };
        let addresses = if self.v6 { self.ip + 8..self.ip + 40 } else { self.ip + 12..self.ip + 20 };
        segment[field..field + 2].fill(0);
        let pseudo =
            Sum::of(&segment[addresses]).and(Sum::of_u16(protocol.into())).and(Sum::of_u16(transport_bytes));
        let sum = pseudo.and(Sum::of(&segment[self.transport..])).checksum();
        // Zero means "no checksum" in UDP; its other form is written instead.
        let sum = if sum == 0 { 0xffff } else { sum };
        segment[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn super_frame(
        segmentation: u8,
        segment_bytes: u16,
        checksum_start: u16,
        checksum_offset: u16,
    ) -> Offload {
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
        let (transport, addresses) = if ethertype == EtherType::Ipv6 {
            (ip + 40, ip + 8..ip + 40)
        } else {
            (ip + 20, ip + 12..ip + 20)
        };
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
    fn ipv6_options_are_cut_and_tunnels_refused() {
        let inside = |next: u8, header: &[u8]| {
            let mut frame = tcp6(&[7; 1700]);
            frame[20] = next;
            frame.splice(54..54, header.iter().copied());
            let transport = 54 + header.len() as u16;
            cut(frame, super_frame(SEGMENT_TCP6, 1000, transport, 16), 0)
        };
        let options = [[60, 0, 1, 4, 0, 0, 0, 0], [6, 0, 1, 4, 0, 0, 0, 0]].concat();
        assert_eq!(inside(0, &options).map(|all| all.len()), Ok(2));
        // IPv6 in IPv6: the inner header's length would be that of all segments together.
        let inner = tcp6(&[])[14..54].to_vec();
        assert_eq!(inside(41, &inner), Err(UnsupportedError));
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
        sctp[23] = PROTOCOL_SCTP;
        assert_eq!(cut(sctp, super_frame(0, 0, 34, 8), 0), Err(UnsupportedError));
        assert_eq!(cut(vec![0; 14], super_frame(SEGMENT_TCP4, 1000, 34, 16), 0), Err(UnsupportedError));
    }
}

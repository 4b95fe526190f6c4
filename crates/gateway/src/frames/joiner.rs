//! Joins consecutive TCP segments to super-frames, the reverse of [`crate::frames::offload`].
//!
//! Under load the segments of a bulk transfer leave the tunnel back to back. Sent one by one, each
//! costs a system call and a pass through the kernel. As one super-frame (`packet(7)`,
//! PACKET_VNET_HDR) they cost about as much as one segment, and the kernel or the card cuts them
//! again. No segment waits for a later one: held segments are sent at the end of the turn that
//! received them.
//!
//! Segments are joined only if cutting restores each octet: TCP (RFC 9293) in IPv4 without options
//! (RFC 791) or IPv6 without extension headers (RFC 8200), with equal headers apart from lengths,
//! consecutive sequence numbers, consecutive identifications and checksums. The checksums must be
//! right, as a super-frame would hide a wrong one. (A checksum of zero may return as all ones,
//! which is the same number.)

use std::ops::Range;

use antedate_wire::checksum::Sum;
use antedate_wire::ethernet::HEADER_LEN as ETHERNET;

use crate::frames::offload::{PROTOCOL_TCP, SEGMENT_TCP4, SEGMENT_TCP6, half};
use crate::sys::packet::Offload;

/// The longest frame whose IP packet has a length of 16 bits.
const MAX_SUPER_FRAME_LEN: usize = ETHERNET + 65_535;
/// The shortest payload that is joined. Joining shorter ones gains nothing.
const WORTH_JOINING: usize = 256;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// A segment that may be joined to others.
#[derive(Debug, Clone, Copy)]
struct Segment {
    v6: bool,
    /// Offset of the TCP header, then of the payload.
    transport: usize,
    payload: usize,
    len: usize,
    sequence: u32,
    identification: u16,
    push: bool,
}

fn word(frame: &[u8], at: usize) -> Option<u32> {
    frame.get(at..)?.first_chunk().map(|octets| u32::from_be_bytes(*octets))
}

/// The address fields of the IP header.
const fn addresses(v6: bool) -> Range<usize> {
    if v6 { ETHERNET + 8..ETHERNET + 40 } else { ETHERNET + 12..ETHERNET + 20 }
}

/// The sum over TCP's pseudo header.
fn pseudo(frame: &[u8], v6: bool, tcp_octets: usize) -> Sum {
    Sum::of(&frame[addresses(v6)]).and(Sum::of_u16(PROTOCOL_TCP.into())).and(Sum::of_u16(tcp_octets as u16))
}

impl Segment {
    /// Parses a frame. `None` if it cannot be joined.
    #[inline]
    fn read(frame: &[u8]) -> Option<Self> {
        if frame.len() > MAX_SUPER_FRAME_LEN {
            return None;
        }
        let ip = frame.len().checked_sub(ETHERNET)?;
        let (v6, transport) = match half(frame, 12)? {
            0x0800 => {
                let whole = frame.get(ETHERNET) == Some(&0x45) && usize::from(half(frame, 16)?) == ip;
                let fragment = half(frame, 20)? & !0x4000;
                if !whole || fragment != 0 || *frame.get(23)? != PROTOCOL_TCP {
                    return None;
                }
                (false, ETHERNET + 20)
            }
            0x86dd => {
                let whole = usize::from(half(frame, 18)?) + 40 == ip;
                if !whole || frame.get(ETHERNET)? >> 4 != 6 || *frame.get(20)? != PROTOCOL_TCP {
                    return None;
                }
                (true, ETHERNET + 40)
            }
            _ => return None,
        };
        let (words, flags) = (frame.get(transport + 12)? >> 4, *frame.get(transport + 13)?);
        let payload = transport + usize::from(words) * 4;
        if words < 5 || flags & !PSH != ACK || payload + WORTH_JOINING > frame.len() {
            return None;
        }
        Some(Self {
            v6,
            transport,
            payload,
            len: frame.len() - payload,
            sequence: word(frame, transport + 4)?,
            identification: if v6 { 0 } else { half(frame, 18)? },
            push: flags & PSH != 0,
        })
    }

    /// Whether its checksums are right.
    #[inline]
    fn is_sound(&self, frame: &[u8]) -> bool {
        let tcp = pseudo(frame, self.v6, frame.len() - self.transport).and(Sum::of(&frame[self.transport..]));
        tcp.is_consistent() && (self.v6 || Sum::of(&frame[ETHERNET..self.transport]).is_consistent())
    }

    /// Whether two segments agree in the header fields that a super-frame has once.
    #[inline]
    fn is_like(&self, first: &[u8], frame: &[u8]) -> bool {
        let same = |range: Range<usize>| first[range.clone()] == frame[range];
        let network = if self.v6 {
            same(0..18) && same(20..self.transport)
        } else {
            same(0..16) && same(20..24) && same(26..self.transport)
        };
        let t = self.transport;
        // The flags were checked, apart from PSH, which ends a super-frame.
        network && same(t..t + 4) && same(t + 8..t + 13) && same(t + 14..t + 16) && same(t + 18..self.payload)
    }
}

/// The held segments.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: Segment,
    count: usize,
    /// Sequence number and identification of the next segment.
    next: (u32, u16),
    /// Whether one more segment may follow: the last one was neither short nor pushed.
    open: bool,
}

/// A buffer that joins segments.
#[derive(Debug)]
pub struct Joiner {
    octets: Box<[u8]>,
    len: usize,
    run: Option<Run>,
}

/// The output of a [`Joiner`].
#[derive(Debug)]
pub struct Joined<'a> {
    /// The frame. A super-frame if `count` is greater than 1.
    pub frame: &'a mut [u8],
    /// Number of segments.
    pub count: usize,
    /// The offload settings to cut it again.
    pub offload: Offload,
    /// Octets of all headers.
    pub headers: usize,
}

impl Joiner {
    /// An empty joiner.
    #[must_use]
    pub fn new() -> Self {
        Self { octets: vec![0; MAX_SUPER_FRAME_LEN].into(), len: 0, run: None }
    }

    /// Whether no segment is held.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.run.is_none()
    }

    /// Copies a frame if it starts or continues a super-frame. If not, the caller sends what
    /// [`Self::take`] returns and tries again, and sends the frame itself if that fails too.
    #[inline]
    pub fn add(&mut self, frame: &[u8]) -> bool {
        let Some(segment) = Segment::read(frame) else { return false };
        let Some(run) = &mut self.run else {
            if segment.push || !segment.is_sound(frame) {
                return false;
            }
            self.octets[..frame.len()].copy_from_slice(frame);
            self.len = frame.len();
            self.run = Some(Run { first: segment, count: 1, next: following(&segment), open: true });
            return true;
        };
        let end = self.len + segment.len;
        let continues = run.open
            && (segment.v6, segment.payload) == (run.first.v6, run.first.payload)
            && (segment.sequence, segment.identification) == run.next
            && segment.len <= run.first.len
            && end <= MAX_SUPER_FRAME_LEN
            && segment.is_like(&self.octets, frame)
            && segment.is_sound(frame);
        if continues {
            self.octets[self.len..end].copy_from_slice(&frame[segment.payload..]);
            self.len = end;
            run.count += 1;
            run.next = following(&segment);
            run.open = segment.len == run.first.len && !segment.push;
            if segment.push {
                self.octets[segment.transport + 13] |= PSH;
            }
        }
        continues
    }

    /// Takes the held segments, if any.
    #[inline]
    pub fn take(&mut self) -> Option<Joined<'_>> {
        let Run { first, count, .. } = self.run.take()?;
        let frame = &mut self.octets[..self.len];
        if count > 1 {
            finish(frame, &first);
        }
        let offload = Offload {
            needs_checksum: count > 1,
            segmentation: match (count, first.v6) {
                (1, _) => 0,
                (_, false) => SEGMENT_TCP4,
                (_, true) => SEGMENT_TCP6,
            },
            segment_bytes: first.len as u16,
            checksum_start: first.transport as u16,
            checksum_offset: 16,
        };
        Some(Joined { frame, count, offload, headers: first.payload })
    }
}

impl Default for Joiner {
    fn default() -> Self {
        Self::new()
    }
}

/// Sequence number and identification of the segment after this one.
fn following(segment: &Segment) -> (u32, u16) {
    let identification = if segment.v6 { 0 } else { segment.identification.wrapping_add(1) };
    (segment.sequence.wrapping_add(segment.len as u32), identification)
}

/// Fits the first segment's headers to the super-frame: lengths, IPv4's checksum, and the pseudo
/// header's sum in TCP's checksum.
fn finish(frame: &mut [u8], first: &Segment) {
    let ip = frame.len() - ETHERNET;
    if first.v6 {
        frame[18..20].copy_from_slice(&((ip - 40) as u16).to_be_bytes());
    } else {
        frame[16..18].copy_from_slice(&(ip as u16).to_be_bytes());
        frame[24..26].fill(0);
        let sum = Sum::of(&frame[ETHERNET..first.transport]).checksum();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    let sum = pseudo(frame, first.v6, frame.len() - first.transport).number();
    frame[first.transport + 16..first.transport + 18].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;

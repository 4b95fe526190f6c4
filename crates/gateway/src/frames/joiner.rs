//! Joins TCP segments that continue one another into super-frames, the way back of [`crate::frames::offload`].
//!
//! Under load the segments of a bulk transfer come out of the tunnel one behind the other. Given to the port one by one, each
//! costs a system call and a way through the kernel; as one super-frame (`packet(7)`, PACKET_VNET_HDR) all of them cost
//! about as much as one, and the kernel or the card cuts them again where the wire begins. Nothing waits for a segment that is
//! not there yet: what is held is given out at the end of the turn that took it.
//!
//! Joined is only what cutting gives back octet by octet: segments (RFC 9293) of IPv4 packets without options (RFC 791) or
//! of IPv6 packets without extension headers (RFC 8200) that are equal but for lengths, consecutive sequence numbers,
//! consecutive identifications and checksums, which must be right: a super-frame would hide a wrong one. (A checksum of zero may come back as
//! all ones, which is the same number.)

use std::ops::Range;

use antedate_wire::checksum::Sum;

use crate::frames::offload::{PROTOCOL_TCP, SEGMENT_TCP4, SEGMENT_TCP6, half};
use crate::sys::packet::Offload;

const ETHERNET: usize = 14;
/// The longest frame whose IP packet still has a length in 16 bits.
const LONGEST: usize = ETHERNET + 65_535;
/// Shorter payloads are not worth it.
const WORTH_JOINING: usize = 256;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// A segment that may be joined to others.
#[derive(Debug, Clone, Copy)]
struct Segment {
    v6: bool,
    /// Where the TCP header begins, and the payload.
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

/// Where the addresses of an IP packet in a frame are.
const fn addresses(v6: bool) -> Range<usize> {
    if v6 { ETHERNET + 8..ETHERNET + 40 } else { ETHERNET + 12..ETHERNET + 20 }
}

/// The sum over TCP's pseudo header.
fn pseudo(frame: &[u8], v6: bool, tcp_octets: usize) -> Sum {
    Sum::of(&frame[addresses(v6)]).and(Sum::of_u16(PROTOCOL_TCP.into())).and(Sum::of_u16(tcp_octets as u16))
}

impl Segment {
    /// Reads a frame; nothing if it is not to be joined.
    #[inline]
    fn read(frame: &[u8]) -> Option<Self> {
        if frame.len() > LONGEST {
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

    /// Whether what must be equal in the headers of two segments of a super-frame is.
    #[inline]
    fn is_like(&self, first: &[u8], frame: &[u8]) -> bool {
        let same = |range: Range<usize>| first[range.clone()] == frame[range];
        let network = if self.v6 {
            same(0..18) && same(20..self.transport)
        } else {
            same(0..16) && same(20..24) && same(26..self.transport)
        };
        let t = self.transport;
        // Flags were looked at, but for PSH, which ends a super-frame.
        network && same(t..t + 4) && same(t + 8..t + 13) && same(t + 14..t + 16) && same(t + 18..self.payload)
    }
}

/// What is held.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: Segment,
    count: usize,
    /// The sequence number and the identification of the segment that would continue it.
    next: (u32, u16),
    /// Whether one more may be joined: the last one was neither short nor pushed.
    open: bool,
}

/// Frames that are joined.
#[derive(Debug)]
pub struct Joiner {
    octets: Box<[u8]>,
    len: usize,
    run: Option<Run>,
}

/// What a [`Joiner`] gives out.
#[derive(Debug)]
pub struct Joined<'a> {
    /// The frame, which is a super-frame if `count` is greater than 1.
    pub frame: &'a mut [u8],
    /// Of how many frames.
    pub count: usize,
    /// How it is to be cut again.
    pub offload: Offload,
    /// Octets of all headers.
    pub headers: usize,
}

impl Joiner {
    /// One that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { octets: vec![0; LONGEST].into(), len: 0, run: None }
    }

    /// Takes a copy of a frame if it continues what is held, or begins it. If not, [`Self::take`] what is held and ask again,
    /// and send the frame itself if it is not taken then either.
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
            && end <= LONGEST
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

    /// Gives out what is held, if anything.
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

/// The sequence number and the identification of the segment behind this one.
fn following(segment: &Segment) -> (u32, u16) {
    let identification = if segment.v6 { 0 } else { segment.identification.wrapping_add(1) };
    (segment.sequence.wrapping_add(segment.len as u32), identification)
}

/// Makes the headers of the first segment those of the whole: lengths, IPv4's checksum, and the sum over the pseudo header in
/// TCP's.
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

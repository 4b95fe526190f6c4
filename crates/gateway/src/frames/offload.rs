//! Completes the work that the sender's network stack left to the hardware: checksums, and the
//! segmentation of super-frames.
//!
//! Virtual ports, and cards with offloads, hand a raw socket frames without a TCP or UDP checksum,
//! and super-frames far longer than the MTU, also in tunnels of the machines (`layers`). Both must
//! be completed before the frame is encrypted.
//! Follows RFC 9293 (TCP), RFC 768 (UDP), RFC 1071 (checksum) and the virtio specification, section
//! 5.1.6.

mod layers;

use antedate_wire::checksum::{Sum, complete_partial};

use crate::sys::outbox::SEGMENT_UDP;
use crate::sys::packet::{Offload, Received};
use layers::{Layers, not_zero, put};

pub(crate) const PROTOCOL_TCP: u8 = 6;
pub(crate) const PROTOCOL_UDP: u8 = 17;
/// The offset of SCTP's CRC. No other protocol has a checksum there.
const CRC_OFFSET: u16 = 8;

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
    let Received { space, place, offload, shifted, late, arrived, by_second } = received;
    let frame = space.get_mut(place.clone()).unwrap_or_default();
    if offload.segmentation != 0 {
        return Segments::new(frame, offload, shifted)?.each(frame, scratch, pass);
    }
    complete_checksum(frame, offload, shifted)?;
    pass(Received { space, place, offload: Offload::default(), shifted, late, arrived, by_second });
    Ok(1)
}

/// Completes a checksum whose field holds the sum over the pseudo header.
fn complete_checksum(frame: &mut [u8], offload: Offload, shifted: usize) -> Result<(), UnsupportedError> {
    let start = usize::from(offload.checksum_start) + shifted;
    if offload.checksum_offset == CRC_OFFSET || start < 14 {
        return Err(UnsupportedError);
    }
    complete_partial(frame, start, offload.checksum_offset.into()).map_err(|_| UnsupportedError)
}

pub(crate) fn half(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

/// How to cut a super-frame.
#[derive(Debug, Clone, Copy)]
struct Segments {
    /// The headers before the transport header.
    layers: Layers,
    /// Offset of the innermost TCP or UDP header, then of the payload.
    transport: usize,
    payload: usize,
    tcp: bool,
    ecn: bool,
    size: usize,
}

impl Segments {
    fn new(frame: &[u8], offload: Offload, shifted: usize) -> Result<Self, UnsupportedError> {
        let transport = usize::from(offload.checksum_start) + shifted;
        let size = usize::from(offload.segment_bytes);
        let (tcp, v6) = match offload.segmentation & !SEGMENT_ECN {
            SEGMENT_TCP4 => (true, Some(false)),
            SEGMENT_TCP6 => (true, Some(true)),
            SEGMENT_UDP => (false, None),
            _ => return Err(UnsupportedError),
        };
        let protocol = if tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
        let layers = Layers::find(frame, protocol, transport).ok_or(UnsupportedError)?;
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
        let versions_agree = v6.is_none_or(|v6| v6 == layers.is_v6());
        if size == 0 || !versions_agree || payload > frame.len() || frame.len() - payload > most * size {
            return Err(UnsupportedError);
        }
        let ecn = offload.segmentation & SEGMENT_ECN != 0;
        Ok(Self { layers, transport, payload, tcp, ecn, size })
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
                arrived: 0,
                by_second: false,
            });
            done += piece.len();
        }
        Ok(count)
    }

    /// Fits the copied headers to segment `index` of `count`, whose payload starts at `offset`.
    fn number(self, segment: &mut [u8], index: usize, count: usize, offset: usize) {
        let (t, len) = (self.transport, (segment.len() - self.transport) as u16);
        self.layers.number(segment, index, |segment| {
            let (field, protocol) = if self.tcp {
                let first =
                    u32::from_be_bytes([segment[t + 4], segment[t + 5], segment[t + 6], segment[t + 7]]);
                segment[t + 4..t + 8].copy_from_slice(&first.wrapping_add(offset as u32).to_be_bytes());
                if index + 1 < count {
                    segment[t + 13] &= !FIN_PSH;
                }
                if self.ecn && index > 0 {
                    segment[t + 13] &= !CWR;
                }
                (t + 16, PROTOCOL_TCP)
            } else {
                put(segment, t + 4, len);
                (t + 6, PROTOCOL_UDP)
            };
            put(segment, field, 0);
            let sum = self.layers.pseudo(segment, protocol, len).and(Sum::of(&segment[t..]));
            put(segment, field, not_zero(sum.checksum()));
        });
    }
}

#[cfg(test)]
mod tests;

//! A round-trip meter and its responder for benchmarks, raw layer-2 frames one at a time, and a
//! flood of them.
//!
//! ```text
//! |  destination, source, EtherType       14
//! |  FrameID                               2   only as Profinet
//! |  magic                                 4   "PING" there, "PONG" back
//! |  sequence                              8
//! |  stamp                                 8   CLOCK_MONOTONIC of the sender
//! |  filling                               n
//! |  cycle counter, data, transfer status  4   only as Profinet
//! ```
//!
//! The stamp is written just before the frame goes to the kernel and compared when the answer is
//! back in user space, so a round trip includes both stations' system calls and wake-ups. Compare
//! only numbers of the same meter in the same run.

mod echo;
mod flood;
mod ping;

use antedate_wire::ethernet::{EtherType, HEADER_LEN};
use antedate_wire::profinet::{self, CyclicRepr, DataStatus};
use antedate_wire::{EthernetAddress, EthernetRepr};
use serde::{Deserialize, Serialize};

pub use echo::{Options as EchoOptions, Report as EchoReport, run as run_echo};
pub use flood::{Options as FloodOptions, Report as FloodReport, run as run_flood};
pub use ping::{Options as PingOptions, Report as PingReport, run as run_ping};

use crate::station::cyclic::{INPUT_FRAME_ID, OUTPUT_FRAME_ID};

/// The shortest frame of the meter.
pub const MIN_FRAME_LEN: usize = 60;
/// The longest: 1500 octets behind the header.
pub const MAX_FRAME_LEN: usize = 1514;

/// Outer form of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// EtherType 0x88B5, "local experimental 1" of IEEE 802.
    #[default]
    Experimental,
    /// Cyclic Profinet data, which a gateway's policy lets pass; up to 1460 octets.
    Profinet,
}

const EXPERIMENTAL: u16 = 0x88b5;
const REQUEST: [u8; 4] = *b"PING";
const ANSWER: [u8; 4] = *b"PONG";
const BODY_LEN: usize = 20;

impl Kind {
    fn ethertype(self) -> EtherType {
        match self {
            Self::Experimental => EtherType::from_number(EXPERIMENTAL),
            Self::Profinet => EtherType::Profinet,
        }
    }

    fn body(self) -> std::ops::Range<usize> {
        let start = HEADER_LEN + if self == Self::Profinet { 2 } else { 0 };
        start..start + BODY_LEN
    }

    /// Longest frame of this kind.
    #[must_use]
    pub fn max_frame_len(self) -> usize {
        match self {
            Self::Experimental => MAX_FRAME_LEN,
            Self::Profinet => crate::station::cyclic::MAX_FRAME_LEN,
        }
    }

    /// A request without sequence and stamp.
    fn request(self, from: EthernetAddress, to: EthernetAddress, len: usize) -> Option<Vec<u8>> {
        let mut frame = vec![0x55; len];
        EthernetRepr { dst_addr: to, src_addr: from, ethertype: self.ethertype() }.emit(&mut frame).ok()?;
        if self == Self::Profinet {
            let repr = CyclicRepr {
                frame_id: OUTPUT_FRAME_ID,
                c_sdu_len: len.checked_sub(HEADER_LEN + profinet::OVERHEAD)?,
                cycle_counter: 0,
                data_status: DataStatus::OPERATIONAL,
                transfer_status: 0,
            };
            repr.emit(&mut frame[HEADER_LEN..]).ok()?;
        }
        frame.get_mut(self.body())?.get_mut(..4)?.copy_from_slice(&REQUEST);
        Some(frame)
    }

    /// Turns a request into its answer in place; false for other frames.
    fn answer(self, frame: &mut [u8]) -> bool {
        let Some(magic) = frame.get_mut(self.body()).and_then(|body| body.get_mut(..4)) else { return false };
        if *magic != REQUEST {
            return false;
        }
        magic.copy_from_slice(&ANSWER);
        let (destination, source) = frame[..12].split_at_mut(6);
        destination.swap_with_slice(source);
        if self == Self::Profinet {
            frame[HEADER_LEN..HEADER_LEN + 2].copy_from_slice(&INPUT_FRAME_ID.0.to_be_bytes());
        }
        true
    }

    fn stamp(self, frame: &mut [u8], sequence: u64, now_ns: u64) {
        if let Some(body) = frame.get_mut(self.body()) {
            body[4..12].copy_from_slice(&sequence.to_be_bytes());
            body[12..20].copy_from_slice(&now_ns.to_be_bytes());
        }
    }

    /// Sequence and stamp of an answer.
    fn read(self, frame: &[u8]) -> Option<(u64, u64)> {
        let body: &[u8; BODY_LEN] = frame.get(self.body())?.try_into().ok()?;
        let number = |octets: &[u8]| octets.iter().fold(0, |value, &octet| value << 8 | u64::from(octet));
        (body[..4] == ANSWER).then(|| (number(&body[4..12]), number(&body[12..])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_returns_sequence_and_stamp() {
        for (kind, len) in [(Kind::Experimental, 60), (Kind::Experimental, 1514), (Kind::Profinet, 64)] {
            let (from, to) = (EthernetAddress([1; 6]), EthernetAddress([2; 6]));
            let mut frame = kind.request(from, to, len).unwrap();
            kind.stamp(&mut frame, 7, 99);
            assert_eq!(kind.read(&frame), None, "a request is no answer");
            assert!(kind.answer(&mut frame));
            assert!(!kind.answer(&mut frame), "an answer is not answered");
            assert_eq!(kind.read(&frame), Some((7, 99)));
            assert_eq!(frame[..6], [1; 6]);
            assert_eq!(frame.len(), len);
        }
    }

    #[test]
    fn short_or_strange_frames_are_neither() {
        for len in 0..60 {
            let mut frame = vec![0x55; len];
            assert!(!Kind::Profinet.answer(&mut frame));
            assert_eq!(Kind::Experimental.read(&frame), None);
        }
    }
}

//! Frames at a port: policy and counters, length, flow, sending.

use std::io;

use antedate_wire::ethernet::HEADER_LEN as HEADER;
use antedate_wire::vlan::{TAG_LEN as VLAN_TAG, Tag};

use crate::config::policy::Class;
use crate::frames::gate::{Excess, Gate, Way};
use crate::run::counters::PathCounters;
use crate::sys::age::OVERDUE;
use crate::sys::sender::{Carries, Sender, has_no_link};
use crate::sys::thread;
use crate::sys::warm::hot;

/// The flow of a frame, for the statistics of arrivals: a hash of source address, EtherType and the
/// next two octets (PROFINET's FrameID), after a VLAN tag. Later octets may change from frame to
/// frame.
#[inline]
pub(crate) fn flow(frame: &[u8]) -> u32 {
    let word =
        |at: usize| frame.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u64::from_ne_bytes);
    let behind = if frame.get(12..14) == Some(&[0x81, 0x00]) { 12 } else { 8 };
    let mixed = (word(6) ^ word(behind).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

/// The class of a frame, if the policy passes it. Counts the decision, and watches its flow. A
/// cyclic frame that is `late` does not pass. `at`: its time, or 0 if nobody has read the clock.
#[inline]
pub(crate) fn admit(
    gate: &Gate,
    way: Way,
    counters: &PathCounters,
    (late, at): (bool, u64),
    frame: &[u8],
) -> Option<Class> {
    hot(|| {
        let verdict = gate.decide(way, frame);
        if late && verdict.passes && verdict.class.is_cyclic() {
            counters.stale.count();
            return None;
        }
        if let Some(rule) = verdict.rule.and_then(|rule| gate.hits(way).get(rule)) {
            rule.count();
        }
        let excess = if verdict.passes {
            gate.excess(way, &verdict, frame, || if at == 0 { thread::now() } else { at })
        } else {
            None
        };
        if let Some(excess) = excess {
            exceeded(counters, excess, frame);
            return None;
        }
        let classes = if verdict.passes { &counters.passed } else { &counters.refused };
        classes[verdict.class.index()].count();
        if verdict.passes && verdict.class.is_cyclic() {
            counters.flows.hear(at, verdict.class, frame);
        }
        verdict.passes.then_some(verdict.class)
    })
}

/// Counts a frame above the bound of an overlay, which has a counter of its own too, and notes its
/// source for the log.
#[cold]
pub(crate) fn stormed(counters: &PathCounters, frame: &[u8]) {
    counters.storm_limit.count();
    counters.flooder.set(source_bits(frame));
}

/// Counts a frame above a bound, and notes its source for the log. Its sender chose it.
#[cold]
#[inline(never)]
fn exceeded(counters: &PathCounters, excess: Excess, frame: &[u8]) {
    match excess {
        Excess::Rule => &counters.over_limit,
        Excess::Broadcast => &counters.storm_broadcast,
        Excess::Multicast => &counters.storm_multicast,
        Excess::Unknown => &counters.storm_unknown,
    }
    .count();
    counters.flooder.set(source_bits(frame));
}

/// The source address of a frame as a number.
pub(crate) fn source_bits(frame: &[u8]) -> u64 {
    let source = frame.get(6..12).unwrap_or_default();
    source.iter().fold(0, |bits, octet| bits << 8 | u64::from(*octet))
}

/// Whether a frame, without its VLAN tag, is longer than this MTU.
#[inline]
pub(crate) fn exceeds(frame: &[u8], mtu: usize) -> bool {
    let tagged = matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
    frame.len() > mtu + HEADER + if tagged { VLAN_TAG } else { 0 }
}

/// Sends a frame and counts it.
#[inline]
pub(crate) fn put(counters: &PathCounters, to: &Sender, frame: &[u8]) {
    put_tagged(counters, to, None, frame);
}

/// As [`put`], with a VLAN tag behind the addresses.
#[inline]
pub(crate) fn put_tagged(counters: &PathCounters, to: &Sender, tag: Option<Tag>, frame: &[u8]) {
    match send_tagged(to, to.carries(), tag, frame) {
        Ok(()) => {
            counters.sent.count();
            counters.octets_sent.add(frame.len() as u64);
        }
        Err(error) => not_sent(counters, &error),
    }
}

/// As [`put_tagged`], but where frames leave by an AF_XDP socket, one that is not `urgent` leaves
/// with the next ones, and is counted by [`settle`].
#[inline]
pub(crate) fn put_patient(
    counters: &PathCounters,
    to: &Sender,
    urgent: bool,
    tag: Option<Tag>,
    frame: &[u8],
) {
    if urgent || !to.has_xdp() {
        return put_tagged(counters, to, tag, frame);
    }
    match to.hold(tag.map(|tag| tag.octets()), frame) {
        Ok(true) => {
            counters.sent.count();
            counters.octets_sent.add(frame.len() as u64);
        }
        Ok(false) => {}
        Err(error) => not_sent(counters, &error),
    }
}

/// Sends the held frames, and counts them. To be called before the thread waits.
#[inline]
pub(crate) fn settle(counters: &PathCounters, to: &Sender) {
    let Some(tally) = to.settle() else { return };
    if tally.sent > 0 {
        counters.sent.add(tally.sent);
        counters.octets_sent.add(tally.octets);
    }
    for _ in 0..tally.lost {
        not_sent(counters, &io::Error::from_raw_os_error(tally.error));
    }
}

/// Sends a frame by these of two interfaces, with a VLAN tag behind the addresses.
#[inline]
pub(crate) fn send_tagged(to: &Sender, by: Carries, tag: Option<Tag>, frame: &[u8]) -> io::Result<()> {
    match tag {
        None => to.send_by(by, frame),
        Some(tag) => to.send_tagged(by, tag.octets(), frame),
    }
}

#[cold]
pub(crate) fn not_sent(counters: &PathCounters, error: &io::Error) {
    let counter = match error.raw_os_error() {
        Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM) => &counters.queue_full,
        _ if has_no_link(error) => &counters.link_down,
        Some(libc::EMSGSIZE) => &counters.too_long,
        Some(OVERDUE) => &counters.stale,
        _ => &counters.send_failed,
    };
    counter.count();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_ignores_the_payload() {
        let frame = |source: u8, id: u8, data: u8, tag: &[u8]| {
            let head =
                [&[1, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, source][..], tag, &[0x88, 0x92, 0x80, id]].concat();
            [&head[..], &[data; 40]].concat()
        };
        for tag in [&[][..], &[0x81, 0x00, 0xc0, 0x00]] {
            let one = flow(&frame(1, 1, 0, tag));
            assert_eq!(one, flow(&frame(1, 1, 0xff, tag)));
            assert_ne!(one, flow(&frame(2, 1, 0, tag)));
            assert_ne!(one, flow(&frame(1, 2, 0, tag)));
        }
    }
}

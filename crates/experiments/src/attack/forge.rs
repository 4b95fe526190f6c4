//! The frames of the attacks, made of recorded ones.

use antedate_channel::mka::Cak;
use antedate_lab::emulator::schedule::Random;
use antedate_wire::macsec::Mpdu;
use antedate_wire::mka::{self, DistributedSak};

/// Octets of the addresses, and of addresses and SecTAG with its SCI.
const ADDRESSES: usize = 12;
const HEAD: usize = ADDRESSES + 16;
/// Offsets of the short length, of the packet number and of the SCI.
const SHORT_LENGTH: usize = 15;
const PN: std::ops::Range<usize> = 16..20;
const SCI: std::ops::Range<usize> = 20..28;
/// A packet number that is far ahead of all that were sent.
const AHEAD: u32 = 1 << 24;
/// Offsets in an MKPDU: key server priority, flags, member identifier.
const PRIORITY: usize = 19;
const FLAGS: usize = 20;
const MEMBER: usize = 30;
/// Profinet's EtherType, and the frame ID of DCP Get and Set.
const PROFINET: [u8; 2] = [0x88, 0x92];
const DCP_GET_SET: [u8; 2] = [0xfe, 0xfd];

/// What an attacker on the wire has recorded.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// Protected frames, in order.
    pub(crate) frames: Vec<Vec<u8>>,
    /// MKPDUs.
    pub(crate) mkpdus: Vec<Vec<u8>>,
    /// The last MKPDU of gateway B.
    pub(crate) victims: Option<Vec<u8>>,
    /// MKPDUs with a key for the members.
    pub(crate) distributions: Vec<Vec<u8>>,
    /// The key of key agreement, for attackers who have it.
    pub(crate) cak: Option<Cak>,
}

impl Recorded {
    /// Keeps a frame that was heard.
    pub(super) fn keep(&mut self, frame: &[u8]) {
        if Mpdu::parse(frame).is_ok_and(|mpdu| mpdu.tag.sci.is_some()) {
            self.frames.push(frame.to_vec());
        } else if frame.get(12..14) == Some(&[0x88, 0x8e]) {
            let repr = mka::Repr::parse(frame).map(|parsed| parsed.repr);
            if repr.is_ok_and(|repr| matches!(repr.distributed_sak, Some(DistributedSak::Sak(_)))) {
                self.distributions.push(frame.to_vec());
            }
            self.mkpdus.push(frame.to_vec());
        }
    }

    /// Keeps an MKPDU of gateway B that was heard.
    pub(super) fn keep_victims(&mut self, frame: &[u8]) {
        if frame.get(12..14) == Some(&[0x88, 0x8e]) {
            self.victims = Some(frame.to_vec());
        }
    }

    /// The frames with packet numbers that are not used yet, each changed.
    fn ahead(&self, change: impl Fn(usize, &mut Vec<u8>)) -> Vec<Vec<u8>> {
        let mut frames = self.frames.clone();
        for (at, frame) in frames.iter_mut().enumerate() {
            frame[PN].copy_from_slice(&(AHEAD + at as u32).to_be_bytes());
            change(at, frame);
        }
        frames
    }

    /// The addresses of the machines.
    fn addresses(&self) -> &[u8] {
        self.frames.first().and_then(|frame| frame.get(..ADDRESSES)).unwrap_or(&[2; ADDRESSES])
    }

    /// An unprotected frame between the machines.
    fn plain(&self, ethertype: [u8; 2], content: &[u8]) -> Vec<u8> {
        let mut frame = [self.addresses(), &ethertype, content].concat();
        frame.resize(frame.len().max(64), 0);
        frame
    }
}

pub(crate) fn replay(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    recorded.frames.clone()
}

pub(super) fn reversed(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    recorded.frames.iter().rev().cloned().collect()
}

/// The head of each frame before the secure data of the next one.
pub(crate) fn spliced(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    let next = |at: usize| recorded.frames.get(at + 1).or(recorded.frames.first());
    recorded.ahead(|at, frame| {
        if let Some(other) = next(at).and_then(|other| other.get(HEAD..)) {
            frame.truncate(HEAD);
            frame.extend_from_slice(other);
        }
    })
}

pub(super) fn truncated(recorded: &Recorded, random: &mut Random) -> Vec<Vec<u8>> {
    let cuts: Vec<usize> = recorded.frames.iter().map(|_| 1 + random.below(60)).collect();
    recorded.ahead(|at, frame| frame.truncate(frame.len().saturating_sub(cuts[at]).max(HEAD)))
}

pub(super) fn plaintext(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    (0..200_u8).map(|number| recorded.plain(PROFINET, &[0x80, 1, number])).collect()
}

/// Integrity only: the flags E and C are cleared.
pub(super) fn unencrypted(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    recorded.ahead(|_, frame| frame[14] &= !0x0c)
}

/// Fragments, which nobody agreed on.
pub(super) fn fragments(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    recorded.ahead(|at, frame| frame[SHORT_LENGTH] |= if at % 2 == 0 { 0x80 } else { 0x40 })
}

pub(super) fn other_association(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    recorded.ahead(|at, frame| frame[14] ^= 1 + (at % 3) as u8)
}

/// Each frame on a secure channel of its own.
pub(super) fn channels(recorded: &Recorded, random: &mut Random) -> Vec<Vec<u8>> {
    let channels: Vec<u64> = recorded.frames.iter().map(|_| random.draw()).collect();
    recorded.ahead(|at, frame| frame[SCI].copy_from_slice(&channels[at].to_be_bytes()))
}

/// Stacked VLAN tags of all kinds before unprotected and before recorded frames.
pub(super) fn stacked_tags(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    let plain = recorded.plain(PROFINET, &[0x80, 1]);
    let kinds = [[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]];
    let all = kinds.iter().flat_map(|outer| kinds.iter().map(move |inner| [outer, inner]));
    let tagged = all.flat_map(|[outer, inner]| {
        [Some(&plain), recorded.frames.first()].into_iter().flatten().map(move |frame| {
            let tags = [&outer[..], &[0, 1], inner, &[0, 2]].concat();
            [&frame[..ADDRESSES], &tags, &frame[ADDRESSES..]].concat()
        })
    });
    tagged.collect()
}

/// LLC with SNAP around Profinet (IEEE 802).
pub(super) fn llc_snap(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    let content = [&[0xaa, 0xaa, 3, 0, 0, 0, 0x88, 0x92, 0x80, 1][..], &[0; 40]].concat();
    vec![recorded.plain([0, content.len() as u8], &content)]
}

/// A protected frame inside the tag of another one.
pub(super) fn nested(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    recorded.ahead(|_, frame| {
        let inner = frame[ADDRESSES..].to_vec();
        frame.splice(HEAD..HEAD, inner);
        frame[SHORT_LENGTH] = 0;
    })
}

/// DCP Set of a name, and the reset to factory settings.
pub(super) fn dcp(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    let request = |block: &[u8]| {
        let head = [4, 0, 1, 2, 3, 4, 0, 0, 0, block.len() as u8];
        recorded.plain(PROFINET, &[&DCP_GET_SET[..], &head, block].concat())
    };
    let name = request(&[2, 2, 0, 6, 0, 0, b'e', b'v', b'i', b'l']);
    let reset = request(&[5, 6, 0, 2, 0, 4]);
    vec![name, reset]
}

/// LLDP with lengths that lie, an end in the middle, and organizations without a name
/// (IEEE 802.1AB-2016, clause 8).
pub(super) fn lldp(recorded: &Recorded, random: &mut Random) -> Vec<Vec<u8>> {
    let chassis = [2, 7, 4, 2, 0, 0, 0, 0, 9];
    let port = [4, 3, 7, b'p', b'1'];
    let ttl = [6, 2, 0, 120];
    let good = [&chassis[..], &port, &ttl].concat();
    let frame = |content: &[u8]| {
        let mut frame = recorded.plain([0x88, 0xcc], content);
        frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
        frame
    };
    let mut frames = vec![
        frame(&[]),
        frame(&[2, 0, 0, 0]),
        frame(&[3, 0xff]),
        frame(&[&good[..], &[0xff, 0xff]].concat()),
        frame(&[&good[..], &[0xfe, 1, 0]].concat()),
        frame(&[&good[..], &good, &good].concat()),
    ];
    for _ in 0..50 {
        let mut changed = good.clone();
        let at = random.below(changed.len());
        changed[at] ^= 1 + random.below(255) as u8;
        frames.push(frame(&changed));
    }
    frames
}

/// Unprotected frames of the shortest length, each from another address.
pub(super) fn addresses(recorded: &Recorded, random: &mut Random) -> Vec<Vec<u8>> {
    let mut frames = vec![recorded.plain(PROFINET, &[0x80, 1]); 4_096];
    for frame in &mut frames {
        frame.truncate(60);
        frame[7..12].copy_from_slice(&random.draw().to_be_bytes()[..5]);
    }
    frames
}

pub(crate) fn old_mkpdus(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    // The last one may be the newest that the gateway has heard.
    let old = recorded.mkpdus.len().saturating_sub(1).max(1);
    recorded.mkpdus.iter().take(old).cloned().collect()
}

fn copies(frames: &[Vec<u8>], count: usize) -> Vec<Vec<u8>> {
    std::iter::repeat_n(frames, count).flatten().cloned().collect()
}

/// MKPDUs with a changed octet, from a stranger without the CAK.
pub(crate) fn forged_mkpdus(recorded: &Recorded, random: &mut Random) -> Vec<Vec<u8>> {
    let mut frames = copies(&recorded.mkpdus, 500);
    for frame in &mut frames {
        let at = MEMBER + random.below(frame.len() - MEMBER);
        frame[at] ^= 1 + random.below(255) as u8;
    }
    frames
}

/// A stranger that claims to be the key server, with the best priority and another identifier.
pub(super) fn key_server(recorded: &Recorded, random: &mut Random) -> Vec<Vec<u8>> {
    let mut frames = copies(&recorded.mkpdus, 20);
    for frame in &mut frames {
        frame[PRIORITY] = 0;
        frame[FLAGS] |= 0x80;
        frame[MEMBER..MEMBER + 8].copy_from_slice(&random.draw().to_be_bytes());
    }
    frames
}

/// Frames of the shortest length that no policy names.
pub(super) fn shortest(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    let mut frame = recorded.plain([0x88, 0xb5], &[]);
    frame.truncate(60);
    vec![frame]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Recorded {
        let mut recorded = Recorded::default();
        for number in 1..4_u8 {
            let mut frame =
                [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &[0x88, 0xe5, 0x2c, 0, 0, 0, 0]].concat();
            frame.push(number);
            frame.extend([2, 0, 0, 0, 0, 9, 0, 1]);
            frame.extend([number; 80]);
            recorded.keep(&frame);
        }
        let mut mkpdu = vec![1, 0x80, 0xc2, 0, 0, 3, 2, 0, 0, 0, 0, 9, 0x88, 0x8e, 3, 5, 0, 90];
        mkpdu.resize(108, 7);
        recorded.keep(&mkpdu);
        recorded
    }

    #[test]
    fn no_forged_frame_is_a_recorded_one() {
        let recorded = recorded();
        assert_eq!((recorded.frames.len(), recorded.mkpdus.len()), (3, 1));
        let genuine: Vec<_> = recorded.frames.iter().chain(&recorded.mkpdus).collect();
        let forgers = [
            spliced,
            truncated,
            plaintext,
            unencrypted,
            fragments,
            other_association,
            channels,
            stacked_tags,
            llc_snap,
            nested,
            dcp,
            lldp,
            addresses,
            forged_mkpdus,
            key_server,
            shortest,
        ];
        for (at, forge) in forgers.into_iter().enumerate() {
            let frames = forge(&recorded, &mut Random::new(at as u64));
            assert!(!frames.is_empty() && frames.iter().all(|frame| frame.len() >= 28), "{at}");
            assert!(frames.iter().all(|frame| !genuine.contains(&frame)), "{at}");
        }
    }

    #[test]
    fn replays_are_the_recorded_frames() {
        let (recorded, random) = (recorded(), &mut Random::new(1));
        assert_eq!(replay(&recorded, random), recorded.frames);
        assert_eq!(reversed(&recorded, random)[0], recorded.frames[2]);
        assert!(old_mkpdus(&recorded, random).iter().all(|frame| *frame == recorded.mkpdus[0]));
    }
}

//! MKPDUs of an attacker who knows the CAK.
//!
//! It is a member then, and can have itself made key server. Even so no number is used twice with a
//! key: a key number, or a key under another name, is taken once.

use antedate_lab::emulator::schedule::Random;
use antedate_wire::Sci;
use antedate_wire::mka::{DistributedSak, MemberIdentifier, Parsed, PeerList, Repr};

use super::forge::Recorded;

/// Message numbers above those of the members.
const AHEAD: u32 = 1_000;
/// Messages of a takeover, with growing numbers.
const MESSAGES: u32 = 2_000;
/// Members that are made up.
const MEMBERS: usize = 500;

fn random_member(random: &mut Random) -> MemberIdentifier {
    let mut member = MemberIdentifier::default();
    member.0.iter_mut().for_each(|octet| *octet = random.draw() as u8);
    member
}

/// Recorded MKPDUs, each changed and protected again.
fn changed<'a>(
    recorded: &'a Recorded,
    change: impl Fn(usize, &mut Repr<'a>) + 'a,
) -> impl Iterator<Item = Vec<u8>> + 'a {
    let cak = recorded.cak.as_ref();
    recorded.mkpdus.iter().enumerate().filter_map(move |(at, frame)| {
        let mut repr = Repr::parse(frame).ok()?.repr;
        change(at, &mut repr);
        protected(&repr, cak?)
    })
}

fn protected(repr: &Repr<'_>, cak: &antedate_channel::mka::Cak) -> Option<Vec<u8>> {
    let mut out = vec![0; repr.buffer_len()];
    repr.emit(&mut out, |covered| cak.icv(covered)).ok()?;
    Some(out)
}

/// The last MKPDU of each member.
fn last(recorded: &Recorded) -> Vec<Parsed<'_>> {
    let mut last: Vec<Parsed<'_>> = Vec::new();
    for parsed in recorded.mkpdus.iter().chain(&recorded.victims).filter_map(|frame| Repr::parse(frame).ok())
    {
        last.retain(|known| known.repr.basic.sci != parsed.repr.basic.sci);
        last.push(parsed);
    }
    last
}

/// Messages of the members with their numbers, which claim to come from a better key server.
pub(super) fn replays(recorded: &Recorded, _: &mut Random) -> Vec<Vec<u8>> {
    changed(recorded, |_, repr| {
        (repr.basic.priority, repr.basic.key_server) = (0, true);
    })
    .collect()
}

/// Members' identifiers with the channel of another.
pub(super) fn names(recorded: &Recorded, random: &mut Random) -> Vec<Vec<u8>> {
    let sci = Sci(random.draw().to_be_bytes());
    changed(recorded, move |at, repr| {
        repr.basic.message += AHEAD + at as u32;
        repr.basic.sci = sci;
    })
    .collect()
}

/// Members that are made up, more than the table of peers has places.
pub(super) fn members(recorded: &Recorded, random: &mut Random) -> Vec<Vec<u8>> {
    let Some((parsed, cak)) = last(recorded).into_iter().next().zip(recorded.cak.as_ref()) else {
        return Vec::new();
    };
    let one = |_| {
        let mut repr = Repr::new(parsed.repr.destination, parsed.repr.source, parsed.repr.basic);
        (repr.basic.member, repr.basic.sci, repr.basic.message) =
            (random_member(random), Sci(random.draw().to_be_bytes()), 1);
        protected(&repr, cak)
    };
    (0..MEMBERS).filter_map(one).collect()
}

/// A live member with the best priority, which distributes a key of the former key server under its
/// own name, repeats key numbers, or wants frames to be unprotected.
pub(super) fn takeover(recorded: &Recorded, random: &mut Random) -> Vec<Vec<u8>> {
    let (last, member, sci) = (last(recorded), random_member(random), Sci(random.draw().to_be_bytes()));
    let (Some(first), Some(cak)) = (last.first(), recorded.cak.as_ref()) else { return Vec::new() };
    let entries: Vec<u8> = last
        .iter()
        .flat_map(|peer| PeerList::entry(peer.repr.basic.member, peer.repr.basic.message))
        .collect();
    let distributed = recorded.distributions.iter().filter_map(|frame| Repr::parse(frame).ok());
    let olds: Vec<DistributedSak<'_>> =
        distributed.filter_map(|parsed| parsed.repr.distributed_sak).collect();
    let one = |message: u32| {
        let mut repr = Repr::new(first.repr.destination, first.repr.source, first.repr.basic);
        (repr.basic.member, repr.basic.sci, repr.basic.message) = (member, sci, message);
        (repr.basic.priority, repr.basic.key_server) = (0, true);
        repr.live = PeerList::new(&entries).ok();
        let old = olds.iter().cycle().nth(message as usize % olds.len().max(1));
        repr.distributed_sak = match old {
            Some(DistributedSak::Sak(sak)) if message % 3 > 0 => {
                let mut sak = *sak;
                sak.number = if message % 3 == 1 { message } else { 1 };
                Some(DistributedSak::Sak(sak))
            }
            _ => Some(DistributedSak::Plain),
        };
        protected(&repr, cak)
    };
    (1..=MESSAGES).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_channel::mka::Cak;
    use antedate_wire::EthernetAddress;
    use antedate_wire::mka::{ALGORITHM_AGILITY, Basic, Capability};

    #[test]
    fn insider_frames_have_the_right_icv() {
        let cak = Cak::new(&[7; 16], b"name").expect("a key");
        let basic = Basic {
            version: 3,
            priority: 128,
            key_server: true,
            macsec_desired: true,
            capability: Capability::Confidentiality,
            sci: Sci([1; 8]),
            member: MemberIdentifier([1; 12]),
            message: 9,
            algorithm_agility: ALGORITHM_AGILITY,
            ckn: b"name",
        };
        let repr = Repr::new(EthernetAddress::PAE_GROUP, EthernetAddress([2; 6]), basic);
        let genuine = protected(&repr, &cak).expect("an MKPDU");
        let recorded = Recorded { mkpdus: vec![genuine.clone()], cak: Some(cak), ..Recorded::default() };
        let cak = recorded.cak.as_ref().expect("a key");
        for forge in [replays, names, members, takeover] {
            let frames = forge(&recorded, &mut Random::new(1));
            assert!(!frames.is_empty() && !frames.contains(&genuine));
            for frame in &frames {
                let parsed = Repr::parse(frame).expect("an MKPDU");
                assert_eq!(cak.icv(parsed.covered), *parsed.icv);
            }
        }
    }
}

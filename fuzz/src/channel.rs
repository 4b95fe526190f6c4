//! Fuzz targets for the channels.

use std::collections::VecDeque;

use antedate_channel::fragment::{Limits, Marks};
use antedate_channel::macsec::{
    An, CipherSuite, Receive, ReceiveConfig, Sak, Sci, SciMode, Transmit, TransmitConfig,
};
use antedate_channel::world::{Faults, World};

const SCI: Sci = Sci([2, 2, 2, 2, 2, 2, 0, 1]);
const AN: An = An::ALL[0];

fn sak(suite: CipherSuite, octet: u8) -> Sak {
    let salt = suite.is_xpn().then_some([7; 12]);
    Sak::new(suite, &[octet; 32][..suite.key_len()], salt).expect("a key")
}

fn receive(suite: CipherSuite, octet: u8) -> Receive {
    let mut receive = Receive::new(ReceiveConfig { replay_window: 64, ..ReceiveConfig::new(suite) });
    receive.add_peer(SCI, Some(1)).expect("a peer");
    receive.install(SCI, AN, &sak(suite, octet), 1).expect("a key to receive with");
    receive
}

fn channels(suite: CipherSuite, confidentiality: bool, sci_mode: SciMode) -> (Transmit, Receive) {
    let config =
        TransmitConfig { ssci: Some(1), confidentiality, sci_mode, ..TransmitConfig::new(suite, SCI) };
    let mut transmit = Transmit::new(config).expect("a channel");
    transmit.install(AN, &sak(suite, 9), 1, u64::MAX).expect("a key to send with");
    (transmit, receive(suite, 9))
}

/// Frames from outside: the input itself, and a genuine frame changed by the input. Only the
/// genuine frame is delivered, once, and validation in place and into another buffer agree.
pub fn macsec_validate(data: &[u8]) {
    let [head, data @ ..] = data else { return };
    let suite = CipherSuite::ALL[usize::from(head & 3)];
    let sci_mode =
        [SciMode::Explicit, SciMode::EndStation, SciMode::PointToPoint][usize::from(head >> 3) % 3];
    let (mut transmit, mut receive) = channels(suite, head & 4 == 0, sci_mode);
    let mut in_place = self::receive(suite, 9);
    if head & 0x80 != 0 {
        receive.idle(100);
        in_place.idle(100);
    }
    let mut out = vec![0; data.len() + 2048];
    // Nothing is ever sealed under this receiver's key, because libFuzzer easily finds a genuine
    // frame in memory.
    let mut foreign = self::receive(suite, 8);
    assert!(foreign.validate(data, &mut out).is_err(), "a forgery came out");
    assert!(foreign.accept(|| 0, &mut data.to_vec(), &mut []).is_err(), "a forgery came out in place");

    let mut frame = [[3; 6], [2; 6]].concat();
    frame.extend([0x88, 0x92]);
    frame.extend((0..usize::from(*head)).map(|i| i as u8));
    let mut protected = vec![0; transmit.protected_len(frame.len())];
    assert_eq!(transmit.protect(&frame, &mut protected), Ok(protected.len()));
    // Pairs of place and change, then nothing, or a length.
    let mut changed = protected.clone();
    let (pairs, length) = data.as_chunks::<2>();
    for [at, change] in pairs.iter().take(4) {
        let at = usize::from(*at) % changed.len();
        changed[at] ^= change;
    }
    if let [length] = length {
        changed.resize(usize::from(*length), 0);
    }
    let same = changed.starts_with(&protected);
    let result = receive.validate(&changed, &mut out);
    let accepted = in_place.accept(|| 0, &mut changed, &mut []);
    let accepted = accepted.map(|frame| frame.map(|frame| frame.to_vec()));
    assert_eq!(accepted, result.map(|len| Some(out[..len].to_vec())));
    assert!(same || result.is_err(), "a changed frame came out");
    if result.is_err() {
        assert_eq!(receive.validate(&protected, &mut out), Ok(frame.len()), "good traffic was disturbed");
    }
    assert_eq!(out[..frame.len()], frame);
    assert!(receive.validate(&protected, &mut out).is_err(), "a frame came out twice");
    assert_eq!(receive.counters().delivered(), 1);
}

/// The two-party world under faults chosen by the input: its counters add up.
pub fn macsec_world(data: &[u8]) {
    let Some((head, sizes)) = data.split_first_chunk::<17>() else { return };
    let [suite, lose, duplicate, reorder, displacement, corrupt, truncate, replay, inject, seed @ ..] = *head;
    let suite = CipherSuite::ALL[usize::from(suite & 3)];
    let (transmit, receive) = channels(suite, head[0] & 4 == 0, SciMode::Explicit);
    let faults = Faults {
        lose: lose.into(),
        duplicate: duplicate.into(),
        reorder: reorder.into(),
        displacement: usize::from(displacement % 16),
        corrupt: corrupt.into(),
        truncate: truncate.into(),
        replay: replay.into(),
        inject: inject.into(),
    };
    let mut world = World::new(transmit, receive, faults, u64::from_be_bytes(seed));
    for size in sizes.iter().take(64) {
        world.transmit.idle((*size).into());
        world.send((*size).into()).expect("the books balance").expect("a frame is protected");
        world.receive.idle((*size).into());
        world.arrive(20, true).expect("the books balance");
    }
    world.arrive(0, true).expect("the books balance");
}

/// Fragmented frames of two senders over a wire controlled by the input: each pair of octets is an
/// event. Each delivered frame was sent, and is delivered at most once; a peer's ordered frames
/// stay in order.
pub fn fragments(data: &[u8]) {
    let [head, operations @ ..] = data else { return };
    let marks = if head & 1 == 0 { Marks::More } else { Marks::Both };
    let suite = CipherSuite::GcmAes128;
    let window = if head & 2 == 0 { 0 } else { 64 };
    let mut receive = Receive::new(ReceiveConfig { replay_window: window, ..ReceiveConfig::new(suite) });
    let limits = Limits { deadline: 64, ..Limits::default() };
    let mut senders = [SCI, Sci([2, 2, 2, 2, 2, 9, 0, 1])].map(|sci| {
        receive.add_peer(sci, None).expect("a peer");
        assert!(receive.set_fragments(sci, Some(marks), limits));
        let mut transmit = Transmit::new(TransmitConfig::new(suite, sci)).expect("a channel");
        for (an, octet) in [(An::ALL[0], 1), (An::ALL[1], 2)] {
            transmit.install(an, &sak(suite, octet), 1, u64::MAX).expect("a key to send with");
            receive.install(sci, an, &sak(suite, octet), 1).expect("a key to receive with");
        }
        transmit
    });
    let (mut wire, mut sent, mut came) = (VecDeque::<Vec<u8>>::new(), Vec::<Vec<u8>>::new(), Vec::new());
    let (mut now, mut out) = (0, vec![0; 4096]);
    let (operations, _) = operations.as_chunks::<2>();
    for [what, how] in operations.iter().take(200) {
        let sender = usize::from(what >> 7);
        match what & 7 {
            // Three of eight: send a frame.
            0..=2 => {
                let serial = sent.len() as u16;
                let mut frame = [[3; 6], [2; 6]].concat();
                frame.extend([0x88, 0x92]);
                frame.extend(serial.to_be_bytes().iter().cycle().take(2 + 4 * usize::from(*how)));
                let mut put = |piece: &[u8]| wire.push_back(piece.to_vec());
                let count = senders[sender].protect_split(&frame, 14 + 150 + 32, marks, &mut out, &mut put);
                assert!(count.is_ok_and(|count| count <= 8));
                sent.push(frame);
            }
            3 => {
                let at = usize::from(*how) % wire.len().max(1);
                wire.remove(at);
            }
            4 => {
                let at = usize::from(*how) % wire.len().max(1);
                if let Some(frame) = wire.get(at).cloned() {
                    wire.insert(at / 2, frame);
                }
            }
            5 => {
                let at = usize::from(*how) % wire.len().max(1);
                if let Some(octet) = wire.get_mut(at).and_then(|frame| frame.get_mut(15 + at)) {
                    *octet ^= what | 1;
                }
            }
            6 => {
                now += u64::from(*how);
                let an = An::ALL[usize::from(how & 1)];
                senders[sender].set_encoding_sa(an).expect("there is a key");
            }
            _ => {
                for mut frame in wire.drain(..usize::from(*how).min(wire.len())) {
                    now += 1;
                    if let Ok(Some(frame)) = receive.accept(|| now, &mut frame, &mut out) {
                        came.push(frame.to_vec());
                    }
                }
            }
        }
    }
    for mut frame in wire {
        if let Ok(Some(frame)) = receive.accept(|| now, &mut frame, &mut out) {
            came.push(frame.to_vec());
        }
    }
    came.sort();
    // Frames of equal length and serial number are indistinguishable, so each may arrive as often
    // as it was sent.
    for frame in &came {
        let count = |frames: &[Vec<u8>]| frames.iter().filter(|other| *other == frame).count();
        assert!(count(&came) <= count(&sent), "a frame came out that was not sent, or too often");
    }
}

/// A participant receives MKPDUs with a valid ICV and otherwise arbitrary octets, in input order: a
/// misbehaving member with the key. It uses only distributed keys, and its memory stays bounded.
pub fn mka_participant(data: &[u8]) {
    use antedate_channel::mka::{Action, Cak, Config, MAX_PEERS, Participant};
    use antedate_wire::mka::Repr;

    let cak: [u8; 16] = core::array::from_fn(|at| at as u8);
    let name = b"abcdefghijklmnopqrstuvwxyz012345";
    let mut octet = 0u8;
    let mut random = |octets: &mut [u8]| {
        for place in octets {
            octet = octet.wrapping_mul(5).wrapping_add(7);
            *place = octet;
        }
    };
    let config = Config::new(antedate_wire::Sci([2, 0, 0, 0, 0, 9, 0, 1]));
    let key = || Cak::new(&cak, name).expect("a key of the right length");
    let mut participant = Participant::new(key(), config, &mut random);
    let mut now = core::time::Duration::ZERO;
    let mut keys = 0;
    let fresh = participant.status(now).member;
    for round in 0..4u32 {
        now += core::time::Duration::from_millis(700);
        let _ = participant.receive(now, data);
        // The same, protected anew by a holder of the key, as an answer to us.
        if let Ok(parsed) = Repr::parse(data) {
            let mut repr = parsed.repr;
            repr.basic.message = repr.basic.message.wrapping_add(round);
            let named = antedate_wire::mka::PeerList::entry(fresh, round);
            repr.live = antedate_wire::mka::PeerList::new(&named).ok();
            let mut frame = vec![0; repr.buffer_len()];
            if repr.emit(&mut frame, |covered| key().icv(covered)).is_ok() {
                let _ = participant.receive(now, &frame);
            }
        }
        participant.tick(now, &mut random);
        while let Some(action) = participant.next_action() {
            match action {
                Action::Receive(install) => {
                    keys += 1;
                    participant.receives(install.key);
                }
                Action::Transmit(_) => assert!(keys > 0, "a key that nobody receives with"),
                Action::Send(frame) => assert!(Repr::parse(&frame).is_ok()),
                Action::Lowest { .. } | Action::Remove(_) | Action::Forget(_) => {}
            }
        }
        let status = participant.status(now);
        assert!(status.members.len() <= 2 * MAX_PEERS);
        assert!(participant.wake_at(now) >= now);
    }
}

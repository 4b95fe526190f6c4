//! The channels.

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

/// Frames from outside: the input itself, and a genuine frame changed as the input says. Nothing comes out but the
/// genuine frame, once.
pub fn macsec_validate(data: &[u8]) {
    let [head, data @ ..] = data else { return };
    let suite = CipherSuite::ALL[usize::from(head & 3)];
    let sci_mode =
        [SciMode::Explicit, SciMode::EndStation, SciMode::PointToPoint][usize::from(head >> 3) % 3];
    let (mut transmit, mut receive) = channels(suite, head & 4 == 0, sci_mode);
    if head & 0x80 != 0 {
        receive.idle(100);
    }
    let mut out = vec![0; data.len() + 2048];
    // Nothing is ever sealed under this receiver's key, for libFuzzer is good at finding a genuine frame in memory.
    let mut foreign = self::receive(suite, 8);
    assert!(foreign.validate(data, &mut out).is_err(), "a forgery came out");

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
    assert!(same || result.is_err(), "a changed frame came out");
    if result.is_err() {
        assert_eq!(receive.validate(&protected, &mut out), Ok(frame.len()), "good traffic was disturbed");
    }
    assert_eq!(out[..frame.len()], frame);
    assert!(receive.validate(&protected, &mut out).is_err(), "a frame came out twice");
    assert_eq!(receive.counters().delivered(), 1);
}

/// The two-party world under faults of the input's choice: its books balance.
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

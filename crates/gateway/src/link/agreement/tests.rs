//! The key-agreement thread without a forwarding thread.

use std::net::UdpSocket;

use antedate_channel::mka::{Cak, Listed, Participant};

use super::*;
use crate::sys::interface::Witness;

fn none() -> Interface {
    Interface { name: "none".into(), index: 0, address: [0; 6], mtu: 1500, witness: Witness::default() }
}

/// A speaker, and a socket connected to its own.
fn speaker() -> (Speaker, UdpSocket) {
    let [own, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    own.connect(other.local_addr().expect("an address")).expect("connected");
    other.connect(own.local_addr().expect("an address")).expect("connected");
    let config = Config::new(Sci([2, 0, 0, 0, 0, 1, 0, 1]));
    let cak = Cak::new(&[1; 16], b"name").expect("a key");
    let speaker = Speaker {
        kay: Kay::new(vec![Listed { cak: cak.into(), priority: 0 }], config.clone(), &mut random),
        reloads: Reloader::new(std::path::Path::new("cak")).1,
        newer: Newer::new(std::path::Path::new("cak")),
        config,
        socket: Some(Listener::of(own.into())),
        second: None,
        heard: Heard::default(),
        field: None,
        around: Around {
            outer: None,
            carries_link_local: false,
            uplink: none(),
            second: None,
            field: none(),
            threads: Vec::new(),
            channels: Vec::new(),
            shown: vec![Arc::default()],
            spread: Arc::default(),
            out: Arc::new(PathCounters::default()),
            watch: Arc::default(),
            hello_keys: Arc::default(),
        },
        start: Moment::now(),
        looked: Instant::now(),
        voucher: Voucher::default(),
        view: View::default(),
        said: report::Said::default(),
        symptoms: Symptoms::default(),
        fragmentation: Fragmentation::Auto,
        known: Vec::new(),
        further: Further::default(),
        takes_from: Vec::new(),
        unanswered: Vec::new(),
        sends_fragments: false,
    };
    (speaker, other)
}

#[test]
fn copies_of_mkpdus_are_told() {
    let mut heard = Heard::default();
    let frames: Vec<_> = (0..20u8).map(|number| vec![number; 100]).collect();
    assert!(frames.iter().all(|frame| !heard.again(frame) && heard.again(frame)));
    assert!(!heard.again(&frames[0]), "it is long ago");
    // The same ICV behind another body.
    let mut forged = frames[19].clone();
    forged[20] ^= 1;
    assert!(!heard.again(&forged) && heard.again(&frames[19]));
}

/// A key to receive with, once there is another member.
fn key_with(participant: &mut Kay) -> Install {
    let config = Config { priority: 200, ..Config::new(Sci([2, 0, 0, 0, 0, 2, 0, 1])) };
    let mut other = Participant::new(Cak::new(&[1; 16], b"name").expect("a key"), config, &mut random);
    for now in (0..1000).step_by(50).map(Duration::from_millis) {
        other.tick(now, &mut random);
        while let Some(action) = other.next_action() {
            if let Action::Send(frame) = action {
                participant.receive(now, &frame).expect("it is of a member");
            }
        }
        participant.tick(now, &mut random);
        while let Some(action) = participant.next_action() {
            match action {
                Action::Send(frame) => other.receive(now, &frame).expect("it is of a member"),
                Action::Receive(install) => return install,
                _ => {}
            }
        }
    }
    panic!("there is no key");
}

#[test]
fn slow_forwarding_thread_is_awaited() {
    let (mut speaker, _other) = speaker();
    let install = key_with(&mut speaker.kay);
    speaker.start = Moment::now() - Duration::from_secs(1);
    let mailbox = Arc::new(Mailbox::new().expect("a mailbox"));
    speaker.around.threads.push(Arc::clone(&mailbox));
    let receives = |speaker: &Speaker| {
        speaker.kay.status(speaker.start.elapsed()).keys[0].is_some_and(|key| key.receives)
    };
    speaker.receive(install);
    (0..9).for_each(|_| speaker.hear_late());
    assert!(!receives(&speaker), "nobody said so");
    let messages: Vec<_> = std::iter::from_fn(|| mailbox.take()).collect();
    assert_eq!(messages.len(), 2, "one for each channel");
    for message in messages {
        let Message::InstallReceive(_, answer) = message else { panic!("{message:?}") };
        answer.send(Ok(Retired::default())).expect("it is heard");
    }
    speaker.hear_late();
    assert!(receives(&speaker));
}

#[test]
fn flood_is_received_in_parts() {
    let (mut speaker, other) = speaker();
    let flood = HEARD_AT_ONCE + 36;
    (0..flood).for_each(|_| assert_eq!(other.send(&[0; 60]).expect("it is sent"), 60));
    let mut frame = [0; MAX_MKPDU_LEN];
    for heard in [HEARD_AT_ONCE, flood, flood] {
        speaker.listen(&mut frame);
        let refused = speaker.kay.status(Duration::ZERO).refused.of(Dropped::Malformed);
        assert_eq!(refused, heard as u64);
    }
}

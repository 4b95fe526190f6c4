//! The thread that speaks, without a forwarding thread.

use std::net::UdpSocket;

use antedate_channel::mka::{Cak, Refused};

use super::*;

/// One that hears what is sent to the second socket.
fn speaker() -> (Speaker, UdpSocket) {
    let [own, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    own.connect(other.local_addr().expect("an address")).expect("connected");
    other.connect(own.local_addr().expect("an address")).expect("connected");
    let config = Config::new(Sci([2, 0, 0, 0, 0, 1, 0, 1]));
    let cak = Cak::new(&[1; 16], b"name").expect("a key");
    let speaker = Speaker {
        participant: Participant::new(cak, config.clone(), &mut random),
        config,
        uplink: Interface { name: "none".into(), index: 0, address: [0; 6], mtu: 1500 },
        socket: Some(Listener::of(own.into())),
        threads: Vec::new(),
        channels: Vec::new(),
        shown: Arc::default(),
        start: Instant::now(),
        looked: Instant::now(),
        view: View::default(),
        said: report::Said::default(),
        fragmentation: Fragmentation::Auto,
        known: Vec::new(),
        takes_from: Vec::new(),
        sends_fragments: false,
    };
    (speaker, other)
}

#[test]
fn a_flood_is_heard_in_parts() {
    let (mut speaker, other) = speaker();
    let flood = HEARD_AT_ONCE + 36;
    (0..flood).for_each(|_| assert_eq!(other.send(&[0; 60]).expect("it is sent"), 60));
    let mut frame = [0; LONGEST];
    for heard in [HEARD_AT_ONCE, flood, flood] {
        speaker.listen(&mut frame);
        let refused = speaker.participant.status(Duration::ZERO).refused.of(Refused::Malformed);
        assert_eq!(refused, heard as u64);
    }
}

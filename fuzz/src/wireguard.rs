//! WireGuard: the message parser, and a device that receives datagrams from strangers and a peer.

use std::net::SocketAddr;

use antedate_channel::wireguard::{
    Device, Environment, HEADROOM, LONGEST_HANDSHAKE, PeerId, Received, Settings, Timestamp,
};
use antedate_wire::wireguard::{Message, TRANSPORT_HEADER_LEN, transport_header};

/// A parsed message is written back unchanged.
pub fn wireguard_message(data: &[u8]) {
    match Message::parse(data) {
        // The parser does not check the MACs of a handshake message.
        Ok(Message::Initiation(message)) => assert_eq!(message.emit()[..116], data[..116]),
        Ok(Message::Response(message)) => assert_eq!(message.emit()[..60], data[..60]),
        Ok(Message::CookieReply(message)) => assert_eq!(message.emit(), data),
        Ok(Message::Transport(message)) => {
            let header = transport_header(message.receiver, message.counter);
            assert_eq!(header, data[..TRANSPORT_HEADER_LEN]);
            assert_eq!([&header[..], message.packet, message.tag].concat(), data);
        }
        Err(_) => {}
    }
}

struct World(u64);

impl Environment for World {
    fn now(&self) -> u64 {
        1_000_000_000_000
    }

    fn timestamp(&self) -> Timestamp {
        [0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    }

    fn random(&mut self, out: &mut [u8]) {
        for octet in out {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *octet = (self.0 >> 56) as u8;
        }
    }
}

const PEER: PeerId = PeerId(0);

/// Datagrams from outside, in the middle of a session: the input itself, and a genuine message
/// changed by the input. Only the genuine packet is delivered, once, and strangers' datagrams
/// change nothing for the peer.
pub fn wireguard_receive(data: &[u8]) {
    let mut world = World(1);
    let at = |last| SocketAddr::from(([192, 0, 2, last], 51820));
    let (mut a, mut b) = (Device::new(&[1; 32]), Device::new(&[2; 32]));
    a.add_peer(&Settings { endpoint: Some(at(2)), ..Settings::new(*b.public()) }).expect("a first peer");
    b.add_peer(&Settings::new(*a.public())).expect("a first peer");
    let (mut out, mut answer) = ([0; LONGEST_HANDSHAKE], [0; LONGEST_HANDSHAKE]);
    a.want_handshake(world.now(), PEER);
    let begun = a.poll(&mut world, &mut out).expect("an initiation");
    let mut datagram = out[..begun.len].to_vec();
    let Ok(Received::Answer { len }) = b.receive(&mut world, at(1), &mut datagram, &mut answer) else {
        panic!("no answer to a genuine initiation")
    };
    let mut datagram = answer[..len].to_vec();
    let session = a.receive(&mut world, at(2), &mut datagram, &mut answer);
    assert_eq!(session, Ok(Received::Session { peer: PEER }));

    let mut stranger = data.to_vec();
    let refused = b.receive(&mut world, at(9), &mut stranger, &mut answer);
    assert!(refused.is_err(), "a forgery came out: {refused:?}");

    let (place, packet) = data.split_first().map_or((0, data), |(first, rest)| (usize::from(*first), rest));
    let packet = &packet[..packet.len().min(2000)];
    let mut message = vec![0; HEADROOM + packet.len() + 32];
    message[HEADROOM..HEADROOM + packet.len()].copy_from_slice(packet);
    let (_, len) = a.seal(world.now(), PEER, &mut message, packet.len()).expect("there is a session");
    message.truncate(len);
    let mut changed = message.clone();
    changed[place % len] ^= 1 << (place % 8);
    assert!(b.receive(&mut world, at(1), &mut changed, &mut answer).is_err(), "a changed message came out");
    let mut genuine = message.clone();
    match b.receive(&mut world, at(1), &mut genuine, &mut answer) {
        Ok(Received::Packet { range, .. }) => assert_eq!(&genuine[range][..packet.len()], packet),
        Ok(Received::Keepalive { .. }) => assert!(packet.is_empty()),
        other => panic!("good traffic was disturbed: {other:?}"),
    }
    assert!(b.receive(&mut world, at(1), &mut message, &mut answer).is_err(), "a packet came out twice");
}

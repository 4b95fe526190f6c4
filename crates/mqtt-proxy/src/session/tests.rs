//! The rules of a connection, beside its code.

use std::path::Path;

use antedate_channel::mqtt::Algorithm;
use antedate_mqtt::file::GroupFile;
use antedate_mqtt::guard::Guard;
use antedate_mqtt::manage;
use antedate_mqtt::store::Store;
use rumqttc_five::mqttbytes::QoS as FiveQos;
use rumqttc_five::mqttbytes::v5 as five;
use rumqttc_four::mqttbytes::QoS;
use rumqttc_four::mqttbytes::v4 as four;
use tempfile::TempDir;

use super::*;

const TOPIC: &str = "plant/force";

struct World {
    shared: Shared,
    /// Another member, at the broker.
    member: Guard,
    _directory: TempDir,
}

impl World {
    fn new() -> Self {
        let group = manage::new_group("g", Algorithm::AesCcm16_64_128, vec!["plant/#".into()], Vec::new());
        let text = group.expect("a group").to_text(false);
        let directory = tempfile::tempdir().expect("a directory");
        let guard = |name: &str| {
            let state = directory.path().join(name);
            Store::create(&state).expect("created");
            let file = GroupFile::parse(Path::new("g"), &text).expect("a group");
            Guard::new(vec![file], None, Some(Store::open(&state).expect("opened")), Some(name.into()))
        };
        let (proxy, member) = (guard("proxy"), guard("member"));
        Self { shared: Shared::new(proxy, vec!["free/#".into()], None), member, _directory: directory }
    }

    fn sealed(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut envelope = Vec::new();
        self.member.seal(TOPIC, payload, &mut envelope).expect("sealed");
        envelope
    }

    fn session(&self, id: &str, clean: bool) -> Session {
        let connect = four::Connect { clean_session: clean, ..four::Connect::new(id) };
        let mut packet = BytesMut::new();
        connect.write(&mut packet).expect("written");
        let mut to_broker = BytesMut::new();
        let mut session = Session::begin(&self.shared, packet.clone(), &mut to_broker).expect("begun");
        assert_eq!(to_broker, packet);
        let accepted = BytesMut::from(&[0x20, 2, 0, 0][..]);
        assert_eq!(self.down(&mut session, accepted).1[..], [0x20, 2, 0, 0]);
        session
    }

    /// What the session writes to the broker and to the application for a packet of the broker.
    fn down(&self, session: &mut Session, packet: BytesMut) -> (BytesMut, BytesMut) {
        let (mut to_broker, mut to_client) = (BytesMut::new(), BytesMut::new());
        let passed = session.take_from_broker(&self.shared, packet, true, &mut to_broker, &mut to_client);
        assert_eq!(passed.expect("passed"), Passed::Done);
        (to_broker, to_client)
    }

    fn up(&self, session: &mut Session, packet: BytesMut) -> (BytesMut, BytesMut) {
        let (mut to_broker, mut to_client) = (BytesMut::new(), BytesMut::new());
        session.take_from_client(&self.shared, packet, &mut to_broker, &mut to_client).expect("passed");
        (to_broker, to_client)
    }
}

fn publish(topic: &str, payload: &[u8], qos: QoS, id: u16, retain: bool) -> BytesMut {
    let publish = four::Publish { pkid: id, retain, ..four::Publish::new(topic, qos, payload) };
    let mut packet = BytesMut::new();
    publish.write(&mut packet).expect("written");
    packet
}

fn ack(kind: u8, id: u16) -> BytesMut {
    let mut packet = BytesMut::new();
    packet::put_ack(kind, id, None, &mut packet);
    packet
}

#[test]
fn refused_login_is_told() {
    let world = World::new();
    let mut packet = BytesMut::new();
    four::Connect::new("app").write(&mut packet).expect("written");
    let mut session = Session::begin(&world.shared, packet, &mut BytesMut::new()).expect("begun");
    assert!(!session.is_answered());
    let refused = BytesMut::from(&[0x20, 2, 0, 5][..]);
    assert_eq!(world.down(&mut session, refused).1[..], [0x20, 2, 0, 5], "the application is told too");
    assert!(session.is_answered() && world.shared.counters().refused == 1);
}

#[test]
fn publish_is_sealed_and_opened() {
    let mut world = World::new();
    let mut session = world.session("app", true);
    let (to_broker, to_client) = world.up(&mut session, publish(TOPIC, b"81.5", QoS::AtLeastOnce, 7, true));
    assert!(to_client.is_empty());
    let Ok(four::Packet::Publish(sealed)) = four::Packet::read(&mut to_broker.clone(), usize::MAX) else {
        panic!("no publish");
    };
    assert_eq!((sealed.pkid, sealed.qos, sealed.retain), (7, QoS::AtLeastOnce, true));
    let mut payload = Vec::new();
    assert!(matches!(world.member.open(TOPIC, &sealed.payload, &mut payload), Verdict::Opened(_)));
    assert_eq!(payload, b"81.5");
    let envelope = world.sealed(b"82");
    let (to_broker, to_client) =
        world.down(&mut session, publish(TOPIC, &envelope, QoS::AtMostOnce, 0, false));
    assert_eq!((to_broker.len(), to_client), (0, publish(TOPIC, b"82", QoS::AtMostOnce, 0, false)));
}

#[test]
fn unacknowledged_message_comes_again() {
    let mut world = World::new();
    let envelope = world.sealed(b"x");
    let packet = || publish(TOPIC, &envelope, QoS::AtLeastOnce, 3, false);
    let mut first = world.session("app", false);
    assert!(!world.down(&mut first, packet()).1.is_empty());
    // A copy in the same connection is a replay: the proxy acknowledges it alone.
    assert_eq!(world.down(&mut first, packet()), (ack(kind::PUBACK, 3), BytesMut::new()));
    drop(first);
    let mut second = world.session("app", false);
    assert!(!world.down(&mut second, packet()).1.is_empty(), "the application did not acknowledge it");
    assert_eq!(world.up(&mut second, ack(kind::PUBACK, 3)).0, ack(kind::PUBACK, 3));
    drop(second);
    let mut third = world.session("app", false);
    assert_eq!(world.down(&mut third, packet()), (ack(kind::PUBACK, 3), BytesMut::new()));
    // Another application has not received it.
    let mut other = world.session("other", true);
    assert!(!world.down(&mut other, packet()).1.is_empty());
}

#[test]
fn received_numbers_outlive_the_proxy() {
    let mut world = World::new();
    let envelope = world.sealed(b"x");
    let packet = || publish(TOPIC, &envelope, QoS::AtLeastOnce, 3, false);
    let mut session = world.session("app", false);
    world.down(&mut session, packet());
    world.up(&mut session, ack(kind::PUBACK, 3));
    world.shared.flush().expect("written");
    // As a new process has it.
    *world.shared.clients.borrow_mut() = crate::windows::Clients::default();
    let mut again = world.session("app", false);
    assert_eq!(world.down(&mut again, packet()), (ack(kind::PUBACK, 3), BytesMut::new()));
}

#[test]
fn retained_message_comes_with_each_subscription() {
    let mut world = World::new();
    let [old, new] = [world.sealed(b"old"), world.sealed(b"new")];
    let packet = |envelope: &[u8]| publish(TOPIC, envelope, QoS::AtMostOnce, 0, true);
    let mut session = world.session("app", true);
    for _ in 0..3 {
        assert!(!world.down(&mut session, packet(&old)).1.is_empty());
    }
    assert!(!world.down(&mut session, packet(&new)).1.is_empty());
    assert!(!world.down(&mut session, packet(&new)).1.is_empty());
    // Nobody can go back to the earlier value.
    assert!(world.down(&mut session, packet(&old)).1.is_empty());
    // Not retained, it is a replay.
    let live = publish(TOPIC, &new, QoS::AtMostOnce, 0, false);
    assert!(world.down(&mut session, live).1.is_empty());
}

#[test]
fn end_of_a_retained_message_is_sealed() {
    let mut world = World::new();
    let mut session = world.session("app", true);
    let end = world.sealed(b"");
    let live = world.down(&mut session, publish(TOPIC, &end, QoS::AtLeastOnce, 1, false));
    assert_eq!(live.1, publish(TOPIC, b"", QoS::AtLeastOnce, 1, false));
    let mut late = world.session("late", true);
    let kept = world.down(&mut late, publish(TOPIC, &end, QoS::AtLeastOnce, 1, true));
    assert_eq!(kept, (ack(kind::PUBACK, 1), BytesMut::new()));
}

#[test]
fn clear_message_of_the_broker_is_refused() {
    let world = World::new();
    let mut session = world.session("app", true);
    let one = world.down(&mut session, publish(TOPIC, b"open", QoS::AtLeastOnce, 4, false));
    assert_eq!(one, (ack(kind::PUBACK, 4), BytesMut::new()));
    // The whole handshake of QoS 2.
    let two = world.down(&mut session, publish(TOPIC, b"open", QoS::ExactlyOnce, 5, false));
    assert_eq!(two, (ack(kind::PUBREC, 5), BytesMut::new()));
    let released = world.down(&mut session, ack(kind::PUBREL, 5));
    assert_eq!(released, (ack(kind::PUBCOMP, 5), BytesMut::new()));
    assert_eq!(world.shared.counters().refused, 2);
    // A topic that passes unprotected.
    let free = publish("free/a", b"clear", QoS::AtMostOnce, 0, false);
    assert_eq!(world.down(&mut session, free.clone()), (BytesMut::new(), free));
}

#[test]
fn publish_of_no_group_stays_here() {
    let world = World::new();
    let mut session = world.session("app", true);
    let one = world.up(&mut session, publish("other", b"secret", QoS::AtLeastOnce, 4, false));
    assert_eq!(one, (BytesMut::new(), ack(kind::PUBACK, 4)));
    let two = world.up(&mut session, publish("other", b"secret", QoS::ExactlyOnce, 5, false));
    assert_eq!(two, (BytesMut::new(), ack(kind::PUBREC, 5)));
    assert_eq!(world.up(&mut session, ack(kind::PUBREL, 5)), (BytesMut::new(), ack(kind::PUBCOMP, 5)));
    let free = publish("free/a", b"clear", QoS::AtMostOnce, 0, false);
    assert_eq!(world.up(&mut session, free.clone()), (free, BytesMut::new()));
}

#[test]
fn aliases_above_the_maximum_end_the_connection() {
    let mut world = World::new();
    let properties = five::ConnectProperties { topic_alias_max: Some(1), ..five::ConnectProperties::new() };
    let connect = five::Connect {
        keep_alive: 5,
        client_id: "app".into(),
        clean_start: true,
        properties: Some(properties),
    };
    let mut packet = BytesMut::new();
    connect.write(&None, &five::ConnectAuth::None, &mut packet).expect("written");
    let mut session = Session::begin(&world.shared, packet, &mut BytesMut::new()).expect("begun");
    let mut aliased = |topic: &str, alias: u16| {
        let properties = five::PublishProperties { topic_alias: Some(alias), ..Default::default() };
        let envelope = world.sealed(b"x");
        let publish = five::Publish::new(topic, FiveQos::AtMostOnce, envelope, Some(properties));
        let mut packet = BytesMut::new();
        publish.write(&mut packet).expect("written");
        let mut to_client = BytesMut::new();
        session
            .take_from_broker(&world.shared, packet, true, &mut BytesMut::new(), &mut to_client)
            .map(|_| to_client)
    };
    assert!(matches!(aliased("", 1), Err(End::Protocol(_))), "an unknown alias");
    assert!(!aliased(TOPIC, 1).expect("passed").is_empty());
    assert!(!aliased("", 1).expect("passed").is_empty());
    assert!(matches!(aliased(TOPIC, 2), Err(End::Protocol(_))));
}

#[test]
fn damaged_packets_end_the_connection_alone() {
    let mut world = World::new();
    let envelope = world.sealed(b"payload");
    let seeds = [
        publish(TOPIC, &envelope, QoS::ExactlyOnce, 9, true),
        ack(kind::PUBREL, 9),
        ack(kind::PUBREC, 9),
        BytesMut::from(&[0x20, 2, 0, 0][..]),
    ];
    for seed in &seeds {
        for at in 0..seed.len() {
            for octet in [0, 1, 0x7f, 0x80, 0xff, seed[at] ^ 1] {
                let mut packet = seed.clone();
                packet[at] = octet;
                let Ok(Some(length)) = packet::whole(&packet) else { continue };
                packet.truncate(length);
                let (mut a, mut b) = (BytesMut::new(), BytesMut::new());
                let mut session = world.session("app", true);
                // Either is right; neither may panic, and no payload comes out twice.
                let _ = session.take_from_broker(&world.shared, packet.clone(), true, &mut a, &mut b);
                let _ = session.take_from_client(&world.shared, packet, &mut a, &mut b);
            }
        }
    }
}

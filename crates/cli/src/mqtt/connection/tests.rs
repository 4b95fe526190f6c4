use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::*;

#[test]
fn silent_broker_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let broker = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        client.write_all(&[0x20, 2, 0, 0]).expect("CONNACK");
        while let Ok(1..) = client.read(&mut [0; 256]) {}
    });
    let guard = Guard::new(Vec::new(), None, None, None);
    let failure = block_on(async {
        let settings = Settings::new("x", "127.0.0.1", port);
        let mut link = Link::new(&settings, guard, vec!["a/#".into()], Qos::AtMostOnce, false)?;
        link.patience = Duration::from_millis(200);
        link.settle().await
    });
    let Err(Failure::Verdict(why)) = failure else { panic!("no answer counts as one") };
    assert!(why.contains(&format!("127.0.0.1, port {port} has not answered the subscription")), "{why}");
    broker.join().expect("its end");
}

#[test]
fn queue_before_the_answer_is_awaited() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let broker = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut packet = [0; 256];
        assert!(client.read(&mut packet).expect("CONNECT") > 0);
        client.write_all(&[0x20, 2, 0, 0]).expect("CONNACK");
        assert!(client.read(&mut packet).expect("SUBSCRIBE") > 0);
        // For longer than the patience.
        for _ in 0..60 {
            client.write_all(&[0x30, 4, 0, 1, b'a', b'x']).expect("PUBLISH");
            thread::sleep(Duration::from_millis(20));
        }
        client.write_all(&[0x90, 3, packet[2], packet[3], 0]).expect("SUBACK");
        while let Ok(1..) = client.read(&mut packet) {}
    });
    let guard = Guard::new(Vec::new(), None, None, None);
    block_on(async {
        let settings = Settings::new("x", "127.0.0.1", port);
        let mut link = Link::new(&settings, guard, vec!["a/#".into()], Qos::AtMostOnce, false)?;
        link.patience = Duration::from_millis(600);
        link.settle().await
    })
    .unwrap_or_else(|_| panic!("the broker is not silent"));
    broker.join().expect("its end");
}

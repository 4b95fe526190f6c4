use super::*;

fn bound() -> UdpSocket {
    UdpSocket::bind(([127, 0, 0, 1], 0).into()).unwrap()
}

fn connected(to: &UdpSocket) -> Rc<UdpSocket> {
    let socket = bound();
    socket.connect(to.local_addr().unwrap()).unwrap();
    Rc::new(socket)
}

fn peer(of: &UdpSocket) -> Way {
    Way::Peer(of.local_addr().unwrap())
}

fn reports(outbox: &mut Outbox) -> Vec<Report> {
    let mut reports = vec![Report::default()];
    outbox.reports(&mut reports);
    reports
}

/// The datagrams at a socket, by their first octet and length.
fn came(socket: &UdpSocket) -> Vec<(u8, usize)> {
    let mut buffer = [0; 2000];
    let mut all = Vec::new();
    while let Ok(len) = socket.recv(&mut buffer) {
        assert!(buffer[..len].iter().all(|octet| *octet == buffer[0]), "one datagram's octets");
        all.push((if len > 0 { buffer[0] } else { 0 }, len));
    }
    all
}

fn counts(sent: &Sent) -> (u64, u64, u64) {
    (sent.datagrams.get(), sent.calls.get(), sent.unsent.get())
}

#[test]
fn equally_long_datagrams_leave_in_one_call() {
    let (outside, one) = (bound(), bound());
    let (mut outbox, sent) = (Outbox::new(&outside), Sent::default());
    let lengths = [100, 100, 100, 40, 50, 0, 60, 60];
    for (index, length) in lengths.into_iter().enumerate() {
        outbox.put(&peer(&one), &vec![index as u8; length]);
    }
    assert!(came(&one).is_empty(), "they wait");
    outbox.flush(&outside, &sent);
    let expected: Vec<(u8, usize)> =
        lengths.iter().enumerate().map(|(at, len)| (if *len > 0 { at as u8 } else { 0 }, *len)).collect();
    assert_eq!(came(&one), expected);
    // Four joined, the two that cannot be, two joined.
    assert_eq!(counts(&sent), (8, 3, 0));
    outbox.flush(&outside, &sent);
    assert_eq!(counts(&sent), (8, 3, 0), "nothing is left");
}

#[test]
fn flows_keep_their_order() {
    let outside = bound();
    let ends: Vec<UdpSocket> = (0..3 * NEAR).map(|_| bound()).collect();
    let (mut outbox, sent) = (Outbox::new(&outside), Sent::default());
    for round in 0..6 {
        // Far more flows than are looked through, some of them twice in a row.
        for (at, end) in ends.iter().enumerate().cycle().skip(round * 5).take(ends.len()) {
            outbox.put(&peer(end), &vec![round as u8; 1 + (at + round) % 3]);
        }
    }
    outbox.flush(&outside, &sent);
    for (at, end) in ends.iter().enumerate() {
        let expected: Vec<(u8, usize)> = (0..6).map(|round| (round as u8, 1 + (at + round) % 3)).collect();
        assert_eq!(came(end), expected, "flow {at}");
    }
    assert!(sent.calls.get() < sent.datagrams.get() / 4, "{sent:?}");
}

/// What waits for a session leaves by the socket that it had, which may be closed by then.
#[test]
fn ended_session_sends_its_last_words() {
    let (outside, end, other) = (bound(), bound(), bound());
    let (mut outbox, sent) = (Outbox::new(&outside), Sent::default());
    for (to, octet) in [(&end, 1), (&other, 2)] {
        let socket = connected(to);
        outbox.put(&Way::Session(7, Rc::clone(&socket)), &[octet; 9]);
        outbox.put(&Way::Session(7, socket), &[octet; 9]);
    }
    outbox.flush(&outside, &sent);
    assert_eq!((came(&end), came(&other)), (vec![(1, 9); 2], vec![(2, 9); 2]));
    let report = Report { session: 7, sent: 2, unsent: 0, closed: false };
    assert_eq!(reports(&mut outbox), [report; 2]);
    assert!(reports(&mut outbox).is_empty());
    // One that is alone.
    outbox.put(&Way::Session(8, connected(&end)), &[3; 5]);
    outbox.flush(&outside, &sent);
    assert_eq!(came(&end), [(3, 5)]);
    assert_eq!(reports(&mut outbox), [Report { session: 8, sent: 1, unsent: 0, closed: false }]);
    outbox.put(&peer(&other), &[4; 6]);
    outbox.flush(&outside, &sent);
    assert_eq!(came(&other), [(4, 6)]);
    assert!(reports(&mut outbox).is_empty());
    assert_eq!(counts(&sent).0, 6);
}

/// The kernel reports the closed port in place of sending the next datagram.
#[test]
fn closed_port_costs_only_its_own_datagrams() {
    let (outside, gone, good) = (bound(), bound(), bound());
    let (lost, kept) = (connected(&gone), connected(&good));
    drop(gone);
    let (mut outbox, sent) = (Outbox::new(&outside), Sent::default());
    for round in 0..3 {
        for length in [10, 10, 20] {
            outbox.put(&Way::Session(1, Rc::clone(&lost)), &vec![round; length]);
            outbox.put(&Way::Session(2, Rc::clone(&kept)), &vec![round; length]);
        }
        outbox.flush(&outside, &sent);
        let [first, second] = reports(&mut outbox)[..] else { panic!("two sessions") };
        assert!((first.closed, first.sent + first.unsent) == (true, 3) || round == 0, "{first:?}");
        assert_eq!(second, Report { session: 2, sent: 3, unsent: 0, closed: false });
    }
    assert_eq!(came(&good).len(), 9);
}

#[test]
fn refused_datagram_loses_no_other() {
    let (outside, good) = (bound(), bound());
    let (mut outbox, sent) = (Outbox::new(&outside), Sent::default());
    // No port 0, and no way to IPv6 from here; a datagram that is too long for UDP.
    let wrong = [Way::Peer(([127, 0, 0, 1], 0).into()), Way::Peer(([0u16; 8], 9).into())];
    outbox.put(&peer(&good), &[1; 9]);
    outbox.put(&wrong[0], &[2; 9]);
    outbox.put(&peer(&good), &[3; 10]);
    outbox.put(&wrong[1], &[4; 9]);
    outbox.put(&peer(&good), &[5; 65_520]);
    outbox.put(&peer(&good), &[6; 11]);
    outbox.flush(&outside, &sent);
    assert_eq!(came(&good), [(1, 9), (3, 10), (6, 11)]);
    assert_eq!((sent.datagrams.get(), sent.unsent.get()), (3, 3));
}

#[test]
fn refused_joining_sends_one_by_one() {
    let (outside, end) = (bound(), bound());
    let (mut outbox, sent) = (Outbox::new(&outside), Sent::default());
    // More than any kernel joins.
    outbox.joins.most = 200;
    let burst = |outbox: &mut Outbox, octets: usize| {
        (0..200).for_each(|index| _ = outbox.put(&peer(&end), &vec![index as u8; octets]));
        outbox.flush(&outside, &sent);
        assert_eq!(came(&end), (0..200).map(|index| (index as u8, octets)).collect::<Vec<_>>());
    };
    burst(&mut outbox, 30);
    assert_eq!((counts(&sent), outbox.joins.below, outbox.joins.told), ((200, 201, 0), 30, true));
    // From now on without trying.
    burst(&mut outbox, 30);
    assert_eq!(counts(&sent), (400, 201 + 4, 0));
    outbox.joins.most = MOST_JOINED;
    burst(&mut outbox, 29);
    assert_eq!(counts(&sent), (600, 201 + 4 + 4, 0), "shorter ones are joined");
}

#[test]
fn waiting_octets_are_bounded() {
    let (outside, end) = (bound(), bound());
    let mut outbox = Outbox::new(&outside);
    let puts = (1..).find(|_| outbox.put(&peer(&end), &[0; 1000])).unwrap();
    assert_eq!(puts, MOST_WAITING.div_ceil(1000));
    outbox.flush(&outside, &Sent::default());
    assert!(outbox.spare.is_empty(), "the memory of a burst is given back");
    outbox.put(&peer(&end), &[0; 1000]);
    outbox.flush(&outside, &Sent::default());
    assert_eq!(outbox.spare.len(), 1);
}

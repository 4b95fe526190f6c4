//! What follows the loss of a link: gateways in network namespaces whose cables are cut.

mod daemon;
mod harness;
#[allow(dead_code, reason = "this program uses a part of the members")]
mod members;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::run::status::{MacsecUplink, Standby};
use antedate_gateway::sys::interface::Interface;
use antedate_gateway::sys::links::carrier;
use antedate_lab::ns::Namespace;
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_wire::standby::is_hello;
use harness::Test;
use members::{Association, CAK, NONE, frame, load};

const TESTS: &[Test] = &[
    ("field_port_follows_the_way_behind_it", field_port_follows_the_way_behind_it),
    ("stopped_gateway_is_seen_and_sets_its_port_up", stopped_gateway_is_seen_and_sets_its_port_up),
    ("ring_behind_heals", ring_behind_heals),
    ("cut_of_one_of_two_uplinks_loses_no_frame", cut_of_one_of_two_uplinks_loses_no_frame),
    ("uplinks_bring_frames_once", uplinks_bring_frames_once),
    ("two_uplinks_and_one_echo", two_uplinks_and_one_echo),
    ("waiting_uplink_takes_over", waiting_uplink_takes_over),
    ("waiting_uplink_carries_nothing", waiting_uplink_carries_nothing),
    ("standby_takes_over", standby_takes_over),
    ("storm_makes_no_two_forward", storm_makes_no_two_forward),
    ("two_pairs_carry_broadcasts_once", two_pairs_carry_broadcasts_once),
    ("loop_of_gateways_is_opened", loop_of_gateways_is_opened),
];

fn main() -> ExitCode {
    harness::run("redundancy", TESTS)
}

/// Gateways on a switch, with link loss forwarding.
fn forwarding(hello_ms: u32, recovery_ms: u32) -> Association {
    let mut association = Association::switched();
    for _ in 0..2 {
        association.add_configured(
            &format!(
                "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n[macsec]\ncak_file = \"CAK\"\n\
                 [link_loss]\nhello_ms = {hello_ms}\nrecovery_ms = {recovery_ms}\n\
                 [policy]\nallow = [\"profinet-rt\"]\n[run]\npoll = \"block\"\nmax_age_cyclic_ms = 1000\n"
            ),
            CAK,
        );
    }
    association.start_all();
    association.until_agreed(&[0, 1]);
    association
}

/// Whether a machine's port has a link.
fn has_link(association: &Association, number: usize) -> bool {
    let place = &association.members[number].place;
    let look = || Interface::find("eth0").and_then(|port| carrier(port.index));
    place.run(look).expect("a thread").expect("an interface")
}

/// Waits until the ports of both machines have these links.
fn until_links(association: &Association, links: [bool; 2]) {
    let end = Instant::now() + Duration::from_secs(10);
    while [0, 1].map(|number| has_link(association, number)) != links {
        assert!(Instant::now() < end, "not {links:?}: {:#?}", association.members[0].gateway.status());
        thread::sleep(Duration::from_millis(5));
    }
}

/// The cause at a gateway.
fn cause(association: &Association, number: usize) -> String {
    association.members[number].gateway.status().link_loss.expect("it is configured").cause
}

fn set_machine(association: &Association, number: usize, up: bool) {
    association.members[number].place.set_link("eth0", up).expect("a link");
}

/// Sets the switch's port of a gateway.
fn set_wire(association: &Association, number: usize, up: bool) {
    association.wire.set_link(&format!("p{number}"), up).expect("a link");
}

/// Two isolated ports of the switch do not hear each other.
fn isolate(association: &Association, number: usize) {
    let line = format!("link set dev p{number} type bridge_slave isolated on");
    association.wire.batch(&[line]).expect("an isolated port");
}

fn field_port_follows_the_way_behind_it() {
    let association = forwarding(100, 200);
    let both = || until_links(&association, [true; 2]);
    both();
    association.crosses(0, 1, 1);

    // The cable of a machine.
    set_machine(&association, 1, false);
    until_links(&association, [false; 2]);
    assert_eq!(cause(&association, 0), "the field port of the other gateway has no link");
    assert_eq!(cause(&association, 1), "", "its own port is up");
    assert!(association.members[0].gateway.warnings().contains(&"field-lowered".to_owned()));
    set_machine(&association, 1, true);
    both();
    association.crosses(1, 0, 2);

    // Both cables, one after the other.
    set_machine(&association, 0, false);
    until_links(&association, [false; 2]);
    set_machine(&association, 1, false);
    set_machine(&association, 0, true);
    thread::sleep(Duration::from_secs(1));
    until_links(&association, [false; 2]);
    set_machine(&association, 1, true);
    both();

    // The uplink of one: the other hears nothing more.
    set_wire(&association, 0, false);
    until_links(&association, [false; 2]);
    let causes = [0, 1].map(|number| cause(&association, number));
    assert_eq!(causes, ["the uplink has no link", "no other gateway answers"]);
    set_wire(&association, 0, true);
    both();
    association.crosses(0, 1, 3);
    assert!(association.members.iter().all(|member| {
        let told = member.gateway.status().link_loss.expect("it is configured");
        told.times >= 2 && !told.lowered
    }));
    assert!(!association.members[0].gateway.warnings().contains(&"field-lowered".to_owned()));
}

fn stopped_gateway_is_seen_and_sets_its_port_up() {
    let mut association = forwarding(100, 200);
    until_links(&association, [true; 2]);
    association.members[1].gateway.stop();
    until_links(&association, [false, true]);
    // The remaining gateway took its port down, and leaves it up.
    association.members[0].gateway.stop();
    until_links(&association, [true; 2]);
    // A killed one would leave it down.
    association.members[0].gateway.set_link("field", false);
    association.start_all();
    association.until_agreed(&[0, 1]);
    until_links(&association, [true; 2]);
    association.crosses(0, 1, 1);
}

/// Two pairs in parallel between two machines with two ports each, as a ring has it: each machine
/// sends by the first port with a link.
fn ring_behind_heals() {
    let pairs = [(); 2].map(|()| forwarding(100, 500));
    pairs.iter().for_each(|pair| until_links(pair, [true; 2]));
    pairs.iter().for_each(|pair| pair.crosses(0, 1, 1));
    let collect = |came: &mut Vec<u32>, patience| {
        for pair in &pairs {
            while let Some(frame) = pair.next(1, patience) {
                if let Some(number) = frame.get(16..20).and_then(<[u8]>::first_chunk) {
                    came.push(u32::from_be_bytes(*number));
                }
            }
        }
    };
    isolate(&pairs[0], 0);
    const CUT: u32 = 300;
    const FRAMES: u32 = 2000;
    let (mut came, start, mut switched) = (Vec::new(), Instant::now(), None::<(u32, Instant)>);
    let cut_at = Mutex::new(None::<Instant>);
    let (first, done) = (AtomicBool::new(true), AtomicBool::new(false));
    thread::scope(|scope| {
        // As a port's interrupt tells it. The question may wait for the kernel.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                first.store(has_link(&pairs[0], 0), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        for number in 0..FRAMES {
            let due = start + Duration::from_millis(number.into());
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if number == CUT {
                // The switch forwards no more between the two, and no link goes down.
                scope.spawn(|| {
                    isolate(&pairs[0], 1);
                    *cut_at.lock().expect("no panic") = Some(Instant::now());
                });
            }
            let way = usize::from(!first.load(Ordering::Relaxed));
            if way == 1 && switched.is_none() {
                switched = Some((number, Instant::now()));
            }
            // A port that just lost its link refuses frames.
            let _ = pairs[way].members[0].machine.send(&frame(0, 1, number));
            collect(&mut came, Duration::ZERO);
        }
        done.store(true, Ordering::Relaxed);
    });
    collect(&mut came, Duration::from_millis(300));
    came.sort_unstable();
    came.dedup();
    let (at, seen) = switched.expect("the near machine sees the loss");
    let lost: Vec<u32> = (0..FRAMES).filter(|number| came.binary_search(number).is_err()).collect();
    let cut_at = cut_at.into_inner().expect("no panic").expect("it was cut");
    println!(
        "   {:?} from the cut to the other way: {} of {FRAMES} frames lost",
        seen.saturating_duration_since(cut_at),
        lost.len()
    );
    assert!(lost.iter().all(|number| (CUT..=at).contains(number)), "{lost:?}");
    assert!(!has_link(&pairs[0], 1), "the far machine sees it too");
}

/// Gateways with two uplinks.
fn with_two_uplinks(more: &str, of_second: &str) -> Association {
    let mut association = Association::with_two_ways();
    for _ in 0..2 {
        association.add_configured(
            &format!(
                "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
                 [second_uplink]\ninterface = \"second\"\n{of_second}[macsec]\ncak_file = \"CAK\"\n{more}\
                 [policy]\nallow = [\"profinet-rt\"]\n[run]\npoll = \"block\"\nmax_age_cyclic_ms = 1000\n"
            ),
            CAK,
        );
    }
    association.start_all();
    association.until_agreed(&[0, 1]);
    // The kernel tells a switch of a new port's carrier up to two seconds later.
    let end = Instant::now() + Duration::from_secs(20);
    while let Some(number) = [0, 1].into_iter().find(|number| second(&association, *number).received == 0) {
        assert!(Instant::now() < end, "nothing comes by the second way: {:?}", second(&association, number));
        thread::sleep(Duration::from_millis(10));
    }
    association
}

/// Each cable is pulled, at either end, and plugged in again, while frames pass each millisecond.
fn cut_of_one_of_two_uplinks_loses_no_frame() {
    let mut association = with_two_uplinks("", "");
    let cut = |association: &Association, second: bool, port: u8, up: bool| {
        let wire = if second { association.second.as_ref().expect("two ways") } else { &association.wire };
        wire.set_link(&format!("p{port}"), up).expect("a link");
    };
    let (sent, lost) = load(&mut association, (0, 1), 12, |second, association| match second {
        1 => cut(association, false, 0, false),
        2 => cut(association, false, 0, true),
        4 => cut(association, true, 1, false),
        5 => cut(association, true, 1, true),
        7 => cut(association, false, 1, false),
        8 => cut(association, false, 1, true),
        10 => cut(association, true, 0, false),
        11 => cut(association, true, 0, true),
        _ => {}
    });
    println!("   of {sent} frames lost by four cuts: {lost:?}");
    assert_eq!(lost, NONE);
    let counters = association.members[1].gateway.macsec().counters;
    assert_eq!(counters["InPktsLate"], 0, "{counters:?}");
    let copies = counters["InPktsCopies"];
    assert!(copies > u64::from(sent) / 2 && copies < u64::from(sent), "{copies} of {sent}");
}

fn uplinks_bring_frames_once() {
    for more in ["", "[express]\ntraffic = [\"profinet-rt\"]\nrate_mbit = 1000\n", "[link_loss]\n"] {
        let association = with_two_uplinks(more, "");
        for mark in 1..=20 {
            association.crosses(0, 1, mark);
            association.crosses(1, 0, mark);
        }
        for number in [0, 1] {
            assert_eq!(association.next(number, Duration::from_millis(100)), None, "a copy");
            let gateway = &association.members[number].gateway;
            let macsec = gateway.macsec();
            let second = macsec.second_uplink.expect("it is configured");
            assert!(second.link && second.received >= 20 && second.first_received >= 20, "{second:?}");
            assert!(macsec.counters["InPktsCopies"] >= 20, "{:?}", macsec.counters);
            assert_eq!((macsec.counters["InPktsLate"], macsec.counters["InPktsNotValid"]), (0, 0));
            let agreement = macsec.agreement.expect("agreed");
            assert_eq!(agreement.refused.values().sum::<u64>(), 0, "{:?}", agreement.refused);
        }
        if more.is_empty() {
            // Behind the switch, where no link goes down.
            let second = association.second.as_ref().expect("two ways");
            second.set_link("br0", false).expect("no switch");
            let end = Instant::now() + Duration::from_secs(20);
            let warned = || association.members[0].gateway.warnings().contains(&"silent-uplink".to_owned());
            while !warned() {
                assert!(Instant::now() < end, "no warning");
                thread::sleep(Duration::from_millis(100));
            }
            association.crosses(0, 1, 99);
            second.set_link("br0", true).expect("a switch");
            while warned() {
                assert!(Instant::now() < end + Duration::from_secs(20), "still a warning");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Gateways of which one uplink waits, with 20 ms between two hellos.
/// Two gateways that settled, with the uplink that carries, and that which waits.
fn with_a_waiting_uplink() -> (Association, [&'static str; 2]) {
    let association = with_two_uplinks("", "mode = \"waiting\"\nhello_ms = 20\n");
    let end = Instant::now() + Duration::from_secs(20);
    let look =
        || [0, 1].map(|number| second(&association, number)).map(|state| (state.carries, state.switches));
    // The first hello may come by either uplink.
    let carries = loop {
        let before = look();
        thread::sleep(Duration::from_secs(1));
        let now = look();
        match &now {
            [(first, _), (second, _)] if now == before && first == second => break first.clone(),
            _ => assert!(Instant::now() < end, "they do not settle: {now:?}"),
        }
    };
    let ways = if carries == "uplink" { ["uplink", "second"] } else { ["second", "uplink"] };
    (association, ways)
}

/// The switch behind this uplink.
fn way<'a>(association: &'a Association, uplink: &str) -> &'a Namespace {
    if uplink == "uplink" { &association.wire } else { association.second.as_ref().expect("two ways") }
}

fn second(association: &Association, number: usize) -> MacsecUplink {
    association.members[number].gateway.macsec().second_uplink.expect("it is configured")
}

/// Waits until these gateways carry by this uplink, and no other.
fn until_carries(association: &Association, numbers: [usize; 2], uplink: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    while numbers.iter().any(|number| second(association, *number).carries != uplink) {
        assert!(Instant::now() < end, "{uplink}: {:#?}", numbers.map(|number| second(association, number)));
        thread::sleep(Duration::from_millis(10));
    }
}

/// Has the switch of a way drop all that leaves by these ports, without a lost link.
fn drop_towards(wire: &Namespace, ports: &[u8], drops: bool) {
    let on = if drops { "off" } else { "on" };
    let lines = ports.iter().map(|port| {
        format!(
            "link set dev p{port} type bridge_slave flood {on} mcast_flood {on} bcast_flood {on} learning {on} fdb_flush"
        )
    });
    wire.batch(&lines.collect::<Vec<_>>()).expect("a port of the switch");
}

/// Each way is cut, at a port, behind the switch, and for one direction alone.
fn waiting_uplink_takes_over() {
    let (mut association, [mut active, mut waits]) = with_a_waiting_uplink();
    let switches = |association: &Association| [0, 1].map(|number| second(association, number).switches);
    let begun = switches(&association);
    assert!(gap(&mut association, [0, 1], |_| ()) < 500, "undisturbed");
    assert_eq!(switches(&association), begun, "undisturbed");
    type Cut = fn(&Namespace, bool);
    const LINK: Cut = |wire, cut| wire.set_link("p0", !cut).expect("a link");
    const BOTH: Cut = |wire, cut| drop_towards(wire, &[0, 1], cut);
    const THERE: Cut = |wire, cut| drop_towards(wire, &[1], cut);
    const BACK: Cut = |wire, cut| drop_towards(wire, &[0], cut);
    for (what, cut, waits_for_warning) in [
        ("the link of one gateway is lost", LINK, true),
        ("the switch drops all", BOTH, false),
        ("the switch drops what the first gateway sends", THERE, true),
        ("the switch drops what the second gateway sends", BACK, false),
    ] {
        let took = gap(&mut association, [0, 1], |association| cut(way(association, active), true));
        println!("   {what}: {took} ms without a frame");
        until_carries(&association, [0, 1], waits);
        // Three hellos of 20 ms, and a machine that is busy.
        assert!(took < 1000, "{what}: {took} ms");
        let end = Instant::now() + Duration::from_secs(20);
        let warned = |number: usize| {
            let gateway = &association.members[number].gateway;
            gateway.warnings().contains(&"silent-uplink".to_owned())
        };
        while waits_for_warning && !(warned(0) && warned(1)) {
            assert!(Instant::now() < end, "{what}: no warning");
            thread::sleep(Duration::from_millis(50));
        }
        // Repaired, it waits.
        cut(way(&association, active), false);
        while warned(0) || warned(1) {
            assert!(Instant::now() < end, "{what}: still a warning");
            thread::sleep(Duration::from_millis(50));
        }
        until_carries(&association, [0, 1], waits);
        (active, waits) = (waits, active);
    }
    let ended = switches(&association);
    assert!(ended.iter().zip(begun).all(|(count, begun)| *count >= begun + 4), "{begun:?} {ended:?}");
    for member in &association.members {
        let counters = member.gateway.macsec().counters;
        assert_eq!((counters["InPktsLate"], counters["InPktsNotValid"]), (0, 0), "{counters:?}");
    }
}

/// All protected frames of both ways, by their length and packet number.
fn waiting_uplink_carries_nothing() {
    let (association, [active, waits]) = with_a_waiting_uplink();
    let ways = [active, waits].map(|uplink| way(&association, uplink));
    let options = Options { promiscuous: true, outgoing: true, ..Options::default() };
    let taps =
        ways.map(|way| way.run(|| PacketSocket::open("p1", options)).expect("a thread").expect("a tap"));
    // By AN, SCI and packet number: how often it came, and whether the source is a machine.
    let mut numbers: [BTreeMap<Vec<u8>, (usize, bool)>; 2] = Default::default();
    let mut machines = [0; 2];
    let mut listen = || {
        for (way, tap) in taps.iter().enumerate() {
            let mut buffer = vec![0; 2048];
            while let Ok(Some(received)) = tap.receive_with_metadata(&mut buffer) {
                let frame = &buffer[..received.len];
                if frame.get(12..14) != Some(&[0x88, 0xe5]) {
                    continue;
                }
                let machine = frame[6..11] == [2, 0, 0x5e, 0, 2];
                machines[way] += u32::from(machine);
                let key = [&[frame[14] & 3], &frame[16..28]].concat();
                let (count, of_machine) = numbers[way].entry(key).or_default();
                (*count, *of_machine) = (*count + 1, machine);
            }
        }
        machines
    };
    let send = |from: usize, number: u32| {
        let machine = &association.members[from].machine;
        let frame = frame(from, 1 - from, number);
        machine.send(&frame).or_else(|_| machine.send(&frame)).expect("sent");
    };
    let round = |first: u32, listen: &mut dyn FnMut() -> [u32; 2]| {
        for number in first..first + 200 {
            send(0, number);
            send(1, number);
            thread::sleep(Duration::from_millis(1));
            listen();
        }
        thread::sleep(Duration::from_millis(100));
        listen()
    };
    assert_eq!(round(0, &mut listen), [400, 0], "the other one waits");
    ways[0].set_link("p0", false).expect("a link");
    until_carries(&association, [0, 1], waits);
    let before = listen();
    ways[0].set_link("p0", true).expect("a link");
    assert_eq!(round(200, &mut listen), [before[0], before[1] + 400], "the first one waits");
    // A number comes by a way once; by both only as one message between gateways.
    assert!(numbers.iter().flat_map(|by| by.values()).all(|(count, _)| *count == 1), "a number came twice");
    let [first, second] = &numbers;
    let both: Vec<_> = first.iter().filter(|(key, _)| second.contains_key(*key)).collect();
    assert!(both.iter().all(|(_, (_, machine))| !machine), "a machine's frame left by both");
    println!(
        "   {} and {} protected frames by the two ways, {} messages of gateways by both",
        first.len(),
        second.len(),
        both.len()
    );
}

/// Round trips through gateways with one uplink and with two, in turns. Prints the ratio.
fn two_uplinks_and_one_echo() {
    let two = with_two_uplinks("", "");
    let mut one = Association::switched();
    let text = standing_by(1, "").replace("[standby]\ngroup = 1\n", "");
    (0..2).for_each(|_| one.add_configured(&text, CAK));
    one.start_all();
    one.until_agreed(&[0, 1]);
    let round_trip = |association: &Association, number: u32| {
        let start = Instant::now();
        for (from, to) in [(0, 1), (1, 0)] {
            association.members[from].machine.send(&frame(from, to, number)).expect("sent");
            let came = association.next(to, Duration::from_secs(3));
            assert_eq!(came.as_deref(), Some(&frame(from, to, number)[..]));
        }
        start.elapsed()
    };
    let mut took: [Vec<Duration>; 2] = Default::default();
    let rounds = std::env::var("ANTEDATE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(500);
    for number in 0..rounds {
        for (association, took) in [&one, &two].into_iter().zip(&mut took) {
            took.push(round_trip(association, number));
            thread::sleep(Duration::from_millis(1));
        }
    }
    let [median_one, median_two] = took.map(|mut all| {
        all.sort_unstable();
        all[all.len() / 2]
    });
    let ratio = median_two.as_secs_f64() / median_one.as_secs_f64();
    println!(
        "   median of {rounds} round trips: {median_one:?} by one uplink, {median_two:?} by two, {ratio:.3} times"
    );
}

/// The configuration of a gateway of this standby group.
fn standing_by(group: u8, more: &str) -> String {
    format!(
        "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n[macsec]\ncak_file = \"CAK\"\n\
         [standby]\ngroup = {group}\n{more}[policy]\nallow = [\"profinet-rt\"]\n\
         [run]\npoll = \"block\"\nmax_age_cyclic_ms = 1000\n"
    )
}

/// Joins the fields of two gateways: a switch in the place of each machine, with a cable between.
/// The machine of the first one speaks by its switch from now on.
fn join_fields(association: &mut Association, [first, second]: [usize; 2]) {
    let places = [first, second].map(|number| &association.members[number].place);
    let cable = format!("link add name cable type veth peer name cable netns {}", places[1].name());
    places[0].batch(&[cable]).expect("a cable");
    for place in places {
        let port = |name: &str| [format!("link set {name} master br0"), format!("link set {name} up")];
        let bridge = "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0".to_owned();
        let lines = [bridge].into_iter().chain(port("eth0")).chain(port("cable"));
        place.batch(&lines.chain(["link set br0 up".to_owned()]).collect::<Vec<_>>()).expect("a switch");
    }
    let options = Options { promiscuous: true, ..Options::default() };
    let socket = places[0].run(|| PacketSocket::open("br0", options)).expect("a thread").expect("a socket");
    association.members[first].machine = socket;
}

fn standby(association: &Association, number: usize) -> Standby {
    association.members[number].gateway.status().standby.expect("it is configured")
}

/// Waits until one of these gateways forwards, and another one can. Returns the first.
fn settled(association: &Association, pair: [usize; 2]) -> usize {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let all = pair.map(|number| standby(association, number));
        let active: Vec<_> = pair.into_iter().zip(&all).filter(|(_, one)| one.active).collect();
        let known = all.iter().all(|one| one.others.len() == 1 && one.others[0].able && one.cause.is_empty());
        if let ([(active, _)], true) = (&active[..], known) {
            return *active;
        }
        assert!(Instant::now() < end, "{all:#?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends frames in both directions each millisecond, and `event` after a while. Returns the longest
/// time without a frame at either end, in milliseconds of the sender. No frame may come twice.
fn gap(association: &mut Association, ends: [usize; 2], event: impl FnOnce(&mut Association)) -> u128 {
    const EVENT: u32 = 300;
    const FRAMES: u32 = 1500;
    let (start, mut event) = (Instant::now(), Some(event));
    let mut sent = Vec::new();
    let mut came: [Vec<u32>; 2] = Default::default();
    let collect = |association: &Association, came: &mut [Vec<u32>; 2], patience| {
        for (end, came) in ends.into_iter().zip(came) {
            while let Some(frame) = association.next(end, patience) {
                came.extend(frame.get(16..20).and_then(<[u8]>::first_chunk).map(|n| u32::from_be_bytes(*n)));
            }
        }
    };
    for number in 0..FRAMES {
        let due = start + Duration::from_millis(number.into());
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if number == EVENT
            && let Some(event) = event.take()
        {
            event(association);
        }
        sent.push(Instant::now());
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let _ = association.members[from].machine.send(&frame(from, to, number));
        }
        collect(association, &mut came, Duration::ZERO);
    }
    collect(association, &mut came, Duration::from_millis(100));
    let mut longest = 0;
    for came in &mut came {
        came.sort_unstable();
        assert!(came.windows(2).all(|pair| pair[0] != pair[1]), "a frame came twice");
        let ends = [&[0][..], came, &[FRAMES - 1]].concat();
        for pair in ends.windows(2) {
            let [before, after] = [pair[0], pair[1]].map(|number| sent[number as usize]);
            if pair[1] > pair[0] + 1 {
                longest = longest.max(after.duration_since(before).as_millis());
            }
        }
    }
    longest
}

/// Two gateways at one field, and one at the other.
fn standby_takes_over() {
    let mut association = Association::switched();
    (0..3).for_each(|number| {
        association.add_configured(&standing_by(if number < 2 { 1 } else { 2 }, "hello_ms = 50\n"), CAK)
    });
    join_fields(&mut association, [0, 1]);
    association.start_all();
    association.until_agreed(&[0, 1, 2]);
    let first = settled(&association, [0, 1]);
    let takes_over = |association: &Association, before: usize| {
        assert_eq!(settled(association, [0, 1]), 1 - before, "no preemption");
        1 - before
    };
    let mut active = first;
    assert!(gap(&mut association, [0, 2], |_| ()) < 500, "undisturbed");
    let took = gap(&mut association, [0, 2], |association| association.members[active].gateway.stop());
    println!("   a gateway is stopped: {took} ms without a frame");
    assert!(took < 1000, "{took} ms");
    let alone = standby(&association, 1 - active);
    assert!(alone.active && alone.others.is_empty(), "{alone:?}");
    association.members[active].gateway.start();
    association.until_agreed(&[0, 1, 2]);
    active = takes_over(&association, active);
    type Cut = fn(&Association, usize, bool);
    for (what, cut, why) in [
        ("an uplink", set_wire as Cut, "the uplink has no link"),
        ("a field cable", set_machine as Cut, "the field port has no link"),
    ] {
        let took = gap(&mut association, [0, 2], |association| cut(association, active, false));
        println!("   {what} is cut: {took} ms without a frame");
        assert!(took < 1000, "{what}: {took} ms");
        let cause = standby(&association, active).cause;
        assert_eq!(cause, why);
        cut(&association, active, true);
        active = takes_over(&association, active);
    }
    // A cut between the two, on either side: one forwards on.
    type Part = fn(&Association, bool);
    let cable: Part = |association, up| association.members[0].place.set_link("cable", up).expect("a cable");
    let wire: Part = |association, cut_off| {
        let state = if cut_off { "off" } else { "on" };
        let isolate = |number: u8| format!("link set dev p{number} type bridge_slave isolated {state}");
        association.wire.batch(&[isolate(0), isolate(1)]).expect("isolated ports");
    };
    for part in [cable, wire] {
        part(&association, false);
        thread::sleep(Duration::from_millis(500));
        let _ = settled(&association, [0, 1]);
        part(&association, true);
    }
    assert!(gap(&mut association, [0, 2], |_| ()) < 500, "undisturbed");
    // A stranger at the field says what it recorded. A busy machine may hand over by itself, but not
    // each time.
    let takeovers = |association: &Association| [0, 1].map(|number| standby(association, number).takeovers);
    let is_quiet = (0..10).any(|_| {
        let before = takeovers(&association);
        let heard = recorded(&association, Duration::from_millis(300));
        assert!(heard.len() > 5, "{}", heard.len());
        for _ in 0..3 {
            for hello in &heard {
                let mut forged = hello.clone();
                forged[21] ^= 1;
                for frame in [hello, &forged] {
                    association.members[0].machine.send(frame).expect("sent");
                }
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = settled(&association, [0, 1]);
        before == takeovers(&association)
    });
    assert!(is_quiet, "recorded hellos hand over");
    assert!(standby(&association, 0).refused > 10);
}

/// A storm of broadcasts, and of what looks like hellos, at the field of two gateways.
fn storm_makes_no_two_forward() {
    let mut association = Association::switched();
    (0..3).for_each(|number| {
        association.add_configured(&standing_by(if number < 2 { 1 } else { 2 }, "hello_ms = 50\n"), CAK)
    });
    join_fields(&mut association, [0, 1]);
    association.start_all();
    association.until_agreed(&[0, 1, 2]);
    let _ = settled(&association, [0, 1]);
    let hello = recorded(&association, Duration::from_millis(200)).pop().expect("a hello");
    let mut broadcast = frame(0, 1, 0);
    broadcast[..6].fill(0xff);
    broadcast[12..14].copy_from_slice(&[0x08, 0x06]);
    let socket = association.members[0].place.run(|| PacketSocket::open("br0", Options::default()));
    let (socket, done) = (socket.expect("a thread").expect("a socket"), AtomicBool::new(false));
    thread::scope(|scope| {
        let storm = scope.spawn(|| {
            let mut forged = hello.clone();
            let mut sent = 0u64;
            while !done.load(Ordering::Relaxed) {
                for _ in 0..20 {
                    forged[45..53].copy_from_slice(&sent.to_be_bytes());
                    for frame in [&broadcast, &forged] {
                        sent += u64::from(socket.send(frame).is_ok());
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
            sent
        });
        // No frame comes twice.
        let took = gap(&mut association, [0, 2], |_| ());
        done.store(true, Ordering::Relaxed);
        let sent = storm.join().expect("no panic");
        println!("   a storm of {sent} frames at the field: {took} ms without a frame");
        assert!(sent > 2000 && took < 1000, "{took} ms in a storm of {sent}");
    });
    let _ = settled(&association, [0, 1]);
    for number in [0, 1] {
        let status = association.members[number].gateway.status();
        let (arp, refused) = (
            status.out.refused.get("policy:arp").copied().unwrap_or(0),
            status.standby.expect("configured").refused,
        );
        // The one that stands by counts its frames as blocked, and each what looks like a hello.
        let blocked = status.out.refused.get("blocked").copied().unwrap_or(0);
        assert!(arp + blocked > 500 && refused > 500, "{arp} {blocked} {refused}");
    }
}

/// The hellos at the field.
fn recorded(association: &Association, time: Duration) -> Vec<Vec<u8>> {
    let (end, mut all, mut buffer) = (Instant::now() + time, Vec::new(), vec![0; 2048]);
    while Instant::now() < end {
        match association.members[0].machine.receive_with_metadata(&mut buffer) {
            Ok(Some(received)) if is_hello(&buffer[..received.len]) => {
                all.push(buffer[..received.len].to_vec())
            }
            Ok(Some(_)) => {}
            _ => thread::sleep(Duration::from_millis(1)),
        }
    }
    all
}

/// Two gateways at each of two fields, with broadcasts from both.
fn two_pairs_carry_broadcasts_once() {
    let mut association = Association::switched();
    (0..4)
        .for_each(|number| association.add_configured(&standing_by(1 + number / 2, "hello_ms = 50\n"), CAK));
    join_fields(&mut association, [0, 1]);
    join_fields(&mut association, [2, 3]);
    association.start_all();
    association.until_agreed(&[0, 1, 2, 3]);
    let actives = [settled(&association, [0, 1]), settled(&association, [2, 3])];
    let broadcasts = |association: &Association, from: usize, to: usize, count: u32| {
        for number in 0..count {
            let mut frame = frame(from, to, number);
            frame[..6].fill(0xff);
            association.members[from].machine.send(&frame).expect("sent");
            thread::sleep(Duration::from_millis(2));
        }
        let came = |end: usize| {
            let mut numbers = Vec::new();
            while let Some(frame) = association.next(end, Duration::from_millis(200)) {
                numbers
                    .extend(frame.get(16..20).and_then(<[u8]>::first_chunk).map(|n| u32::from_be_bytes(*n)));
            }
            numbers
        };
        (came(to), came(from))
    };
    for (from, to) in [(0, 2), (2, 0)] {
        let (came, back) = broadcasts(&association, from, to, 100);
        assert_eq!(came, (0..100).collect::<Vec<_>>());
        assert!(back.is_empty(), "{back:?} came back");
    }
    for active in actives {
        association.members[active].gateway.stop();
        let (came, back) = broadcasts(&association, 0, 2, 200);
        let mut once = came.clone();
        once.dedup();
        assert!(once == came && came.ends_with(&[199]) && came.len() > 100, "{came:?}");
        assert!(back.is_empty(), "{back:?} came back");
    }
}

/// Two gateways at one field that know nothing of each other, and one at the other.
fn loop_of_gateways_is_opened() {
    let text = standing_by(1, "")
        .replace("[standby]\ngroup = 1\n", "[loop_detection]\nprobe_ms = 100\nhold_ms = 500\n");
    let mut association = Association::switched();
    (0..3).for_each(|_| association.add_configured(&text, CAK));
    join_fields(&mut association, [0, 1]);
    association.start_all();
    association.until_agreed(&[0, 1, 2]);
    let finds = |association: &Association, number: usize| {
        association.members[number].gateway.warnings().contains(&"field-loop".to_owned())
    };
    let until = |association: &Association, numbers: &[usize], found: bool| {
        let end = Instant::now() + Duration::from_secs(10);
        while numbers.iter().any(|number| finds(association, *number) != found) {
            assert!(Instant::now() < end, "{found}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    until(&association, &[1], true);
    assert!(!finds(&association, 2), "it is in no loop");
    let broadcasts = |association: &Association, from: usize, to: usize| {
        for number in 0..50 {
            let mut frame = frame(from, to, number);
            frame[..6].fill(0xff);
            association.members[from].machine.send(&frame).expect("sent");
            thread::sleep(Duration::from_millis(2));
        }
        let mut came = Vec::new();
        while let Some(frame) = association.next(to, Duration::from_millis(200)) {
            came.extend(frame.get(16..20).and_then(<[u8]>::first_chunk).map(|n| u32::from_be_bytes(*n)));
        }
        assert_eq!(came, (0..50).collect::<Vec<_>>(), "{from} to {to}");
        assert_eq!(association.next(from, Duration::ZERO), None, "none comes back");
    };
    broadcasts(&association, 0, 2);
    broadcasts(&association, 2, 0);
    // The gateway with the higher SCI blocks. It opens again when the other one is gone.
    let blocked = |number: usize| {
        association.members[number]
            .gateway
            .status()
            .out
            .refused
            .get("blocked")
            .is_some_and(|count| *count > 0)
    };
    assert_eq!([0, 1, 2].map(blocked), [false, true, false]);
    association.members[0].gateway.stop();
    until(&association, &[1], false);
    broadcasts(&association, 0, 2);
    association.members[0].gateway.start();
    association.until_agreed(&[0, 1, 2]);
    until(&association, &[1], true);
    broadcasts(&association, 2, 0);
}

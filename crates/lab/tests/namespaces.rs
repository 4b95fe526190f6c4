//! The lab in network namespaces without a gateway: stations, round trips, emulated wire, tap.
//!
//! The lab's processes are this executable with a role as argument, so the test has its own `main`.

mod harness;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use antedate_gateway::sys::age::{Bounds, OVERDUE};
use antedate_gateway::sys::interface::Interface;
use antedate_gateway::sys::packet::{Next, Receiver};
use antedate_gateway::sys::sender::Sender;
use antedate_lab::emulator::{self, fault::Fault};
use antedate_lab::ns::{self, Chain, ChainOptions, Namespace};
use antedate_lab::process::{self, Place, Process};
use antedate_lab::roundtrip::{EchoOptions, PingOptions, PingReport};
use antedate_lab::station::{self, Options, Report, Role};
use antedate_lab::tap;
use serde::Serialize;
use serde::de::DeserializeOwned;

const TESTS: &[harness::Test] = &[
    ("stations_exchange_data_over_bridges", stations_exchange_data_over_bridges),
    ("round_trips_sleeping_and_polling", round_trips_sleeping_and_polling),
    ("emulated_wire_counts_its_faults", emulated_wire_counts_its_faults),
    ("long_frames_keep_vlan_after_link_down", long_frames_keep_vlan_after_link_down),
    ("stale_frames_leave_the_ring_at_once", stale_frames_leave_the_ring_at_once),
    ("rehearsed_send_sends_nothing", rehearsed_send_sends_nothing),
    ("namespaces_of_ended_runs_are_removed", namespaces_of_ended_runs_are_removed),
];
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    process::dispatch(std::env::args_os()).unwrap_or_else(|| harness::run("the lab's own parts", TESTS))
}

fn start(name: &str, role: &str, namespace: &Namespace, options: &impl Serialize) -> Process {
    let place = Place { namespace: Some(namespace.file()), ..Place::default() };
    Process::role(name, role, options, &place).expect("the process starts")
}

/// The first line that parses as `T` and that `choose` accepts.
fn await_line<T: DeserializeOwned, R>(process: &mut Process, choose: impl Fn(T) -> Option<R>) -> R {
    while let Some(line) = process.next_line(PATIENCE) {
        if let Some(found) = serde_json::from_str(&line).ok().and_then(&choose) {
            return found;
        }
    }
    panic!("no such line: {:?}", process.errors());
}

fn stations_on(chain: &Chain, options: &Options, seconds: Option<f64>) -> (Process, Process) {
    let device = Options { role: Role::Device, ..options.clone() };
    let device = start("device", "lab-station", &chain.device, &device);
    let plc = Options { role: Role::Plc, seconds, ..options.clone() };
    (start("plc", "lab-station", &chain.plc, &plc), device)
}

fn report(process: &mut Process) -> Report {
    await_line(process, |line| match line {
        station::Line::Result(report) => Some(*report),
        _ => None,
    })
}

fn stations_exchange_data_over_bridges() {
    let chain = Chain::build(ChainOptions::default()).expect("the chain is built");
    chain.bridge_gateways().expect("bridges instead of gateways");
    chain.bridge_wire().expect("a bridge as wire");
    let options = Options { cycle_us: 2_000, live_ms: 500, ..Options::default() };
    let (mut plc, mut device) = stations_on(&chain, &options, Some(2.0));
    for report in [report(&mut plc), report(&mut device)] {
        let counts = &report.measured.counts;
        assert!(counts.received > 500, "{counts:?}");
        assert_eq!(counts.lost + counts.duplicated + counts.reordered, 0, "{counts:?}");
        assert_eq!(counts.damaged + counts.foreign + counts.unexpected, 0, "{counts:?}");
        assert!(report.measured.edges.agree, "{:?}", report.measured.edges);
        assert!(report.measured.edges.seen >= 6, "{:?}", report.measured.edges);
        assert!(report.announcements >= 1 || report.role == Role::Plc, "no LLDP");
        assert!(report.measured.round_trip_us.count > 500, "{:?}", report.measured.round_trip_us);
        let connection = report.connection;
        assert!(connection.connections == 1 && connection.records_read >= 2, "{connection:?}");
        assert!(connection.alarms >= 2 && connection.alarms_acknowledged >= 1, "{connection:?}");
        println!("  {:?}: round trip {:?}", report.role, report.measured.round_trip_us);
    }
    assert!(
        plc.finish(Duration::from_secs(2)) && device.finish(Duration::from_secs(2)),
        "they end by themselves"
    );
    let name = chain.plc.name().to_owned();
    drop(chain);
    assert!(!std::path::Path::new("/run/netns").join(name).exists(), "the chain is removed");
}

fn round_trips_sleeping_and_polling() {
    let chain =
        Chain::build(ChainOptions { wire: false, ..ChainOptions::default() }).expect("the chain is built");
    chain.bridge_gateways().expect("bridges instead of gateways");
    for (poll, frame_bytes, interval_us) in [(false, 64, 0), (true, 1514, 500)] {
        let echo = EchoOptions { interface: "eth0".into(), poll, ..EchoOptions::default() };
        let mut echo = start("echo", "lab-echo", &chain.device, &echo);
        echo.next_line(PATIENCE).expect("the responder listens");
        let ping =
            PingOptions { poll, frame_bytes, interval_us, count: 500, warm_up: 50, ..PingOptions::default() };
        let report: PingReport = await_line(&mut start("ping", "lab-ping", &chain.plc, &ping), Some);
        println!("  {frame_bytes} bytes, poll {poll}: {:?}", report.round_trip_us);
        assert_eq!((report.sent, report.lost), (500, 0), "{report:?}");
        assert_eq!(report.round_trip_us.count, 500);
        assert!(report.round_trip_us.p50 > 0.0);
        assert!(echo.end().iter().any(|line| line.contains("\"answered\":550")));
    }
    // Nobody answers: at the bound the measurement ends with the few requests that it made.
    let ping = PingOptions { warm_up: 50, longest_s: 1, ..PingOptions::default() };
    let report: PingReport = await_line(&mut start("ping", "lab-ping", &chain.plc, &ping), Some);
    assert!((1..=11).contains(&report.sent) && report.lost == report.sent, "{report:?}");
}

/// Gives the wire a command. Returns its counters.
fn told(wire: &mut Process, command: &emulator::Command) -> emulator::State {
    wire.tell(command).expect("the wire listens");
    await_line(wire, |line| match line {
        emulator::Line::State(state) => Some(state),
        _ => None,
    })
}

/// How often a fault struck, in both directions.
fn strikes(state: &emulator::State, fault: Fault) -> u64 {
    [&state.a_to_b, &state.b_to_a].iter().filter_map(|counts| counts.faults.get(fault.name())).sum()
}

fn emulated_wire_counts_its_faults() {
    let chain = Chain::build(ChainOptions::default()).expect("the chain is built");
    chain.bridge_gateways().expect("bridges instead of gateways");
    let middle = chain.wire.as_ref().expect("there is a wire");
    let mut wire = start("wire", "lab-wire", middle, &emulator::Options::default());
    wire.next_line(PATIENCE).expect("the wire forwards");
    let mut tap = start("tap", "lab-tap", middle, &tap::Options::default());
    tap.next_line(PATIENCE).expect("the tap listens");
    // Only cyclic frames, so that the stations count each strike.
    let options = Options { cycle_us: 1_000, acyclic_ms: 0, ..Options::default() };
    let (mut plc, mut device) = stations_on(&chain, &options, None);
    await_line(&mut plc, |line| matches!(line, station::Line::Started { .. }).then_some(()));

    let struck = [Fault::Lose, Fault::Duplicate, Fault::Corrupt, Fault::Inject].map(|fault| {
        let command = emulator::Command { fault: Some(fault), every: 20, ..emulator::Command::default() };
        // A busy machine may stop the wire for most of a second.
        for _ in 0..20 {
            let state = told(&mut wire, &command);
            std::thread::sleep(Duration::from_secs(1));
            let after = told(&mut wire, &emulator::Command::default());
            if strikes(&after, fault) > strikes(&state, fault) + 10 {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        fault
    });
    plc.terminate();
    let reports = [report(&mut plc), report(&mut device)];
    wire.terminate();
    let state = await_line(&mut wire, |line| match line {
        emulator::Line::Result(state) => Some(state),
        _ => None,
    });
    tap.terminate();
    let seen = await_line(&mut tap, |line| match line {
        tap::Line::Result(seen) => Some(*seen),
        _ => None,
    });

    let strikes = |fault: Fault| strikes(&state, fault);
    assert!(struck.iter().all(|&fault| strikes(fault) > 10), "{state:?}");
    let sum = |count: fn(&station::meter::Counts) -> u64| -> u64 {
        reports.iter().map(|report| count(&report.measured.counts)).sum()
    };
    // A corrupted frame counts as damaged, or as foreign if the bit was in its FrameID; it is lost
    // in both cases.
    assert_eq!(sum(|c| c.lost), strikes(Fault::Lose) + strikes(Fault::Corrupt), "{state:?} {reports:?}");
    assert_eq!(sum(|c| c.duplicated), strikes(Fault::Duplicate), "{state:?} {reports:?}");
    assert_eq!(
        sum(|c| c.damaged + c.foreign),
        strikes(Fault::Corrupt) + strikes(Fault::Inject),
        "{state:?} {reports:?}"
    );
    // The tap hears the stations, not the wire's changes.
    assert_eq!(seen.counts.frames, state.a_to_b.received + state.b_to_a.received, "{seen:?}");
    assert_eq!((seen.counts.plaintext_frames, seen.counts.dropped), (seen.counts.frames, 0));
    assert!(seen.counts.with_process_data > 1_000, "{seen:?}");
}

fn long_frames_keep_vlan_after_link_down() {
    let space = Namespace::create("long").expect("a namespace");
    let pair = "link add left type veth peer name right";
    space.batch(&[pair, "link set left up", "link set right up"].map(str::to_owned)).expect("a pair");
    let open = || {
        let [from, to] = ["left", "right"].map(|name| Interface::find(name).expect("the interface"));
        (Sender::open(&from, true).expect("a sender"), Receiver::open(&to, 12).expect("a ring"))
    };
    let (sender, mut receiver) = space.run(open).expect("in the namespace");
    // Frames longer than a ring slot, such as super-frames, are queued beside the ring.
    space
        .batch(&["link set left mtu 9000", "link set right mtu 9000"].map(str::to_owned))
        .expect("longer frames");
    space.set_link("right", false).expect("down");
    space.set_link("right", true).expect("up");
    let end = Instant::now() + PATIENCE;
    for (vlan, len) in [(10, 4000), (20, 4000), (25, 1000), (30, 4000), (20, 4000)] {
        let mut frame = vec![vlan; len];
        frame[..16].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, vlan]);
        while sender.send(&frame).is_err() {
            assert!(Instant::now() < end, "the link does not come up again");
        }
        let came = loop {
            assert!(Instant::now() < end, "the frame of VLAN {vlan} does not come");
            match receiver.peek() {
                Next::Empty => continue,
                // The kernel's own frames when the link comes up.
                Next::Frame(received) if received.frame().get(12) != Some(&0x81) => receiver.release(),
                Next::Frame(received) => {
                    // A slot has space for a SecTAG in front and an ICV behind, so a frame is
                    // protected in place.
                    let behind = received.space.len() - received.place.end;
                    let has_room = received.place.start >= 32 && behind >= 32;
                    assert!(has_room || len > 2048, "{:?}, {behind}", received.place);
                    // A cache line begins behind addresses and tag, as requested.
                    let data = received.frame()[16..].as_ptr() as usize;
                    assert!(data.is_multiple_of(64) || len > 2048, "{:?}, {data:#x}", received.place);
                    break received.frame().to_vec();
                }
                Next::Truncated => panic!("the frame of VLAN {vlan} is lost"),
            }
        };
        receiver.release();
        assert!(came == frame, "VLAN {} with the frame of {}", came[15], came[100]);
    }
}

/// A full ring of frames that waited too long, some of them longer than a slot.
fn stale_frames_leave_the_ring_at_once() {
    let space = Namespace::create("stale").expect("a namespace");
    let pair = "link add left mtu 9000 type veth peer name right mtu 1500";
    space.batch(&[pair, "link set left up", "link set right up"].map(str::to_owned)).expect("a pair");
    // Far apart, since the machine may be busy.
    let bounds = Bounds::new(Some(Duration::from_millis(4000)), Some(Duration::from_millis(1500)));
    let open = || {
        let [from, to] = ["left", "right"].map(|name| Interface::find(name).expect("the interface"));
        let receiver = Receiver::open(&to, 12).expect("a ring").bounded(bounds);
        (Sender::open(&from, true).expect("a sender"), receiver)
    };
    let (sender, mut receiver) = space.run(open).expect("in the namespace");
    space.batch(&["link set right mtu 9000".to_owned()]).expect("longer frames");
    let frame = |number: u16, len: usize| {
        let mut frame = vec![0; len];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        frame[14..16].copy_from_slice(&number.to_be_bytes());
        frame
    };
    // The kernel's own frames when the link comes up.
    std::thread::sleep(Duration::from_millis(100));
    receiver.discard();
    let came = |receiver: &mut Receiver| {
        let mut came = Vec::new();
        while let Next::Frame(received) = receiver.peek() {
            let (octets, late) = (received.frame().to_vec(), received.late);
            if octets[12..14] == [0x88, 0xb5] {
                came.push((u16::from_be_bytes([octets[14], octets[15]]), octets.len(), late));
            }
            receiver.release();
        }
        came
    };
    let _ = receiver.overruns();
    for number in 0..1200 {
        sender.send(&frame(number, if number % 16 == 0 { 4000 } else { 60 })).expect("sent");
    }
    std::thread::sleep(Duration::from_millis(4100));
    // The ring is full, so this one is lost. Those after the first look are not.
    sender.send(&frame(2000, 60)).expect("sent");
    assert_eq!(came(&mut receiver), []);
    let stale = receiver.take_stale();
    assert!(stale >= 1000, "{stale} stale");
    assert_eq!(stale + receiver.overruns(), 1201);
    for (number, len) in [(2001, 60), (2002, 4000), (2003, 60)] {
        sender.send(&frame(number, len)).expect("sent");
    }
    assert_eq!(came(&mut receiver), [(2001, 60, false), (2002, 4000, false), (2003, 60, false)]);
    sender.send(&frame(2004, 60)).expect("sent");
    std::thread::sleep(Duration::from_millis(1700));
    sender.send(&frame(2005, 60)).expect("sent");
    assert_eq!(came(&mut receiver), [(2004, 60, true), (2005, 60, false)], "too old for a cyclic frame");
    assert_eq!(receiver.take_stale(), 0);
    // With a frame in its hands the thread stands still.
    sender.send(&frame(2006, 60)).expect("sent");
    assert!(matches!(receiver.peek(), Next::Frame(_)));
    std::thread::sleep(Duration::from_millis(1700));
    let error = sender.send(&frame(2007, 60)).expect_err("overdue");
    assert_eq!(error.raw_os_error(), Some(OVERDUE));
    receiver.release();
    assert_eq!(came(&mut receiver), []);
    sender.send(&frame(2008, 60)).expect("what is not forwarded has no age");
}

fn rehearsed_send_sends_nothing() {
    let space = Namespace::create("rehearsed").expect("a namespace");
    let pair = "link add left type veth peer name right";
    space.batch(&[pair, "link set left up", "link set right up"].map(str::to_owned)).expect("a pair");
    let open = || {
        let [from, to] = ["left", "right"].map(|name| Interface::find(name).expect("the interface"));
        (Sender::open(&from, true).expect("a sender"), Receiver::open(&to, 12).expect("a ring"))
    };
    let (mut sender, mut receiver) = space.run(open).expect("in the namespace");
    for round in 0..3u8 {
        for _ in 0..100 {
            sender.rehearse();
        }
        // Also after the link was down.
        let mut frame = [round; 60];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        let end = Instant::now() + PATIENCE;
        while sender.send(&frame).is_err() {
            assert!(Instant::now() < end, "the link does not come up again");
        }
        loop {
            assert!(Instant::now() < end, "frame {round} does not come");
            let Next::Frame(received) = receiver.peek() else { continue };
            let came = received.frame().to_vec();
            receiver.release();
            // The kernel's own frames have its addresses.
            assert!(came[..14] != [0; 14], "a frame of zeros came: {came:?}");
            if came == frame {
                break;
            }
        }
        space.set_link("right", false).expect("down");
        sender.rehearse();
        space.set_link("right", true).expect("up");
    }
}

fn namespaces_of_ended_runs_are_removed() {
    // Beyond the largest process ID of Linux (proc(5), pid_max).
    let name = "antedate-4194305-plc";
    let made = Command::new("ip").args(["netns", "add", name]).status().expect("ip runs");
    assert!(made.success());
    let own = Namespace::create("own").expect("a namespace of our own");
    let swept = ns::sweep();
    assert!(swept.iter().any(|swept| swept == name), "{swept:?}");
    assert!(!swept.iter().any(|swept| swept == own.name()), "the living are left alone");
}

//! Both ways of frames to a driver: a packet socket, and AF_XDP in copy mode, on veth pairs and in
//! gateways.

mod daemon;
mod harness;
#[allow(dead_code, reason = "this program uses a part of the plant")]
mod plant;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use antedate_gateway::sys::age::{Age, Ages, Bounds, OVERDUE};
use antedate_gateway::sys::interface::Interface;
use antedate_gateway::sys::packet::{Next, Receiver};
use antedate_gateway::sys::sender::{Carries, Sender};
use antedate_gateway::sys::xdp::{Tally, Xdp, XdpError};
use antedate_lab::ns::Namespace;
use harness::Test;
use plant::{PATIENCE, Plant, Settings, arp, carry_tcp, cyclic};

const TESTS: &[Test] = &[
    ("held_frames_leave_in_order", held_frames_leave_in_order),
    ("nothing_overdue_leaves", nothing_overdue_leaves),
    ("first_frame_leaves_at_once", first_frame_leaves_at_once),
    ("flood_loses_nothing_unseen", flood_loses_nothing_unseen),
    ("nothing_stale_leaves_after_link_down", nothing_stale_leaves_after_link_down),
    ("dropped_frames_are_counted_once", dropped_frames_are_counted_once),
    ("queue_is_free_again_after_close", queue_is_free_again_after_close),
    ("jumbo_frames_are_refused_at_the_start", jumbo_frames_are_refused_at_the_start),
    ("gateways_forward_either_way", gateways_forward_either_way),
    ("tcp_crosses_either_way", tcp_crosses_either_way),
    ("reopened_port_gets_its_socket_again", reopened_port_gets_its_socket_again),
    ("restarted_gateway_gets_its_socket_again", restarted_gateway_gets_its_socket_again),
];

const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

fn main() -> ExitCode {
    harness::run("both ways to a driver", TESTS)
}

/// A veth pair: its sender by AF_XDP, and the receiver of the other end.
struct Pair {
    space: Namespace,
    sender: Sender,
    receiver: Receiver,
}

impl Pair {
    fn new(name: &str, in_order: bool) -> Self {
        let space = Namespace::create(name).expect("a namespace");
        let pair = "link add left type veth peer name right";
        space.batch(&[pair, "link set left up", "link set right up"].map(str::to_owned)).expect("a pair");
        let open = || {
            let [from, to] = ["left", "right"].map(|name| Interface::find(name).expect("the interface"));
            let mut sender = Sender::open(&from, true).expect("a sender");
            sender.attach(Xdp::open(&from, Duration::from_secs(1)).expect("the kernel has AF_XDP"), in_order);
            (sender, Receiver::open(&to, 12).expect("a ring"))
        };
        let (sender, receiver) = space.run(open).expect("in the namespace");
        Self { space, sender, receiver }
    }

    /// The numbers of the frames that come until this one, or for some time.
    fn came(&mut self, last: u32) -> Vec<u32> {
        let end = Instant::now() + Duration::from_millis(500);
        let mut came = Vec::new();
        while Instant::now() < end && came.last() != Some(&last) {
            if let Next::Frame(received) = self.receiver.peek() {
                let octets = received.frame();
                let at = if octets[12..14] == [0x81, 0x00] { 16 } else { 12 };
                if octets[at..at + 2] == ETHERTYPE {
                    let number: [u8; 4] = octets[at + 2..at + 6].try_into().expect("four octets");
                    came.push(u32::from_be_bytes(number));
                }
                self.receiver.release();
            }
        }
        came
    }

    fn set_link(&self, name: &str, up: bool) {
        self.space.set_link(name, up).expect("a link");
    }
}

fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![number as u8; len];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&ETHERTYPE);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn held_frames_leave_in_order() {
    let mut pair = Pair::new("order", false);
    // Held until the fourth one.
    for number in 0..3 {
        assert!(!pair.sender.hold(None, &frame(number, 60)).expect("held"));
    }
    assert!(pair.came(0).is_empty(), "they wait");
    assert!(!pair.sender.hold(None, &frame(3, 1514)).expect("held"));
    assert_eq!(pair.came(3), [0, 1, 2, 3]);
    // Until one that does not wait; until one that only a packet socket takes; with a tag.
    let tag = [0x81, 0x00, 0xc0, 0x05];
    let double = |number| {
        let mut frame = frame(number, 1518);
        frame.splice(12..12, [0x81, 0x00, 0x00, 0x06]);
        frame
    };
    pair.sender.hold(Some(tag), &frame(4, 100)).expect("held");
    pair.sender.send(&frame(5, 60)).expect("sent");
    pair.sender.hold(None, &frame(6, 60)).expect("held");
    pair.sender.send_tagged(Carries::Both, tag, &frame(7, 60)).expect("sent");
    pair.sender.hold(None, &frame(8, 60)).expect("held");
    // Over the MTU: the kernel's word on it is that of a packet socket.
    let error = pair.sender.hold(None, &double(9)).expect_err("too long");
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
    pair.sender.rehearse();
    pair.sender.hold(None, &frame(10, 60)).expect("held");
    let tally = pair.sender.settle().expect("AF_XDP");
    assert_eq!(pair.came(10), [4, 5, 6, 7, 8, 10]);
    let octets = 3 * 60 + 1514 + 104 + 3 * 60;
    assert_eq!(tally, Tally { sent: 8, octets, lost: 0, error: 0 }, "those that were held");
    assert_eq!(pair.sender.settle(), Some(Tally::default()));
}

/// Frames that the thread held while it stood still.
fn nothing_overdue_leaves() {
    let mut pair = Pair::new("overdue", false);
    let bound = Duration::from_millis(300);
    let mut ages = Ages::new(Bounds::new(None, Some(bound)));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    assert_eq!(ages.of(now.as_nanos() as i64), Age::Fresh);
    pair.sender.send(&frame(0, 60)).expect("sent");
    for number in 1..3 {
        assert!(!pair.sender.hold(None, &frame(number, 60)).expect("held"));
    }
    thread::sleep(bound + Duration::from_millis(100));
    let error = pair.sender.send(&frame(3, 60)).expect_err("overdue");
    assert_eq!(error.raw_os_error(), Some(OVERDUE));
    // More than the socket has chunks.
    for number in 4..1004 {
        assert!(!pair.sender.hold(None, &frame(number, 60)).expect("held"));
    }
    let tally = pair.sender.settle().expect("AF_XDP");
    assert_eq!(tally, Tally { sent: 0, octets: 0, lost: 1002, error: OVERDUE });
    ages.queue_is_empty();
    pair.sender.send(&frame(1004, 60)).expect("sent");
    for number in 1005..1009 {
        assert!(!pair.sender.hold(None, &frame(number, 60)).expect("held"));
    }
    assert_eq!(pair.came(1008), [0, 1004, 1005, 1006, 1007, 1008]);
}

fn first_frame_leaves_at_once() {
    let mut pair = Pair::new("first", true);
    for round in 0..5 {
        let first = 10 * round;
        assert!(pair.sender.hold(None, &frame(first, 60)).expect("sent"));
        assert_eq!(pair.came(first), [first]);
        assert!(!pair.sender.hold(None, &frame(first + 1, 60)).expect("held"));
        assert!(pair.came(first + 1).is_empty(), "it waits");
        // One that does not wait leaves behind it.
        pair.sender.send(&frame(first + 2, 60)).expect("sent");
        assert_eq!(pair.came(first + 2), [first + 1, first + 2]);
        let tally = pair.sender.settle().expect("AF_XDP");
        assert_eq!(tally, Tally { sent: 1, octets: 60, lost: 0, error: 0 }, "the one that waited");
    }
}

fn flood_loses_nothing_unseen() {
    [false, true].into_iter().for_each(flood);
}

fn flood(in_order: bool) {
    let mut pair = Pair::new("flood", in_order);
    const FRAMES: u32 = 50_000;
    let mut alone = 0;
    let _ = pair.receiver.overruns();
    let mut came: Vec<u32> = Vec::new();
    let mut take = |receiver: &mut Receiver| {
        while let Next::Frame(received) = receiver.peek() {
            if received.frame()[12..14] == ETHERTYPE {
                let number: [u8; 4] = received.frame()[14..18].try_into().expect("four octets");
                came.push(u32::from_be_bytes(number));
            }
            receiver.release();
        }
    };
    for number in 0..FRAMES {
        let frame = frame(number, 60 + (number % 1400) as usize);
        if number % 7 == 0 {
            pair.sender.send(&frame).expect("sent");
            alone += 1;
        } else {
            // The first one may leave at once.
            alone += u64::from(pair.sender.hold(None, &frame).expect("held"));
        }
        if number % 512 == 0 {
            take(&mut pair.receiver);
        }
    }
    let tally = pair.sender.settle().expect("AF_XDP");
    thread::sleep(Duration::from_millis(100));
    take(&mut pair.receiver);
    assert_eq!((tally.sent + alone, tally.lost), (u64::from(FRAMES), 0));
    assert!(came.is_sorted_by(|a, b| a < b), "each once, in order");
    assert_eq!(came.len() as u64 + pair.receiver.overruns(), u64::from(FRAMES));
}

fn nothing_stale_leaves_after_link_down() {
    let mut pair = Pair::new("down", false);
    pair.sender.send(&frame(0, 60)).expect("sent");
    assert_eq!(pair.came(0), [0]);
    pair.sender.hold(None, &frame(1, 60)).expect("held");
    pair.set_link("left", false);
    for number in 2..4 {
        pair.sender.hold(None, &frame(number, 60)).expect("held");
    }
    let tally = pair.sender.settle().expect("AF_XDP");
    assert_eq!(tally, Tally { sent: 0, octets: 0, lost: 3, error: libc::ENETDOWN });
    // More than the ring has entries.
    for number in 4..1000 {
        let error = pair.sender.send(&frame(number, 60)).expect_err("there is no link");
        assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN), "{number}");
    }
    for round in 1..4 {
        pair.set_link("left", true);
        let end = Instant::now() + PATIENCE;
        let mut number = round * 1000;
        // The link needs a moment.
        while pair.sender.send(&frame(number, 60)).is_err() || pair.came(number).is_empty() {
            assert!(Instant::now() < end, "the link does not come up again");
            number += 1;
        }
        for more in 1..300 {
            pair.sender.hold(None, &frame(number + more, 60)).expect("held");
        }
        let tally = pair.sender.settle().expect("AF_XDP");
        assert_eq!((tally.sent, tally.lost), (299, 0));
        let came = pair.came(number + 299);
        assert_eq!(came, (number + 1..=number + 299).collect::<Vec<_>>(), "round {round}");
        pair.set_link("left", false);
        // The packet socket refuses them, once some were voided.
        let refused = (0..50).filter(|number| pair.sender.hold(None, &frame(*number, 60)).is_err()).count();
        let tally = pair.sender.settle().expect("AF_XDP");
        assert_eq!((tally.sent, tally.lost + refused as u64), (0, 50));
    }
}

fn dropped_frames_are_counted_once() {
    let mut pair = Pair::new("drops", false);
    pair.sender.send(&frame(0, 60)).expect("sent");
    // Without a carrier the driver is not asked, and each frame ends a kick.
    pair.set_link("right", false);
    let end = Instant::now() + PATIENCE;
    while pair.sender.send(&frame(1, 60)).is_ok() {
        assert!(Instant::now() < end, "the link does not go down");
    }
    for round in 0..200 {
        for number in 0..3 {
            pair.sender.hold(None, &frame(number, 100)).expect("held");
        }
        let tally = pair.sender.settle().expect("AF_XDP");
        assert_eq!(tally, Tally { sent: 0, octets: 0, lost: 3, error: libc::ENOBUFS }, "round {round}");
        pair.sender.hold(None, &frame(3, 60)).expect("held");
        let error = pair.sender.send(&frame(4, 60)).expect_err("there is no carrier");
        assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS));
        assert_eq!(pair.sender.settle().expect("AF_XDP").lost, 1);
    }
    pair.set_link("right", true);
    let mut number = 1000;
    while pair.sender.send(&frame(number, 60)).is_err() || pair.came(number).is_empty() {
        assert!(Instant::now() < end + PATIENCE, "the link does not come up again");
        number += 1;
    }
    for more in 1..600 {
        pair.sender.hold(None, &frame(number + more, 60)).expect("held");
    }
    assert_eq!(pair.sender.settle().expect("AF_XDP").sent, 599);
    assert_eq!(pair.came(number + 599), (number + 1..=number + 599).collect::<Vec<_>>());
}

fn queue_is_free_again_after_close() {
    let pair = Pair::new("busy", false);
    let open = |patience| {
        let open = || Xdp::open(&Interface::find("left").expect("the interface"), patience);
        pair.space.run(open).expect("in the namespace")
    };
    assert!(matches!(open(Duration::ZERO), Err(XdpError::Busy)));
    drop(pair.sender);
    for _ in 0..3 {
        drop(open(Duration::from_secs(1)).expect("the queue is free again"));
    }
}

fn jumbo_frames_are_refused_at_the_start() {
    let pair = Pair::new("jumbo", false);
    let with = |mtu: u32| {
        pair.space.batch(&[format!("link set left mtu {mtu}")]).expect("another MTU");
        let probe = || Xdp::probe(&Interface::find("left").expect("the interface"));
        pair.space.run(probe).expect("in the namespace")
    };
    assert!(matches!(with(9000), Err(XdpError::Mtu(9000))));
    assert!(with(4078).is_ok());
}

fn settings(io: &'static str) -> Settings<'static> {
    Settings { io, policy: "allow = [\"profinet-rt\", \"arp\", \"ipv4\"]", ..Settings::default() }
}

/// A UDP datagram over IPv4 with a number.
fn udp(number: u8, len: usize) -> Vec<u8> {
    let mut frame = cyclic(number, len);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 7, 0, 1, 10, 7, 0, 2]);
    frame[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    frame
}

fn gateways_forward_either_way() {
    for (io, shown) in [("io = \"ring\"", "ring"), ("io = \"xdp\"", "xdp"), ("", "xdp")] {
        for run in ["poll = \"block\"", "poll = \"busy\"\nthreads = 2"] {
            let plant = Plant::build(&Settings { run, ..settings(io) });
            let mut sent = Vec::new();
            // Cyclic ones alone, and bulk in bursts, some with a cyclic one between.
            for number in 0..100u8 {
                sent.push(match number % 10 {
                    0 => cyclic(number, 64),
                    1 => arp(),
                    _ => udp(number, 60 + usize::from(number) * 14),
                });
            }
            for burst in sent.chunks(9) {
                for (from, to) in [(&plant.plc, &plant.device), (&plant.device, &plant.plc)] {
                    burst.iter().for_each(|frame| from.send(frame));
                    let came: Vec<_> = burst.iter().map_while(|_| to.next(PATIENCE)).collect();
                    // A cyclic frame has a ring of its own, and may overtake.
                    let cyclic = |frame: &&Vec<u8>| frame[12..14] == [0x88, 0x92];
                    let sorted = |frames: &[Vec<u8>]| -> [Vec<Vec<u8>>; 2] {
                        let (first, rest) = frames.iter().partition(cyclic);
                        [first, rest].map(|part: Vec<&Vec<u8>>| part.into_iter().cloned().collect())
                    };
                    assert!(sorted(&came) == sorted(burst), "{} of {}", came.len(), burst.len());
                }
            }
            let told = [&plant.a, &plant.b].map(|gateway| gateway.status());
            let numbers = told.each_ref().map(|status| {
                assert_eq!([&*status.field.io, &*status.uplink.io], [shown; 2]);
                assert_eq!([status.out.forwarded_frames, status.inward.forwarded_frames], [100; 2]);
                assert_eq!([status.field.send_errors, status.uplink.send_errors], [0; 2]);
                let counters = &status.macsec.as_ref().expect("MACsec is in use").counters;
                // In order, for the window is none.
                assert_eq!((counters["InPktsLate"], counters["InPktsNotValid"]), (0, 0), "{counters:?}");
                (counters["OutPktsEncrypted"], counters["InPktsOK"])
            });
            assert_eq!((numbers[0].0, numbers[0].1), (numbers[1].1, numbers[1].0), "each number arrives");
        }
    }
}

fn tcp_crosses_either_way() {
    for io in ["io = \"ring\"", "io = \"xdp\""] {
        let plant = Plant::build(&settings(io));
        carry_tcp(&plant.chain);
        for gateway in [&plant.a, &plant.b] {
            let counters = gateway.status().macsec.expect("MACsec is in use").counters;
            assert_eq!((counters["InPktsLate"], counters["InPktsNotValid"]), (0, 0), "{counters:?}");
        }
    }
}

/// Waits until the uplink of gateway A shows this way.
fn until_uplink(plant: &Plant, io: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    while plant.a.status().uplink.io != io {
        assert!(Instant::now() < end, "not {io}: {:?}", plant.a.status().uplink);
        thread::sleep(Duration::from_millis(20));
    }
}

fn reopened_port_gets_its_socket_again() {
    let plant = Plant::build(&settings("io = \"xdp\""));
    plant.until_it_crosses(&cyclic(1, 64));
    // The old socket has the queue until the thread has taken the new ports.
    plant.set_wire_mtu(1600);
    until_uplink(&plant, "ring");
    plant.until_it_crosses(&cyclic(2, 64));
    until_uplink(&plant, "xdp");
    plant.until_it_crosses(&cyclic(3, 64));
    // Another interface of the same name.
    plant.replace_wire();
    plant.until_it_crosses(&cyclic(4, 64));
    until_uplink(&plant, "xdp");
    plant.until_it_crosses(&udp(5, 200));
}

fn restarted_gateway_gets_its_socket_again() {
    let mut plant = Plant::build(&settings("io = \"xdp\""));
    for number in 0..3 {
        plant.until_it_crosses(&cyclic(number, 64));
        plant.restart_both();
    }
    plant.until_it_crosses(&cyclic(9, 64));
    until_uplink(&plant, "xdp");
}

//! Two gateways between a PLC and a device in network namespaces: forwarding, refusals, recovery.

mod daemon;
mod harness;
mod plant;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::run::control::Ping;
use antedate_lab::sys::packet::{Options, PacketSocket};
use harness::Test;
use plant::{CYCLIC, Gateway, PATIENCE, Plant, Port, Settings, arp, carry_tcp, cyclic, dcp_set, vlan};

const TESTS: &[Test] = &[
    ("every_suite_works_both_ways", every_suite_works_both_ways),
    ("vlan_tags_survive_both_gateways", vlan_tags_survive_both_gateways),
    ("outer_tags_are_for_switches_alone", outer_tags_are_for_switches_alone),
    ("unnamed_traffic_is_refused_and_counted", unnamed_traffic_is_refused_and_counted),
    ("oversize_frame_costs_no_packet_number", oversize_frame_costs_no_packet_number),
    ("full_frames_cross_in_fragments", full_frames_cross_in_fragments),
    ("replayed_fragment_is_refused", replayed_fragment_is_refused),
    ("express_frames_overtake_bulk", express_frames_overtake_bulk),
    ("flood_loses_no_frame_with_a_deadline", flood_loses_no_frame_with_a_deadline),
    ("storms_are_bounded_and_told", storms_are_bounded_and_told),
    ("joined_segments_arrive_unchanged", joined_segments_arrive_unchanged),
    ("thread_per_direction_forwards", thread_per_direction_forwards),
    ("a_switched_association_loses_no_frame", a_switched_association_loses_no_frame),
    ("gateway_survives_link_down", gateway_survives_link_down),
    ("replaced_interface_is_reopened", replaced_interface_is_reopened),
    ("returned_interface_is_reopened", returned_interface_is_reopened),
    ("renamed_interface_shows_its_name", renamed_interface_shows_its_name),
    ("static_keys_find_the_path_mtu", static_keys_find_the_path_mtu),
    ("an_mtu_that_is_raised_is_followed", an_mtu_that_is_raised_is_followed),
    ("lower_mtu_is_followed", lower_mtu_is_followed),
    ("replays_are_refused_after_restart", replays_are_refused_after_restart),
    ("bad_frames_stop_nothing", bad_frames_stop_nothing),
    ("private_suites_refuse_forged_frames", private_suites_refuse_forged_frames),
];

fn main() -> ExitCode {
    harness::run("gateways", TESTS)
}

fn every_suite_works_both_ways() {
    for suite in [
        "gcm-aes-128",
        "gcm-aes-256",
        "gcm-aes-xpn-128",
        "gcm-aes-xpn-256",
        "chacha20-poly1305",
        "ascon-aead128",
        "aes-128-ocb3",
    ] {
        for macsec in ["", "confidentiality = false"] {
            let plant = Plant::build(&Settings { suite, macsec, ..Settings::default() });
            for length in [60, 64, 200, 1514] {
                let (there, back) = (cyclic(1, length), cyclic(2, length));
                plant.plc.send(&there);
                plant.device.expect(&there);
                plant.device.send(&back);
                plant.plc.expect(&back);
            }
            let counters = plant.a.status().macsec.expect("MACsec is in use").counters;
            assert_eq!(counters["InPktsOK"], 4, "{suite} {macsec}: {counters:?}");
            let expected = if macsec.is_empty() { "OutPktsEncrypted" } else { "OutPktsProtected" };
            assert_eq!(counters[expected], 4, "{suite} {macsec}: {counters:?}");
        }
    }
}

fn vlan_tags_survive_both_gateways() {
    let plant = Plant::build(&Settings::default());
    // Profinet tags cyclic data with priority 6 in VLAN 0; 802.1ad stacks two tags.
    for tags in [&[(0x8100, 0xc000)][..], &[(0x88a8, 0x2007), (0x8100, 0x0005)]] {
        let frame = vlan(&cyclic(1, 80), tags);
        plant.plc.send(&frame);
        plant.device.expect(&frame);
        plant.device.send(&frame);
        plant.plc.expect(&frame);
    }
}

fn is_of_the_plc(frame: &[u8]) -> bool {
    frame[6..12] == CYCLIC[6..12]
}

fn outer_tags_are_for_switches_alone() {
    let outside = "vlan = \"outside\"\nvlan_id = 100\nvlan_priorities = [0, 1, 2, 3, 4, 5, 7, 7]";
    let plain = cyclic(1, 80);
    let tagged = vlan(&plain, &[(0x8100, 0xd005)]);
    let full = vlan(&cyclic(2, 1510), &[(0x8100, 0xc000)]);
    let express = "\n[express]\ntraffic = [\"profinet-rt\"]\nrate_mbit = 1000";
    for (uplink, more, tags) in [
        (outside, "", [Some(0x0064), Some(0xf064), Some(0xe064)]),
        ("vlan = \"copy\"", "", [None, Some(0xd005), Some(0xc000)]),
        (outside, express, [Some(0x0064), Some(0xf064), Some(0xe064)]),
    ] {
        let macsec = format!("fragmentation = true{more}");
        let settings = Settings { uplink, macsec: &macsec, wire_mtu: 1500, ..Settings::default() };
        let plant = Plant::build(&settings);
        plant.until_it_crosses(&plain);
        let recorder = plant.record_wire();
        // A switch that leaves the tags as they are.
        for (frame, tag) in [&plain, &tagged, &full].into_iter().zip(tags) {
            plant.plc.send(frame);
            plant.device.expect(frame);
            // Gateways send echoes of their own.
            let mut all = recorder.rest();
            all.retain(|sent| is_of_the_plc(sent));
            assert!(if *frame == full { all.len() > 1 } else { all.len() == 1 }, "{all:02x?}");
            for sent in all {
                let (outer, rest) = sent[12..].split_at(if tag.is_some() { 4 } else { 0 });
                let wanted = tag.map(|tci: u16| [[0x81, 0x00], tci.to_be_bytes()].concat());
                assert_eq!(outer, wanted.unwrap_or_default(), "{uplink}");
                assert_eq!(rest[..2], [0x88, 0xe5], "its own tag stays protected");
            }
        }
        assert_eq!(plant.b.status().inward.outer_priorities_differ, 0);
        // One that removes them, adds one, changes the VLAN, and then the priority.
        let wire = plant.chain.wire.as_ref().expect("there is a wire");
        wire.batch(&["link set dev a nomaster".into()]).expect("the wire is cut");
        for (tags, differing) in [
            (&[][..], 0),
            (&[(0x88a8, 0xe007), (0x8100, 0xe064)], 0),
            (&[(0x8100, 0xe001)], 0),
            (&[(0x8100, 0x2064)], 1),
        ] {
            plant.plc.send(&vlan(&plain, &[(0x8100, 0xc000)]));
            let sent = std::iter::from_fn(|| recorder.take(1).pop()).find(|sent| is_of_the_plc(sent));
            let sent = sent.expect("it is on the wire");
            let bare = [&sent[..12], &sent[16..]].concat();
            recorder.send(&vlan(&bare, tags));
            plant.device.expect(&vlan(&plain, &[(0x8100, 0xc000)]));
            if uplink == outside {
                assert_eq!(plant.b.status().inward.outer_priorities_differ, differing, "{tags:04x?}");
            }
        }
    }
}

fn unnamed_traffic_is_refused_and_counted() {
    let policy = "allow = [\"profinet-rt\", \"profinet-dcp-read\"]\n\
                  [[policy.rule]]\nframe_id = [0x8100, 0x81ff]\ndirection = \"in\"\naction = \"deny\"";
    let plant = Plant::build(&Settings { policy, ..Settings::default() });
    plant.plc.send(&dcp_set());
    plant.plc.send(&arp());
    let mut denied = cyclic(1, 64);
    denied[14..16].copy_from_slice(&[0x81, 0x05]);
    plant.plc.send(&denied);
    let good = cyclic(1, 64);
    plant.plc.send(&good);
    plant.device.expect(&good);
    let (a, b) = (plant.a.status(), plant.b.status());
    assert_eq!(a.out.refused.get("policy:profinet-dcp-set"), Some(&1), "{:?}", a.out);
    assert_eq!(a.out.refused.get("policy:arp"), Some(&1), "{:?}", a.out);
    assert_eq!(a.out.forwarded_frames, 2, "the rule is for the way in alone: {:?}", a.out);
    assert_eq!(b.inward.rules, [1], "{:?}", b.inward);
    assert_eq!(b.inward.refused.get("policy:profinet-rt"), Some(&1), "{:?}", b.inward);
}

fn oversize_frame_costs_no_packet_number() {
    let plant = Plant::build(&Settings { wire_mtu: 1500, ..Settings::default() });
    plant.plc.send(&cyclic(1, 1514));
    let fits = cyclic(1, 1514 - 32);
    plant.plc.send(&fits);
    plant.device.expect(&fits);
    let status = plant.a.status();
    assert_eq!(status.out.refused.get("too-long"), Some(&1), "{:?}", status.out);
    let macsec = status.macsec.expect("MACsec is in use");
    assert_eq!((macsec.counters["OutPktsTooLong"], macsec.transmit[0].next_pn), (1, 2));
}

fn full_frames_cross_in_fragments() {
    for (mtu, mode) in [(1500, "true"), (1500, "\"marked\""), (256, "true"), (128, "\"marked\"")] {
        let macsec = format!("fragmentation = {mode}");
        let plant = Plant::build(&Settings { wire_mtu: mtu, macsec: &macsec, ..Settings::default() });
        for length in [60, 200, 1482, 1483, 1514] {
            let (there, back) = (cyclic(1, length), cyclic(2, length));
            plant.plc.send(&there);
            plant.device.expect(&there);
            plant.device.send(&back);
            plant.plc.expect(&back);
        }
        let tagged = vlan(&cyclic(3, 1510), &[(0x8100, 0xc005)]);
        plant.plc.send(&tagged);
        plant.device.expect(&tagged);
        let [a, b] =
            [&plant.a, &plant.b].map(|gateway| gateway.status().macsec.expect("MACsec is in use").counters);
        assert!(a["OutFramesFragmented"] >= 3, "{mtu} {mode}: {a:?}");
        assert_eq!(b["InFramesReassembled"], a["OutFramesFragmented"], "{mtu} {mode}: {b:?}");
        assert_eq!(b["InFragments"], a["OutFragments"], "{mtu} {mode}: {b:?}");
    }
}

fn replayed_fragment_is_refused() {
    let macsec = "fragmentation = \"marked\"";
    let plant = Plant::build(&Settings { wire_mtu: 1500, macsec, ..Settings::default() });
    let recorder = plant.record_wire();
    let whole = cyclic(1, 1514);
    plant.plc.send(&whole);
    plant.device.expect(&whole);
    // The first fragment with a used number is refused. Later frames cross.
    let fragments = recorder.take(2);
    assert!(fragments.iter().all(|fragment| fragment.len() == 14 + 750 + 32), "equal fragments");
    assert_eq!((fragments[0][15], fragments[1][15]), (0x80, 0x40));
    recorder.send(&fragments[0]);
    plant.device.expect_nothing();
    for number in 2..6 {
        let frame = cyclic(number, if number % 2 == 0 { 1514 } else { 64 });
        plant.plc.send(&frame);
        plant.device.expect(&frame);
    }
}

fn express_frames_overtake_bulk() {
    let bulk = |number| {
        let mut frame = cyclic(number, 1514);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame
    };
    for (suite, run) in [("gcm-aes-128", "poll = \"block\""), ("gcm-aes-xpn-256", "threads = 2")] {
        let mut plant = Plant::build(&Settings {
            suite,
            run,
            macsec: "fragmentation = \"marked\"\n[express]\ntraffic = [\"profinet-rt\"]\nrate_mbit = 100",
            policy: "allow = [\"profinet-rt\", \"ipv4\"]",
            wire_mtu: 1500,
            ..Settings::default()
        });
        for round in 0..2 {
            for number in 0..60 {
                plant.plc.send(&bulk(number));
            }
            let express = cyclic(200, 64);
            plant.plc.send(&express);
            let came: Vec<_> =
                (0..61).map(|_| plant.device.next(PATIENCE).expect("a frame arrives")).collect();
            let place = came.iter().position(|frame| *frame == express).expect("the express frame arrives");
            assert!(place < 55, "it came as number {place} of 61");
            assert!(
                came.iter().filter(|frame| **frame != express).cloned().eq((0..60).map(bulk)),
                "in order"
            );
            let status = plant.a.status();
            assert_eq!((status.out.express_frames, status.out.refused.len()), (1, 0), "{:?}", status.out);
            let (counted, sent) =
                (status.macsec.expect("MACsec is in use").counters, status.out.forwarded_frames);
            assert_eq!(counted["OutPktsEncrypted"], sent, "both channels are counted: {counted:?}");
            let back = cyclic(1, 64);
            plant.device.send(&back);
            plant.plc.expect(&back);
            if round == 0 {
                plant.restart_both();
            }
        }
        let channels = plant.b.status().macsec.expect("MACsec is in use").receive;
        assert!(channels.iter().any(|sa| sa.member == "a.express" && sa.lowest_pn > 1), "{channels:?}");
    }
}

/// A frame of priority 6 every two milliseconds, beside as many others as a thread can send. The
/// ring has a place for each of them, however long the machine stops the gateways.
fn flood_loses_no_frame_with_a_deadline() {
    const CYCLES: u32 = 500;
    for uplink in ["vlan = \"outside\"", "vlan = \"copy\""] {
        let plant = Plant::build(&Settings {
            uplink,
            policy: "allow = [\"profinet-rt\", \"ipv4\"]",
            run: "max_age_ms = 10000\nmax_age_cyclic_ms = 10000",
            ..Settings::default()
        });
        let before = lost_in_the_kernel();
        let numbered = |number: u32| {
            let mut frame = cyclic(0, 60);
            frame[20..24].copy_from_slice(&number.to_be_bytes());
            vlan(&frame, &[(0x8100, 0xc000)])
        };
        plant.until_it_crosses(&numbered(u32::MAX));
        let options =
            Options { protocol: 0x8892, promiscuous: true, receive_buffer: 16 << 20, ..Options::default() };
        let hears = plant.chain.device.run(|| PacketSocket::open("eth0", options)).expect("a thread");
        let (hears, other) = (hears.expect("a socket"), Port::open(&plant.chain.plc, "eth0"));
        let bulk = {
            let mut frame = cyclic(9, 60);
            frame[12..14].copy_from_slice(&[0x08, 0x00]);
            frame
        };
        let ends = AtomicBool::new(false);
        let flooded = thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let mut sent = 0u64;
                while !ends.load(Ordering::Relaxed) {
                    other.try_send(&bulk);
                    sent += 1;
                }
                sent
            });
            let begin = Instant::now();
            for cycle in 0..CYCLES {
                let due = begin + Duration::from_millis(2 * u64::from(cycle));
                thread::sleep(due.saturating_duration_since(Instant::now()));
                plant.plc.send(&numbered(cycle));
            }
            ends.store(true, Ordering::Relaxed);
            flood.join().expect("the flood ends")
        });
        let (mut buffer, mut came) = ([0; 2048], Vec::new());
        while hears.wait(500_000_000).expect("a wait") {
            let Ok(Some(length)) = hears.receive(&mut buffer, false) else { continue };
            // The tag is beside the frame.
            came.extend(buffer[20..length].first_chunk().map(|number| u32::from_be_bytes(*number)));
        }
        let [a, b] = [&plant.a, &plant.b].map(Gateway::status);
        println!(
            "   {uplink}: {flooded} frames beside; lost in rings: {} and {}",
            a.field.ring_drops, b.uplink.ring_drops
        );
        assert_eq!((a.field.urgent_ring_drops, b.uplink.urgent_ring_drops), (0, 0));
        // A virtual cable drops frames too, when the receiver's core has no time for it.
        let missing = CYCLES as usize - came.len();
        assert!(missing as u64 <= lost_in_the_kernel() - before, "{missing} of {CYCLES} are missing");
        assert!(came.is_sorted() && came.last().is_some_and(|last| *last < CYCLES), "{came:?}");
    }
}

/// Frames that this machine dropped before any socket saw them.
fn lost_in_the_kernel() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).sum()
}

fn storms_are_bounded_and_told() {
    let rule = "[[policy.rule]]\naction = \"allow\"\nethertype = \"ipv4\"\nframes_per_second = 100";
    let policy =
        format!("allow = [\"profinet-rt\", \"arp\"]\nbroadcast_limit = 100\nunknown_limit = 100\n{rule}");
    let plant = Plant::build(&Settings { policy: &policy, ..Settings::default() });
    let mut broadcast = arp();
    broadcast[..6].fill(0xff);
    let mut other = cyclic(0, 60);
    other[12..14].copy_from_slice(&[0x08, 0x00]);
    let mut unknown = arp();
    unknown[..6].copy_from_slice(&[2, 0, 0x5e, 0, 9, 9]);
    // The other machine is known once it spoke.
    let (there, mut back) = (arp(), arp());
    back[..6].copy_from_slice(&there[6..12]);
    back[6..12].copy_from_slice(&there[..6]);
    plant.device.send(&back);
    plant.plc.expect(&back);
    for storm in [&broadcast, &other, &unknown] {
        (0..1000).for_each(|_| plant.plc.send(storm));
        let mut came = 0;
        while plant.device.next(Duration::from_millis(100)).is_some() {
            came += 1;
        }
        // A burst of 64 and what a slow machine adds.
        assert!((64..500).contains(&came), "{came} of 1000");
        // Others pass, also to their own address.
        plant.plc.send(&arp());
        plant.device.expect(&arp());
    }
    let status = plant.a.status();
    for reason in ["storm-broadcast", "over-limit", "storm-unknown"] {
        assert!(status.out.refused.get(reason).is_some_and(|count| *count > 500), "{:?}", status.out);
    }
    let end = Instant::now() + PATIENCE;
    let told = || plant.a.status().warnings.into_iter().find(|warning| warning.name == "storm");
    let warning = loop {
        match told() {
            Some(warning) => break warning,
            None => assert!(Instant::now() < end, "nobody is told"),
        }
        thread::sleep(Duration::from_millis(50));
    };
    assert!(warning.what.contains("last from 02:00:5e:00:00:01"), "{warning:?}");
}

fn joined_segments_arrive_unchanged() {
    let policy = "allow = [\"profinet-rt\", \"arp\", \"ipv4\"]";
    for run in ["", "threads = 2"] {
        let plant = Plant::build(&Settings { policy, run, ..Settings::default() });
        carry_tcp(&plant.chain);
        for gateway in [&plant.a, &plant.b] {
            let status = gateway.status();
            assert!(status.inward.joined > 0, "{:?}", status.inward);
        }
    }
}

fn thread_per_direction_forwards() {
    for poll in ["block", "adaptive", "busy"] {
        let run = format!("threads = 2\ncpus = [0, 1]\npoll = \"{poll}\"");
        let plant = Plant::build(&Settings { run: &run, ..Settings::default() });
        for number in 0..50 {
            let frame = cyclic(number, 64);
            plant.plc.send(&frame);
            plant.device.expect(&frame);
            plant.device.send(&frame);
            plant.plc.expect(&frame);
        }
        let status = plant.a.status();
        assert_eq!(status.threads.iter().map(|t| &*t.direction).collect::<Vec<_>>(), ["out", "in"]);
        assert_eq!((status.out.forwarded_frames, status.inward.forwarded_frames), (50, 50));
    }
}

fn a_switched_association_loses_no_frame() {
    let plant = Plant::build(&Settings::default());
    for number in 0..200 {
        if number % 20 == 10 {
            plant.a.switch(u8::from(number % 40 == 10)).expect("both associations have keys");
        }
        let frame = cyclic(number, 64);
        plant.plc.send(&frame);
        plant.device.expect(&frame);
    }
    let used = plant.a.status().macsec.expect("MACsec is in use").transmit;
    assert!(used.iter().all(|sa| sa.next_pn > 50), "both associations were used: {used:?}");
    assert!(plant.a.switch(3).is_err(), "there is no key for association 3");
}

fn gateway_survives_link_down() {
    let plant = Plant::build(&Settings::default());
    let frame = cyclic(1, 64);
    plant.plc.send(&frame);
    plant.device.expect(&frame);
    for (namespace, interface) in
        [(&plant.chain.gateway_a, "uplink"), (&plant.chain.gateway_b, "field"), (&plant.chain.plc, "eth0")]
    {
        namespace.set_link(interface, false).expect("the link goes down");
        std::thread::sleep(Duration::from_millis(50));
        plant.plc.try_send(&frame);
        namespace.set_link(interface, true).expect("the link comes up");
        plant.until_it_crosses(&frame);
    }
}

fn replaced_interface_is_reopened() {
    let plant = Plant::build(&Settings::default());
    let frame = cyclic(1, 64);
    plant.plc.send(&frame);
    plant.device.expect(&frame);
    plant.replace_wire();
    plant.until_it_crosses(&frame);
    let lowest = plant.b.status().macsec.expect("MACsec is in use").receive[0].lowest_pn;
    assert!(lowest >= 3, "the secure channels went on: {lowest}");
}

fn returned_interface_is_reopened() {
    let plant = Plant::build(&Settings::default());
    let frame = cyclic(1, 64);
    plant.plc.send(&frame);
    plant.device.expect(&frame);
    // Long enough for the gateway to notice the missing interface.
    for (number, time) in [(2, Duration::from_millis(2500)), (3, Duration::ZERO)] {
        plant.borrow_uplink(time);
        plant.until_it_crosses(&cyclic(number, 64));
    }
}

fn renamed_interface_shows_its_name() {
    let plant = Plant::build(&Settings::default());
    plant.until_it_crosses(&cyclic(1, 64));
    for (from, to) in [("uplink", "plant0"), ("field", "hall0")] {
        let lines = [format!("link set dev {from} down"), format!("link set dev {from} name {to}")];
        plant.chain.gateway_a.batch(&lines).expect("another name");
        plant.chain.gateway_a.set_link(to, true).expect("the link comes up");
    }
    let end = Instant::now() + PATIENCE;
    let names = || [plant.a.status().uplink, plant.a.status().field].map(|port| port.interface);
    while names() != ["plant0", "hall0"] {
        assert!(Instant::now() < end, "{:?}", names());
        std::thread::sleep(Duration::from_millis(20));
    }
    plant.until_it_crosses(&cyclic(2, 64));
}

/// The path MTU of a gateway with MACsec, once it is known.
fn path(plant: &Plant, patience: Duration) -> Option<u64> {
    let end = Instant::now() + patience;
    loop {
        let path = plant.a.status().macsec.expect("MACsec is in use").path.map(|path| path.mtu);
        if path.is_some() || Instant::now() > end {
            return path;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn static_keys_find_the_path_mtu() {
    let plant = Plant::build(&Settings { macsec: "fragmentation = \"marked\"", ..Settings::default() });
    // The switch drops longer frames without a word. It has space for a VLAN tag.
    let wire = plant.chain.wire.as_ref().expect("a wire");
    wire.batch(&["link set dev b mtu 1400".into()]).expect("an MTU");
    let echo = plant.a.ping(Ping::default()).echo.expect("an answer");
    assert_eq!((echo.peer.as_str(), echo.octets, echo.answer_octets), ("b", 60, 60));
    assert_eq!(path(&plant, Duration::from_secs(40)), Some(1404));
    let whole = cyclic(1, 1514);
    plant.plc.send(&whole);
    plant.device.expect(&whole);
    let counters = plant.a.status().macsec.expect("MACsec is in use").counters;
    assert_eq!(counters["OutFramesFragmented"], 1, "{counters:?}");
}

fn an_mtu_that_is_raised_is_followed() {
    let plant = Plant::build(&Settings { wire_mtu: 1500, ..Settings::default() });
    let whole = cyclic(1, 1514);
    plant.plc.send(&whole);
    plant.device.expect_nothing();
    plant.set_wire_mtu(1550);
    plant.until_it_crosses(&whole);
    assert_eq!(plant.a.status().uplink.mtu, 1550);
}

fn lower_mtu_is_followed() {
    let (uplink, macsec) = ("mtu = 1300", "fragmentation = true");
    let plant = Plant::build(&Settings { uplink, macsec, ..Settings::default() });
    let whole = cyclic(1, 1514);
    plant.plc.send(&whole);
    plant.device.expect(&whole);
    plant.set_wire_mtu(700);
    plant.until_it_crosses(&whole);
    assert_eq!(plant.a.status().uplink.mtu, 700);
    plant.set_wire_mtu(1550);
    let end = Instant::now() + PATIENCE;
    while plant.a.status().uplink.mtu != 1300 {
        assert!(Instant::now() < end, "the path's MTU does not hold again");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn replays_are_refused_after_restart() {
    let mut plant = Plant::build(&Settings::default());
    let recorder = plant.record_wire();
    let frame = cyclic(1, 64);
    for _ in 0..5 {
        plant.plc.send(&frame);
        plant.device.expect(&frame);
    }
    let recorded = recorder.take(5);
    let next = |plant: &Plant| plant.a.status().macsec.expect("MACsec is in use").transmit[0].next_pn;
    let before = next(&plant);
    plant.restart_both();
    assert!(next(&plant) >= before, "no packet number comes again");
    for old in &recorded {
        recorder.send(old);
    }
    plant.device.expect_nothing();
    let counters = plant.b.status().macsec.expect("MACsec is in use").counters;
    assert_eq!((counters["InPktsLate"], counters["InPktsOK"]), (5, 0), "{counters:?}");
    plant.plc.send(&frame);
    plant.device.expect(&frame);
}

fn bad_frames_stop_nothing() {
    let plant = Plant::build(&Settings::default());
    let recorder = plant.record_wire();
    let frame = cyclic(7, 64);
    plant.plc.send(&frame);
    plant.device.expect(&frame);
    let genuine = recorder.take(1).remove(0);
    // Every length, every bit of the header and some behind it, plaintext, other EtherTypes.
    for length in 14..genuine.len() {
        recorder.send(&genuine[..length]);
    }
    for bit in 96..8 * genuine.len() {
        let mut bent = genuine.clone();
        bent[bit / 8] ^= 0x80 >> (bit % 8);
        recorder.send(&bent);
    }
    recorder.send(&CYCLIC.repeat(40));
    recorder.send(&cyclic(9, 64));
    recorder.send(&arp());
    plant.device.expect_nothing();
    let next = cyclic(8, 64);
    plant.plc.send(&next);
    plant.device.expect(&next);
    let counters = plant.b.status().macsec.expect("MACsec is in use").counters;
    assert_eq!(counters["InPktsOK"], 2, "{counters:?}");
    assert!(counters["InPktsNoTag"] >= 3 && counters["InPktsBadTag"] > 0 && counters["InPktsNotValid"] > 0);
}

fn private_suites_refuse_forged_frames() {
    for suite in ["aegis-128l", "ascon-aead128", "aes-128-ocb3"] {
        let plant = Plant::build(&Settings { suite, ..Settings::default() });
        let recorder = plant.record_wire();
        let frame = cyclic(7, 64);
        plant.plc.send(&frame);
        plant.device.expect(&frame);
        let genuine = recorder.take(1).remove(0);
        assert_ne!(genuine[28..28 + 52], frame[12..], "{suite} encrypts");
        // A bit of the addresses, the data and the ICV, under numbers that were not used: else the
        // replay window would refuse them first.
        let last = genuine.len() - 1;
        let places = [0, 30, 60, last - 15, last];
        for (fresh, place) in (1u8..).zip(places) {
            let mut forged = genuine.clone();
            forged[19] = forged[19].wrapping_add(fresh);
            forged[place] ^= 1;
            recorder.send(&forged);
        }
        plant.device.expect_nothing();
        let counters = plant.b.status().macsec.expect("MACsec is in use").counters;
        assert_eq!((counters["InPktsNotValid"], counters["InPktsOK"]), (5, 1), "{suite}: {counters:?}");
        let next = cyclic(8, 64);
        plant.plc.send(&next);
        plant.device.expect(&next);
    }
}

//! Gateways with several forwarding threads, each with a transmit channel: order within a flow,
//! packet numbers, owners of channels, restarts.

mod daemon;
mod harness;
#[allow(dead_code, reason = "each test program compiles this module, and uses a part of it")]
mod plant;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use antedate_gateway::run::control::Ping;
use antedate_gateway::run::status::Status;
use antedate_lab::ns::Namespace;
use antedate_lab::sys::packet::{Options, PacketSocket};
use harness::Test;
use plant::{CYCLIC, Gateway, Plant, Settings, cyclic};

const TESTS: &[Test] = &[
    ("flows_stay_in_order_over_workers", flows_stay_in_order_over_workers),
    ("numbers_are_spent_once_over_restarts", numbers_are_spent_once_over_restarts),
    ("channels_keep_their_owner_after_an_outage", channels_keep_their_owner_after_an_outage),
    ("long_frames_cross_in_fragments", long_frames_cross_in_fragments),
    ("policy_is_reloaded_by_all_workers", policy_is_reloaded_by_all_workers),
];

const FLOWS: u16 = 24;
const NUMBERS: u32 = 40;
/// Ages and rings that a busy machine does not exceed.
const POLICY: &str = "allow = [\"profinet-rt\", \"arp\", \"ipv4\"]";
/// The machine behind gateway A with flows over UDP, and the one behind gateway B. The cyclic frames
/// have other addresses.
const HERE: [u8; 6] = [2, 0, 0x5e, 0, 0, 3];
const THERE: [u8; 6] = [2, 0, 0x5e, 0, 0, 4];

fn main() -> ExitCode {
    harness::run("workers", TESTS)
}

fn plant(suite: &str, workers: &str, wire_mtu: u32) -> Plant {
    let run = format!("poll = \"block\"\nmax_age_ms = 10000\nmax_age_cyclic_ms = 10000\n{workers}");
    Plant::build(&Settings {
        suite,
        policy: POLICY,
        run: &run,
        // Without the second mark, the first frame behind a gap in the numbers is refused.
        macsec: "fragmentation = \"marked\"",
        wire_mtu,
        channels: 4,
        ..Settings::default()
    })
}

/// A datagram over UDP with its flow and number, of so many octets.
fn datagram(back: bool, flow: u16, number: u32, length: usize) -> Vec<u8> {
    let (to, from, last) = if back { (HERE, THERE, [2, 1]) } else { (THERE, HERE, [1, 2]) };
    let mut frame = [&to[..], &from, &[0x08, 0x00]].concat();
    let octets = (length - 14) as u16;
    let mut header = [&[0x45, 0][..], &octets.to_be_bytes(), &[0, 0, 0, 0, 64, 17, 0, 0]].concat();
    header.extend([10, 7, 0, last[0], 10, 7, 0, last[1]]);
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(header);
    let ports = if back { [5000, 40_000 + flow] } else { [40_000 + flow, 5000] };
    ports.into_iter().for_each(|port: u16| frame.extend(port.to_be_bytes()));
    frame.extend((octets - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(flow.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.resize(length, 0x77);
    frame
}

/// Flow and number of a datagram.
fn read(frame: &[u8]) -> Option<(u16, u32)> {
    let is_datagram = frame.get(12..14) == Some(&[0x08, 0x00]);
    let part = frame.get(42..48).filter(|_| is_datagram)?;
    Some((u16::from_be_bytes([part[0], part[1]]), u32::from_be_bytes([part[2], part[3], part[4], part[5]])))
}

fn listen(space: &Namespace, interface: &str) -> PacketSocket {
    let options = Options { promiscuous: true, receive_buffer: 32 << 20, ..Options::default() };
    space.run(|| PacketSocket::open(interface, options)).expect("a thread").expect("a socket")
}

/// All frames until it is quiet.
fn heard(socket: &PacketSocket) -> Vec<Vec<u8>> {
    let (mut buffer, mut frames) = (vec![0; 4096], Vec::new());
    while socket.wait(400_000_000).expect("a wait") {
        if let Ok(Some(length)) = socket.receive(&mut buffer, false) {
            frames.push(buffer[..length].to_vec());
        }
    }
    assert_eq!(socket.take_drops(), 0, "the test's own socket lost frames");
    frames
}

/// Frames that this machine dropped before any socket saw them.
fn lost_in_the_kernel() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).sum()
}

/// Carries the flows one way. Each arrives whole, once, in its order.
#[track_caller]
fn carry(plant: &Plant, back: bool, length: usize) {
    let (from, to) = if back { (&plant.device, &plant.chain.plc) } else { (&plant.plc, &plant.chain.device) };
    let (hears, before) = (listen(to, "eth0"), lost_in_the_kernel());
    for number in 0..NUMBERS {
        (0..FLOWS).for_each(|flow| from.send(&datagram(back, flow, number, length)));
        from.send(&cyclic(number as u8 + 1, 64));
        thread::sleep(Duration::from_millis(1));
    }
    let came = heard(&hears);
    let mut flows: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    for (flow, number) in came.iter().filter_map(|frame| read(frame)) {
        flows.entry(flow).or_default().push(number);
    }
    // Those with the number 0 tried whether anything crosses.
    let cycles = came.iter().filter(|frame| frame[12..14] == CYCLIC[12..14] && frame[20] > 0);
    let cycles: Vec<u8> = cycles.map(|frame| frame[20]).collect();
    let missing = (usize::from(FLOWS) + 1) * NUMBERS as usize
        - flows.values().map(Vec::len).sum::<usize>()
        - cycles.len();
    if missing as u64 > lost_in_the_kernel() - before {
        for gateway in [&plant.a, &plant.b] {
            let Status { out, inward, macsec, field, uplink, .. } = gateway.status();
            let counters = macsec.expect("MACsec is in use").counters;
            println!("{field:?}\n{uplink:?}\n{out:?}\n{inward:?}\n{counters:?}");
        }
        panic!("{missing} frames are missing: {flows:?}\n{cycles:?}");
    }
    for (flow, numbers) in &flows {
        assert!(numbers.is_sorted_by(|a, b| a < b), "flow {flow}: {numbers:?}");
    }
    assert!(cycles.is_sorted_by(|a, b| a < b), "{cycles:?}");
}

/// Source, SCI's port, association and packet number of each protected frame.
fn tags(frames: &[Vec<u8>]) -> Vec<([u8; 6], u16, u8, u32)> {
    let tag = |frame: &Vec<u8>| {
        assert_eq!(frame[12..14], [0x88, 0xe5], "all is protected: {frame:02x?}");
        assert_ne!(frame[14] & 0x20, 0, "it has its SCI");
        let port = u16::from_be_bytes([frame[26], frame[27]]);
        let number = u32::from_be_bytes([frame[16], frame[17], frame[18], frame[19]]);
        (frame[6..12].try_into().expect("an address"), port, frame[14] & 3, number)
    };
    frames.iter().map(tag).collect()
}

/// The packet numbers of each channel rise by one from frame to frame.
fn rise(tags: &[([u8; 6], u16, u8, u32)]) -> BTreeSet<u16> {
    let mut channels: BTreeMap<(u16, u8), Vec<u32>> = BTreeMap::new();
    for (_, port, an, number) in tags {
        channels.entry((*port, *an)).or_default().push(*number);
    }
    for (channel, numbers) in &channels {
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{channel:?}: {numbers:?}");
    }
    channels.into_keys().map(|(port, _)| port).collect()
}

fn set_workers(gateway: &mut Gateway, space: &Namespace, before: &str, workers: &str) {
    gateway.stop();
    gateway.edit(before, workers);
    gateway.run(space);
}

fn flows_stay_in_order_over_workers() {
    // A far end with as many workers, with others, and with one thread.
    for (suite, far) in
        [("gcm-aes-128", "workers = 4"), ("gcm-aes-xpn-256", "workers = 3"), ("gcm-aes-256", "threads = 2")]
    {
        let mut plant = plant(suite, "workers = 4", 1550);
        set_workers(&mut plant.b, &plant.chain.gateway_b, "workers = 4", far);
        let wire = listen(plant.chain.wire.as_ref().expect("a wire"), "a");
        plant.until_it_crosses(&cyclic(0, 64));
        carry(&plant, false, 200);
        carry(&plant, true, 200);
        let tags = tags(&heard(&wire));
        assert_eq!(rise(&tags), BTreeSet::from([1, 2, 3, 4]), "{suite}: each worker has flows");
        let cyclic: BTreeSet<_> = tags.iter().filter(|tag| tag.0 == CYCLIC[6..12]).map(|tag| tag.1).collect();
        assert_eq!(cyclic, BTreeSet::from([1]), "frames with a deadline have one worker");
        // Both gateways show what they did.
        let [a, b] = [&plant.a, &plant.b].map(Gateway::status);
        let directions = |threads: &[antedate_gateway::run::status::Thread]| {
            threads.iter().map(|thread| thread.direction.clone()).collect::<Vec<_>>()
        };
        assert_eq!(directions(&a.threads), ["both"; 4]);
        let frames = u64::from(NUMBERS) * (u64::from(FLOWS) + 1);
        assert!(a.out.forwarded_frames >= frames && b.inward.forwarded_frames >= frames, "{suite}");
        assert!(a.inward.forwarded_frames >= frames && b.out.forwarded_frames >= frames, "{suite}");
        let macsec = a.macsec.expect("MACsec is in use");
        let sending: BTreeSet<_> = macsec.transmit.iter().map(|sa| sa.sci.clone()).collect();
        assert_eq!(sending.len(), 4, "{:?}", macsec.transmit);
        assert!(macsec.transmit.iter().filter(|sa| sa.an == 0).all(|sa| sa.next_pn > 1));
        for counters in [&macsec.counters, &b.macsec.expect("MACsec is in use").counters] {
            assert!(counters["InPktsOK"] >= frames, "{counters:?}");
            let refused =
                ["InPktsNoSCI", "InPktsUnknownSCI", "InPktsNotValid", "InPktsLate", "InPktsDelayed"];
            let refused: Vec<_> = refused.iter().filter_map(|name| counters.get(*name)).collect();
            assert!(!refused.is_empty() && refused.iter().all(|count| **count == 0), "{counters:?}");
        }
        let reply = plant.a.ping(Ping { peer: "b".into(), ..Ping::default() });
        assert!(reply.ok, "{}", reply.message);
    }
}

fn numbers_are_spent_once_over_restarts() {
    let mut plant = plant("gcm-aes-128", "workers = 2", 1550);
    let wire = listen(plant.chain.wire.as_ref().expect("a wire"), "a");
    let mut spent = BTreeSet::new();
    let mut last = "workers = 2";
    for (round, workers) in
        [last, "workers = 4", "threads = 1", "workers = 3", "workers = 4"].iter().enumerate()
    {
        if *workers != last {
            set_workers(&mut plant.a, &plant.chain.gateway_a, last, workers);
            last = workers;
        }
        plant.until_it_crosses(&cyclic(0, 64));
        carry(&plant, false, 100);
        if round % 2 == 1 {
            plant.a.switch(1).expect("all channels change");
            carry(&plant, false, 100);
        }
        for (_, port, an, number) in tags(&heard(&wire)) {
            assert!(spent.insert((port, an, number)), "channel {port}, AN {an}: {number} came twice");
        }
    }
    let ports: BTreeSet<u16> = spent.iter().map(|(port, ..)| *port).collect();
    assert_eq!(ports, BTreeSet::from([1, 2, 3, 4]));
    assert!(spent.iter().any(|(port, an, _)| *an == 1 && *port > 1), "every channel changed");
}

fn channels_keep_their_owner_after_an_outage() {
    let plant = plant("gcm-aes-128", "workers = 3", 1550);
    let both_ways = || {
        // What came before says nothing.
        while plant.device.next(Duration::from_millis(1)).is_some() {}
        plant.until_it_crosses(&cyclic(0, 64));
        // The other workers' rings are opened with those of the first.
        thread::sleep(Duration::from_millis(200));
        carry(&plant, false, 100);
        carry(&plant, true, 100);
    };
    both_ways();
    for (space, interface) in [(&plant.chain.gateway_b, "uplink"), (&plant.chain.gateway_a, "field")] {
        for _ in 0..2 {
            space.set_link(interface, false).expect("the link goes down");
            thread::sleep(Duration::from_millis(50));
            space.set_link(interface, true).expect("the link comes up");
        }
        both_ways();
    }
    plant.replace_wire();
    both_ways();
    let counters = plant.b.status().macsec.expect("MACsec is in use").counters;
    assert_eq!(counters.get("InPktsNotValid"), Some(&0), "{counters:?}");
}

fn long_frames_cross_in_fragments() {
    let plant = plant("gcm-aes-128", "workers = 2", 1500);
    plant.until_it_crosses(&cyclic(0, 64));
    carry(&plant, false, 1514);
    carry(&plant, true, 1514);
    let counters = plant.b.status().macsec.expect("MACsec is in use").counters;
    assert!(counters["InPktsOK"] >= 2 * u64::from(FLOWS) * u64::from(NUMBERS), "{counters:?}");
}

fn policy_is_reloaded_by_all_workers() {
    let plant = plant("gcm-aes-128", "workers = 4", 1550);
    plant.until_it_crosses(&cyclic(0, 64));
    let rule = "[[policy.rule]]\naction = \"deny\"\nethertype = \"ipv4\"";
    plant.a.edit("[run]", &format!("{rule}\n[run]"));
    let reply = plant.a.ask(antedate_gateway::run::control::Request::Reload {});
    assert!(reply.ok, "{}", reply.message);
    let hears = listen(&plant.chain.device, "eth0");
    (0..FLOWS).for_each(|flow| plant.plc.send(&datagram(false, flow, 1, 100)));
    assert!(heard(&hears).iter().all(|frame| read(frame).is_none()), "no worker passes them");
    assert_eq!(plant.a.status().out.rules, [u64::from(FLOWS)], "the counts of all workers");
    // A bound would be counted by each worker alone.
    plant.a.edit(
        rule,
        &format!("{rule}\n[[policy.rule]]\naction = \"allow\"\nethertype = \"arp\"\nframes_per_second = 9"),
    );
    let reply = plant.a.ask(antedate_gateway::run::control::Request::Reload {});
    assert!(!reply.ok && reply.message.contains("which one thread counts"), "{}", reply.message);
}

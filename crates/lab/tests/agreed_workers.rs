//! Gateways with several workers and key agreement: channels are agreed upon, keys change under
//! traffic, a member that takes one channel is heard.

mod daemon;
mod harness;
#[allow(dead_code, reason = "each test program compiles this module, and uses a part of it")]
mod members;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use antedate_channel::mka::{Action, Cak, Config, Participant};
use antedate_gateway::run::control::{Ping, Request};
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_wire::{EthernetAddress, Sci};
use harness::Test;
use members::{Association, CAK};

const TESTS: &[Test] = &[
    ("keys_change_under_flows_without_loss", keys_change_under_flows_without_loss),
    ("delay_is_bounded_in_all_channels", delay_is_bounded_in_all_channels),
    ("far_end_needs_no_workers", far_end_needs_no_workers),
    ("long_frames_cross_in_fragments", long_frames_cross_in_fragments),
    ("member_with_one_channel_is_heard", member_with_one_channel_is_heard),
];

const FLOWS: u16 = 12;

fn main() -> ExitCode {
    harness::run("workers with agreed keys", TESTS)
}

/// A gateway with these lines of `[macsec]` and `[run]`, which drops no frame of a busy machine for
/// its age.
fn add(association: &mut Association, macsec: &str, run: &str) {
    let priority = 10 + association.members.len();
    let text = format!(
        "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
         [macsec]\ncak_file = \"CAK\"\nmka_priority = {priority}\nfragmentation = \"marked\"\n{macsec}\n\
         [policy]\nallow = [\"profinet-rt\", \"ipv4\"]\n\
         [run]\npoll = \"block\"\nmax_age_ms = 10000\nmax_age_cyclic_ms = 10000\n{run}\n"
    );
    association.add_configured(&text, CAK);
}

fn pair(macsec: &str, run: [&str; 2]) -> Association {
    let mut association = Association::build(0, "");
    run.iter().for_each(|run| add(&mut association, macsec, run));
    association.start_all();
    association.until_agreed(&[0, 1]);
    association
}

/// A datagram over UDP with its flow and number, of so many octets.
fn datagram(from: u8, to: u8, flow: u16, number: u32, length: usize) -> Vec<u8> {
    let octets = (length - 14) as u16;
    let mut frame = vec![2, 0, 0x5e, 0, 2, to, 2, 0, 0x5e, 0, 2, from, 0x08, 0x00];
    let mut header = [&[0x45, 0][..], &octets.to_be_bytes(), &[0, 0, 0, 0, 64, 17, 0, 0]].concat();
    header.extend([10, 7, 0, from, 10, 7, 0, to]);
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>();
    header[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    frame.extend(header);
    [40_000 + flow, 5000, octets - 20, 0].iter().for_each(|half: &u16| frame.extend(half.to_be_bytes()));
    frame.extend(flow.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.resize(length, 0x77);
    frame
}

/// Sends all flows both ways for this time, with actions at certain seconds. Each datagram arrives
/// once, in the order of its flow.
#[track_caller]
fn carry(association: &mut Association, time: Duration, at: impl FnMut(u64, &mut Association)) -> u32 {
    carry_long(association, time, 114, at)
}

/// As [`carry`], with frames of so many octets.
#[track_caller]
fn carry_long(
    association: &mut Association,
    time: Duration,
    length: usize,
    mut at: impl FnMut(u64, &mut Association),
) -> u32 {
    let start = Instant::now();
    let mut came: [BTreeMap<u16, Vec<u32>>; 2] = Default::default();
    let mut collect = |association: &Association, patience| {
        for (to, came) in came.iter_mut().enumerate() {
            while let Some(frame) = association.next(to, patience) {
                let part = frame.get(42..48).filter(|_| frame[12..14] == [0x08, 0x00]);
                let Some(part) = part.and_then(|part| <[u8; 6]>::try_from(part).ok()) else { continue };
                let [a, b, number @ ..] = part;
                came.entry(u16::from_be_bytes([a, b])).or_default().push(u32::from_be_bytes(number));
            }
        }
    };
    let (mut sent, mut second) = (0, 0);
    while start.elapsed() < time {
        for (from, to) in [(0, 1), (1, 0)] {
            for flow in 0..FLOWS {
                let frame = datagram(from, to, flow, sent, length);
                association.members[usize::from(from)].machine.send(&frame).expect("the frame is sent");
            }
        }
        sent += 1;
        collect(association, Duration::ZERO);
        if start.elapsed().as_secs() > second {
            second += 1;
            at(second, association);
        }
        let due = start + Duration::from_millis(4) * sent;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    collect(association, Duration::from_millis(400));
    let all: Vec<u32> = (0..sent).collect();
    for (to, flows) in came.iter().enumerate() {
        assert_eq!(flows.len(), usize::from(FLOWS));
        for (flow, numbers) in flows {
            let missing: Vec<_> = all.iter().filter(|number| !numbers.contains(number)).collect();
            let sorted = numbers.is_sorted_by(|a, b| a < b);
            if !missing.is_empty() || !sorted {
                for member in &association.members {
                    let status = member.gateway.status();
                    println!("{:#?}\n{:#?}", status.macsec, status.warnings);
                }
            }
            assert!(missing.is_empty(), "to {to}, flow {flow}: of {sent} are missing {missing:?}");
            assert!(sorted, "to {to}, flow {flow}: {numbers:?}");
        }
    }
    sent
}

/// The next packet numbers of a gateway's channels in use, by port number.
fn channels(association: &Association, number: usize) -> BTreeMap<String, u64> {
    let macsec = association.members[number].gateway.macsec();
    let encoding = macsec.encoding_sa;
    let all = macsec.transmit.into_iter().filter(|sa| Some(sa.an) == encoding);
    all.map(|sa| (sa.sci[sa.sci.len() - 4..].to_owned(), sa.next_pn)).collect()
}

#[track_caller]
fn until(association: &Association, number: usize, in_use: u64) {
    let end = Instant::now() + Duration::from_secs(10);
    while association.members[number].gateway.agreement().channels_in_use != in_use {
        let agreement = association.members[number].gateway.agreement();
        assert!(Instant::now() < end, "{in_use} channels at {number}: {agreement:#?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Frames of both ends refused for a reason that no frame of this test has.
#[track_caller]
fn refuses_nothing(association: &Association) {
    for member in &association.members {
        let counters = member.gateway.macsec().counters;
        for name in ["InPktsNoSCI", "InPktsUnknownSCI", "InPktsNotValid", "InPktsLate", "InPktsDelayed"] {
            assert_eq!(counters.get(name).copied().unwrap_or(0), 0, "{name}: {counters:?}");
        }
    }
}

fn keys_change_under_flows_without_loss() {
    for suite in ["gcm-aes-128", "gcm-aes-xpn-256"] {
        let macsec = format!("cipher = \"{suite}\"\nmka_rekey_seconds = 10");
        let mut association = pair(&macsec, ["workers = 2", "workers = 3"]);
        until(&association, 0, 2);
        until(&association, 1, 3);
        let sent = carry(&mut association, Duration::from_secs(14), |second, association| {
            // A member that joins brings a key of its own.
            if second == 2 {
                add(association, &macsec, "workers = 2");
                association.members[2].gateway.start();
            }
        });
        let agreement = association.members[0].gateway.agreement();
        println!("   {suite}: {sent} of each flow, {} keys", agreement.fresh_keys);
        assert!(agreement.fresh_keys >= 3, "{agreement:#?}");
        let members: Vec<_> =
            agreement.members.iter().map(|member| (member.channels, member.takes_channels)).collect();
        assert!(members.contains(&(3, 8)) && members.contains(&(2, 8)), "{members:?}");
        for (number, ports) in [(0, &["0001", "0002"][..]), (1, &["0001", "0002", "0003"])] {
            let channels = channels(&association, number);
            assert_eq!(channels.keys().collect::<Vec<_>>(), ports);
            assert!(channels.values().all(|next| *next > 1), "each channel carries: {channels:?}");
        }
        refuses_nothing(&association);
        let reply = association.members[0]
            .gateway
            .ask(Request::Ping(Ping { peer: "02:00:5e:00:03:01".into(), ..Ping::default() }));
        assert!(reply.ok, "{}", reply.message);
        let reply = association.members[0].gateway.ask(Request::Reload {});
        assert!(reply.ok, "{}", reply.message);
    }
}

fn delay_is_bounded_in_all_channels() {
    let mut association = pair("mka_delay_protect = true", ["workers = 2", "workers = 2"]);
    until(&association, 0, 2);
    until(&association, 1, 2);
    carry(&mut association, Duration::from_secs(4), |_, _| {});
    refuses_nothing(&association);
    // The far end refuses what is below the numbers that it heard, in each channel.
    let macsec = association.members[1].gateway.macsec();
    let lowest: BTreeMap<_, _> = macsec.receive.iter().map(|sa| (sa.sci.clone(), sa.lowest_pn)).collect();
    for port in ["0001", "0002"] {
        let sci = format!("02005e000300{port}");
        let found = lowest.iter().find(|(known, _)| known.replace(':', "") == sci);
        assert!(found.is_some_and(|(_, lowest)| *lowest > 1), "{sci}: {lowest:?}");
    }
}

fn far_end_needs_no_workers() {
    let mut association = pair("", ["workers = 4", "threads = 2"]);
    until(&association, 0, 4);
    until(&association, 1, 1);
    carry(&mut association, Duration::from_secs(2), |_, _| {});
    refuses_nothing(&association);
    let before = channels(&association, 0);
    assert_eq!((before.len(), channels(&association, 1).len()), (4, 1));
    // Ports that are opened again share as before.
    association.narrow(1548);
    thread::sleep(Duration::from_secs(2));
    carry(&mut association, Duration::from_secs(2), |_, _| {});
    let after = channels(&association, 0);
    assert!(before.iter().all(|(port, next)| after[port] > *next), "{before:?} {after:?}");
    for port in ["field", "uplink"] {
        association.members[0].gateway.set_link(port, false);
        thread::sleep(Duration::from_millis(50));
        association.members[0].gateway.set_link(port, true);
    }
    thread::sleep(Duration::from_secs(2));
    association.until_agreed(&[0, 1]);
    carry(&mut association, Duration::from_secs(1), |_, _| {});
}

fn long_frames_cross_in_fragments() {
    let mut association = Association::build(0, "");
    (0..2).for_each(|_| add(&mut association, "", "workers = 2"));
    association.narrow(1500);
    association.start_all();
    association.until_agreed(&[0, 1]);
    until(&association, 0, 2);
    until(&association, 1, 2);
    carry_long(&mut association, Duration::from_secs(2), 1514, |_, _| {});
    for number in [0, 1] {
        assert!(channels(&association, number).values().all(|next| *next > 100), "each channel carries");
        let counters = association.members[number].gateway.macsec().counters;
        assert!(counters["InFramesReassembled"] > 1000, "{counters:?}");
    }
    refuses_nothing(&association);
}

/// A device without a gateway, which knows nothing of several channels: a participant of the
/// library.
struct Device {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Device {
    fn start(association: &Association) -> Self {
        let wire = &association.wire;
        let address = EthernetAddress([2, 0, 0x5e, 0, 9, 9]);
        wire.batch(&[
            "link add name plug type veth peer name device address 02:00:5e:00:09:09".into(),
            "link set dev plug master br0".into(),
            "link set dev plug up".into(),
            "link set dev device up".into(),
        ])
        .expect("a port for the device");
        let options = Options { promiscuous: true, ..Options::default() };
        let socket = wire.run(|| PacketSocket::open("device", options)).expect("a thread").expect("a socket");
        let config = Config { priority: 255, ..Config::new(Sci::new(address, 1)) };
        let octets: Vec<u8> = (0..16).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let speak = move || {
            let mut source = File::open("/dev/urandom").expect("random numbers");
            let mut random = |out: &mut [u8]| source.read_exact(out).expect("random numbers");
            let cak = Cak::new(&octets, b"abc").expect("a key");
            let mut device = Participant::new(cak, config, &mut random);
            let (start, mut buffer) = (Instant::now(), vec![0; 2048]);
            while !stopped.load(Ordering::Acquire) {
                if socket.wait(10_000_000).expect("a wait")
                    && let Ok(Some(length)) = socket.receive(&mut buffer, false)
                    && buffer[12..14] == [0x88, 0x8e]
                {
                    let _ = device.receive(start.elapsed(), &buffer[..length]);
                }
                device.tick(start.elapsed(), &mut random);
                while let Some(action) = device.next_action() {
                    match action {
                        Action::Send(frame) => socket.send(&frame).expect("the frame is sent"),
                        Action::Receive(install) => device.receives(install.key),
                        _ => {}
                    }
                }
            }
        };
        let thread = thread::spawn(speak);
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the device ends well");
        }
    }
}

fn member_with_one_channel_is_heard() {
    let mut association = pair("", ["workers = 2", "workers = 2"]);
    until(&association, 0, 2);
    until(&association, 1, 2);
    let (mut device, mut before) = (None, BTreeMap::new());
    carry(&mut association, Duration::from_secs(16), |second, association| match second {
        2 => device = Some(Device::start(association)),
        5 => {
            for number in [0, 1] {
                let agreement = association.members[number].gateway.agreement();
                assert_eq!(agreement.channels_in_use, 1, "{agreement:#?}");
                assert_eq!(agreement.members.len(), 2, "the device is a member: {agreement:#?}");
                let took = agreement.members.iter().map(|member| member.takes_channels);
                assert_eq!(took.collect::<BTreeSet<_>>(), BTreeSet::from([1, 8]));
            }
            before = channels(association, 0);
        }
        7 => {
            let after = channels(association, 0);
            assert_eq!(after["0002"], before["0002"], "the second worker rests");
            assert!(after["0001"] > before["0001"] + 1000, "{before:?} {after:?}");
            drop(device.take());
        }
        _ => {}
    });
    // Without it all workers send again.
    until(&association, 0, 2);
    until(&association, 1, 2);
    let before = channels(&association, 0);
    carry(&mut association, Duration::from_secs(1), |_, _| {});
    let after = channels(&association, 0);
    assert!(before.iter().all(|(port, next)| after[port] > *next), "{before:?} {after:?}");
    refuses_nothing(&association);
}

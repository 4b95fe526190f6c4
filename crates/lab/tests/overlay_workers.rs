//! An overlay's hub with several workers: each has the sessions of its peers, and frames cross
//! between machines behind any two of them.

mod daemon;
mod harness;
#[allow(dead_code, reason = "this program uses a part of the plant")]
mod plant;
#[allow(dead_code, reason = "this program uses a part of the sites")]
mod sites;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::config::tunnel_keys::{Kind, Secret, encode, generate, public_of, write_new};
use antedate_gateway::run::control::{Ping, Request};
use antedate_gateway::run::status::Overlay;
use antedate_lab::ns::Namespace;
use antedate_lab::sys::packet::{Options, PacketSocket};
use harness::Test;
use plant::{Gateway, Port};
use sites::{Settings, Stock, stock_is_missing};

const TESTS: &[Test] = &[
    ("flows_cross_between_all_workers", flows_cross_between_all_workers),
    ("flows_cross_by_the_socket", flows_cross_by_the_socket),
    ("new_sessions_lose_no_frame", new_sessions_lose_no_frame),
    ("machine_that_moves_is_followed", machine_that_moves_is_followed),
    ("peers_come_and_go", peers_come_and_go),
    ("restarted_ends_are_found_again", restarted_ends_are_found_again),
    ("replaced_ports_are_used_again", replaced_ports_are_used_again),
    ("stock_ends_are_peers", stock_ends_are_peers),
];

fn main() -> ExitCode {
    harness::run("overlays with workers", TESTS)
}

/// A place: the hub (0) or a spoke, with a machine.
struct Place {
    /// Hears all that comes to the machine.
    machine: PacketSocket,
    gateway: Option<Gateway>,
    space: Namespace,
    at: Namespace,
}

/// Places on one switch.
struct Star {
    places: Vec<Place>,
    keys: Vec<Secret>,
    files: PathBuf,
    wire: Namespace,
}

/// Lines of the hub's `[overlay]`, its `[run]`, and of each peer there.
#[derive(Clone, Copy)]
struct Hub<'a> {
    overlay: &'a str,
    run: &'a str,
    /// Spokes that the hub's file names.
    peers: &'a [usize],
}

const HUB: Hub<'_> = Hub { overlay: "relay = true", run: "workers = 3", peers: &[1, 2, 3, 4] };

/// The key of a place.
fn key(place: usize) -> Secret {
    let fill = |octets: &mut [u8]| {
        let seed = 90 + place as u8;
        let odd = |at: usize| seed.wrapping_mul(37u8.wrapping_mul(at as u8) | 1);
        octets.iter_mut().enumerate().for_each(|(at, octet)| *octet = odd(at));
        Ok::<_, ()>(())
    };
    generate(Kind::Private, fill).expect("a key")
}

impl Star {
    fn build(spokes: usize, hub: Hub<'_>) -> Self {
        let files = std::env::temp_dir().join(format!("antedate-star-{}", std::process::id()));
        let _ = fs::remove_dir_all(&files);
        fs::create_dir_all(&files).expect("a directory for the files");
        fs::set_permissions(&files, fs::Permissions::from_mode(0o700)).expect("its mode");
        let wire = Namespace::create("star").expect("a namespace");
        let switch = "link add name br0 type bridge stp_state 0 mcast_snooping 0".to_owned();
        wire.batch(&[switch, "link set dev br0 up".into()]).expect("a switch");
        let mut star = Self { places: Vec::new(), keys: Vec::new(), files, wire };
        for number in 0..=spokes {
            star.keys.push(key(number));
            write_new(&star.files.join(format!("{number}.key")), &star.keys[number]).expect("a key file");
            star.add(number);
        }
        for number in 0..=spokes {
            let text = if number == 0 { star.hub(hub) } else { star.spoke(number) };
            let place = &mut star.places[number];
            place.gateway = Some(Gateway::with(&place.space, &star.files, &format!("{number}"), &text));
        }
        star
    }

    fn add(&mut self, number: usize) {
        let [space, at] = ["h", "m"].map(|role| Namespace::create(&format!("{role}{number}")).expect("one"));
        let (wire, machine) = (self.wire.name(), at.name());
        let lines = [
            format!("link add name field type veth peer name eth0 netns {machine}"),
            format!("link add name uplink type veth peer name p{number} netns {wire}"),
            format!("addr add 192.0.2.{}/24 dev uplink", number + 1),
            "link set dev field up".into(),
            "link set dev uplink up".into(),
        ];
        space.batch(&lines).expect("links");
        at.batch(&["link set dev eth0 up".into()]).expect("a link");
        let ports = [format!("link set dev p{number} master br0"), format!("link set dev p{number} up")];
        self.wire.batch(&ports).expect("a port of the switch");
        let options = Options { promiscuous: true, receive_buffer: 16 << 20, ..Options::default() };
        let machine = at.run(|| PacketSocket::open("eth0", options)).expect("a thread").expect("a socket");
        self.places.push(Place { machine, gateway: None, space, at });
    }

    fn end(&self, number: usize) -> String {
        format!(
            "[[overlay.peer]]\nname = \"place{number}\"\npublic_key = \"{}\"\naddress = \"10.66.0.{}\"\n",
            *encode(&public_of(&self.keys[number])),
            number + 1
        )
    }

    fn text(&self, number: usize, overlay: &str, peers: &str, run: &str) -> String {
        format!(
            "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
             [overlay]\nprivate_key_file = \"{number}.key\"\naddress = \"10.66.0.{}\"\nvni = 42\n{overlay}\n\
             {peers}[policy]\nallow = [\"all\"]\n[run]\npoll = \"block\"\nmax_age_ms = 10000\n\
             max_age_cyclic_ms = 10000\n{run}\n[control]\nsocket = \"{}\"\n",
            number + 1,
            self.files.join(format!("{number}.sock")).display()
        )
    }

    /// The hub begins handshakes with spokes of even numbers, the others with it.
    fn hub(&self, hub: Hub<'_>) -> String {
        let endpoint = |number: usize| match number % 2 {
            0 => format!("endpoint = \"192.0.2.{}:51820\"\n", number + 1),
            _ => String::new(),
        };
        let peers: String = hub.peers.iter().map(|number| self.end(*number) + &endpoint(*number)).collect();
        self.text(0, hub.overlay, &peers, hub.run)
    }

    fn spoke(&self, number: usize) -> String {
        let to_hub = if number.is_multiple_of(2) {
            ""
        } else {
            "endpoint = \"192.0.2.1:51820\"\nkeepalive_seconds = 1\n"
        };
        self.text(number, "", &(self.end(0) + to_hub), "")
    }

    fn gateway(&self, number: usize) -> &Gateway {
        self.places[number].gateway.as_ref().expect("it is ours")
    }

    fn overlay(&self) -> Overlay {
        self.gateway(0).status().overlay.expect("an overlay")
    }

    /// Waits until the machines of these places have heard each other, and the hub's kernel knows
    /// which worker has them.
    #[track_caller]
    fn until_learned(&self, places: &[usize]) {
        let end = Instant::now() + Duration::from_secs(20);
        let mut missing: Vec<_> = pairs(places).collect();
        while !missing.is_empty() {
            assert!(Instant::now() < end, "nothing crosses {missing:?}: {:#?}", self.overlay());
            for &(from, to) in &missing {
                // A port that was down has an error for the first send.
                let _ = self.places[from].machine.send(&frame(from, to, 0, 0));
            }
            thread::sleep(Duration::from_millis(100));
            for to in places {
                for (from, ..) in self.heard(*to, Duration::ZERO) {
                    missing.retain(|pair| *pair != (from, *to));
                }
            }
        }
        thread::sleep(Duration::from_millis(600));
        places.iter().for_each(|place| drop(self.heard(*place, Duration::ZERO)));
    }

    /// The next numbered frames to a machine: place, flow, number.
    fn heard(&self, place: usize, patience: Duration) -> Vec<(usize, u16, u32)> {
        let (mut buffer, mut all) = (vec![0; 4096], Vec::new());
        let machine = &self.places[place].machine;
        while machine.wait(patience.as_nanos() as u64).expect("a wait") {
            if let Ok(Some(length)) = machine.receive(&mut buffer, false) {
                all.extend(read(&buffer[..length]));
            }
        }
        all
    }

    /// Carries flows between each two of these places. Each frame arrives once, in the order of its
    /// flow. `during` is called with the number of each round.
    #[track_caller]
    fn carry(&self, places: &[usize], rounds: u32, length: usize, mut during: impl FnMut(u32, &Self)) {
        let mut came: BTreeMap<(usize, usize, u16), Vec<u32>> = BTreeMap::new();
        let mut collect = |patience| {
            for to in places {
                for (from, flow, number) in self.heard(*to, patience) {
                    came.entry((from, *to, flow)).or_default().push(number);
                }
            }
            came.values().map(Vec::len).sum::<usize>()
        };
        let each = pairs(places).count() * usize::from(FLOWS);
        for round in 0..rounds {
            for (from, to) in pairs(places) {
                for flow in 0..FLOWS {
                    let mut frame = frame(from, to, flow, round);
                    frame.resize(length, 0x5a);
                    self.places[from].machine.send(&frame).expect("the frame is sent");
                }
            }
            during(round, self);
            // Some may be on the way. A busy machine stands still for longer than the hub's queues last.
            let end = Instant::now() + Duration::from_millis(500);
            while collect(Duration::ZERO) < each * (round as usize).saturating_sub(2) && Instant::now() < end
            {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(2));
        }
        collect(Duration::from_millis(400));
        let expected: Vec<u32> = (0..rounds).collect();
        for (from, to) in pairs(places) {
            for flow in 0..FLOWS {
                let numbers = came.remove(&(from, to, flow)).unwrap_or_default();
                assert!(
                    numbers == expected,
                    "{from} to {to}, flow {flow}: {numbers:?} of {rounds}; {:#?}",
                    self.gateway(0).status()
                );
            }
        }
        assert!(came.is_empty(), "{came:?}");
    }
}

impl Drop for Star {
    fn drop(&mut self) {
        self.places.iter_mut().filter_map(|place| place.gateway.as_mut()).for_each(Gateway::stop);
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// Even flows have a deadline, odd ones have none.
const FLOWS: u16 = 4;

fn pairs(places: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let all = places.iter().flat_map(move |from| places.iter().map(move |to| (*from, *to)));
    all.filter(|(from, to)| from != to)
}

fn machine(place: usize) -> [u8; 6] {
    [2, 0, 0x5e, 7, 0, place as u8]
}

fn frame(from: usize, to: usize, flow: u16, number: u32) -> Vec<u8> {
    let mut frame = [&machine(to)[..], &machine(from)].concat();
    frame.extend(if flow.is_multiple_of(2) { [0x88, 0x92, 0x80] } else { [0x88, 0xb5, 0] });
    frame.extend([flow as u8, from as u8]);
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0x5a);
    frame
}

/// Place, flow and number of a frame.
fn read(frame: &[u8]) -> Option<(usize, u16, u32)> {
    let part = frame.get(14..21).filter(|_| matches!(frame[12..14], [0x88, 0x92 | 0xb5]))?;
    let number = u32::from_be_bytes([part[3], part[4], part[5], part[6]]);
    Some((part[2].into(), part[1].into(), number))
}

fn flows_cross_between_all_workers() {
    let star = Star::build(4, HUB);
    let places = [0, 1, 2, 3, 4];
    star.until_learned(&places);
    star.carry(&places, 40, 60, |_, _| ());
    // Between the hub's own machine and the others the kernel finds the worker.
    let before = star.overlay().passed_frames;
    assert!(before > 0, "frames from one spoke to another one");
    star.carry(&[0, 1], 20, 60, |_, _| ());
    star.carry(&[0, 2], 20, 60, |_, _| ());
    assert_eq!(star.overlay().passed_frames, before);
    // In pieces.
    star.carry(&places, 20, 1514, |_, _| ());
    let status = star.gateway(0).status();
    let mut overlay = status.overlay.expect("an overlay");
    assert_eq!((status.threads.len(), overlay.peers.len()), (3, 4));
    assert!(status.threads.iter().all(|thread| thread.sleeps > 20), "{:#?}", status.threads);
    for peer in &overlay.peers {
        assert!(peer.session && peer.antedate && peer.macs == 1, "{peer:#?}");
        assert!(peer.frames_in_pieces > 0 && peer.frames_reassembled > 0, "{peer:#?}");
    }
    // The first frames waited for a session, more than have space.
    overlay.refused.remove("no-session");
    assert!(overlay.refused.is_empty(), "{:?}", overlay.refused);
    assert_eq!(overlay.field_macs, 1);
    // What goes to all arrives at each once.
    let mut group = frame(1, 0, 1, 7);
    group[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 9]);
    star.places[1].machine.send(&group).expect("the frame is sent");
    for place in [0, 2, 3, 4] {
        assert_eq!(star.heard(place, Duration::from_millis(500)), [(1, 1, 7)], "at {place}");
    }
    for number in 1..=4 {
        let ping = Ping { peer: format!("place{number}"), ..Ping::default() };
        let reply = star.gateway(0).ping(ping);
        assert!(reply.ok, "{reply:?}");
    }
}

fn flows_cross_by_the_socket() {
    let star = Star::build(3, Hub { overlay: "relay = true\ndirect = false", peers: &[1, 2, 3], ..HUB });
    star.until_learned(&[0, 1, 2, 3]);
    star.carry(&[0, 1, 2, 3], 30, 60, |_, _| ());
    assert_eq!(star.overlay().datagrams_by, "socket");
}

fn new_sessions_lose_no_frame() {
    let star = Star::build(4, HUB);
    let places = [0, 1, 2, 3, 4];
    star.until_learned(&places);
    // Handshakes of one pair are five seconds apart.
    thread::sleep(Duration::from_secs(5));
    star.carry(&places, 100, 200, |round, star| match round {
        10 => star.gateway(0).rekey(),
        50 => (1..=4).for_each(|spoke| star.gateway(spoke).rekey()),
        _ => {}
    });
    let overlay = star.overlay();
    assert!(overlay.peers.iter().all(|peer| peer.handshakes >= 2), "{:#?}", overlay.peers);
}

fn machine_that_moves_is_followed() {
    let star = Star::build(3, Hub { peers: &[1, 2, 3], ..HUB });
    star.until_learned(&[0, 1, 2, 3]);
    // The machine of place 1 is at place 2 now, behind another worker's peer.
    let mut moved = frame(1, 0, 1, 1);
    star.places[2].machine.send(&moved).expect("the frame is sent");
    assert_eq!(star.heard(0, Duration::from_millis(300)), [(1, 1, 1)]);
    // The kernel does not know it yet: the worker of before passes the frames on.
    for number in 0..200 {
        star.places[0].machine.send(&frame(0, 1, 1, number)).expect("the frame is sent");
        thread::sleep(Duration::from_millis(2));
    }
    let came = star.heard(2, Duration::from_millis(300));
    let mut numbers: Vec<_> = came.iter().map(|(.., number)| *number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
    assert!(star.heard(1, Duration::from_millis(100)).is_empty());
    assert_eq!(star.overlay().macs_moved, 1);
    // And back.
    moved = frame(1, 0, 1, 2);
    star.places[1].machine.send(&moved).expect("the frame is sent");
    assert_eq!(star.heard(0, Duration::from_millis(600)), [(1, 1, 2)]);
    star.carry(&[0, 1], 20, 60, |_, _| ());
}

fn peers_come_and_go() {
    let star = Star::build(4, Hub { peers: &[1, 2, 3], ..HUB });
    star.until_learned(&[0, 1, 2, 3]);
    let with = |peers: &[usize]| star.hub(Hub { peers, ..HUB });
    let reload = |before: &[usize], now: &[usize]| {
        star.gateway(0).edit(&with(before), &with(now));
        let reply = star.gateway(0).ask(Request::Reload {});
        assert!(reply.ok, "{reply:?}");
        reply.message
    };
    // The second worker's peer leaves, and another one joins, while the others carry.
    star.carry(&[0, 1, 3], 60, 60, |round, _| {
        if round == 20 {
            let message = reload(&[1, 2, 3], &[1, 4, 3]);
            assert!(message.contains("place4") && message.contains("place2"), "{message}");
        }
    });
    star.until_learned(&[0, 1, 3, 4]);
    star.carry(&[0, 1, 3, 4], 30, 60, |_, _| ());
    let names: Vec<_> = star.overlay().peers.into_iter().map(|peer| peer.name).collect();
    assert_eq!(names, ["place1", "place3", "place4"]);
    let message = reload(&[1, 4, 3], &[2, 1, 4, 3]);
    assert!(message.contains("place2"), "{message}");
    star.until_learned(&[0, 1, 2, 3, 4]);
    star.carry(&[0, 1, 2, 3, 4], 30, 60, |_, _| ());
}

fn restarted_ends_are_found_again() {
    let mut star = Star::build(3, Hub { peers: &[1, 2, 3], ..HUB });
    star.until_learned(&[0, 1, 2, 3]);
    for number in [0, 1, 2] {
        let place = &mut star.places[number];
        let gateway = place.gateway.as_mut().expect("it is ours");
        gateway.stop();
        gateway.run(&place.space);
        star.until_learned(&[0, 1, 2, 3]);
        star.carry(&[0, 1, 2, 3], 20, 60, |_, _| ());
    }
}

fn replaced_ports_are_used_again() {
    let star = Star::build(3, Hub { peers: &[1, 2, 3], ..HUB });
    star.until_learned(&[0, 1, 2, 3]);
    let hub = &star.places[0];
    for port in ["field", "uplink"] {
        // Another MTU has the rings opened again.
        hub.space.batch(&[format!("link set dev {port} mtu 1400")]).expect("an MTU");
        thread::sleep(Duration::from_millis(900));
        star.until_learned(&[0, 1, 2, 3]);
        star.carry(&[0, 1, 2, 3], 20, 60, |_, _| ());
        hub.space.batch(&[format!("link set dev {port} down")]).expect("a link");
        hub.space.batch(&[format!("link set dev {port} up")]).expect("a link");
        thread::sleep(Duration::from_millis(900));
        star.until_learned(&[0, 1, 2, 3]);
        star.carry(&[0, 1, 2, 3], 20, 60, |_, _| ());
    }
}

fn stock_ends_are_peers() {
    if let Some(missing) = stock_is_missing() {
        harness::skipped(&format!("a stock spoke: {missing}"));
        return;
    }
    let mut star = Star::build(3, Hub { peers: &[1, 2, 3], ..HUB });
    star.until_learned(&[0, 1, 2, 3]);
    // Place 1 becomes wireguard-go with the kernel's VXLAN.
    star.places[1].gateway.take().expect("it is ours").stop();
    let files = star.files.clone();
    fs::copy(files.join("1.key"), files.join("b.key")).expect("a copy");
    let stock = Stock::start(&star.places[1].space, &files, &[key(0), key(1)], &Settings::default());
    let machine = Port::open(&star.places[1].at, "eth0");
    let end = Instant::now() + Duration::from_secs(20);
    while star.heard(0, Duration::from_millis(200)).is_empty() {
        assert!(Instant::now() < end, "nothing crosses: {:#?}", star.overlay());
        machine.try_send(&frame(1, 0, 1, 0));
    }
    star.until_learned(&[0, 1, 2, 3]);
    star.carry(&[0, 1, 2, 3], 30, 60, |_, _| ());
    assert!(!star.overlay().peers[0].antedate);
    drop(stock);
}

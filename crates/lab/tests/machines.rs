//! Machines behind an overlay: they move, loops bring their frames back, their control frames stay
//! on their cable, and every frame of theirs is counted.

mod daemon;
mod harness;
#[allow(dead_code, reason = "this program uses a part of the plant")]
mod plant;
#[allow(dead_code, reason = "this program uses a part of the sites")]
mod sites;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use harness::Test;
use plant::{PATIENCE, Port, cyclic};
use sites::{Settings, Sites};

const TESTS: &[Test] = &[
    ("announced_machine_moves_at_once", announced_machine_moves_at_once),
    ("moved_machine_is_found_again", moved_machine_is_found_again),
    ("looped_machine_stays", looped_machine_stays),
    ("control_frames_stay_on_their_cable", control_frames_stay_on_their_cable),
    ("sent_frames_reconcile", sent_frames_reconcile),
    ("congestion_marks_cross", congestion_marks_cross),
];

fn main() -> ExitCode {
    harness::run("machines behind overlays", TESTS)
}

/// The first machine.
const PLC: [u8; 6] = [2, 0, 0x5e, 0, 0, 1];

/// A gratuitous ARP of the first machine.
fn announcement() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend(PLC);
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(PLC);
    frame.extend([10, 7, 0, 1, 0, 0, 0, 0, 0, 0, 10, 7, 0, 1]);
    frame.resize(60, 0);
    frame
}

/// A frame to the first machine.
fn to_plc(number: u8) -> Vec<u8> {
    let mut frame = cyclic(number, 64);
    frame[..6].copy_from_slice(&PLC);
    frame[6..12].copy_from_slice(&[2, 0, 0x5e, 0, 0, 9]);
    frame
}

/// Sites on which both machines were heard.
fn sites(settings: &Settings<'_>) -> Sites {
    let sites = Sites::build(settings);
    sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
    sites
}

/// Whether the near end sends frames for the first machine to the far end.
fn is_behind_the_far_end(sites: &Sites) -> bool {
    sites.plc.send(&to_plc(7));
    sites.device.next(Duration::from_millis(300)).is_some_and(|frame| frame == to_plc(7))
}

fn announced_machine_moves_at_once() {
    let sites = sites(&Settings::default());
    assert!(!is_behind_the_far_end(&sites));
    sites.device.send(&announcement());
    sites.plc.expect(&announcement());
    assert!(is_behind_the_far_end(&sites));
    assert_eq!(sites.near.status().overlay.expect("an overlay").macs_moved, 1);
}

fn moved_machine_is_found_again() {
    let sites = sites(&Settings::default());
    let mut frame = cyclic(3, 64);
    frame[..6].fill(0xff);
    sites.device.send(&frame);
    sites.plc.expect_nothing();
    assert!(!is_behind_the_far_end(&sites));
    thread::sleep(Duration::from_millis(100));
    sites.device.send(&frame);
    sites.plc.expect(&frame);
    assert!(is_behind_the_far_end(&sites));
}

fn looped_machine_stays() {
    let sites = sites(&Settings::default());
    let mut frame = cyclic(3, 64);
    frame[..6].fill(0xff);
    for _ in 0..30 {
        // The far site returns each frame.
        sites.plc.send(&frame);
        thread::sleep(Duration::from_millis(5));
        sites.device.send(&frame);
        thread::sleep(Duration::from_millis(35));
    }
    sites.plc.expect_nothing();
    while sites.device.next(Duration::from_millis(50)).is_some() {}
    assert!(!is_behind_the_far_end(&sites));
    let status = sites.near.status();
    assert_eq!(status.inward.refused.get("source-elsewhere"), Some(&30), "{:?}", status.inward);
}

fn control_frames_stay_on_their_cable() {
    let control = |machine: u8, last: u8, ethertype: [u8; 2]| {
        let mut frame = cyclic(5, 64);
        frame[11] = machine;
        frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, last]);
        frame[12..14].copy_from_slice(&ethertype);
        frame
    };
    // A spanning tree, PAUSE, LACP, EAPOL.
    let unnamed = [(0, [0, 38]), (1, [0x88, 0x08]), (2, [0x88, 0x09]), (3, [0x88, 0x8e])];
    let rule = "[[policy.rule]]\nethertype = 0x888e\naction = \"allow\"";
    let policy = format!("allow = [\"all\"]\n{rule}");
    let sites = sites(&Settings { policy: &policy, ..Settings::default() });
    for (last, ethertype) in unnamed {
        for (machine, from, to) in [(1, &sites.plc, &sites.device), (2, &sites.device, &sites.plc)] {
            from.send(&control(machine, last, ethertype));
            if last == 3 {
                to.next(PATIENCE).expect("EAPOL has a rule");
            } else {
                to.expect_nothing();
            }
        }
    }
    let lldp = control(1, 0x0e, [0x88, 0xcc]);
    sites.plc.send(&lldp);
    sites.device.expect(&lldp);
    for gateway in [&sites.near, sites.far.as_ref().expect("ours")] {
        assert_eq!(gateway.status().out.refused.get("reserved-address"), Some(&3));
    }
}

fn sent_frames_reconcile() {
    for overlay in ["", "fragmentation = \"inside\"", "fragmentation = \"outside\""] {
        let sites = Sites::build(&Settings { overlay, ..Settings::default() });
        for number in 0..40 {
            let frame = cyclic(number, if number % 2 == 0 { 64 } else { 1514 });
            sites.plc.send(&frame);
            let came = sites.device.next(PATIENCE);
            // The first fragment outside switches to the socket, and is lost.
            assert!(came == Some(frame) || overlay.contains("outside") && number == 1, "{number}");
        }
        let (near, far) = (sites.near.status(), sites.far.as_ref().expect("ours").status());
        let lost = u64::from(overlay.contains("outside"));
        assert_eq!(near.out.forwarded_frames, 40, "{:?}", near.out);
        assert!((40 - lost..=40).contains(&far.inward.forwarded_frames), "{:?}", far.inward);
        assert_eq!(near.out.forwarded_octets, 20 * (64 + 1514), "{:?}", near.out);
        assert!(near.out.datagrams > 40 && far.inward.datagrams > 0, "{:?} {:?}", near.out, far.inward);
    }
}

fn congestion_marks_cross() {
    let ip = |ecn: u8| {
        let mut frame = cyclic(5, 64);
        frame[12..34].copy_from_slice(&[
            0x08,
            0,
            0x45,
            0xb8 | ecn,
            0,
            50,
            0,
            0,
            0,
            0,
            64,
            253,
            0,
            0,
            10,
            7,
            0,
            1,
            10,
            7,
            0,
            2,
        ]);
        let sum =
            frame[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum::<u32>();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    for overlay in ["", "direct = false"] {
        let sites = sites(&Settings { overlay, ..Settings::default() });
        let recorder = Port::open(sites.chain.wire.as_ref().expect("a wire"), "a");
        for ecn in 0..4 {
            while recorder.next(Duration::from_millis(20)).is_some() {}
            sites.plc.send(&ip(ecn));
            sites.device.expect(&ip(ecn));
            // Among keepalives and probes, which have no class.
            let all = std::iter::from_fn(|| recorder.next(Duration::from_millis(200)));
            let classes: Vec<_> = all.map(|datagram| datagram[15]).filter(|class| *class != 0).collect();
            assert_eq!(classes, [0xb8 | ecn], "{overlay}");
        }
    }
}

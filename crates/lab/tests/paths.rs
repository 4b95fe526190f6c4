//! Overlays over paths that carry less than the interfaces, with and without ICMP, over IPv4 and
//! IPv6; and uplinks whose address changes.

mod daemon;
mod harness;
#[allow(dead_code, reason = "this program uses a part of the plant")]
mod plant;
#[allow(dead_code, reason = "this program uses a part of the sites")]
mod sites;

use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::run::status::OverlayPeer;
use antedate_lab::ns::Namespace;
use harness::Test;
use plant::{Gateway, PATIENCE, Port, cyclic};
use sites::{Far, Settings, Sites, Wire, configuration, run, stock_is_missing};

const TESTS: &[Test] = &[
    ("router_reports_the_path_mtu", router_reports_the_path_mtu),
    ("probes_find_the_path_mtu", probes_find_the_path_mtu),
    ("paths_differ_in_each_direction", paths_differ_in_each_direction),
    ("changed_path_is_followed", changed_path_is_followed),
    ("fragments_leave_outside", fragments_leave_outside),
    ("stock_far_end_is_probed", stock_far_end_is_probed),
    ("changed_uplink_address_is_used", changed_uplink_address_is_used),
    ("changed_uplink_mtu_counts_at_once", changed_uplink_mtu_counts_at_once),
    ("host_name_is_resolved_again", host_name_is_resolved_again),
];

fn main() -> ExitCode {
    harness::run("overlays on paths", TESTS)
}

/// The frame in the other direction.
fn back(number: u8, length: usize) -> Vec<u8> {
    let mut frame = cyclic(number, length);
    let (destination, source) = frame[..12].split_at_mut(6);
    destination.swap_with_slice(source);
    frame
}

/// Lengths of frames that do not cross, from one port to the other.
fn lost(from: &Port, to: &Port, frame: impl Fn(u8, usize) -> Vec<u8>) -> Vec<usize> {
    let lengths = (1100..1514).step_by(7).chain([64, 1500, 1514]);
    let crosses = |length: &usize| {
        let frame = frame(*length as u8, *length);
        from.send(&frame);
        let end = Instant::now() + Duration::from_millis(400);
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            match to.next(left) {
                Some(came) if came == frame => return true,
                Some(_) => {}
                None => return false,
            }
        }
        false
    };
    lengths.filter(|length| !crosses(length)).collect()
}

fn nothing_is_lost(sites: &Sites) {
    let there = lost(&sites.plc, &sites.device, cyclic);
    let again = lost(&sites.device, &sites.plc, back);
    assert!(there.is_empty() && again.is_empty(), "lost: {there:?} {again:?}");
}

fn peer(gateway: &Gateway) -> OverlayPeer {
    gateway.status().overlay.expect("an overlay").peers.remove(0)
}

/// Waits until the path of a gateway is known, while frames cross.
fn until_path(sites: &Sites, gateway: &Gateway, patience: Duration, is: impl Fn(&OverlayPeer) -> bool) {
    let end = Instant::now() + patience;
    while !is(&peer(gateway)) {
        assert!(Instant::now() < end, "{:?}", peer(gateway));
        sites.plc.send(&cyclic(1, 64));
        sites.device.send(&back(1, 64));
        thread::sleep(Duration::from_millis(50));
    }
    for port in [&sites.plc, &sites.device] {
        while port.next(Duration::from_millis(100)).is_some() {}
    }
}

fn set_mtu(space: &Namespace, interface: &str, mtu: u32) {
    space.batch(&[format!("link set dev {interface} mtu {mtu}")]).expect("another MTU");
}

/// Lowers the MTU between the router and one end. Returns the other end and this one.
fn less_behind(sites: &Sites, mtu: u32, swapped: bool) -> [&Gateway; 2] {
    let ends = [&sites.near, sites.far.as_ref().expect("ours")];
    let (behind, port, ends) = if swapped {
        (&sites.chain.gateway_a, "a", [ends[1], ends[0]])
    } else {
        (&sites.chain.gateway_b, "b", ends)
    };
    set_mtu(wire(sites), port, mtu);
    set_mtu(behind, "uplink", mtu);
    ends
}

/// The wire's namespace.
fn wire(sites: &Sites) -> &Namespace {
    sites.chain.wire.as_ref().expect("a wire")
}

/// Keeps the router from sending ICMP, as many firewalls do.
fn silence(sites: &Sites) {
    for words in [
        &["ip", "rule", "add", "pref", "1", "ipproto", "icmp", "blackhole"][..],
        &["ip", "-6", "rule", "add", "pref", "1", "ipproto", "ipv6-icmp", "blackhole"],
    ] {
        // A kernel without IPv6 has no rules for it.
        let _ = run(wire(sites), words);
    }
}

fn router_reports_the_path_mtu() {
    for (kind, overlay, swapped) in [
        (Wire::Router, "", false),
        (Wire::Router, "", true),
        (Wire::Router, "direct = false", false),
        (Wire::Router, "fragmentation = \"inside\"", false),
        (Wire::RouterV6, "", false),
        (Wire::RouterV6, "", true),
        (Wire::RouterV6, "fragmentation = \"inside\"", true),
    ] {
        let sites = Sites::build(&Settings { wire: kind, overlay, ..Settings::default() });
        // As behind a DSL line, and in a tunnel of a provider.
        let mtu = if kind == Wire::Router { 1492 } else { 1400 };
        let [near, far] = less_behind(&sites, mtu, swapped);
        sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
        nothing_is_lost(&sites);
        until_path(&sites, near, PATIENCE, |peer| peer.path_mtu_source == "kernel");
        let learned = peer(near);
        assert_eq!(learned.path_mtu, u64::from(mtu), "{learned:?}");
        assert!(learned.path_mtu_age_seconds.is_some(), "{learned:?}");
        nothing_is_lost(&sites);
        until_path(&sites, far, PATIENCE, |peer| peer.path_mtu == u64::from(mtu));
    }
}

fn probes_find_the_path_mtu() {
    for kind in [Wire::Bridge, Wire::BridgeV6, Wire::Router, Wire::RouterV6] {
        for overlay in ["", "fragmentation = \"inside\""] {
            let sites = Sites::build(&Settings { wire: kind, overlay, ..Settings::default() });
            silence(&sites);
            // A bridge drops longer frames without a word, apart from space for a VLAN tag.
            ["a", "b"].iter().for_each(|port| set_mtu(wire(&sites), port, 1400));
            sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
            nothing_is_lost(&sites);
            for gateway in [&sites.near, sites.far.as_ref().expect("ours")] {
                until_path(&sites, gateway, 5 * PATIENCE, |peer| {
                    peer.path_mtu_source == "probe" && (1385..=1404).contains(&peer.path_mtu)
                });
            }
            nothing_is_lost(&sites);
        }
    }
}

fn paths_differ_in_each_direction() {
    let sites = Sites::build(&Settings { wire: Wire::Router, ..Settings::default() });
    silence(&sites);
    // The router carries less towards the far end only.
    let less = "route replace 198.51.100.0/24 dev b mtu 1300";
    wire(&sites).batch(&[less.into()]).expect("another route");
    sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
    let far = sites.far.as_ref().expect("ours");
    until_path(&sites, far, PATIENCE, |peer| peer.path_mtu_source == "interface");
    until_path(&sites, &sites.near, 3 * PATIENCE, |peer| peer.path_mtu >= 1285);
    let (near, far) = (peer(&sites.near).path_mtu, peer(far).path_mtu);
    assert!((1285..=1300).contains(&near) && far == 1500, "{near} {far}");
    nothing_is_lost(&sites);
}

fn changed_path_is_followed() {
    let sites = Sites::build(&Settings::default());
    sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
    until_path(&sites, &sites.near, PATIENCE, |peer| peer.path_mtu_source == "interface");
    ["a", "b"].iter().for_each(|port| set_mtu(wire(&sites), port, 1300));
    // The next confirmation fails, three times.
    until_path(&sites, &sites.near, Duration::from_secs(25), |peer| {
        peer.path_mtu_source == "probe" && (1285..=1304).contains(&peer.path_mtu)
    });
    let far = sites.far.as_ref().expect("ours");
    until_path(&sites, far, Duration::from_secs(25), |peer| peer.path_mtu <= 1304);
    nothing_is_lost(&sites);
    ["a", "b"].iter().for_each(|port| set_mtu(wire(&sites), port, 1500));
    until_path(&sites, &sites.near, Duration::from_secs(60), |peer| peer.path_mtu == 1500);
    nothing_is_lost(&sites);
}

fn fragments_leave_outside() {
    for (kind, swapped) in
        [(Wire::Router, false), (Wire::Router, true), (Wire::RouterV6, false), (Wire::RouterV6, true)]
    {
        let overlay = "fragmentation = \"outside\"";
        let sites = Sites::build(&Settings { wire: kind, overlay, ..Settings::default() });
        less_behind(&sites, 1492, swapped);
        sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
        // The first fragment switches to the socket, and is lost.
        let first = [lost(&sites.plc, &sites.device, cyclic), lost(&sites.device, &sites.plc, back)];
        assert!(first.iter().all(|lost| lost.len() <= 1), "{first:?}");
        nothing_is_lost(&sites);
    }
}

fn stock_far_end_is_probed() {
    if let Some(missing) = stock_is_missing() {
        println!("SKIPPED: {missing}");
        return;
    }
    for (kind, source) in [(Wire::Router, "kernel"), (Wire::Bridge, "probe"), (Wire::BridgeV6, "probe")] {
        let sites = Sites::build(&Settings { wire: kind, far: Far::WireguardGo, ..Settings::default() });
        // The stock end uses its own interface's MTU, less 80 octets.
        if kind == Wire::Router {
            set_mtu(wire(&sites), "b", 1492);
            set_mtu(&sites.chain.gateway_b, "uplink", 1492);
        } else {
            set_mtu(wire(&sites), "b", 1400);
        }
        sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
        let expected = if kind == Wire::Router { 1492..=1492 } else { 1385..=1404 };
        until_path(&sites, &sites.near, 5 * PATIENCE, |peer| {
            peer.path_mtu_source == source && expected.contains(&peer.path_mtu)
        });
        assert!(!peer(&sites.near).antedate);
        // The stock end itself does not search.
        let there = lost(&sites.plc, &sites.device, cyclic);
        assert!(there.is_empty(), "{there:?}");
        if kind == Wire::Router {
            nothing_is_lost(&sites);
        }
    }
}

fn changed_uplink_address_is_used() {
    for (kind, overlay, swapped) in [
        (Wire::Bridge, "", false),
        (Wire::Bridge, "direct = false", false),
        (Wire::Bridge, "fragmentation = \"inside\"", true),
        (Wire::BridgeV6, "", true),
        (Wire::BridgeV6, "fragmentation = \"outside\"", false),
    ] {
        let sites = Sites::build(&Settings { wire: kind, overlay, ..Settings::default() });
        sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
        nothing_is_lost(&sites);
        let (space, gateway, port, from, to) = if swapped {
            let far = sites.far.as_ref().expect("ours");
            (&sites.chain.gateway_b, far, "b", &sites.device, &sites.plc)
        } else {
            (&sites.chain.gateway_a, &sites.near, "a", &sites.plc, &sites.device)
        };
        let frame = |number| if swapped { back(number, 1514) } else { cyclic(number, 1514) };
        let recorder = Port::open(wire(&sites), port);
        space.batch(&["link set dev uplink address 02:00:5e:00:00:a9".into()]).expect("another address");
        let end = Instant::now() + PATIENCE;
        while gateway.status().uplink.address != "02:00:5e:00:00:a9" {
            assert!(Instant::now() < end, "{:?}", gateway.status().uplink);
            thread::sleep(Duration::from_millis(5));
        }
        while recorder.next(Duration::from_millis(50)).is_some() {}
        for number in 0..20 {
            from.send(&frame(number));
            to.expect(&frame(number));
        }
        let kind = if kind == Wire::Bridge { [8, 0] } else { [0x86, 0xdd] };
        let sources: Vec<_> = std::iter::from_fn(|| recorder.next(Duration::from_millis(50)))
            .filter(|frame| frame[12..14] == kind && frame.len() > 200)
            .map(|frame| frame[11])
            .collect();
        assert!(sources.len() >= 20 && sources.iter().all(|last| *last == 0xa9), "{sources:x?}");
    }
}

fn host_name_is_resolved_again() {
    for kind in [Wire::Bridge, Wire::BridgeV6] {
        let settings = Settings { wire: kind, ..Settings::default() };
        let mut sites = Sites::build(&settings);
        sites.near.stop();
        let at = |last: u8| {
            kind.endpoint(2).replace("2]", &format!("{last}]")).replace(".2:", &format!(".{last}:"))
        };
        let hosts = sites.files.join("hosts");
        let name = |last: u8| {
            let address = at(last).replace(['[', ']'], "").replace(":51820", "");
            fs::write(&hosts, format!("{address} far.example\n")).expect("a table of hosts");
        };
        // Nobody is there.
        name(7);
        let text = configuration(&sites.files, "a", [1, 2], &sites.keys[1], &settings);
        let text = text.replace(&kind.endpoint(2), "far.example:51820");
        sites.near = Gateway::with_hosts(&sites.chain.gateway_a, &sites.files, "a", &text, &hosts);
        let end = Instant::now() + PATIENCE;
        while peer(&sites.near).endpoint != at(7) {
            assert!(Instant::now() < end, "{:?}", peer(&sites.near));
            thread::sleep(Duration::from_millis(20));
        }
        name(2);
        sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
        assert_eq!(peer(&sites.near).endpoint, at(2));
        if kind == Wire::BridgeV6 {
            continue;
        }
        // The far end moves, and does not begin by itself.
        let far = sites.far.as_mut().expect("ours");
        far.stop();
        let moves = ["addr del 192.0.2.2/24 dev uplink", "addr add 192.0.2.3/24 dev uplink"];
        sites.chain.gateway_b.batch(&moves.map(String::from)).expect("another address");
        far.run(&sites.chain.gateway_b);
        name(3);
        let end = Instant::now() + Duration::from_secs(60);
        while peer(&sites.near).endpoint != at(3) {
            assert!(Instant::now() < end, "{:?}", peer(&sites.near));
            sites.plc.send(&cyclic(2, 64));
            thread::sleep(Duration::from_millis(200));
        }
        sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(3, 64));
    }
}

fn changed_uplink_mtu_counts_at_once() {
    let sites = Sites::build(&Settings::default());
    sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
    nothing_is_lost(&sites);
    for mtu in [1350, 1500] {
        set_mtu(&sites.chain.gateway_a, "uplink", mtu);
        let since = Instant::now();
        while sites.near.status().uplink.mtu != u64::from(mtu) {
            assert!(since.elapsed() < PATIENCE, "{:?}", sites.near.status().uplink);
            thread::sleep(Duration::from_millis(5));
        }
        // The other end still sends what this one does not receive.
        let lost = lost(&sites.plc, &sites.device, cyclic);
        assert!(lost.is_empty(), "{mtu}: {lost:?}");
        until_path(&sites, &sites.near, PATIENCE, |peer| peer.path_mtu_source == "interface");
        assert_eq!(peer(&sites.near).path_mtu, u64::from(mtu));
    }
}

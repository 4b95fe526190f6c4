//! Protected echoes between gateways of an overlay: over IPv4 and IPv6, with paths of different
//! MTUs, on each of two uplinks, to stock ends, and to ends that are silent.

mod daemon;
mod harness;
#[allow(dead_code, reason = "this program uses a part of the plant")]
mod plant;
#[allow(dead_code, reason = "this program uses a part of the sites")]
mod sites;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use antedate_gateway::run::control::{Echo, Ping, Reply};
use antedate_lab::ns::Namespace;
use harness::Test;
use plant::{Gateway, cyclic};
use sites::{Far, Settings, Sites, Wire, run, stock_is_missing};

const TESTS: &[Test] = &[
    ("echo_begins_a_session", echo_begins_a_session),
    ("echoes_measure_each_way", echoes_measure_each_way),
    ("each_uplink_has_an_echo", each_uplink_has_an_echo),
    ("stock_end_answers_echo_requests", stock_end_answers_echo_requests),
    ("silent_peer_is_explained", silent_peer_is_explained),
];

fn main() -> ExitCode {
    harness::run("echoes in overlays", TESTS)
}

fn wire(sites: &Sites) -> &Namespace {
    sites.chain.wire.as_ref().expect("a wire")
}

fn ping(gateway: &Gateway, octets: u16, answer_octets: u16) -> Reply {
    gateway.ping(Ping { octets, answer_octets, ..Ping::default() })
}

/// The answer to one of three echoes.
fn answered(gateway: &Gateway, octets: u16, answer_octets: u16) -> Echo {
    let mut why = String::new();
    for _ in 0..3 {
        let reply = ping(gateway, octets, answer_octets);
        match reply.echo {
            Some(echo) => return echo,
            None => why = reply.message,
        }
    }
    panic!("{octets} there, {answer_octets} back: {why}");
}

fn unanswered(gateway: &Gateway, octets: u16, answer_octets: u16) -> String {
    let reply = ping(gateway, octets, answer_octets);
    assert!(!reply.ok && !reply.remedy.is_empty(), "{octets} there, {answer_octets} back: {reply:?}");
    reply.message
}

fn echo_begins_a_session() {
    for wire in [Wire::Bridge, Wire::BridgeV6] {
        let sites = Sites::build(&Settings { wire, ..Settings::default() });
        let status = sites.near.status().overlay.expect("an overlay");
        assert!(!status.peers[0].session, "{:?}", status.peers);
        let echo = answered(&sites.near, 0, 0);
        // The least frame; 1500 less IP, UDP, WireGuard and VXLAN, in steps of 16.
        let longest = if wire == Wire::Bridge { 1404 } else { 1372 };
        assert_eq!(
            (echo.peer.as_str(), echo.octets, echo.answer_octets, echo.longest),
            ("far", 60, 60, longest)
        );
        assert!(echo.round_trip_us > 0.0 && echo.round_trip_us < 1e6 && !echo.stock, "{echo:?}");
        let named = sites.near.ping(Ping { peer: "10.66.0.2".into(), ..Ping::default() });
        assert!(named.ok, "{named:?}");
        let nobody = sites.near.ping(Ping { peer: "hall".into(), ..Ping::default() });
        assert!(!nobody.ok && nobody.message.contains("\"hall\" is no peer"), "{nobody:?}");
        // None of it is a frame of the machines, nor refused.
        sites.device.expect_nothing();
        for gateway in [&sites.near, sites.far.as_ref().expect("ours")] {
            let overlay = gateway.status().overlay.expect("an overlay");
            assert!(overlay.refused.is_empty(), "{:?}", overlay.refused);
            assert_eq!((overlay.peers[0].sent_frames, overlay.peers[0].received_frames), (0, 0));
        }
    }
}

fn echoes_measure_each_way() {
    for kind in [Wire::Router, Wire::RouterV6] {
        for direct in ["", "direct = false"] {
            let sites = Sites::build(&Settings { wire: kind, overlay: direct, ..Settings::default() });
            // The router carries less towards the far end only, and says so to nobody.
            let (family, rule, net, metric, whole, less) = match kind {
                Wire::Router => ("-4", "icmp", "198.51.100.0/24", "0", 1404, 1196),
                _ => ("-6", "ipv6-icmp", "2001:db8:2::/64", "256", 1372, 1180),
            };
            let route =
                ["ip", family, "route", "replace", net, "dev", "b", "metric", metric, "mtu", "lock", "1300"];
            run(wire(&sites), &route).expect("another route");
            let silent = ["ip", family, "rule", "add", "pref", "1", "ipproto", rule, "blackhole"];
            run(wire(&sites), &silent).expect("a router without ICMP");
            let far = sites.far.as_ref().expect("ours");
            for (gateway, there, back) in [(&sites.near, less, whole), (far, whole, less)] {
                assert_eq!(answered(gateway, 0, 0).longest, u64::from(whole));
                assert_eq!(answered(gateway, there, 60).octets, u64::from(there));
                assert_eq!(answered(gateway, 60, back).answer_octets, u64::from(back));
                if there < whole {
                    unanswered(gateway, there + 1, 60);
                } else {
                    unanswered(gateway, 60, back + 1);
                }
            }
            let too_long = unanswered(far, whole + 1, 60);
            assert!(too_long.contains(&format!("frames of {whole} octets in one piece")), "{too_long}");
        }
    }
}

fn each_uplink_has_an_echo() {
    let overlay = "[overlay.second_uplink]\ninterface = \"second\"";
    let peer = "second_endpoint = \"198.51.100.OTHER:51820\"";
    let sites = Sites::build(&Settings { overlay, peer, ..Settings::default() });
    let on_second = || sites.near.ping(Ping { second_uplink: true, answer_octets: 1404, ..Ping::default() });
    assert_eq!(answered(&sites.near, 1404, 1404).answer_octets, 1404);
    assert_eq!(on_second().echo.map(|echo| echo.answer_octets), Some(1404));
    let shown = &sites.near.status().overlay.expect("an overlay").peers[0];
    assert_eq!(shown.second_endpoint, "198.51.100.2:51820");
    sites.chain.gateway_b.set_link("second", false).expect("the link goes down");
    let lost = on_second();
    assert!(!lost.ok && lost.message.contains("on the second uplink"), "{lost:?}");
    answered(&sites.near, 1404, 1404);
    sites.chain.gateway_b.set_link("second", true).expect("the link comes up");
    wire(&sites).set_link("a", false).expect("the other link goes down");
    assert!((0..5).any(|_| on_second().ok), "{:?}", on_second());
    unanswered(&sites.near, 0, 0);
}

fn stock_end_answers_echo_requests() {
    if let Some(missing) = stock_is_missing() {
        println!("SKIPPED: {missing}");
        return;
    }
    for kind in [Wire::Bridge, Wire::BridgeV6] {
        let sites = Sites::build(&Settings { wire: kind, far: Far::WireguardGo, ..Settings::default() });
        let echo = answered(&sites.near, 0, 0);
        assert!(echo.stock && echo.answer_octets == 0 && echo.round_trip_us > 0.0, "{echo:?}");
        let longest = echo.longest as u16;
        assert_eq!(answered(&sites.near, longest, 0).octets, echo.longest);
        let deaf = ["sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1"];
        run(&sites.chain.gateway_b, &deaf).expect("no answers");
        let why = unanswered(&sites.near, 0, 0);
        let known = "far did not say that it is an Antedate gateway, and its address in the tunnel, 10.66.0.2, answers no echo";
        assert!(why.starts_with(known) && why.contains("last handshake ") && !why.contains("never"), "{why}");
    }
}

fn silent_peer_is_explained() {
    let mut sites = Sites::build(&Settings::default());
    sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
    answered(&sites.near, 0, 0);
    sites.far.as_mut().expect("ours").stop();
    let why = unanswered(&sites.near, 0, 0);
    assert!(why.starts_with("far does not answer within a second; last heard "), "{why}");
    sites.near.stop();
    sites.near.run(&sites.chain.gateway_a);
    let why = unanswered(&sites.near, 0, 0);
    assert!(why.starts_with("far has no session: ") && why.ends_with("last heard never"), "{why}");
    sites.far.as_mut().expect("ours").run(&sites.chain.gateway_b);
    // The initiator waits five seconds between two initiations.
    let returns = |_| {
        thread::sleep(Duration::from_millis(100));
        ping(&sites.near, 0, 0).ok
    };
    assert!((0..20).any(returns));
}

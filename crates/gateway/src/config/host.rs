//! The host around a gateway: what else takes the frames of its ports, or carries them past it.
//!
//! A gateway sees a port's frames beside the host's own stack. A bridge, an address or a route of
//! the host may pass the same frames in clear. [`examine`] finds such settings, at the start and
//! while the gateway runs.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use crate::sys::interface::Interface;
use crate::sys::links::{self, Link};

/// The facts about a host that [`examine`] needs.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// All interfaces.
    pub links: Vec<Link>,
    /// All addresses, with the indices of their interfaces.
    pub addresses: Vec<(i32, IpAddr)>,
    /// The stations of a WLAN and the virtual functions of a card, by index.
    pub stations: Vec<i32>,
    /// See [`Self::stations`].
    pub functions: Vec<i32>,
    /// Interfaces that take IPv6 addresses by themselves.
    pub autoconfigured: Vec<i32>,
    /// Interfaces whose packets the host forwards: IPv4, then IPv6.
    pub forwarding: [Vec<i32>; 2],
}

/// A port of a gateway.
#[derive(Debug, Clone, Copy)]
pub struct Port<'a> {
    /// The setting that names it.
    pub key: &'static str,
    /// The index of its interface.
    pub index: i32,
    /// The name of its interface.
    pub name: &'a str,
    /// Whether its frames have the addresses of machines, not the host's.
    pub transparent: bool,
}

impl<'a> Port<'a> {
    /// The ports of a gateway: field, then uplink, whose frames have the addresses of machines if
    /// it is `transparent`.
    #[must_use]
    pub fn of(field: &'a Interface, uplink: &'a Interface, transparent: bool) -> [Self; 2] {
        let port =
            |key, of: &'a Interface, transparent| Self { key, index: of.index, name: &of.name, transparent };
        [port("field.interface", field, true), port("uplink.interface", uplink, transparent)]
    }
}

/// A setting of the host that harms a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The setting of the configuration that it concerns.
    pub key: &'static str,
    /// The harm.
    pub what: String,
    /// The remedy.
    pub remedy: String,
    /// Whether frames pass around the gateway in clear for certain, so that it must not start.
    pub refused: bool,
}

impl Host {
    /// Looks at this host, and closely at these interfaces, those above and below. What cannot be read
    /// counts as absent.
    #[must_use]
    pub fn look(ports: &[(i32, &str)]) -> Self {
        let links = Self { links: links::links().unwrap_or_default(), ..Self::default() };
        let others = ports.iter().flat_map(|(port, _)| links.speakers(*port).chain(links.below(*port)));
        let others = others.map(|link| (link.index, link.name.as_str()));
        let others = others.filter(|(index, _)| ports.iter().all(|(port, _)| port != index));
        let all: Vec<_> = ports.iter().copied().chain(others).collect();
        let with = |of: fn(i32, &str) -> bool| {
            all.iter().filter(|(index, name)| of(*index, name)).map(|(index, _)| *index).collect()
        };
        Self {
            addresses: links::addresses().unwrap_or_default(),
            stations: with(|index, name| {
                is_hardware(index, name, "phy80211") || is_hardware(index, name, "wireless")
            }),
            functions: with(|index, name| is_hardware(index, name, "device/physfn")),
            autoconfigured: with(|_, name| {
                let is = |key, value| set("ipv6", name, key) == Some(value);
                // SLAAC needs both settings, and a link-local address neither.
                is("disable_ipv6", 0)
                    && (!is("addr_gen_mode", WITHOUT_ADDRESS) || !is("autoconf", 0) && !is("accept_ra", 0))
            }),
            forwarding: [
                with(|_, name| set("ipv4", name, "forwarding") == Some(1)),
                // The setting of one interface does not forward.
                with(|_, _| set("ipv6", "all", "forwarding") == Some(1)),
            ],
            ..links
        }
    }

    /// The interfaces whose own packets leave by a port: itself, the bridge or bond that it belongs
    /// to, and VLANs and the like above these. A VRF sends nothing by itself.
    fn speakers(&self, port: i32) -> impl Iterator<Item = &Link> {
        let master = self.link(port).and_then(|link| self.link(link.master?));
        let master = master.filter(|master| master.kind != "vrf").map(|master| master.index);
        let is_above =
            |link: &Link| matches!(link.kind.as_str(), "vlan" | "macvlan" | "macvtap" | "ipvlan" | "ipvtap");
        self.links.iter().filter(move |link| {
            let mut ends = [Some(port), master].into_iter().flatten();
            ends.any(|end| link.index == end || is_above(link) && self.leads_to(link.index, end))
        })
    }

    /// A port, and below a VLAN the interfaces that carry it.
    fn below(&self, port: i32) -> impl Iterator<Item = &Link> {
        let lower =
            |link: &&Link| link.lower.filter(|_| link.kind == "vlan").and_then(|lower| self.link(lower));
        std::iter::successors(self.link(port), move |link| lower(link)).take(8)
    }

    fn link(&self, index: i32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == index)
    }

    /// Whether the frames of this interface leave by the port: the port itself, or one above it.
    fn leads_to(&self, mut index: i32, port: i32) -> bool {
        // Interfaces are stacked at most this high (MAX_NEST_DEV).
        for _ in 0..8 {
            if index == port {
                return true;
            }
            match self.link(index).and_then(|link| link.lower) {
                Some(lower) if lower != index => index = lower,
                _ => return false,
            }
        }
        false
    }

    /// The bridge that has both ports, or interfaces above them, among its members.
    fn bridge_of(&self, [one, other]: [i32; 2]) -> Option<&Link> {
        let has = |bridge: &Link, port: i32| {
            let mut members = self.links.iter().filter(|link| link.master == Some(bridge.index));
            members.any(|member| self.leads_to(member.index, port))
        };
        let bridges = self.links.iter().filter(|link| link.kind == "bridge");
        bridges.into_iter().find(|bridge| has(bridge, one) && has(bridge, other))
    }
}

/// The mode of an interface that makes no IPv6 address by itself (`addr_gen_mode`).
const WITHOUT_ADDRESS: i32 = 1;

/// Whether `/sys` has this entry of an interface. It may show another network namespace, so the
/// index is compared.
fn is_hardware(index: i32, name: &str, entry: &str) -> bool {
    let directory = Path::new("/sys/class/net").join(name);
    let shown = fs::read_to_string(directory.join("ifindex"));
    shown.is_ok_and(|shown| shown.trim().parse() == Ok(index)) && directory.join(entry).exists()
}

/// A setting of an interface under `/proc/sys/net`, which shows this process's network namespace.
fn set(family: &str, name: &str, key: &str) -> Option<i32> {
    fs::read_to_string(format!("/proc/sys/net/{family}/conf/{name}/{key}")).ok()?.trim().parse().ok()
}

/// Finds the settings of the host that harm a gateway between these ports: field, then uplink.
#[must_use]
pub fn examine(host: &Host, ports: [Port<'_>; 2]) -> Vec<Finding> {
    let [field, uplink] = ports;
    let mut findings = Vec::new();
    let bridge = host.bridge_of([field.index, uplink.index]);
    if let Some(bridge) = bridge {
        findings.push(Finding {
            key: uplink.key,
            what: format!(
                "{} and {} are in one bridge of this host, {}: it passes all frames in clear, past the gateway and its policy",
                field.name, uplink.name, bridge.name
            ),
            remedy: format!("ip link set dev {} nomaster; ip link set dev {} nomaster", field.name, uplink.name),
            refused: true,
        });
    }
    for port in ports {
        let mut find = |(what, remedy): (String, String)| {
            findings.push(Finding { key: port.key, what, remedy, refused: false });
        };
        if bridge.is_none() {
            master(host, port).map(&mut find);
        }
        if port.transparent {
            opaque(host, port).map(&mut find);
            addresses(host, port).map(&mut find);
        }
    }
    findings.extend(routed(host, ports));
    findings
}

fn master(host: &Host, port: Port<'_>) -> Option<(String, String)> {
    let master = host.link(host.link(port.index)?.master?)?;
    let (name, kind) = (port.name, master.kind.as_str());
    let what = match kind {
        "bridge" | "openvswitch" => "the host passes its frames to the other ports of that too, in clear",
        "bond" | "team" => "that takes its frames, and sends by it as it chooses",
        _ if !port.transparent => return None,
        _ => "the host's own stack takes its frames too",
    };
    let kind = if kind.is_empty() { "master" } else { kind };
    let remedy = match kind {
        "bond" | "team" => {
            format!("name {} as the interface, or ip link set dev {name} nomaster", master.name)
        }
        _ => format!("ip link set dev {name} nomaster"),
    };
    Some((format!("{name} belongs to the {kind} {}: {what}", master.name), remedy))
}

/// An interface that does not receive or send the frames of other addresses.
fn opaque(host: &Host, port: Port<'_>) -> Option<(String, String)> {
    let name = port.name;
    let is_opaque = |link: &&Link| {
        matches!(link.kind.as_str(), "macvlan" | "macvtap" | "ipvlan" | "ipvtap") && !link.passes_through
    };
    if let Some(Link { kind, name: below, .. }) = host.below(port.index).find(is_opaque) {
        let is = if below == name { "is".to_owned() } else { format!("is a VLAN of {below},") };
        return Some((
            format!("{name} {is} a {kind}: it does not receive frames to the addresses of machines"),
            "give the gateway the interface itself, or a macvlan with mode passthru, or one end of a veth pair".to_owned(),
        ));
    }
    if host.below(port.index).any(|link| host.stations.contains(&link.index))
        || host.stations.contains(&port.index)
    {
        return Some((
            format!(
                "{name} is a WLAN interface: an access point takes frames of its station's own address only"
            ),
            "use a cable, or [overlay] with this uplink".to_owned(),
        ));
    }
    host.functions.contains(&port.index).then(|| {
        (
            format!(
                "{name} is a virtual function: its card may withhold frames to the addresses of machines"
            ),
            "on the host of the card: ip link set dev CARD vf NUMBER trust on spoofchk off".to_owned(),
        )
    })
}

/// Addresses of the host, now or in future.
fn addresses(host: &Host, port: Port<'_>) -> Option<(String, String)> {
    let what = "itself speaks on this port, in clear and past the policy";
    let speakers: Vec<_> = host.speakers(port.index).map(|link| (link.index, link.name.as_str())).collect();
    let other = speakers.iter().copied().filter(|(index, _)| *index != port.index);
    for (index, name) in [(port.index, port.name)].into_iter().chain(other) {
        let over = if index == port.index { String::new() } else { format!(", over {},", port.name) };
        let own = host.addresses.iter().filter(|(at, _)| *at == index);
        let own: Vec<String> = own.map(|(_, ip)| ip.to_string()).collect();
        let ipv6_off = format!("sysctl -w net.ipv6.conf.{name}.disable_ipv6=1");
        let autoconfigured = host.autoconfigured.contains(&index);
        if !own.is_empty() {
            let only_ipv6 = own.iter().all(|ip| ip.contains(':'));
            let flush = format!("ip address flush dev {name}, and keep DHCP clients away from it");
            let remedy = match (only_ipv6, autoconfigured) {
                (true, _) => ipv6_off,
                (false, true) => format!("{flush}; {ipv6_off}"),
                (false, false) => flush,
            };
            let own = own.join(", ");
            return Some((format!("{name}{over} has addresses of the host ({own}): it {what}"), remedy));
        }
        if autoconfigured {
            let what = format!("{name}{over} will take an IPv6 address by itself, and the host then {what}");
            return Some((what, ipv6_off));
        }
    }
    None
}

/// A route around the gateway.
fn routed(host: &Host, ports: [Port<'_>; 2]) -> Option<Finding> {
    let [field, uplink] = ports;
    let of_field = format!("ipv4.conf.{}", field.name);
    let families =
        [("IPv4", of_field.as_str(), &host.forwarding[0]), ("IPv6", "ipv6.conf.all", &host.forwarding[1])];
    let (family, conf, _) = families.into_iter().find(|(family, _, forwarding)| {
        let routable = |ip: &IpAddr| match ip {
            IpAddr::V4(_) => *family == "IPv4",
            IpAddr::V6(ip) => *family == "IPv6" && !ip.is_unicast_link_local(),
        };
        let routes = |index: i32| {
            forwarding.contains(&index) && host.addresses.iter().any(|(at, ip)| *at == index && routable(ip))
        };
        let leads =
            |port: Port<'_>| routes(port.index) || host.speakers(port.index).any(|link| routes(link.index));
        leads(field) && leads(uplink)
    })?;
    Some(Finding {
        key: field.key,
        what: format!(
            "the host forwards {family} between {} and {}: packets of the machines to it leave in clear",
            field.name, uplink.name
        ),
        remedy: format!("sysctl -w net.{conf}.forwarding=0, or ip address flush dev {}", field.name),
        refused: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: i32, name: &str, kind: &str, master: Option<i32>, lower: Option<i32>) -> Link {
        Link { index, name: name.into(), kind: kind.into(), master, lower, passes_through: false }
    }

    fn ports(transparent: bool) -> [Port<'static>; 2] {
        [
            Port { key: "field.interface", index: 2, name: "eth1", transparent: true },
            Port { key: "uplink.interface", index: 3, name: "eth0", transparent },
        ]
    }

    /// The findings, each with whether it is refused.
    fn found(host: &Host) -> Vec<(String, bool)> {
        let findings = examine(host, ports(true));
        assert!(findings.iter().all(|finding| !finding.remedy.is_empty()));
        findings.into_iter().map(|finding| (finding.what, finding.refused)).collect()
    }

    #[test]
    fn plain_ports_are_no_finding() {
        let links = vec![link(2, "eth1", "", None, None), link(3, "eth0", "veth", None, Some(9))];
        assert_eq!(found(&Host { links, ..Host::default() }), []);
    }

    #[test]
    fn bridge_around_the_gateway_is_refused() {
        let bridge = link(7, "br0", "bridge", None, None);
        let direct = [link(2, "eth1", "", Some(7), None), link(3, "eth0", "", Some(7), None)];
        let over_a_vlan = [
            link(2, "eth1", "", Some(7), None),
            link(3, "eth0", "", None, None),
            link(8, "eth0.5", "vlan", Some(7), Some(3)),
        ];
        for members in [&direct[..], &over_a_vlan] {
            let links = [members, std::slice::from_ref(&bridge)].concat();
            let found = found(&Host { links, ..Host::default() });
            assert!(found[0].0.contains("in one bridge of this host, br0") && found[0].1, "{found:?}");
            assert_eq!(found.len(), 1, "{found:?}");
        }
        let links = vec![direct[0].clone(), link(3, "eth0", "", None, None), bridge];
        let found = found(&Host { links, ..Host::default() });
        assert!(found[0].0.contains("eth1 belongs to the bridge br0") && !found[0].1, "{found:?}");
    }

    #[test]
    fn interface_without_others_frames_is_found() {
        for kind in ["macvlan", "ipvlan"] {
            let links = vec![link(3, "mv0", kind, None, Some(9))];
            let host = Host { links, ..Host::default() };
            assert!(found(&host)[0].0.contains(kind));
            // An overlay's uplink has the host's own address.
            assert_eq!(examine(&host, ports(false)), []);
        }
        let through = Link { passes_through: true, ..link(3, "mv0", "macvlan", None, Some(9)) };
        assert_eq!(found(&Host { links: vec![through], ..Host::default() }), []);
        assert!(found(&Host { stations: vec![3], ..Host::default() })[0].0.contains("WLAN"));
        assert!(found(&Host { functions: vec![2], ..Host::default() })[0].0.contains("virtual function"));
    }

    #[test]
    fn addresses_and_routes_of_the_host_are_found() {
        let ip = |text: &str| text.parse().unwrap();
        let addresses = vec![(2, ip("192.0.2.1")), (2, ip("fe80::1")), (3, ip("198.51.100.1"))];
        let host = Host { addresses, forwarding: [vec![2, 3], Vec::new()], ..Host::default() };
        let all = found(&host);
        assert!(all[0].0.starts_with("eth1 has addresses of the host (192.0.2.1, fe80::1)"), "{all:?}");
        assert!(all[2].0.starts_with("the host forwards IPv4 between eth1 and eth0"), "{all:?}");
        assert_eq!(examine(&host, ports(false)).len(), 2, "an overlay's uplink needs an address");
        let found = found(&Host { autoconfigured: vec![3], ..Host::default() });
        assert!(found[0].0.starts_with("eth0 will take an IPv6 address by itself"), "{found:?}");
    }

    /// Settings of an interface and of those over it, with the roles of field and uplink swapped.
    fn on_each_port(of: impl Fn(i32, &str) -> Host, expected: &str) {
        for (index, name) in [(2, "eth1"), (3, "eth0")] {
            let all = found(&of(index, name));
            let expected = expected.replace("PORT", name);
            assert!(all.iter().any(|(what, _)| what.starts_with(&expected)), "{expected}: {all:?}");
        }
    }

    #[test]
    fn addresses_over_a_port_are_found() {
        let ip = |text: &str| text.parse().unwrap();
        for (kind, over) in [("bridge", "br0"), ("bond", "bond0")] {
            for (address, remedy) in [("192.0.2.1", "flush dev"), ("2001:db8::1", "disable_ipv6=1")] {
                let host = |index, name: &str| {
                    let links = vec![link(index, name, "", Some(7), None), link(7, over, kind, None, None)];
                    Host { links, addresses: vec![(7, ip(address))], ..Host::default() }
                };
                on_each_port(host, &format!("{over}, over PORT, has addresses of the host ({address})"));
                let all = examine(&host(3, "eth0"), ports(true));
                assert!(all.iter().any(|finding| finding.remedy.contains(remedy)), "{all:?}");
            }
        }
        // A VLAN of the port, and one of the bridge that it belongs to.
        for (master, lower) in [(None, 0), (Some(7), 7)] {
            let host = |index, name: &str| {
                let lower = if lower == 0 { index } else { lower };
                let links = vec![
                    link(index, name, "", master, None),
                    link(7, "br0", "bridge", None, None),
                    link(8, "over.5", "vlan", None, Some(lower)),
                ];
                Host { links, addresses: vec![(8, ip("2001:db8::5"))], ..Host::default() }
            };
            on_each_port(host, "over.5, over PORT, has addresses of the host (2001:db8::5)");
        }
        // What a VRF has is not on the wire.
        let links = vec![link(3, "eth0", "", Some(7), None), link(7, "vrf0", "vrf", None, None)];
        let all = found(&Host { links, addresses: vec![(7, ip("192.0.2.1"))], ..Host::default() });
        assert!(all.iter().all(|(what, _)| !what.contains("addresses of the host")), "{all:?}");
    }

    #[test]
    fn autoconfiguration_over_a_port_is_found() {
        let host = |index, name: &str| {
            let links = vec![link(index, name, "", Some(7), None), link(7, "br0", "bridge", None, None)];
            Host { links, autoconfigured: vec![7], ..Host::default() }
        };
        on_each_port(host, "br0, over PORT, will take an IPv6 address by itself");
        on_each_port(|index, _| Host { autoconfigured: vec![index], ..Host::default() }, "PORT will take");
    }

    #[test]
    fn vlan_of_an_opaque_interface_is_found() {
        for kind in ["macvlan", "ipvlan"] {
            let host = |index, name: &str| {
                let links =
                    vec![link(index, name, "vlan", None, Some(9)), link(9, "low0", kind, None, Some(10))];
                Host { links, ..Host::default() }
            };
            on_each_port(host, &format!("PORT is a VLAN of low0, a {kind}"));
            on_each_port(
                |index, name| Host { links: vec![link(index, name, kind, None, None)], ..Host::default() },
                &format!("PORT is a {kind}"),
            );
        }
        let station = |index, name: &str| {
            let links = vec![link(index, name, "vlan", None, Some(9)), link(9, "wlan0", "", None, None)];
            Host { links, stations: vec![9], ..Host::default() }
        };
        on_each_port(station, "PORT is a WLAN interface");
    }

    #[test]
    fn routes_of_ipv6_are_found() {
        let ip = |text: &str| text.parse().unwrap();
        let host = |field: &str| Host {
            addresses: vec![(2, ip(field)), (3, ip("2001:db8:2::1"))],
            forwarding: [Vec::new(), vec![2, 3]],
            ..Host::default()
        };
        let routes =
            |host: &Host| found(host).iter().any(|(what, _)| what.starts_with("the host forwards IPv6"));
        assert!(routes(&host("2001:db8:1::1")));
        assert!(!routes(&host("fe80::1")), "link-local packets stay on their link");
        assert!(!routes(&host("192.0.2.1")));
    }
}

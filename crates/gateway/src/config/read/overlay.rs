//! Reads `[overlay]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use antedate_host::document::{Field, Section};
use antedate_wire::EthernetAddress;
use antedate_wire::vxlan::{self, Vni};

use super::endpoint::{self, Endpoint};
use super::{U16_MAX, all, by_priority, number, path};
use crate::config::Lines;
use crate::config::keys::is_member_name;
use crate::config::overlay::{
    AGEING, Clamp, Dscp, LongFrames, MACS, Overlay, PORT, Peer, STORM_LIMIT, SecondUplink,
};
use crate::config::tunnel_keys;
use crate::config::uplink::Which;

const KEY_REMEDY: &str = "`antedate keygen wireguard --out FILE` makes one";
/// The most peers of an overlay.
const PEERS_MAX: usize = 256;

/// The key files, even if other settings are wrong, and the whole section.
pub(super) fn overlay(
    mut section: Section<'_, '_>,
    base: &Path,
    lines: &mut Lines,
) -> (Vec<PathBuf>, Option<Overlay>) {
    lines.note("overlay", section.line());
    let mut zones = Vec::new();
    let listen = section.get("listen").map(|field| {
        lines.note("overlay.listen", Some(field.line()));
        listen(&field, Which::First, &mut zones)
    });
    let direct = section.get("direct").map(|field| field.boolean());
    let secured = section.get("wireguard");
    let secured_set = all(secured.as_ref().map(Field::boolean));
    let plain = matches!(secured_set, Some(Some(false)));
    let key_file = if plain {
        if let Some(field) = section.get("private_key_file") {
            field.fault("is not used without WireGuard", "remove the line, or wireguard = false");
        }
        Some(None)
    } else {
        section.required("private_key_file", KEY_REMEDY).and_then(|field| {
            lines.note("overlay.private_key_file", Some(field.line()));
            path(&field, base, KEY_REMEDY).map(Some)
        })
    };
    let remedy = "give this end an address inside the tunnel, e.g. address = \"10.66.0.1\"";
    let address = section.required("address", remedy).and_then(|field| address(&field));
    let vni = section
        .required("vni", "give the number of the VXLAN network that all ends share, e.g. vni = 42")
        .and_then(|field| number::<u32>(&field, 0..=Vni::MAX.into()).and_then(Vni::new));
    let port = section.get("vxlan_port").map(|field| number(&field, 1..=U16_MAX));
    let fragmentation = section.get("fragmentation").map(|field| {
        lines.note("overlay.fragmentation", Some(field.line()));
        const NAMES: [(&str, LongFrames); 4] = [
            ("auto", LongFrames::Auto),
            ("inside", LongFrames::Inside),
            ("outside", LongFrames::Outside),
            ("off", LongFrames::Off),
        ];
        field.one_of("a way to fragment", &NAMES)
    });
    let tcp_mss = section.get("tcp_mss").map(|field| match field.as_string() {
        Some(_) => field.one_of("a segment size", &[("off", Clamp::Off), ("auto", Clamp::Auto)]),
        None => number(&field, 536..=9000).map(Clamp::At),
    });
    let dscp = section.get("dscp").map(|field| match field.as_string() {
        Some(_) => field.one_of("a class", &[("copy", Dscp::default()), ("off", Dscp::Fixed(0))]),
        None if field.is_array() => by_priority(&field, 63).map(Dscp::ByPriority),
        None => number(&field, 0..=63).map(Dscp::Fixed),
    });
    let relay = section.get("relay").map(|field| field.boolean());
    let storm_limit = section.get("storm_limit").map(|field| number(&field, 0..=10_000_000));
    let release = section.get("release_clock_us").map(|field| number(&field, 0..=100_000));
    let ageing = section.get("mac_ageing_seconds").map(|field| number(&field, 10..=86_400));
    let mac_limit = section.get("mac_limit").map(|field| number(&field, 16..=65_536));
    let second = section.get("second_uplink").map(|field| {
        lines.note("overlay.second_uplink", Some(field.line()));
        second_uplink(&field, plain, lines, &mut zones)
    });
    let mut keys = Vec::from_iter(key_file.clone().flatten());
    let peers = peers(&mut section, base, plain, &mut keys, &mut zones);
    section.finish();
    let whole = || {
        secured_set?;
        Some(Overlay {
            listen: all(listen)?.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT))),
            direct: all(direct)?.unwrap_or(true),
            private_key_file: key_file?,
            address: address?,
            vni: vni?,
            port: all(port)?.unwrap_or(vxlan::PORT),
            fragmentation: all(fragmentation)?.unwrap_or_default(),
            tcp_mss: all(tcp_mss)?.unwrap_or_default(),
            dscp: all(dscp)?.unwrap_or_default(),
            relay: all(relay)?.unwrap_or(false),
            storm_limit: all(storm_limit)?.unwrap_or(STORM_LIMIT),
            release_clock_us: all(release)?.unwrap_or(0),
            mac_ageing_seconds: all(ageing)?.unwrap_or(AGEING),
            mac_limit: all(mac_limit)?.unwrap_or(MACS),
            second_uplink: all(second)?,
            zones,
            peers: peers?,
        })
    };
    (keys, whole())
}

/// A port, an address, or both.
fn listen(field: &Field<'_, '_>, which: Which, zones: &mut Vec<(Which, String)>) -> Option<SocketAddr> {
    if field.as_string().is_none() {
        return number(field, 1..=U16_MAX).map(|port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    let text = field.string()?;
    let alone = || endpoint::ip(text).map(|(ip, zone)| (SocketAddr::new(ip, PORT), zone));
    let found = endpoint::address(text).or_else(alone).map(|(at, zone)| {
        zones.extend(zone.map(|zone| (which, zone)));
        at
    });
    if found.is_none() {
        field.fault(
            format!("\"{text}\" is not an address"),
            "give a port, or address and port: listen = \"0.0.0.0:51820\" or \"[::]:51820\"",
        );
    }
    found
}

fn address(field: &Field<'_, '_>) -> Option<Ipv4Addr> {
    let text = field.string()?;
    let found = text.parse::<Ipv4Addr>().ok().filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
    if found.is_none() {
        field.fault(
            format!("\"{text}\" is not the IPv4 address of one end"),
            "give an address that is used nowhere else, e.g. \"10.66.0.1\"",
        );
    }
    found
}

fn peers(
    section: &mut Section<'_, '_>,
    base: &Path,
    plain: bool,
    keys: &mut Vec<PathBuf>,
    zones: &mut Vec<(Which, String)>,
) -> Option<Vec<Peer>> {
    let remedy = "add [[overlay.peer]] with public_key, address and endpoint of the other end";
    let field = section.required("peer", remedy)?;
    let fields = field.array()?;
    if fields.is_empty() {
        field.fault("is empty", remedy);
        return None;
    }
    if fields.len() > PEERS_MAX {
        field.fault(format!("has {} entries", fields.len()), format!("use at most {PEERS_MAX} peers"));
        return None;
    }
    let mut peers: Vec<Peer> = Vec::new();
    let mut whole = true;
    for (number, field) in fields.iter().enumerate() {
        let Some(peer) = peer(field, base, plain, number, keys, zones) else {
            whole = false;
            continue;
        };
        let mut twice = |what: &str| {
            field.fault(format!("{what} is that of another peer"), "give each peer its own");
            whole = false;
        };
        if peers.iter().any(|other| other.name == peer.name) {
            twice("the name");
        }
        if !plain && peers.iter().any(|other| other.shares_key(&peer)) {
            twice("the public key");
        }
        if peers.iter().any(|other| other.address == peer.address) {
            twice("the address");
        }
        let ip = |peer: &Peer| peer.endpoint.map(|at| at.ip());
        if plain && peers.iter().any(|other| ip(other) == ip(&peer)) {
            twice("without WireGuard peers are told by their IP addresses, and that of the endpoint");
        }
        if peers.iter().flat_map(|other| &other.macs).any(|mac| peer.macs.contains(mac)) {
            twice("one of the static MAC addresses");
        }
        peers.push(peer);
    }
    whole.then_some(peers)
}

/// `[overlay.second_uplink]`.
fn second_uplink(
    field: &Field<'_, '_>,
    plain: bool,
    lines: &mut Lines,
    zones: &mut Vec<(Which, String)>,
) -> Option<SecondUplink> {
    if plain {
        field.fault("is not used without WireGuard", "remove it, or wireguard = false");
    }
    let mut section = field.section()?;
    let interface = section.required("interface", "name the interface, e.g. interface = \"eth2\"");
    let interface = interface.and_then(|field| Some(field.string()?.to_owned()));
    let at = section.get("listen").map(|field| {
        lines.note("overlay.second_uplink.listen", Some(field.line()));
        listen(&field, Which::Second, zones)
    });
    section.finish();
    let listen = all(at)?.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)));
    Some(SecondUplink { interface: interface?, listen })
}

fn peer(
    field: &Field<'_, '_>,
    base: &Path,
    plain: bool,
    place: usize,
    keys: &mut Vec<PathBuf>,
    zones: &mut Vec<(Which, String)>,
) -> Option<Peer> {
    let mut section = field.section()?;
    let name = section.get("name").map(|field| {
        let name = field.string()?;
        let legal = is_member_name(name);
        if !legal {
            field.fault("is not a name", "use 1 to 64 letters, digits and - _ .");
        }
        legal.then(|| name.to_owned())
    });
    let public_key = if plain {
        if let Some(field) = section.get("public_key") {
            field.fault("is not used without WireGuard", "remove the line, or wireguard = false");
        }
        Some([0; 32])
    } else {
        section.required("public_key", "write the other end's public key, 44 characters of base64").and_then(
            |field| {
                let key = tunnel_keys::decode(field.string()?);
                if key == Some([0; 32]) {
                    field.fault(
                        "is all zeros, which is nobody's key",
                        "write what `wg pubkey` or `antedate keygen wireguard --public FILE` prints at the other end",
                    );
                    return None;
                }
                if key.is_none() {
                    field.fault(
                        "is not a key: 44 characters of base64",
                        "write what `wg pubkey` or `antedate keygen wireguard --public FILE` prints at the other end",
                    );
                }
                key
            },
        )
    };
    let next = section.get("next_public_key").map(|field| {
        if plain {
            field.fault("is not used without WireGuard", "remove the line, or wireguard = false");
        }
        let key = tunnel_keys::decode(field.string()?).filter(|key| *key != [0; 32]);
        if key.is_none() {
            field.fault(
                "is not a key: 44 characters of base64",
                "write what `antedate keygen wireguard` printed for the other end's next key, or remove the line",
            );
        } else if key == public_key {
            field.fault("is the present key", "write the other end's next key, or remove the line");
            return None;
        }
        key
    });
    let remedy = "`antedate keygen wireguard --preshared --out FILE` makes one";
    let preshared = section.get("preshared_key_file").map(|field| {
        if plain {
            field.fault("is not used without WireGuard", "remove the line, or wireguard = false");
        }
        path(&field, base, remedy)
    });
    keys.extend(preshared.iter().flatten().cloned());
    let endpoint = section.get("endpoint");
    let endpoint_set = endpoint.as_ref().map(|field| endpoint::endpoint(field, "endpoint", !plain));
    let second =
        section.get("second_endpoint").map(|field| endpoint::endpoint(&field, "second_endpoint", false));
    if plain && endpoint.is_none() {
        section.fault("endpoint", "is missing, and without WireGuard no peer can begin", "write its address");
    }
    let remedy = "give the other end's address inside the tunnel, e.g. address = \"10.66.0.2\"";
    let address = section.required("address", remedy).and_then(|field| address(&field));
    let keepalive = section.get("keepalive_seconds").map(|field| number(&field, 0..=U16_MAX));
    let macs = section.get("macs").map(|field| {
        field.array()?.iter().map(mac).collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>()
    });
    let learn = section.get("learn").map(|field| field.boolean());
    section.finish();
    let (mut host, mut at) = (None, None);
    match all(endpoint_set)? {
        Some(Endpoint::Address(address, zone)) => {
            at = Some(address);
            zones.extend(zone.map(|zone| (Which::First, zone)));
        }
        Some(Endpoint::Host(name, port)) => host = Some((name, port)),
        None => {}
    }
    let second = match all(second)? {
        Some(Endpoint::Address(address, zone)) => {
            zones.extend(zone.map(|zone| (Which::Second, zone)));
            Some(address)
        }
        _ => None,
    };
    Some(Peer {
        name: all(name)?.unwrap_or_else(|| format!("peer{}", place + 1)),
        public_key: public_key?,
        next_public_key: all(next)?,
        preshared_key_file: all(preshared)?,
        endpoint: at,
        host,
        second_endpoint: second,
        address: address?,
        keepalive_seconds: all(keepalive)?.unwrap_or(0),
        macs: all(macs)?.unwrap_or_default(),
        learn: all(learn)?.unwrap_or(true),
    })
}

fn mac(field: &Field<'_, '_>) -> Option<EthernetAddress> {
    let text = field.string()?;
    let found = text.parse::<EthernetAddress>().ok().filter(|address| !address.is_multicast());
    if found.is_none() {
        field.fault(
            format!("\"{text}\" is not the address of one machine"),
            "write e.g. \"02:00:5e:00:00:02\"",
        );
    }
    found
}

//! Checks of `[overlay]`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use antedate_host::fault::Fault;

use super::{Keyed, port, without_macsec};
use crate::config::machine::{Interface, Machine};
use crate::config::read::Draft;
use crate::config::tunnel_keys::{self, TunnelKeys};
use crate::config::uplink::{Which, refused};
use crate::config::{InterfaceName, Overlay, Threads};

/// Checks that an overlay can open its ports. A running gateway with this configuration holds them.
pub(super) fn listens(
    draft: &Draft,
    overlay: &Overlay,
    uplink: Option<&Interface>,
    runs: bool,
    machine: &dyn Machine,
    faults: &mut Vec<Fault>,
) {
    let first = uplink.map(|uplink| (Which::First, overlay.listen, uplink.name.clone()));
    let second = overlay.second_uplink.as_ref();
    let second = second.filter(|second| machine.interface(&second.interface).is_ok());
    let second = second.map(|second| (Which::Second, second.listen, second.interface.clone()));
    for (which, listen, interface) in first.into_iter().chain(second) {
        let Err(error) = machine.listen(listen, &interface) else { continue };
        let said = match error.kind() {
            io::ErrorKind::AddrInUse => runs,
            io::ErrorKind::PermissionDenied => !machine.may_open_packet_sockets(),
            _ => false,
        };
        if !said {
            let Fault { what, remedy, passing, .. } =
                refused(&draft.file, which.key(), listen, &interface, &error);
            let fault = draft.lines.fault(&draft.file, which.key(), what, remedy);
            faults.push(Fault { passing, ..fault });
        }
    }
}

/// Finds endpoints that are an address of this machine, or a broadcast address of its networks.
fn own_endpoints(
    draft: &Draft,
    overlay: &Overlay,
    uplink: &str,
    machine: &dyn Machine,
    faults: &mut Vec<Fault>,
) {
    let second = overlay.second_uplink.as_ref().map(|second| second.interface.as_str());
    for peer in &overlay.peers {
        for (at, interface) in [(peer.endpoint, Some(uplink)), (peer.second_endpoint, second)] {
            let (Some(at), Some(interface)) = (at, interface) else { continue };
            // The kernel binds a socket to its own addresses only, and to those of broadcast.
            if machine.listen(SocketAddr::new(at.ip(), 0), interface).is_ok() {
                let what =
                    format!("the endpoint {at} of {} is this machine, or a broadcast address", peer.name);
                faults.push(draft.lines.fault(&draft.file, "overlay", what, "write the other end's address"));
            }
        }
    }
}

/// Reads the keys of an overlay, and checks its settings against each other.
pub(in crate::config) fn overlaid(
    draft: &Draft,
    overlay: &Overlay,
    machine: &dyn Machine,
    faults: &mut Vec<Fault>,
) -> Option<Keyed> {
    if let Some(second) = &overlay.second_uplink {
        port(draft, "overlay.second_uplink", &second.interface, machine, faults);
    }
    let others = [
        ("the field's", draft.field.as_ref().map(|port| &port.interface)),
        ("the uplink's", draft.uplink.interface.as_ref()),
    ];
    without_macsec(draft, faults);
    let mut fault =
        |key, what: String, remedy: &str| faults.push(draft.lines.fault(&draft.file, key, what, remedy));
    if matches!(draft.run.as_ref().map(|run| &run.threads), Some(Threads::Two(_))) {
        let what = "an overlay has one forwarding thread: sealing and opening share its sessions";
        fault("run.threads", what.to_owned(), "remove the line, and name one CPU; or have run.workers");
    }
    let second = overlay.second_uplink.as_ref().map(|second| second.interface.as_str());
    for (whose, _) in others.into_iter().filter(|(_, other)| other.map(InterfaceName::as_str) == second) {
        if let Some(second) = second {
            let what = format!("\"{second}\" is {whose} interface already");
            fault("overlay.second_uplink", what, "give the second uplink an interface of its own");
        }
    }
    for peer in &overlay.peers {
        if peer.endpoint.is_some_and(|at| at.is_ipv6() != overlay.listen.is_ipv6()) {
            let what = format!("the endpoint of {} is of another version of IP than listen", peer.name);
            fault("overlay.listen", what, "listen = \"[::]:51820\" for IPv6, \"0.0.0.0:51820\" for IPv4");
        }
        match (peer.second_endpoint, &overlay.second_uplink) {
            (Some(_), None) => {
                let what = format!("{} has a second_endpoint, but there is no second uplink", peer.name);
                fault("overlay", what, "add [overlay.second_uplink] with its interface, or remove the line");
            }
            (Some(at), Some(second)) if at.is_ipv6() != second.listen.is_ipv6() => {
                let what =
                    format!("the second_endpoint of {} is of another version of IP than listen", peer.name);
                fault(
                    "overlay.second_uplink",
                    what,
                    "listen = \"[::]:51820\" for IPv6, \"0.0.0.0:51820\" for IPv4",
                );
            }
            _ => {}
        }
        if peer.address == overlay.address {
            let what = format!("{} has this gateway's own address {}", peer.name, peer.address);
            fault("overlay", what, "give each end an address of its own");
        }
    }
    for (which, zone) in &overlay.zones {
        let (key, name) = match which {
            Which::First => ("overlay.listen", draft.uplink.interface.as_ref().map(InterfaceName::as_str)),
            Which::Second => ("overlay.second_uplink", second),
        };
        let Some(name) = name else { continue };
        let index = machine.interface(name).map(|interface| interface.index.to_string());
        if zone != name && index.ok().as_ref() != Some(zone) {
            let what = format!("the zone %{zone} is not the interface {name} that datagrams leave by");
            fault(key, what, "write the uplink's interface behind %, or no zone");
        }
    }
    let macs: usize = overlay.peers.iter().map(|peer| peer.macs.len()).sum();
    if macs > overlay.mac_limit {
        let what = format!("{macs} static MAC addresses, but mac_limit is {}", overlay.mac_limit);
        fault("overlay", what, "raise mac_limit");
    }
    let mut load = |file: &PathBuf| tunnel_keys::load(file, machine.user()).map_err(|f| faults.push(f)).ok();
    let private = overlay.private_key_file.as_ref().map(&mut load);
    let preshared: Vec<_> =
        overlay.peers.iter().map(|peer| peer.preshared_key_file.as_ref().map(&mut load)).collect();
    let private = match private {
        Some(None) => return None,
        Some(Some(private)) => Some(private),
        None => None,
    };
    if let Some(uplink) = &draft.uplink.interface {
        own_endpoints(draft, overlay, uplink.as_str(), machine, faults);
    }
    let public = private.as_ref().map(tunnel_keys::public_of);
    if let Some(own) = public
        && let Some(peer) = overlay.peers.iter().find(|peer| peer.public_keys().any(|key| key == own))
    {
        let what = format!("the public key of {} is this gateway's own", peer.name);
        let remedy = "write what `antedate keygen wireguard --public FILE` prints at the other end";
        faults.push(draft.lines.fault(&draft.file, "overlay", what, remedy));
    }
    let preshared = preshared.into_iter().map(|key| key.map_or(Some(None), |key| key.map(Some)));
    let preshared = preshared.collect::<Option<Vec<_>>>()?;
    Some(Keyed::Overlay {
        overlay: Box::new(overlay.clone()),
        public,
        keys: TunnelKeys { private, preshared },
    })
}

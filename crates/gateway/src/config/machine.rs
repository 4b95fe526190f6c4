//! The machine that a configuration is checked against: interfaces, privileges and CPUs. Tests have
//! a replacement.

use std::fs;
use std::io;
use std::net::SocketAddr;

use antedate_host::numbers::{KeyId, KeyLock, Place};
use antedate_host::process;
use antedate_wire::Sci;

use crate::config::host::Host;
use crate::config::io::Card;
use crate::sys::interface;
pub use crate::sys::interface::Interface;
use crate::sys::udp::UdpSocket;
use crate::sys::xdp::{Xdp, XdpError};

/// `CAP_NET_RAW` (`capabilities(7)`): raw and packet sockets.
const CAP_NET_RAW: u32 = 13;

/// The facts about a machine that checking a configuration needs.
pub trait Machine {
    /// Finds an interface.
    ///
    /// # Errors
    /// `NotFound` when there is none, `Unsupported` when it is not an Ethernet interface.
    fn interface(&self, name: &str) -> io::Result<Interface>;
    /// The current rate of an interface in Mbit/s, if it reports one.
    fn speed(&self, name: &str) -> Option<u64>;
    /// The names of all interfaces in this network namespace.
    fn interfaces(&self) -> Vec<String>;
    /// The effective user of this process.
    fn user(&self) -> u32;
    /// Whether this process may open packet sockets.
    fn may_open_packet_sockets(&self) -> bool;
    /// The CPUs that this process may run on.
    fn cpus(&self) -> Vec<usize>;
    /// Looks at the host around these interfaces, given by index and name.
    fn host(&self, ports: &[(i32, &str)]) -> Host;
    /// Whether another process of this machine sends with this key and SCI.
    fn sends_elsewhere(&self, key: &KeyId, sci: Sci) -> bool;
    /// Checks that datagrams can be received at an address of an interface; with port 0, that the
    /// address is this machine's or one of broadcast.
    ///
    /// # Errors
    /// When another program has the port, or the address does not exist.
    fn listen(&self, at: SocketAddr, interface: &str) -> io::Result<()>;
    /// Looks whether AF_XDP can send on an interface.
    ///
    /// # Errors
    /// The obstacle.
    fn card(&self, interface: &Interface) -> Result<Card, XdpError>;
}

/// This machine.
#[derive(Debug, Clone, Copy)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn interface(&self, name: &str) -> io::Result<Interface> {
        Interface::find(name)
    }

    fn speed(&self, name: &str) -> Option<u64> {
        interface::speed(name)
    }

    fn interfaces(&self) -> Vec<String> {
        // Not /sys: it shows the network namespace in which it was mounted.
        let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
        table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
    }

    fn user(&self) -> u32 {
        process::user()
    }

    fn may_open_packet_sockets(&self) -> bool {
        let effective = process::status("CapEff").and_then(|set| u64::from_str_radix(&set, 16).ok());
        effective.is_some_and(|set| set >> CAP_NET_RAW & 1 == 1)
    }

    fn cpus(&self) -> Vec<usize> {
        process::status("Cpus_allowed_list").map_or_else(Vec::new, |list| cpu_list(&list))
    }

    fn host(&self, ports: &[(i32, &str)]) -> Host {
        Host::look(ports)
    }

    fn sends_elsewhere(&self, key: &KeyId, sci: Sci) -> bool {
        KeyLock::is_taken(key, Place(sci.0))
    }

    fn listen(&self, at: SocketAddr, interface: &str) -> io::Result<()> {
        UdpSocket::open(at, interface, false).map(drop)
    }

    fn card(&self, interface: &Interface) -> Result<Card, XdpError> {
        Xdp::probe(interface)?;
        let name = &interface.name;
        Ok(Card { queues: interface::transmit_queues(name), driver: interface::driver(name) })
    }
}

/// `0-3,6` as numbers (`cpuset(7)`, list format).
fn cpu_list(list: &str) -> Vec<usize> {
    let numbers = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(numbers).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_list_may_have_ranges() {
        assert_eq!(cpu_list("0-2,6"), [0, 1, 2, 6]);
        assert_eq!(cpu_list("0"), [0]);
    }

    #[test]
    fn loopback_is_not_a_port() {
        assert!(ThisMachine.interfaces().contains(&"lo".to_owned()));
        assert_eq!(ThisMachine.interface("lo").unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(ThisMachine.interface("nowhere0").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!ThisMachine.cpus().is_empty());
        assert_ne!(ThisMachine.user(), u32::MAX);
    }
}

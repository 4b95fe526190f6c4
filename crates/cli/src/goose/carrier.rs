//! How messages travel: as frames of an interface, or as datagrams (routed GOOSE).

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::time::Duration;

use antedate_lab::sys::packet::PacketSocket;
use antedate_wire::routed::PORT;

use crate::failure::{Failure, ValueError};

/// Routers that a multicast datagram may pass.
const HOPS: u32 = 16;
/// The longest wait for a message.
const TURN: Duration = Duration::from_millis(10);

/// An address with a port, of which the standard's may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer(SocketAddr);

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Peer {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse::<SocketAddr>()
            .or_else(|_| text.parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT)))
            .map(Self)
            .map_err(|_| {
                ValueError::new(format!("`{text}`: an address, or an address and a port: 10.0.0.2:102"))
            })
    }
}

fn fault(what: SocketAddr, error: &io::Error, remedy: &str) -> Failure {
    Failure::usage(format!("{what}: {error}"), remedy.to_owned())
}

/// Where a publisher's messages go.
pub(super) enum Outgoing {
    Ethernet(PacketSocket),
    Routed(UdpSocket),
}

impl Outgoing {
    /// Datagrams to an address, which may be a multicast group.
    pub(super) fn routed(Peer(to): Peer) -> Result<Self, Failure> {
        let any = match to {
            SocketAddr::V4(_) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            SocketAddr::V6(_) => SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), 0),
        };
        let open = || {
            let socket = UdpSocket::bind(any)?;
            if to.is_ipv4() && to.ip().is_multicast() {
                socket.set_multicast_ttl_v4(HOPS)?;
            }
            socket.connect(to)?;
            Ok(socket)
        };
        let remedy = "give an address of a network of this machine";
        open().map(Self::Routed).map_err(|error| fault(to, &error, remedy))
    }

    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Ethernet(socket) => socket.send(message),
            // That nobody listens there now is no fault of a publisher.
            Self::Routed(socket) => match socket.send(message) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
                sent => sent.map(drop),
            },
        }
    }
}

/// Where a subscriber's messages come from.
pub(super) enum Incoming {
    Ethernet(PacketSocket),
    Routed(UdpSocket),
}

impl Incoming {
    /// Datagrams to an address of this machine, or to a multicast group.
    pub(super) fn routed(Peer(at): Peer) -> Result<Self, Failure> {
        let open = || {
            let socket = UdpSocket::bind(at)?;
            match at.ip() {
                IpAddr::V4(group) if group.is_multicast() => {
                    socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED)?;
                }
                IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, 0)?,
                _ => {}
            }
            socket.set_read_timeout(Some(TURN))?;
            Ok(socket)
        };
        let remedy =
            "give an address of this machine or a multicast group, with a port above 1023 or as root";
        open().map(Self::Routed).map_err(|error| fault(at, &error, remedy))
    }

    /// Waits for a message, and returns its length.
    pub(super) fn next(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Ethernet(socket) => match socket.wait(TURN.as_nanos() as u64)? {
                true => socket.receive(buffer, false),
                false => Ok(None),
            },
            Self::Routed(socket) => match socket.recv(buffer) {
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    Ok(None)
                }
                received => received.map(Some),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_of_the_standard_may_be_left_out() {
        let peer = |text: &str| text.parse::<Peer>().map(|peer| peer.0.to_string()).ok();
        assert_eq!(peer("10.0.0.2"), Some("10.0.0.2:102".into()));
        assert_eq!(peer("230.0.10.11:1102"), Some("230.0.10.11:1102".into()));
        assert_eq!(peer("ff05::1"), Some("[ff05::1]:102".into()));
        assert_eq!(peer("eth0"), None);
    }
}

//! Next hops as the kernel knows them (`rtnetlink(7)`).

use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::check;

const REQUEST: u16 = 1;
const ERROR: u16 = 2;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
/// Attributes of a route.
const DESTINATION: u16 = 1;
const FROM: u16 = 2;
const OUT_OF: u16 = 4;
const GATEWAY: u16 = 5;
const SOURCE: u16 = 7;
/// Attributes of a neighbour.
const ADDRESS: u16 = 1;
const LINK_ADDRESS: u16 = 2;
/// A route to another machine.
const UNICAST: u8 = 1;
/// States of a neighbour with a usable link address: reachable, stale, delay, probe, permanent.
const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
const HEADER: usize = 16;

/// The next hop to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The source address of packets.
    pub source: Ipv4Addr,
    /// The neighbour's link address.
    pub neighbour: [u8; 6],
}

/// A socket for queries to the kernel.
#[derive(Debug)]
pub struct Routes {
    socket: OwnedFd,
}

impl Routes {
    /// Opens the socket.
    ///
    /// # Errors
    /// When the process has no file descriptor left, or the kernel has no rtnetlink.
    pub fn open() -> io::Result<Self> {
        // SAFETY: no pointers; a successful call returns a descriptor without another owner.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?)
        };
        Ok(Self { socket })
    }

    /// The next hop to an address out of an interface, with this source address or, if `None`, the
    /// kernel's choice. `None` without a route, with a source address of another machine, or while
    /// the neighbour's link address is unknown: then the kernel has to send, which resolves it.
    #[must_use]
    pub fn hop(&self, index: i32, to: Ipv4Addr, from: Option<Ipv4Addr>) -> Option<Hop> {
        // struct rtmsg: family, lengths of the addresses, 9 more octets.
        let from_bits = if from.is_some() { 32 } else { 0 };
        let mut request = vec![libc::AF_INET as u8, 32, from_bits, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        attribute(&mut request, DESTINATION, &to.octets());
        if let Some(from) = from {
            attribute(&mut request, FROM, &from.octets());
        }
        attribute(&mut request, OUT_OF, &index.to_ne_bytes());
        let route = self.ask(GET_ROUTE, NEW_ROUTE, &request).ok()?;
        let (head, rest) = route.split_at_checked(12)?;
        let address = |kind: u16| {
            find(rest, kind).and_then(|found| <[u8; 4]>::try_from(found).ok()).map(Ipv4Addr::from)
        };
        if head[7] != UNICAST || find(rest, OUT_OF)? != index.to_ne_bytes() {
            return None;
        }
        let (source, next) = (from.or_else(|| address(SOURCE))?, address(GATEWAY).unwrap_or(to));
        // struct ndmsg: family, padding, interface, state, flags, kind.
        let mut request = vec![libc::AF_INET as u8, 0, 0, 0];
        request.extend(index.to_ne_bytes());
        request.extend([0; 4]);
        attribute(&mut request, ADDRESS, &next.octets());
        let neighbour = self.ask(GET_NEIGHBOUR, NEW_NEIGHBOUR, &request).ok()?;
        let (head, rest) = neighbour.split_at_checked(12)?;
        let state = u16::from_ne_bytes([head[8], head[9]]);
        let neighbour = find(rest, LINK_ADDRESS)?.try_into().ok()?;
        (state & USABLE != 0).then_some(Hop { source, neighbour })
    }

    /// Sends a query. Returns the answer without its header.
    fn ask(&self, question: u16, answer: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend(question.to_ne_bytes());
        message.extend(REQUEST.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        // SAFETY: pointer and length describe `message`, which the kernel only reads.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), message.as_ptr().cast(), message.len(), libc::MSG_DONTWAIT)
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut came = vec![0u8; 4096];
        // SAFETY: pointer and length describe `came`, which the kernel fills. The answer is there
        // when `send` returns.
        let length = unsafe {
            libc::recv(self.socket.as_raw_fd(), came.as_mut_ptr().cast(), came.len(), libc::MSG_DONTWAIT)
        };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        came.truncate(length);
        let strange = || io::Error::from(io::ErrorKind::InvalidData);
        let head: [u8; HEADER] = *came.first_chunk().ok_or_else(strange)?;
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let end = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if kind == ERROR {
            let code: [u8; 4] =
                came.get(HEADER..HEADER + 4).and_then(|c| c.try_into().ok()).unwrap_or_default();
            return Err(io::Error::from_raw_os_error(-i32::from_ne_bytes(code)));
        }
        let body = came.get(HEADER..end).filter(|_| kind == answer);
        body.map(<[u8]>::to_vec).ok_or_else(strange)
    }
}

/// Appends an attribute: length, kind, octets, padded to four.
fn attribute(message: &mut Vec<u8>, kind: u16, octets: &[u8]) {
    message.extend((4 + octets.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(octets);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Finds the attribute of a kind.
pub(super) fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    while let [a, b, c, d, ..] = *attributes {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let octets = attributes.get(mem::size_of::<u16>() * 2..length)?;
        if u16::from_ne_bytes([c, d]) == kind {
            return Some(octets);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_until_damage() {
        let mut message = Vec::new();
        attribute(&mut message, 7, &[1, 2, 3]);
        attribute(&mut message, 5, &[9; 4]);
        assert_eq!(find(&message, 7), Some(&[1, 2, 3][..]));
        assert_eq!(find(&message, 5), Some(&[9; 4][..]));
        assert_eq!(find(&message, 6), None);
        assert_eq!(find(&[2, 0, 7, 0], 7), None);
        assert_eq!(find(&[200, 0, 7, 0], 7), None);
    }

    #[test]
    fn loopback_has_no_neighbours() {
        let routes = Routes::open().unwrap();
        for from in [None, Some(Ipv4Addr::LOCALHOST), Some(Ipv4Addr::new(192, 0, 2, 1))] {
            assert_eq!(routes.hop(1, Ipv4Addr::LOCALHOST, from), None);
        }
    }
}

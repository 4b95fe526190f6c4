//! Receiving in batches: several datagrams in a system call (`recvmmsg(2)`), and those that the
//! kernel has joined, of one sender and equally long (UDP_GRO, Linux 5.0).

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use mio::net::UdpSocket;
use nix::cmsg_space;
use nix::sys::socket::sockopt::UdpGroSegment;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg, recvmsg, setsockopt,
};

/// The longest UDP datagram in octets, and the most octets of joined ones.
const LONGEST: usize = 65_535;
/// The most places of a call.
pub(crate) const MOST: usize = 8;

/// Makes the kernel join the datagrams of one sender, where it can.
pub(crate) fn join(socket: &UdpSocket) {
    // Without it each datagram takes a place.
    let _ = setsockopt(socket, UdpGroSegment, &true);
}

/// The datagrams of a call.
#[derive(Debug)]
pub(crate) struct Inbox {
    octets: Vec<u8>,
    came: Vec<Came>,
    /// Space for a control message.
    control: Vec<u8>,
}

/// The content of a place: datagrams of one sender.
#[derive(Debug, Clone, Copy)]
struct Came {
    from: SocketAddr,
    len: usize,
    /// Octets of each datagram but the last, which may be shorter.
    each: usize,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { octets: vec![0; MOST * LONGEST], came: Vec::with_capacity(MOST), control: cmsg_space!(i32) }
    }

    /// Takes what has come into at most `places` places. Returns whether all are full, so that there
    /// may be more.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has come, or the report of an ICMP message. Where that comes between
    /// two datagrams, the first are returned, and the socket is ready again to report it.
    pub(crate) fn receive(&mut self, socket: &UdpSocket, places: usize) -> io::Result<bool> {
        self.came.clear();
        if places == 1 {
            // Most often no second one is there, and this call needs no memory.
            let place = self.octets.get_mut(..LONGEST).unwrap_or_default();
            let mut slices = [IoSliceMut::new(place)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let message = recvmsg(socket.as_raw_fd(), &mut slices, Some(&mut self.control), flags)?;
            self.came.push(Came::of(&message));
            return Ok(true);
        }
        let places = places.min(MOST);
        // Made for each call: the kernel writes into the lengths of a header, which nix does not reset.
        let mut headers = MultiHeaders::preallocate(places, Some(cmsg_space!(i32)));
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = self
            .octets
            .chunks_exact_mut(LONGEST)
            .take(places)
            .map(|place| [IoSliceMut::new(place)])
            .collect();
        let got =
            recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)?;
        self.came.extend(got.map(|message| Came::of(&message)));
        Ok(self.came.len() == places)
    }

    /// Hands over each datagram, in the order in which they came. Returns their number.
    pub(crate) fn each(&mut self, mut take: impl FnMut(&mut [u8], SocketAddr)) -> u64 {
        let mut count = 0;
        for (came, place) in self.came.iter().zip(self.octets.chunks_exact_mut(LONGEST)) {
            let mut rest = place.get_mut(..came.len).unwrap_or_default();
            loop {
                let (datagram, behind) = rest.split_at_mut(came.each.min(rest.len()));
                take(datagram, came.from);
                count += 1;
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
        }
        count
    }
}

impl Came {
    fn of(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Self {
        let joined = |control| match control {
            ControlMessageOwned::UdpGroSegments(each) => usize::try_from(each).ok(),
            _ => None,
        };
        let each = message.cmsgs().ok().and_then(|mut all| all.find_map(joined));
        let each = each.filter(|each| *each > 0).unwrap_or(message.bytes);
        Self { from: address(message.address.as_ref()), len: message.bytes, each }
    }
}

/// An address of the kernel. It gives one of these families to a UDP socket.
fn address(of: Option<&SockaddrStorage>) -> SocketAddr {
    let four = || of?.as_sockaddr_in().map(|address| SocketAddr::V4((*address).into()));
    let six = || of?.as_sockaddr_in6().map(|address| SocketAddr::V6((*address).into()));
    four().or_else(six).unwrap_or_else(|| ([0; 4], 0).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let (to, from) = (UdpSocket::bind(any).unwrap(), UdpSocket::bind(any).unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        (to, from)
    }

    fn came(inbox: &mut Inbox) -> Vec<(Vec<u8>, SocketAddr)> {
        let mut all = Vec::new();
        let count = inbox.each(|datagram, from| all.push((datagram.to_vec(), from)));
        assert_eq!(count, all.len() as u64);
        all
    }

    #[test]
    fn one_call_takes_several_datagrams() {
        let ((to, from), mut inbox) = (pair(), Inbox::new());
        let said: Vec<Vec<u8>> = [3, 0, 1400, 1].map(|len| vec![len as u8; len]).into();
        said.iter().for_each(|datagram| _ = from.send(datagram).unwrap());
        let at = from.local_addr().unwrap();
        assert!(inbox.receive(&to, 2).unwrap(), "there may be more");
        assert_eq!(came(&mut inbox), said[..2].iter().map(|said| (said.clone(), at)).collect::<Vec<_>>());
        assert!(!inbox.receive(&to, MOST).unwrap());
        assert_eq!(came(&mut inbox), said[2..].iter().map(|said| (said.clone(), at)).collect::<Vec<_>>());
        assert_eq!(inbox.receive(&to, MOST).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(came(&mut inbox).is_empty(), "those of before are gone");
    }

    #[test]
    fn longest_datagram_is_whole() {
        let ((to, from), mut inbox) = (pair(), Inbox::new());
        let said = vec![9; 65_507];
        from.send(&said).unwrap();
        inbox.receive(&to, 1).unwrap();
        assert_eq!(came(&mut inbox)[0].0, said);
    }
}

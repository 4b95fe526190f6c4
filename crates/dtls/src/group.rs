//! The sockets at the local address, one for each thread (`SO_REUSEPORT`, `socket(7)`).
//!
//! The kernel gives a datagram to one of them by a hash of its addresses, so that a peer stays with a
//! thread. At a server the first octet of an own connection ID names the thread, and a program in
//! the kernel looks there first: a peer with another address then reaches the thread of its session.

use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};

use antedate_wire::dtls::ContentType;
use mio::net::UdpSocket;
use nix::libc::{sock_filter, sock_fprog};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::AttachReusePortCbpf;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::inbox;

/// The most threads, far below the values of an octet.
pub const MOST_THREADS: usize = 64;
/// Octets of a socket's queue, if the kernel allows so many (`net.core.rmem_max`).
const QUEUE: usize = 4 << 20;
/// The offset of a record's connection ID (RFC 9146 section 4).
pub(crate) const CID_AT: usize = 11;

/// Instructions, with the numbers of `linux/filter.h`.
const LOAD_OCTET: u16 = 0x30;
const IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const RETURN_LOADED: u16 = 0x16;

/// The first octet of a connection ID, or a number that no socket has: the kernel then takes the hash.
/// It begins behind the UDP header. A load behind the end of a datagram gives 0.
const OWNER: [(u16, u8, u8, u32); 5] = [
    (LOAD_OCTET, 0, 0, 0),
    (IF_EQUAL, 0, 2, ContentType::Tls12Cid.number() as u32),
    (LOAD_OCTET, 0, 0, CID_AT as u32),
    (RETURN_LOADED, 0, 0, 0),
    (RETURN, 0, 0, u32::MAX),
];

/// Opens so many sockets at an address, the first for the first thread. With `by_cid` the kernel
/// looks at connection IDs.
///
/// # Errors
/// When the address is not this machine's or is taken, or the kernel refuses the program.
pub(crate) fn open(at: SocketAddr, threads: usize, by_cid: bool) -> io::Result<Vec<UdpSocket>> {
    // Sockets of another process would join ours, and take their share. This one joins nobody.
    let alone = StdSocket::bind(at)?;
    if threads == 1 {
        alone.set_nonblocking(true)?;
        return Ok(vec![prepared(alone)]);
    }
    drop(alone);
    let mut sockets: Vec<UdpSocket> = Vec::with_capacity(threads);
    let mut at = at;
    for _ in 0..threads {
        let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
        set_socket_reuseport(&socket, true)?;
        bind(&socket, &at)?;
        let socket = StdSocket::from(socket);
        // The port that the kernel chose for the first.
        at = socket.local_addr()?;
        sockets.push(prepared(socket));
    }
    if let (true, Some(first)) = (by_cid, sockets.first()) {
        let mut program = OWNER.map(|(code, jt, jf, k)| sock_filter { code, jt, jf, k });
        // The kernel copies the program during the call.
        let whole = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        setsockopt(first, AttachReusePortCbpf, &whole)?;
    }
    Ok(sockets)
}

fn prepared(socket: StdSocket) -> UdpSocket {
    // The usual queue suffices for most.
    let _ = set_socket_recv_buffer_size(&socket, QUEUE);
    let socket = UdpSocket::from_std(socket);
    inbox::join(&socket);
    socket
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any() -> SocketAddr {
        ([127, 0, 0, 1], 0).into()
    }

    /// The socket at which a datagram from a port comes.
    fn taker(sockets: &[UdpSocket], from: &StdSocket, datagram: &[u8]) -> usize {
        from.send_to(datagram, sockets[0].local_addr().unwrap()).unwrap();
        let mut buffer = [0; 100];
        let took: Vec<usize> =
            (0..sockets.len()).filter(|index| sockets[*index].recv(&mut buffer).is_ok()).collect();
        assert_eq!(took.len(), 1, "{took:?}");
        took[0]
    }

    fn record(kind: u8, owner: u8) -> Vec<u8> {
        let mut record = vec![0x55; 40];
        (record[0], record[CID_AT]) = (kind, owner);
        record
    }

    #[test]
    fn connection_id_finds_its_thread() {
        let sockets = open(any(), 3, true).unwrap();
        let peers: Vec<StdSocket> = (0..40).map(|_| StdSocket::bind(any()).unwrap()).collect();
        let mut of_threads = [0; 3];
        for peer in &peers {
            // By address, whatever the octet is.
            let home = taker(&sockets, peer, &record(23, 1));
            of_threads[home] += 1;
            for owner in 0..3 {
                assert_eq!(taker(&sockets, peer, &record(25, owner)), usize::from(owner));
                assert_eq!(taker(&sockets, peer, &record(22, owner)), home);
            }
            // A number that no socket has.
            for owner in [3, 4, 255] {
                assert_eq!(taker(&sockets, peer, &record(25, owner)), home);
            }
        }
        assert!(of_threads.iter().all(|count| *count > 0), "{of_threads:?}");
    }

    #[test]
    fn taken_address_is_refused() {
        let sockets = open(any(), 2, false).unwrap();
        let at = sockets[0].local_addr().unwrap();
        for threads in [1, 2] {
            assert_eq!(open(at, threads, true).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
    }
}

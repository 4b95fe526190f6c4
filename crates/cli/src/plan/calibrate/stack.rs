//! Delays of this machine's operating system: a datagram from one thread that was idle to another
//! that sleeps in its socket, on loopback.
//!
//! The send path is the sender's call, which on loopback includes the delivery into the socket. The
//! receive path is the rest until the receiver has the datagram, so both together are the whole way
//! between two applications of this machine. A network card adds its own interrupt.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use antedate_plan::device::Stack;

/// Datagrams. Enough for twenty beyond the 99.9th percentile.
const DATAGRAMS: usize = 20_000;
/// Time between two. The receiver sleeps meanwhile, as between messages of a device.
const PAUSE: Duration = Duration::from_micros(200);
/// Octets of a datagram.
const OCTETS: usize = 200;
/// Shares of the datagrams that are written.
const SHARES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];

/// Measures the delays.
///
/// # Errors
/// Loopback without sockets, or with lost datagrams.
pub(super) fn measure() -> io::Result<Stack> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_read_timeout(Some(Duration::from_secs(2)))?;
    sender.connect(receiver.local_addr()?)?;
    let arrivals = thread::spawn(move || -> io::Result<Vec<Instant>> {
        let (mut arrivals, mut buffer) = (Vec::with_capacity(DATAGRAMS), [0; OCTETS]);
        for _ in 0..DATAGRAMS {
            receiver.recv(&mut buffer)?;
            arrivals.push(Instant::now());
        }
        Ok(arrivals)
    });
    let mut calls = Vec::with_capacity(DATAGRAMS);
    for _ in 0..DATAGRAMS {
        thread::sleep(PAUSE);
        let begun = Instant::now();
        sender.send(&[0x5a; OCTETS])?;
        calls.push((begun, Instant::now()));
    }
    let arrivals = arrivals.join().map_err(|_| io::Error::other("the receiving thread ended"))??;
    let us = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e6;
    let send = calls.iter().map(|(begun, ended)| us(*begun, *ended)).collect();
    // A receiver on another core may be quicker than the return of the call.
    let receive = calls.iter().zip(&arrivals).map(|((_, ended), arrived)| us(*ended, *arrived)).collect();
    Ok(Stack { send_us: shares(send), receive_us: shares(receive) })
}

/// The delays of a few shares.
pub(in crate::plan) fn shares(mut delays: Vec<f64>) -> Vec<(f64, f64)> {
    delays.sort_by(f64::total_cmp);
    let at = |share: f64| ((share * delays.len() as f64).ceil() as usize).clamp(1, delays.len()) - 1;
    SHARES.into_iter().map(|share| (share, delays[at(share)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_rise_to_the_longest() {
        let delays = (1..=1000).rev().map(f64::from).collect();
        let shares = shares(delays);
        assert_eq!(shares.first(), Some(&(0.5, 500.0)));
        assert_eq!(shares[3..], [(0.999, 999.0), (0.9999, 1000.0), (1.0, 1000.0)]);
    }
}

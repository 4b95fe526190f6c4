//! The uplink: where datagrams come from and leave by.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::counters::PathCounters;
use crate::path::not_sent;
use crate::sys::udp::{BATCH, Inbox, Outbox, UdpSocket};

/// Where datagrams come from.
pub(super) struct Inward {
    socket: Arc<UdpSocket>,
    inbox: Inbox,
    /// How many datagrams are asked for at a time: one where they come singly.
    ask: usize,
}

impl Inward {
    pub(super) fn new(socket: Arc<UdpSocket>) -> Self {
        Self { socket, inbox: Inbox::new(), ask: 1 }
    }

    pub(super) fn replace(&mut self, socket: Arc<UdpSocket>) {
        self.socket = socket;
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Shows each datagram that stands ready, a bounded number. Returns how many.
    #[inline]
    pub(super) fn turn(&mut self, mut each: impl FnMut(&mut [u8], SocketAddr)) -> usize {
        let Self { socket, inbox, ask } = self;
        // What the network said of a datagram that was sent before is no reason to stop.
        let count = inbox.receive(socket, *ask).unwrap_or(0);
        *ask = if count == *ask && count > 0 { BATCH } else { 1 };
        for at in 0..count {
            if let Some((datagram, from)) = inbox.get(at) {
                each(datagram, from);
            }
        }
        count
    }
}

/// Where datagrams leave by.
pub(super) struct Outward {
    socket: Arc<UdpSocket>,
    /// Those that are put together.
    pub(super) outbox: Outbox,
}

impl Outward {
    pub(super) fn new(socket: Arc<UdpSocket>) -> Self {
        Self { socket, outbox: Outbox::new() }
    }

    pub(super) fn replace(&mut self, socket: Arc<UdpSocket>) {
        self.socket = socket;
    }

    /// Sends what is ready.
    #[inline]
    pub(super) fn flush(&mut self, counters: &PathCounters) {
        if self.outbox.is_empty() {
            return;
        }
        self.outbox.send(&self.socket, |result| match result {
            Ok(len) => {
                counters.sent.count();
                counters.octets_sent.add(len as u64);
            }
            Err(error) => not_sent(counters, &error),
        });
    }
}

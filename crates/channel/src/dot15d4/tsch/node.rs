//! A node: its state, and the start and end of a slot.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use antedate_wire::dot15d4::advertisement::ASN_AT;
use antedate_wire::dot15d4::{FrameType, MAX_FRAME_LEN};
use zeroize::Zeroize;

use super::super::{Asn, Count, ExtendedAddress, Protection, Security};
use super::habits::Habit;
use super::prepare::{ACK, FRAME, Inbound, Outbound};
use super::{Action, CellKind, Heard, NodeCounters, Schedule, Ticket, Timeslot};

/// Configuration of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeConfig {
    /// the timing of a slot
    pub timeslot: Timeslot,
    /// the protection of its data and commands, and of the acknowledgments of such: K2 of RFC 8180
    pub protection: Protection,
    /// the protection of its beacons: K1 of RFC 8180
    pub beacons: Protection,
    /// sends short addresses to neighbours with one; off by default
    pub short_addresses: bool,
    /// sends unsecured frames to an exempt device that asks for them, because its [`Capability`]
    /// lacks security; off by default
    ///
    /// [`Capability`]: antedate_wire::dot15d4::capability::Capability
    pub unsecured_neighbours: bool,
    /// the most retransmissions of a frame (macMaxFrameRetries)
    pub max_retries: u8,
    /// backoff exponents of shared cells (macMinBe, macMaxBe)
    pub backoff: (u8, u8),
    /// the most waiting frames
    pub queue: usize,
    /// the most forms of neighbours' frames to remember
    pub habits: usize,
    /// prepares for slots; off for comparison
    pub prepare: bool,
}

impl NodeConfig {
    /// A configuration with the standard's defaults, and one protection for all frames.
    pub const fn new(protection: Protection) -> Self {
        Self {
            timeslot: Timeslot::DEFAULT,
            protection,
            beacons: protection,
            short_addresses: false,
            unsecured_neighbours: false,
            max_retries: 3,
            backoff: (1, 7),
            queue: 8,
            habits: 32,
            prepare: true,
        }
    }
}

/// A queued frame.
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) frame_type: FrameType,
    /// The payload begins with payload elements.
    pub(super) elements: bool,
    pub(super) to: Option<ExtendedAddress>,
    pub(super) payload: [u8; MAX_FRAME_LEN],
    pub(super) len: usize,
    /// Octets at the end that may change until the slot begins.
    pub(super) late: usize,
    pub(super) sequence: u8,
    pub(super) attempts: u8,
    /// Shared cells to skip.
    pub(super) backoff: u32,
    pub(super) exponent: u8,
}

impl Waiting {
    pub(super) fn payload(&self) -> &[u8] {
        self.payload.get(..self.len).unwrap_or_default()
    }

    /// Writes the slot of a beacon into it.
    pub(super) fn stamp(&mut self, asn: Asn) {
        if self.frame_type == FrameType::Beacon
            && let Some(place) = self.payload.get_mut(ASN_AT..ASN_AT + 5)
        {
            place.copy_from_slice(&asn.to_le_bytes());
        }
    }

    /// The octets that may change until the slot begins.
    pub(super) fn late_octets(&self) -> &[u8] {
        self.payload.get(self.len - self.late..self.len).unwrap_or_default()
    }
}

/// The frame sent in a slot.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) ticket: Ticket,
    pub(super) kind: CellKind,
    /// Demanded of its acknowledgment too.
    pub(super) protection: Protection,
}

/// A neighbour's last frame with acknowledgment request, to recognise its retransmission.
pub(super) struct Last {
    pub(super) from: ExtendedAddress,
    /// Frames with a MIC, or frames without one, which may be forged.
    pub(super) authentic: bool,
    pub(super) sequence: Option<u8>,
    /// A checksum of its MAC payload.
    pub(super) content: u32,
    pub(super) asn: Asn,
}

/// A node. For a cell to listen in, it prepares up to `EXPECTED` frames, of the neighbours and in
/// the forms heard last, each for its last `LENGTHS` different lengths. A mote has less memory than
/// the defaults take.
pub struct Node<const EXPECTED: usize = 8, const LENGTHS: usize = 9> {
    pub(super) security: Security,
    pub(super) schedule: Schedule,
    pub(in super::super) config: NodeConfig,
    pub(super) queue: VecDeque<Waiting>,
    pub(super) next_ticket: u64,
    /// macDsn
    pub(super) sequence: u8,
    /// macEbsn
    pub(super) beacon_sequence: u8,
    /// Frames with acknowledgment request are accepted.
    pub(super) accepting: bool,
    /// Exempt devices that do not secure frames.
    pub(super) unsecured: Vec<ExtendedAddress>,
    pub(super) random: u32,
    pub(super) asn: Asn,
    /// The frame sent in this slot.
    pub(super) sending: Option<Sent>,
    pub(super) outbound: Outbound,
    pub(super) inbound: [Inbound<LENGTHS>; EXPECTED],
    /// The slot of `inbound`.
    pub(super) aimed: Option<Asn>,
    pub(super) habits: Vec<Habit<LENGTHS>>,
    pub(super) last: Vec<Last>,
    /// An unprepared acknowledgment.
    pub(super) ack: [u8; ACK],
    /// The frame heard, unsecured; in a slot to send in, an unprepared frame first.
    pub(super) plain: [u8; FRAME],
    pub(super) counters: NodeCounters,
}

impl Node {
    /// A node whose next slot is `asn`. The seed decides its backoffs.
    pub fn new(security: Security, schedule: Schedule, config: NodeConfig, asn: Asn, seed: u32) -> Self {
        Self::sized(security, schedule, config, asn, seed)
    }
}

impl<const EXPECTED: usize, const LENGTHS: usize> Node<EXPECTED, LENGTHS> {
    /// As [`Node::new`], for a node with another size.
    pub fn sized(security: Security, schedule: Schedule, config: NodeConfig, asn: Asn, seed: u32) -> Self {
        Self {
            security,
            schedule,
            config,
            queue: VecDeque::with_capacity(config.queue),
            next_ticket: 0,
            sequence: seed as u8,
            beacon_sequence: (seed >> 8) as u8,
            accepting: true,
            unsecured: Vec::new(),
            random: seed | 1,
            asn,
            sending: None,
            outbound: Outbound::default(),
            inbound: core::array::from_fn(|_| Inbound::default()),
            aimed: None,
            habits: Vec::with_capacity(config.habits),
            last: Vec::new(),
            ack: [0; ACK],
            plain: [0; FRAME],
            counters: NodeCounters::default(),
        }
    }

    /// Its security.
    pub const fn security(&self) -> &Security {
        &self.security
    }

    /// Its security, to install keys and to reserve numbers.
    pub const fn security_mut(&mut self) -> &mut Security {
        &mut self.security
    }

    /// Sets another protection of data and commands from the next slot on, such as another key.
    /// Waiting frames that become too long are given up.
    pub fn set_protection(&mut self, protection: Protection) {
        self.config.protection = protection;
        self.protected_anew();
    }

    /// Sets another protection of beacons, as [`set_protection`](Self::set_protection) does for
    /// other frames.
    pub fn set_beacon_protection(&mut self, protection: Protection) {
        self.config.beacons = protection;
        self.protected_anew();
    }

    /// Whether frames with acknowledgment request are accepted. While they are not, because the layer
    /// above has no room for them, they are acknowledged as not accepted (NACK), and their senders
    /// retransmit them.
    pub const fn set_accepting(&mut self, accepting: bool) {
        self.accepting = accepting;
    }

    fn protected_anew(&mut self) {
        let mut at = 0;
        while let Some(waiting) = self.queue.get(at) {
            if self.fits(waiting.frame_type, waiting.elements, waiting.to, waiting.len) {
                at += 1;
            } else {
                self.leave(at);
                self.counters.given_up += 1;
            }
        }
        self.wipe_outbound();
        self.wipe_inbound();
    }

    /// The counters.
    pub const fn counters(&self) -> &NodeCounters {
        &self.counters
    }

    /// Waiting frames.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Begins a slot and returns its action. Skipped slots count as slept through.
    pub fn begin(&mut self, asn: Asn) -> Action<'_> {
        self.asn = asn;
        self.sending = None;
        let mut listen = None;
        // By number: a look into a cell changes the backoff of its frame.
        for nth in 0.. {
            let Some(&cell) = self.schedule.cells(asn).nth(nth) else { break };
            if cell.kind != CellKind::Transmit && listen.is_none() {
                listen = Some(cell.channel_offset);
            }
            let Some(at) = self.candidate(&cell) else { continue };
            let Some(waiting) = self.queue.get_mut(at) else { continue };
            if cell.kind == CellKind::Shared && waiting.backoff > 0 {
                waiting.backoff -= 1;
                continue;
            }
            return self.transmit(asn, &cell, at);
        }
        match listen {
            None => Action::Sleep,
            Some(channel_offset) => Action::Listen {
                channel: self.schedule.channel(asn, channel_offset),
                from: self.config.timeslot.rx_offset(),
                until: self.config.timeslot.rx_end(),
            },
        }
    }

    pub(super) fn count(&mut self, operation: usize, prepared: bool) {
        let counters = if prepared { &mut self.counters.prepared } else { &mut self.counters.unprepared };
        if let Some(counter) = counters.get_mut(operation) {
            *counter += 1;
        }
    }

    /// Ends the slot. A frame without a reported acknowledgment counts as unacknowledged, and
    /// preparations for this slot and the payload heard are wiped.
    pub fn end(&mut self) {
        if self.sending.is_some() {
            self.acknowledged(Heard::Silence);
        }
        let asn = self.asn;
        if self.outbound.frame.is_for(asn) || self.outbound.ack.is_for(asn) {
            self.wipe_outbound();
        }
        if self.aimed == Some(asn) {
            self.wipe_inbound();
        }
        self.plain.zeroize();
    }

    pub(super) fn wipe_outbound(&mut self) {
        let Outbound { ticket, frame, ack } = &mut self.outbound;
        *ticket = None;
        self.counters.wiped += Count::from(frame.is_prepared()) + Count::from(ack.is_prepared());
        frame.wipe();
        ack.wipe();
    }

    pub(super) fn wipe_inbound(&mut self) {
        self.aimed = None;
        for Inbound { frame, ack, .. } in &mut self.inbound {
            self.counters.wiped += Count::from(frame.is_prepared()) + Count::from(ack.is_prepared());
            frame.wipe();
            ack.wipe();
        }
    }
}

impl<const EXPECTED: usize, const LENGTHS: usize> core::fmt::Debug for Node<EXPECTED, LENGTHS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node")
            .field("asn", &self.asn)
            .field("waiting", &self.queue.len())
            .finish_non_exhaustive()
    }
}

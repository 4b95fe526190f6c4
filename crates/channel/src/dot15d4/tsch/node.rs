//! A node: what it does in each slot, and what it prepares between them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use antedate_wire::dot15d4::ie::{Following, HeaderWriter, TimeCorrection};
use antedate_wire::dot15d4::{FCS_LEN, Frame, MAX_FRAME_LEN, SecurityHeader};

use super::super::{
    Address, Addressing, Asn, ExtendedAddress, FrameType, Header, Protection, Security, SecurityLevel,
    ShortAddress, Status,
};
use super::prepare::{Inbound, Known, Outbound};
use super::{Cell, CellKind, Schedule, Timeslot};

/// Octets of an acknowledgment's elements: the time correction with its descriptor.
const ACK_IES: usize = 2 + TimeCorrection::LEN;
/// Octets of a MAC header that are kept to predict the next one.
const KEPT: usize = 48;

/// How a node behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeConfig {
    /// the times of a slot
    pub timeslot: Timeslot,
    /// how its frames and acknowledgments are secured
    pub protection: Protection,
    /// how often a frame is sent once more before it is given up (macMaxFrameRetries)
    pub max_retries: u8,
    /// backoff exponents of shared cells (macMinBe, macMaxBe)
    pub backoff: (u8, u8),
    /// frames that wait at most
    pub queue: usize,
    /// the work for a slot is done before it; off to see the difference
    pub prepare: bool,
}

impl NodeConfig {
    /// The standard's defaults.
    pub const fn new(protection: Protection) -> Self {
        Self {
            timeslot: Timeslot::DEFAULT,
            protection,
            max_retries: 3,
            backoff: (1, 7),
            queue: 8,
            prepare: true,
        }
    }
}

/// What a node counted besides its [`Security`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeCounters {
    /// frames sent, retransmissions included
    pub sent: u64,
    /// frames that were acknowledged
    pub acknowledged: u64,
    /// frames given up
    pub given_up: u64,
    /// frames delivered
    pub delivered: u64,
    /// frames received again because their acknowledgment was lost, acknowledged again and not delivered
    pub duplicates: u64,
    /// genuine frames that were for somebody else
    pub not_ours: u64,
    /// genuine acknowledgments that did not fit what was sent
    pub foreign_acks: u64,
    /// security operations that were prepared: sec1 to sec4
    pub prepared: [u64; 4],
    /// security operations that were not
    pub unprepared: [u64; 4],
    /// preparations that their slot did not need, wiped
    pub wiped: u64,
}

/// A frame in the queue, to ask what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Why a frame was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueError {
    /// as many wait as may
    Full,
    /// with its header and MIC it is longer than a frame can be
    TooLong,
    /// there are more late octets than octets, or another number than was announced
    Late,
    /// it was sent, or given up
    Gone,
}

struct Waiting {
    ticket: Ticket,
    to: Option<ExtendedAddress>,
    payload: Vec<u8>,
    /// Octets at the end that may change until the slot begins.
    late: usize,
    sequence: u8,
    attempts: u8,
    /// Shared cells to let pass.
    backoff: u32,
    exponent: u8,
}

/// What to do in a slot.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// nothing
    Sleep,
    /// send, then listen for an acknowledgment if `ack`
    Transmit {
        /// on this channel
        channel: u8,
        /// so many microseconds after the slot began
        at: u32,
        /// these octets, and their FCS
        frame: &'a [u8],
        /// an acknowledgment is expected
        ack: bool,
    },
    /// listen
    Listen {
        /// on this channel
        channel: u8,
        /// from so many microseconds after the slot began
        from: u32,
        /// until so many, if nothing begins
        until: u32,
    },
}

/// A frame for the layer above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// who sent it
    pub from: Option<ExtendedAddress>,
    /// what it is
    pub frame_type: FrameType,
    /// its MAC payload
    pub payload: Vec<u8>,
}

/// What a received frame leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaction {
    /// for the layer above, unless it came before or is for somebody else
    pub delivered: Option<Delivered>,
    /// an acknowledgment lies ready ([`Node::ack`]), to be sent TsTxAckDelay after the frame's end
    pub ack: bool,
}

/// What the radio heard in a slot in which we sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard<'a> {
    /// a frame, without its FCS
    Frame(&'a [u8]),
    /// nothing
    Silence,
}

/// What became of a frame that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// it is done; the clock is off by so many microseconds
    Acknowledged(Ticket, i16),
    /// it goes to everybody, who do not acknowledge
    Sent(Ticket),
    /// it is sent again
    Again(Ticket),
    /// it was sent as often as it may be
    GivenUp(Ticket),
    /// nothing was sent
    Nothing,
}

/// What is known of a neighbour's frames, to predict the next one.
struct Habit {
    from: ExtendedAddress,
    header: [u8; KEPT],
    header_len: usize,
    open: usize,
    level: SecurityLevel,
    /// Without MIC, the latest first.
    lengths: [usize; 2],
    /// The sequence number delivered last.
    sequence: Option<u8>,
}

/// A node.
pub struct Node {
    security: Security,
    schedule: Schedule,
    config: NodeConfig,
    queue: VecDeque<Waiting>,
    next_ticket: u64,
    sequence: u8,
    random: u32,
    asn: Asn,
    /// The frame that was sent in this slot.
    sending: Option<Ticket>,
    outbound: Outbound,
    inbound: Inbound,
    habits: Vec<Habit>,
    frame: [u8; MAX_FRAME_LEN],
    frame_len: usize,
    counters: NodeCounters,
}

impl Node {
    /// A node whose next slot is `asn`. The seed decides its backoffs.
    pub fn new(security: Security, schedule: Schedule, config: NodeConfig, asn: Asn, seed: u32) -> Self {
        Self {
            security,
            schedule,
            config,
            queue: VecDeque::new(),
            next_ticket: 0,
            sequence: seed as u8,
            random: seed | 1,
            asn,
            sending: None,
            outbound: Outbound::default(),
            inbound: Inbound::default(),
            habits: Vec::new(),
            frame: [0; MAX_FRAME_LEN],
            frame_len: 0,
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

    /// Its schedule.
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Another schedule from the next slot on. What was prepared for the old one is wiped.
    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.schedule = schedule;
        self.wipe_outbound();
        self.wipe_inbound();
    }

    /// Secures otherwise from the next slot on, as with another key.
    pub fn set_protection(&mut self, protection: Protection) {
        self.config.protection = protection;
        self.wipe_outbound();
        self.wipe_inbound();
    }

    /// What was counted.
    pub const fn counters(&self) -> &NodeCounters {
        &self.counters
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Queues a payload for a neighbour, or for everybody. Its last `late` octets may be given anew until its slot begins.
    pub fn send(
        &mut self,
        to: Option<ExtendedAddress>,
        payload: &[u8],
        late: usize,
    ) -> Result<Ticket, QueueError> {
        if self.queue.len() >= self.config.queue {
            return Err(QueueError::Full);
        }
        if late > payload.len() {
            return Err(QueueError::Late);
        }
        let header = self.header(to, 0);
        let security = SecurityHeader::tsch(self.config.protection.level, self.config.protection.key);
        let len =
            header.buffer_len() + security.len() + payload.len() + self.config.protection.level.mic_len();
        if len + FCS_LEN > MAX_FRAME_LEN {
            return Err(QueueError::TooLong);
        }
        let (ticket, sequence) = (Ticket(self.next_ticket), self.sequence);
        self.next_ticket += 1;
        self.sequence = sequence.wrapping_add(1);
        let (exponent, _) = self.config.backoff;
        let waiting = Waiting {
            ticket,
            to,
            payload: payload.to_vec(),
            late,
            sequence,
            attempts: 0,
            backoff: 0,
            exponent,
        };
        self.queue.push_back(waiting);
        Ok(ticket)
    }

    /// Gives the late octets of a frame that waits.
    pub fn update(&mut self, ticket: Ticket, late: &[u8]) -> Result<(), QueueError> {
        let waiting =
            self.queue.iter_mut().find(|waiting| waiting.ticket == ticket).ok_or(QueueError::Gone)?;
        if late.len() != waiting.late {
            return Err(QueueError::Late);
        }
        let at = waiting.payload.len() - late.len();
        if let Some(place) = waiting.payload.get_mut(at..) {
            place.copy_from_slice(late);
        }
        Ok(())
    }

    fn header(&self, to: Option<ExtendedAddress>, sequence: u8) -> Header {
        let config = self.security.config();
        let dst = to.map_or(Address::Short(ShortAddress::BROADCAST), Address::Extended);
        let addressing = Addressing::within(config.pan, dst, Address::Extended(config.extended));
        Header { ack_request: to.is_some(), ..Header::data(sequence, addressing) }
    }

    fn ack_header(&self, to: ExtendedAddress, sequence: Option<u8>) -> Header {
        let addressing =
            Addressing::within(self.security.config().pan, Address::Extended(to), Address::Absent);
        Header::enhanced_ack(sequence, addressing)
    }

    /// The frame that a cell would send: the first one for its neighbour.
    fn candidate(&self, cell: &Cell) -> Option<usize> {
        if cell.kind == CellKind::Receive {
            return None;
        }
        self.queue.iter().position(|waiting| cell.neighbour.is_none() || cell.neighbour == waiting.to)
    }

    /// The slot begins: what to do in it. Slots that are left out count as slept through.
    pub fn begin(&mut self, asn: Asn) -> Action<'_> {
        self.asn = asn;
        self.sending = None;
        let cells: Vec<Cell> = self.schedule.cells(asn).copied().collect();
        for cell in &cells {
            let Some(at) = self.candidate(cell) else { continue };
            let Some(waiting) = self.queue.get_mut(at) else { continue };
            if cell.kind == CellKind::Shared && waiting.backoff > 0 {
                waiting.backoff -= 1;
                continue;
            }
            return self.transmit(asn, cell, at);
        }
        match cells.iter().find(|cell| cell.kind != CellKind::Transmit) {
            None => Action::Sleep,
            Some(cell) => Action::Listen {
                channel: self.schedule.channel(asn, cell.channel_offset),
                from: self.config.timeslot.rx_offset(),
                until: self.config.timeslot.rx_end(),
            },
        }
    }

    /// sec1.
    fn transmit(&mut self, asn: Asn, cell: &Cell, at: usize) -> Action<'_> {
        let Some(waiting) = self.queue.get(at) else { return Action::Sleep };
        let (header, ticket, ack) =
            (self.header(waiting.to, waiting.sequence), waiting.ticket, waiting.to.is_some());
        let secured = self.security.secure_prepared(
            &header,
            &[],
            &waiting.payload,
            self.config.protection,
            asn,
            &mut self.outbound.frame,
            &mut self.frame,
        );
        let Ok((len, prepared)) = secured else { return Action::Sleep };
        self.count(0, prepared);
        self.counters.sent += 1;
        self.frame_len = len;
        self.sending = Some(ticket);
        Action::Transmit {
            channel: self.schedule.channel(asn, cell.channel_offset),
            at: self.config.timeslot.tx_offset,
            frame: self.frame.get(..len).unwrap_or_default(),
            ack,
        }
    }

    fn count(&mut self, operation: usize, prepared: bool) {
        let counters = if prepared { &mut self.counters.prepared } else { &mut self.counters.unprepared };
        if let Some(counter) = counters.get_mut(operation) {
            *counter += 1;
        }
    }

    /// A frame without FCS came in this slot, so many microseconds after the slot began: sec2, and sec3 if it is to be
    /// acknowledged. A refusal says why; nothing is sent then.
    pub fn received(&mut self, frame: &[u8], at: u32) -> Result<Reaction, Status> {
        let mut out = [0; MAX_FRAME_LEN];
        let (result, prepared) =
            self.security.unsecure_prepared(frame, self.asn, None, &mut self.inbound.frame, &mut out);
        let received = result?;
        if received.header.security.is_some() {
            self.count(1, prepared);
        }
        let own = self.security.config();
        let (mine, everybody) = match received.header.addressing.dst {
            Address::Extended(extended) => (extended == own.extended, false),
            Address::Short(short) => (Some(short) == own.short, short == ShortAddress::BROADCAST),
            Address::Absent => (true, false),
        };
        if !mine && !everybody {
            self.counters.not_ours += 1;
            return Ok(Reaction { delivered: None, ack: false });
        }
        let again = received.device.is_some_and(|from| self.learn(from, frame, received.header.sequence));
        let mut reaction = Reaction { delivered: None, ack: false };
        if mine
            && received.header.ack_request
            && let Some(to) = received.device
        {
            reaction.ack = self.acknowledge(to, received.header.sequence, at);
        }
        if again {
            self.counters.duplicates += 1;
        } else {
            self.counters.delivered += 1;
            let payload = out.get(..received.len).unwrap_or_default().to_vec();
            let frame_type = received.header.frame_type;
            reaction.delivered = Some(Delivered { from: received.device, frame_type, payload });
        }
        Ok(reaction)
    }

    /// Remembers what a neighbour's frames are like. True if this one came before: it has the same sequence number as the
    /// last one.
    fn learn(&mut self, from: ExtendedAddress, octets: &[u8], sequence: Option<u8>) -> bool {
        let Ok(frame) = Frame::parse(octets) else { return false };
        let len = frame.before_mic().len();
        let (header, open, level) = (frame.mac_header(), frame.open().len(), frame.header.level());
        let mut kept = [0; KEPT];
        let Some(place) = kept.get_mut(..header.len()) else { return false };
        place.copy_from_slice(header);
        let known = self.habits.iter_mut().find(|habit| habit.from == from);
        let (again, lengths) = match known {
            Some(habit) => {
                let [last, before] = habit.lengths;
                let lengths = if last == len { [last, before] } else { [len, last] };
                (sequence.is_some() && habit.sequence == sequence, lengths)
            }
            None => (false, [len, len]),
        };
        let habit = Habit { from, header: kept, header_len: header.len(), open, level, lengths, sequence };
        self.habits.retain(|other| other.from != from);
        self.habits.push(habit);
        again
    }

    /// sec3.
    fn acknowledge(&mut self, to: ExtendedAddress, sequence: Option<u8>, at: u32) -> bool {
        let early = i64::from(self.config.timeslot.tx_offset) - i64::from(at);
        let microseconds = early.clamp(-2048, 2047) as i16;
        let Some(ies) = ack_ies(TimeCorrection::new(microseconds, false)) else { return false };
        let header = self.ack_header(to, sequence);
        let secured = self.security.secure_prepared(
            &header,
            &ies,
            &[],
            self.config.protection,
            self.asn,
            &mut self.inbound.ack,
            &mut self.frame,
        );
        let Ok((len, prepared)) = secured else { return false };
        self.count(2, prepared);
        self.frame_len = len;
        true
    }

    /// The acknowledgment that lies ready, without its FCS.
    pub fn ack(&self) -> &[u8] {
        self.frame.get(..self.frame_len).unwrap_or_default()
    }

    /// What came after the frame that was sent: sec4. Says what became of the frame, and why an acknowledgment was refused.
    pub fn acknowledged(&mut self, heard: Heard<'_>) -> (Outcome, Option<Status>) {
        let sent = self.sending.take();
        let Some(at) = sent.and_then(|ticket| self.queue.iter().position(|waiting| waiting.ticket == ticket))
        else {
            return (Outcome::Nothing, None);
        };
        let Some(&Waiting { ticket, to, sequence, .. }) = self.queue.get(at) else {
            return (Outcome::Nothing, None);
        };
        let Some(to) = to else {
            self.queue.remove(at);
            return (Outcome::Sent(ticket), None);
        };
        let correction = match heard {
            Heard::Silence => Ok(None),
            Heard::Frame(frame) => self.correction(frame, to, sequence),
        };
        match correction {
            Ok(Some(correction)) => {
                self.queue.remove(at);
                self.counters.acknowledged += 1;
                (Outcome::Acknowledged(ticket, correction.microseconds), None)
            }
            Ok(None) => (self.failed(at), None),
            Err(status) => (self.failed(at), Some(status)),
        }
    }

    /// The time correction of an acknowledgment that fits; none if it does not, or says no.
    fn correction(
        &mut self,
        frame: &[u8],
        to: ExtendedAddress,
        sequence: u8,
    ) -> Result<Option<TimeCorrection>, Status> {
        let mut out = [0; MAX_FRAME_LEN];
        let (result, prepared) =
            self.security.unsecure_prepared(frame, self.asn, Some(to), &mut self.outbound.ack, &mut out);
        let received = result?;
        if received.header.security.is_some() {
            self.count(3, prepared);
        }
        let own = self.security.config();
        let ours = match received.header.addressing.dst {
            Address::Absent => true,
            Address::Short(short) => Some(short) == own.short,
            Address::Extended(extended) => extended == own.extended,
        };
        let fits = received.header.frame_type == FrameType::Ack
            && received.header.sequence.is_none_or(|of| of == sequence)
            && received.device == Some(to)
            && ours;
        let correction = Frame::parse(frame)?.header_ies().time_correction();
        match correction {
            Some(correction) if fits && !correction.nack => Ok(Some(correction)),
            _ => {
                self.counters.foreign_acks += 1;
                Ok(None)
            }
        }
    }

    fn failed(&mut self, at: usize) -> Outcome {
        let (_, greatest) = self.config.backoff;
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let Some(waiting) = self.queue.get_mut(at) else { return Outcome::Nothing };
        let ticket = waiting.ticket;
        waiting.attempts += 1;
        if waiting.attempts > self.config.max_retries {
            self.queue.remove(at);
            self.counters.given_up += 1;
            return Outcome::GivenUp(ticket);
        }
        waiting.backoff = (self.random >> 16) & ((1 << waiting.exponent) - 1);
        waiting.exponent = (waiting.exponent + 1).min(greatest);
        Outcome::Again(ticket)
    }

    /// The slot is over. A frame that was sent and not asked about counts as not acknowledged, and what was prepared for
    /// this slot and not needed is wiped.
    pub fn end(&mut self) {
        if self.sending.is_some() {
            self.acknowledged(Heard::Silence);
        }
        let asn = self.asn;
        if self.outbound.frame.is_for(asn) || self.outbound.ack.is_for(asn) {
            self.wipe_outbound();
        }
        if self.inbound.frame.is_for(asn) || self.inbound.ack.is_for(asn) {
            self.wipe_inbound();
        }
    }

    fn wipe_outbound(&mut self) {
        let Outbound { frame, ack } = &mut self.outbound;
        self.counters.wiped += u64::from(frame.is_prepared()) + u64::from(ack.is_prepared());
        frame.wipe();
        ack.wipe();
    }

    fn wipe_inbound(&mut self) {
        let Inbound { frame, ack } = &mut self.inbound;
        self.counters.wiped += u64::from(frame.is_prepared()) + u64::from(ack.is_prepared());
        frame.wipe();
        ack.wipe();
    }

    /// The next slot in which there is something to do.
    pub fn next_active(&self) -> Option<Asn> {
        self.schedule.next(self.asn.after(1)?, |_| true).map(|(asn, _)| asn)
    }

    /// Between slots: does at most `budget` encryptions for the next cell to send in and the next to listen in, and gives those
    /// done: 0 when all is ready.
    pub fn idle(&mut self, budget: u32) -> u32 {
        if !self.config.prepare {
            return 0;
        }
        let Some(from) = self.asn.after(1) else { return 0 };
        self.aim(from);
        let mut left = budget;
        left -= self.outbound.frame.step_and_complete(&self.security, left);
        left -= self.inbound.frame.step(&self.security, left);
        left -= self.inbound.ack.step(&self.security, left);
        left -= self.outbound.ack.step(&self.security, left);
        budget - left
    }

    /// Begins the preparations for the next cells, unless they are begun.
    fn aim(&mut self, from: Asn) {
        let send = self.schedule.next(from, |cell| {
            self.candidate(cell)
                .and_then(|at| self.queue.get(at))
                .is_some_and(|waiting| cell.kind == CellKind::Transmit || waiting.backoff == 0)
        });
        if let Some((asn, cell)) = send
            && !self.outbound.frame.is_for(asn)
            && let Some(waiting) = self.candidate(&cell).and_then(|at| self.queue.get(at))
        {
            let header = self.header(waiting.to, waiting.sequence);
            let (payload, late, protection) = (&waiting.payload, waiting.late, self.config.protection);
            self.security.prepare(&header, &[], payload, late, protection, asn, &mut self.outbound.frame);
            match waiting.to {
                Some(to) => self.expect_ack(asn, to, waiting.sequence),
                None => self.outbound.ack.wipe(),
            }
        }
        let listen = self.schedule.next(from, |cell| cell.kind != CellKind::Transmit);
        if let Some((asn, cell)) = listen
            && !self.inbound.frame.is_for(asn)
        {
            // In a cell for anybody, the neighbour that was heard last is the best guess.
            let from = cell.neighbour.or_else(|| self.habits.last().map(|habit| habit.from));
            self.wipe_inbound();
            if let Some(from) = from {
                self.expect_frame(asn, from);
            }
        }
    }

    fn expect_ack(&mut self, asn: Asn, from: ExtendedAddress, sequence: u8) {
        let (extended, level) = (self.security.config().extended, self.config.protection.level);
        let header = Header {
            security: Some(SecurityHeader::tsch(level, self.config.protection.key)),
            ..self.ack_header(extended, Some(sequence))
        };
        let mut sample = [0; 80];
        let Some(len) = sample_ack(&header, &mut sample) else { return };
        let sample = sample.get(..len + level.mic_len()).unwrap_or_default();
        let front = sample.get(..len - TimeCorrection::LEN).unwrap_or_default();
        let known = Known { level, front, open: len, lengths: &[len] };
        self.security.expect(sample, Some(from), asn, &known, &mut self.outbound.ack);
    }

    fn expect_frame(&mut self, asn: Asn, from: ExtendedAddress) {
        let Some(habit) = self.habits.iter().find(|habit| habit.from == from) else { return };
        let mut sample = [0; MAX_FRAME_LEN];
        let header = habit.header.get(..habit.header_len).unwrap_or_default();
        let Some(place) = sample.get_mut(..header.len()) else { return };
        place.copy_from_slice(header);
        let next = habit.sequence.map(|sequence| sequence.wrapping_add(1));
        // The sequence number is the octet behind the frame control field.
        if let (Some(next), Some(place)) = (next, sample.get_mut(2)) {
            *place = next;
        }
        let [last, before] = habit.lengths;
        let lengths = if last == before { &[last][..] } else { &[last, before][..] };
        let Some(sample) = sample.get(..last + habit.level.mic_len()) else { return };
        let front = sample.get(..habit.header_len).unwrap_or_default();
        let known = Known { level: habit.level, front, open: habit.open, lengths };
        self.security.expect(sample, None, asn, &known, &mut self.inbound.frame);
        let header = self.ack_header(from, next);
        if let Some(ies) = ack_ies(TimeCorrection::default()) {
            let late = TimeCorrection::LEN;
            let protection = self.config.protection;
            self.security.prepare(&header, &ies, &[], late, protection, asn, &mut self.inbound.ack);
        }
    }
}

/// The elements of an acknowledgment.
fn ack_ies(correction: TimeCorrection) -> Option<[u8; ACK_IES]> {
    let mut ies = [0; ACK_IES];
    let mut writer = HeaderWriter::new(&mut ies);
    writer.time_correction(correction).ok()?;
    writer.finish(Following::Nothing).ok()?;
    Some(ies)
}

/// Writes an acknowledgment without MIC, and gives its length.
fn sample_ack(header: &Header, out: &mut [u8]) -> Option<usize> {
    let len = header.emit(out).ok()?;
    out.get_mut(len..len + ACK_IES)?.copy_from_slice(&ack_ies(TimeCorrection::default())?);
    Some(len + ACK_IES)
}

impl core::fmt::Debug for Node {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node")
            .field("asn", &self.asn)
            .field("waiting", &self.queue.len())
            .finish_non_exhaustive()
    }
}

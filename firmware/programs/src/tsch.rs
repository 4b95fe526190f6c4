//! A TSCH node as it is: [`Node`] in the four operations of a slot (sciancalepore2016 section 3.3),
//! with schedule, queue, key lookup, device table, policy, replay check and counters.
//!
//! A frame has 127 octets with FCS. The key identifier is the longest (mode 3); TSCH suppresses the
//! frame counter. The results are named `tsch-LEVEL-STATE-OPERATION`. `sec2` is the reception of a frame
//! without acknowledgment, `sec23` of one with it.

use crate::{Mote, Wrong, cost, heap, nothing, report, right};
use alloc::vec;
use antedate_channel::dot15d4::tsch::{
    Action, Cell, CellKind, Heard, Node, NodeConfig, Outcome, Schedule, Slotframe,
};
use antedate_channel::dot15d4::{
    Address, Addressing, Asn, Config, Device, ExtendedAddress, Header, KeyConfig, KeyIdentifier, KeyLookup,
    Levels, LinkKey, NonceKind, PanId, Policy, Protection, Security, SecurityLevel,
};
use core::hint::black_box;
use core::mem::size_of;

/// A mote's node: it expects one frame of two lengths.
type Small = Node<1, 2>;

const PAN: PanId = PanId(0xabcd);
const SENDER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 1]);
const RECEIVER: ExtendedAddress = ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 2]);
const KEY: KeyIdentifier = KeyIdentifier::Source8([7; 8], 1);
/// Octets of a frame without FCS, and of its header.
const FRAME: usize = 125;
const HEADER: usize = 2 + 1 + 2 + 8 + 8;
const SECURITY: usize = 1 + 9;
/// Octets of the longest acknowledgment.
const ACK: usize = 48;

fn security(own: ExtendedAddress, peer: ExtendedAddress) -> Result<Security, Wrong> {
    let policy = Policy::uniform(Levels::of(&SecurityLevel::ALL));
    let mut security =
        Security::new(Config { extended: own, pan: PAN, short: None, policy, enc_without_mic: true });
    security.add_device(Device { pan: PAN, extended: peer, short: None, exempt: false });
    let lookup = KeyLookup::Identified(KEY);
    let key = KeyConfig::fresh(lookup, LinkKey::new(*b"sixteen byte key"), NonceKind::Asn);
    security.install_key(key).map_err(|_| Wrong::Fit)?;
    Ok(security)
}

fn node(own: ExtendedAddress, level: SecurityLevel, prepare: bool) -> Result<Small, Wrong> {
    let (peer, kind) =
        if own == SENDER { (RECEIVER, CellKind::Transmit) } else { (SENDER, CellKind::Receive) };
    let cells = vec![Cell { slot: 0, channel_offset: 0, kind, neighbour: Some(peer) }];
    let schedule =
        Schedule::new(vec![Slotframe { length: 101, cells }], vec![11, 26]).map_err(|_| Wrong::Fit)?;
    let protection = Protection { level, key: KEY };
    let config = NodeConfig { prepare, queue: 1, habits: 2, ..NodeConfig::new(protection) };
    Ok(Small::sized(security(own, peer)?, schedule, config, slot(0)?, 9))
}

fn slot(number: u64) -> Result<Asn, Wrong> {
    Asn::new(101 * number).ok_or(Wrong::Fit)
}

fn say<M: Mote>(level: SecurityLevel, part: &str, number: u32) {
    report::<M>("tsch", &[usize::from(level.number())], part, number);
}

/// The preparation of a slot, and its use.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Nothing is prepared.
    Plain,
    /// All was foreseen.
    Ahead,
    /// Nodes that prepare, in a slot that they did not prepare for.
    Wrong,
}

impl State {
    /// The names of sec1, sec2, sec2 with sec3, and sec4.
    const fn names(self) -> [&'static str; 4] {
        match self {
            Self::Plain => ["plain-sec1", "plain-sec2", "plain-sec23", "plain-sec4"],
            Self::Ahead => ["ahead-sec1", "ahead-sec2", "ahead-sec23", "ahead-sec4"],
            Self::Wrong => ["wrong-sec1", "wrong-sec2", "wrong-sec23", "wrong-sec4"],
        }
    }
}

/// Measures all levels.
pub fn measure_tsch<M: Mote>() -> Result<(), Wrong> {
    nothing::<M>();
    for level in SecurityLevel::ALL {
        // Level 4 is not prepared: it has no MIC to tell a wrong prediction.
        let prepared = !matches!(level, SecurityLevel::None | SecurityLevel::Enc);
        for state in [State::Plain, State::Ahead, State::Wrong] {
            if prepared || state == State::Plain {
                exchange::<M>(level, state)?;
                reception::<M>(level, state)?;
            }
        }
    }
    let receiver = node(RECEIVER, SecurityLevel::EncMic32, true)?;
    report::<M>("tsch-ram-heap", &[], "", heap::used() as u32);
    report::<M>("tsch-ram-node", &[], "", size_of::<Small>() as u32);
    right(receiver.waiting() == 0)
}

/// The payload of a full frame.
fn payload(level: SecurityLevel) -> Result<([u8; FRAME], usize), Wrong> {
    let aux = if level == SecurityLevel::None { 0 } else { SECURITY };
    Ok(([0x5a; FRAME], black_box(FRAME - HEADER - aux - level.mic_len())))
}

/// The slots of a run: the receiver learns in the first ones, and the last one is measured.
const ROUNDS: u64 = 3;

/// The slot of a round. In a wrong state the last round is a slot later than prepared for.
fn of_round(round: u64, state: State) -> Result<Asn, Wrong> {
    slot(if round == ROUNDS && state == State::Wrong { round + 1 } else { round })
}

/// A frame and its acknowledgment.
#[inline(never)]
fn exchange<M: Mote>(level: SecurityLevel, state: State) -> Result<(), Wrong> {
    let prepare = state != State::Plain;
    let (mut sender, mut receiver) = (node(SENDER, level, prepare)?, node(RECEIVER, level, prepare)?);
    let (payload, len) = payload(level)?;
    let payload = payload.get(..len).ok_or(Wrong::Fit)?;
    let [sec1_name, _, sec23_name, sec4_name] = state.names();
    let mut used = 0;
    for round in 1..=ROUNDS {
        let now = of_round(round, state)?;
        sender.send(Some(RECEIVER), payload, 0).map_err(|_| Wrong::Fit)?;
        let (before_sender, ()) = cost!(M, while sender.idle(u32::MAX) > 0 {});
        let (before_receiver, ()) = cost!(M, while receiver.idle(u32::MAX) > 0 {});
        let (mut frame, mut ack) = ([0; FRAME], [0; ACK]);
        let (sec1, action) = cost!(M, sender.begin(black_box(now)));
        let Action::Transmit { frame: sent, .. } = action else { return Err(Wrong::Answer) };
        frame.get_mut(..sent.len()).ok_or(Wrong::Fit)?.copy_from_slice(sent);
        right(sent.len() == FRAME && matches!(receiver.begin(now), Action::Listen { .. }))?;
        let (sec23, reaction) = cost!(M, receiver.received(black_box(&frame), 2120));
        let reaction = reaction.map_err(|_| Wrong::Answer)?;
        right(reaction.delivered.is_some_and(|delivered| delivered.payload == payload))?;
        let reply = reaction.ack.ok_or(Wrong::Answer)?;
        let ack = ack.get_mut(..reply.len()).ok_or(Wrong::Fit)?;
        ack.copy_from_slice(reply);
        let (sec4, (outcome, _)) = cost!(M, sender.acknowledged(black_box(Heard::Frame(ack))));
        right(matches!(outcome, Outcome::Acknowledged(..)))?;
        sender.end();
        receiver.end();
        if round == 1 {
            used = heap::used();
        }
        if round == ROUNDS {
            say::<M>(level, sec1_name, sec1);
            say::<M>(level, sec23_name, sec23);
            say::<M>(level, sec4_name, sec4);
            if state == State::Ahead {
                say::<M>(level, "before-sender", before_sender);
                say::<M>(level, "before-receiver", before_receiver);
                right(receiver.counters().prepared[2] > 0 && sender.counters().unprepared[3] == 0)?;
            }
        }
    }
    // A slot takes nothing from the heap.
    right(heap::used() == used)
}

/// A frame without acknowledgment.
#[inline(never)]
fn reception<M: Mote>(level: SecurityLevel, state: State) -> Result<(), Wrong> {
    let mut sender = security(SENDER, RECEIVER)?;
    let mut receiver = node(RECEIVER, level, state != State::Plain)?;
    let (payload, len) = payload(level)?;
    let payload = payload.get(..len).ok_or(Wrong::Fit)?;
    let addressing = Addressing::within(PAN, Address::Extended(RECEIVER), Address::Extended(SENDER));
    let [_, sec2_name, _, _] = state.names();
    for round in 1..=ROUNDS {
        let now = of_round(round, state)?;
        while receiver.idle(u32::MAX) > 0 {}
        let header = Header { ack_request: false, ..Header::data(round as u8, addressing) };
        let mut frame = [0; FRAME];
        let protection = Protection { level, key: KEY };
        let sent = sender.secure(&header, &[], payload, protection, Some(now), &mut frame);
        right(sent == Ok(FRAME) && matches!(receiver.begin(now), Action::Listen { .. }))?;
        let (sec2, reaction) = cost!(M, receiver.received(black_box(&frame), 2120));
        right(reaction.is_ok_and(|of| of.ack.is_none() && of.delivered.is_some()))?;
        receiver.end();
        if round == ROUNDS {
            say::<M>(level, sec2_name, sec2);
        }
    }
    Ok(())
}

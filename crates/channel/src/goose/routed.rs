//! The subscriber of routed GOOSE and sampled values ([`antedate_wire::routed`]), over UDP.
//!
//! Datagrams are encrypted with AES-GCM; the header with the SPDU number and the IV is associated
//! data. Nothing of IP and UDP is authenticated, so replays are judged by what is inside.

use alloc::vec;
use alloc::vec::Vec;

use antedate_aead::{Key, Suite};
use antedate_wire::goose::Message;
use antedate_wire::routed::{Datagram, Element, Kind};
use antedate_wire::sampled;

use super::mac::GroupKey;
use super::publisher::CAPACITY;
use super::ring::{Place, Ring};
use super::subscriber::{Counters, Dropped, counted};

/// What tells a repeated datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// the IV: six octets of sender and six of a counter, as [`Publisher`](super::Publisher) has it
    Counter,
    /// the SPDU number, which must rise in each control block or stream: of publishers with random
    /// IVs. It ends at 2^32, so the key must be changed before, and when a publisher starts over
    Number,
}

/// Receives the routed messages of the publishers with one key, or with several while they change it.
pub struct RoutedSubscriber<S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> {
    ring: Ring<S>,
    freshness: Freshness,
    counters: Counters,
    payload: Vec<u8>,
}

impl<S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> RoutedSubscriber<S> {
    /// A subscriber that knows no publisher. Overtaken messages are dropped.
    pub fn new(key: Key<S>, key_number: u32, freshness: Freshness) -> Self {
        Self {
            ring: Ring::new(key.into(), key_number, 0),
            freshness,
            counters: Counters::default(),
            payload: vec![0; CAPACITY],
        }
    }

    /// Counters of received datagrams.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Accepts a key beside the others, after which it comes: a publisher that was heard with it is
    /// late with an earlier one. False if the number is accepted, or [`MAX_KEYS`](super::MAX_KEYS)
    /// keys are.
    pub fn accept(&mut self, key: Key<S>, number: u32) -> bool {
        self.ring.accept(key.into(), number)
    }

    /// Refuses a key from now on, and forgets its publishers.
    pub fn forget(&mut self, number: u32) {
        self.ring.forget(number);
    }

    /// The numbers of the accepted keys, the earliest first.
    pub fn keys(&self) -> impl Iterator<Item = u32> {
        self.ring.numbers()
    }

    /// Accepts of a publisher with a key numbers from `lowest` only, so that messages received before a
    /// restart stay refused.
    pub fn refuse_below(&mut self, key: u32, sender: [u8; 6], lowest: u64) {
        self.ring.refuse_below(key, sender, lowest);
    }

    /// The publishers with counters that were heard, each with its key and one above the highest number
    /// delivered: to be stored for [`refuse_below`](Self::refuse_below).
    pub fn publishers(&self) -> impl Iterator<Item = (u32, [u8; 6], u64)> {
        self.ring.publishers()
    }

    /// Processes a datagram. Delivered messages are authentic and unique.
    pub fn receive(&mut self, datagram: &[u8]) -> Result<Message<'_>, Dropped> {
        let opened = self.open(Kind::Goose, datagram);
        counted(&mut self.counters, opened.and_then(|len| goose(&self.payload[..len])))
    }

    /// The same for a datagram of sampled values, whose streams have identifiers instead of control
    /// blocks.
    pub fn receive_sampled(&mut self, datagram: &[u8]) -> Result<sampled::Message<'_>, Dropped> {
        let opened = self.open(Kind::Sampled, datagram);
        counted(&mut self.counters, opened.and_then(|len| stream(&self.payload[..len])))
    }

    /// Verifies a datagram and leaves its elements in `payload`. Returns their length.
    fn open(&mut self, kind: Kind, datagram: &[u8]) -> Result<usize, Dropped> {
        let Datagram { header, associated, payload, mac } =
            Datagram::parse(datagram).map_err(|_| Dropped::Malformed)?;
        if header.kind != kind {
            return Err(Dropped::Malformed);
        }
        let place = self.ring.find(header.key)?;
        let [sender, number] = [&header.iv[..6], &header.iv[6..]];
        let sender: [u8; 6] = sender.try_into().map_err(|_| Dropped::Malformed)?;
        let number = number.iter().fold(0, |number, octet| number << 8 | u64::from(*octet));
        if self.freshness == Freshness::Counter {
            self.ring.check(place, sender, number)?;
        }
        let len = payload.len();
        let plain = self.payload.get_mut(..len).ok_or(Dropped::Malformed)?;
        // Only keys of AES are taken.
        let GroupKey::Gcm(key) = self.ring.key(place) else { return Err(Dropped::Unauthentic) };
        key.open(header.iv, associated, payload, plain, mac).map_err(|_| Dropped::Unauthentic)?;
        match self.freshness {
            Freshness::Counter => self.ring.mark(place, sender, number),
            Freshness::Number => self.rises(place, kind, len, header.number)?,
        }
        Ok(len)
    }

    /// Whether the SPDU number of an authentic message rises in its control block or stream.
    fn rises(&mut self, place: Place, kind: Kind, len: usize, number: u32) -> Result<(), Dropped> {
        let payload = &self.payload[..len];
        let block = match kind {
            Kind::Sampled => stream(payload)?.asdus.iter().next().map(|asdu| asdu.sv_id),
            _ => Some(goose(payload)?.publisher.gocb_ref),
        };
        self.ring.rises(place, block.ok_or(Dropped::Pdu)?, number)
    }
}

/// The only APDU of a payload, of a kind.
fn only(kind: Kind, payload: &[u8]) -> Result<(Element, &[u8]), Dropped> {
    let (element, apdu, rest) = Element::parse(payload).map_err(|_| Dropped::Pdu)?;
    let is_only = element.kind == kind && rest.is_empty();
    is_only.then_some((element, apdu)).ok_or(Dropped::Pdu)
}

/// The only message of a payload.
fn goose(payload: &[u8]) -> Result<Message<'_>, Dropped> {
    let (element, apdu) = only(Kind::Goose, payload)?;
    let message = Message::parse_pdu(element.appid, apdu).map_err(|_| Dropped::Pdu)?;
    Ok(Message { simulation: message.simulation | element.simulation, ..message })
}

/// The only message of a payload of sampled values.
fn stream(payload: &[u8]) -> Result<sampled::Message<'_>, Dropped> {
    let (element, apdu) = only(Kind::Sampled, payload)?;
    let message = sampled::Message::parse_pdu(element.appid, apdu).map_err(|_| Dropped::Pdu)?;
    Ok(sampled::Message { simulation: element.simulation, ..message })
}

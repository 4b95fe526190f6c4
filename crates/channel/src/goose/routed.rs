//! The subscriber of routed GOOSE ([`antedate_wire::routed`]), over UDP.
//!
//! Datagrams are encrypted with AES-GCM; the header with the SPDU number and the IV is associated
//! data. Nothing of IP and UDP is authenticated, so replays are judged by what is inside.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use antedate_aead::{Key, Suite};
use antedate_wire::goose::Message;
use antedate_wire::routed::{Datagram, Element, Kind};

use super::counter::END;
use super::publisher::CAPACITY;
use super::subscriber::{Counters, Dropped, MAX_PUBLISHERS};
use crate::replay::{ReplayError, ReplayWindow};

/// What tells a repeated datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// the IV: six octets of sender and six of a counter, as [`Publisher`](super::Publisher) has it
    Counter,
    /// the SPDU number, which must rise in each control block: of publishers with random IVs. It ends
    /// at 2^32, so the key must be changed before, and when a publisher starts over
    Number,
}

/// Receives the routed messages of the publishers with one key.
pub struct RoutedSubscriber<S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> {
    key: Key<S>,
    key_number: u32,
    freshness: Freshness,
    publishers: BTreeMap<[u8; 6], ReplayWindow>,
    /// the last SPDU number of each control block
    blocks: BTreeMap<Vec<u8>, u32>,
    counters: Counters,
    payload: Vec<u8>,
}

impl<S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> RoutedSubscriber<S> {
    /// A subscriber that knows no publisher. Overtaken messages are dropped.
    pub fn new(key: Key<S>, key_number: u32, freshness: Freshness) -> Self {
        Self {
            key,
            key_number,
            freshness,
            publishers: BTreeMap::new(),
            blocks: BTreeMap::new(),
            counters: Counters::default(),
            payload: vec![0; CAPACITY],
        }
    }

    /// Counters of received datagrams.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Accepts of a publisher numbers from `lowest` only, so that messages received before a restart
    /// stay refused.
    pub fn refuse_below(&mut self, sender: [u8; 6], lowest: u64) {
        if self.publishers.len() < MAX_PUBLISHERS {
            self.publishers.insert(sender, ReplayWindow::new(lowest, 0));
        }
    }

    /// The publishers with counters that were heard, each with one above the highest number delivered.
    pub fn publishers(&self) -> impl Iterator<Item = ([u8; 6], u64)> {
        self.publishers.iter().map(|(sender, window)| (*sender, window.next()))
    }

    /// Processes a datagram. Delivered messages are authentic and unique.
    pub fn receive(&mut self, datagram: &[u8]) -> Result<Message<'_>, Dropped> {
        match self.open(datagram) {
            Ok(len) => match Self::message(&self.payload[..len]) {
                Ok(message) => {
                    self.counters.delivered += 1;
                    Ok(message)
                }
                Err(why) => {
                    self.counters.dropped(why);
                    Err(why)
                }
            },
            Err(why) => {
                self.counters.dropped(why);
                Err(why)
            }
        }
    }

    /// The only message of a payload.
    fn message(payload: &[u8]) -> Result<Message<'_>, Dropped> {
        let (element, apdu, rest) = Element::parse(payload).map_err(|_| Dropped::Pdu)?;
        if element.kind != Kind::Goose || !rest.is_empty() {
            return Err(Dropped::Pdu);
        }
        let mut message = Message::parse_pdu(element.appid, apdu).map_err(|_| Dropped::Pdu)?;
        message.simulation |= element.simulation;
        Ok(message)
    }

    /// Verifies a datagram and leaves its elements in `payload`. Returns their length.
    fn open(&mut self, datagram: &[u8]) -> Result<usize, Dropped> {
        let Datagram { header, associated, payload, mac } =
            Datagram::parse(datagram).map_err(|_| Dropped::Malformed)?;
        if header.kind != Kind::Goose {
            return Err(Dropped::Malformed);
        }
        if header.key != self.key_number {
            return Err(Dropped::UnknownKey);
        }
        let [sender, number] = [&header.iv[..6], &header.iv[6..]];
        let sender: [u8; 6] = sender.try_into().map_err(|_| Dropped::Malformed)?;
        let number = number.iter().fold(0, |number, octet| number << 8 | u64::from(*octet));
        let fresh = ReplayWindow::new(1, 0);
        if self.freshness == Freshness::Counter {
            let known = self.publishers.get(&sender);
            if known.is_none() && self.publishers.len() == MAX_PUBLISHERS {
                return Err(Dropped::UnknownSender);
            }
            if number >= END {
                return Err(Dropped::Late);
            }
            known.unwrap_or(&fresh).check(number).map_err(|why| match why {
                ReplayError::Late => Dropped::Late,
                ReplayError::Duplicate => Dropped::Duplicate,
            })?;
        }
        let len = payload.len();
        let plain = self.payload.get_mut(..len).ok_or(Dropped::Malformed)?;
        self.key.open(header.iv, associated, payload, plain, mac).map_err(|_| Dropped::Unauthentic)?;
        match self.freshness {
            Freshness::Counter => {
                self.publishers.entry(sender).or_insert(fresh).mark(number);
            }
            Freshness::Number => self.rises(len, header.number)?,
        }
        Ok(len)
    }

    /// Whether the SPDU number of an authentic message rises in its control block.
    fn rises(&mut self, len: usize, number: u32) -> Result<(), Dropped> {
        let message = Self::message(&self.payload[..len])?;
        let block = message.publisher.gocb_ref;
        match self.blocks.get(block) {
            Some(last) if number == *last => return Err(Dropped::Duplicate),
            Some(last) if number < *last => return Err(Dropped::Late),
            None if self.blocks.len() == MAX_PUBLISHERS => return Err(Dropped::UnknownSender),
            _ => {}
        }
        self.blocks.insert(block.to_vec(), number);
        Ok(())
    }
}

//! The subscriber, which delivers each authentic message once, and nothing else.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use antedate_aead::{Key, Suite};
use antedate_wire::goose::{HEADER_LEN, Message, Repr};
use antedate_wire::{EtherType, VlanTagStack, sampled};

use super::Form;
use super::counter::{END, nonce};
use super::extension::{self, EXTENSION_LEN, Extension};
use super::publisher::{CAPACITY, associated};
use crate::replay::{ReplayError, ReplayWindow};

/// The reason for dropping a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dropped {
    /// it is not GOOSE, or its lengths contradict each other
    Malformed,
    /// it has no security extension, or one of another form
    Unprotected,
    /// the CRC of its header is wrong
    Crc,
    /// it names another key
    UnknownKey,
    /// its IV is not of its source address, or there are too many publishers
    UnknownSender,
    /// its number is below the window
    Late,
    /// its number was received before
    Duplicate,
    /// its MAC is wrong
    Unauthentic,
    /// it is authentic, and its PDU is invalid
    Pdu,
}

/// Received frames, by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// delivered
    pub delivered: u64,
    /// dropped, by reason
    pub malformed: u64,
    /// dropped: no extension
    pub unprotected: u64,
    /// dropped: a wrong CRC
    pub crc: u64,
    /// dropped: another key
    pub unknown_key: u64,
    /// dropped: an IV of another address, or one publisher too many
    pub unknown_sender: u64,
    /// dropped: too old
    pub late: u64,
    /// dropped: received before
    pub duplicate: u64,
    /// dropped: a wrong MAC
    pub unauthentic: u64,
    /// dropped: an authentic PDU that cannot be read
    pub pdu: u64,
}

impl Counters {
    pub(super) fn dropped(&mut self, why: Dropped) {
        let counter = match why {
            Dropped::Malformed => &mut self.malformed,
            Dropped::Unprotected => &mut self.unprotected,
            Dropped::Crc => &mut self.crc,
            Dropped::UnknownKey => &mut self.unknown_key,
            Dropped::UnknownSender => &mut self.unknown_sender,
            Dropped::Late => &mut self.late,
            Dropped::Duplicate => &mut self.duplicate,
            Dropped::Unauthentic => &mut self.unauthentic,
            Dropped::Pdu => &mut self.pdu,
        };
        *counter += 1;
    }
}

/// Counts a result.
fn counted<T>(counters: &mut Counters, read: Result<T, Dropped>) -> Result<T, Dropped> {
    match &read {
        Ok(_) => counters.delivered += 1,
        Err(why) => counters.dropped(*why),
    }
    read
}

/// The most publishers with one key: their windows are kept.
pub const MAX_PUBLISHERS: usize = 64;

/// Receives the messages of the publishers with one key.
///
/// Each source address has its own numbers, since it is a part of the IV. A window begins with an
/// authentic message, so forgers occupy none.
pub struct Subscriber<S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> {
    key: Key<S>,
    key_number: u32,
    form: Form,
    window: u32,
    publishers: BTreeMap<[u8; 6], ReplayWindow>,
    counters: Counters,
    pdu: Vec<u8>,
    aad: Vec<u8>,
}

impl<S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> Subscriber<S> {
    /// A subscriber that knows no publisher.
    ///
    /// With a `window` of 0 an overtaken message is dropped, which is right for states. With a
    /// wider window it is delivered, once.
    pub fn new(key: Key<S>, key_number: u32, form: Form, window: u32) -> Self {
        Self {
            key,
            key_number,
            form,
            window,
            publishers: BTreeMap::new(),
            counters: Counters::default(),
            pdu: vec![0; CAPACITY],
            aad: Vec::with_capacity(CAPACITY + 64),
        }
    }

    /// Counters of received frames.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Accepts of a publisher numbers from `lowest` only, so that messages received before a restart
    /// stay refused.
    pub fn refuse_below(&mut self, sender: [u8; 6], lowest: u64) {
        if self.publishers.len() < MAX_PUBLISHERS {
            self.publishers.insert(sender, ReplayWindow::new(lowest, self.window));
        }
    }

    /// The publishers that were heard, each with one above the highest number delivered: to be stored
    /// for [`refuse_below`](Self::refuse_below).
    pub fn publishers(&self) -> impl Iterator<Item = ([u8; 6], u64)> {
        self.publishers.iter().map(|(sender, window)| (*sender, window.next()))
    }

    /// Processes a frame from its destination address, with or without VLAN tags. Delivered
    /// messages are authentic and unique. Padding after the extension is ignored.
    pub fn receive(&mut self, frame: &[u8]) -> Result<Message<'_>, Dropped> {
        let opened = self.open(EtherType::Goose, frame);
        let read = opened.and_then(|(header, len)| {
            Message::parse_pdu(header.appid, &self.pdu[..len]).map_err(|_| Dropped::Pdu)
        });
        counted(&mut self.counters, read)
    }

    /// The same for a frame of sampled values.
    pub fn receive_sampled(&mut self, frame: &[u8]) -> Result<sampled::Message<'_>, Dropped> {
        let opened = self.open(EtherType::SampledValues, frame);
        let read = opened.and_then(|(header, len)| {
            let message = sampled::Message::parse_pdu(header.appid, &self.pdu[..len]);
            let simulation = header.reserved1 & 0x8000 != 0;
            message.map(|message| sampled::Message { simulation, ..message }).map_err(|_| Dropped::Pdu)
        });
        counted(&mut self.counters, read)
    }

    /// Verifies a frame and leaves its PDU in `pdu`. Returns its header and the length of the PDU.
    fn open(&mut self, ethertype: EtherType, frame: &[u8]) -> Result<(Repr, usize), Dropped> {
        let stack = VlanTagStack::parse(frame).map_err(|_| Dropped::Malformed)?;
        if stack.ethertype != ethertype {
            return Err(Dropped::Malformed);
        }
        let (addresses, rest) = (&frame[..12], &frame[stack.payload..]);
        let header = Repr::parse(rest).map_err(|_| Dropped::Malformed)?;
        let head = rest.first_chunk::<HEADER_LEN>().ok_or(Dropped::Malformed)?;
        if usize::from(header.reserved1 & 0xff) != EXTENSION_LEN {
            return Err(Dropped::Unprotected);
        }
        if header.reserved2 != extension::crc(ethertype, head) {
            return Err(Dropped::Crc);
        }
        let (protected, behind) = rest.split_at(usize::from(header.length));
        let pdu = &protected[HEADER_LEN..];
        let extension = behind.get(..EXTENSION_LEN).and_then(Extension::parse).ok_or(Dropped::Malformed)?;
        if extension.key != self.key_number {
            return Err(Dropped::UnknownKey);
        }
        let known = self.publishers.get(&extension.sender);
        if frame[6..12] != extension.sender || (known.is_none() && self.publishers.len() == MAX_PUBLISHERS) {
            return Err(Dropped::UnknownSender);
        }
        // Number 0 is not used, and the last one has no successor.
        if extension.number >= END {
            return Err(Dropped::Late);
        }
        let fresh = ReplayWindow::new(1, self.window);
        known.unwrap_or(&fresh).check(extension.number).map_err(|why| match why {
            ReplayError::Late => Dropped::Late,
            ReplayError::Duplicate => Dropped::Duplicate,
        })?;
        let octets = ethertype.number().to_be_bytes();
        let head = [addresses, &octets, head];
        associated(&mut self.aad, &head, extension.period, self.form, pdu);
        let (src, dst): (&[u8], _) = match self.form {
            Form::Encrypted => (pdu, self.pdu.get_mut(..pdu.len()).ok_or(Dropped::Malformed)?),
            Form::Authenticated => (&[], &mut self.pdu[..0]),
        };
        let nonce = nonce(extension.sender, extension.number);
        self.key.open(nonce, &self.aad, src, dst, extension.mac).map_err(|_| Dropped::Unauthentic)?;
        if self.form == Form::Authenticated {
            self.pdu.get_mut(..pdu.len()).ok_or(Dropped::Malformed)?.copy_from_slice(pdu);
        }
        self.publishers.entry(extension.sender).or_insert(fresh).mark(extension.number);
        Ok((header, pdu.len()))
    }
}

//! The subscriber, which delivers each authentic message once, and nothing else.

use alloc::vec;
use alloc::vec::Vec;

use antedate_aead::Suite;
use antedate_wire::goose::{HEADER_LEN, Message, Repr};
use antedate_wire::{EtherType, VlanTagStack, sampled};

use super::Form;
use super::counter::nonce;
use super::extension::{self, EXTENSION_LEN, Extension};
use super::mac::GroupKey;
use super::publisher::{CAPACITY, associated};
use super::ring::Ring;

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
    /// it names a key that is not accepted
    UnknownKey,
    /// its IV is not of its source address, or there are too many publishers
    UnknownSender,
    /// its number is below the window, or its publisher was heard with a later key
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
pub(super) fn counted<T>(counters: &mut Counters, read: Result<T, Dropped>) -> Result<T, Dropped> {
    match &read {
        Ok(_) => counters.delivered += 1,
        Err(why) => counters.dropped(*why),
    }
    read
}

/// The most publishers with one key: their windows are kept.
pub const MAX_PUBLISHERS: usize = 64;

/// Receives the messages of the publishers with one key, or with several while they change it.
///
/// Each source address has its own numbers, since it is a part of the IV. A window begins with an
/// authentic message, so forgers occupy none.
pub struct Subscriber<S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> {
    ring: Ring<S>,
    form: Form,
    counters: Counters,
    pdu: Vec<u8>,
    aad: Vec<u8>,
}

impl<S: Suite<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> Subscriber<S> {
    /// A subscriber that knows no publisher.
    ///
    /// With a `window` of 0 an overtaken message is dropped, which is right for states. With a
    /// wider window it is delivered, once.
    pub fn new(key: impl Into<GroupKey<S>>, key_number: u32, form: Form, window: u32) -> Self {
        Self {
            ring: Ring::new(key.into(), key_number, window),
            form,
            counters: Counters::default(),
            pdu: vec![0; CAPACITY],
            aad: Vec::with_capacity(CAPACITY + 64),
        }
    }

    /// Counters of received frames.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Accepts a key beside the others, after which it comes: a publisher that was heard with it is
    /// late with an earlier one. False if the number is accepted, or [`MAX_KEYS`](super::MAX_KEYS)
    /// keys are.
    pub fn accept(&mut self, key: impl Into<GroupKey<S>>, number: u32) -> bool {
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

    /// The publishers that were heard, each with its key and one above the highest number delivered: to
    /// be stored for [`refuse_below`](Self::refuse_below).
    pub fn publishers(&self) -> impl Iterator<Item = (u32, [u8; 6], u64)> {
        self.ring.publishers()
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
        let place = self.ring.find(extension.key)?;
        if frame[6..12] != extension.sender {
            return Err(Dropped::UnknownSender);
        }
        self.ring.check(place, extension.sender, extension.number)?;
        let octets = ethertype.number().to_be_bytes();
        let head = [addresses, &octets, head];
        associated(&mut self.aad, &head, extension.period, self.form, pdu);
        let (src, dst): (&[u8], _) = match self.form {
            Form::Encrypted => (pdu, self.pdu.get_mut(..pdu.len()).ok_or(Dropped::Malformed)?),
            Form::Authenticated => (&[], &mut self.pdu[..0]),
        };
        let nonce = nonce(extension.sender, extension.number);
        let is_authentic = match self.ring.key(place) {
            GroupKey::Gcm(key) => key.open(nonce, &self.aad, src, dst, extension.mac).is_ok(),
            GroupKey::Hmac(key) => {
                self.form == Form::Authenticated && key.verify(&self.aad, &nonce, extension.mac)
            }
        };
        if !is_authentic {
            return Err(Dropped::Unauthentic);
        }
        if self.form == Form::Authenticated {
            self.pdu.get_mut(..pdu.len()).ok_or(Dropped::Malformed)?.copy_from_slice(pdu);
        }
        self.ring.mark(place, extension.sender, extension.number);
        Ok((header, pdu.len()))
    }
}

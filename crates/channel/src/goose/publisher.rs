//! The publisher: events and their retransmissions, prepared in advance.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use antedate_aead::{Hole, NonceSequence, Sparse, Template, TemplateError, TemplatePool};
use antedate_wire::ethernet::HEADER_LEN as ETHERNET_LEN;
use antedate_wire::goose::{HEADER_LEN, Message, Value, Values};
use antedate_wire::routed::{self, Kind};
use antedate_wire::template::What;
use antedate_wire::vlan::{TAG_LEN, Tci};
use antedate_wire::{EtherType, EthernetAddress, sampled};

use super::Form;
use super::counter::{Counter, nonce};
use super::extension::{self, EXTENSION_LEN, KEY_LEN, KeyPeriod};
use super::mac::{GroupKey, Signer};
use crate::sequence::NumberError;

/// The longest PDU.
pub const CAPACITY: usize = 1536;
/// Octets of both addresses.
const ADDRESSES_LEN: usize = 12;
/// The header of Ethernet in a routed message before its element takes the place.
const SLOT: usize = routed::HEADER_LEN + routed::ELEMENT_LEN - HEADER_LEN;
/// The most 16-octet blocks that `timeAllowedToLive`, `t`, `stNum`, `sqNum` and the values may touch,
/// with a block counted for each value.
pub const BLOCKS: usize = 96;

/// The reason why a message has no layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// the message does not fit a frame, or a number does not fit its type
    Message(antedate_wire::Error),
    /// the engine refuses it: too long, or too many blocks touched
    Template(TemplateError),
    /// it is encrypted, and the key is one of HMAC
    Encrypted,
}

impl core::fmt::Display for LayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Message(why) => write!(f, "the message cannot be written: {why}"),
            Self::Template(why) => write!(f, "the message cannot be prepared: {why}"),
            Self::Encrypted => f.write_str("HMAC does not encrypt"),
        }
    }
}

impl core::error::Error for LayoutError {}

/// What is around a PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Envelope {
    /// addresses, EtherType and header before it, the extension behind it
    Ethernet,
    /// the session header of IEC 61850-90-5 before it, the signature behind it
    Session,
}

/// The layout of a control block's frames, and the octets covered by the MAC.
///
/// On Ethernet, in this order: destination, source, EtherType, the header with both reserved fields, the
/// extension up to the IV's length, and in [`Form::Authenticated`] the PDU. VLAN tags are left out,
/// because bridges change them. The IV is the nonce, and GCM covers it.
#[derive(Debug, Clone)]
pub struct Layout {
    form: Form,
    envelope: Envelope,
    /// The eight octets before the PDU in the frame.
    slot: usize,
    /// The VLAN tag, with its TPID.
    tag: Option<[u8; TAG_LEN]>,
    period: [u8; KEY_LEN],
    /// The frame with its original values: Ethernet header, GOOSE header, PDU.
    frame: Vec<u8>,
    /// Associated data, and the encrypted data.
    aad: Vec<u8>,
    payload: Vec<u8>,
    holes: Vec<Hole>,
    /// `timeAllowedToLive` in the frame, the first hole.
    lifetime: Range<usize>,
    /// The other holes in the frame.
    pub(super) places: Vec<(What, Range<usize>)>,
}

impl Envelope {
    /// Late octets of the header.
    fn late(self) -> impl Iterator<Item = Range<usize>> {
        let late = (self == Self::Session).then_some([routed::NUMBER, routed::IV]);
        late.into_iter().flatten()
    }
}

impl Layout {
    /// The layout of messages like this one, with the same publisher and types of values. The
    /// source address is also the [`Counter`]'s sender.
    pub fn new(
        destination: EthernetAddress,
        source: EthernetAddress,
        message: &Message<'_>,
        form: Form,
        period: KeyPeriod,
    ) -> Result<Self, LayoutError> {
        let mut frame = vec![0; ETHERNET_LEN + message.buffer_len()];
        ethernet(&mut frame, destination, source, EtherType::Goose);
        let mut places = Vec::new();
        let mark = &mut |hole: antedate_wire::template::Hole| {
            places.push((hole.what, ETHERNET_LEN + hole.range.start..ETHERNET_LEN + hole.range.end));
        };
        message.emit(&mut frame[ETHERNET_LEN..], mark).map_err(LayoutError::Message)?;
        let lifetime = moved(&message.lifetime_place(), ETHERNET_LEN);
        Self::ethernet(frame, EtherType::Goose, lifetime, places, form, period)
    }

    /// The layout of a stream of sampled values, with the source and the data sets of this message.
    pub fn sampled(
        destination: EthernetAddress,
        source: EthernetAddress,
        message: &sampled::Message<'_>,
        form: Form,
        period: KeyPeriod,
    ) -> Result<Self, LayoutError> {
        let mut frame = vec![0; ETHERNET_LEN + message.buffer_len()];
        ethernet(&mut frame, destination, source, EtherType::SampledValues);
        let mut places = Vec::new();
        let mark = &mut |hole: antedate_wire::template::Hole| {
            places.push((hole.what, moved(&hole.range, ETHERNET_LEN)));
        };
        message.emit(&mut frame[ETHERNET_LEN..], mark).map_err(LayoutError::Message)?;
        Self::ethernet(frame, EtherType::SampledValues, 0..0, places, form, period)
    }

    /// The layout of a written frame with its late places.
    fn ethernet(
        mut frame: Vec<u8>,
        ethertype: EtherType,
        lifetime: Range<usize>,
        mut places: Vec<(What, Range<usize>)>,
        form: Form,
        period: KeyPeriod,
    ) -> Result<Self, LayoutError> {
        secure_header(ethertype, &mut frame);
        places.retain(|(_, range)| !range.is_empty());
        let period = period.emit();
        let pdu = ETHERNET_LEN + HEADER_LEN;
        let mut aad = Vec::new();
        associated(&mut aad, &[&frame[..pdu]], &period, form, &frame[pdu..]);
        let payload = if form == Form::Encrypted { frame[pdu..].to_vec() } else { Vec::new() };
        let holes = core::iter::once(&lifetime)
            .chain(places.iter().map(|(_, range)| range))
            .filter(|range| !range.is_empty())
            .map(|range| match form {
                Form::Encrypted => Hole::Payload(range.start - pdu..range.end - pdu),
                Form::Authenticated => Hole::Aad(range.start + KEY_LEN..range.end + KEY_LEN),
            })
            .collect();
        let (envelope, slot) = (Envelope::Ethernet, ETHERNET_LEN);
        let layout =
            Self { form, envelope, slot, tag: None, period, frame, aad, payload, holes, lifetime, places };
        layout.template().map_err(LayoutError::Template)?;
        Ok(layout)
    }

    /// The layout of routed messages ([`routed`]), which are encrypted. The IV and the number of the
    /// datagram are late octets of the header, since each message has its own.
    pub fn routed(message: &Message<'_>, period: KeyPeriod) -> Result<Self, LayoutError> {
        let (mut frame, mut places) = (vec![0; SLOT + message.buffer_len()], Vec::new());
        let mark =
            &mut |hole: antedate_wire::template::Hole| places.push((hole.what, moved(&hole.range, SLOT)));
        message.emit(&mut frame[SLOT..], mark).map_err(LayoutError::Message)?;
        let element =
            routed::Element { kind: Kind::Goose, simulation: message.simulation, appid: message.appid };
        Self::session(frame, element, moved(&message.lifetime_place(), SLOT), places, period)
    }

    /// The same for a stream of sampled values.
    pub fn routed_sampled(message: &sampled::Message<'_>, period: KeyPeriod) -> Result<Self, LayoutError> {
        let (mut frame, mut places) = (vec![0; SLOT + message.buffer_len()], Vec::new());
        let mark =
            &mut |hole: antedate_wire::template::Hole| places.push((hole.what, moved(&hole.range, SLOT)));
        message.emit(&mut frame[SLOT..], mark).map_err(LayoutError::Message)?;
        let element =
            routed::Element { kind: Kind::Sampled, simulation: message.simulation, appid: message.appid };
        Self::session(frame, element, 0..0, places, period)
    }

    /// The layout of a message that was written with its header of Ethernet, of which the element takes
    /// the place.
    fn session(
        mut frame: Vec<u8>,
        element: routed::Element,
        lifetime: Range<usize>,
        mut places: Vec<(What, Range<usize>)>,
        period: KeyPeriod,
    ) -> Result<Self, LayoutError> {
        places.retain(|(_, range)| !range.is_empty());
        let pdu = frame.len() - SLOT - HEADER_LEN;
        let (head, payload) = frame.split_at_mut(routed::HEADER_LEN);
        element.emit(pdu, payload).map_err(LayoutError::Message)?;
        let KeyPeriod { key, since, minutes_left } = period;
        let header = routed::Header { kind: element.kind, number: 0, since, minutes_left, key, iv: [0; 12] };
        header.emit(payload.len(), head).map_err(LayoutError::Message)?;

        let (aad, payload) = (head.to_vec(), payload.to_vec());
        let late = core::iter::once(&lifetime).chain(places.iter().map(|(_, range)| range));
        let late = late
            .filter(|range| !range.is_empty())
            .map(|range| Hole::Payload(range.start - routed::HEADER_LEN..range.end - routed::HEADER_LEN));
        let holes = [routed::NUMBER, routed::IV].map(Hole::Aad).into_iter().chain(late).collect();
        let (form, envelope, period) = (Form::Encrypted, Envelope::Session, period.emit());
        let (slot, tag) = (SLOT, None);
        let layout = Self { form, envelope, slot, tag, period, frame, aad, payload, holes, lifetime, places };
        layout.template().map_err(LayoutError::Template)?;
        Ok(layout)
    }

    /// The same with a tag of IEEE 802.1Q in each frame: its priority, and a VLAN or 0.
    #[must_use]
    pub const fn tagged(mut self, tci: Tci) -> Self {
        let ([a, b], [c, d]) = (0x8100u16.to_be_bytes(), tci.0.to_be_bytes());
        self.tag = Some([a, b, c, d]);
        self
    }

    fn template(&self) -> Result<Template<'_>, TemplateError> {
        Template::new(&self.aad, &self.payload, &self.holes)
    }

    /// Writes the frame of a message with its VLAN tag, the ciphertext in place of the PDU if it is
    /// encrypted, and the extension. Returns its length.
    fn ethernet_frame(
        &self,
        message: &[u8],
        ciphertext: &[u8],
        nonce: &[u8; 12],
        mac: &[u8; 16],
        out: &mut [u8],
    ) -> usize {
        let (addresses, rest) = message.split_at(ADDRESSES_LEN);
        out[..ADDRESSES_LEN].copy_from_slice(addresses);
        let mut at = ADDRESSES_LEN;
        if let Some(tag) = &self.tag {
            out[at..at + TAG_LEN].copy_from_slice(tag);
            at += TAG_LEN;
        }
        out[at..at + rest.len()].copy_from_slice(rest);
        let len = at + rest.len();
        if self.form == Form::Encrypted {
            out[len - ciphertext.len()..len].copy_from_slice(ciphertext);
        }
        out[len..len + EXTENSION_LEN].copy_from_slice(&extension::emit(&self.period, nonce, mac));
        len + EXTENSION_LEN
    }

    /// Octets of a frame, the extension included.
    pub fn frame_len(&self) -> usize {
        let behind = match self.envelope {
            Envelope::Ethernet => EXTENSION_LEN + self.tag.map_or(0, |tag| tag.len()),
            Envelope::Session => routed::SIGNATURE_LEN,
        };
        self.frame.len() + behind
    }

    /// Octets of a frame that are known before an event.
    pub fn known_len(&self) -> usize {
        let late = self.places.iter().map(|(_, range)| range.clone()).chain(self.envelope.late());
        antedate_wire::template::known(self.frame.len(), late.chain([self.lifetime.clone()]))
    }
}

/// Writes the header of Ethernet.
fn ethernet(frame: &mut [u8], destination: EthernetAddress, source: EthernetAddress, ethertype: EtherType) {
    frame[..6].copy_from_slice(&destination.0);
    frame[6..12].copy_from_slice(&source.0);
    frame[12..14].copy_from_slice(&ethertype.number().to_be_bytes());
}

/// A range of a message in its frame.
const fn moved(range: &Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

/// Announces the extension in Reserved1, and writes the CRC to Reserved2.
fn secure_header(ethertype: EtherType, frame: &mut [u8]) {
    if let Some(header) = frame[ETHERNET_LEN..].first_chunk_mut::<HEADER_LEN>() {
        header[5] = EXTENSION_LEN as u8;
        let crc = extension::crc(ethertype, header);
        header[6..].copy_from_slice(&crc.to_be_bytes());
    }
}

/// The octets covered by the MAC, see [`Layout`].
pub(super) fn associated(out: &mut Vec<u8>, head: &[&[u8]], period: &[u8], form: Form, pdu: &[u8]) {
    out.clear();
    head.iter().for_each(|octets| out.extend_from_slice(octets));
    out.extend_from_slice(period);
    if form == Form::Authenticated {
        out.extend_from_slice(pdu);
    }
}

/// The reason for not publishing. No number was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// there is no number
    Number(NumberError),
    /// the values do not have the types of the layout
    Values,
    /// there is no event to repeat
    NoEvent,
    /// the buffer is shorter than a frame
    Buffer,
}

impl core::fmt::Display for PublishError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number(why) => why.fmt(f),
            Self::Values => f.write_str("the values are not of the layout's types"),
            Self::NoEvent => f.write_str("there was no event yet"),
            Self::Buffer => f.write_str("the buffer is shorter than a frame"),
        }
    }
}

impl core::error::Error for PublishError {}

/// Publishes the messages of one control block.
pub struct Publisher<'t, S: Sparse<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> {
    protection: Protection<'t, S>,
    pub(super) layout: &'t Layout,
    /// The last message, before protection.
    pub(super) frame: Vec<u8>,
    /// The message being written.
    next: Vec<u8>,
    /// The holes' contents, concatenated.
    values: Vec<u8>,
    /// `stNum` and `sqNum` of the last message.
    pub(super) st_num: u32,
    pub(super) sq_num: u32,
    happened: bool,
}

/// What makes the MACs.
#[allow(clippy::large_enum_variant, reason = "a publisher has one")]
enum Protection<'t, S: Sparse<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> {
    Gcm(TemplatePool<'t, S, Numbers, 2, CAPACITY, BLOCKS>),
    /// With the place in the frame up to which it has hashed.
    Hmac(Signer, usize),
}

/// The states of a publisher, for its [successor](Publisher::continued) with another key.
#[derive(Debug, Clone)]
pub struct Last {
    layout: Layout,
    frame: Vec<u8>,
    st_num: u32,
    sq_num: u32,
    happened: bool,
}

/// The counter, for a pool.
struct Numbers(Counter);

impl NonceSequence for Numbers {
    type Error = NumberError;

    fn next(&mut self) -> Result<(u64, antedate_aead::Nonce), NumberError> {
        self.0.next()
    }
}

impl<'t, S: Sparse<NonceBytes = [u8; 12], TagBytes = [u8; 16]>> Publisher<'t, S> {
    /// A publisher before its first event, which has `stNum` 1.
    ///
    /// # Errors
    /// When the layout is encrypted and the key one of HMAC.
    pub fn new(
        key: impl Into<GroupKey<S>>,
        counter: Counter,
        layout: &'t Layout,
    ) -> Result<Self, LayoutError> {
        let protection = match key.into() {
            GroupKey::Gcm(key) => {
                let template = layout.template().map_err(LayoutError::Template)?;
                let pool = TemplatePool::new(key, Numbers(counter), template);
                Protection::Gcm(pool.map_err(LayoutError::Template)?)
            }
            GroupKey::Hmac(_) if layout.form == Form::Encrypted => return Err(LayoutError::Encrypted),
            GroupKey::Hmac(key) => {
                let late = core::iter::once(&layout.lifetime).chain(layout.places.iter().map(|(_, at)| at));
                let late = late.filter(|range| !range.is_empty()).map(|range| range.start).min();
                let known = late.unwrap_or(layout.frame.len());
                Protection::Hmac(Signer::new(key, counter, &layout.aad[..known + KEY_LEN]), known)
            }
        };
        let values: usize = layout.places.iter().map(|(_, range)| range.len()).sum();
        let values =
            layout.envelope.late().map(|range| range.len()).sum::<usize>() + layout.lifetime.len() + values;
        Ok(Self {
            protection,
            layout,
            frame: layout.frame.clone(),
            next: layout.frame.clone(),
            values: vec![0; values],
            st_num: 0,
            sq_num: 0,
            happened: false,
        })
    }

    /// What the publisher with the next key needs of this one.
    #[must_use]
    pub fn into_last(self) -> Last {
        let Self { layout, frame, st_num, sq_num, happened, .. } = self;
        Last { layout: layout.clone(), frame, st_num, sq_num, happened }
    }

    /// Continues the states of a publisher of the same control block, whose key this one replaces:
    /// [`repeat`](Self::repeat) repeats its last event. `None` if the layouts differ in more than their
    /// keys.
    #[must_use]
    pub fn continued(mut self, last: &Last) -> Option<Self> {
        let (layout, before) = (self.layout, &last.layout);
        let same = layout.form == before.form
            && layout.envelope == before.envelope
            && (layout.slot, layout.tag) == (before.slot, before.tag)
            && layout.holes == before.holes
            && layout.lifetime == before.lifetime
            && layout.places == before.places
            && layout.frame.len() == before.frame.len();
        if !same {
            return None;
        }
        let pdu = layout.slot + HEADER_LEN;
        self.frame[pdu..].copy_from_slice(&last.frame[pdu..]);
        (self.st_num, self.sq_num, self.happened) = (last.st_num, last.sq_num, last.happened);
        Some(self)
    }

    /// Prepares the next frames for at most `budget` units, fewer if everything is prepared.
    /// Returns the units done.
    pub fn idle(&mut self, budget: u32) -> u32 {
        match &mut self.protection {
            Protection::Gcm(pool) => pool.idle(budget),
            Protection::Hmac(..) => 0,
        }
    }

    /// Prepared frames: none with a key of HMAC.
    pub const fn prepared(&self) -> usize {
        match &self.protection {
            Protection::Gcm(pool) => pool.prepared(),
            Protection::Hmac(..) => 0,
        }
    }

    /// The counter, to reserve more numbers.
    pub fn counter_mut(&mut self) -> &mut Counter {
        match &mut self.protection {
            Protection::Gcm(pool) => &mut pool.sequence_mut().0,
            Protection::Hmac(signer, _) => &mut signer.counter,
        }
    }

    /// Publishes an event: writes its frame to the start of `out` and returns its length. The next
    /// message follows within `lifetime` milliseconds.
    pub fn event(
        &mut self,
        t: [u8; 8],
        lifetime: u32,
        values: &[Value<'_>],
        out: &mut [u8],
    ) -> Result<usize, PublishError> {
        if out.len() < self.layout.frame_len() {
            return Err(PublishError::Buffer);
        }
        let model = &self.layout.frame[..];
        let slot = self.layout.slot;
        let read = Message::parse_pdu(0, &model[slot + HEADER_LEN..]).map_err(|_| PublishError::Values)?;
        // State 0 is not used (IEC 61850-8-1, 18.1.2.5).
        let st_num = self.st_num.checked_add(1).unwrap_or(1);
        let message = Message { t, st_num, sq_num: 0, all_data: Values::Given(values), ..read };
        let mut places = self.layout.places.iter();
        let mut same = true;
        let written = &mut self.next[slot..];
        let len = message.emit(written, &mut |hole| {
            if !hole.range.is_empty() {
                let range = moved(&hole.range, slot);
                same &= places.next() == Some(&(hole.what, range));
            }
        });
        if len != Ok(written.len()) || !same || places.next().is_some() || !self.alike() {
            return Err(PublishError::Values);
        }
        self.next[self.layout.lifetime.clone()].copy_from_slice(&lifetime.to_be_bytes());
        // What is before the PDU stays.
        let header = slot..slot + HEADER_LEN;
        self.next[header.clone()].copy_from_slice(&model[header]);
        core::mem::swap(&mut self.frame, &mut self.next);
        match self.seal(out) {
            Ok(len) => {
                (self.st_num, self.sq_num, self.happened) = (st_num, 0, true);
                Ok(len)
            }
            Err(why) => {
                core::mem::swap(&mut self.frame, &mut self.next);
                Err(why)
            }
        }
    }

    /// Whether the next PDU equals the layout's outside its holes.
    fn alike(&self) -> bool {
        let (mut at, model) = (self.layout.slot + HEADER_LEN, &self.layout.frame);
        let ends = core::iter::once(self.layout.lifetime.clone())
            .chain(self.layout.places.iter().map(|(_, range)| range.clone()))
            .chain(core::iter::once(model.len()..model.len()));
        ends.into_iter().all(|hole| {
            let known = at..hole.start;
            at = hole.end;
            self.next.get(known.clone()) == model.get(known)
        })
    }

    /// Repeats the last event with the next `sqNum`. The next message follows within `lifetime`
    /// milliseconds.
    pub fn repeat(&mut self, lifetime: u32, out: &mut [u8]) -> Result<usize, PublishError> {
        if !self.happened {
            return Err(PublishError::NoEvent);
        }
        if out.len() < self.layout.frame_len() {
            return Err(PublishError::Buffer);
        }
        // 0 is for the first message of an event only (IEC 61850-8-1, 18.1.2.5).
        let sq_num = self.sq_num.checked_add(1).unwrap_or(1);
        let place = self.layout.places.iter().find(|(what, _)| *what == What::Sequence);
        let Some(octets) = place.and_then(|(_, range)| self.frame.get_mut(range.clone())) else {
            return Err(PublishError::Values);
        };
        octets.copy_from_slice(&sq_num.to_be_bytes());
        self.frame[self.layout.lifetime.clone()].copy_from_slice(&lifetime.to_be_bytes());
        let len = self.seal(out)?;
        self.sq_num = sq_num;
        Ok(len)
    }

    /// Spends a number on the message.
    pub(super) fn seal(&mut self, out: &mut [u8]) -> Result<usize, PublishError> {
        let Layout { envelope, places, lifetime, .. } = self.layout;
        let sender = self.counter_mut().sender();
        let pool = match &mut self.protection {
            Protection::Gcm(pool) => pool,
            Protection::Hmac(signer, known) => {
                let (number, _) = signer.counter.next().map_err(PublishError::Number)?;
                let nonce = nonce(sender, number);
                let mac = signer.sign(&self.frame[*known..], &nonce);
                return Ok(self.layout.ethernet_frame(&self.frame, &[], &nonce, &mac, out));
            }
        };
        let prepared = pool.next().map_err(PublishError::Number)?;
        let number = prepared.number();
        let nonce = nonce(sender, number);
        if *envelope == Envelope::Session {
            routed::renumber(&mut self.frame, number as u32, &nonce);
        }
        let mut values = &mut self.values[..];
        let late = core::iter::once(lifetime).chain(places.iter().map(|(_, range)| range));
        for range in envelope.late().chain(late.cloned()) {
            let (here, behind) = values.split_at_mut(range.len());
            here.copy_from_slice(&self.frame[range]);
            values = behind;
        }
        let sealed = prepared.seal_joined(&self.values).map_err(|_| PublishError::Values)?;
        if *envelope == Envelope::Session {
            let (head, rest) = out.split_at_mut(routed::HEADER_LEN);
            head.copy_from_slice(&self.frame[..routed::HEADER_LEN]);
            let ciphertext = sealed.ciphertext();
            rest[..ciphertext.len()].copy_from_slice(ciphertext);
            routed::sign(&mut rest[ciphertext.len()..], sealed.tag().as_bytes());
            return Ok(self.layout.frame_len());
        }
        let ciphertext = sealed.ciphertext();
        Ok(self.layout.ethernet_frame(&self.frame, ciphertext, &nonce, sealed.tag().as_bytes(), out))
    }
}

//! The payload of an enhanced beacon of TSCH (clauses 6.3.6 and 7.4.4): what a device needs to join.
//!
//! ```text
//!   2   payload element: MLME
//!       2+6     TSCH synchronization: ASN, join metric
//!       2+n     TSCH timeslot: a template, with its times or without
//!       2+1     channel hopping: a sequence (long form)
//!       2+n     slotframes and links
//! ```
//!
//! A frame that carries it has header termination 1. Its ASN is that of the slot it is sent in, at
//! [`ASN_AT`] of the payload that [`Repr::emit`] writes.

use super::ie::{
    NestedIe, NestedIes, PayloadGroupId, PayloadIes, PayloadWriter, ShortNestedId, Synchronization,
};
use super::{Asn, FormatError};
use crate::{Error, Result};

/// Offset of the ASN in a payload that [`Repr::emit`] writes.
pub const ASN_AT: usize = 2 + 2;

/// The identifier of the channel hopping element, of the long form (table 7-16).
const CHANNEL_HOPPING: u8 = 0x9;

/// Octets of the times of a timeslot template: with a TsMaxTx and TsTimeslotLength of two octets, or
/// of three.
const TIMES: [usize; 2] = [24, 26];

/// A timeslot template (clause 7.4.4.4). Times are in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Template {
    /// a template that the device knows: 0 is the default of its PHY
    Known(u8),
    /// a template with its times
    Times(u8, Times),
}

/// The times of a template in the order of the element, by the standard's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Times {
    /// TsCcaOffset, TsCca
    pub cca: [u16; 2],
    /// TsTxOffset
    pub tx_offset: u16,
    /// TsRxOffset
    pub rx_offset: u16,
    /// TsRxAckDelay
    pub rx_ack_delay: u16,
    /// TsTxAckDelay
    pub tx_ack_delay: u16,
    /// TsRxWait
    pub rx_wait: u16,
    /// TsAckWait
    pub ack_wait: u16,
    /// TsRxTx
    pub rx_tx: u16,
    /// TsMaxAck
    pub max_ack: u16,
    /// TsMaxTx
    pub max_tx: u32,
    /// TsTimeslotLength
    pub length: u32,
}

/// A link of a slotframe (clause 7.4.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// the slot within the slotframe
    pub slot: u16,
    /// added to the slot number to select the channel
    pub channel_offset: u16,
    /// its use, by [`Link::TRANSMIT`] and the others
    pub options: u8,
}

impl Link {
    /// the device may send
    pub const TRANSMIT: u8 = 1;
    /// the device listens
    pub const RECEIVE: u8 = 2;
    /// after a backoff, as others may send too
    pub const SHARED: u8 = 4;
    /// its frames correct the clock
    pub const TIMEKEEPING: u8 = 8;

    const LEN: usize = 5;

    fn parse(octets: [u8; Self::LEN]) -> Self {
        let [slot, slot_high, channel, channel_high, options] = octets;
        Self {
            slot: u16::from_le_bytes([slot, slot_high]),
            channel_offset: u16::from_le_bytes([channel, channel_high]),
            options,
        }
    }

    const fn to_octets(self) -> [u8; Self::LEN] {
        let ([slot, slot_high], [channel, channel_high]) =
            (self.slot.to_le_bytes(), self.channel_offset.to_le_bytes());
        [slot, slot_high, channel, channel_high, self.options]
    }
}

/// A slotframe with its links, to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotframeRepr<'a> {
    /// its number in the network
    pub handle: u8,
    /// its length in slots
    pub length: u16,
    /// its links
    pub links: &'a [Link],
}

/// The payload of an enhanced beacon, to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr<'a> {
    /// the sender's distance from the network's root
    pub join_metric: u8,
    /// the timeslot template
    pub template: Template,
    /// the channel hopping sequence; 0 is the default of the PHY
    pub hopping: u8,
    /// the slotframes
    pub slotframes: &'a [SlotframeRepr<'a>],
}

impl Repr<'_> {
    /// The payload that RFC 8180 prescribes: default template and hopping sequence, and one slotframe
    /// with one shared cell, the minimal cell.
    pub const fn minimal<'a>(join_metric: u8, slotframe: &'a [SlotframeRepr<'a>; 1]) -> Repr<'a> {
        Repr { join_metric, template: Template::Known(0), hopping: 0, slotframes: slotframe }
    }

    /// Writes the payload with this slot to the front of `buffer`, and returns its length.
    pub fn emit(&self, asn: Asn, buffer: &mut [u8]) -> Result<usize> {
        let mut out = Out { buffer, len: 2 };
        out.put(&Synchronization { asn, join_metric: self.join_metric }.to_nested())?;
        match self.template {
            Template::Known(id) => out.nested(ShortNestedId::TschTimeslot, &[&[id]])?,
            Template::Times(id, times) => {
                let (octets, len) = times.emit();
                let times = octets.get(..len).unwrap_or_default();
                out.nested(ShortNestedId::TschTimeslot, &[&[id], times])?;
            }
        }
        out.put(&[1, CHANNEL_HOPPING << 3 | 0x80, self.hopping])?;
        let links: usize = self.slotframes.iter().map(|of| 4 + Link::LEN * of.links.len()).sum();
        let count = u8::try_from(self.slotframes.len()).map_err(|_| Error::Length)?;
        let len = u8::try_from(1 + links).map_err(|_| Error::Length)?;
        out.put(&[len, ShortNestedId::TschSlotframeAndLink.number(), count])?;
        for SlotframeRepr { handle, length, links } in self.slotframes {
            let [low, high] = length.to_le_bytes();
            out.put(&[*handle, low, high, u8::try_from(links.len()).map_err(|_| Error::Length)?])?;
            links.iter().try_for_each(|link| out.put(&link.to_octets()))?;
        }
        let len = out.len;
        PayloadWriter::describe(buffer, PayloadGroupId::Mlme, len - 2)
    }
}

struct Out<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl Out<'_> {
    fn put(&mut self, octets: &[u8]) -> Result<()> {
        let end = self.len + octets.len();
        self.buffer.get_mut(self.len..end).ok_or(Error::Truncated)?.copy_from_slice(octets);
        self.len = end;
        Ok(())
    }

    /// An element of the short form.
    fn nested(&mut self, id: ShortNestedId, content: &[&[u8]]) -> Result<()> {
        let len: usize = content.iter().map(|part| part.len()).sum();
        self.put(&[u8::try_from(len).map_err(|_| Error::Length)?, id.number()])?;
        content.iter().try_for_each(|part| self.put(part))
    }
}

impl Times {
    fn parse(octets: &[u8]) -> Option<Self> {
        let (short, long) = octets.split_first_chunk::<20>()?;
        let at = |at: usize| u16::from_le_bytes([short[2 * at], short[2 * at + 1]]);
        let (max_tx, length) = match *long {
            [a, b, c, d] => ([a, b, 0, 0], [c, d, 0, 0]),
            [a, b, c, d, e, f] => ([a, b, c, 0], [d, e, f, 0]),
            _ => return None,
        };
        Some(Self {
            cca: [at(0), at(1)],
            tx_offset: at(2),
            rx_offset: at(3),
            rx_ack_delay: at(4),
            tx_ack_delay: at(5),
            rx_wait: at(6),
            ack_wait: at(7),
            rx_tx: at(8),
            max_ack: at(9),
            max_tx: u32::from_le_bytes(max_tx),
            length: u32::from_le_bytes(length),
        })
    }

    /// The octets and their number. Times beyond 24 bits are cut off.
    fn emit(&self) -> ([u8; 26], usize) {
        let mut out = [0; 26];
        let short = [
            self.cca[0],
            self.cca[1],
            self.tx_offset,
            self.rx_offset,
            self.rx_ack_delay,
            self.tx_ack_delay,
            self.rx_wait,
            self.ack_wait,
            self.rx_tx,
            self.max_ack,
        ];
        let (places, _) = out.as_chunks_mut::<2>();
        for (place, time) in places.iter_mut().zip(short) {
            *place = time.to_le_bytes();
        }
        let long = self.max_tx > 0xffff || self.length > 0xffff;
        let of = if long { 3 } else { 2 };
        out[20..20 + of].copy_from_slice(&self.max_tx.to_le_bytes()[..of]);
        out[20 + of..20 + 2 * of].copy_from_slice(&self.length.to_le_bytes()[..of]);
        (out, TIMES[usize::from(long)])
    }
}

/// The payload of an enhanced beacon, as read.
#[derive(Debug, Clone)]
pub struct Advertisement<'a> {
    /// the slot of the beacon, and the sender's distance from the root
    pub synchronization: Synchronization,
    /// the timeslot template, if present
    pub template: Option<Template>,
    /// the channel hopping sequence, if present
    pub hopping: Option<u8>,
    slotframes: Slotframes<'a>,
}

impl<'a> Advertisement<'a> {
    /// Reads payload elements.
    ///
    /// # Errors
    ///
    /// [`FormatError::InformationElement`] without TSCH synchronization, and for a malformed element.
    /// Elements of other kinds are passed over.
    pub fn parse(payload: &'a [u8]) -> core::result::Result<Self, FormatError> {
        let (elements, _) = PayloadIes::split(payload)?;
        let (mut synchronization, mut template, mut hopping, mut slotframes) = (None, None, None, &[][..]);
        for nested in elements.filter(|ie| ie.group == PayloadGroupId::Mlme).map(|ie| ie.content) {
            for ie in NestedIes::new(nested) {
                match ie? {
                    NestedIe::Short(ShortNestedId::TschSynchronization, content) => {
                        let read = Synchronization::parse(content);
                        synchronization = Some(read.ok_or(FormatError::InformationElement)?);
                    }
                    NestedIe::Short(ShortNestedId::TschTimeslot, content) => {
                        template = Some(read_template(content)?);
                    }
                    NestedIe::Short(ShortNestedId::TschSlotframeAndLink, content) => slotframes = content,
                    NestedIe::Long(CHANNEL_HOPPING, content) => {
                        hopping = Some(*content.first().ok_or(FormatError::InformationElement)?);
                    }
                    _ => {}
                }
            }
        }
        let synchronization = synchronization.ok_or(FormatError::InformationElement)?;
        Ok(Self { synchronization, template, hopping, slotframes: Slotframes::parse(slotframes)? })
    }

    /// The slotframes.
    pub fn slotframes(&self) -> Slotframes<'a> {
        self.slotframes.clone()
    }
}

fn read_template(content: &[u8]) -> core::result::Result<Template, FormatError> {
    let (id, times) = content.split_first().ok_or(FormatError::InformationElement)?;
    if times.is_empty() {
        return Ok(Template::Known(*id));
    }
    Times::parse(times).map(|times| Template::Times(*id, times)).ok_or(FormatError::InformationElement)
}

/// A slotframe of a beacon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slotframe<'a> {
    /// its number in the network
    pub handle: u8,
    /// its length in slots
    pub length: u16,
    links: &'a [[u8; Link::LEN]],
}

impl<'a> Slotframe<'a> {
    /// Its links.
    pub fn links(&self) -> impl Iterator<Item = Link> + use<'a> {
        self.links.iter().map(|octets| Link::parse(*octets))
    }
}

/// The slotframes of a beacon.
#[derive(Debug, Clone, Default)]
pub struct Slotframes<'a> {
    octets: &'a [u8],
}

impl<'a> Slotframes<'a> {
    /// Checks the content of an element, which may be empty if the element is absent.
    fn parse(content: &'a [u8]) -> core::result::Result<Self, FormatError> {
        let Some((count, octets)) = content.split_first() else { return Ok(Self::default()) };
        let all = Self { octets };
        let mut left = all.clone();
        (&mut left).take((*count).into()).count();
        let fits = left.octets.is_empty() && all.clone().count() == usize::from(*count);
        if fits { Ok(all) } else { Err(FormatError::InformationElement) }
    }
}

impl<'a> Iterator for Slotframes<'a> {
    type Item = Slotframe<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let ([handle, low, high, count], rest) = self.octets.split_first_chunk::<4>()?;
        let (links, rest) = rest.split_at_checked(Link::LEN * usize::from(*count))?;
        self.octets = rest;
        let (links, _) = links.as_chunks();
        Some(Slotframe { handle: *handle, length: u16::from_le_bytes([*low, *high]), links })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: [Link; 2] = [
        Link { slot: 0, channel_offset: 0, options: 0x0f },
        Link { slot: 7, channel_offset: 0x102, options: Link::RECEIVE },
    ];
    const SLOTFRAMES: [SlotframeRepr<'_>; 2] = [
        SlotframeRepr { handle: 0, length: 101, links: &LINKS },
        SlotframeRepr { handle: 3, length: 7, links: &[] },
    ];

    fn times(length: u32) -> Times {
        Times {
            cca: [1800, 128],
            tx_offset: 2120,
            rx_offset: 1020,
            rx_ack_delay: 800,
            tx_ack_delay: 1000,
            rx_wait: 2200,
            ack_wait: 400,
            rx_tx: 192,
            max_ack: 2400,
            max_tx: 4256,
            length,
        }
    }

    #[test]
    fn minimal_beacon_has_the_octets_of_rfc_8180() {
        // Appendix A.1, with a slot and a slotframe of one shared cell.
        let minimal = [SlotframeRepr { handle: 0, length: 0x65, links: &LINKS[..1] }];
        let mut out = [0; 64];
        let asn = Asn::new(0x05_0403_0201).unwrap();
        let len = Repr::minimal(0, &minimal).emit(asn, &mut out).unwrap();
        let expected = [
            0x1a, 0x88, // payload element MLME of 26 octets
            6, 0x1a, 1, 2, 3, 4, 5, 0, // synchronization
            1, 0x1c, 0, // timeslot
            1, 0xc8, 0, // channel hopping
            10, 0x1b, 1, 0, 0x65, 0, 1, 0, 0, 0, 0, 0x0f, // slotframe and link
        ];
        assert_eq!(out[..len], expected);
        assert_eq!(out[ASN_AT..ASN_AT + 5], asn.to_le_bytes());
    }

    #[test]
    fn advertisement_round_trips() {
        for template in
            [Template::Known(0), Template::Times(1, times(10_000)), Template::Times(2, times(100_000))]
        {
            let repr = Repr { join_metric: 9, template, hopping: 1, slotframes: &SLOTFRAMES };
            let mut out = [0; 96];
            let len = repr.emit(Asn::MAX, &mut out).unwrap();
            let read = Advertisement::parse(&out[..len]).unwrap();
            assert_eq!(read.synchronization, Synchronization { asn: Asn::MAX, join_metric: 9 });
            assert_eq!((read.template, read.hopping), (Some(template), Some(1)));
            let [first, second] = [0, 1].map(|at| read.slotframes().nth(at).unwrap());
            assert_eq!((first.handle, first.length, second.length), (0, 101, 7));
            assert!(first.links().eq(LINKS) && second.links().next().is_none());
            assert!((0..len).all(|cut| Advertisement::parse(&out[..cut]).is_err()), "cut off");
            assert!((0..len).all(|short| repr.emit(Asn::MAX, &mut [0; 96][..short]).is_err()));
        }
    }

    #[test]
    fn advertisement_without_a_slot_is_refused() {
        let malformed = Err(FormatError::InformationElement);
        let read = |octets: &[u8]| Advertisement::parse(octets).map(|_| ());
        assert_eq!(read(&[]), malformed);
        assert_eq!(read(&[3, 0x88, 1, 0x1c, 0]), malformed);
        // A count of slotframes, or of links, beyond the element.
        let with = |slotframes: &[u8]| {
            let head = [10 + slotframes.len() as u8, 0x88, 6, 0x1a, 0, 0, 0, 0, 0, 0];
            read(&[&head[..], &[slotframes.len() as u8, 0x1b], slotframes].concat())
        };
        assert_eq!(with(&[0]), Ok(()));
        assert_eq!(with(&[1]), malformed);
        assert_eq!(with(&[1, 0, 7, 0, 1, 0, 0, 0, 0]), malformed);
        assert_eq!(with(&[0, 0]), malformed);
    }
}

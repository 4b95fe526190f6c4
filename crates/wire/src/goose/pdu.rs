//! The whole GOOSE PDU: `IECGoosePdu` of IEC 61850-8-1 annex A.
//!
//! A data set has one layout: each number has the width of its type, independent of its value. So
//! the places of `stNum`, `sqNum`, `t` and the values are known before an event, and
//! [`Message::emit`] reports them.

use core::ops::Range;

use super::ber::{self, expect};
use super::data::{MAX_DEPTH, Values, integer};
use super::{HEADER_LEN, Publisher, Repr, tag};
use crate::template::{Hole, What, Writer};
use crate::{Error, Result};

/// Octets of an INT32U of fixed length: one of sign, four of magnitude.
const INT32U: u8 = 5;

/// A GOOSE message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Message<'a> {
    /// the application identifier
    pub appid: u16,
    /// the publisher
    pub publisher: Publisher<'a>,
    /// the time of the event: seconds since 1970, a fraction of 24 bits, and an octet of quality
    pub t: [u8; 8],
    /// event counter, from 1
    pub st_num: u32,
    /// message counter within an event, from 0
    pub sq_num: u32,
    /// a test device published the message
    pub simulation: bool,
    /// the revision of the configuration
    pub conf_rev: u32,
    /// the control block needs commissioning
    pub nds_com: bool,
    /// the values of the data set
    pub all_data: Values<'a>,
}

impl<'a> Message<'a> {
    /// Reads the octets behind the EtherType up to the end of the PDU. Octets behind the PDU
    /// (padding, a security extension) are ignored.
    ///
    /// # Errors
    /// The header's length differs from the PDU's, a field is out of the standard's order, a length
    /// is not in its shortest form, the number of entries differs from the announced one, or
    /// structures are nested deeper than [`MAX_DEPTH`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let header = Repr::parse(bytes)?;
        let pdu = bytes.get(HEADER_LEN..usize::from(header.length)).ok_or(Error::Length)?;
        Self::parse_pdu(header.appid, pdu)
    }

    /// Reads a PDU without its header.
    pub fn parse_pdu(appid: u16, pdu: &'a [u8]) -> Result<Self> {
        let (fields, behind) = expect(pdu, tag::GOOSE_PDU)?;
        if !behind.is_empty() {
            return Err(Error::Length);
        }
        let mut fields = Fields(fields);
        let gocb_ref = fields.next(tag::GOCB_REF)?;
        let time_allowed_to_live = fields.number(tag::TIME_ALLOWED_TO_LIVE)?;
        let dat_set = fields.next(tag::DAT_SET)?;
        let go_id = fields.optional(tag::GO_ID)?;
        let t = fields.next(tag::T)?.try_into().map_err(|_| Error::Length)?;
        let (st_num, sq_num) = (fields.number(tag::ST_NUM)?, fields.number(tag::SQ_NUM)?);
        let simulation = fields.optional(tag::SIMULATION)?.map_or(Ok(false), boolean)?;
        let conf_rev = fields.number(tag::CONF_REV)?;
        let nds_com = fields.optional(tag::NDS_COM)?.map_or(Ok(false), boolean)?;
        let entries = fields.number(tag::NUM_DAT_SET_ENTRIES)?;
        let data = fields.next(tag::ALL_DATA)?;
        if !fields.0.is_empty() {
            return Err(Error::Length);
        }
        if Values::check(data, MAX_DEPTH)? != entries as usize {
            return Err(Error::Value);
        }
        let publisher = Publisher { gocb_ref, time_allowed_to_live, dat_set, go_id };
        let all_data = Values::Read(data);
        Ok(Self { appid, publisher, t, st_num, sq_num, simulation, conf_rev, nds_com, all_data })
    }

    /// Octets of the fields, without tag and length of the PDU.
    fn fields_len(&self) -> usize {
        let element = |len: usize| ber::head_len(len) + len;
        let Publisher { gocb_ref, dat_set, go_id, .. } = &self.publisher;
        let numbers = 5 * element(usize::from(INT32U));
        let flags = 2 * element(1);
        element(gocb_ref.len())
            + element(dat_set.len())
            + go_id.map_or(0, |id| element(id.len()))
            + element(8)
            + numbers
            + flags
            + element(self.all_data.len())
    }

    /// The four octets of `timeAllowedToLive` that [`emit`](Self::emit) writes. They are no hole, for
    /// a publisher that says the same in each message.
    #[must_use]
    pub fn lifetime_place(&self) -> Range<usize> {
        let reference = self.publisher.gocb_ref.len();
        let head = HEADER_LEN + ber::head_len(self.fields_len());
        // The sign octet is always 0.
        let start = head + ber::head_len(reference) + reference + ber::head_len(usize::from(INT32U)) + 1;
        start..start + size_of::<u32>()
    }

    /// Octets from the APPID to the end.
    pub fn buffer_len(&self) -> usize {
        let fields = self.fields_len();
        HEADER_LEN + ber::head_len(fields) + fields
    }

    /// Writes header and PDU to the front of `buffer` and returns the length. Calls `mark` with the
    /// place of `t`, `stNum`, `sqNum` and each value. The layout depends only on the publisher and
    /// the types of the values.
    pub fn emit(&self, buffer: &mut [u8], mark: &mut dyn FnMut(Hole)) -> Result<usize> {
        let length = u16::try_from(self.buffer_len()).map_err(|_| Error::Length)?;
        let reserved1 = if self.simulation { 0x8000 } else { 0 };
        let mut header = [0; HEADER_LEN];
        Repr { appid: self.appid, length, reserved1, reserved2: 0 }.emit(&mut header)?;
        let mut out = Writer::new(buffer, mark);
        out.put(&header)?;
        let (head, used) = ber::head(tag::GOOSE_PDU, self.fields_len())?;
        out.put(&head[..used])?;

        let Publisher { gocb_ref, time_allowed_to_live, dat_set, go_id } = &self.publisher;
        known(&mut out, tag::GOCB_REF, gocb_ref)?;
        let mut number = [0; 9];
        known(&mut out, tag::TIME_ALLOWED_TO_LIVE, int32u(&mut number, *time_allowed_to_live)?)?;
        known(&mut out, tag::DAT_SET, dat_set)?;
        if let Some(id) = go_id {
            known(&mut out, tag::GO_ID, id)?;
        }
        late(&mut out, tag::T, What::Time, &self.t)?;
        late(&mut out, tag::ST_NUM, What::State, int32u(&mut number, self.st_num)?)?;
        late(&mut out, tag::SQ_NUM, What::Sequence, int32u(&mut number, self.sq_num)?)?;
        known(&mut out, tag::SIMULATION, &[u8::from(self.simulation)])?;
        known(&mut out, tag::CONF_REV, int32u(&mut number, self.conf_rev)?)?;
        known(&mut out, tag::NDS_COM, &[u8::from(self.nds_com)])?;
        let entries = u32::try_from(self.all_data.iter().count()).map_err(|_| Error::Length)?;
        known(&mut out, tag::NUM_DAT_SET_ENTRIES, int32u(&mut number, entries)?)?;
        let (head, used) = ber::head(tag::ALL_DATA, self.all_data.len())?;
        out.put(&head[..used])?;
        let mut index = 0;
        self.all_data.iter().try_for_each(|value| value.emit(&mut out, &mut index))?;
        Ok(out.len())
    }
}

fn int32u(out: &mut [u8; 9], value: u32) -> Result<&[u8]> {
    integer(out, i128::from(value), INT32U)
}

fn known(out: &mut Writer<'_, '_>, tag: u8, value: &[u8]) -> Result<()> {
    let (head, used) = ber::head(tag, value.len())?;
    out.put(&head[..used])?;
    out.put(value)
}

fn late(out: &mut Writer<'_, '_>, tag: u8, what: What, value: &[u8]) -> Result<()> {
    let (head, used) = ber::head(tag, value.len())?;
    out.put(&head[..used])?;
    // The sign octet of a number is always 0.
    let known = usize::from(value.len() == usize::from(INT32U));
    out.put(&value[..known])?;
    out.hole(what, &value[known..])
}

/// Consecutive fields.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self, tag: u8) -> Result<&'a [u8]> {
        let (value, rest) = expect(self.0, tag)?;
        self.0 = rest;
        Ok(value)
    }

    fn optional(&mut self, tag: u8) -> Result<core::option::Option<&'a [u8]>> {
        if self.0.first() == Some(&tag) { self.next(tag).map(Some) } else { Ok(None) }
    }

    /// An INT32U.
    fn number(&mut self, tag: u8) -> Result<u32> {
        let value = self.next(tag)?;
        if value.len() > usize::from(INT32U) {
            return Err(Error::Length);
        }
        ber::unsigned(value)?.try_into().map_err(|_| Error::Value)
    }
}

fn boolean(value: &[u8]) -> Result<bool> {
    match value {
        [value] => Ok(*value != 0),
        _ => Err(Error::Length),
    }
}

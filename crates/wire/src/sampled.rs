//! Sampled values (IEC 61850-9-2): the `SavPdu` of clause 8.5.2, as 9-2LE and IEC 61869-9 use it.
//!
//! The frame has the header of GOOSE ([`goose::Repr`](crate::goose::Repr)) behind EtherType 88-BA. A
//! stream has one layout: [`Message::emit`] reports the places of `smpCnt`, `refrTm`, `smpSynch` and
//! the samples, which are the same in each frame.

use crate::goose::ber::{self, expect};
use crate::goose::{HEADER_LEN, Repr};
use crate::template::{Hole, What, Writer};
use crate::{Error, Result};

/// The most ASDUs of a frame that are read.
pub const MAX_ASDUS: usize = 64;

mod tag {
    pub(super) const SAV_PDU: u8 = 0x60;
    pub(super) const NO_ASDU: u8 = 0x80;
    pub(super) const SEQ_ASDU: u8 = 0xa2;
    pub(super) const ASDU: u8 = 0x30;
    pub(super) const SV_ID: u8 = 0x80;
    pub(super) const DAT_SET: u8 = 0x81;
    pub(super) const SMP_CNT: u8 = 0x82;
    pub(super) const CONF_REV: u8 = 0x83;
    pub(super) const REFR_TM: u8 = 0x84;
    pub(super) const SMP_SYNCH: u8 = 0x85;
    pub(super) const SMP_RATE: u8 = 0x86;
    pub(super) const SAMPLE: u8 = 0x87;
    pub(super) const SMP_MOD: u8 = 0x88;
}

/// One set of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asdu<'a> {
    /// the stream's identifier
    pub sv_id: &'a [u8],
    /// the reference of the data set, if present
    pub dat_set: Option<&'a [u8]>,
    /// the sample's number, which begins again each second
    pub smp_cnt: u16,
    /// the revision of the configuration
    pub conf_rev: u32,
    /// the time of the sample, if present: as in GOOSE
    pub refr_tm: Option<[u8; 8]>,
    /// the synchronisation: 0 none, 1 local, 2 global
    pub smp_synch: u8,
    /// samples in a period or second, if present
    pub smp_rate: Option<u16>,
    /// the samples; in 9-2LE pairs of INT32 and quality, four octets each
    pub sample: &'a [u8],
    /// the unit of `smp_rate`, if present
    pub smp_mod: Option<u16>,
}

/// A message of a stream: one ASDU, or several.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// the application identifier, 0x4000 to 0x7fff
    pub appid: u16,
    /// a test device published the message
    pub simulation: bool,
    /// the ASDUs
    pub asdus: Asdus<'a>,
}

/// ASDUs, to be written or as read.
#[derive(Debug, Clone, Copy)]
pub enum Asdus<'a> {
    /// to be written
    Given(&'a [Asdu<'a>]),
    /// as read, checked
    Read(&'a [u8]),
}

impl<'a> Asdus<'a> {
    /// The ASDUs in their order.
    pub fn iter(&self) -> impl Iterator<Item = Asdu<'a>> + use<'a> {
        let (mut given, mut read) = match *self {
            Self::Given(given) => (given.iter(), &[][..]),
            Self::Read(read) => ([].iter(), read),
        };
        core::iter::from_fn(move || {
            given.next().copied().or_else(|| {
                let (asdu, rest) = Asdu::parse(read).ok()?;
                read = rest;
                Some(asdu)
            })
        })
    }
}

impl<'a> Message<'a> {
    /// Reads the octets behind the EtherType up to the end of the PDU. Octets behind it (padding, a
    /// security extension) are ignored.
    ///
    /// # Errors
    /// Lengths that contradict each other or are not in their shortest form, fields out of the
    /// standard's order, none or more than [`MAX_ASDUS`] ASDUs, or another number than announced.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let header = Repr::parse(bytes)?;
        let pdu = bytes.get(HEADER_LEN..usize::from(header.length)).ok_or(Error::Length)?;
        let message = Self::parse_pdu(header.appid, pdu)?;
        Ok(Self { simulation: header.reserved1 & 0x8000 != 0, ..message })
    }

    /// Reads a PDU without its header.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_pdu(appid: u16, pdu: &'a [u8]) -> Result<Self> {
        let (fields, behind) = expect(pdu, tag::SAV_PDU)?;
        let (count, fields) = expect(fields, tag::NO_ASDU)?;
        let (asdus, rest) = expect(fields, tag::SEQ_ASDU)?;
        if !behind.is_empty() || !rest.is_empty() {
            return Err(Error::Length);
        }
        let (mut left, mut found) = (asdus, 0u64);
        while !left.is_empty() {
            left = Asdu::parse(left)?.1;
            found += 1;
        }
        if found == 0 || found > MAX_ASDUS as u64 || ber::unsigned(count)? != found {
            return Err(Error::Value);
        }
        Ok(Self { appid, simulation: false, asdus: Asdus::Read(asdus) })
    }

    /// Octets of all ASDUs, and their number.
    fn asdus_len(&self) -> (usize, usize) {
        let element = |asdu: Asdu<'_>| ber::head_len(asdu.len()) + asdu.len();
        self.asdus.iter().map(element).fold((0, 0), |(len, count), one| (len + one, count + 1))
    }

    fn fields_len(&self) -> usize {
        let (asdus, _) = self.asdus_len();
        3 + ber::head_len(asdus) + asdus
    }

    /// Octets from the APPID to the end.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        let fields = self.fields_len();
        HEADER_LEN + ber::head_len(fields) + fields
    }

    /// Writes header and PDU to the front of `buffer` and returns the length. Calls `mark` with the
    /// places of what is new in each message.
    ///
    /// # Errors
    /// [`Error::Truncated`] for a short buffer, [`Error::Length`] for a message that is too long,
    /// [`Error::Value`] for none or more than [`MAX_ASDUS`] ASDUs.
    pub fn emit(&self, buffer: &mut [u8], mark: &mut dyn FnMut(Hole)) -> Result<usize> {
        let length = u16::try_from(self.buffer_len()).map_err(|_| Error::Length)?;
        let (len, count) = self.asdus_len();
        if count == 0 || count > MAX_ASDUS {
            return Err(Error::Value);
        }
        let reserved1 = if self.simulation { 0x8000 } else { 0 };
        let mut header = [0; HEADER_LEN];
        Repr { appid: self.appid, length, reserved1, reserved2: 0 }.emit(&mut header)?;
        let mut out = Writer::new(buffer, mark);
        out.put(&header)?;
        put(&mut out, tag::SAV_PDU, self.fields_len())?;
        put(&mut out, tag::NO_ASDU, 1)?;
        out.put(&[count as u8])?;
        put(&mut out, tag::SEQ_ASDU, len)?;
        for (index, asdu) in self.asdus.iter().enumerate() {
            asdu.emit(index, &mut out)?;
        }
        Ok(out.len())
    }
}

/// Writes tag and length.
fn put(out: &mut Writer<'_, '_>, tag: u8, len: usize) -> Result<()> {
    let (head, used) = ber::head(tag, len)?;
    out.put(&head[..used])
}

impl<'a> Asdu<'a> {
    fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let (mut fields, rest) = expect(bytes, tag::ASDU)?;
        let mut next = |tag| -> Result<&'a [u8]> {
            let (value, behind) = expect(fields, tag)?;
            fields = behind;
            Ok(value)
        };
        let sv_id = next(tag::SV_ID)?;
        let dat_set = optional(&mut next, tag::DAT_SET)?;
        let smp_cnt = fixed(next(tag::SMP_CNT)?).map(u16::from_be_bytes)?;
        let conf_rev = fixed(next(tag::CONF_REV)?).map(u32::from_be_bytes)?;
        let refr_tm = optional(&mut next, tag::REFR_TM)?.map(fixed).transpose()?;
        let [smp_synch] = fixed(next(tag::SMP_SYNCH)?)?;
        let smp_rate = optional(&mut next, tag::SMP_RATE)?.map(fixed).transpose()?.map(u16::from_be_bytes);
        let sample = next(tag::SAMPLE)?;
        let smp_mod = optional(&mut next, tag::SMP_MOD)?.map(fixed).transpose()?.map(u16::from_be_bytes);
        if !fields.is_empty() {
            return Err(Error::Length);
        }
        Ok((Self { sv_id, dat_set, smp_cnt, conf_rev, refr_tm, smp_synch, smp_rate, sample, smp_mod }, rest))
    }

    /// Octets of the fields, without tag and length.
    fn len(&self) -> usize {
        let element = |len: usize| ber::head_len(len) + len;
        element(self.sv_id.len())
            + self.dat_set.map_or(0, |dat_set| element(dat_set.len()))
            + element(2)
            + element(4)
            + self.refr_tm.map_or(0, |_| element(8))
            + element(1)
            + self.smp_rate.map_or(0, |_| element(2))
            + element(self.sample.len())
            + self.smp_mod.map_or(0, |_| element(2))
    }

    fn emit(&self, index: usize, out: &mut Writer<'_, '_>) -> Result<()> {
        put(out, tag::ASDU, self.len())?;
        put(out, tag::SV_ID, self.sv_id.len())?;
        out.put(self.sv_id)?;
        if let Some(dat_set) = self.dat_set {
            put(out, tag::DAT_SET, dat_set.len())?;
            out.put(dat_set)?;
        }
        put(out, tag::SMP_CNT, 2)?;
        out.hole(What::Sequence, &self.smp_cnt.to_be_bytes())?;
        put(out, tag::CONF_REV, 4)?;
        out.put(&self.conf_rev.to_be_bytes())?;
        if let Some(time) = self.refr_tm {
            put(out, tag::REFR_TM, 8)?;
            out.hole(What::Time, &time)?;
        }
        put(out, tag::SMP_SYNCH, 1)?;
        out.hole(What::State, &[self.smp_synch])?;
        if let Some(rate) = self.smp_rate {
            put(out, tag::SMP_RATE, 2)?;
            out.put(&rate.to_be_bytes())?;
        }
        put(out, tag::SAMPLE, self.sample.len())?;
        out.hole(What::Value(index as u16), self.sample)?;
        if let Some(unit) = self.smp_mod {
            put(out, tag::SMP_MOD, 2)?;
            out.put(&unit.to_be_bytes())?;
        }
        Ok(())
    }
}

/// The next field if it has this tag.
fn optional<'a>(next: &mut impl FnMut(u8) -> Result<&'a [u8]>, tag: u8) -> Result<Option<&'a [u8]>> {
    match next(tag) {
        Ok(value) => Ok(Some(value)),
        // Another field, or the end.
        Err(Error::Value | Error::Truncated) => Ok(None),
        Err(error) => Err(error),
    }
}

fn fixed<const LEN: usize>(value: &[u8]) -> Result<[u8; LEN]> {
    value.try_into().map_err(|_| Error::Length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// A frame of 9-2LE: eight values with their quality.
    fn asdu(smp_cnt: u16, sample: &[u8]) -> Asdu<'_> {
        Asdu {
            sv_id: b"antedateMU01",
            dat_set: None,
            smp_cnt,
            conf_rev: 1,
            refr_tm: None,
            smp_synch: 2,
            smp_rate: None,
            sample,
            smp_mod: None,
        }
    }

    fn written(asdus: &[Asdu<'_>]) -> (Vec<u8>, Vec<Hole>) {
        let message = Message { appid: 0x4000, simulation: false, asdus: Asdus::Given(asdus) };
        let (mut out, mut holes) = (std::vec![0; message.buffer_len()], Vec::new());
        assert_eq!(message.emit(&mut out, &mut |hole| holes.push(hole)), Ok(out.len()));
        (out, holes)
    }

    #[test]
    fn frame_of_9_2le_has_known_octets() {
        let (out, holes) = written(&[asdu(0x0102, &[0x11; 64])]);
        let head =
            b"\x40\x00\x00\x6e\x00\x00\x00\x00\x60\x64\x80\x01\x01\xa2\x5f\x30\x5d\x80\x0cantedateMU01";
        assert_eq!(&out[..head.len()], head);
        let rest =
            [&b"\x82\x02\x01\x02\x83\x04\x00\x00\x00\x01\x85\x01\x02\x87\x40"[..], &[0x11; 64]].concat();
        assert_eq!(&out[head.len()..], rest);
        assert_eq!(holes.iter().map(|hole| hole.range.len()).collect::<Vec<_>>(), [2, 1, 64]);
    }

    #[test]
    fn several_asdus_with_all_fields_are_read() {
        let full = Asdu {
            dat_set: Some(b"LD0/LLN0$PhsMeas1"),
            refr_tm: Some([7; 8]),
            smp_rate: Some(4800),
            smp_mod: Some(1),
            ..asdu(5, &[3; 64])
        };
        let given = [full, Asdu { smp_cnt: 6, ..full }];
        let (out, holes) = written(&given);
        let read = Message::parse(&out).unwrap();
        assert_eq!(read.asdus.iter().collect::<Vec<_>>(), given);
        assert_eq!((read.appid, holes.len()), (0x4000, 8));
        assert!((0..out.len()).all(|len| Message::parse(&out[..len]).is_err()));
        // The announced number.
        let mut other = out.clone();
        let place = other.windows(3).position(|three| three == [0x80, 1, 2]).unwrap();
        other[place + 2] = 3;
        assert_eq!(Message::parse(&other).map(|_| ()), Err(Error::Value));
    }

    proptest! {
        #[test]
        fn parser_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
            if let Ok(message) = Message::parse_pdu(1, &bytes) {
                prop_assert!(message.asdus.iter().count() <= MAX_ASDUS);
            }
        }
    }
}

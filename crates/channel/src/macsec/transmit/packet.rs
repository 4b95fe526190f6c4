//! One frame under protection (IEEE 802.1AE-2018 clause 10.5).

use antedate_aead::{Linear, SealPool, Suite};
use antedate_wire::macsec::{SecTag, TAG_LEN_LONG, TAG_LEN_SHORT};

use super::ADDRESSES_LEN;
use crate::macsec::flows::Tables;
use crate::macsec::packet_number::PacketNumbers;
use crate::macsec::pool::{PREPARED_LEN, SLOTS};
use crate::macsec::suite::Width;
use crate::macsec::template::Template;
use crate::sequence::NumberError;

/// One frame under protection: its parts and its output.
pub(super) struct Packet<'a> {
    pub(super) addresses: [u8; ADDRESSES_LEN],
    pub(super) template: Template,
    /// The next packet number, unless it was taken elsewhere.
    pub(super) next_pn: u64,
    /// MF and CF in the short-length octet.
    pub(super) flags: u8,
    pub(super) data: Data<'a>,
    pub(super) header_len: usize,
    /// As long as the protected frame.
    pub(super) out: &'a mut [u8],
}

/// The place of a frame's user data.
#[derive(Clone, Copy)]
pub(super) enum Data<'a> {
    /// In another buffer.
    Apart(&'a [u8]),
    /// Already in the protected frame's buffer, of this length.
    InPlace(usize),
}

impl Data<'_> {
    #[inline]
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Apart(data) => data.len(),
            Self::InPlace(len) => *len,
        }
    }
}

impl<'a> Packet<'a> {
    /// Writes the header before the user data, and returns the buffer of the whole frame.
    #[inline]
    fn head(self) -> &'a mut [u8] {
        let Self { addresses, template, next_pn, flags, data, header_len, out } = self;
        // Write the header before taking the packet number. Its octets then reach the cache before
        // the cipher loads them in one piece; a load over fresh stores waits for them.
        let (head, tag) = out[..header_len].split_at_mut(ADDRESSES_LEN);
        head.copy_from_slice(&addresses);
        // Two lengths known at compile time: a copy of unknown length is a call that costs more
        // than the copy.
        let octets = template.filled(SecTag::short_length_of(data.len()) | flags, next_pn);
        match tag.first_chunk_mut::<TAG_LEN_LONG>() {
            Some(tag) => *tag = octets,
            None => tag[..TAG_LEN_SHORT].copy_from_slice(&octets[..TAG_LEN_SHORT]),
        }
        out
    }

    /// Seals as [`seal`](Self::seal) does, by the table of the frame's flow if there is one.
    #[inline]
    pub(super) fn seal_by_tables<S: Linear<NonceBytes = [u8; 12]>>(
        self,
        tables: &mut Tables<S>,
        confidentiality: bool,
        by_tables: &mut bool,
    ) -> Result<u64, NumberError> {
        if let Some(pool) = tables.plain() {
            return self.seal(pool, confidentiality);
        }
        let (next_pn, data, header_len) = (self.next_pn, self.data, self.header_len);
        let out = self.head();
        let frame = Headed { next_pn, header_len, out };
        match data {
            Data::Apart(data) => frame.seal_by_tables(tables, data, confidentiality, by_tables),
            Data::InPlace(len) => {
                // A table compares all of the data before and while the output is written.
                let mut copy = tables.lend_scratch();
                copy.extend_from_slice(&frame.out[header_len..][..len]);
                let number = frame.seal_by_tables(tables, &copy, confidentiality, by_tables);
                tables.take_scratch(copy);
                number
            }
        }
    }

    /// Clause 10.5: the next packet number, the SecTAG, the cipher, the ICV. Returns the packet
    /// number.
    #[inline]
    pub(super) fn seal<S: Suite<TagBytes = [u8; 16]>>(
        self,
        pool: &mut SealPool<S, PacketNumbers, SLOTS, PREPARED_LEN>,
        confidentiality: bool,
    ) -> Result<u64, NumberError>
    where
        S::NonceBytes: Width,
    {
        let (next_pn, data, header_len) = (self.next_pn, self.data, self.header_len);
        let out = self.head();
        let prepared = pool.next()?;
        let number = prepared.number();
        // No other path takes a number, but a mismatch of nonce and SecTAG would be worse than this
        // comparison.
        if number != next_pn {
            out[16..20].copy_from_slice(&(number as u32).to_be_bytes());
        }
        let icv_at = header_len + data.len();
        let (header, rest) = out.split_at_mut(header_len);
        let place = &mut rest[..data.len()];
        let icv = match data {
            Data::Apart(data) if confidentiality => prepared.seal(header, data, place),
            Data::InPlace(_) if confidentiality => prepared.seal_in_place(header, place),
            _ => {
                // The frame is authenticated in its final place, in one piece and after its only
                // copy.
                if let Data::Apart(data) = data {
                    place.copy_from_slice(data);
                }
                prepared.authenticate(&[&out[..icv_at]])
            }
        };
        out[icv_at..].copy_from_slice(icv.as_bytes());
        Ok(number)
    }
}

/// A frame with its header written.
struct Headed<'a> {
    next_pn: u64,
    header_len: usize,
    out: &'a mut [u8],
}

impl Headed<'_> {
    #[inline]
    fn seal_by_tables<S: Linear<NonceBytes = [u8; 12]>>(
        self,
        tables: &mut Tables<S>,
        data: &[u8],
        confidentiality: bool,
        by_tables: &mut bool,
    ) -> Result<u64, NumberError> {
        let Self { next_pn, header_len, out } = self;
        let (packet, flow) = tables.next(&out[..header_len], data)?;
        let number = packet.number();
        if number != next_pn {
            out[16..20].copy_from_slice(&(number as u32).to_be_bytes());
        }
        let (header, rest) = out.split_at_mut(header_len);
        let place = &mut rest[..data.len()];
        let icv = match flow {
            Some(flow) if confidentiality => {
                let (icv, joined) = packet.seal(flow, header, data, place);
                *by_tables = joined;
                if !joined {
                    tables.missed();
                }
                icv
            }
            _ if confidentiality => packet.whole().seal(header, data, place),
            _ => {
                place.copy_from_slice(data);
                packet.whole().authenticate(&[&out[..header_len + data.len()]])
            }
        };
        out[header_len + data.len()..].copy_from_slice(icv.as_bytes());
        Ok(number)
    }
}

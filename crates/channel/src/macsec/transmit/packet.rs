//! One frame on its way (IEEE 802.1AE-2018 clause 10.5).

use antedate_aead::{Linear, SealPool, Suite};
use antedate_wire::macsec::{SecTag, TAG_LEN_LONG, TAG_LEN_SHORT};

use super::ADDRESSES_LEN;
use crate::macsec::flows::Tables;
use crate::macsec::packet_number::{PacketNumbers, Spent};
use crate::macsec::pool::{PREPARED_LEN, SLOTS};
use crate::macsec::suite::Width;

/// One frame on its way: where its parts lie, and where they go.
pub(super) struct Packet<'a> {
    pub(super) addresses: &'a [u8; ADDRESSES_LEN],
    pub(super) template: &'a [u8; TAG_LEN_LONG],
    /// The packet number that is next if nothing else took one.
    pub(super) next_pn: u64,
    /// MF and CF in the short-length octet.
    pub(super) flags: u8,
    pub(super) data: &'a [u8],
    pub(super) header_len: usize,
    /// As long as the protected frame.
    pub(super) out: &'a mut [u8],
}

impl<'a> Packet<'a> {
    /// Writes what stands in front of the user data, and gives the place of the whole frame.
    #[inline]
    fn head(self) -> &'a mut [u8] {
        let Self { addresses, template, next_pn, flags, data, header_len, out } = self;
        // The header is written before the packet number is taken, so that its octets have reached the cache when the
        // cipher loads them in one piece: a load over fresh stores waits for them.
        let (head, tag) = out[..header_len].split_at_mut(ADDRESSES_LEN);
        head.copy_from_slice(addresses);
        // Two lengths that the compiler knows: a copy of a length it does not know is a call that costs more than the copy.
        match tag.first_chunk_mut::<TAG_LEN_LONG>() {
            Some(tag) => *tag = *template,
            None => tag[..TAG_LEN_SHORT].copy_from_slice(&template[..TAG_LEN_SHORT]),
        }
        tag[3] = SecTag::short_length_of(data.len()) | flags;
        tag[4..8].copy_from_slice(&(next_pn as u32).to_be_bytes());
        out
    }

    /// As [`seal`](Self::seal), by the table of the frame's flow if there is one.
    #[inline]
    pub(super) fn seal_by_tables<S: Linear<NonceBytes = [u8; 12]>>(
        self,
        tables: &mut Tables<S>,
        confidentiality: bool,
        by_tables: &mut bool,
    ) -> Result<u64, Spent> {
        if let Some(pool) = tables.plain() {
            return self.seal(pool, confidentiality);
        }
        let (next_pn, data, header_len) = (self.next_pn, self.data, self.header_len);
        let out = self.head();
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

    /// Clause 10.5: the next packet number, the SecTAG, the cipher, the ICV. Gives the packet number.
    #[inline]
    pub(super) fn seal<S: Suite<TagBytes = [u8; 16]>>(
        self,
        pool: &mut SealPool<S, PacketNumbers, SLOTS, PREPARED_LEN>,
        confidentiality: bool,
    ) -> Result<u64, Spent>
    where
        S::NonceBytes: Width,
    {
        let (next_pn, data, header_len) = (self.next_pn, self.data, self.header_len);
        let out = self.head();
        let prepared = pool.next()?;
        let number = prepared.number();
        // Nothing else takes one; yet a nonce and a SecTAG that differ would be worse than this comparison.
        if number != next_pn {
            out[16..20].copy_from_slice(&(number as u32).to_be_bytes());
        }
        let icv_at = header_len + data.len();
        let icv = if confidentiality {
            let (header, rest) = out.split_at_mut(header_len);
            prepared.seal(header, data, &mut rest[..data.len()])
        } else {
            // The frame is authenticated where it is going to lie, in one piece and after its only copy.
            out[header_len..icv_at].copy_from_slice(data);
            prepared.authenticate(&[&out[..icv_at]])
        };
        out[icv_at..].copy_from_slice(icv.as_bytes());
        Ok(number)
    }
}

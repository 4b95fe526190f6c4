//! The usual frame: encrypted in place, with explicit SCI, from the material prepared for its
//! packet number. It takes a short path of its own, because after a pause each touched cache line
//! of code and data comes from a farther cache.

use core::ops::Range;

use antedate_aead::{SealPool, Suite};
use antedate_wire::macsec::{ICV_LEN, SecTag, TAG_LEN_LONG};

use super::{ADDRESSES_LEN, MIN_DATA_LEN, SciMode, Transmit, TransmitConfig};
use crate::macsec::flows::FlowShape;
use crate::macsec::packet_number::PacketNumbers;
use crate::macsec::pool::{PREPARED_LEN, SLOTS, Seal};
use crate::macsec::suite::Width;
use crate::macsec::template::Template;

/// Octets of addresses and SecTAG.
const HEADER_LEN: usize = ADDRESSES_LEN + TAG_LEN_LONG;

/// Whether a channel's frames can be usual ones.
pub(super) fn is_usual(config: &TransmitConfig, flows: &[FlowShape]) -> bool {
    config.confidentiality && config.sci_mode == SciMode::Explicit && flows.is_empty()
}

impl Transmit {
    /// Protects a usual frame, as [`protect_in_place`](Self::protect_in_place) does, and returns
    /// its new length. Returns `None`, with nothing changed, for any other frame.
    #[inline(always)]
    pub(in crate::macsec) fn try_usual(&mut self, place: &mut [u8], frame: Range<usize>) -> Option<usize> {
        let an = self.encoding.filter(|_| self.usual)?;
        let sa = self.associations.get_mut(an.index())?.as_mut()?;
        let out = place.get_mut(frame.start.checked_sub(TAG_LEN_LONG)?..frame.end.checked_add(ICV_LEN)?)?;
        let data = out.len().checked_sub(HEADER_LEN + ICV_LEN).filter(|data| *data >= MIN_DATA_LEN)?;
        let (template, number) = (sa.template, sa.next_pn);
        match &mut sa.pool {
            Seal::Aes128(tables) => seal(tables.without_shapes()?, template, number, out)?,
            Seal::Aes256(tables) => seal(tables.without_shapes()?, template, number, out)?,
            _ => return None,
        }
        let len = out.len();
        sa.took(number, data);
        self.counters.out_prepared += 1;
        self.counters.out_pkts_encrypted += 1;
        self.counters.out_octets_encrypted += data as u64;
        Some(len)
    }
}

/// Seals a frame in place in `out`, if the next prepared material is for this packet number and
/// covers it. Otherwise nothing has changed.
#[inline(always)]
fn seal<S: Suite<TagBytes = [u8; 16]>>(
    pool: &mut SealPool<S, PacketNumbers, SLOTS, PREPARED_LEN>,
    template: Template,
    number: u64,
    out: &mut [u8],
) -> Option<()>
where
    S::NonceBytes: Width,
{
    let (header, packet) = out.split_first_chunk_mut::<HEADER_LEN>()?;
    let data = packet.len().checked_sub(ICV_LEN)?;
    // The addresses move forward by the length of the SecTAG, which takes their place.
    let new = tagged(header, template.filled(SecTag::short_length_of(data), number))?;
    let ready = pool.next_ready(number, data)?;
    *header = new;
    ready.seal_in_place(header, packet);
    Some(())
}

/// The addresses at the end of `header`, followed by the SecTAG, in whole words, so that the
/// cipher's loads do not wait for the stores.
#[inline(always)]
fn tagged(header: &[u8; HEADER_LEN], tag: [u8; TAG_LEN_LONG]) -> Option<[u8; HEADER_LEN]> {
    let (_, addresses) = header.split_last_chunk::<ADDRESSES_LEN>()?;
    let (six, rest) = addresses.split_first_chunk::<8>()?;
    let last = u32::from_le_bytes(*rest.first_chunk()?);
    let tag = u128::from_le_bytes(tag);
    let words = [u64::from_le_bytes(*six), u64::from(last) | (tag as u64) << 32, (tag >> 32) as u64];
    let mut out = [0; HEADER_LEN];
    let (wide, rest) = out.as_chunks_mut::<8>();
    for (place, word) in wide.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    *rest.first_chunk_mut()? = ((tag >> 96) as u32).to_le_bytes();
    Some(out)
}

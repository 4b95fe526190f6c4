//! Protecting frames (IEEE 802.1AE-2018 clause 10.5).

mod config;
mod packet;
mod ready;
mod usual;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use antedate_wire::ethernet::HEADER_LEN;
use antedate_wire::macsec::{ICV_LEN, SecTag, TAG_LEN_LONG};

use super::counters::TransmitCounters;
use super::flows::FlowShape;
use super::history::History;
use super::pool::{Retired, Seal};
use super::sak::Sak;
use super::{ADDRESSES_LEN, An, Sci};
use crate::fragment::{MAX_FRAME, Marks, Split};
use packet::{Data, Packet};
use ready::{TransmitSa, tag_len};
use usual::is_usual;

pub use config::{
    ProtectError, SciMode, SwitchError, TransmitConfig, TransmitConfigError, TransmitInstallError,
    TransmitSaStatus,
};
pub use ready::ReadyTransmit;

/// Octets of the shortest user data: an EtherType.
const MIN_DATA_LEN: usize = 2;
/// The most keys remembered after removal.
const REMEMBERED: usize = 16;

/// A transmit secure channel. Hot fields come first, in few cache lines.
#[repr(C, align(64))]
pub struct Transmit {
    encoding: Option<An>,
    /// Frames are encrypted, with explicit SCI, and there are no flow tables.
    usual: bool,
    tag_len: usize,
    counters: TransmitCounters,
    associations: [Option<TransmitSa>; An::COUNT],
    config: TransmitConfig,
    history: History<REMEMBERED>,
    /// EtherType and data of a fragment after the first, in one piece.
    piece: Box<[u8]>,
    flows: Vec<FlowShape>,
}

impl Transmit {
    /// A channel without keys, which cannot protect frames yet.
    pub fn new(config: TransmitConfig) -> Result<Self, TransmitConfigError> {
        if config.suite.is_xpn() && config.ssci.is_none() {
            return Err(TransmitConfigError::SsciMissing);
        }
        if config.sci_mode == SciMode::EndStation && config.sci.port() != Sci::PORT_END_STATION {
            return Err(TransmitConfigError::EndStationPort);
        }
        Ok(Self {
            usual: is_usual(&config, &[]),
            tag_len: tag_len(&config),
            config,
            associations: [const { None }; An::COUNT],
            encoding: None,
            history: History::new(),
            counters: TransmitCounters::default(),
            piece: Box::default(),
            flows: Vec::new(),
        })
    }

    /// The channel's configuration.
    pub const fn config(&self) -> &TransmitConfig {
        &self.config
    }

    /// Installs a key under an association number, replacing any previous key. `next_pn` is the
    /// first packet number, and numbers below `limit` may be used. Both come from durable storage.
    ///
    /// The first key installed encodes at once, a later one after
    /// [`set_encoding_sa`](Self::set_encoding_sa).
    pub fn install(
        &mut self,
        an: An,
        sak: &Sak,
        next_pn: u64,
        limit: u64,
    ) -> Result<(), TransmitInstallError> {
        self.adopt(ReadyTransmit::new(self.config, an, sak, next_pn, limit)?).map(drop)
    }

    /// Installs a prepared key, as [`install`](Self::install) does, and returns the one it
    /// replaces. The channel takes over the key's suite and short SCI.
    pub fn adopt(&mut self, ready: ReadyTransmit) -> Result<Retired, TransmitInstallError> {
        let ReadyTransmit { config, an, mut sa } = ready;
        let TransmitConfig { suite, ssci, .. } = config;
        if config != (TransmitConfig { suite, ssci, ..self.config }) {
            return Err(TransmitInstallError::OtherChannel);
        }
        let (key, rule) = (sa.key, sa.rule);
        let mut lowest = self.history.next(key, rule);
        let mut other_salt = self.history.has_other_rule(key, rule);
        for (other, sa) in An::ALL.into_iter().zip(&self.associations) {
            let Some(sa) = sa.as_ref().filter(|sa| sa.key == key) else { continue };
            if other != an {
                return Err(TransmitInstallError::KeyInUse(other));
            }
            other_salt |= sa.rule != rule;
            lowest = lowest.max(sa.next_pn);
        }
        if other_salt {
            return Err(TransmitInstallError::OtherSalt);
        }
        if sa.next_pn < lowest {
            return Err(TransmitInstallError::PacketNumberUsed { lowest });
        }
        // The next frames will be as long as the last ones, whatever the key.
        if let Some(now) = self.encoding.and_then(|an| self.associations[an.index()].as_ref()) {
            sa.lengths = now.lengths;
            sa.pool.set_reach(sa.lengths.reach());
        }
        sa.pool.set_flows(&self.flows);
        let mut retired = Retired::default();
        self.retire(an, &mut retired);
        self.config = config;
        self.associations[an.index()] = Some(sa);
        self.encoding = self.encoding.or(Some(an));
        Ok(retired)
    }

    /// Makes flow tables for frames of these shapes, with present and future keys. They take effect
    /// where the cipher is AES-GCM and encrypts. They do not change the frames.
    pub fn set_flows(&mut self, shapes: Vec<FlowShape>) {
        self.associations.iter_mut().flatten().for_each(|sa| _ = sa.pool.set_flows(&shapes));
        self.usual = is_usual(&self.config, &shapes);
        self.flows = shapes;
    }

    /// Removes a key. If it encoded, no frame can be protected until another key does.
    pub fn remove(&mut self, an: An) -> Retired {
        let mut retired = Retired::default();
        self.retire(an, &mut retired);
        if self.encoding == Some(an) {
            self.encoding = None;
        }
        retired
    }

    /// Switches to another association from the next frame on. Material prepared under the old one
    /// stays until its removal.
    pub fn set_encoding_sa(&mut self, an: An) -> Result<(), SwitchError> {
        let sa = self.associations[an.index()].as_ref().ok_or(SwitchError::NoSa)?;
        if sa.next_pn >= sa.pool.numbers().end() {
            return Err(SwitchError::Exhausted);
        }
        self.encoding = Some(an);
        Ok(())
    }

    /// Allows packet numbers below `limit`. The caller has durably recorded them as possibly used.
    /// A limit below the present one changes nothing.
    pub fn reserve_until(&mut self, an: An, limit: u64) {
        if let Some(sa) = &mut self.associations[an.index()] {
            sa.pool.numbers_mut().reserve_until(limit);
        }
    }

    /// The length of a frame of `len` octets after protection.
    #[inline]
    pub const fn protected_len(&self, len: usize) -> usize {
        len + self.tag_len + ICV_LEN
    }

    /// Protects a frame (destination, source, EtherType, ...) into `out` and returns the number of
    /// octets there: destination, source, SecTAG, secure data, ICV.
    ///
    /// # Errors
    ///
    /// After an error `out` holds nothing that may be sent. No error takes a packet number.
    #[inline]
    pub fn protect(&mut self, frame: &[u8], out: &mut [u8]) -> Result<usize, ProtectError> {
        let result = match frame.split_first_chunk::<ADDRESSES_LEN>() {
            Some((addresses, data)) => self.try_protect(*addresses, Data::Apart(data), 0, out),
            None => Err(ProtectError::TooShort),
        };
        result.inspect_err(|error| self.count_discarded(*error))
    }

    /// Protects a frame in place, as [`protect`](Self::protect) does: `len` octets of `place` from
    /// `at`. The protected frame starts earlier by the length of the SecTAG, and ends later by that
    /// of the ICV.
    ///
    /// The path of the usual frame is inlined into the caller. It is long, and a
    /// [rehearsal](crate::macsec::Rehearsal) must take the same path, so there should be only one
    /// caller.
    ///
    /// # Errors
    ///
    /// [`ProtectError::OutputTooSmall`] if `place` has no space for them. After an error the
    /// addresses may have moved.
    #[inline(always)]
    pub fn protect_in_place<'a>(
        &mut self,
        place: &'a mut [u8],
        frame: Range<usize>,
    ) -> Result<&'a mut [u8], ProtectError> {
        if let Some(len) = self.try_usual(place, frame.clone()) {
            let start = frame.start - TAG_LEN_LONG;
            return Ok(place.get_mut(start..start + len).unwrap_or_default());
        }
        self.protect_other_in_place(place, frame)
    }

    /// Out of line, to keep the code of a usual frame contiguous.
    #[inline(never)]
    fn protect_other_in_place<'a>(
        &mut self,
        place: &'a mut [u8],
        frame: Range<usize>,
    ) -> Result<&'a mut [u8], ProtectError> {
        let result = self.try_protect_in_place(place, frame);
        result.inspect_err(|error| self.count_discarded(*error))
    }

    #[inline]
    fn try_protect_in_place<'a>(
        &mut self,
        place: &'a mut [u8],
        frame: Range<usize>,
    ) -> Result<&'a mut [u8], ProtectError> {
        let start = frame.start.checked_sub(self.tag_len).ok_or(ProtectError::OutputTooSmall)?;
        let octets = place.get(frame.clone()).ok_or(ProtectError::OutputTooSmall)?;
        let (addresses, data) = octets.split_first_chunk::<ADDRESSES_LEN>().ok_or(ProtectError::TooShort)?;
        let (addresses, data) = (*addresses, Data::InPlace(data.len()));
        let out = place.get_mut(start..).unwrap_or_default();
        let len = self.try_protect(addresses, data, 0, out)?;
        Ok(out.get_mut(..len).unwrap_or_default())
    }

    /// Protects a frame as fragments of at most `longest` octets, under adjacent packet numbers,
    /// and passes them to `each` in order. `out` holds one at a time. Returns the number of
    /// fragments: 1 for a frame that fits, which is protected as by [`protect`](Self::protect).
    ///
    /// # Errors
    ///
    /// An error occurs only before the first fragment, and takes no packet number.
    pub fn protect_split(
        &mut self,
        frame: &[u8],
        longest: usize,
        marks: Marks,
        out: &mut [u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<usize, ProtectError> {
        let split = match self.split(frame, longest, out.len()) {
            Ok(split) => split,
            Err(error) => {
                self.count_discarded(error);
                return Err(error);
            }
        };
        if split.count() == 1 {
            let len = self.protect(frame, out)?;
            each(out.get(..len).unwrap_or_default());
            return Ok(1);
        }
        let mut pieces = core::mem::take(&mut self.piece);
        if pieces.is_empty() {
            pieces = alloc::vec![0; MAX_FRAME].into_boxed_slice();
        }
        let result = self.protect_pieces(frame, &split, marks, (&mut pieces, out), &mut each);
        self.piece = pieces;
        match result {
            Ok(()) => self.counters.out_frames_fragmented += 1,
            Err(error) => self.count_discarded(error),
        }
        result.map(|()| split.count())
    }

    /// Sends a lone fragment, as a misbehaving member would.
    #[cfg(test)]
    pub(super) fn protect_piece_for_tests(
        &mut self,
        addresses: &[u8; ADDRESSES_LEN],
        data: &[u8],
        flags: u8,
        out: &mut [u8],
    ) -> Result<usize, ProtectError> {
        self.try_protect(*addresses, Data::Apart(data), flags, out)
    }

    /// Splits a frame, if all of its fragments can be protected.
    fn split(&self, frame: &[u8], longest: usize, room: usize) -> Result<Split, ProtectError> {
        if frame.len() < HEADER_LEN {
            return Err(ProtectError::TooShort);
        }
        let split = Split::new(frame.len(), self.protected_len(0), longest);
        let split = split.map_err(|_| ProtectError::Unsplittable)?;
        if split.count() == 1 {
            return Ok(split);
        }
        if frame.len() > MAX_FRAME {
            return Err(ProtectError::Unsplittable);
        }
        let sa = self.encoding.and_then(|an| self.associations[an.index()].as_ref());
        let numbers = sa.ok_or(ProtectError::NoSa)?.pool.numbers();
        let next = sa.map_or(0, |sa| sa.next_pn);
        let after = next.saturating_add(split.count() as u64);
        if after > numbers.limit() {
            return Err(if after > numbers.end() {
                ProtectError::Exhausted
            } else {
                ProtectError::NotReserved
            });
        }
        if longest > room {
            return Err(ProtectError::OutputTooSmall);
        }
        Ok(split)
    }

    fn protect_pieces(
        &mut self,
        frame: &[u8],
        split: &Split,
        marks: Marks,
        (piece, out): (&mut [u8], &mut [u8]),
        each: &mut impl FnMut(&[u8]),
    ) -> Result<(), ProtectError> {
        let addresses = frame.first_chunk::<ADDRESSES_LEN>().ok_or(ProtectError::TooShort)?;
        let ethertype = frame.get(ADDRESSES_LEN..HEADER_LEN).ok_or(ProtectError::TooShort)?;
        for (index, range) in split.pieces().enumerate() {
            let more = if index + 1 < split.count() { SecTag::MORE_FRAGMENTS } else { 0 };
            let continued = if index > 0 && marks == Marks::Both { SecTag::CONTINUED } else { 0 };
            // EtherType and first piece are contiguous. The other pieces get a copy of the
            // EtherType.
            let data = if index == 0 {
                frame.get(ADDRESSES_LEN..range.end)
            } else {
                let (head, rest) = piece.split_at_mut(ethertype.len());
                head.copy_from_slice(ethertype);
                let octets = frame.get(range).unwrap_or_default();
                rest.get_mut(..octets.len()).ok_or(ProtectError::OutputTooSmall)?.copy_from_slice(octets);
                piece.get(..ethertype.len() + octets.len())
            };
            let data = data.ok_or(ProtectError::TooShort)?;
            let len = self.try_protect(*addresses, Data::Apart(data), more | continued, out)?;
            self.counters.out_fragments += 1;
            each(out.get(..len).unwrap_or_default());
        }
        Ok(())
    }

    /// Not inlined into its callers, because a rehearsal must take the same path.
    #[inline(never)]
    fn try_protect(
        &mut self,
        addresses: [u8; ADDRESSES_LEN],
        data: Data<'_>,
        flags: u8,
        out: &mut [u8],
    ) -> Result<usize, ProtectError> {
        if data.len() < MIN_DATA_LEN {
            return Err(ProtectError::TooShort);
        }
        let sa = match self.encoding {
            Some(an) => self.associations[an.index()].as_mut().ok_or(ProtectError::NoSa)?,
            None => return Err(ProtectError::NoSa),
        };
        if self.config.sci_mode == SciMode::EndStation && addresses[6..] != self.config.sci.0[..6] {
            return Err(ProtectError::ForeignSource);
        }
        let header_len = ADDRESSES_LEN + self.tag_len;
        let len = header_len + data.len() + ICV_LEN;
        let out = out.get_mut(..len).ok_or(ProtectError::OutputTooSmall)?;
        let packet =
            Packet { addresses, template: sa.template, next_pn: sa.next_pn, flags, data, header_len, out };
        let prepared = sa.pool.prepared() > 0;
        let (confidentiality, mut by_tables) = (self.config.confidentiality, false);
        let number = match &mut sa.pool {
            Seal::Aes128(tables) => packet.seal_by_tables(tables, confidentiality, &mut by_tables)?,
            Seal::Aes256(tables) => packet.seal_by_tables(tables, confidentiality, &mut by_tables)?,
            Seal::ChaCha(pool) => packet.seal(pool, self.config.confidentiality)?,
            Seal::Aegis(pool) => packet.seal(pool, self.config.confidentiality)?,
            Seal::Ascon(pool) => packet.seal(pool, self.config.confidentiality)?,
            Seal::Ocb3(pool) => packet.seal(pool, self.config.confidentiality)?,
            Seal::Morus(pool) => packet.seal(pool, self.config.confidentiality)?,
        };
        sa.took(number, data.len());
        self.counters.out_prepared += u64::from(prepared);
        self.counters.out_by_tables += u64::from(by_tables);
        let octets = data.len() as u64;
        if self.config.confidentiality {
            self.counters.out_pkts_encrypted += 1;
            self.counters.out_octets_encrypted += octets;
        } else {
            self.counters.out_pkts_protected += 1;
            self.counters.out_octets_protected += octets;
        }
        Ok(len)
    }

    /// Does at most `budget` preparation steps (of about 64 octets of key stream each) for the
    /// association that encodes. Returns the number of steps done, 0 if everything is prepared.
    #[inline]
    pub fn idle(&mut self, budget: u32) -> u32 {
        let prepare = self.config.prepare;
        let sa = self.encoding.and_then(|an| self.associations[an.index()].as_mut());
        sa.map_or(0, |sa| sa.idle(prepare, budget))
    }

    /// Warms the cache for the next frame, and returns its expected octets of data.
    pub(super) fn touch(&self) -> Option<usize> {
        let sa = self.encoding.and_then(|an| self.associations[an.index()].as_ref())?;
        core::hint::black_box((self.counters.out_prepared, self.counters.out_octets_encrypted));
        let octets = sa.lengths.longest();
        sa.pool.touch(octets);
        Some(octets)
    }

    /// The encoding association, and the packet number of its next frame.
    #[inline]
    pub fn encoding(&self) -> Option<(An, u64)> {
        let an = self.encoding?;
        self.associations[an.index()].as_ref().map(|sa| (an, sa.next_pn))
    }

    /// The state of each association that has a key.
    pub fn status(&self) -> impl Iterator<Item = TransmitSaStatus> + '_ {
        An::ALL.into_iter().zip(&self.associations).filter_map(|(an, sa)| {
            let TransmitSa { pool, next_pn, .. } = sa.as_ref()?;
            Some(TransmitSaStatus {
                an,
                encoding: self.encoding == Some(an),
                next_pn: *next_pn,
                limit: pool.numbers().limit(),
                end: pool.numbers().end(),
                prepared: pool.prepared(),
            })
        })
    }

    /// The counters.
    pub const fn counters(&self) -> &TransmitCounters {
        &self.counters
    }

    /// Counts a frame that the caller discards because its protected length exceeds the port's
    /// maximum.
    pub fn count_too_long(&mut self) {
        self.counters.out_pkts_too_long += 1;
    }

    /// Removes an association and remembers the packet number its key reached.
    fn retire(&mut self, an: An, retired: &mut Retired) {
        if let Some(sa) = self.associations[an.index()].take() {
            self.history.note(sa.key, sa.rule, sa.next_pn);
            retired.seal(sa.pool);
        }
    }

    #[cold]
    fn count_discarded(&mut self, error: ProtectError) {
        let counters = &mut self.counters;
        let counter = match error {
            ProtectError::NoSa => &mut counters.out_discarded_no_sa,
            ProtectError::Exhausted => &mut counters.out_discarded_exhausted,
            ProtectError::NotReserved => &mut counters.out_discarded_not_reserved,
            ProtectError::TooShort | ProtectError::OutputTooSmall => &mut counters.out_discarded_malformed,
            ProtectError::ForeignSource => &mut counters.out_discarded_foreign_source,
            ProtectError::Unsplittable => &mut counters.out_pkts_too_long,
        };
        *counter += 1;
    }
}

impl fmt::Debug for Transmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmit").field("config", &self.config).field("encoding", &self.encoding()).finish()
    }
}

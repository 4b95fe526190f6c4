//! Keys ready for protecting.

use core::fmt;

use antedate_wire::macsec::Tci;

use super::config::{SciMode, TransmitConfig, TransmitInstallError};
use crate::lengths::Lengths;
use crate::macsec::packet_number::PacketNumbers;
use crate::macsec::pool::{PREPARED_LEN, SLOTS, Seal, fingerprint};
use crate::macsec::sak::{Fingerprint, Sak};
use crate::macsec::suite::NonceRule;
use crate::macsec::template::{Template, open};
use crate::macsec::{An, Sci};

/// An installed association. Hot fields come first, in one cache line.
#[repr(C, align(64))]
pub(super) struct TransmitSa {
    pub(super) pool: Seal,
    /// SecTAGs of this association, with packet number and short length left open.
    pub(super) template: Template,
    /// The packet number of the next frame. The pool's sequence is ahead of it by the prepared
    /// numbers.
    pub(super) next_pn: u64,
    pub(super) lengths: Lengths,
    pub(super) key: Fingerprint,
    pub(super) rule: NonceRule,
}

impl TransmitSa {
    /// Records a frame's packet number and octets of user data.
    #[inline]
    pub(super) fn took(&mut self, number: u64, octets: usize) {
        self.next_pn = number + 1;
        if let Some(reach) = self.lengths.saw(octets) {
            self.pool.set_reach(reach);
        }
    }

    /// Does at most `budget` preparation steps, until `prepare` packet numbers are ready.
    #[inline]
    pub(super) fn idle(&mut self, prepare: usize, budget: u32) -> u32 {
        let wanted = prepare.min(SLOTS).saturating_sub(self.pool.prepared());
        let steps = (wanted as u32).saturating_mul(self.pool.steps_a_slot(self.lengths.reach()));
        if steps == 0 { self.pool.finish(budget) } else { self.pool.idle(budget.min(steps)) }
    }
}

/// A key that is ready for protecting: expanded, and its first packet numbers prepared if
/// requested. This takes many times as long as a frame, so another thread does it, and the
/// protecting thread [adopts](super::Transmit::adopt) the result.
pub struct ReadyTransmit {
    pub(super) config: TransmitConfig,
    pub(super) an: An,
    pub(super) sa: TransmitSa,
}

impl ReadyTransmit {
    /// A key for the channel of this configuration, with its suite and, for an XPN suite, its short
    /// SCI. The other arguments are those of [`Transmit::install`](super::Transmit::install).
    pub fn new(
        config: TransmitConfig,
        an: An,
        sak: &Sak,
        next_pn: u64,
        limit: u64,
    ) -> Result<Self, TransmitInstallError> {
        let suite = config.suite;
        if sak.suite() != suite {
            return Err(TransmitInstallError::OtherSuite);
        }
        if next_pn == 0 {
            return Err(TransmitInstallError::PacketNumberZero);
        }
        let rule = match config.ssci {
            Some(ssci) if suite.is_xpn() => NonceRule::from_salt(sak.salt(), ssci),
            None if suite.is_xpn() => return Err(TransmitInstallError::SsciMissing),
            _ => NonceRule::from_sci(config.sci),
        };
        let key = fingerprint(sak).ok_or(TransmitInstallError::OtherSuite)?;
        let numbers = PacketNumbers::new(rule, next_pn, limit, suite.packet_number_end());
        let pool = Seal::new(sak, numbers).ok_or(TransmitInstallError::OtherSuite)?;
        let (tci, shown_sci) = known(&config);
        let (template, lengths) = (Template::new(tci, an, shown_sci), Lengths::new(PREPARED_LEN));
        let sa = TransmitSa { pool, template, next_pn, lengths, key, rule };
        Ok(Self { config, an, sa })
    }

    /// The key's association number.
    #[must_use]
    pub const fn an(&self) -> An {
        self.an
    }

    /// Prepares as many packet numbers as the channel keeps.
    #[must_use]
    pub fn prepared(mut self) -> Self {
        while self.sa.idle(self.config.prepare, u32::MAX) > 0 {}
        self
    }
}

impl fmt::Debug for ReadyTransmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadyTransmit").field("config", &self.config).field("an", &self.an).finish()
    }
}

/// The constant fields of an association's SecTAGs.
fn known(config: &TransmitConfig) -> (Tci, Option<Sci>) {
    let TransmitConfig { sci, sci_mode, confidentiality, .. } = *config;
    let tci = Tci::NONE
        .with_end_station(sci_mode == SciMode::EndStation)
        .with_encryption(confidentiality)
        .with_changed_text(confidentiality);
    (tci, (sci_mode == SciMode::Explicit).then_some(sci))
}

/// Octets of a SecTAG.
pub(super) fn tag_len(config: &TransmitConfig) -> usize {
    let (tci, sci) = known(config);
    open(tci, An::ALL[0], sci).buffer_len()
}

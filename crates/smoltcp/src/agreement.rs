//! Key agreement beside the frames: MKPDUs, and the keys that they bring.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use antedate_channel::macsec::{
    ReadyReceive, ReadyTransmit, Receive, Transmit, TransmitConfig, express_sci, express_ssci,
};
use antedate_channel::mka::{Action, Install, Kay};
use rand_core::CryptoRng;
use smoltcp::phy::{self, Device};
use smoltcp::time::Instant;

/// MKPDUs that wait for the driver. A member sends at most one to each of 8 destinations at a time,
/// and a later one says all that an earlier one does.
const WAITING: usize = 8;
/// Rounds of actions and their consequences at a time.
const ROUNDS: usize = 8;

/// Key agreement of a device.
#[derive(Debug)]
pub(crate) struct Agreement<R> {
    pub(crate) kay: Kay,
    pub(crate) random: R,
    waiting: VecDeque<Vec<u8>>,
    pub(crate) unsent: u64,
    pub(crate) refused: u64,
}

impl<R: CryptoRng> Agreement<R> {
    pub(crate) fn new(kay: Kay, random: R) -> Self {
        Self { kay, random, waiting: VecDeque::with_capacity(WAITING), unsent: 0, refused: 0 }
    }

    /// Does all due work, and installs and removes keys.
    pub(crate) fn work(&mut self, now: Duration, transmit: &mut Transmit, receive: &mut Receive) {
        if let Some((an, next)) = transmit.encoding() {
            self.kay.progress(an, next, None);
        }
        // A confirmed key may lead to the next action.
        for _ in 0..ROUNDS {
            self.kay.tick(now, &mut |octets| self.random.fill_bytes(octets));
            let mut confirmed = false;
            while let Some(action) = self.kay.next_action() {
                confirmed |= self.carry_out(now, action, transmit, receive);
            }
            if !confirmed {
                break;
            }
        }
    }

    /// Carries out an action. Returns whether a key is received with from now on.
    fn carry_out(
        &mut self,
        now: Duration,
        action: Action,
        transmit: &mut Transmit,
        receive: &mut Receive,
    ) -> bool {
        match action {
            Action::Send(frame) => {
                if self.waiting.len() >= WAITING {
                    self.waiting.pop_front();
                    self.unsent += 1;
                }
                self.waiting.push_back(frame);
            }
            Action::Receive(install) => {
                let installed = self.install(now, &install, receive);
                if installed {
                    self.kay.receives(install.key);
                }
                return installed;
            }
            Action::Transmit(install) => self.refused += u64::from(!begin(transmit, &install)),
            Action::Lowest { sci, an, lowest_pn, second_pn } => {
                receive.set_lowest_acceptable_pn(sci, an, lowest_pn);
                if let Some(lowest) = second_pn {
                    receive.set_lowest_acceptable_pn(express_sci(sci), an, lowest);
                }
            }
            Action::Remove(an) => {
                // Dropping wipes them.
                drop((transmit.remove(an), receive.remove_all(an)));
            }
            Action::Forget(sci) => {
                drop((receive.remove_peer(sci), receive.remove_peer(express_sci(sci))));
            }
        }
        false
    }

    /// Installs a key for receiving from its members. Until all is installed, nothing is confirmed,
    /// so no member transmits with the key.
    fn install(&mut self, now: Duration, install: &Install, receive: &mut Receive) -> bool {
        let Install { an, ref sak, ref members, .. } = *install;
        let caks = self.kay.caks(now);
        for (sci, ssci) in members.iter().copied() {
            // A gateway of this project may have a second channel, for frames with deadlines.
            let mut known = caks.iter().flat_map(|cak| &cak.members);
            let second = known.any(|member| member.sci == sci && member.antedate);
            let second = second.then(|| (express_sci(sci), ssci.map(express_ssci)));
            for (sci, ssci) in [Some((sci, ssci)), second].into_iter().flatten() {
                let ready = ReadyReceive::new(sci, ssci, an, sak, 1);
                if ready.and_then(|ready| receive.adopt(ready)).is_err() {
                    self.refused += 1;
                    return false;
                }
            }
        }
        true
    }

    /// Sends what waits, as far as the driver takes it.
    pub(crate) fn send<D: Device>(&mut self, at: Instant, driver: &mut D) {
        while let Some(frame) = self.waiting.front() {
            let Some(token) = driver.transmit(at) else { return };
            phy::TxToken::consume(token, frame.len(), |out| out.copy_from_slice(frame));
            self.waiting.pop_front();
        }
    }

    /// Whether MKPDUs wait for the driver.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// Transmits with a key from the next frame on. An agreed key is new, so its packet numbers begin at
/// 1 and need no reservation.
fn begin(transmit: &mut Transmit, install: &Install) -> bool {
    let config = TransmitConfig { suite: install.sak.suite(), ssci: install.ssci, ..*transmit.config() };
    let Ok(ready) = ReadyTransmit::new(config, install.an, &install.sak, 1, u64::MAX) else { return false };
    transmit.adopt(ready).is_ok() && transmit.set_encoding_sa(install.an).is_ok()
}

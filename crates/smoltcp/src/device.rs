//! The device of the stack.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;
use core::time::Duration;

use antedate_channel::macsec::{CipherSuite, Receive, ReceiveConfig, Transmit, TransmitConfig};
use antedate_channel::mka::{Cak, GRACE, Kay, Listed, OtherKey, Status};
use antedate_wire::EtherType;
use rand_core::CryptoRng;
use smoltcp::phy::{self, Device, DeviceCapabilities};
use smoltcp::time::Instant;

use crate::agreement::Agreement;
use crate::counters::Counters;
use crate::settings::{OVERHEAD, Settings, SetupError};
use crate::tokens::{RxToken, TxToken};

/// Frames of the driver that one call of `receive` takes at most, so that a flood of forged frames
/// cannot hold the program. [`MacsecDevice::poll`] then wants to be called again at once.
pub const RECEIVED_AT_ONCE: usize = 16;

/// A device that protects the frames of a stack. See the [crate](crate).
pub struct MacsecDevice<D, R> {
    driver: D,
    transmit: Transmit,
    receive: Receive,
    agreement: Agreement<R>,
    /// The frame that leaves, with space around it.
    leaving: Box<[u8]>,
    /// The frame that came.
    came: Box<[u8]>,
    /// Octets of the frame in `came` that the stack has yet to take.
    pending: Option<usize>,
    /// The last `receive` ended at its bound.
    behind: bool,
}

impl<D: Device, R: CryptoRng> MacsecDevice<D, R> {
    /// Sets up a device over a driver. It begins to look for others with the first
    /// [`poll`](Self::poll).
    ///
    /// # Errors
    ///
    /// When the driver or a setting does not fit; each [`SetupError`] says what to change.
    pub fn new(driver: D, cak: Cak, settings: Settings, mut random: R) -> Result<Self, SetupError> {
        let capabilities = driver.capabilities();
        settings.check(&capabilities)?;
        // The suite is that of the first key.
        let suite = CipherSuite::GcmAes128;
        let config = TransmitConfig {
            confidentiality: settings.confidentiality,
            ..TransmitConfig::new(suite, settings.sci())
        };
        let transmit = Transmit::new(config).map_err(|_| SetupError::Port(settings.port))?;
        let receive = Receive::new(ReceiveConfig {
            replay_window: settings.replay_window,
            // A gateway may have a second channel.
            max_peers: 2 * settings.max_peers,
            ..ReceiveConfig::new(suite)
        });
        let listed = vec![Listed { cak: cak.into(), priority: 0 }];
        let kay = Kay::new(listed, settings.participant(), &mut |octets| random.fill_bytes(octets));
        let mtu = capabilities.max_transmission_unit;
        Ok(Self {
            driver,
            transmit,
            receive,
            agreement: Agreement::new(kay, random),
            leaving: vec![0; mtu].into(),
            came: vec![0; mtu].into(),
            pending: None,
            behind: false,
        })
    }

    /// Does the due work of key agreement: sends MKPDUs, installs and removes keys. Returns the time
    /// of the next call at the latest. MKPDUs are heard while the stack receives.
    ///
    /// `now` counts from the same origin as the stack's times, and never decreases.
    pub fn poll(&mut self, now: Instant) -> Instant {
        let time = since(now);
        self.agreement.work(time, &mut self.transmit, &mut self.receive);
        self.agreement.send(now, &mut self.driver);
        if self.behind || self.pending.is_some() {
            return now;
        }
        let mut wake = self.agreement.kay.wake_at(time);
        if self.agreement.waits() {
            wake = wake.min(time + RETRY);
        }
        at(wake)
    }

    /// Prepares the key stream of the next packet numbers, in at most `budget` steps of about 64
    /// octets each. Returns the steps done; 0 when everything is prepared. The frames on the wire are
    /// the same without it.
    pub fn prepare(&mut self, budget: u32) -> u32 {
        let done = self.transmit.idle(budget);
        done + self.receive.idle(budget - done.min(budget))
    }

    /// Whether a key is agreed, so that frames of the stack leave.
    #[must_use]
    pub fn is_secured(&self) -> bool {
        self.transmit.encoding().is_some()
    }

    /// Takes over another CAK. The one before goes on until all members are live with the new one,
    /// for a minute at most, so no frame is lost if the others change within that time.
    ///
    /// # Errors
    ///
    /// When the name is in use with another key; nothing has changed then. Give each CAK its own
    /// name.
    pub fn change_cak(&mut self, now: Instant, cak: Cak) -> Result<(), OtherKey> {
        let Agreement { kay, random, .. } = &mut self.agreement;
        let list = vec![Listed { cak: cak.into(), priority: 0 }];
        kay.replace(since(now), list, Some(GRACE), &mut |octets| random.fill_bytes(octets))
    }

    /// The state of key agreement: members, keys, and the reason why there is none.
    pub fn status(&self, now: Instant) -> Status {
        self.agreement.kay.status(since(now))
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        Counters {
            transmit: *self.transmit.counters(),
            receive: *self.receive.counters(),
            mkpdus_unsent: self.agreement.unsent,
            keys_refused: self.agreement.refused,
        }
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The driver. What is sent by it directly leaves in the clear.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Takes frames from the driver until one is valid, or none is left. Returns its length.
    fn next_valid(&mut self, now: Instant) -> Option<usize> {
        self.behind = false;
        for _ in 0..RECEIVED_AT_ONCE {
            let (token, _) = self.driver.receive(now)?;
            let (mut heard, mut valid) = (false, None);
            phy::RxToken::consume(token, |frame| {
                if is_eapol(frame) {
                    // Refused ones are counted there.
                    heard = self.agreement.kay.receive(since(now), frame).is_ok();
                } else {
                    // Discarded ones are counted there.
                    valid = self.receive.validate(frame, &mut self.came).ok();
                }
            });
            if heard {
                self.agreement.work(since(now), &mut self.transmit, &mut self.receive);
                self.agreement.send(now, &mut self.driver);
            }
            if valid.is_some() {
                return valid;
            }
        }
        self.behind = true;
        None
    }
}

/// The time to the next try when the driver takes no frame.
const RETRY: Duration = Duration::from_millis(10);

impl<D: Device, R: CryptoRng> Device for MacsecDevice<D, R> {
    type RxToken<'a>
        = RxToken<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = TxToken<'a, D::TxToken<'a>>
    where
        Self: 'a;

    fn receive(&mut self, now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        if self.pending.is_none() {
            self.pending = self.next_valid(now);
        }
        let len = self.pending?;
        // The stack may answer at once. A frame without space for its answer waits.
        let token = self.driver.transmit(now)?;
        self.pending = None;
        let frame = self.came.get(..len).unwrap_or_default();
        Some((RxToken { frame }, TxToken { token, transmit: &mut self.transmit, place: &mut self.leaving }))
    }

    fn transmit(&mut self, now: Instant) -> Option<Self::TxToken<'_>> {
        self.transmit.encoding()?;
        let token = self.driver.transmit(now)?;
        Some(TxToken { token, transmit: &mut self.transmit, place: &mut self.leaving })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = self.driver.capabilities();
        capabilities.max_transmission_unit = capabilities.max_transmission_unit.saturating_sub(OVERHEAD);
        capabilities
    }
}

impl<D: fmt::Debug, R> fmt::Debug for MacsecDevice<D, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { driver, transmit, receive, .. } = self;
        let mut shown = f.debug_struct("MacsecDevice");
        shown
            .field("driver", driver)
            .field("transmit", transmit)
            .field("receive", receive)
            .finish_non_exhaustive()
    }
}

/// Whether a frame is for the uncontrolled port.
fn is_eapol(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&EtherType::Eapol.number().to_be_bytes())
}

/// A time of the stack, as key agreement counts it.
fn since(now: Instant) -> Duration {
    Duration::from_micros(now.total_micros().try_into().unwrap_or(0))
}

/// A time of key agreement, as the stack counts it, rounded up.
fn at(time: Duration) -> Instant {
    let micros = time.as_nanos().div_ceil(1000);
    Instant::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

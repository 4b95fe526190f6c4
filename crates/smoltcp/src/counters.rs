//! Counters of a device.

use antedate_channel::macsec::{ReceiveCounters, TransmitCounters};

/// Counts since the start. Each received frame is counted once: by the standard's names in
/// `receive`, or as an MKPDU in the status of key agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// the transmit secure channel (IEEE 802.1AE-2018 clause 10.7.18)
    pub transmit: TransmitCounters,
    /// the receive secure channels (clause 10.7.9)
    pub receive: ReceiveCounters,
    /// MKPDUs given up because the driver took no frame for long
    pub mkpdus_unsent: u64,
    /// keys that could not be installed, so that the device does not use them
    pub keys_refused: u64,
}

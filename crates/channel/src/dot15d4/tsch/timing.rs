//! The timeslot template (clause 8.4.3.3.3).

use antedate_wire::dot15d4::advertisement::Template;

/// Times in microseconds, by the standard's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timeslot {
    /// TsTxOffset: from the slot's start to the start of the frame
    pub tx_offset: u32,
    /// TsRxWait: the receiver's wait for the start of the frame, half of it before TsTxOffset
    pub rx_wait: u32,
    /// TsMaxTx: the longest frame
    pub max_tx: u32,
    /// TsTxAckDelay: from the end of the frame to the start of its acknowledgment
    pub tx_ack_delay: u32,
    /// TsAckWait: the sender's wait for that start, half of it before TsTxAckDelay
    pub ack_wait: u32,
    /// TsMaxAck: the longest acknowledgment
    pub max_ack: u32,
    /// TsTimeslotLength
    pub length: u32,
}

impl Timeslot {
    /// The default template of the 2.4 GHz PHY (macTimeslotTemplateId 0).
    pub const DEFAULT: Self = Self {
        tx_offset: 2_120,
        rx_wait: 2_200,
        max_tx: 4_256,
        tx_ack_delay: 1_000,
        ack_wait: 400,
        max_ack: 2_400,
        length: 10_000,
    };

    /// The times of a beacon's template. None for a template without times that is not the default.
    pub const fn advertised(template: &Template) -> Option<Self> {
        match template {
            Template::Known(0) => Some(Self::DEFAULT),
            Template::Known(_) => None,
            Template::Times(_, times) => Some(Self {
                tx_offset: times.tx_offset as u32,
                rx_wait: times.rx_wait as u32,
                max_tx: times.max_tx,
                tx_ack_delay: times.tx_ack_delay as u32,
                ack_wait: times.ack_wait as u32,
                max_ack: times.max_ack as u32,
                length: times.length,
            }),
        }
    }

    /// Start of listening.
    pub const fn rx_offset(&self) -> u32 {
        self.tx_offset.saturating_sub(self.rx_wait / 2)
    }

    /// End of listening without a frame.
    pub const fn rx_end(&self) -> u32 {
        self.rx_offset() + self.rx_wait
    }
}

impl Default for Timeslot {
    fn default() -> Self {
        Self::DEFAULT
    }
}

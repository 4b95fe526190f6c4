//! The timeslot template (clause 8.4.3.3.3).

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

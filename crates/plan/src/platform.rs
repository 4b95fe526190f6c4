//! The motes of sciancalepore2016 (section 4.1).
//!
//! Times of the engines come from the paper and the datasheets, currents from the datasheets
//! (typical values at 25 degrees):
//!
//! - CC2538 (TI SWRS096, electrical characteristics): CPU from flash at 32 MHz 13 mA; receiving at
//!   -50 dBm 20 mA (24 mA while waiting at -100 dBm), sending at 0 dBm 24 mA (34 mA at 7 dBm), both
//!   with the CPU idle; power mode 2, which keeps the sleep timer, 1.3 uA;
//! - CC2420 (TI SWRS041): receiving 18.8 mA, sending at 0 dBm 17.4 mA, idle with its oscillator 426
//!   uA, power down 20 uA;
//! - MSP430F1611 (TI SLAS368, at 3 V): active 500 uA per MHz, so 4.0 mA at 8 MHz; low-power mode 0
//!   75 uA, mode 3 2.6 uA.
//!
//! The datasheet of the mote (Moteiv, Tmote Sky) gives 1.8 mA for its CPU without a clock, and the
//! paper's figure 7 fits that value. This model uses the chip's higher current at 8 MHz. (By its
//! datasheet the chip needs 3.6 V for that clock; the mote has 3 V.)

use serde::Serialize;

/// A mote.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Platform {
    /// name
    pub name: &'static str,
    /// description
    pub about: &'static str,
    /// clock of the CPU in MHz
    pub mhz: f64,
    /// cycles for each count of the emulator: 1 where it counts cycles
    pub cycles_per_count: f64,
    /// TsTxOffset without security, in ms (figures 5 and 6)
    pub tx_offset: f64,
    /// TsTxAckDelay without security, in ms
    pub tx_ack_delay: f64,
    /// a block in the AES engine, in ms
    pub aes_block: f64,
    /// to hand a frame of 127 octets over to the engine, in ms; 0 where the engine reads the memory
    /// itself
    pub transfer: f64,
    /// to start the CCM* engine, in ms
    pub ccm_start: f64,
    /// an octet in the CCM* engine, in ms
    pub ccm_octet: f64,
    /// supply, in V
    pub volts: f64,
    /// sending, in mA
    pub tx_ma: f64,
    /// receiving, in mA
    pub rx_ma: f64,
    /// waiting for a frame, in mA
    pub listen_ma: f64,
    /// the CPU at work, in mA
    pub cpu_ma: f64,
    /// a separate radio while the CPU works, in mA
    pub radio_idle_ma: f64,
    /// the CPU while the radio works, in mA, where `tx_ma` and `rx_ma` exclude it
    pub wait_ma: f64,
    /// the whole mote between slots, with its clock running, in mA
    pub sleep_ma: f64,
    /// flash, in bytes
    pub flash: u32,
    /// RAM, in bytes
    pub ram: u32,
}

/// The OpenMote-CC2538: a Cortex-M3 at 32 MHz with radio and engines on one chip.
///
/// QEMU counts instructions. 1.5 cycles per instruction is an assumption: an ARMv7-M load takes two
/// cycles and a taken branch two to four.
pub const CC2538: Platform = Platform {
    name: "cc2538",
    about: "OpenMote-CC2538, Cortex-M3, 32 MHz",
    mhz: 32.0,
    cycles_per_count: 1.5,
    tx_offset: 1.15,
    tx_ack_delay: 0.67,
    aes_block: 0.007,
    transfer: 0.0,
    // The paper gives 85 us a block at 12 Mbit/s; all but 11 us of it is the start.
    ccm_start: 0.074,
    ccm_octet: 8.0 / 12_000.0,
    volts: 3.0,
    tx_ma: 24.0,
    rx_ma: 20.0,
    listen_ma: 24.0,
    cpu_ma: 13.0,
    radio_idle_ma: 0.0,
    wait_ma: 0.0,
    sleep_ma: 0.0013,
    flash: 512 * 1024,
    ram: 32 * 1024,
};

/// The TelosB: an MSP430 at 8 MHz with a CC2420 on an SPI bus.
pub const TELOSB: Platform = Platform {
    name: "telosb",
    about: "TelosB, MSP430 with CC2420, 8 MHz",
    mhz: 8.0,
    cycles_per_count: 1.0,
    tx_offset: 3.63,
    tx_ack_delay: 4.46,
    aes_block: 0.014,
    transfer: 1.0,
    ccm_start: 0.0,
    ccm_octet: 0.222 / 119.0,
    volts: 3.0,
    tx_ma: 17.4,
    rx_ma: 18.8,
    listen_ma: 18.8,
    cpu_ma: 4.0,
    radio_idle_ma: 0.426,
    wait_ma: 0.075,
    sleep_ma: 0.0226,
    flash: 48 * 1024,
    ram: 10 * 1024,
};

/// Both platforms.
pub const ALL: [Platform; 2] = [CC2538, TELOSB];

/// The platform of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Platform> {
    ALL.iter().find(|platform| platform.name == name)
}

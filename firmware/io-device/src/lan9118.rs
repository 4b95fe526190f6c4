//! A driver of the network card LAN9118 (SMSC's data sheet, revision 1.5), polled, in the form of a
//! device of smoltcp.

use core::ptr;

use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// The card's address on the mps2-an385.
const BASE: usize = 0x4020_0000;
/// The longest frame: a full one and MACsec's overhead. The card takes up to 2 KiB.
pub const MTU: usize = 1514 + 32;
/// Words of the longest frame with its check sequence.
const WORDS: usize = (MTU + 4).div_ceil(4);

// Section 5: the registers.
const RX_DATA: usize = 0x00;
const TX_DATA: usize = 0x20;
const RX_STATUS: usize = 0x40;
const TX_STATUS: usize = 0x48;
const BYTE_TEST: usize = 0x64;
const RX_CFG: usize = 0x6c;
const TX_CFG: usize = 0x70;
const HW_CFG: usize = 0x74;
const RX_FIFO_INF: usize = 0x7c;
const TX_FIFO_INF: usize = 0x80;
const MAC_CSR_CMD: usize = 0xa4;
const MAC_CSR_DATA: usize = 0xa8;

/// Section 5.3.4: the order of the octets is right.
const BYTE_ORDER: u32 = 0x8765_4321;
/// HW_CFG: reset; whole frames in the transmit FIFO, which has 5 KiB.
const RESET: u32 = 1;
const STORE_AND_FORWARD: u32 = 1 << 20 | 5 << 16;
/// TX_CFG: transmits.
const TX_ON: u32 = 1 << 1;
/// RX_STATUS: the frame is faulty.
const ERROR: u32 = 1 << 15;
/// MAC_CSR_CMD: busy with a command.
const BUSY: u32 = 1 << 31;
/// Section 5.4: MAC_CR, with full duplex, all multicast, transmitter and receiver; the address.
const MAC_CR: u32 = 1;
const MAC_ADDRESS_HIGH: u32 = 2;
const MAC_ADDRESS_LOW: u32 = 3;
const MAC_ON: u32 = 1 << 20 | 1 << 19 | 1 << 3 | 1 << 2;
/// Section 3.12.2: the commands of a frame in one piece.
const FIRST_AND_LAST: u32 = 1 << 13 | 1 << 12;

fn read(register: usize) -> u32 {
    // SAFETY: the card's registers are mapped here, and reading them changes the card alone.
    unsafe { ptr::with_exposed_provenance::<u32>(BASE + register).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: as in `read`. The card reads and writes no memory.
    unsafe { ptr::with_exposed_provenance_mut::<u32>(BASE + register).write_volatile(value) }
}

/// Writes a register of the MAC.
fn write_mac(register: u32, value: u32) {
    while read(MAC_CSR_CMD) & BUSY != 0 {}
    write(MAC_CSR_DATA, value);
    write(MAC_CSR_CMD, BUSY | register);
    while read(MAC_CSR_CMD) & BUSY != 0 {}
}

/// The card.
pub struct Lan9118 {
    received: [u32; WORDS],
    sending: [u32; WORDS],
    /// Frames that were too long or faulty.
    pub refused: u32,
}

impl Lan9118 {
    /// Sets the card up. `None` if there is none.
    pub fn new(address: [u8; 6]) -> Option<Self> {
        if read(BYTE_TEST) != BYTE_ORDER {
            return None;
        }
        write(HW_CFG, RESET);
        while read(HW_CFG) & RESET != 0 {}
        write(HW_CFG, STORE_AND_FORWARD);
        write(RX_CFG, 0);
        write(TX_CFG, TX_ON);
        let [a, b, c, d, e, f] = address;
        write_mac(MAC_ADDRESS_LOW, u32::from_le_bytes([a, b, c, d]));
        write_mac(MAC_ADDRESS_HIGH, u32::from_le_bytes([e, f, 0, 0]));
        write_mac(MAC_CR, MAC_ON);
        Some(Self { received: [0; WORDS], sending: [0; WORDS], refused: 0 })
    }

    /// Takes the next faultless frame out of the card. Returns its octets.
    fn take(&mut self) -> Option<usize> {
        // The number of frames that wait.
        while read(RX_FIFO_INF) >> 16 & 0xff > 0 {
            let status = read(RX_STATUS);
            let len = (status >> 16 & 0x3fff) as usize;
            let words = len.div_ceil(4);
            for at in 0..words {
                let word = read(RX_DATA);
                if let Some(place) = self.received.get_mut(at) {
                    *place = word;
                }
            }
            // The check sequence stays behind the frame.
            if status & ERROR == 0 && (18..=MTU + 4).contains(&len) {
                return Some(len - 4);
            }
            self.refused += 1;
        }
        None
    }

    /// Whether the longest frame fits the transmit FIFO.
    fn has_space() -> bool {
        // Nobody reads the results of sent frames, which would fill their FIFO.
        while read(TX_FIFO_INF) >> 16 & 0xff > 0 {
            read(TX_STATUS);
        }
        read(TX_FIFO_INF) as u16 as usize >= 4 * (WORDS + 2)
    }
}

/// Octets of words, in the order of a little-endian CPU.
fn octets(words: &mut [u32; WORDS]) -> &mut [u8; 4 * WORDS] {
    // SAFETY: octets need no alignment, and each pattern of bits is one; the length is the same.
    unsafe { &mut *ptr::from_mut(words).cast() }
}

/// A received frame.
pub struct Came<'a>(&'a [u8]);
/// A frame to send.
pub struct Leaves<'a>(&'a mut [u32; WORDS]);

impl phy::RxToken for Came<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl phy::TxToken for Leaves<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let result = f(&mut octets(self.0)[..len]);
        write(TX_DATA, FIRST_AND_LAST | len as u32);
        write(TX_DATA, len as u32);
        self.0.iter().take(len.div_ceil(4)).for_each(|word| write(TX_DATA, *word));
        result
    }
}

impl Device for Lan9118 {
    type RxToken<'a> = Came<'a>;
    type TxToken<'a> = Leaves<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Came<'_>, Leaves<'_>)> {
        let len = Self::has_space().then(|| self.take())??;
        let Self { received, sending, .. } = self;
        Some((Came(&octets(received)[..len]), Leaves(sending)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaves<'_>> {
        Self::has_space().then_some(Leaves(&mut self.sending))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

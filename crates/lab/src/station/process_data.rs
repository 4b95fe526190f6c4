//! The process data of the virtual stations, in the IO data object of their cyclic frames.
//!
//! ```text
//! |  marker            8   known plaintext, for the tap
//! |  process image     n   static text that fills the frame
//! |  run               2   number of the controller's start; a forged frame has another
//! |  sequence          4   one more in each frame
//! |  flags             1   bit 0: the toggling bit; bit 1: the station stops; bit 2: the echo is there;
//! |                          bit 3: the sender receives valid data itself
//! |  edges             2   rising edges of the toggling bit that the sender made so far
//! |  sent              8   CLOCK_MONOTONIC of the sender, nanoseconds
//! |  echo              8   `sent` of the last frame that the sender received
//! |  residence         4   nanoseconds from receiving that frame to sending this one
//! |  checksum          4   CRC-32 over all of the above
//! ```
//!
//! Static octets are in front, so the checksum over them is computed once.

/// First octets of every process image.
pub const MARKER: [u8; 8] = *b"PROC-IMG";
/// Repeated text of process images.
pub const IMAGE: &[u8] = b"valve=open;pump=run;temp=0421;level=0087;speed=1450;mode=auto;";

const DYNAMIC_LEN: usize = 29;
const CHECKSUM_LEN: usize = 4;
/// Shortest IO data object with all fields.
pub const MIN_LEN: usize = MARKER.len() + DYNAMIC_LEN + CHECKSUM_LEN;

const TOGGLE: u8 = 0x01;
const STOPPING: u8 = 0x02;
const HAS_ECHO: u8 = 0x04;
const CONSUMING: u8 = 0x08;

/// Content of one cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessData {
    /// Number of the controller's start.
    pub run: u16,
    /// Counts the frames of the sender.
    pub sequence: u32,
    /// The toggling bit.
    pub toggle: bool,
    /// The sender stops; the end of its frames is no fault.
    pub stopping: bool,
    /// The sender receives valid data (its IOCS).
    pub consuming: bool,
    /// Rising edges made by the sender.
    pub edges: u16,
    /// Time of sending.
    pub sent_ns: u64,
    /// The last received stamp and its residence.
    pub echo: Option<Echo>,
}

/// Input of a round trip: now - `sent_ns` - `residence_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The receiver's own stamp.
    pub sent_ns: u64,
    /// Time spent in the other station.
    pub residence_ns: u32,
}

/// Why an IO data object is not a station's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageError {
    /// Too short, or without the marker.
    Malformed,
    /// The checksum is wrong.
    Checksum,
}

/// An IO data object under construction. Keeps the checksum over the static octets.
#[derive(Clone, Debug)]
pub struct Writer {
    static_checksum: u32,
    static_len: usize,
}

impl Writer {
    /// Fills the static octets of `object`; `None` if it is shorter than [`MIN_LEN`].
    pub fn prepare(object: &mut [u8]) -> Option<Self> {
        let static_len =
            object.len().checked_sub(DYNAMIC_LEN + CHECKSUM_LEN).filter(|&len| len >= MARKER.len())?;
        let content = MARKER.iter().chain(IMAGE.iter().cycle());
        for (octet, &value) in object[..static_len].iter_mut().zip(content) {
            *octet = value;
        }
        Some(Self { static_checksum: crc32_update(CRC_INITIAL, &object[..static_len]), static_len })
    }

    /// Writes the changing fields into the prepared `object`.
    pub fn write(&self, object: &mut [u8], data: &ProcessData) {
        let mut dynamic = [0; DYNAMIC_LEN];
        dynamic[0..2].copy_from_slice(&data.run.to_be_bytes());
        dynamic[2..6].copy_from_slice(&data.sequence.to_be_bytes());
        dynamic[6] = flag(TOGGLE, data.toggle)
            | flag(STOPPING, data.stopping)
            | flag(HAS_ECHO, data.echo.is_some())
            | flag(CONSUMING, data.consuming);
        dynamic[7..9].copy_from_slice(&data.edges.to_be_bytes());
        dynamic[9..17].copy_from_slice(&data.sent_ns.to_be_bytes());
        let echo = data.echo.unwrap_or(Echo { sent_ns: 0, residence_ns: 0 });
        dynamic[17..25].copy_from_slice(&echo.sent_ns.to_be_bytes());
        dynamic[25..29].copy_from_slice(&echo.residence_ns.to_be_bytes());
        let checksum = !crc32_update(self.static_checksum, &dynamic);
        let (changing, end) = object[self.static_len..].split_at_mut(DYNAMIC_LEN);
        changing.copy_from_slice(&dynamic);
        end.copy_from_slice(&checksum.to_be_bytes());
    }
}

impl ProcessData {
    /// Parses an IO data object and verifies all of it.
    pub fn read(object: &[u8]) -> Result<Self, DamageError> {
        let static_len =
            object.len().checked_sub(DYNAMIC_LEN + CHECKSUM_LEN).ok_or(DamageError::Malformed)?;
        if !object.starts_with(&MARKER) || static_len < MARKER.len() {
            return Err(DamageError::Malformed);
        }
        let (content, checksum) = object.split_at(object.len() - CHECKSUM_LEN);
        if (!crc32_update(CRC_INITIAL, content)).to_be_bytes() != *checksum {
            return Err(DamageError::Checksum);
        }
        let dynamic = &content[static_len..];
        let flags = dynamic[6];
        let echo = Echo { sent_ns: be(&dynamic[17..25]), residence_ns: be(&dynamic[25..29]) as u32 };
        Ok(Self {
            run: be(&dynamic[0..2]) as u16,
            sequence: be(&dynamic[2..6]) as u32,
            toggle: flags & TOGGLE != 0,
            stopping: flags & STOPPING != 0,
            consuming: flags & CONSUMING != 0,
            edges: be(&dynamic[7..9]) as u16,
            sent_ns: be(&dynamic[9..17]),
            echo: (flags & HAS_ECHO != 0).then_some(echo),
        })
    }
}

fn flag(bit: u8, on: bool) -> u8 {
    if on { bit } else { 0 }
}

fn be(octets: &[u8]) -> u64 {
    octets.iter().fold(0, |value, &octet| value << 8 | u64::from(octet))
}

const CRC_INITIAL: u32 = !0;

/// One step of CRC-32 (IEEE 802.3 clause 3.2.9) over octets; begin with [`CRC_INITIAL`], invert at the end.
fn crc32_update(state: u32, octets: &[u8]) -> u32 {
    octets.iter().fold(state, |crc, &octet| CRC_TABLE[usize::from(crc as u8 ^ octet)] ^ (crc >> 8))
}

static CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (0xedb8_8320 & (value & 1).wrapping_neg());
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> ProcessData {
        ProcessData {
            run: 0x1234,
            sequence: 99,
            toggle: true,
            stopping: false,
            consuming: true,
            edges: 7,
            sent_ns: 1_234_567_890_123,
            echo: Some(Echo { sent_ns: 77, residence_ns: 5 }),
        }
    }

    #[test]
    fn crc32_gives_the_known_check_value() {
        assert_eq!(!crc32_update(CRC_INITIAL, b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn process_data_round_trips_all_lengths() {
        for len in [MIN_LEN, MIN_LEN + 1, 200, 1438] {
            let mut object = vec![0; len];
            let writer = Writer::prepare(&mut object).unwrap();
            writer.write(&mut object, &sample());
            assert_eq!(ProcessData::read(&object), Ok(sample()), "{len}");
        }
        assert!(Writer::prepare(&mut [0; MIN_LEN - 1]).is_none());
    }

    #[test]
    fn any_flipped_bit_is_seen() {
        let mut object = vec![0; 64];
        Writer::prepare(&mut object).unwrap().write(&mut object, &sample());
        for bit in 0..object.len() * 8 {
            object[bit / 8] ^= 1 << (bit % 8);
            assert!(ProcessData::read(&object).is_err(), "bit {bit}");
            object[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..object.len() {
            assert!(ProcessData::read(&object[..len]).is_err(), "cut to {len}");
        }
    }
}

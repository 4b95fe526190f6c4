//! Cyclic frames of RT class 1 (IEC 61158-6-10, RTC-PDU): FrameID, C_SDU, APDU status.

use super::{DataStatus, FrameId, Iocs, Iops, Ioxs};
use crate::bytes::{at_least, be16, put16};
use crate::{Error, Result};

/// Octets of the shortest C_SDU: FrameID and APDU status fill it up to the shortest Ethernet frame.
pub const MIN_C_SDU_LEN: usize = 40;
/// Octets of the longest C_SDU.
pub const MAX_C_SDU_LEN: usize = 1440;
/// Octets of FrameID and APDU status.
pub const OVERHEAD: usize = 6;
/// The unit of the cycle counter, in nanoseconds: 31.25 µs.
pub const CYCLE_UNIT_NS: u64 = 31_250;

/// The cycle counter for a time: 31.25 µs units, wrapping, rounded down to a multiple of the update
/// time.
///
/// `update_units` is send clock factor times reduction ratio; 1 ms is 32. It should be a power of
/// two, as in the standard, so that the counter stays a multiple of it across the wrap.
pub const fn cycle_counter(time_ns: u64, update_units: u16) -> u16 {
    let units = time_ns / CYCLE_UNIT_NS;
    let update = if update_units == 0 { 1 } else { update_units as u64 };
    (units / update * update) as u16
}

/// The layout of a C_SDU: `data` octets of one IO data object, its IOPS, then `iocs` consumer
/// statuses. Several objects are several consecutive layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// the offset of the first octet in the C_SDU
    pub offset: usize,
    /// octets of the IO data object
    pub data: usize,
    /// consumer statuses behind the object's IOPS
    pub iocs: usize,
}

impl Layout {
    /// One object of `data` octets and `iocs` consumer statuses at the start of the C_SDU.
    pub const fn new(data: usize, iocs: usize) -> Self {
        Self { offset: 0, data, iocs }
    }

    /// The offset of the object's IOPS.
    pub const fn iops_offset(&self) -> usize {
        self.offset + self.data
    }

    /// The offset of consumer status `index`.
    pub const fn iocs_offset(&self, index: usize) -> usize {
        self.iops_offset() + 1 + index
    }

    /// The offset behind the last octet.
    pub const fn end(&self) -> usize {
        self.iops_offset() + 1 + self.iocs
    }

    /// Octets of a C_SDU with this layout as its last one, padded to the minimum.
    pub const fn c_sdu_len(&self) -> usize {
        if self.end() < MIN_C_SDU_LEN { MIN_C_SDU_LEN } else { self.end() }
    }

    /// The IO data object in `c_sdu`.
    pub fn data<'a>(&self, c_sdu: &'a [u8]) -> Option<&'a [u8]> {
        c_sdu.get(self.offset..self.iops_offset())
    }

    /// The IO data object in `c_sdu`, writable.
    pub fn data_mut<'a>(&self, c_sdu: &'a mut [u8]) -> Option<&'a mut [u8]> {
        c_sdu.get_mut(self.offset..self.iops_offset())
    }

    /// The object's provider status.
    pub fn iops(&self, c_sdu: &[u8]) -> Option<Iops> {
        c_sdu.get(self.iops_offset()).copied().map(Ioxs)
    }

    /// Consumer status `index`.
    pub fn iocs(&self, c_sdu: &[u8], index: usize) -> Option<Iocs> {
        if index < self.iocs { c_sdu.get(self.iocs_offset(index)).copied().map(Ioxs) } else { None }
    }

    /// Writes the provider status and all consumer statuses.
    pub fn set_status(&self, c_sdu: &mut [u8], iops: Iops, iocs: Iocs) -> Result<()> {
        let statuses = c_sdu.get_mut(self.iops_offset()..self.end()).ok_or(Error::Truncated)?;
        statuses.fill(iocs.0);
        statuses[0] = iops.0;
        Ok(())
    }
}

mod field {
    pub(super) const FRAME_ID: usize = 0;
    pub(super) const C_SDU: usize = 2;
    /// Offsets from the end.
    pub(super) const CYCLE_COUNTER: usize = 4;
    pub(super) const DATA_STATUS: usize = 2;
    pub(super) const TRANSFER_STATUS: usize = 1;
}

/// A view of a cyclic frame, from its FrameID to its APDU status.
#[derive(Debug, Clone, Copy)]
pub struct CyclicFrame<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> CyclicFrame<T> {
    /// A view of `buffer` (the octets behind the EtherType), if it is a cyclic frame with a C_SDU
    /// of permitted length.
    ///
    /// Frames of RT class 3 may have a shorter C_SDU than the minimum: they need no padding within
    /// a frame pack.
    pub fn new_checked(buffer: T) -> Result<Self> {
        let bytes = buffer.as_ref();
        at_least(bytes, OVERHEAD)?;
        let id = FrameId(be16(bytes, field::FRAME_ID));
        if !id.is_cyclic() {
            return Err(Error::Value);
        }
        let len = bytes.len() - OVERHEAD;
        if len > MAX_C_SDU_LEN || (id.is_rt_class_1() && len < MIN_C_SDU_LEN) {
            return Err(Error::Length);
        }
        Ok(Self { buffer })
    }

    /// Returns the bytes.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    fn offset_of_last(&self, back: usize) -> usize {
        self.buffer.as_ref().len() - back
    }

    /// The FrameID.
    pub fn frame_id(&self) -> FrameId {
        FrameId(be16(self.buffer.as_ref(), field::FRAME_ID))
    }

    /// IO data objects, their statuses, padding.
    pub fn c_sdu(&self) -> &[u8] {
        &self.buffer.as_ref()[field::C_SDU..self.offset_of_last(field::CYCLE_COUNTER)]
    }

    /// The cycle counter, in units of 31.25 µs.
    pub fn cycle_counter(&self) -> u16 {
        be16(self.buffer.as_ref(), self.offset_of_last(field::CYCLE_COUNTER))
    }

    /// The data status.
    pub fn data_status(&self) -> DataStatus {
        DataStatus(self.buffer.as_ref()[self.offset_of_last(field::DATA_STATUS)])
    }

    /// The transfer status: 0 unless a switch found the frame damaged.
    pub fn transfer_status(&self) -> u8 {
        self.buffer.as_ref()[self.offset_of_last(field::TRANSFER_STATUS)]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> CyclicFrame<T> {
    /// IO data objects, their statuses, padding, writable.
    pub fn c_sdu_mut(&mut self) -> &mut [u8] {
        let end = self.offset_of_last(field::CYCLE_COUNTER);
        &mut self.buffer.as_mut()[field::C_SDU..end]
    }

    /// Sets the cycle counter.
    pub fn set_cycle_counter(&mut self, counter: u16) {
        let at = self.offset_of_last(field::CYCLE_COUNTER);
        put16(self.buffer.as_mut(), at, counter);
    }

    /// Sets the data status.
    pub fn set_data_status(&mut self, status: DataStatus) {
        let at = self.offset_of_last(field::DATA_STATUS);
        self.buffer.as_mut()[at] = status.0;
    }
}

/// A cyclic frame without the contents of its C_SDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CyclicRepr {
    /// the connection
    pub frame_id: FrameId,
    /// octets of the C_SDU, see [`Layout::c_sdu_len`]
    pub c_sdu_len: usize,
    /// in units of 31.25 µs
    pub cycle_counter: u16,
    /// the state of the provider
    pub data_status: DataStatus,
    /// 0 from a provider
    pub transfer_status: u8,
}

impl CyclicRepr {
    /// Reads the fields outside the C_SDU.
    pub fn parse<T: AsRef<[u8]>>(frame: &CyclicFrame<T>) -> Self {
        Self {
            frame_id: frame.frame_id(),
            c_sdu_len: frame.c_sdu().len(),
            cycle_counter: frame.cycle_counter(),
            data_status: frame.data_status(),
            transfer_status: frame.transfer_status(),
        }
    }

    /// Octets from the FrameID to the end of the APDU status.
    pub const fn buffer_len(&self) -> usize {
        OVERHEAD + self.c_sdu_len
    }

    /// Writes FrameID and APDU status around a C_SDU to the front of `buffer` and returns the view
    /// of the frame. The octets of the C_SDU stay unchanged.
    pub fn emit<'a>(&self, buffer: &'a mut [u8]) -> Result<CyclicFrame<&'a mut [u8]>> {
        let bytes = buffer.get_mut(..self.buffer_len()).ok_or(Error::Truncated)?;
        put16(bytes, field::FRAME_ID, self.frame_id.0);
        let mut frame = CyclicFrame::new_checked(bytes)?;
        frame.set_cycle_counter(self.cycle_counter);
        frame.set_data_status(self.data_status);
        let at = frame.offset_of_last(field::TRANSFER_STATUS);
        frame.buffer[at] = self.transfer_status;
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shortest_frame_fills_ethernet_minimum() {
        let layout = Layout::new(10, 2);
        assert_eq!(layout.c_sdu_len(), MIN_C_SDU_LEN);
        assert_eq!(
            OVERHEAD + layout.c_sdu_len() + crate::ethernet::HEADER_LEN,
            crate::ethernet::MIN_FRAME_LEN
        );
        assert_eq!(Layout::new(100, 2).c_sdu_len(), 103);
    }

    #[test]
    fn frame_round_trips() {
        let layout = Layout::new(20, 1);
        let repr = CyclicRepr {
            frame_id: FrameId(0x8001),
            c_sdu_len: layout.c_sdu_len(),
            cycle_counter: 0x1220,
            data_status: DataStatus::OPERATIONAL,
            transfer_status: 0,
        };
        let mut buffer = [0; 64];
        let mut frame = repr.emit(&mut buffer).unwrap();
        layout.data_mut(frame.c_sdu_mut()).unwrap().fill(0x77);
        layout.set_status(frame.c_sdu_mut(), Ioxs::GOOD, Ioxs::BAD).unwrap();
        assert_eq!(buffer[..2], [0x80, 0x01]);
        assert_eq!(buffer[42..46], [0x12, 0x20, 0x35, 0]);
        let frame = CyclicFrame::new_checked(&buffer[..46]).unwrap();
        assert_eq!(CyclicRepr::parse(&frame), repr);
        assert_eq!(layout.data(frame.c_sdu()), Some(&[0x77; 20][..]));
        assert_eq!(layout.iops(frame.c_sdu()), Some(Ioxs::GOOD));
        assert_eq!(layout.iocs(frame.c_sdu(), 0), Some(Ioxs::BAD));
        assert_eq!(layout.iocs(frame.c_sdu(), 1), None);
    }

    #[test]
    fn acyclic_or_wrong_length_is_refused() {
        let mut bytes = [0; 1500];
        bytes[0] = 0x80;
        assert_eq!(CyclicFrame::new_checked(&bytes[..5]).err(), Some(Error::Truncated));
        assert_eq!(CyclicFrame::new_checked(&bytes[..45]).err(), Some(Error::Length));
        assert!(CyclicFrame::new_checked(&bytes[..46]).is_ok());
        assert!(CyclicFrame::new_checked(&bytes[..1446]).is_ok());
        assert_eq!(CyclicFrame::new_checked(&bytes[..1447]).err(), Some(Error::Length));
        bytes[0] = 0xfe;
        assert_eq!(CyclicFrame::new_checked(&bytes[..60]).err(), Some(Error::Value));
    }

    #[test]
    fn cycle_counter_is_a_multiple_and_wraps() {
        assert_eq!(cycle_counter(0, 32), 0);
        assert_eq!(cycle_counter(1_000_000, 32), 32);
        assert_eq!(cycle_counter(1_999_999, 32), 32);
        assert_eq!(cycle_counter(2_048_000_000, 32), 0);
        assert_eq!(cycle_counter(31_250, 0), 1);
    }

    proptest! {
        #[test]
        fn view_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80), offset in 0usize..90, data in 0usize..90) {
            if let Ok(frame) = CyclicFrame::new_checked(&bytes) {
                let repr = CyclicRepr::parse(&frame);
                prop_assert_eq!(repr.buffer_len(), bytes.len());
                let layout = Layout { offset, data, iocs: 1 };
                let _ = (layout.data(frame.c_sdu()), layout.iops(frame.c_sdu()), layout.iocs(frame.c_sdu(), 0));
            }
        }
    }
}

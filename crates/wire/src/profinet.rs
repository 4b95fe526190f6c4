//! Profinet real-time frames (IEC 61158-6-10): the FrameID of every frame, and the cyclic data of RT class 1.
//!
//! Behind the EtherType 0x8892 (and, as a rule, a VLAN tag of priority 6) a cyclic frame is
//!
//! ```text
//!   FrameID              2 octets
//!   C_SDU               40 to 1440 octets: IO data objects with their provider status (IOPS), consumer
//!                       status (IOCS) of the data that flows the other way, padding
//!   APDU status          4 octets: cycle counter, data status, transfer status
//! ```
//!
//! Where in the C_SDU an object lies is agreed when the connection is made; a frame does not say it. So the
//! layout is a value of its own, [`Layout`], that both ends hold.

mod cyclic;
mod frame_id;
mod status;

pub use cyclic::{
    CYCLE_UNIT_NS, CyclicFrame, CyclicRepr, Layout, MAX_C_SDU_LEN, MIN_C_SDU_LEN, OVERHEAD, cycle_counter,
    cycle_distance,
};
pub use frame_id::{FrameId, FrameIdRange, frame_id};
pub use status::{DataStatus, Iocs, Iops, Ioxs, IoxsInstance};

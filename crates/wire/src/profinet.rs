//! Profinet (IEC 61158-6-10): the FrameID of every real-time frame, the cyclic data of RT class 1,
//! [`alarm`]s, and the calls that set up a connection ([`cm`], over [`crate::dcerpc`]). Among UDP
//! datagrams: the calls to Profinet's interfaces.
//!
//! A cyclic frame, behind the EtherType 0x8892 (and usually a VLAN tag of priority 6):
//!
//! ```text
//!   FrameID              2 octets
//!   C_SDU               40 to 1440 octets: IO data objects with their provider status (IOPS), consumer
//!                       status (IOCS) of the data in the other direction, padding
//!   APDU status          4 octets: cycle counter, data status, transfer status
//! ```
//!
//! The places of the objects in the C_SDU are agreed when the connection is made and are not part
//! of the frame. So [`Layout`] is a separate value, known to both ends.

pub mod alarm;
pub mod cm;
mod cyclic;
mod frame_id;
mod interfaces;
mod status;

pub use cyclic::{
    CYCLE_UNIT_NS, CyclicFrame, CyclicRepr, Layout, MAX_C_SDU_LEN, MIN_C_SDU_LEN, OVERHEAD, cycle_counter,
};
pub use frame_id::{FrameId, FrameIdRange, frame_id};
pub use interfaces::{RPC_HEADER_LEN, is_rpc};
pub use status::{DataStatus, Iocs, Iops, Ioxs};

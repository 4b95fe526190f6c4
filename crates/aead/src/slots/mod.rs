//! Slots, the memory in which packets are prepared, and the types that guard their nonces.

pub(crate) mod expected;
#[cfg(feature = "ccm")]
pub(crate) mod frame_slot;
pub(crate) mod pool;
pub(crate) mod prepared;
pub(crate) mod ring;
pub(crate) mod slot;

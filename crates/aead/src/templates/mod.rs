//! Packets that are prepared for a template or a front: their slots, pools and flow tables.

#[cfg(feature = "gcm")]
pub(crate) mod flow;
pub(crate) mod front;
pub(crate) mod front_pool;
pub(crate) mod front_slot;
pub(crate) mod fronted;
pub(crate) mod open_standby;
pub(crate) mod predictor;
pub(crate) mod prepare_error;
pub(crate) mod standby;
pub(crate) mod template_slot;
pub(crate) mod templated;

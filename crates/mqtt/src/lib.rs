//! MQTT payloads protected end to end, through any broker.
//!
//! - [`mod@file`]: the group file (topics, keys, members) and a device's own key
//! - [`guard`]: seals published payloads, opens received ones, follows rotations
//! - [`store`]: sequence numbers and replay bounds on disk
//! - [`load`]: a client's files
//! - [`manage`]: rotation and revocation, as the group's manager
//! - [`bypass`]: ways around the Mosquitto plugin in a broker's configuration
//! - `acl`: access list and passwords for Mosquitto from the same group file (feature `acl`)
//!
//! The network client is `antedate-mqtt-client`.

#![forbid(unsafe_code)]

#[cfg(feature = "acl")]
pub mod acl;
pub mod bypass;
pub mod file;
pub mod guard;
pub mod load;
pub mod manage;
pub mod store;

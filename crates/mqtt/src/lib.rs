//! MQTT clients whose payloads are protected end to end, through any broker.
//!
//! - [`mod@file`]: the group file (topics, keys, members) and a device's own key
//! - [`guard`]: seals what is published, opens what arrives, follows rotations
//! - [`store`]: sequence numbers and replay bounds on disk
//! - [`client`]: MQTT 3.1.1 and 5.0 over TCP or TLS (`rumqttc`), one thread, no delay
//! - [`manage`]: rotation and revocation, as the group's manager
//! - [`acl`]: who may do what at a Mosquitto broker, from the same group file

#[cfg(feature = "acl")]
pub mod acl;
pub mod file;
pub mod guard;
pub mod manage;
pub mod store;

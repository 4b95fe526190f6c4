//! Keys that members of a group have in common: by bearer, each in a room of its own.
//!
//! - [`cell`](crate::cell): MACsec, a CAK for all
//! - [`overlay`]: WireGuard, a hub and its spokes
//! - [`dtls`]: listeners, and an identity with a key for each connector
//! - [`mqtt`]: publishers and readers, and epochs by rotation messages
//!
//! A group follows its members: one that is new gets keys, and one that is gone loses them in the files
//! of all others.

pub mod dtls;
pub mod mqtt;
pub mod overlay;

use std::collections::BTreeMap;

use crate::cell::Cell;
use crate::home::Member;

/// The keys of all groups, by their names.
#[derive(Debug, Clone, Default)]
pub struct Bearers {
    /// Of MACsec.
    pub cells: BTreeMap<String, Cell>,
    /// Of WireGuard.
    pub overlays: BTreeMap<String, overlay::Overlay>,
    /// Of DTLS.
    pub dtls: BTreeMap<String, dtls::Group>,
    /// Of MQTT.
    pub mqtt: BTreeMap<String, mqtt::Group>,
}

/// A member of a group.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Its identifier.
    pub id: &'a str,
    /// Itself.
    pub member: &'a Member,
}

impl<'a> Side<'a> {
    /// A value of the device.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&'a str> {
        self.member.values.get(key).map(String::as_str)
    }

    /// Whether a value says yes.
    #[must_use]
    pub fn is(&self, key: &str) -> bool {
        self.value(key) == Some("yes")
    }
}

/// What a device gets of its groups: files, and values for its templates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// Content by name.
    pub files: BTreeMap<String, String>,
    /// Values by name.
    pub values: BTreeMap<String, String>,
}

/// Why a group has no keys for a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// An overlay without a hub.
    #[error("the overlay {0} has no hub: antedate fleet set device NAME hub=yes endpoint=HOST:51820")]
    NoHub(String),
    /// An overlay with two.
    #[error("the overlay {overlay} has the hubs {one} and {other}: remove the value of one, hub=")]
    TwoHubs {
        /// The overlay.
        overlay: String,
        /// A hub.
        one: String,
        /// Another one.
        other: String,
    },
    /// A hub that no spoke can reach.
    #[error(
        "{0} is a hub without an address for its spokes: antedate fleet set device {0} endpoint=HOST:51820"
    )]
    NoEndpoint(String),
    /// An endpoint of another form.
    #[error("the endpoint \"{endpoint}\" of {device} is none: write HOST:PORT")]
    Endpoint {
        /// The device.
        device: String,
        /// Its value.
        endpoint: String,
    },
    /// An address in the tunnel of another form, or one that is taken.
    #[error(
        "the tunnel address \"{address}\" of {device} is none, or another device's: write one such as 10.66.0.7, or tunnel= for the next free one"
    )]
    Address {
        /// The device.
        device: String,
        /// Its value.
        address: String,
    },
    /// More members than a gateway has peers.
    #[error("the overlay {0} has more than 256 spokes: make another one")]
    TooMany(String),
    /// A DTLS group without a listener.
    #[error("the DTLS group {0} has no listener: antedate fleet set device NAME listener=yes")]
    NoListener(String),
    /// An MQTT group without a manager's file.
    #[error(
        "there is no MQTT group {0}: antedate fleet set mqtt {0} FILE, with a file of antedate keygen mqtt --managed"
    )]
    NoMqtt(String),
    /// No random numbers.
    #[error(transparent)]
    Random(#[from] crate::NoRandom),
}

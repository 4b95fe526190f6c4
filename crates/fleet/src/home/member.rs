//! Members, and the tokens that made them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::enrol::Token;
use crate::identity::{self, Public};
use crate::now;

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Its cell, or empty.
    #[serde(default)]
    pub cell: String,
    /// Its overlay, or empty.
    #[serde(default)]
    pub overlay: String,
    /// Its DTLS group, or empty.
    #[serde(default)]
    pub dtls: String,
    /// Its MQTT group, or empty.
    #[serde(default)]
    pub mqtt: String,
    /// Values for the templates of its role, and for its groups.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    keys: identity::Written,
    /// The version of the last document to it.
    #[serde(default)]
    pub version: u64,
    /// When its last pass for NATS ends, in seconds since 1970.
    #[serde(default)]
    pub pass_ends: u64,
    /// When it became a member, in seconds since 1970.
    #[serde(default)]
    pub enrolled: u64,
    /// When it was revoked, or 0.
    #[serde(default)]
    pub revoked: u64,
}

impl Member {
    /// A new one.
    #[must_use]
    pub fn new(name: &str, role: &str, cell: &str, keys: Public) -> Self {
        Self {
            name: name.to_owned(),
            role: role.to_owned(),
            cell: cell.to_owned(),
            overlay: String::new(),
            dtls: String::new(),
            mqtt: String::new(),
            values: BTreeMap::new(),
            keys: keys.into(),
            version: 0,
            pass_ends: 0,
            enrolled: now(),
            revoked: 0,
        }
    }

    /// Its keys. They were sound when it became a member.
    #[must_use]
    pub fn keys(&self) -> Option<Public> {
        self.keys.read()
    }
}

/// A token, and whom it made a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issued {
    pub(super) token: String,
    /// The role of its device.
    pub role: String,
    /// The cell of its device, or empty.
    #[serde(default)]
    pub cell: String,
    /// The end of its validity, in seconds since 1970.
    pub expires: u64,
    /// The device that used it, or empty.
    #[serde(default)]
    pub used: String,
}

impl Issued {
    /// The token.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.token.parse().ok()
    }
}

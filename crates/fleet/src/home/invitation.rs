//! What devices and the operator connect with.

use std::fs;
use std::path::{Path, PathBuf};

use antedate_host::fault::Fault;
use antedate_host::hex::parse_hex;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::authority::{self, Authority};
use crate::login::Access;

/// What a device needs to ask for membership. It holds the fleet's public keys, and a pass that can
/// only ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitation {
    /// The fleet's name.
    pub fleet: String,
    /// Addresses of NATS servers.
    pub servers: Vec<String>,
    pub(super) authority: authority::Written,
    pub(super) pass: String,
    pub(super) secret: String,
    /// Certificates of authorities for TLS (PEM), or empty.
    #[serde(default)]
    pub certificates: String,
}

impl Invitation {
    /// Reads one.
    ///
    /// # Errors
    /// When the file cannot be read, or has another form.
    pub fn load(file: &Path) -> Result<Self, Fault> {
        let remedy = "give the invitation.json that `antedate fleet init` made";
        let text =
            fs::read(file).map_err(|error| Fault::of_io(file, "read the invitation", &error, remedy))?;
        let invitation: Self = serde_json::from_slice(&text)
            .map_err(|error| Fault::of_file(file, format!("is no invitation: {error}"), remedy))?;
        invitation
            .authority()
            .ok_or_else(|| Fault::of_file(file, "its authority has no sound keys", remedy))?;
        Ok(invitation)
    }

    /// That of devices which connect elsewhere, as to a leaf node.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_for(&self, servers: Vec<String>, file: &Path) -> Result<(), Fault> {
        super::write(file, &Self { servers, ..self.clone() })
    }

    /// The fleet's public keys.
    #[must_use]
    pub fn authority(&self) -> Option<Authority> {
        self.authority.read()
    }

    /// Its keys as they are written.
    #[must_use]
    pub fn authority_written(&self) -> authority::Written {
        self.authority.clone()
    }

    /// The connection that can only ask.
    #[must_use]
    pub fn access(&self, certificates: Option<PathBuf>) -> Access {
        let mut secret = Zeroizing::new([0; 32]);
        // Another form is a pass that no server accepts.
        let _ = parse_hex(&self.secret, &mut *secret);
        Access {
            servers: self.servers.clone(),
            user: "invited".into(),
            pass: self.pass.clone(),
            newer: Default::default(),
            secret,
            certificates,
        }
    }
}

/// The operator's pass and its key.
#[derive(Serialize, Deserialize)]
pub(super) struct Login {
    pub(super) pass: String,
    pub(super) secret: String,
}

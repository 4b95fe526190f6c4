//! The operator's directory: what the fleet shall be.
//!
//! | file | content |
//! | --- | --- |
//! | `fleet.json` | name, servers, the authority's public keys |
//! | `signing.key` | the key that makes policy; may be elsewhere |
//! | `reading.key` | the key that opens reports |
//! | `operator.json` | the operator's pass for NATS and its key |
//! | `invitation.json` | what a device needs to ask for membership |
//! | `devices.json` | the members |
//! | `tokens.json` | tokens for mass roll-out |
//! | `roles/ROLE/FILE` | templates of files |
//! | `cells/CELL.json` | CAKs |
//! | `overlays/NAME.json`, `dtls/NAME.json` | keys of overlays and DTLS groups |
//! | `mqtt/NAME.toml`, `mqtt/NAME.acl` | the manager's file of an MQTT group, the access list of its broker |
//! | `mqtt/NAME.json` | the keys of its members, and its broker |
//! | `published/ID.json` | the settings that a device was told last |
//!
//! NATS has copies that it cannot read. So this directory is what is backed up.

mod backup;
mod files;
mod invitation;
mod member;
mod mqtt;
mod wanted;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use antedate_channel::sealed::author_public;
use antedate_host::fault::Fault;
use antedate_host::hex::{hex, parse_hex};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::authority::{self, Authority, Reading, Signing};
use crate::enrol::{Token, is_name};
use crate::identity::id_of_code;
use crate::login::{self, Access};
use crate::{NoRandom, now, random};
pub use files::make_directory;
use files::{lock, read, write};
pub use invitation::Invitation;
use invitation::Login;
pub use member::{Issued, Member};
pub use mqtt::Advance;

/// What a fleet is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// Its name.
    pub name: String,
    /// Addresses of NATS servers.
    pub servers: Vec<String>,
    /// Copies of each message in a cluster.
    pub replicas: usize,
    authority: authority::Written,
    /// Certificates of authorities for TLS (PEM), or empty for those of the system.
    #[serde(default)]
    pub certificates: String,
    /// Whether they changed since the fleet's beginning, so that documents bring them.
    #[serde(default)]
    pub certificates_changed: bool,
    /// Days for which a device's pass for NATS is valid. Each document to the device renews it.
    #[serde(default = "pass_days")]
    pub pass_days: u64,
    /// Days for which a device keeps its keys without a new document. 0: for ever.
    #[serde(default)]
    pub keys_days: u64,
}

/// As long as documents are valid.
const fn pass_days() -> u64 {
    crate::document::VALID / 86_400
}

/// The directory, for one process at a time.
#[derive(Debug)]
pub struct Home {
    directory: PathBuf,
    /// `None`: it is only looked at.
    _lock: Option<File>,
    /// The fleet.
    pub fleet: Fleet,
    /// The members by their identifiers.
    pub devices: BTreeMap<String, Member>,
    /// The tokens.
    pub tokens: Vec<Issued>,
}

const FLEET: &str = "fleet.json";
const DEVICES: &str = "devices.json";
const TOKENS: &str = "tokens.json";
/// The file of the signing key in the directory.
pub const SIGNING: &str = "signing.key";
const READING: &str = "reading.key";
const OPERATOR: &str = "operator.json";
/// The file of the invitation in the directory.
pub const INVITATION: &str = "invitation.json";

fn no_random(error: NoRandom) -> Fault {
    Fault::of_file("antedate".as_ref(), error.to_string(), "no keys can be made on this system")
}

fn no_fleet(directory: &Path) -> Fault {
    let remedy = "make one with `antedate fleet init`, or name its directory with --directory";
    Fault::of_file(directory, "there is no fleet here", remedy)
}

impl Home {
    /// Makes a fleet: its keys, the operator's pass and the invitation.
    ///
    /// # Errors
    /// When there is one already, or the directory cannot be written.
    pub fn create(
        directory: &Path,
        name: &str,
        servers: &[String],
        replicas: usize,
        pem: &str,
    ) -> Result<Self, Fault> {
        if !is_name(name) {
            let remedy = "use 1 to 64 letters, digits and - _ .";
            return Err(Fault::of_file(directory, format!("\"{name}\" is not the name of a fleet"), remedy));
        }
        make_directory(directory)?;
        let lock = lock(directory)?;
        if directory.join(FLEET).exists() {
            let remedy = "give another directory: keys are not overwritten";
            return Err(Fault::of_file(directory, "there is a fleet already", remedy));
        }
        let signing = Signing::generate().map_err(no_random)?;
        let reading = Reading::generate().map_err(no_random)?;
        signing.write_new(&directory.join(SIGNING))?;
        reading.write_new(&directory.join(READING))?;
        let authority: authority::Written = Authority::of(&signing, &reading).into();
        let now = now();
        let (mut operator, mut invited) = (Zeroizing::new([0; 32]), Zeroizing::new([0; 32]));
        random(&mut *operator).map_err(no_random)?;
        random(&mut *invited).map_err(no_random)?;
        let pass = login::fleet_operator(&signing, &author_public(&operator), now);
        write(&directory.join(OPERATOR), &Login { pass, secret: hex(&*operator) })?;
        let invitation = Invitation {
            fleet: name.to_owned(),
            servers: servers.to_vec(),
            authority: authority.clone(),
            pass: login::invited(&signing, &author_public(&invited), now),
            secret: hex(&*invited),
            certificates: pem.to_owned(),
        };
        write(&directory.join(INVITATION), &invitation)?;
        let fleet = Fleet {
            name: name.to_owned(),
            servers: servers.to_vec(),
            replicas,
            authority,
            certificates: pem.to_owned(),
            certificates_changed: false,
            pass_days: pass_days(),
            keys_days: 0,
        };
        let home = Self {
            directory: directory.to_owned(),
            _lock: Some(lock),
            fleet,
            devices: BTreeMap::new(),
            tokens: Vec::new(),
        };
        home.save()?;
        // The last one: without it there is no fleet.
        write(&directory.join(FLEET), &home.fleet)?;
        Ok(home)
    }

    /// Opens a fleet.
    ///
    /// # Errors
    /// When there is none, another process has it, or a file is damaged.
    pub fn open(directory: &Path) -> Result<Self, Fault> {
        if !directory.join(FLEET).exists() {
            return Err(no_fleet(directory));
        }
        let lock = lock(directory)?;
        Ok(Self { _lock: Some(lock), ..Self::look(directory)? })
    }

    /// Opens a fleet to look at it, while others may change it: each file is as it was at one time.
    ///
    /// # Errors
    /// When there is none, or a file is damaged.
    pub fn look(directory: &Path) -> Result<Self, Fault> {
        if !directory.join(FLEET).exists() {
            return Err(no_fleet(directory));
        }
        let fleet: Fleet = read(&directory.join(FLEET))?;
        let devices = read(&directory.join(DEVICES))?;
        let tokens = read(&directory.join(TOKENS))?;
        Ok(Self { directory: directory.to_owned(), _lock: None, fleet, devices, tokens })
    }

    /// Its path.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sets how long passes and keys are valid.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_validity(&mut self, pass_days: Option<u64>, keys_days: Option<u64>) -> Result<(), Fault> {
        self.fleet.pass_days = pass_days.unwrap_or(self.fleet.pass_days);
        self.fleet.keys_days = keys_days.unwrap_or(self.fleet.keys_days);
        write(&self.directory.join(FLEET), &self.fleet)
    }

    /// Writes members and tokens.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn save(&self) -> Result<(), Fault> {
        write(&self.directory.join(DEVICES), &self.devices)?;
        write(&self.directory.join(TOKENS), &self.tokens)
    }

    /// The fleet's public keys.
    ///
    /// # Errors
    /// When the file holds none.
    pub fn authority(&self) -> Result<Authority, Fault> {
        self.fleet.authority.read().ok_or_else(|| {
            Fault::of_file(
                &self.directory.join(FLEET),
                "its authority has no sound keys",
                "bring the file back",
            )
        })
    }

    /// The signing key, from a file elsewhere or from the directory.
    ///
    /// # Errors
    /// When it is not there, or belongs to another fleet.
    pub fn signing(&self, elsewhere: Option<&Path>) -> Result<Signing, Fault> {
        let file = elsewhere.map_or_else(|| self.directory.join(SIGNING), Path::to_owned);
        let signing = Signing::load(&file)?;
        if author_public(&signing.documents()) != self.authority()?.documents {
            return Err(Fault::of_file(&file, "is the signing key of another fleet", "give this fleet's"));
        }
        Ok(signing)
    }

    /// The reading key.
    ///
    /// # Errors
    /// When it is not there.
    pub fn reading(&self) -> Result<Reading, Fault> {
        Reading::load(&self.directory.join(READING))
    }

    /// The operator's connection.
    ///
    /// # Errors
    /// When its pass is not there.
    pub fn access(&self) -> Result<Access, Fault> {
        let Login { pass, secret: digits } = read(&self.directory.join(OPERATOR))?;
        let mut secret = Zeroizing::new([0; 32]);
        let _ = parse_hex(&digits, &mut *secret);
        Ok(self.access_of("operator", pass, secret))
    }

    /// The operator's connection with other certificates, to try them.
    ///
    /// # Errors
    /// When the pass is not there, or the file cannot be written.
    pub fn access_with(&self, pem: &str) -> Result<Access, Fault> {
        let file = self.directory.join("certificates.next.pem");
        antedate_host::replace::replace(&file, pem.as_bytes())?;
        Ok(Access { certificates: Some(file), ..self.access()? })
    }

    /// Takes other certificates of authorities: for this directory, for those who are invited from now
    /// on, and with the next document for each device.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn set_certificates(&mut self, pem: &str) -> Result<(), Fault> {
        let file = self.directory.join(INVITATION);
        let invitation = Invitation { certificates: pem.to_owned(), ..read(&file)? };
        write(&file, &invitation)?;
        antedate_host::replace::replace(&self.directory.join("certificates.pem"), pem.as_bytes())?;
        let _ = fs::remove_file(self.directory.join("certificates.next.pem"));
        pem.clone_into(&mut self.fleet.certificates);
        self.fleet.certificates_changed = true;
        write(&self.directory.join(FLEET), &self.fleet)
    }

    /// The connection of the user who changes accounts.
    #[must_use]
    pub fn system_access(&self, signing: &Signing) -> Access {
        self.access_of("system", login::system_user(signing, now()), signing.system_user())
    }

    fn access_of(&self, user: &str, pass: String, secret: Zeroizing<[u8; 32]>) -> Access {
        let file = self.directory.join("certificates.pem");
        let certificates = (!self.fleet.certificates.is_empty()).then(|| {
            // Public, and written for the library that reads a file.
            if !file.exists() {
                let _ = fs::write(&file, &self.fleet.certificates);
            }
            file
        });
        Access {
            servers: self.fleet.servers.clone(),
            user: user.into(),
            pass,
            newer: Default::default(),
            secret,
            certificates,
        }
    }

    /// A member by its name, code or identifier.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(&self, who: &str) -> Result<String, Fault> {
        let by_name = self.devices.iter().find(|(_, member)| member.name == who).map(|(id, _)| id.clone());
        let by_code = || id_of_code(who).filter(|id| self.devices.contains_key(id));
        by_name.or_else(by_code).ok_or_else(|| {
            Fault::of_file(
                &self.directory,
                format!("there is no device \"{who}\""),
                "see `antedate fleet devices`",
            )
        })
    }

    /// The users of NATS whose passes are void.
    #[must_use]
    pub fn revoked(&self) -> Vec<String> {
        let devices = self.devices.values().filter(|member| member.revoked != 0);
        devices.filter_map(|member| Some(member.keys()?.user())).collect()
    }

    /// Members that are not revoked.
    pub fn members(&self) -> impl Iterator<Item = (&String, &Member)> {
        self.devices.iter().filter(|(_, member)| member.revoked == 0)
    }

    /// Makes tokens for a role. Save them with [`Home::save`].
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn issue(&mut self, role: &str, cell: &str, count: usize, days: u64) -> Result<Vec<Token>, Fault> {
        let expires = now() + days * 86_400;
        let mut made = Vec::new();
        for _ in 0..count {
            let token = Token::generate().map_err(no_random)?;
            let issued = Issued {
                token: token.to_string(),
                role: role.to_owned(),
                cell: cell.to_owned(),
                expires,
                used: String::new(),
            };
            self.tokens.push(issued);
            made.push(token);
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests;

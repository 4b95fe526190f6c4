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
//! | `published/ID.json` | the settings that a device was told last |
//!
//! NATS has copies that it cannot read. So this directory is what is backed up.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use antedate_channel::sealed::author_public;
use antedate_host::fault::Fault;
use antedate_host::hex::{hex, parse_hex};
use antedate_host::replace::replace;
use antedate_host::{private_file, process};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::authority::{self, Authority, Reading, Signing};
use crate::cell::Cell;
use crate::document::Settings;
use crate::enrol::{Token, is_name};
use crate::identity::{self, Public, id_of_code};
use crate::login::{self, Access};
use crate::render::{Device, RenderError, render};
use crate::{NoRandom, now, random};

/// The most octets of a file of the directory.
const MAX_LEN: usize = 64 << 20;

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
}

/// What a device needs to ask for membership. It holds the fleet's public keys, and a pass that can
/// only ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitation {
    /// The fleet's name.
    pub fleet: String,
    /// Addresses of NATS servers.
    pub servers: Vec<String>,
    authority: authority::Written,
    pass: String,
    secret: String,
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
            secret,
            certificates,
        }
    }
}

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
    /// Values for the templates of its role.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    keys: identity::Written,
    /// The version of the last document to it.
    #[serde(default)]
    pub version: u64,
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
            values: BTreeMap::new(),
            keys: keys.into(),
            version: 0,
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
    token: String,
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

#[derive(Serialize, Deserialize)]
struct Login {
    pass: String,
    secret: String,
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

/// Makes a directory for its owner alone.
///
/// # Errors
/// When it cannot be made.
pub fn make_directory(path: &Path) -> Result<(), Fault> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Fault::of_io(path, "make the directory", &error, "give one that you can write to"))
}

fn write<T: Serialize>(file: &Path, value: &T) -> Result<(), Fault> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    replace(file, Zeroizing::new(text).as_bytes()).map(drop)
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T, Fault> {
    let length = fs::metadata(file).map_or(0, |about| usize::try_from(about.len()).unwrap_or(MAX_LEN));
    let mut text = Zeroizing::new(vec![0; length.min(MAX_LEN) + 2]);
    let length = private_file::read(file, process::user(), &mut text)?;
    serde_json::from_slice(text.get(..length).unwrap_or_default()).map_err(|error| {
        Fault::of_file(file, format!("has another form: {error}"), "bring it back: `antedate fleet restore`")
    })
}

fn no_fleet(directory: &Path) -> Fault {
    let remedy = "make one with `antedate fleet init`, or name its directory with --directory";
    Fault::of_file(directory, "there is no fleet here", remedy)
}

fn lock(directory: &Path) -> Result<File, Fault> {
    let file = directory.join("lock");
    let cannot =
        |error: &std::io::Error| Fault::of_io(&file, "lock the fleet", error, "run as the directory's owner");
    let open =
        File::options().create(true).truncate(false).write(true).open(&file).map_err(|e| cannot(&e))?;
    match open.try_lock() {
        Ok(()) => Ok(open),
        Err(fs::TryLockError::WouldBlock) => {
            let what = "another `antedate fleet` command is at work in this directory";
            Err(Fault { passing: true, ..Fault::of_file(directory, what, "wait until it has ended") })
        }
        Err(fs::TryLockError::Error(error)) => Err(cannot(&error)),
    }
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
        Access { servers: self.fleet.servers.clone(), user: user.into(), pass, secret, certificates }
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

    /// Members that are not revoked.
    pub fn members(&self) -> impl Iterator<Item = (&String, &Member)> {
        self.devices.iter().filter(|(_, member)| member.revoked == 0)
    }

    fn role_directory(&self, role: &str) -> PathBuf {
        self.directory.join("roles").join(role)
    }

    /// The templates of a role. A role without files has none.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn role(&self, role: &str) -> Result<BTreeMap<String, String>, Fault> {
        let mut files = BTreeMap::new();
        if !is_name(role) {
            return Ok(files);
        }
        let Ok(entries) = fs::read_dir(self.role_directory(role)) else { return Ok(files) };
        for entry in entries.flatten() {
            let path = entry.path();
            let text = fs::read_to_string(&path)
                .map_err(|error| Fault::of_io(&path, "read the template", &error, "write text in UTF-8"))?;
            files.insert(entry.file_name().to_string_lossy().into_owned(), text);
        }
        Ok(files)
    }

    /// Writes a template of a role.
    ///
    /// # Errors
    /// When a name is illegal, or the file cannot be written.
    pub fn set_role(&self, role: &str, file: &str, text: &str) -> Result<(), Fault> {
        for name in [role, file] {
            if !is_name(name) {
                let what = format!("\"{name}\" is no name of a role or a file");
                return Err(Fault::of_file(&self.directory, what, "use 1 to 64 letters, digits and - _ ."));
            }
        }
        let directory = self.role_directory(role);
        make_directory(&directory)?;
        replace(&directory.join(file), text.as_bytes()).map(drop)
    }

    fn cell_file(&self, cell: &str) -> PathBuf {
        self.directory.join("cells").join(format!("{cell}.json"))
    }

    /// A cell that has keys.
    ///
    /// # Errors
    /// When its file is damaged.
    pub fn cell_if_made(&self, cell: &str) -> Result<Option<Cell>, Fault> {
        let file = self.cell_file(cell);
        if is_name(cell) && file.exists() { read(&file).map(Some) } else { Ok(None) }
    }

    /// A cell. One that is new gets its first CAK.
    ///
    /// # Errors
    /// When its file is damaged or cannot be written.
    pub fn cell(&self, cell: &str) -> Result<Option<Cell>, Fault> {
        if cell.is_empty() {
            return Ok(None);
        }
        if !is_name(cell) {
            let what = format!("\"{cell}\" is no name of a cell");
            return Err(Fault::of_file(&self.directory, what, "use 1 to 64 letters, digits and - _ ."));
        }
        let file = self.cell_file(cell);
        if file.exists() {
            return read(&file).map(Some);
        }
        let new = Cell::generate(now()).map_err(no_random)?;
        self.set_cell(cell, &new)?;
        Ok(Some(new))
    }

    /// Writes a cell.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn set_cell(&self, cell: &str, keys: &Cell) -> Result<(), Fault> {
        make_directory(&self.directory.join("cells"))?;
        write(&self.cell_file(cell), keys)
    }

    /// The files that a member shall have.
    ///
    /// # Errors
    /// When its templates cannot be filled.
    pub fn wanted(&self, id: &str) -> Result<Settings, Fault> {
        let Some(member) = self.devices.get(id) else { return Ok(Settings::default()) };
        let templates = self.role(&member.role)?;
        let cell = self.cell(&member.cell)?;
        let Member { name, role, cell: named, values, .. } = member;
        let device = Device { name, id, role, cell: named, values };
        render(device, &templates, cell.as_ref()).map_err(|error: RenderError| {
            let place = self.role_directory(&member.role);
            Fault::of_file(&place, error.to_string(), "")
        })
    }

    /// The settings that a member was told last.
    #[must_use]
    pub fn published(&self, id: &str) -> Option<Settings> {
        read(&self.directory.join("published").join(format!("{id}.json"))).ok()
    }

    /// Remembers the settings that a member was told.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn set_published(&self, id: &str, settings: &Settings) -> Result<(), Fault> {
        let directory = self.directory.join("published");
        make_directory(&directory)?;
        write(&directory.join(format!("{id}.json")), settings)
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

    /// All files of the directory, for a backup. The signing key is left out unless it is wanted.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn pack(&self, with_signing_key: bool) -> Result<String, Fault> {
        let mut files = BTreeMap::new();
        let mut places = vec![self.directory.clone()];
        while let Some(place) = places.pop() {
            let cannot = |error| Fault::of_io(&place, "read for the backup", &error, "run as its owner");
            for entry in fs::read_dir(&place).map_err(cannot)?.flatten() {
                let path = entry.path();
                let name = path.strip_prefix(&self.directory).unwrap_or(&path).to_string_lossy().into_owned();
                if path.is_dir() {
                    places.push(path);
                } else if name != "lock" && (with_signing_key || name != SIGNING) {
                    let content = Zeroizing::new(fs::read(&path).map_err(cannot)?);
                    files.insert(name, STANDARD.encode(&*content));
                }
            }
        }
        let backup = Backup { backup_of: self.fleet.name.clone(), made: now(), files };
        Ok(serde_json::to_string(&backup).unwrap_or_default())
    }

    /// Unpacks a backup into a directory that has no fleet.
    ///
    /// # Errors
    /// When there is one, or the backup is damaged.
    pub fn unpack(file: &Path, directory: &Path) -> Result<Self, Fault> {
        if directory.join(FLEET).exists() {
            let remedy = "move it away first; nothing of it is overwritten";
            return Err(Fault::of_file(directory, "there is a fleet already", remedy));
        }
        let Backup { files, .. } = read(file)?;
        let damaged = |name: &str| {
            Fault::of_file(
                file,
                format!("is damaged, or not of this program: \"{name}\""),
                "give another backup",
            )
        };
        let mut unpacked = Vec::new();
        for (name, content) in &files {
            let is_safe = name.split('/').all(is_name);
            let content = STANDARD.decode(content).ok().filter(|_| is_safe).ok_or_else(|| damaged(name))?;
            unpacked.push((name, Zeroizing::new(content)));
        }
        if !files.contains_key(FLEET) {
            return Err(damaged(FLEET));
        }
        make_directory(directory)?;
        // fleet.json comes last: a part of a backup is no fleet.
        unpacked.sort_by_key(|(name, _)| *name == FLEET);
        for (name, content) in unpacked {
            let place = directory.join(name);
            place.parent().map_or(Ok(()), make_directory)?;
            replace(&place, &content)?;
        }
        Self::open(directory)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backup {
    backup_of: String,
    made: u64,
    files: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Identity, Seed};
    use std::os::unix::fs::MetadataExt;

    fn fleet() -> (tempfile::TempDir, Home) {
        let directory = tempfile::tempdir().unwrap();
        let servers = ["nats://127.0.0.1:4222".to_owned()];
        let home = Home::create(&directory.path().join("fleet"), "plant", &servers, 1, "").unwrap();
        (directory, home)
    }

    fn join(home: &mut Home, name: &str, octet: u8) -> String {
        let keys = Identity::of(Seed::of([octet; 32])).public();
        home.devices.insert(keys.id(), Member::new(name, "gateway", "line4", keys));
        home.save().unwrap();
        keys.id()
    }

    #[test]
    fn secrets_are_for_their_owner() {
        let (_directory, home) = fleet();
        for name in [SIGNING, READING, OPERATOR, INVITATION, DEVICES, TOKENS] {
            let about = fs::metadata(home.directory().join(name)).unwrap();
            assert_eq!(about.mode() & 0o077, 0, "{name}");
        }
        let place = home.directory().to_owned();
        assert!(Home::open(&place).unwrap_err().what.contains("at work"));
        assert_eq!(Home::look(&place).unwrap().fleet, home.fleet);
        drop(home);
        let home = Home::open(&place).unwrap();
        assert_eq!(home.access().unwrap().user, "operator");
        drop(home);
        assert!(Home::create(&place, "plant", &[], 1, "").unwrap_err().what.contains("already"));
    }

    #[test]
    fn signing_key_may_be_elsewhere() {
        let (directory, home) = fleet();
        let moved = directory.path().join("usb.key");
        fs::rename(home.directory().join(SIGNING), &moved).unwrap();
        assert!(home.signing(None).unwrap_err().what.contains("not on this machine"));
        assert!(home.signing(Some(&moved)).is_ok());
        let other = directory.path().join("other.key");
        Signing::generate().unwrap().write_new(&other).unwrap();
        assert!(home.signing(Some(&other)).unwrap_err().what.contains("another fleet"));
    }

    #[test]
    fn members_are_found_by_name_or_code() {
        let (_directory, mut home) = fleet();
        let id = join(&mut home, "press", 1);
        for who in ["press", &id, &identity::code(&id)] {
            assert_eq!(home.find(who).unwrap(), id);
        }
        assert!(home.find("hall").unwrap_err().what.contains("no device"));
    }

    #[test]
    fn members_of_a_cell_get_one_cak() {
        let (_directory, mut home) = fleet();
        home.set_role("gateway", "gateway.toml", "# ${name}\n").unwrap();
        let (a, b) = (join(&mut home, "press", 1), join(&mut home, "hall", 2));
        let (a, b) = (home.wanted(&a).unwrap(), home.wanted(&b).unwrap());
        assert_eq!(a.files["cak"], b.files["cak"]);
        assert_eq!(
            (a.files["gateway.toml"].as_str(), b.files["gateway.toml"].as_str()),
            ("# press\n", "# hall\n")
        );
        assert!(home.set_role("../x", "a", "").is_err() && home.set_role("x", "a/b", "").is_err());
    }

    #[test]
    fn backup_brings_the_fleet_back() {
        let (directory, mut home) = fleet();
        home.set_role("gateway", "gateway.toml", "# ${name}\n").unwrap();
        let id = join(&mut home, "press", 1);
        let wanted = home.wanted(&id).unwrap();
        home.set_published(&id, &wanted).unwrap();
        let file = directory.path().join("backup.json");
        private_file::create(&file, &home.pack(false).unwrap()).unwrap();
        let restored = Home::unpack(&file, &directory.path().join("again")).unwrap();
        assert_eq!((&restored.devices, restored.wanted(&id).unwrap()), (&home.devices, wanted.clone()));
        assert_eq!(restored.published(&id), Some(wanted));
        assert!(restored.signing(None).is_err(), "the signing key is not in it");
        assert!(Home::unpack(&file, home.directory()).unwrap_err().what.contains("already"));
        // A backup that somebody made up.
        let evil = r#"{"backup_of": "x", "made": 1, "files": {"../evil": "AA==", "fleet.json": "AA=="}}"#;
        private_file::create(&directory.path().join("evil"), evil).unwrap();
        let place = directory.path().join("third");
        assert!(Home::unpack(&directory.path().join("evil"), &place).unwrap_err().what.contains("damaged"));
        assert!(!place.exists() && !directory.path().join("evil.json").exists());
    }
}

//! What a proxy reads again while it runs: its files on SIGHUP or when an agent changes them, and
//! the address of its destination when the peer is lost. A thread of its own does both, since files
//! of 100,000 keys and resolvers take their time.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io, thread};

use antedate_channel::dtls::{Client, Credentials, Distrust, Keyring, Psk, Settings, Shown, Trusted};
use antedate_hardening::{confine, stack};
use antedate_host::fault::Fault;
use antedate_host::hangup::Hangup;
use pki_types::ServerName;

use crate::credentials::authorities::{self, Authorities};
use crate::credentials::peers::Peers;
use crate::credentials::{Trust, own};
use crate::devices::Devices;
use crate::psk::PskFile;

/// Interval of the thread's looks at signal and requests.
const LOOK: Duration = Duration::from_millis(200);
/// The least interval of two resolutions.
const AGAIN: Duration = Duration::from_secs(5);
/// The least interval of two log lines about a name without an address.
const QUIET: Duration = Duration::from_secs(60);

/// The destination of datagrams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// an address
    Address(SocketAddr),
    /// a host name and a port
    Name(String, u16),
}

impl Target {
    /// The address, if it is one.
    #[must_use]
    pub const fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(..) => None,
        }
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// Keys, the identities of devices, and whom to trust.
#[derive(Debug, Default)]
pub struct Keys {
    /// the pre-shared key of each identity
    pub psk: Option<PskFile>,
    /// the identity of each device
    pub devices: Devices,
    /// the own raw public key or certificates
    pub own: Option<Credentials>,
    /// whom to trust without a pre-shared key
    pub trust: Trust,
}

impl Keys {
    /// What proves a device to the server: its pre-shared key, or the own key for all of them.
    pub(crate) fn credentials(&self, device: SocketAddr) -> Option<Credentials> {
        let Some(psk) = &self.psk else {
            return Some(self.own.clone().unwrap_or(Credentials::Anonymous));
        };
        let identity = self.devices.identity(device)?.as_bytes();
        Some(Client { identity: identity.to_vec(), key: psk.key(identity)? }.into())
    }

    /// Settings with what a server shows, and what either side accepts. A side without pre-shared keys
    /// has no suites for them.
    pub(crate) fn settings(&self, settings: &Settings) -> Settings {
        let prefers_raw = matches!(self.own, Some(Credentials::RawPublicKey(_)));
        let mut suites = settings.suites.clone();
        suites.retain(|suite| !suite.is_psk() || self.psk.is_some());
        Settings {
            suites,
            credentials: self.own.iter().cloned().collect(),
            accepts: self.trust.accepts(prefers_raw),
            ..settings.clone()
        }
    }

    /// Whether a peer may not go on: it is no longer trusted.
    pub(crate) fn distrusts(&self, shown: Option<&Shown>) -> bool {
        shown.is_some_and(|shown| self.judge(shown).is_err())
    }

    /// What there is, for the log.
    fn counts(&self) -> (usize, usize) {
        let peers = self.trust.peers.as_ref().map_or(0, Peers::len);
        (self.psk.as_ref().map_or(0, PskFile::len), peers)
    }
}

impl From<PskFile> for Keys {
    fn from(psk: PskFile) -> Self {
        Self { psk: Some(psk), ..Self::default() }
    }
}

impl Keyring for Keys {
    fn key(&self, identity: &[u8]) -> Option<Psk> {
        self.psk.as_ref()?.key(identity)
    }

    fn judge(&self, shown: &Shown) -> Result<Trusted, Distrust> {
        self.trust.judge(shown, SystemTime::now())
    }
}

/// What the thread found, for the proxy; and the proxy's requests.
#[derive(Debug, Default)]
pub struct News {
    fresh: AtomicBool,
    found: Mutex<(Option<Keys>, Option<SocketAddr>)>,
    asked: AtomicBool,
}

impl News {
    /// Hands over keys.
    pub fn put_keys(&self, keys: Keys) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(keys);
        self.fresh.store(true, Ordering::Release);
    }

    /// Hands over the address of the destination.
    pub fn put_address(&self, address: SocketAddr) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(address);
        self.fresh.store(true, Ordering::Release);
    }

    /// Asks for the address of the destination again.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// What came since the last call.
    pub(crate) fn take(&self) -> Option<(Option<Keys>, Option<SocketAddr>)> {
        if !self.fresh.load(Ordering::Relaxed) || !self.fresh.swap(false, Ordering::Acquire) {
            return None;
        }
        Some(std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The files of a proxy, and the signal to read them again.
#[derive(Debug, Clone)]
pub struct Service {
    /// the file of identities and keys
    pub psk: Option<PathBuf>,
    /// the own private key, and certificates
    pub own: Option<own::Files>,
    /// the file of allowed peers
    pub peers: Option<PathBuf>,
    /// authorities
    pub authorities: Option<authorities::Files>,
    /// the server's name in its certificate (connect)
    pub name: Option<ServerName<'static>>,
    /// the file of devices
    pub devices: Option<PathBuf>,
    /// the identity of devices that the file does not name
    pub identity: Option<String>,
    /// whether devices need identities (connect)
    pub is_client: bool,
    /// whether the files are read again whenever they change: an agent writes them
    pub follow: bool,
    /// the signal
    pub hangup: Arc<Hangup>,
}

/// Inode and time of each file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(Vec<Option<(u64, i64, i64)>>);

impl Service {
    /// Reads the files.
    ///
    /// # Errors
    /// The first fault, with file, line and remedy.
    pub fn load(&self) -> Result<Keys, Fault> {
        let psk = self.psk.as_deref().map(PskFile::load).transpose()?;
        let devices = match (&self.psk, &psk) {
            (Some(file), Some(psk)) => self.devices_of(file, psk)?,
            _ => Devices::default(),
        };
        let own = self.own.as_ref().map(own::Files::load).transpose()?;
        let peers = self.peers.as_deref().map(Peers::load).transpose()?;
        let authorities = self.authorities.as_ref();
        let authorities = authorities.map(|files| Authorities::load(files, self.name.clone())).transpose()?;
        Ok(Keys { psk, devices, own, trust: Trust { peers, authorities } })
    }

    fn devices_of(&self, file: &Path, psk: &PskFile) -> Result<Devices, Fault> {
        let devices = match &self.devices {
            Some(file) => Devices::load(file, self.identity.clone())?,
            None if self.is_client => {
                let only = psk.only(self.identity.as_deref());
                Devices::all(only.map_err(|(what, remedy)| Fault::of_file(file, what, remedy))?)
            }
            None => Devices::default(),
        };
        let without = devices.identities().find(|identity| psk.key(identity.as_bytes()).is_none());
        if let Some(identity) = without {
            let (what, remedy) = psk.lacks(identity);
            return Err(Fault::of_file(file, what, remedy));
        }
        Ok(devices)
    }

    /// The files that are read.
    #[must_use]
    pub fn files(&self) -> Vec<&PathBuf> {
        let own = self.own.iter().flat_map(|own| [Some(&own.key), own.certificates.as_ref()]);
        let issued = self.authorities.iter();
        let issued = issued.flat_map(|files| std::iter::once(&files.authorities).chain(&files.revoked));
        let others = [&self.psk, &self.devices, &self.peers].into_iter().flatten();
        others.chain(own.flatten()).chain(issued).collect()
    }

    /// Starts the thread. `mark` is of before the files were loaded.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        self,
        mut mark: Mark,
        target: Target,
        news: Arc<News>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<()> {
        self.hangup.watch();
        let mut name = Name { target, at: None, tried: None, said: None };
        let mut said = String::new();
        let work = move || {
            // The resolver parses what comes from the network.
            confine::keep_none();
            while !stop.load(Ordering::Acquire) {
                // A change while the files are read shows in the next mark. Unreadable files are tried
                // again: other rights alone change no mark.
                let now = self.mark();
                let asked = self.hangup.take();
                if asked {
                    said.clear();
                }
                if (asked || (self.follow && now != mark)) && self.read_again(&news, &mut said) {
                    mark = now;
                }
                name.look(&news);
                thread::sleep(LOOK);
            }
        };
        thread::Builder::new().name("service".into()).spawn(work).map(drop)
    }

    /// What tells one version of the files from another.
    #[must_use]
    pub fn mark(&self) -> Mark {
        let files = self.files().into_iter();
        let of = |about: fs::Metadata| (about.ino(), about.mtime(), about.mtime_nsec());
        Mark(files.map(|file| fs::metadata(file).ok().map(of)).collect())
    }

    /// Whether they were read. The same fault is told once.
    fn read_again(&self, news: &News, said: &mut String) -> bool {
        let loaded = stack::wiped(|| self.load());
        let is_read = loaded.is_ok();
        match loaded {
            Ok(keys) => {
                let (identities, peers) = keys.counts();
                tracing::info!(identities, peers, "the keys are read again");
                news.put_keys(keys);
                said.clear();
            }
            Err(fault) => {
                let fault = fault.to_string();
                if *said != fault {
                    tracing::error!("{fault}; the keys of before stay in use");
                    *said = fault;
                }
            }
        }
        stack::wipe();
        is_read
    }
}

struct Name {
    target: Target,
    at: Option<SocketAddr>,
    tried: Option<Instant>,
    said: Option<Instant>,
}

impl Name {
    fn look(&mut self, news: &News) {
        let Target::Name(host, port) = &self.target else { return };
        let early = self.tried.is_some_and(|tried| tried.elapsed() < AGAIN);
        if early || (self.at.is_some() && !news.asked.swap(false, Ordering::AcqRel)) {
            return;
        }
        self.tried = Some(Instant::now());
        let found = (host.as_str(), *port).to_socket_addrs().map(|mut all| all.next());
        let reason = match found {
            Ok(Some(at)) => {
                if self.at.replace(at) != Some(at) {
                    tracing::info!(%host, %at, "the name has this address");
                    news.put_address(at);
                }
                self.said = None;
                return;
            }
            Ok(None) => "it has no address".to_owned(),
            Err(error) => error.to_string(),
        };
        if self.said.is_none_or(|said| said.elapsed() >= QUIET) {
            self.said = Some(Instant::now());
            tracing::warn!(%host, reason, "the name of --to cannot be resolved, and is tried again; see: getent ahosts");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(directory: &std::path::Path, psk: &str) -> Service {
        let file = directory.join("psk");
        let _ = std::fs::remove_file(&file);
        antedate_host::private_file::create(&file, psk).unwrap();
        Service {
            psk: Some(file),
            own: None,
            peers: None,
            authorities: None,
            name: None,
            devices: None,
            identity: None,
            is_client: true,
            follow: false,
            hangup: Arc::default(),
        }
    }

    fn client(keys: &Keys, device: &str) -> Option<Client> {
        match keys.credentials(device.parse().unwrap())? {
            Credentials::Psk(client) => Some(client),
            other => panic!("{other:?}"),
        }
    }

    const KEY: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn each_device_gets_its_client() {
        let directory = tempfile::tempdir().unwrap();
        let two = service(directory.path(), &format!("a:{KEY}\nb:{KEY}00\n"));
        assert!(two.load().is_err(), "which of two");
        assert!(Service { is_client: false, ..two.clone() }.load().is_ok());
        let a = Service { identity: Some("a".to_owned()), ..two.clone() }.load().unwrap();
        assert_eq!(client(&a, "10.0.0.1:1").unwrap().identity, b"a");
        let devices = directory.path().join("devices");
        std::fs::write(&devices, "10.0.0.1 b\n").unwrap();
        let by_file = Service { devices: Some(devices.clone()), ..two };
        let keys = by_file.load().unwrap();
        assert_eq!(client(&keys, "10.0.0.1:1").unwrap().key.len(), 17);
        assert!(client(&keys, "10.0.0.2:1").is_none());
        std::fs::write(&devices, "10.0.0.1 c\n").unwrap();
        assert!(by_file.load().unwrap_err().to_string().contains("no identity c"));
    }

    #[test]
    fn raw_keys_and_certificates_are_read_again() {
        use crate::credentials::made::{Made, shown};
        let made = Made::new();
        let (good, bad) = (made.leaf("good", "/CN=good", &[]), made.leaf("bad", "/CN=bad", &[]));
        made.revoke(&[], "crl.pem");
        let service = Service {
            psk: None,
            own: Some(own::Files { key: made.at("good.key"), certificates: Some(made.at("good.pem")) }),
            peers: None,
            authorities: Some(authorities::Files {
                authorities: made.at("ca.pem"),
                revoked: vec![made.at("crl.pem")],
            }),
            name: None,
            devices: None,
            identity: None,
            is_client: false,
            follow: true,
            hangup: Arc::default(),
        };
        assert_eq!(service.files().len(), 4);
        let (keys, mark) = (service.load().unwrap(), service.mark());
        let settings = keys.settings(&Settings::default());
        assert!(settings.suites.iter().all(|suite| !suite.is_psk()) && settings.credentials.len() == 1);
        let [good, bad] = [good, bad].map(|leaf| shown(&[&leaf], false));
        assert!(!keys.distrusts(Some(&good)) && !keys.distrusts(Some(&bad)) && !keys.distrusts(None));
        std::fs::remove_file(made.at("crl.pem")).unwrap();
        made.revoke(&["bad"], "crl.pem");
        assert_ne!(service.mark(), mark);
        let keys = service.load().unwrap();
        assert!(!keys.distrusts(Some(&good)) && keys.distrusts(Some(&bad)));
        assert_eq!(keys.judge(&bad), Err(Distrust::Revoked));
        // A client of a server that asks for nothing.
        let anonymous = Service { own: None, is_client: true, ..service };
        let credentials = anonymous.load().unwrap().credentials("10.0.0.1:1".parse().unwrap());
        assert!(matches!(credentials, Some(Credentials::Anonymous)));
    }

    #[test]
    fn hangup_hands_over_new_keys() {
        let directory = tempfile::tempdir().unwrap();
        let one = service(directory.path(), &format!("a:{KEY}\n"));
        let news = News::default();
        assert!(news.take().is_none());
        let mut said = String::new();
        assert!(one.read_again(&news, &mut said));
        let (keys, address) = news.take().unwrap();
        assert_eq!((keys.unwrap().counts().0, address), (1, None));
        std::fs::write(one.psk.as_ref().unwrap(), "a:12\n").unwrap();
        assert!(!one.read_again(&news, &mut said) && !said.is_empty());
        assert!(news.take().is_none(), "a faulty file changes nothing");
    }

    #[test]
    fn changed_file_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let one =
            Service { follow: true, is_client: false, ..service(directory.path(), &format!("a:{KEY}\n")) };
        let (news, stop) = (Arc::new(News::default()), Arc::new(AtomicBool::new(false)));
        let target = Target::Address("127.0.0.1:5".parse().unwrap());
        one.clone().start(one.mark(), target, Arc::clone(&news), Arc::clone(&stop)).unwrap();
        thread::sleep(LOOK * 2);
        assert!(news.take().is_none(), "it has not changed");
        antedate_host::replace::replace(
            one.psk.as_ref().unwrap(),
            format!("a:{KEY}\nb:{KEY}00\n").as_bytes(),
        )
        .unwrap();
        let begin = Instant::now();
        let keys = loop {
            if let Some((Some(keys), _)) = news.take() {
                break keys;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "it is not read");
            thread::sleep(LOOK);
        };
        assert_eq!(keys.counts().0, 2);
        // One that cannot be read at first, and then can without another mark.
        std::fs::write(one.psk.as_ref().unwrap(), "a:12\n").unwrap();
        let about = std::fs::metadata(one.psk.as_ref().unwrap()).unwrap();
        thread::sleep(LOOK * 3);
        assert!(news.take().is_none(), "it has a fault");
        let file =
            std::fs::File::options().write(true).truncate(true).open(one.psk.as_ref().unwrap()).unwrap();
        io::Write::write_all(&mut &file, format!("a:{KEY}\n").as_bytes()).unwrap();
        file.set_modified(about.modified().unwrap()).unwrap();
        let begin = Instant::now();
        let keys = loop {
            if let Some((Some(keys), _)) = news.take() {
                break keys;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "it is not read");
            thread::sleep(LOOK);
        };
        stop.store(true, Ordering::Release);
        assert_eq!(keys.counts().0, 1);
    }

    #[test]
    fn name_is_resolved_until_it_has_an_address() {
        let news = News::default();
        let mut name =
            Name { target: Target::Name("localhost".to_owned(), 5), at: None, tried: None, said: None };
        name.look(&news);
        let (_, address) = news.take().unwrap();
        assert_eq!(address.map(|at| (at.ip().is_loopback(), at.port())), Some((true, 5)));
        news.ask();
        name.tried = None;
        name.look(&news);
        assert!(news.take().is_none(), "the same address is no news");
        let mut lost =
            Name { target: Target::Name("nowhere.invalid".to_owned(), 5), at: None, tried: None, said: None };
        lost.look(&news);
        assert!(lost.said.is_some() && news.take().is_none());
    }
}

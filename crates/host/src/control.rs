//! The control socket: a Unix socket for the daemon's own user. A request is one line, and so is
//! the answer.
//!
//! Threads of its own serve it. A client that does not finish a request in time is disconnected, and
//! when all places are taken, the client that has waited longest with its request makes room.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::agent;
use crate::fault::Fault;

/// The suffix of the temporary name of a new socket.
const BESIDE: &str = ".new";
/// The longest path of a control socket. A Unix socket's has at most 107 octets without its final
/// zero (`unix(7)`), and the temporary name needs the suffix.
pub const LONGEST_PATH: usize = 107 - BESIDE.len();
/// The longest request in octets.
pub const REQUEST_MAX: u64 = 1024;
/// The longest answer that a client reads, in octets.
const REPLY_MAX: u64 = 1 << 20;
/// The most clients at a time.
pub const CLIENTS_MAX: usize = 8;
/// The most threads of clients at a time, with those that are about to end.
const THREADS_MAX: usize = 2 * CLIENTS_MAX;
/// The longest wait for a client's request, and for a daemon's answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The pause after a refused connection, to not aggravate a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The texts of a daemon's faults.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// Another process answers on the socket: fault and remedy.
    pub taken: (&'static str, &'static str),
    /// The path names something else than a socket: fault and remedy.
    pub no_socket: (&'static str, &'static str),
    /// The socket cannot be created: an infinitive after "cannot", and the remedy.
    pub cannot: (&'static str, &'static str),
}

/// Answers requests. Called from the control threads; must not wait for forwarding.
pub trait Service: Send + Sync + 'static {
    /// The answer, without a line end, to a request with its line end.
    fn answer(&self, request: &[u8]) -> Vec<u8>;
    /// The answer to a request that cannot be served: the reason and the remedy.
    fn refuse(&self, what: &str, remedy: &str) -> Vec<u8>;
}

/// A control socket before it is served. Removed on drop.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    name: Name,
}

/// The name of a socket that this process created.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    inode: (u64, u64),
}

/// A served control socket. Removed on drop.
#[derive(Debug)]
pub struct Server {
    name: Name,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Socket {
    /// Creates the socket, for this process's user only. Clients wait until it is
    /// [served](Self::serve).
    ///
    /// # Errors
    /// When another process answers there, or the socket cannot be created.
    pub fn bind(path: &Path, words: &Words) -> Result<Self, Fault> {
        let listener = listen(path, words)?;
        let about = fs::symlink_metadata(path).map_err(|error| words.cannot(path, &error))?;
        let name = Name { path: path.to_owned(), inode: (about.dev(), about.ino()) };
        Ok(Self { listener, name })
    }

    /// Opens the socket to the members of its group too (mode 0660).
    ///
    /// # Errors
    /// When the mode cannot be set.
    pub fn share(&self) -> io::Result<()> {
        fs::set_permissions(&self.name.path, Permissions::from_mode(0o660))
    }

    /// The listener, of a daemon whose clients make no requests.
    #[must_use]
    pub const fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Serves the socket.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn serve(self, service: Arc<impl Service>) -> io::Result<Server> {
        let Self { listener, name } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = crate::helper::thread("control").spawn(move || accept(&listener, &service, &stopped))?;
        Ok(Server { name, stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // A connection ends the thread's wait. Without the name none is possible, and the thread
        // ends with the process.
        let woken = self.name.is_ours() && UnixStream::connect(&self.name.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

impl Name {
    /// Whether the name still belongs to the socket of this process.
    fn is_ours(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|about| (about.dev(), about.ino()) == self.inode)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Words {
    /// The fault that another process has the socket.
    #[must_use]
    pub fn taken(&self, path: &Path) -> Fault {
        Fault::of_file(path, self.taken.0, self.taken.1)
    }

    fn cannot(&self, path: &Path, error: &io::Error) -> Fault {
        Fault::of_io(path, self.cannot.0, error, self.cannot.1)
    }
}

/// Checks whether the socket could be created. Changes nothing. Returns whether a process already
/// answers there.
///
/// # Errors
/// When the path names something else, or its directory is not writable.
pub fn inspect(path: &Path, words: &Words) -> Result<bool, Fault> {
    if is_answered(path, words)? || is_answered(&beside(path), words)? {
        return Ok(true);
    }
    let parent = parent_of(path);
    // The socket's directory will be created, but no parent of it.
    let directory = if parent.exists() { parent } else { parent_of(parent) };
    let about = fs::metadata(directory).map_err(|error| words.cannot(path, &error))?;
    if !about.is_dir() {
        return Err(words.cannot(path, &io::ErrorKind::NotADirectory.into()));
    }
    accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
        .map_err(|error| words.cannot(path, &error.into()))?;
    Ok(false)
}

/// The directory of a path, which may be relative.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The temporary name of a new socket.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(BESIDE);
    name.into()
}

/// Whether a process answers there. A killed process leaves a socket without one.
fn is_answered(path: &Path, words: &Words) -> Result<bool, Fault> {
    match fs::symlink_metadata(path) {
        Ok(about) if !about.file_type().is_socket() => {
            Err(Fault::of_file(path, words.no_socket.0, words.no_socket.1))
        }
        Ok(_) => Ok(UnixStream::connect(path).is_ok()),
        Err(_) => Ok(false),
    }
}

/// Creates a socket for this process's user only, or for its group too if it has an [`agent`], in
/// place of one that a killed process left behind. It is created with a temporary name and then
/// renamed, so its mode is never wider.
///
/// # Errors
/// When another process answers there, or the socket cannot be created.
pub fn listen(path: &Path, words: &Words) -> Result<UnixListener, Fault> {
    let new = beside(path);
    for name in [path, &new] {
        if is_answered(name, words)? {
            return Err(words.taken(name));
        }
    }
    let make = || {
        let parent = parent_of(path);
        if !parent.exists() {
            DirBuilder::new().mode(0o755).create(parent)?;
        }
        if let Err(error) = fs::remove_file(&new)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let listener = UnixListener::bind(&new)?;
        let mode = if agent::is_trusted() { 0o660 } else { 0o600 };
        fs::set_permissions(&new, Permissions::from_mode(mode))?;
        fs::rename(&new, path)?;
        Ok(listener)
    };
    make().map_err(|error| words.cannot(path, &error))
}

fn accept(listener: &UnixListener, service: &Arc<impl Service>, stop: &AtomicBool) {
    let clients = Arc::new(Clients::default());
    loop {
        let client = listener.accept();
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = client else {
            thread::sleep(PAUSE);
            continue;
        };
        let stream = Arc::new(stream);
        // Only this thread adds clients, so the limit holds.
        let Some(place) = Clients::place(&clients, &stream) else {
            let reply = service.refuse("too many clients at a time", "close some and ask again");
            let _ = answer(&stream, reply);
            continue;
        };
        let service = Arc::clone(service);
        let served = crate::helper::thread("control-client").spawn(move || {
            // The client may be gone.
            let _ = serve(&stream, service.as_ref(), &place);
        });
        if served.is_err() {
            thread::sleep(PAUSE);
        }
    }
}

/// The clients that are served.
#[derive(Default)]
struct Clients(Mutex<Vec<Client>>);

/// A client.
struct Client {
    stream: Arc<UnixStream>,
    /// The time from which on its request is awaited. `None`: disconnected, and about to end.
    since: Option<Instant>,
    /// Whether it has sent a whole request.
    has_asked: bool,
}

/// The place of a client, given back on drop.
struct ClientPlace {
    clients: Arc<Clients>,
    stream: Arc<UnixStream>,
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, Vec<Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a client. If need be disconnects another: of those that never sent a request,
    /// else of all, the one whose request is awaited longest.
    fn place(clients: &Arc<Self>, stream: &Arc<UnixStream>) -> Option<ClientPlace> {
        let mut list = clients.lock();
        if list.len() >= THREADS_MAX {
            return None;
        }
        if list.iter().filter(|client| client.since.is_some()).count() >= CLIENTS_MAX {
            let oldest = list.iter_mut().filter(|client| client.since.is_some());
            let oldest = oldest.min_by_key(|client| (client.has_asked, client.since))?;
            // Ends its thread's wait.
            let _ = oldest.stream.shutdown(Shutdown::Both);
            oldest.since = None;
        }
        list.push(Client { stream: Arc::clone(stream), since: Some(Instant::now()), has_asked: false });
        Some(ClientPlace { clients: Arc::clone(clients), stream: Arc::clone(stream) })
    }
}

impl ClientPlace {
    /// Records that a request of the client is there, or was answered.
    fn record(&self) {
        let mut list = self.clients.lock();
        if let Some(own) = list.iter_mut().find(|client| Arc::ptr_eq(&client.stream, &self.stream)) {
            own.since = own.since.map(|_| Instant::now());
            own.has_asked = true;
        }
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.clients.lock().retain(|client| !Arc::ptr_eq(&client.stream, &self.stream));
    }
}

/// Reads a client's octets until a time.
struct Until<'a> {
    stream: &'a UnixStream,
    end: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(octets)
    }
}

fn serve(stream: &UnixStream, service: &impl Service, place: &ClientPlace) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(Until { stream, end: Instant::now() });
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.get_mut().end = Instant::now() + PATIENCE;
        reader.by_ref().take(REQUEST_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            let what = format!("a request is one line of at most {REQUEST_MAX} octets");
            let refused = service.refuse(&what, "send {\"request\":\"status\"} and a line end");
            return answer(stream, refused);
        }
        place.record();
        answer(stream, service.answer(&line))?;
        place.record();
    }
}

fn answer(mut stream: &UnixStream, mut line: Vec<u8>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Sends a request, without a line end, to a running daemon and returns the answer.
///
/// # Errors
/// When no process answers on the socket, or not in time.
pub fn exchange(socket: &Path, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&[request, b"\n"].concat())?;
    let mut reply = Vec::new();
    BufReader::new(stream).take(REPLY_MAX).read_until(b'\n', &mut reply)?;
    Ok(reply)
}

/// Reads the state that a proxy tells each that connects to its status socket.
///
/// # Errors
/// When no proxy answers at the socket.
pub fn told(socket: &Path) -> Result<String, Fault> {
    let cannot = |error: io::Error| {
        let remedy = "start the proxy with --status and the same path, and ask as the same user";
        Fault::of_io(socket, "ask the proxy", &error, remedy)
    };
    let mut stream = UnixStream::connect(socket).map_err(cannot)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(cannot)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Words = Words { taken: ("taken", ""), no_socket: ("no socket", ""), cannot: ("make", "") };

    struct Echo;

    impl Service for Echo {
        fn answer(&self, request: &[u8]) -> Vec<u8> {
            request.trim_ascii().to_vec()
        }

        fn refuse(&self, what: &str, _: &str) -> Vec<u8> {
            what.as_bytes().to_vec()
        }
    }

    #[test]
    fn dribbling_clients_make_room() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let server = Socket::bind(&path, &WORDS).unwrap().serve(Arc::new(Echo)).unwrap();
        let dribbling: Vec<_> = (0..3 * CLIENTS_MAX)
            .map(|_| {
                let mut client = UnixStream::connect(&path).unwrap();
                let _ = client.write_all(b"{");
                client
            })
            .collect();
        // Threads of disconnected clients may still be ending.
        let answered = (0..50).find(|_| {
            let answer = exchange(&path, b"status").unwrap_or_default();
            let done = answer == b"status\n";
            if !done {
                thread::sleep(Duration::from_millis(20));
            }
            done
        });
        assert!(answered.is_some(), "the next client is not answered");
        drop(dribbling);
        drop(server);
    }

    #[test]
    fn busy_client_keeps_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let server = Socket::bind(&path, &WORDS).unwrap().serve(Arc::new(Echo)).unwrap();
        let mut busy = UnixStream::connect(&path).unwrap();
        let mut answers = BufReader::new(busy.try_clone().unwrap());
        let mut ask = || {
            busy.write_all(b"status\n").unwrap();
            let mut line = String::new();
            answers.read_line(&mut line).map(|_| line)
        };
        assert_eq!(ask().unwrap(), "status\n");
        let mut silent = Vec::new();
        for _ in 0..2 * CLIENTS_MAX {
            silent.push(UnixStream::connect(&path).unwrap());
            assert_eq!(ask().unwrap(), "status\n");
        }
        drop(silent);
        drop(server);
    }
}

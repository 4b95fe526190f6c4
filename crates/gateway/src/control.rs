//! The control socket: a Unix socket for the gateway's own user, one JSON object a line each way.
//!
//! It runs on threads of its own. What it asks for, a [`StatusSource`] answers from counters that the forwarding threads
//! leave behind, so a client, however slow or many, never touches forwarding: requests are short, clients few, and who
//! stays silent is sent away.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, explain};
use crate::status::Status;
use crate::sys::may_write;

/// What the name has that a socket is made under.
const BESIDE: &str = ".new";
/// The longest path of a control socket: of 107 octets, the most that a Unix socket's may have (`unix(7)`, its final zero not counted),
/// that name takes the last.
pub const LONGEST_PATH: usize = 107 - BESIDE.len();
/// The longest request in octets.
const REQUEST_MAX: u64 = 1024;
/// The longest answer that a client reads.
const REPLY_MAX: u64 = 1 << 20;
/// Clients that are served at a time.
const CLIENTS_MAX: usize = 8;
/// How long a client may take for its next octet, and the daemon for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A pause after the system refused a connection, so that a lack of descriptors is not made worse.
const PAUSE: Duration = Duration::from_millis(100);

/// What can be asked of a running gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// `{"request":"status"}`: its state.
    Status {},
    /// `{"request":"switch-sa","an":1}`: send under another association from the next frame on.
    SwitchSa {
        /// The association number.
        an: u8,
    },
    /// `{"request":"rekey"}`: make new sessions with all peers of an overlay.
    Rekey {},
}

/// What changes a running gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Send under this association from the next frame on.
    SwitchSa {
        /// The association number.
        an: u8,
    },
    /// Make new sessions with all peers of an overlay.
    Rekey,
}

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Whether it was done.
    pub ok: bool,
    /// What was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<Status>>,
    /// What was done, or why not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// Why a command was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Refusal {
    /// What is wrong with it.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// Who answers for the daemon. Both calls come from the control threads and must not wait for forwarding.
pub trait StatusSource: Send + Sync {
    /// The state of now.
    fn status(&self) -> Status;
    /// Does what is asked; gives a sentence that says so.
    ///
    /// # Errors
    /// When it cannot be done.
    fn command(&self, command: Command) -> Result<String, Refusal>;
}

/// A control socket that nobody answers on yet. It goes away when this is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    name: Name,
}

/// The name of a socket that was made here.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    inode: (u64, u64),
}

/// The running control socket. It goes away when this is dropped.
#[derive(Debug)]
pub struct Server {
    name: Name,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Socket {
    /// Makes the socket, for the gateway's user alone. Whoever asks waits until it is [served](Self::serve).
    ///
    /// # Errors
    /// When another gateway answers there, or the socket cannot be made.
    pub fn bind(path: &Path) -> Result<Self, Fault> {
        let listener = bind(path)?;
        let about = fs::symlink_metadata(path).map_err(|error| cannot(path, &error))?;
        let name = Name { path: path.to_owned(), inode: (about.dev(), about.ino()) };
        Ok(Self { listener, name })
    }

    /// Answers on it.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn serve(self, source: Arc<dyn StatusSource>) -> Result<Server, Fault> {
        let Self { listener, name } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("control".into())
            .spawn(move || accept(&listener, &source, &stopped))
            .map_err(|error| cannot(&name.path, &error))?;
        Ok(Server { name, stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // A connection ends the wait for one. If the name is gone, or another's by now, the thread ends with the process.
        let woken = self.name.is_ours() && UnixStream::connect(&self.name.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

impl Name {
    /// Whether it still means the socket that was made here.
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

/// Whether the socket could be made there. Changes nothing. Gives whether a gateway answers there already.
///
/// # Errors
/// What is in the way.
pub fn inspect(path: &Path) -> Result<bool, Fault> {
    if is_answered(path)? || is_answered(&beside(path))? {
        return Ok(true);
    }
    let parent = parent_of(path);
    // Its directory is made, but none above that.
    let directory = if parent.exists() { parent } else { parent_of(parent) };
    let about = fs::metadata(directory).map_err(|error| cannot(path, &error))?;
    if !about.is_dir() {
        return Err(cannot(path, &io::ErrorKind::NotADirectory.into()));
    }
    may_write(directory).map_err(|error| cannot(path, &error))?;
    Ok(false)
}

/// The directory of a path that may be relative.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn no_socket(path: &Path) -> Fault {
    Fault::of_file(path, "exists and is no socket", "give control.socket another path, or move this away")
}

/// Another gateway has the socket.
#[must_use]
pub fn answered(path: &Path) -> Fault {
    Fault::of_file(
        path,
        "another gateway answers on this control socket",
        "stop it, or give each gateway a control.socket of its own",
    )
}

/// The name under which a socket is made.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(BESIDE);
    name.into()
}

/// Whether a gateway answers there. If there is a socket and nobody answers, it was left behind by one that was killed.
fn is_answered(path: &Path) -> Result<bool, Fault> {
    match fs::symlink_metadata(path) {
        Ok(about) if !about.file_type().is_socket() => Err(no_socket(path)),
        Ok(_) => Ok(UnixStream::connect(path).is_ok()),
        Err(_) => Ok(false),
    }
}

/// A socket that never existed with wider rights than its owner's: it is made under another name, then renamed.
fn bind(path: &Path) -> Result<UnixListener, Fault> {
    let new = beside(path);
    for taken in [path, &new] {
        if is_answered(taken)? {
            return Err(answered(taken));
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
        fs::set_permissions(&new, Permissions::from_mode(0o600))?;
        fs::rename(&new, path)?;
        Ok(listener)
    };
    make().map_err(|error| cannot(path, &error))
}

fn cannot(path: &Path, error: &io::Error) -> Fault {
    Fault::of_io(
        path,
        "make the control socket",
        error,
        "give control.socket a path in a directory that exists and that you can write to",
    )
}

fn accept(listener: &UnixListener, source: &Arc<dyn StatusSource>, stop: &AtomicBool) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let client = listener.accept();
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = client else {
            thread::sleep(PAUSE);
            continue;
        };
        // Only this thread adds, so the bound holds.
        if clients.load(Ordering::Acquire) >= CLIENTS_MAX {
            let reply = refused("too many clients at a time", "close some and ask again");
            let _ = answer(&stream, &reply);
            continue;
        }
        let seat = Seat::take(&clients);
        let source = Arc::clone(source);
        let served = thread::Builder::new().name("control-client".into()).spawn(move || {
            let _seat = seat;
            // A client that went away has no one to be told.
            let _ = serve(&stream, source.as_ref());
        });
        if served.is_err() {
            thread::sleep(PAUSE);
        }
    }
}

/// A place among the clients that are served; it is free again when this is dropped.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(clients: &Arc<AtomicUsize>) -> Self {
        clients.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(clients))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn serve(stream: &UnixStream, source: &dyn StatusSource) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.by_ref().take(REQUEST_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            let what = format!("a request is one line of at most {REQUEST_MAX} octets");
            return answer(stream, &refused(&what, "send {\"request\":\"status\"} and a line end"));
        }
        answer(stream, &reply(&line, source))?;
    }
}

fn reply(line: &[u8], source: &dyn StatusSource) -> Reply {
    let command = match serde_json::from_slice(line) {
        Ok(Request::Status {}) => {
            return Reply { ok: true, status: Some(Box::new(source.status())), ..Reply::default() };
        }
        Ok(Request::SwitchSa { an }) => Command::SwitchSa { an },
        Ok(Request::Rekey {}) => Command::Rekey,
        Err(error) => {
            let known = "known: {\"request\":\"status\"}, {\"request\":\"switch-sa\",\"an\":1}, {\"request\":\"rekey\"}";
            return refused(&format!("not a request: {error}"), known);
        }
    };
    match source.command(command) {
        Ok(message) => Reply { ok: true, message, ..Reply::default() },
        Err(refusal) => refused(&refusal.what, &refusal.remedy),
    }
}

fn refused(what: &str, remedy: &str) -> Reply {
    Reply { message: what.to_owned(), remedy: remedy.to_owned(), ..Reply::default() }
}

fn answer(mut stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Asks a running gateway.
///
/// # Errors
/// When nobody answers on the socket, or not in this language.
pub fn ask(socket: &Path, request: Request) -> Result<Reply, Fault> {
    let exchange = || -> io::Result<Reply> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut reply = Vec::new();
        BufReader::new(stream).take(REPLY_MAX).read_until(b'\n', &mut reply)?;
        Ok(serde_json::from_slice(&reply)?)
    };
    exchange().map_err(|error| {
        let (what, remedy) = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => (
                "no gateway answers here".to_owned(),
                "start it with `antedate gateway run FILE`, or name its control.socket with --socket",
            ),
            io::ErrorKind::PermissionDenied => {
                ("this socket is for the gateway's own user".to_owned(), "ask as that user, or with sudo")
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                ("the gateway does not answer".to_owned(), "see its log")
            }
            _ => (format!("cannot ask the gateway: {}", explain(&error)), "is it of the same version?"),
        };
        Fault::of_file(socket, what, remedy)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Answers at once and remembers what it was told.
    #[derive(Default)]
    struct Desk(Mutex<Vec<Command>>);

    impl StatusSource for Desk {
        fn status(&self) -> Status {
            Status { antedate: "1".into(), uptime_seconds: 2.5, ..Status::default() }
        }

        fn command(&self, command: Command) -> Result<String, Refusal> {
            let Command::SwitchSa { an } = command else { return Ok("new sessions".into()) };
            if an > 1 {
                return Err(Refusal { what: format!("there is no AN {an}"), remedy: "choose 0 or 1".into() });
            }
            self.0.lock().unwrap().push(command);
            Ok(format!("sends under AN {an}"))
        }
    }

    fn started() -> (tempfile::TempDir, PathBuf, Server) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/gateway.sock");
        let server = Socket::bind(&path).unwrap().serve(Arc::new(Desk::default())).unwrap();
        (directory, path, server)
    }

    fn tell(path: &Path, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    #[test]
    fn status_and_commands_are_answered() {
        let (_directory, path, _server) = started();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let reply = ask(&path, Request::Status {}).unwrap();
        assert_eq!(reply.status.unwrap().uptime_seconds, 2.5);
        let reply = ask(&path, Request::SwitchSa { an: 1 }).unwrap();
        assert!(reply.ok && reply.message == "sends under AN 1");
        let reply = ask(&path, Request::SwitchSa { an: 3 }).unwrap();
        assert_eq!(
            (reply.ok, reply.message.as_str(), reply.remedy.as_str()),
            (false, "there is no AN 3", "choose 0 or 1")
        );
    }

    #[test]
    fn several_requests_go_over_one_connection() {
        let (_directory, path, _server) = started();
        let replies = tell(&path, b"{\"request\":\"status\"}\n{\"request\":\"switch-sa\",\"an\":0}\n");
        assert_eq!(replies.lines().count(), 2);
        assert!(replies.ends_with("{\"ok\":true,\"message\":\"sends under AN 0\"}\n"), "{replies}");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let (_directory, path, _server) = started();
        for request in
            ["\n", "{}\n", "{\"request\":\"stop\"}\n", "{\"request\":\"status\",\"x\":1}\n", "\u{0}\u{1}\n"]
        {
            let reply = tell(&path, request.as_bytes());
            assert!(reply.starts_with("{\"ok\":false,\"message\":\"not a request"), "{reply}");
        }
        let long = tell(&path, &[b' '; 1024]);
        assert!(long.contains("at most 1024 octets"), "{long}");
        assert!(ask(&path, Request::Status {}).unwrap().ok, "it goes on");
    }

    #[test]
    fn too_many_clients_are_sent_away_and_the_others_served() {
        let (_directory, path, _server) = started();
        let mut held: Vec<UnixStream> =
            (0..CLIENTS_MAX).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let reply = tell(&path, b"");
        assert!(reply.contains("too many clients at a time"), "{reply}");
        let mut first = held.remove(0);
        first.write_all(b"{\"request\":\"status\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(&first).read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"ok\":true"), "{line}");
    }

    #[test]
    fn a_gateway_whose_socket_another_has_replaced_stops_nevertheless() {
        let (_directory, path, server) = started();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        let (stopped, stops) = std::sync::mpsc::channel();
        thread::spawn(move || {
            drop(server);
            stopped.send(()).unwrap();
        });
        assert_eq!(stops.recv_timeout(PATIENCE), Ok(()));
        assert!(path.exists(), "the other one's stays");
    }

    #[test]
    fn the_longest_path_that_is_taken_can_be_made() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().as_os_str().len() + 1;
        let path = directory.path().join("s".repeat(LONGEST_PATH - there));
        assert!(!inspect(&path).unwrap());
        Socket::bind(&path).unwrap();
    }

    #[test]
    fn a_socket_left_behind_is_replaced_and_a_living_one_is_not() {
        let (directory, path, server) = started();
        let found = Socket::bind(&path).unwrap_err().to_string();
        assert!(found.contains("another gateway answers on this control socket"), "{found}");
        drop(server);
        assert!(!path.exists());
        assert!(ask(&path, Request::Status {}).unwrap_err().to_string().contains("no gateway answers here"));

        drop(UnixListener::bind(&path).unwrap());
        let _server = Socket::bind(&path).unwrap().serve(Arc::new(Desk::default())).unwrap();
        assert!(ask(&path, Request::Status {}).unwrap().ok);

        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let found = Socket::bind(&file).unwrap_err().to_string();
        assert!(found.contains("exists and is no socket"), "{found}");

        // Nor is what lies where the socket is made.
        let (other, beside) = (directory.path().join("other"), directory.path().join("other.new"));
        fs::write(&beside, "mine").unwrap();
        assert!(inspect(&other).is_err());
        let found = Socket::bind(&other).unwrap_err().to_string();
        assert!(found.contains("other.new: exists and is no socket"), "{found}");
        assert_eq!(fs::read_to_string(&beside).unwrap(), "mine");
        fs::remove_file(&beside).unwrap();
        let living = UnixListener::bind(&beside).unwrap();
        assert!(inspect(&other).unwrap());
        assert!(Socket::bind(&other).unwrap_err().to_string().contains("another gateway answers"));
        drop(living);
        Socket::bind(&other).unwrap();
    }

    #[test]
    fn the_longest_path_that_a_configuration_may_have_can_be_made() {
        let directory = tempfile::tempdir().unwrap();
        let config = |path: &Path| {
            let text = format!(
                "[field]\ninterface = \"a\"\n[uplink]\ninterface = \"b\"\n[plain]\n[control]\nsocket = {path:?}\n"
            );
            crate::config::Config::parse(Path::new("/g.toml"), &text)
        };
        let mut path = directory.path().join("s");
        while config(&path).is_ok() {
            Socket::bind(&path).unwrap();
            path.as_mut_os_string().push("s");
        }
        assert_eq!(path.as_os_str().len(), 104);
    }
}

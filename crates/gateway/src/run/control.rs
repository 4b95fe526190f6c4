//! Requests to a running gateway and their answers, one JSON object per line.

use std::io;
use std::path::Path;
use std::sync::Arc;

use antedate_hardening::confine;
use antedate_host::control::{self, Server, Service, Socket};
use antedate_host::fault::{Fault, explain};
use serde::{Deserialize, Serialize};

use crate::config::CONTROL_WORDS;
use crate::run::status::Status;

/// A request to a running gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// `{"request":"status"}`: the status.
    Status {},
    /// `{"request":"switch-sa","an":1}`: protect with another association from the next frame on.
    SwitchSa {
        /// The association number.
        an: u8,
    },
    /// `{"request":"rekey"}`: start new sessions with all peers of an overlay.
    Rekey {},
    /// `{"request":"reload"}`: read the configuration and its keys again.
    Reload {},
    /// `{"request":"ping","peer":"hall"}`: one protected echo.
    Ping(Ping),
}

/// A request for an echo.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// The peer: its name, SCI or address. Empty if there is only one.
    #[serde(default)]
    pub peer: String,
    /// Octets of the request, unprotected; the shortest by default.
    #[serde(default)]
    pub octets: u16,
    /// Octets of the answer.
    #[serde(default)]
    pub answer_octets: u16,
    /// Whether to ask over the second uplink of an overlay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub second_uplink: bool,
}

/// An answered echo.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Echo {
    /// The peer that answered.
    pub peer: String,
    /// Round trip in microseconds.
    pub round_trip_us: f64,
    /// Octets of the request as it arrived.
    pub octets: u64,
    /// Octets of the answer.
    pub answer_octets: u64,
    /// Octets of the longest frame that the uplink carries in one piece.
    pub longest: u64,
    /// Whether a stock end of an overlay answered: then the answer has no chosen length.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stock: bool,
}

/// A request that changes a running gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Protect with this association from the next frame on.
    SwitchSa {
        /// The association number.
        an: u8,
    },
    /// Start new sessions with all peers of an overlay.
    Rekey,
    /// Read the configuration and its keys again.
    Reload,
}

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Whether the request succeeded.
    pub ok: bool,
    /// The requested status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<Status>>,
    /// The requested echo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Echo>,
    /// The result, or the reason of a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The remedy of a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// The reason and the remedy of a failed command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct CommandError {
    /// The reason.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

/// The source of answers. Called from the control threads; must not wait for forwarding.
pub trait StatusSource: Send + Sync {
    /// The current status.
    fn status(&self) -> Status;
    /// Executes a command. Returns a sentence about the result.
    ///
    /// # Errors
    /// When it cannot be executed.
    fn command(&self, command: Command) -> Result<String, CommandError>;
    /// Sends a protected echo to a peer and waits for the answer, for three seconds at most.
    ///
    /// # Errors
    /// When there is no such peer, or no answer.
    fn ping(&self, ping: &Ping) -> Result<Echo, CommandError>;
}

/// Answers requests from a [`StatusSource`].
struct Answers(Arc<dyn StatusSource>);

impl Service for Answers {
    fn answer(&self, request: &[u8]) -> Vec<u8> {
        to_line(&reply(request, self.0.as_ref()))
    }

    fn refuse(&self, what: &str, remedy: &str) -> Vec<u8> {
        to_line(&refused(what, remedy))
    }
}

/// Serves the socket, by threads without capabilities.
///
/// # Errors
/// When no thread can be started.
pub fn serve(socket: Socket, path: &Path, source: Arc<dyn StatusSource>) -> Result<Server, Fault> {
    let cannot = |error| Fault::of_io(path, CONTROL_WORDS.cannot.0, &error, CONTROL_WORDS.cannot.1);
    confine::without_capabilities(|| socket.serve(Arc::new(Answers(source)))).map_err(cannot)
}

fn reply(line: &[u8], source: &dyn StatusSource) -> Reply {
    let command = match serde_json::from_slice(line) {
        Ok(Request::Status {}) => {
            return Reply { ok: true, status: Some(Box::new(source.status())), ..Reply::default() };
        }
        Ok(Request::SwitchSa { an }) => Command::SwitchSa { an },
        Ok(Request::Rekey {}) => Command::Rekey,
        Ok(Request::Reload {}) => Command::Reload,
        Ok(Request::Ping(ping)) => {
            return match source.ping(&ping) {
                Ok(echo) => Reply { ok: true, echo: Some(echo), ..Reply::default() },
                Err(error) => refused(&error.what, &error.remedy),
            };
        }
        Err(error) => {
            let known = "known: {\"request\":\"status\"}, {\"request\":\"switch-sa\",\"an\":1}, {\"request\":\"rekey\"}, {\"request\":\"reload\"}, {\"request\":\"ping\",\"peer\":\"\"}";
            return refused(&format!("not a request: {error}"), known);
        }
    };
    match source.command(command) {
        Ok(message) => Reply { ok: true, message, ..Reply::default() },
        Err(error) => refused(&error.what, &error.remedy),
    }
}

fn refused(what: &str, remedy: &str) -> Reply {
    Reply { message: what.to_owned(), remedy: remedy.to_owned(), ..Reply::default() }
}

/// A reply is always JSON.
fn to_line(reply: &Reply) -> Vec<u8> {
    serde_json::to_vec(reply).unwrap_or_default()
}

/// Sends a request to a running gateway.
///
/// # Errors
/// When no gateway answers on the socket, or with another format.
pub fn ask(socket: &Path, request: Request) -> Result<Reply, Fault> {
    let exchange = || -> io::Result<Reply> {
        let reply = control::exchange(socket, &serde_json::to_vec(&request)?)?;
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
    use std::fs;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::thread;

    use antedate_host::control::{CLIENTS_MAX, LONGEST_PATH, PATIENCE, inspect};

    use super::*;

    /// Answers at once and records the commands.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<Command>>);

    impl StatusSource for Recorder {
        fn status(&self) -> Status {
            Status { antedate: "1".into(), uptime_seconds: 2.5, ..Status::default() }
        }

        fn command(&self, command: Command) -> Result<String, CommandError> {
            let Command::SwitchSa { an } = command else { return Ok("new sessions".into()) };
            if an > 1 {
                return Err(CommandError {
                    what: format!("there is no AN {an}"),
                    remedy: "choose 0 or 1".into(),
                });
            }
            self.0.lock().unwrap().push(command);
            Ok(format!("sends under AN {an}"))
        }

        fn ping(&self, ping: &Ping) -> Result<Echo, CommandError> {
            Ok(Echo { peer: ping.peer.clone(), octets: ping.octets.into(), ..Echo::default() })
        }
    }

    fn bind(path: &Path) -> Result<Socket, Fault> {
        Socket::bind(path, &CONTROL_WORDS)
    }

    fn started() -> (tempfile::TempDir, PathBuf, Server) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/gateway.sock");
        let server = serve(bind(&path).unwrap(), &path, Arc::new(Recorder::default())).unwrap();
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
        let ping = Ping { peer: "hall".into(), octets: 100, ..Ping::default() };
        let echo = ask(&path, Request::Ping(ping)).unwrap().echo.unwrap();
        assert_eq!((echo.peer.as_str(), echo.octets), ("hall", 100));
    }

    #[test]
    fn one_connection_takes_many_requests() {
        let (_directory, path, _server) = started();
        let replies = tell(&path, b"{\"request\":\"status\"}\n{\"request\":\"switch-sa\",\"an\":0}\n");
        assert_eq!(replies.lines().count(), 2);
        assert!(replies.ends_with("{\"ok\":true,\"message\":\"sends under AN 0\"}\n"), "{replies}");
    }

    #[test]
    fn malformed_requests_are_refused() {
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
    fn longest_waiting_client_makes_room() {
        let (_directory, path, _server) = started();
        let held: Vec<UnixStream> = (0..=CLIENTS_MAX).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let asked = |mut client: &UnixStream| {
            let _ = client.write_all(b"{\"request\":\"status\"}\n");
            let mut line = String::new();
            let _ = BufReader::new(client).read_line(&mut line);
            line
        };
        for last in [&held[CLIENTS_MAX], &held[1]] {
            let line = asked(last);
            assert!(line.starts_with("{\"ok\":true"), "{line}");
        }
        assert_eq!(asked(&held[0]), "", "it is disconnected");
    }

    #[test]
    fn stop_works_with_a_replaced_socket() {
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
    fn longest_accepted_path_works() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().as_os_str().len() + 1;
        let path = directory.path().join("s".repeat(LONGEST_PATH - there));
        assert!(!inspect(&path, &CONTROL_WORDS).unwrap());
        bind(&path).unwrap();
    }

    #[test]
    fn only_abandoned_socket_is_replaced() {
        let (directory, path, server) = started();
        let found = bind(&path).unwrap_err().to_string();
        assert!(found.contains("another gateway answers on this control socket"), "{found}");
        drop(server);
        assert!(!path.exists());
        assert!(ask(&path, Request::Status {}).unwrap_err().to_string().contains("no gateway answers here"));

        drop(UnixListener::bind(&path).unwrap());
        let _server = serve(bind(&path).unwrap(), &path, Arc::new(Recorder::default())).unwrap();
        assert!(ask(&path, Request::Status {}).unwrap().ok);

        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let found = bind(&file).unwrap_err().to_string();
        assert!(found.contains("exists and is no socket"), "{found}");

        // Nor is a file with the temporary name of the socket.
        let (other, beside) = (directory.path().join("other"), directory.path().join("other.new"));
        fs::write(&beside, "mine").unwrap();
        assert!(inspect(&other, &CONTROL_WORDS).is_err());
        let found = bind(&other).unwrap_err().to_string();
        assert!(found.contains("other.new: exists and is no socket"), "{found}");
        assert_eq!(fs::read_to_string(&beside).unwrap(), "mine");
        fs::remove_file(&beside).unwrap();
        let living = UnixListener::bind(&beside).unwrap();
        assert!(inspect(&other, &CONTROL_WORDS).unwrap());
        assert!(bind(&other).unwrap_err().to_string().contains("another gateway answers"));
        drop(living);
        bind(&other).unwrap();
    }

    #[test]
    fn longest_configured_path_works() {
        let directory = tempfile::tempdir().unwrap();
        let config = |path: &Path| {
            let text = format!(
                "[field]\ninterface = \"a\"\n[uplink]\ninterface = \"b\"\n[plain]\n[control]\nsocket = {path:?}\n"
            );
            crate::config::Config::parse(Path::new("/g.toml"), &text)
        };
        let mut path = directory.path().join("s");
        while config(&path).is_ok() {
            bind(&path).unwrap();
            path.as_mut_os_string().push("s");
        }
        assert_eq!(path.as_os_str().len(), 104);
    }
}

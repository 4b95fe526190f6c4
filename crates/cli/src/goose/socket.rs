//! The Unix socket of a publisher, whose writers give values, and of a subscriber, whose readers get
//! lines.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use antedate_host::control::{Socket, Words};
use antedate_host::fault::Fault;
use serde_json::json;

use super::timely::Cause;
use crate::failure::Failure;
use crate::output;

/// Readers that are admitted before the next message.
const ADMITTED_AT_ONCE: usize = 8;
/// The most readers at a time.
const MAX_READERS: usize = 64;
/// Octets of lines that wait for a reader, beside what the kernel keeps for it.
const PENDING: usize = 64 << 10;
/// Texts of the faults of a socket.
const WORDS: Words = Words {
    taken: ("another process answers at this socket", "give each publisher and subscriber a path of its own"),
    no_socket: ("exists and is no socket", "give --socket a path that is not there"),
    cannot: ("make the socket", "give --socket a path in a directory of yours, of at most 103 octets"),
};

/// Makes a socket for this process's user and its group. One that a killed process left is replaced.
pub(super) fn bind(path: &Path) -> Result<Socket, Fault> {
    let was_there = path.symlink_metadata().is_ok();
    let socket = Socket::bind(path, &WORDS)?;
    socket.share().map_err(|error| Fault::of_io(path, WORDS.cannot.0, &error, WORDS.cannot.1))?;
    if was_there {
        output::tell(format_args!("INFO {}: the socket of a process that ended is replaced", path.display()));
    }
    Ok(socket)
}

/// The directory that the end of a process removes its socket from.
pub(super) fn directory(path: Option<&Path>) -> Option<PathBuf> {
    let parent = path?.parent()?;
    Some(if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() })
}

/// Where a subscriber's lines go.
pub(super) enum Sink {
    Standard,
    Readers(Readers),
}

impl Sink {
    pub(super) fn new(path: Option<&Path>) -> Result<Self, Fault> {
        let Some(path) = path else { return Ok(Self::Standard) };
        let socket = bind(path)?;
        socket
            .listener()
            .set_nonblocking(true)
            .map_err(|error| Fault::of_io(path, WORDS.cannot.0, &error, WORDS.cannot.1))?;
        let (readers, slow, full) = (Vec::new(), Cause::default(), Cause::default());
        Ok(Self::Readers(Readers { socket, readers, slow, full }))
    }

    /// Prints a line with its end. False if nobody will read any longer.
    pub(super) fn print(&mut self, line: &str) -> Result<bool, Failure> {
        match self {
            Self::Standard => output::print_while_read(line),
            Self::Readers(readers) => {
                readers.admit();
                readers.print(line);
                Ok(true)
            }
        }
    }

    /// Lets readers in, and gives them what waits.
    pub(super) fn turn(&mut self) {
        if let Self::Readers(readers) = self {
            readers.admit();
            readers.readers.retain_mut(|reader| reader.flush().is_ok());
        }
    }
}

/// The readers. None of them holds the others or the subscriber: a line that one does not take is left
/// out for it, and counted.
pub(super) struct Readers {
    socket: Socket,
    readers: Vec<Reader>,
    slow: Cause,
    full: Cause,
}

struct Reader {
    stream: UnixStream,
    /// The rest of a line, and lines behind it.
    pending: Vec<u8>,
    /// Lines that were left out since the last one.
    lost: u64,
}

impl Readers {
    fn admit(&mut self) {
        let listener: &UnixListener = self.socket.listener();
        // A few at a time: who connects and closes without end must not hold the subscriber.
        for _ in 0..ADMITTED_AT_ONCE {
            let Ok((stream, _)) = listener.accept() else { return };
            if self.readers.len() == MAX_READERS {
                self.readers.retain_mut(Reader::is_there);
            }
            if self.readers.len() == MAX_READERS {
                self.full.warn(format_args!("a reader is refused: there are {MAX_READERS}; close some"));
                continue;
            }
            if stream.set_nonblocking(true).is_ok() {
                let pending = b"{\"listening\":true}\n".to_vec();
                self.readers.push(Reader { stream, pending, lost: 0 });
            }
        }
    }

    fn print(&mut self, line: &str) {
        let slow = &mut self.slow;
        self.readers.retain_mut(|reader| match reader.give(line) {
            Ok(true) => true,
            Ok(false) => {
                slow.warn(
                    "a reader of the socket is too slow: lines are left out, and their number is told to it",
                );
                true
            }
            Err(_) => false,
        });
    }
}

impl Reader {
    /// Gives a line. False if it is left out.
    fn give(&mut self, line: &str) -> io::Result<bool> {
        self.flush()?;
        let mut room = PENDING.saturating_sub(self.pending.len());
        if self.lost > 0 && self.pending.is_empty() {
            let told = format!("{}\n", json!({ "event": "lines lost", "count": self.lost }));
            self.pending.extend_from_slice(told.as_bytes());
            self.lost = 0;
            room = PENDING;
        }
        if self.lost > 0 || line.len() > room {
            self.lost += 1;
            return Ok(false);
        }
        self.pending.extend_from_slice(line.as_bytes());
        self.flush()?;
        Ok(true)
    }

    /// Writes what the kernel takes.
    fn flush(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            match self.stream.write(&self.pending) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => drop(self.pending.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the other end is open. What it says is not read by anybody.
    fn is_there(&mut self) -> bool {
        let mut octets = [0; 256];
        match self.stream.read(&mut octets) {
            Ok(len) => len > 0,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt as _;

    fn sink(path: &Path) -> Sink {
        Sink::new(Some(path)).map_err(|fault| fault.to_string()).expect("a socket")
    }

    #[test]
    fn slow_reader_holds_nobody() {
        let desk = tempfile::tempdir().expect("a directory");
        let path = desk.path().join("lines");
        let mut sink = sink(&path);
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o660);
        let (slow, quick) = [0; 2].map(|_| UnixStream::connect(&path).expect("connected")).into();
        let mut quick = BufReader::new(quick);
        let mut line = String::new();
        // Far more than the kernel and the reader's own room hold.
        for number in 0..20_000 {
            let text = format!("{{\"number\":{number},\"filler\":\"{}\"}}\n", "x".repeat(100));
            assert!(sink.print(&text).is_ok_and(|read| read));
            if number == 0 {
                quick.read_line(&mut line).expect("a line");
                assert_eq!(std::mem::take(&mut line), "{\"listening\":true}\n");
            }
            quick.read_line(&mut line).expect("a line");
            assert_eq!(std::mem::take(&mut line), text);
        }
        let Sink::Readers(readers) = &mut sink else { unreachable!("a socket") };
        assert_eq!(readers.readers.len(), 2);
        let lost = readers.readers[0].lost;
        assert!(lost > 0 && readers.readers[0].pending.len() <= PENDING);
        // It reads again: whole lines, then how many are missing, then the next one.
        slow.set_nonblocking(true).expect("set");
        let mut all = Vec::new();
        for _ in 0..100 {
            let _ = (&slow).read_to_end(&mut all);
            sink.turn();
        }
        assert!(sink.print("{\"number\":\"last\"}\n").is_ok());
        let _ = (&slow).read_to_end(&mut all);
        let lines: Vec<serde_json::Value> =
            all.split(|octet| *octet == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let count = lines.len();
        assert_eq!(lines[count - 2], json!({ "event": "lines lost", "count": lost }));
        assert_eq!(lines[count - 1], json!({ "number": "last" }));
        assert_eq!(count as u64 - 3 + lost, 20_000);
    }

    #[test]
    fn dead_readers_make_room() {
        let desk = tempfile::tempdir().expect("a directory");
        let path = desk.path().join("lines");
        let mut sink = sink(&path);
        for _ in 0..3 {
            let readers: Vec<_> =
                (0..MAX_READERS).map(|_| UnixStream::connect(&path).expect("connected")).collect();
            (0..MAX_READERS.div_ceil(ADMITTED_AT_ONCE)).for_each(|_| sink.turn());
            let Sink::Readers(known) = &mut sink else { unreachable!("a socket") };
            assert_eq!(known.readers.len(), MAX_READERS);
            let mut further = UnixStream::connect(&path).expect("connected");
            sink.turn();
            let mut octets = [0; 32];
            assert_eq!(further.read(&mut octets).expect("closed"), 0);
            drop(readers);
        }
    }

    #[test]
    fn socket_of_an_ended_process_is_replaced() {
        let desk = tempfile::tempdir().expect("a directory");
        let path = desk.path().join("lines");
        drop(UnixListener::bind(&path).expect("bound"));
        let first = sink(&path);
        let refused = Sink::new(Some(&path)).err().map(|fault| fault.to_string()).unwrap_or_default();
        assert!(refused.contains("another process answers"), "{refused}");
        drop(first);
        assert!(!path.exists());
        fs::write(&path, "text").expect("written");
        let refused = Sink::new(Some(&path)).err().map(|fault| fault.to_string()).unwrap_or_default();
        assert!(refused.contains("no socket") && refused.contains("not there"), "{refused}");
    }
}

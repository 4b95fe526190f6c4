//! Lines of standard input or of the writers at a socket, read by threads, so that repetitions keep
//! their times.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use antedate_host::control::Socket;
use antedate_lab::sys::signal;
use rustix::net::{SendFlags, send};
use serde_json::json;

use crate::output;

/// The longest line.
const MAX_LINE: u64 = 1 << 16;
/// Lines that wait. A writer that is faster waits too.
const QUEUE: usize = 16;
/// The most writers at a time.
const MAX_WRITERS: usize = 16;
/// The time after which a signal is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// The pause after a refused connection, to not aggravate a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What comes next.
pub(super) enum Next {
    /// a line
    Line(String),
    /// a line that is longer than the longest, or no UTF-8
    TooLong,
    /// nothing yet
    Nothing,
    /// the end of the input, or a signal
    End,
}

/// A line, `None` if it is too long, with its number and its writer.
struct Item {
    line: Option<String>,
    number: u64,
    /// The writer's number and its end of a socket.
    writer: Option<(u64, Arc<UnixStream>)>,
}

/// The lines.
pub(super) struct Input {
    lines: Receiver<Item>,
    /// Lines that came.
    count: u64,
    /// The last one.
    last: Option<Item>,
    /// The writers at a socket.
    writers: Option<Arc<AtomicUsize>>,
    /// Removed when the input ends.
    _socket: Option<Arc<Socket>>,
}

impl Input {
    /// Starts the threads. They end with the process.
    pub(super) fn start(socket: Option<Socket>) -> io::Result<Self> {
        let (sender, lines) = sync_channel(QUEUE);
        let (socket, thread) = (socket.map(Arc::new), std::thread::Builder::new().name("input".into()));
        let writers = socket.as_ref().map(|_| Arc::new(AtomicUsize::new(0)));
        match (&socket, &writers) {
            (Some(socket), Some(writers)) => {
                let (socket, writers) = (Arc::clone(socket), Arc::clone(writers));
                thread.spawn(move || serve(&socket, &writers, &sender))?
            }
            _ => thread.spawn(move || forward(&mut io::stdin().lock(), None, &sender))?,
        };
        Ok(Self { lines, count: 0, last: None, writers, _socket: socket })
    }

    /// Waits for the next line, at most so long. Empty lines are skipped.
    pub(super) fn next(&mut self, most: Duration) -> Next {
        if signal::stopping() {
            return Next::End;
        }
        match self.lines.recv_timeout(most.min(LOOK)) {
            Ok(mut item) => {
                self.count += 1;
                let line = item.line.take();
                self.last = Some(item);
                match line {
                    Some(line) if line.trim().is_empty() => Next::Nothing,
                    Some(line) => Next::Line(line),
                    None => Next::TooLong,
                }
            }
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    /// Lines that came.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is a socket, and no writer at it.
    pub(super) fn is_orphan(&self) -> bool {
        self.writers.as_ref().is_some_and(|writers| writers.load(Ordering::Acquire) == 0)
    }

    /// Tells the refusal of the last line, also to its writer.
    pub(super) fn refuse(&self, why: &str) {
        let Some(Item { number, writer, .. }) = &self.last else { return };
        match writer {
            None => output::tell(format_args!("antedate: line {number}: {why}")),
            Some((writer, stream)) => {
                output::tell(format_args!("antedate: line {number} of writer {writer}: {why}"));
                let told = format!("{}\n", json!({ "refused": number, "error": why }));
                // A writer that does not read does not hold the publisher.
                let _ = send(stream, told.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            }
        }
    }
}

/// Takes the lines of one writer.
fn forward(input: &mut impl BufRead, writer: Option<(u64, Arc<UnixStream>)>, to: &SyncSender<Item>) {
    let mut number = 0;
    while let Some(line) = one(input) {
        number += 1;
        if to.send(Item { line, number, writer: writer.clone() }).is_err() {
            return;
        }
    }
}

/// Admits writers, each with a thread.
fn serve(socket: &Socket, writers: &Arc<AtomicUsize>, to: &SyncSender<Item>) {
    let mut count = 0;
    loop {
        let Ok((stream, _)) = socket.listener().accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        if writers.load(Ordering::Acquire) == MAX_WRITERS {
            let told = format!("{}\n", json!({ "error": "there are too many writers: close some" }));
            let _ = send(&stream, told.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            std::thread::sleep(PAUSE);
            continue;
        }
        count += 1;
        let (number, to, present) = (count, to.clone(), Arc::clone(writers));
        writers.fetch_add(1, Ordering::AcqRel);
        let started = std::thread::Builder::new().name("writer".into()).spawn(move || {
            let stream = Arc::new(stream);
            forward(&mut BufReader::new(&*stream), Some((number, Arc::clone(&stream))), &to);
            present.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            writers.fetch_sub(1, Ordering::AcqRel);
            std::thread::sleep(PAUSE);
        }
    }
}

/// The next line, `Some(None)` if it is too long or no UTF-8, or `None` at the end.
fn one(input: &mut impl BufRead) -> Option<Option<String>> {
    let mut line = Vec::new();
    let got = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).ok()?;
    if got == 0 {
        return None;
    }
    if got as u64 == MAX_LINE && line.last() != Some(&b'\n') {
        input.skip_until(b'\n').ok()?;
        return Some(None);
    }
    Some(String::from_utf8(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn long_line_does_not_hide_the_next() {
        let text = [&b"one\n"[..], &vec![b'x'; MAX_LINE as usize + 9], b"\n\xff\ntwo"].concat();
        let mut input = &text[..];
        let mut lines = Vec::new();
        while let Some(line) = one(&mut input) {
            lines.push(line);
        }
        assert_eq!(lines, [Some("one\n".into()), None, None, Some("two".into())]);
    }

    #[test]
    fn writers_come_and_go() {
        let desk = tempfile::tempdir().expect("a directory");
        let path = desk.path().join("values");
        let socket = crate::goose::socket::bind(&path).map_err(|fault| fault.to_string()).expect("a socket");
        let mut input = Input::start(Some(socket)).expect("started");
        assert!(input.is_orphan());
        let mut next = |wanted: &str| {
            for _ in 0..100 {
                match input.next(LOOK) {
                    Next::Line(line) => return assert_eq!(line, wanted),
                    Next::Nothing => {}
                    Next::TooLong | Next::End => break,
                }
            }
            panic!("no line `{wanted}`");
        };
        let (mut one, mut two) = (UnixStream::connect(&path).unwrap(), UnixStream::connect(&path).unwrap());
        one.write_all(b"first\n").unwrap();
        next("first\n");
        two.write_all(b"second\n").unwrap();
        next("second\n");
        assert!(!input.is_orphan());
        input.refuse("is no JSON");
        let mut told = String::new();
        two.shutdown(std::net::Shutdown::Write).unwrap();
        drop(one);
        input.last = None;
        two.read_to_string(&mut told).unwrap();
        assert_eq!(told, "{\"error\":\"is no JSON\",\"refused\":1}\n");
        while !input.is_orphan() {
            assert!(matches!(input.next(LOOK), Next::Nothing));
        }
    }
}

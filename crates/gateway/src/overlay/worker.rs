//! The forwarding thread of an overlay.

use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use antedate_hardening::stack;

use super::message::Message;
use super::path::Path;
use super::snapshot::Snapshot;
use super::uplink::Inward;
use crate::run::duty::{Break, Duty, WAKE_UP, forward};
use crate::run::governor::{Governor, Mode};
use crate::run::mailbox::Mailbox;
use crate::run::warm::Warm;
use crate::sys::thread::{self, Woken};

/// Steps of preparation between two polls of the ports. A step takes some 50 ns, less than a poll
/// of the socket.
const STEPS: u32 = 4;

/// Frames of other workers between two polls of the ports.
const PASSED: u32 = 16;

/// The longest time in nanoseconds that messages wait for frames.
const MESSAGES_WAIT: u64 = 2_000_000;

/// The forwarding thread.
pub struct Worker {
    path: Path,
    mode: Mode,
    mailbox: Arc<Mailbox<Message>>,
    /// The time after which messages no longer wait.
    messages_by: u64,
}

impl Worker {
    /// A thread for this path, with this way to wait and this mailbox.
    #[must_use]
    pub const fn new(path: Path, mode: Mode, mailbox: Arc<Mailbox<Message>>) -> Self {
        Self { path, mode, mailbox, messages_by: 0 }
    }

    /// Forwards until a message tells it to stop.
    pub fn run(mut self) {
        let mode = self.mode;
        forward(&mut self, mode);
    }

    /// Whether messages wait for the release clock's next frame. A snapshot takes as long as the
    /// tolerated deviation of a frame.
    #[inline]
    fn messages_wait(&mut self) -> bool {
        let Some(due) = self.path.due() else { return false };
        let now = thread::now();
        let wait = due < now + WAKE_UP && now < self.messages_by;
        if !wait {
            self.messages_by = now + MESSAGES_WAIT;
        }
        wait
    }
}

impl Warm for Worker {
    fn steps(&mut self) -> u32 {
        STEPS
    }

    #[inline]
    fn prepare(&mut self, steps: u32) -> u32 {
        self.path.idle(steps)
    }
}

impl Duty for Worker {
    const PUNCTUAL: bool = true;

    #[inline]
    fn message(&mut self, governor: &Governor) -> ControlFlow<Break, bool> {
        if self.messages_wait() {
            return ControlFlow::Continue(false);
        }
        let mut passed = 0;
        let message = loop {
            match self.mailbox.take() {
                Some(Message::Frame(frame)) => self.path.send_passed(&frame),
                Some(message) => break message,
                None => return ControlFlow::Continue(passed > 0),
            }
            passed += 1;
            if passed == PASSED {
                return ControlFlow::Continue(true);
            }
        };
        match message {
            Message::Snapshot(answer) => {
                self.path.census();
                // The requester may be gone.
                let _ = answer.send(Snapshot::take(&mut self.path, governor));
            }
            Message::Change(mut change, answer) => {
                let mode = change.mode;
                self.path.change(&mut change);
                // The main thread may have given up waiting.
                let _ = answer.send(change);
                // Of peers that joined or left, and of preshared keys.
                stack::wipe_some();
                if mode != self.mode {
                    self.mode = mode;
                    return ControlFlow::Break(Break::Mode(mode));
                }
            }
            Message::Ping(ask) => self.path.ping(ask),
            Message::Alive(alive) => self.path.core.say_alive(thread::now(), alive),
            Message::Rekey => self.path.rekey(),
            Message::Field(from, to, mtu) => self.path.replace_field(from, to, mtu),
            Message::Uplink(which, port, mtu) => self.path.replace_uplink(which, port, mtu),
            Message::Link(which, address) => self.path.readdress_uplink(which, address),
            Message::Endpoint(host, at) => self.path.found(&host, at),
            Message::Path(which, to, mtu) => self.path.learn_path(which, to, mtu),
            Message::Handshake(done) => {
                self.path.handshake(done);
                // Keys of the new session and the replaced one passed over the stack.
                stack::wipe_some();
            }
            Message::Finish(done) => {
                self.path.finish(done);
                stack::wipe_some();
            }
            Message::Frame(frame) => self.path.send_passed(&frame),
            Message::Hop(which, to, hop) => self.path.learn_hop(which, to, hop),
            Message::Stop => return ControlFlow::Break(Break::Stop),
        }
        ControlFlow::Continue(true)
    }

    #[inline]
    fn turn(&mut self, heard: impl FnMut(u32) -> u64) -> usize {
        self.path.turn(heard)
    }

    #[inline]
    fn due(&self) -> Option<u64> {
        self.path.due()
    }

    fn sleep(&mut self, pause: std::time::Duration) {
        let (field, uplink, second) = self.path.ports();
        let [ring, socket] = uplink.descriptors();
        let [ring_2, socket_2] = second.map_or([-1; 2], Inward::descriptors);
        let [urgent, rest, ..] = field.descriptors();
        let fds = [urgent, rest, ring, socket, ring_2, socket_2, self.mailbox.as_raw_fd()];
        let [from_urgent, from_rest, from_uplink, _, from_second, ..] = thread::wait(fds, Some(pause));
        field.take_errors(&[from_urgent, from_rest]);
        if from_uplink == Woken::Error {
            uplink.take_error();
        }
        if let (Woken::Error, Some(second)) = (from_second, second) {
            second.take_error();
        }
    }
}

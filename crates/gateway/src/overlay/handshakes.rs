//! The handshake thread. It does the curve multiplications of handshakes, which take tenths of a
//! millisecond, so that no frame waits for them.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use antedate_hardening::stack;

use super::message::Message;
use super::workers::OwnedJob;
use crate::run::mailbox::Mailbox;
use crate::run::setup;

/// The most jobs in the thread. Further ones wait in the device, which limits them.
pub(super) const IN_FLIGHT: usize = 8;

/// Starts the thread for workers with these mailboxes. It ends when all senders are dropped.
///
/// It has the forwarding thread's priority: with a lower one it would never run beside a thread
/// that polls. It is not pinned to a CPU, so it runs on any CPU without a thread of that priority,
/// or when the forwarding thread yields.
pub(super) fn start(
    priority: Option<u8>,
    mailboxes: Vec<Arc<Mailbox<Message>>>,
) -> io::Result<(mpsc::Sender<OwnedJob>, JoinHandle<()>)> {
    let (post, jobs) = mpsc::channel::<OwnedJob>();
    let work = move || {
        let _ = setup::place(None, priority);
        setup::frames_only();
        for (worker, job) in jobs {
            if let Some(mailbox) = mailboxes.get(usize::from(worker)) {
                stack::wiped(|| mailbox.post(Message::Handshake(job.run())));
            }
        }
    };
    Ok((post, thread::Builder::new().name("handshake".into()).spawn(work)?))
}

//! The thread that works handshakes out: multiplications on the curve take a tenth of a millisecond each few, and no frame
//! waits for them.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use antedate_channel::wireguard::Job;

use super::letter::Letter;
use crate::run::mailbox::Mailbox;
use crate::run::setup;

/// Parts of handshakes that wait for the thread, or come back from it. Those beyond wait in the device, which bounds them.
pub(super) const IN_FLIGHT: usize = 8;

/// Starts it. It ends when nobody can ask it any more.
///
/// It has the forwarding thread's priority, for below it would not run at all beside one that polls, and no CPU of its own: it
/// runs wherever nobody with that priority does, and otherwise when the forwarding thread yields.
pub(super) fn start(
    priority: Option<u8>,
    mailbox: Arc<Mailbox<Letter>>,
) -> io::Result<(mpsc::Sender<Job>, JoinHandle<()>)> {
    let (post, jobs) = mpsc::channel::<Job>();
    let work = move || {
        let _ = setup::place(None, priority);
        for job in jobs {
            mailbox.post(Letter::Handshake(job.run()));
        }
    };
    Ok((post, thread::Builder::new().name("handshake".into()).spawn(work)?))
}

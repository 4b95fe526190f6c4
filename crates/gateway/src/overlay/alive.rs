//! The threads of link loss forwarding ([`crate::run::loss`]) of an overlay: one has all peers told that
//! this end lives, the other one looks at the ports.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::thread;

use antedate_channel::overlay::message::Alive;
use antedate_host::fault::Fault;

use super::message::Message;
use crate::config::Checked;
use crate::run::loss::hellos::Hellos;
use crate::run::loss::port::{self, View};
use crate::run::mailbox::Mailbox;
use crate::run::runs::Runs;
use crate::run::setup;
use crate::run::watch::Watch;

/// Starts the threads, if link loss forwarding is configured.
pub(super) fn start(
    checked: &Checked,
    mailboxes: &[Arc<Mailbox<Message>>],
    hellos: &Arc<Hellos<[u8; 32]>>,
    view: &Arc<View>,
    watch: &Arc<Watch>,
) -> Result<[Option<Runs>; 2], Fault> {
    let Some(interval) = checked.config.hello() else { return Ok([None, None]) };
    let ends = Arc::clone(hellos);
    let looks = port::start(checked, move |now| ends.far(now), Arc::clone(view), Arc::clone(watch))?;
    let mut id = [0; 4];
    // Without random numbers those of an earlier process may be taken for late ones.
    let _ = getrandom::fill(&mut id);
    let mut alive = Alive {
        field_down: false,
        id: u32::from_ne_bytes(id),
        number: 0,
        interval_ms: interval.as_millis() as u16,
    };
    let (mailboxes, view) = (mailboxes.to_vec(), Arc::clone(view));
    let mut says = Runs::default();
    let begun = says.add("hello", checked.config.run.priority, move |stop| {
        setup::frames_only();
        while !stop.load(Acquire) {
            (alive.number, alive.field_down) = (alive.number.wrapping_add(1), view.tells_field_down());
            mailboxes.iter().for_each(|mailbox| mailbox.post(Message::Alive(alive)));
            thread::sleep(interval);
        }
    });
    begun.map_err(|error| Fault::of_thread(&checked.config.file, &error))?;
    Ok([looks, Some(says)])
}

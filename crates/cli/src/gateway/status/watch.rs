//! `antedate gateway status --watch`: the page, drawn again each second.
//!
//! A terminal shows it in place, and ends it with a key. Another output gets one page after the
//! other until it closes.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use antedate_gateway::run::control::{Request, ask};
use antedate_host::fault::Fault;
use antedate_host::signals;
use antedate_lab::screen::Screen;
use antedate_lab::sys::terminal::Keys;

use super::Page;
use crate::failure::{Done, Failure};
use crate::output;

/// Time between two pages.
const ROUND: Duration = Duration::from_secs(1);

pub(super) fn run(socket: &Path) -> Done {
    let stop = signals::stop_flag()
        .map_err(|error| Failure::usage(format!("cannot watch for signals: {error}"), "see ulimit -n"))?;
    // A gateway that does not run is a fault at the start. Later it may be restarted.
    let mut page = page(socket)?;
    let mut screen = io::stdout().is_terminal().then(Screen::default);
    let mut keys = Keys::open();
    loop {
        let is_read = match &mut screen {
            Some(screen) => match screen.draw(&page) {
                Ok(()) => true,
                // The terminal was closed.
                Err(_) => return Ok(()),
            },
            None => output::print_while_read(&format!("{page}\n"))?,
        };
        let key = keys.next(ROUND);
        if !is_read || stop.load(Ordering::Acquire) || matches!(key, Some(b'q' | b'Q')) {
            return Ok(());
        }
        page = self::page(socket)
            .unwrap_or_else(|fault| format!("the gateway does not answer: {}\n", fault.what));
    }
}

fn page(socket: &Path) -> Result<String, Fault> {
    let reply = ask(socket, Request::Status {})?;
    match reply.status {
        Some(status) => Ok(Page::of(&status)),
        None => Err(Fault::of_file(socket, reply.message, reply.remedy)),
    }
}

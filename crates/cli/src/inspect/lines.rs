//! The output of all kinds of captures: a line for each packet, and a summary.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use antedate_lab::tap::pcap::Pcap;
use serde::Serialize;

use super::stats::{Packet, Stats};
use crate::capture::source;
use crate::failure::{Done, Failure};
use crate::output;

/// How to print.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) json: bool,
    /// The summary alone.
    pub(super) quiet: bool,
    /// A table of the packets instead of a line each.
    pub(super) stats: bool,
    /// Frames come while they are printed, so each line leaves at once.
    pub(super) live: bool,
}

/// The lines on the way out, and the frames that were opened.
pub(super) struct Lines {
    how: How,
    out: BufWriter<StdoutLock<'static>>,
    plain: Option<Pcap>,
    stats: Stats,
    /// The first fault. The rest is left out.
    unwritten: Option<io::Error>,
}

impl Lines {
    pub(super) fn new(how: How, plain: Option<Pcap>) -> Self {
        Self {
            how,
            out: BufWriter::new(io::stdout().lock()),
            plain,
            stats: Stats::default(),
            unwritten: None,
        }
    }

    /// Prints a packet's line, or counts it.
    pub(super) fn print(&mut self, line: &(impl Serialize + Display + Packet)) {
        if self.how.stats {
            return self.stats.add(&line.counted());
        }
        if self.how.quiet || self.unwritten.is_some() {
            return;
        }
        let printed = match self.how.json {
            true => writeln!(self.out, "{}", serde_json::to_string(line).unwrap_or_default()),
            false => writeln!(self.out, "{line}"),
        };
        let left = if self.how.live { printed.and_then(|()| self.out.flush()) } else { printed };
        self.unwritten = left.err();
        if self.unwritten.is_some() {
            source::end();
        }
    }

    /// Writes a frame for Wireshark, if that is wanted.
    pub(super) fn write(&mut self, seconds: f64, frame: &[u8]) {
        if let (Some(plain), None) = (&mut self.plain, &self.unwritten) {
            self.unwritten = plain.frame((seconds * 1e9).round() as u64, &[frame]).err();
            if self.unwritten.is_some() {
                source::end();
            }
        }
    }

    /// Prints the summary. A nonce that was used twice is exit status 1.
    pub(super) fn end(mut self, summary: &(impl Serialize + Display), reused: u64) -> Done {
        if let Some(plain) = &mut self.plain {
            self.unwritten = self.unwritten.or(plain.flush().err());
        }
        if let Some(error) = self.unwritten.or(self.out.flush().err()) {
            return output::unwritten(&error);
        }
        drop(self.out);
        if self.how.stats {
            let table = self.stats.table();
            output::print(&match self.how.json {
                true => format!("{}\n", serde_json::to_string(&table).unwrap_or_default()),
                false => table.to_string(),
            })?;
        }
        if self.how.json {
            output::print(&format!("{}\n", serde_json::to_string(summary).unwrap_or_default()))?;
        } else {
            output::print(&summary.to_string())?;
        }
        if reused > 0 { Err(Failure::State(1)) } else { Ok(()) }
    }
}

//! `--max-age` of a subscriber: refused and unjudged events, with warnings.

use std::fmt::Display;
use std::time::Duration;

use antedate_channel::goose::{AgeBound, Ages, Untimely};
use antedate_host::clock::Moment;
use antedate_wire::goose::Message;

use crate::output;

/// The pause between two warnings of one cause, and the time after which it is over.
const QUIET: Duration = Duration::from_secs(60);

/// Judges messages by their age.
pub(super) struct Timely {
    bound: AgeBound,
    refused: Cause,
    unjudged: Cause,
}

/// A cause of warnings.
#[derive(Default)]
pub(super) struct Cause {
    said: Option<Moment>,
    last: Option<Moment>,
}

impl Cause {
    /// Notes an occurrence, and warns unless it did so a short time ago.
    pub(super) fn warn(&mut self, text: impl Display) {
        self.last = Some(Moment::now());
        if self.said.is_none_or(|said| said.elapsed() >= QUIET) {
            self.said = self.last;
            output::tell(format_args!("WARN {text}"));
        }
    }

    /// Reports the end of a cause that has not occurred for a while.
    pub(super) fn look(&mut self, text: impl Display) {
        if self.last.is_some_and(|last| last.elapsed() >= QUIET) {
            *self = Self::default();
            output::tell(format_args!("INFO {text}"));
        }
    }
}

impl Timely {
    pub(super) fn new(milliseconds: u32) -> Self {
        Self { bound: AgeBound::new(milliseconds), refused: Cause::default(), unjudged: Cause::default() }
    }

    /// Whether a message may be delivered.
    pub(super) fn passes(&mut self, message: &Message<'_>, now: [u8; 8]) -> bool {
        let before = self.bound.ages().unsynchronized;
        let judged = self.bound.check(message, now);
        let Ages { old, ahead, unsynchronized } = *self.bound.ages();
        match judged {
            Err(Untimely::Old) => self.refused.warn(format_args!(
                "{old} messages of events older than --max-age are refused: held back on the way, or a clock is wrong; look at the \
                 clocks of both ends, and at the path"
            )),
            Err(Untimely::Ahead) => self.refused.warn(format_args!(
                "{ahead} messages of events in the future are refused: a clock is wrong; synchronise the clocks of both ends"
            )),
            Ok(()) => self.refused.look("the ages of events are within --max-age"),
        }
        if unsynchronized > before {
            self.unjudged.warn(format_args!(
                "{unsynchronized} events pass whatever their age: the publisher's clock is not synchronised; synchronise it"
            ));
        } else {
            self.unjudged.look("the publisher's clock is synchronised");
        }
        judged.is_ok()
    }

    pub(super) const fn ages(&self) -> &Ages {
        self.bound.ages()
    }
}

//! An event loop whose turns outlive their callers.
//!
//! A caller that stops waiting drops its future. The library's turn may have taken a packet by then
//! that is not yet written, so the turn itself is kept, and the next caller waits for its end.

use std::future::{Future, pending};
use std::pin::Pin;

type Turn<E, R> = Pin<Box<dyn Future<Output = (Box<E>, R)> + Send>>;

enum State<E, R> {
    Idle(Box<E>),
    Busy(Turn<E, R>),
    /// Only while a turn begins.
    Moved,
}

/// An event loop `E` with turns that result in `R`.
pub(crate) struct Kept<E, R>(State<E, R>);

impl<E, R> Kept<E, R> {
    pub(crate) fn new(events: E) -> Self {
        Self(State::Idle(Box::new(events)))
    }

    /// The event loop between two turns.
    pub(crate) fn idle(&mut self) -> Option<&mut E> {
        match &mut self.0 {
            State::Idle(events) => Some(events),
            _ => None,
        }
    }

    /// Waits for the end of the turn that runs, or of one that `begin` begins.
    pub(crate) async fn turn<F>(&mut self, begin: impl FnOnce(Box<E>) -> F) -> R
    where
        F: Future<Output = (Box<E>, R)> + Send + 'static,
    {
        self.0 = match std::mem::replace(&mut self.0, State::Moved) {
            State::Idle(events) => State::Busy(Box::pin(begin(events))),
            busy => busy,
        };
        let State::Busy(turn) = &mut self.0 else { return pending().await };
        let (events, result) = turn.await;
        self.0 = State::Idle(events);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn turn_goes_on_after_its_caller() {
        let mut kept: Kept<u32, &str> = Kept::new(0);
        let mut context = Context::from_waker(Waker::noop());
        let step = |mut events: Box<u32>| async move {
            *events += 1;
            let mut first = true;
            std::future::poll_fn(|_| match std::mem::take(&mut first) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            })
            .await;
            *events += 10;
            (events, "done")
        };
        assert!(pin!(kept.turn(step)).poll(&mut context).is_pending());
        assert!(kept.idle().is_none(), "the turn is kept");
        let other = |_| async { panic!("no second turn begins") };
        assert_eq!(pin!(kept.turn(other)).poll(&mut context), Poll::Ready("done"));
        assert_eq!(kept.idle(), Some(&mut 11));
    }
}

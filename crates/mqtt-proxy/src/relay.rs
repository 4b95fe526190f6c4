//! The octets of one connection, between an application and the broker.
//!
//! One task serves both directions. It reads from a side while what it wrote for the other one is
//! not too much, and it always writes, so neither direction can block the other.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Sleep;

use crate::packet::{self, MalformedError};
use crate::session::{End, Passed, Session};
use crate::shared::Shared;

/// Octets that wait for a side before the other one is read no more.
const WAITING_MAX: usize = 1 << 18;
/// The octets of a read.
const READ: usize = 1 << 14;
/// The memory of a buffer that stays.
const KEPT: usize = 1 << 16;
/// Time for the key of a message to come.
const KEY_PATIENCE: Duration = Duration::from_secs(5);

/// A connection of either side.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// The octets of one side.
pub(crate) struct Side {
    io: Box<dyn Stream>,
    /// Octets that came, from the first that is not processed.
    pub(crate) input: BytesMut,
    output: BytesMut,
    /// It sends no more.
    pub(crate) ended: bool,
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A side closed it.
    Closed,
    /// The will is of an ended epoch.
    StaleWill,
    /// The application broke the protocol, or a key is missing.
    Client(End),
    /// The broker broke the protocol.
    Broker(End),
}

impl Side {
    pub(crate) fn new(io: Box<dyn Stream>, input: BytesMut) -> Self {
        Self { io, input, output: BytesMut::new(), ended: false }
    }

    /// Reads what is there, up to a read. Returns whether something came.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.input.is_empty() && self.input.capacity() > KEPT {
            self.input = BytesMut::new();
        }
        self.input.reserve(READ);
        match pin!(self.io.read_buf(&mut self.input)).poll(cx) {
            Poll::Ready(Ok(0)) => {
                self.ended = true;
                Ok(true)
            }
            Poll::Ready(Ok(_)) => Ok(true),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(false),
        }
    }

    /// Writes what is to be written. Returns whether something went.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut went = false;
        while !self.output.is_empty() {
            match Pin::new(&mut self.io).poll_write(cx, &self.output) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => self.output.advance(count),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
            went = true;
        }
        if went {
            if self.output.is_empty() && self.output.capacity() > KEPT {
                self.output = BytesMut::new();
            }
            if let Poll::Ready(Err(error)) = Pin::new(&mut self.io).poll_flush(cx) {
                return Err(error);
            }
        }
        Ok(went)
    }

    /// Takes the next whole packet.
    fn packet(&mut self) -> Result<Option<BytesMut>, MalformedError> {
        Ok(packet::whole(&self.input)?.map(|length| self.input.split_to(length)))
    }

    /// Reads the first packet, of at most so many octets.
    pub(crate) async fn first(&mut self, most: usize) -> io::Result<BytesMut> {
        loop {
            match self.packet() {
                Ok(Some(packet)) => return Ok(packet),
                Ok(None) if self.input.len() < most => {}
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
            self.input.reserve(READ);
            if self.io.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Writes octets, in a last effort.
    pub(crate) async fn last(&mut self, octets: &[u8]) {
        self.output.extend_from_slice(octets);
        let write = poll_fn(|cx| match self.poll_write(cx) {
            Ok(_) if !self.output.is_empty() => Poll::Pending,
            _ => Poll::Ready(()),
        });
        // A side that takes nothing gets nothing.
        let _ = tokio::time::timeout(Duration::from_secs(1), write).await;
    }
}

/// A connection between its two sides.
pub(crate) struct Relay {
    shared: Rc<Shared>,
    pub(crate) session: Session,
    pub(crate) client: Side,
    pub(crate) broker: Side,
    /// A message of the broker whose key has not come, and the end of the patience.
    held: Option<(BytesMut, Pin<Box<Sleep>>)>,
}

impl Relay {
    /// A connection whose CONNECT was taken. `connect` is the broker's.
    pub(crate) fn new(
        shared: Rc<Shared>,
        session: Session,
        client: Side,
        mut broker: Side,
        connect: &[u8],
    ) -> Self {
        broker.output.extend_from_slice(connect);
        Self { shared, session, client, broker, held: None }
    }

    /// Passes packets until the end.
    pub(crate) async fn run(&mut self) -> Ended {
        let mut rotations = self.shared.rotations();
        loop {
            let ended = {
                let mut rotated = pin!(rotations.changed());
                poll_fn(|cx| {
                    if rotated.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(None);
                    }
                    self.poll(cx).map(Some)
                })
                .await
            };
            match ended {
                Some(ended) => return ended,
                None if self.shared.fault.borrow().is_some() => return Ended::Closed,
                None if self.session.has_will() => return Ended::StaleWill,
                None => {
                    if let Err(ended) = self.retry(false) {
                        return ended;
                    }
                }
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let mut worked = false;
        loop {
            match self.turn(cx) {
                Ok(true) => worked = true,
                Ok(false) => break,
                Err(ended) => return Poll::Ready(ended),
            }
        }
        if worked {
            // All is sent, and nothing has come.
            self.shared.guard.borrow_mut().idle();
        }
        Poll::Pending
    }

    /// Does what can be done without waiting. Returns whether that was something.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let closed = |_| Ended::Closed;
        let mut worked = self.client.poll_write(cx).map_err(closed)?;
        worked |= self.broker.poll_write(cx).map_err(closed)?;
        if self.broker.output.len() < WAITING_MAX && self.client.output.len() < WAITING_MAX {
            worked |= self.client.poll_read(cx).map_err(closed)?;
            while let Some(packet) = self.client.packet().map_err(|error| Ended::Client(error.into()))? {
                let (to_broker, to_client) = (&mut self.broker.output, &mut self.client.output);
                self.session
                    .take_from_client(&self.shared, packet, to_broker, to_client)
                    .map_err(Ended::Client)?;
            }
        }
        if let Some((_, sleep)) = &mut self.held {
            if sleep.as_mut().poll(cx).is_ready() {
                self.retry(true)?;
                worked = true;
            }
        } else if self.client.output.len() < WAITING_MAX && self.broker.output.len() < WAITING_MAX {
            worked |= self.broker.poll_read(cx).map_err(closed)?;
            self.take_all(false)?;
        }
        // What came before the end has been passed on.
        if (self.client.ended || self.broker.ended) && self.held.is_none() {
            let _ = self.broker.poll_write(cx);
            let _ = self.client.poll_write(cx);
            return Err(Ended::Closed);
        }
        Ok(worked)
    }

    /// Takes the packets of the broker that are there.
    fn take_all(&mut self, mut last: bool) -> Result<(), Ended> {
        let broken = |error: MalformedError| Ended::Broker(error.into());
        while self.held.is_none()
            && let Some(packet) = self.broker.packet().map_err(broken)?
        {
            self.take(packet, std::mem::take(&mut last))?;
        }
        Ok(())
    }

    fn take(&mut self, packet: BytesMut, last: bool) -> Result<(), Ended> {
        let again = packet.clone();
        let (to_broker, to_client) = (&mut self.broker.output, &mut self.client.output);
        let passed = self
            .session
            .take_from_broker(&self.shared, packet, last, to_broker, to_client)
            .map_err(|end| match end {
                End::Fault(_) => Ended::Client(end),
                end => Ended::Broker(end),
            })?;
        if passed == Passed::Held {
            self.held = Some((again, Box::pin(tokio::time::sleep(KEY_PATIENCE))));
        }
        Ok(())
    }

    /// Tries the held message again, and those behind it.
    fn retry(&mut self, last: bool) -> Result<(), Ended> {
        let Some((packet, _)) = self.held.take() else { return Ok(()) };
        self.take(packet, last)?;
        self.take_all(false)
    }
}

/// Watches for the end of all connections.
pub(crate) async fn stopped(shared: &Shared) {
    let mut rotations: watch::Receiver<u64> = shared.rotations();
    while shared.fault.borrow().is_none() {
        if rotations.changed().await.is_err() {
            return;
        }
    }
}

//! A session: the two keys of one handshake, and the packets sealed and opened with them (WireGuard
//! paper, section 5.4.6).

use alloc::boxed::Box;

use antedate_aead::{ChaCha20Poly1305, Key, Nonce, NonceSequence, OpenPool, SealPool};
use antedate_wire::wireguard::{PADDING, TAG_LEN, TRANSPORT_HEADER_LEN, padded_len, transport_header};

use super::noise::Secret;
use crate::lengths::Lengths;
use crate::replay::ReplayWindow;
use crate::sequence::ExhaustedError;

/// The most prepared packets in each direction of a session.
pub const SLOTS: usize = 16;
/// Octets prepared for each packet: a full fieldbus frame with its tunnel headers.
pub const PREPARED_LEN: usize = 1664;

/// Words of 64 counters in the replay window: 8,192 counters, as in the Linux kernel.
const WINDOW: usize = 128;

/// A session is renewed after this many messages.
pub(super) const REKEY_AFTER_MESSAGES: u64 = 1 << 60;
/// A session is not used after this many messages.
const REJECT_AFTER_MESSAGES: u64 = u64::MAX - (1 << 13);

/// The nonce of a counter: four zeros and the counter, little-endian.
pub(super) fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}

/// The counters of a session's sending side.
struct Counters {
    next: u64,
    end: u64,
}

impl NonceSequence for Counters {
    type Error = ExhaustedError;

    fn next(&mut self) -> Result<(u64, Nonce), ExhaustedError> {
        let number = self.next;
        if number >= self.end {
            return Err(ExhaustedError);
        }
        self.next = number + 1;
        Ok((number, Nonce::assume_unique(nonce(number))))
    }
}

type Rule = fn(u64) -> [u8; 12];

/// The reason for refusing a transport message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenError {
    /// Its counter was received before, or is too old.
    Replayed,
    /// Its counter is beyond the end.
    Counter,
    /// Its tag is wrong.
    Forged,
}

/// The keys of one handshake.
pub(super) struct Session {
    /// Our index of the session.
    pub(super) local: u32,
    /// The peer's index of the session.
    pub(super) remote: u32,
    /// The end of its handshake, set when it is taken over.
    pub(super) born: u64,
    /// Whether we initiated the handshake. The initiator renews it.
    pub(super) initiator: bool,
    seal: Box<SealPool<ChaCha20Poly1305, Counters, SLOTS, PREPARED_LEN>>,
    open: Box<OpenPool<ChaCha20Poly1305, Rule, SLOTS, PREPARED_LEN>>,
    /// The lengths of packets in each direction.
    sending: Lengths,
    receiving: Lengths,
    window: ReplayWindow<WINDOW>,
    /// Messages sent.
    pub(super) sent: u64,
}

impl Session {
    pub(super) fn new(
        [send, receive]: [Secret; 2],
        local: u32,
        remote: u32,
        initiator: bool,
    ) -> Option<Self> {
        let key = |secret: &Secret| Key::<ChaCha20Poly1305>::new(&secret[..]).ok();
        let counters = Counters { next: 0, end: REJECT_AFTER_MESSAGES };
        Some(Self {
            local,
            remote,
            born: 0,
            initiator,
            seal: Box::new(SealPool::new(key(&send)?, counters)),
            open: Box::new(OpenPool::new(key(&receive)?, nonce as Rule)),
            sending: Lengths::new(PREPARED_LEN),
            receiving: Lengths::new(PREPARED_LEN),
            window: ReplayWindow::new(0, ReplayWindow::<WINDOW>::WIDEST),
            sent: 0,
        })
    }

    /// Seals the packet of `len` octets in `datagram` after space for a transport header, and
    /// returns the length of the message. `None` if the buffer is too short, or the session is worn
    /// out.
    #[inline]
    pub(super) fn seal(&mut self, datagram: &mut [u8], len: usize) -> Option<usize> {
        let padded = padded_len(len);
        let end = TRANSPORT_HEADER_LEN + padded;
        let message = datagram.get_mut(..end + TAG_LEN)?;
        let prepared = self.seal.next().ok()?;
        let header = transport_header(self.remote, prepared.number());
        message[..TRANSPORT_HEADER_LEN].copy_from_slice(&header);
        message[TRANSPORT_HEADER_LEN + len..end].fill(0);
        let (text, tag) = message[TRANSPORT_HEADER_LEN..].split_at_mut(padded);
        tag.copy_from_slice(prepared.seal_in_place(&[], text).as_bytes());
        self.sent += 1;
        if let Some(reach) = self.sending.saw(padded) {
            self.seal.set_reach(reach);
        }
        Some(end + TAG_LEN)
    }

    /// Opens a transport message in place. The packet, with padding, replaces the octets between
    /// header and tag.
    #[inline]
    pub(super) fn open(
        &mut self,
        counter: u64,
        packet: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), OpenError> {
        if counter >= REJECT_AFTER_MESSAGES {
            return Err(OpenError::Counter);
        }
        self.window.check(counter).map_err(|_| OpenError::Replayed)?;
        self.open.open_in_place(counter, &[], packet, tag).map_err(|_| OpenError::Forged)?;
        let ahead = counter >= self.window.next();
        self.window.mark(counter);
        if ahead {
            self.open.expect_from(self.window.next());
        }
        if let Some(reach) = self.receiving.saw(packet.len()) {
            self.open.set_reach(reach);
        }
        Ok(())
    }

    /// Whether the number of sent messages calls for renewal.
    pub(super) const fn is_worn(&self) -> bool {
        self.sent >= REKEY_AFTER_MESSAGES
    }

    /// Does at most `budget` preparation steps. Returns the number done.
    #[inline]
    pub(super) fn idle(&mut self, budget: u32) -> u32 {
        match self.seal.idle(budget) {
            0 => self.open.idle(budget),
            done => done,
        }
    }

    /// Sets the length of packets to prepare for.
    pub(super) fn set_reach(&mut self, octets: usize) {
        let most = octets.min(PREPARED_LEN);
        (self.sending, self.receiving) = (Lengths::new(most), Lengths::new(most));
        self.seal.set_reach(octets);
        self.open.set_reach(octets);
    }

    /// Packets prepared for sending.
    pub(super) const fn prepared(&self) -> usize {
        self.seal.prepared()
    }
}

const _: () = assert!(PREPARED_LEN.is_multiple_of(PADDING));

#[cfg(test)]
mod tests {
    use super::*;

    /// The two ends of a session, the first of which has sent all below `next`.
    fn pair(next: u64) -> [Session; 2] {
        let [a, b] = [[1; 32], [2; 32]].map(Secret::from);
        let mut ends = [
            Session::new([a.clone(), b.clone()], 1, 2, true).unwrap(),
            Session::new([b, a], 2, 1, false).unwrap(),
        ];
        ends[0].seal.sequence_mut().next = next;
        ends
    }

    /// A message's counter, packet and tag.
    fn sealed(from: &mut Session) -> Option<(u64, [u8; 16], [u8; TAG_LEN])> {
        let mut datagram = [7; 48];
        assert_eq!(from.seal(&mut datagram, 9)?, 48);
        let (header, rest) = datagram.split_first_chunk::<TRANSPORT_HEADER_LEN>().unwrap();
        let (packet, tag) = rest.split_first_chunk::<16>().unwrap();
        let counter = u64::from_le_bytes(*header.last_chunk().unwrap());
        assert_eq!(header[..8], [4, 0, 0, 0, 2, 0, 0, 0], "the peer's index");
        Some((counter, *packet, tag.try_into().unwrap()))
    }

    #[test]
    fn counters_end_on_both_sides() {
        let [mut a, mut b] = pair(REJECT_AFTER_MESSAGES - 2);
        for counter in [REJECT_AFTER_MESSAGES - 2, REJECT_AFTER_MESSAGES - 1] {
            let (number, mut packet, tag) = sealed(&mut a).unwrap();
            assert_eq!((number, b.open(number, &mut packet, &tag)), (counter, Ok(())));
            assert_eq!(packet, [7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!((sealed(&mut a), a.sent), (None, 2));
        // A peer that goes on is not heard.
        let [mut a, mut b] = pair(REJECT_AFTER_MESSAGES);
        a.seal.sequence_mut().end = u64::MAX;
        for _ in 0..2 {
            let (number, mut packet, tag) = sealed(&mut a).unwrap();
            assert_eq!(b.open(number, &mut packet, &tag), Err(OpenError::Counter), "{number:#x}");
        }
    }

    #[test]
    fn session_wears_out() {
        let [mut a, _] = pair(0);
        for (sent, worn) in [(0, false), (REKEY_AFTER_MESSAGES - 1, false), (REKEY_AFTER_MESSAGES, true)] {
            a.sent = sent;
            assert_eq!(a.is_worn(), worn, "{sent:#x}");
        }
    }

    #[test]
    fn refused_message_leaves_the_window() {
        let [mut a, mut b] = pair(5);
        let (number, packet, tag) = sealed(&mut a).unwrap();
        let mut forged = tag;
        forged[15] ^= 1;
        assert_eq!(b.open(number, &mut packet.clone(), &forged), Err(OpenError::Forged));
        assert_eq!(b.open(number, &mut packet.clone(), &tag), Ok(()));
        assert_eq!(b.open(number, &mut packet.clone(), &tag), Err(OpenError::Replayed));
    }

    #[test]
    fn short_buffer_spends_no_counter() {
        let [mut a, _] = pair(0);
        assert_eq!(a.seal(&mut [0; 47], 9), None);
        assert_eq!(a.seal(&mut [0; 47], 16), None);
        assert_eq!((sealed(&mut a).map(|(number, ..)| number), a.sent), (Some(0), 1));
    }

    #[test]
    fn reach_bounds_the_preparation() {
        let steps = |reach: Option<usize>| {
            let [mut session, _] = pair(0);
            if let Some(octets) = reach {
                session.set_reach(octets);
            }
            core::iter::from_fn(|| Some(session.idle(u32::MAX)).filter(|done| *done > 0)).sum::<u32>()
        };
        assert!(steps(Some(64)) < steps(None));
    }

    #[test]
    fn next_counter_is_prepared_both_ways() {
        let [mut a, mut b] = pair(0);
        for session in [&mut a, &mut b] {
            session.set_reach(64);
            assert!(session.idle(u32::MAX) > 0);
            while session.idle(u32::MAX) > 0 {}
        }
        let all: [_; 3] = core::array::from_fn(|_| sealed(&mut a).unwrap());
        assert!(a.idle(u32::MAX) > 0 && a.prepared() > 0);
        // A counter ahead of all moves the expectation, an older one does not.
        for (place, moves) in [(0, true), (2, true), (1, false)] {
            let (number, mut packet, tag) = all[place];
            assert_eq!(b.open(number, &mut packet, &tag), Ok(()));
            let mut done = 0;
            loop {
                match b.idle(u32::MAX) {
                    0 => break,
                    more => done += more,
                }
            }
            assert_eq!(done > 0, moves, "{place}");
        }
    }
}

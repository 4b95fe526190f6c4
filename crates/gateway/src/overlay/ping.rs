//! Echoes for the operator (`antedate gateway ping`): one packet in the tunnel to one peer, on one
//! uplink, and its answer. Neither is ever fragmented, so they measure the path.
//!
//! An Antedate end gets a probe, and answers with the wanted length by the uplink of the probe. A
//! stock end gets an echo request to its address in the tunnel, and its answer says nothing about
//! the way back: its IP stack may fragment it. An echo without a session begins one and waits.

use std::net::SocketAddr;

use antedate_channel::overlay::discovery::STEP;
use antedate_channel::overlay::echo;
use antedate_channel::overlay::encapsulation::HEADER_LEN;
use antedate_channel::overlay::message::{Number, SIZED_PROBE_LEN};

use super::ask::{Answer, Ask, Unanswered};
use super::discover::{PINGED, SECOND};
use super::search::fitting;
use super::state::{Core, Crypt};
use crate::config::uplink::Which;
use crate::sys::thread;

/// The path in the number of a probe that belongs to no search.
pub(super) const PING: u8 = 0x80;
/// The wait for the answer to a request that was sent, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;
/// The wait for a session, in nanoseconds.
const FOR_SESSION: u64 = 10_000_000_000;
/// The most requests that wait.
const MOST: usize = 32;

/// The echoes that wait for a session or an answer.
#[derive(Debug, Default)]
pub(super) struct Pings {
    next: u32,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ask: Ask,
    number: u32,
    since: u64,
    sent: Option<u64>,
    longest: usize,
}

impl Pings {
    fn add(&mut self, now: u64, ask: Ask, longest: usize) {
        self.next = self.next.wrapping_add(1);
        if self.waiting.len() >= MOST {
            self.waiting.remove(0);
        }
        let number = self.next & !(SECOND | PINGED);
        self.waiting.push(Waiting { ask, number, since: now, sent: None, longest });
    }

    /// Follows the peers to their new places. Those of a peer that is gone get no answer.
    pub(super) fn replace_peers(&mut self, place: impl Fn(usize) -> Option<usize>) {
        self.waiting.retain_mut(|one| {
            let now = place(one.ask.peer);
            if now.is_none() {
                let _ = one.ask.result.send(Err(Unanswered::Lost));
            }
            one.ask.peer = now.unwrap_or_default();
            now.is_some()
        });
    }

    /// Gives up those that waited long enough.
    fn give_up(&mut self, now: u64) {
        self.waiting.retain(|one| {
            let waits = match one.sent {
                Some(sent) => now < sent + PATIENCE,
                None => now < one.since + FOR_SESSION,
            };
            if !waits {
                // The requester may be gone.
                let _ = one.ask.result.send(Err(Unanswered::Lost));
            }
            waits
        });
    }

    /// Handles an answer of a peer: a packet of `len` octets, or of a stock end.
    #[cold]
    pub(super) fn answered(&mut self, now: u64, peer: usize, number: u32, len: Option<usize>) {
        let is = |one: &Waiting| one.ask.peer == peer && one.number == number && one.sent.is_some();
        let Some(at) = self.waiting.iter().position(is) else { return };
        let Waiting { ask, sent, longest, .. } = self.waiting.swap_remove(at);
        // WireGuard's padding is no part of the frame.
        let back = len.map(|len| len.saturating_sub(HEADER_LEN).min(ask.wanted));
        let took = now.saturating_sub(sent.unwrap_or(now));
        let _ = ask.result.send(Ok(Answer { took, back, longest }));
    }
}

impl Core {
    /// Sends an echo, at once or as soon as there is a session.
    #[cold]
    pub(super) fn ping(&mut self, now: u64, ask: Ask) {
        let longest = match self.way(ask.peer, ask.which) {
            Ok((_, longest)) if ask.octets <= longest => longest,
            Ok((_, longest)) => {
                let _ = ask.result.send(Err(Unanswered::TooLong(longest)));
                return;
            }
            Err(why) => {
                let _ = ask.result.send(Err(why));
                return;
            }
        };
        self.pings.add(now, ask, longest);
        self.send_pings(now);
        self.look = 0;
    }

    /// Sends the echoes that waited for a session.
    pub(super) fn send_pings(&mut self, now: u64) {
        self.pings.give_up(now);
        for at in 0..self.pings.waiting.len() {
            let Waiting { ref ask, number, sent: None, .. } = self.pings.waiting[at] else { continue };
            let (place, which, octets, wanted) = (ask.peer, ask.which, ask.octets, ask.wanted);
            let Crypt::Wireguard(device) = &mut self.crypt else { return };
            let Some(peer) = self.peers.get(place) else { continue };
            if !device.is_ready(now, peer.id) {
                device.want_handshake(now, peer.id);
                continue;
            }
            // It is asked first whether it answers probes.
            let Ok((to, _)) = self.way(place, which) else { continue };
            if peer.is_being_asked() {
                continue;
            }
            let (asks_ours, ends) = (peer.answers_probes(), (self.overlay.address, peer.settings.address));
            let sent = thread::now();
            let left = self.send_whole(now, place, (which, to), HEADER_LEN + octets, |packet| {
                if asks_ours {
                    let wanted = (HEADER_LEN + wanted).min(usize::from(u16::MAX)) as u16;
                    fill(packet, Number { path: PING, number }.sized_probe(wanted));
                } else {
                    let path = if which == Which::Second { SECOND } else { 0 };
                    echo::request(packet, ends.0, ends.1, number | PINGED | path);
                }
            });
            if left {
                self.pings.waiting[at].sent = Some(sent);
            }
        }
    }

    /// Answers an echo of another gateway with a packet of `wanted` octets, on the uplink on which
    /// it came. A longer one than the uplink carries is not answered.
    #[cold]
    pub(super) fn answer_ping(&mut self, now: u64, place: usize, by: Which, number: Number, wanted: usize) {
        let Ok((to, longest)) = self.way(place, by) else { return };
        let wanted = wanted.max(SIZED_PROBE_LEN);
        let may = self
            .peers
            .get_mut(place)
            .is_some_and(|peer| peer.answers.as_ref().is_none_or(|bound| bound.passes(now, 1)));
        if may && wanted <= HEADER_LEN + longest {
            self.send_whole(now, place, (by, to), wanted, |packet| fill(packet, number.answer()));
        }
    }

    /// The address of a peer on an uplink, and the octets of the longest frame that the uplink
    /// carries in one datagram to it.
    fn way(&self, place: usize, which: Which) -> Result<(SocketAddr, usize), Unanswered> {
        let Crypt::Wireguard(device) = &self.crypt else { return Err(Unanswered::NoEndpoint) };
        let peer = self.peers.get(place).ok_or(Unanswered::NoEndpoint)?;
        let to = match which {
            Which::First => device.endpoint(peer.id),
            Which::Second => peer.settings.second_endpoint,
        };
        let (to, mtu) = to.zip(self.mtus[which as usize]).ok_or(Unanswered::NoEndpoint)?;
        let packet = fitting(mtu, to.ip()) / STEP * STEP;
        Ok((to, packet.saturating_sub(HEADER_LEN)))
    }
}

/// Writes the head of a packet, and zeros behind it.
fn fill<const LEN: usize>(packet: &mut [u8], head: [u8; LEN]) {
    packet.fill(0);
    packet.iter_mut().zip(head).for_each(|(to, from)| *to = from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{self, Receiver};

    fn asked(pings: &mut Pings, now: u64, peer: usize) -> Receiver<Result<Answer, Unanswered>> {
        let (result, receiver) = mpsc::channel();
        pings.add(now, Ask { peer, which: Which::First, octets: 60, wanted: 100, result }, 1404);
        receiver
    }

    #[test]
    fn only_the_asked_peer_answers() {
        let mut pings = Pings::default();
        let came = asked(&mut pings, 0, 1);
        pings.answered(5, 1, 1, Some(136));
        assert!(came.try_recv().is_err(), "it was not sent yet");
        pings.waiting[0].sent = Some(10);
        pings.answered(20, 0, 1, Some(136));
        pings.answered(20, 1, 2, Some(136));
        assert!(came.try_recv().is_err());
        pings.answered(30, 1, 1, Some(144));
        let answer = Answer { took: 20, back: Some(100), longest: 1404 };
        assert_eq!(came.try_recv(), Ok(Ok(answer)), "without padding");
        pings.answered(40, 1, 1, Some(144));
        assert!(came.try_recv().is_err() && pings.waiting.is_empty());
    }

    #[test]
    fn short_answers_are_told() {
        let mut pings = Pings::default();
        for (len, back) in [(Some(16), Some(0)), (None, None)] {
            let came = asked(&mut pings, 0, 0);
            pings.waiting[0].sent = Some(0);
            pings.answered(1, 0, pings.next, len);
            assert_eq!(came.try_recv().map(|answer| answer.map(|answer| answer.back)), Ok(Ok(back)));
        }
    }

    #[test]
    fn waiting_echoes_are_bounded() {
        let mut pings = Pings::default();
        let all: Vec<_> = (0..2 * MOST).map(|peer| asked(&mut pings, 0, peer)).collect();
        assert_eq!(pings.waiting.len(), MOST);
        pings.waiting[0].sent = Some(0);
        pings.give_up(PATIENCE);
        assert_eq!(pings.waiting.len(), MOST - 1);
        assert_eq!(all[MOST].try_recv(), Ok(Err(Unanswered::Lost)));
        pings.give_up(FOR_SESSION);
        assert!(pings.waiting.is_empty());
    }
}

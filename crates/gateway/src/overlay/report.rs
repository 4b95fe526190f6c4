//! The status of an overlay.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antedate_wire::echo::ECHO_LEN;

use super::ask::{Answer, Ask, Unanswered};
use super::message::Message;
use super::snapshot::Snapshot;
use crate::config::overlay::{Overlay, Peer};
use crate::config::uplink::Which;
use crate::frames::gate::{Gate, Way};
use crate::run::control::{Command, CommandError, Echo, Ping, StatusSource};
use crate::run::flows::report::document;
use crate::run::lock;
use crate::run::loss::port::View;
use crate::run::mailbox::Mailbox;
use crate::run::reload::Door;
use crate::run::report::{ANSWER_TIMEOUT, About, Carries, Place, Shares, forwarding, port};
use crate::run::status::{OverlayPeer, Status};
use crate::run::tally::Tally;
use crate::run::watch::Watch;

/// The longest wait for an echo, which may need a session first.
const ECHO_PATIENCE: Duration = Duration::from_secs(3);

/// Answers requests of the control socket.
pub(super) struct Answers {
    pub(super) about: About,
    /// `[overlay]`, with the peers in the order of the forwarding thread.
    pub(super) overlay: Mutex<Arc<Overlay>>,
    /// The policy with the counters of its rules, for each worker.
    pub(super) gates: Mutex<Vec<Arc<Gate>>>,
    /// The way to have the configuration read again.
    pub(super) door: Door,
    /// The mailbox of each worker.
    pub(super) mailboxes: Vec<Arc<Mailbox<Message>>>,
    /// The worker of each peer.
    pub(super) owners: Mutex<Vec<u8>>,
    pub(super) tally: Tally,
    pub(super) places: Vec<Arc<Mutex<Place>>>,
    /// Names, addresses and MTUs of the ports: field, uplink.
    pub(super) ports: Mutex<[Carries; 2]>,
    /// The present name of the second uplink, if any.
    pub(super) second: Mutex<String>,
    /// For field, uplink and second uplink: whether the link is up, and how often it went down.
    pub(super) links: Mutex<[(bool, u64); 3]>,
    pub(super) shares: Shares,
    /// The conditions that need the operator.
    pub(super) watch: Arc<Watch>,
    /// Link loss forwarding.
    pub(super) link_loss: Arc<View>,
}

impl Answers {
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let ask = |mailbox: &Arc<Mailbox<Message>>| {
            let (answer, receiver) = mpsc::channel();
            mailbox.post(Message::Snapshot(answer));
            receiver
        };
        let asked: Vec<_> = self.mailboxes.iter().map(ask).collect();
        let mut all = asked.into_iter().map(|receiver| receiver.recv_timeout(ANSWER_TIMEOUT).ok());
        let mut first = all.next()??;
        for other in all {
            first.add(other?);
        }
        Some(first)
    }

    /// The mailbox of the worker with this peer.
    fn mailbox_of(&self, peer: usize) -> Option<&Arc<Mailbox<Message>>> {
        let worker = lock(&self.owners).get(peer).copied().unwrap_or_default();
        self.mailboxes.get(usize::from(worker))
    }

    /// The index of a peer with this name, or address in the tunnel. Without one, that of the only
    /// peer.
    fn peer(peers: &[Peer], asked: &str) -> Option<usize> {
        if asked.is_empty() {
            return (peers.len() == 1).then_some(0);
        }
        peers.iter().position(|peer| peer.name == asked || peer.address.to_string() == asked)
    }

    /// The fault of a peer without an answer: all that is known of it.
    fn silence(&self, peer: usize, on: &str) -> CommandError {
        match self.snapshot().and_then(|snapshot| snapshot.document.peers.into_iter().nth(peer)) {
            Some(known) => silence(&known, on),
            None => refused("the forwarding thread does not answer", "see the log"),
        }
    }
}

fn refused(what: impl Into<String>, remedy: &str) -> CommandError {
    CommandError { what: what.into(), remedy: remedy.into() }
}

/// The fault of this peer without an answer. `on`: the uplink, if it is not the first.
fn silence(peer: &OverlayPeer, on: &str) -> CommandError {
    let OverlayPeer { name, address, .. } = peer;
    let ago = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("{seconds:.0} s ago"),
        None => "never".to_owned(),
    };
    let (handshake, heard) = (ago(peer.handshake_age_seconds), ago(peer.silent_seconds));
    if !peer.session {
        return refused(
            format!(
                "{name} has no session: {} handshakes were begun here; last heard {heard}",
                peer.initiations
            ),
            "see endpoint and public_key at both ends, and the firewalls on the way; the chapter \"When it does not work\"",
        );
    }
    if peer.antedate {
        return refused(
            format!("{name} does not answer within a second{on}; last heard {heard}"),
            "see `antedate gateway status` here and there, and the path between",
        );
    }
    refused(
        format!(
            "{name} did not say that it is an Antedate gateway, and its address in the tunnel, {address}, answers no \
             echo request{on}: last handshake {handshake}, last heard {heard}"
        ),
        "the session alone shows that it is reachable; let it answer pings to that address",
    )
}

impl StatusSource for Answers {
    fn status(&self) -> Status {
        let snapshot = self.snapshot();
        let waits = snapshot.as_ref().map(|snapshot| snapshot.waits.clone()).unwrap_or_default();
        let [field, uplink, second] = *lock(&self.links);
        let [field_now, uplink_now] = lock(&self.ports).clone();
        let about = &self.about;
        let gates = lock(&self.gates).clone();
        let hits = |way| Gate::total_hits(&gates, way);
        let [all_out, all_in] = self.tally.totals();
        let mut out = forwarding(&all_out, &hits(Way::Out));
        let mut inward = forwarding(&all_in, &hits(Way::In));
        (out.datagrams, inward.datagrams) = (all_out.sent.get(), all_in.received.get());
        if let Some(snapshot) = &snapshot {
            let peers = &snapshot.document.peers;
            out.forwarded_frames = peers.iter().map(|peer| peer.sent_frames).sum();
            out.forwarded_octets = peers.iter().map(|peer| peer.sent_octets).sum();
            for (direction, refused) in [&mut out, &mut inward].into_iter().zip(&snapshot.refused) {
                direction.refused.extend(refused.iter().map(|(name, count)| (name.clone(), *count)));
            }
        }
        Status {
            forwarding: snapshot.is_some(),
            warnings: self.watch.active(),
            events: self.watch.events(),
            policy: gates.first().map(|gate| gate.text().clone()).unwrap_or_default(),
            field: port(&all_out, &all_in, field, &field_now),
            uplink: port(&all_in, &all_out, uplink, &uplink_now),
            out,
            inward,
            flows: document([&all_out.flows, &all_in.flows]),
            threads: self.shares.threads(about, &waits, &self.places),
            link_loss: about.link_loss.then(|| self.link_loss.document()),
            overlay: snapshot.map(|mut snapshot| {
                if let Some(about) = &mut snapshot.document.second_uplink {
                    (about.link, about.link_downs) = second;
                    about.interface.clone_from(&lock(&self.second));
                }
                snapshot.document
            }),
            ..about.head()
        }
    }

    fn ping(&self, ping: &Ping) -> Result<Echo, CommandError> {
        let overlay = Arc::clone(&lock(&self.overlay));
        if overlay.private_key_file.is_none() {
            return Err(refused(
                "nothing is protected without WireGuard, so there is no protected echo",
                "leave out wireguard = false",
            ));
        }
        let Some(peer) = Self::peer(&overlay.peers, &ping.peer) else {
            let what = match ping.peer.as_str() {
                "" => format!("there are {} peers", overlay.peers.len()),
                name => format!("\"{name}\" is no peer"),
            };
            return Err(refused(what, "name one as in the configuration, or by its address in the tunnel"));
        };
        let name = &overlay.peers[peer].name;
        let (which, on) =
            if ping.second_uplink { (Which::Second, " on the second uplink") } else { (Which::First, "") };
        let [octets, wanted] =
            [ping.octets, ping.answer_octets].map(|octets| usize::from(octets).max(ECHO_LEN));
        let (result, came) = mpsc::channel();
        if let Some(mailbox) = self.mailbox_of(peer) {
            mailbox.post(Message::Ping(Ask { peer, which, octets, wanted, result }));
        }
        let why = match came.recv_timeout(ECHO_PATIENCE) {
            Ok(Ok(Answer { took, back, longest })) => {
                return Ok(Echo {
                    peer: name.clone(),
                    round_trip_us: took as f64 / 1e3,
                    octets: octets as u64,
                    answer_octets: back.unwrap_or_default() as u64,
                    longest: longest as u64,
                    stock: back.is_none(),
                });
            }
            Ok(Err(why)) => why,
            Err(_) => Unanswered::Lost,
        };
        Err(match why {
            Unanswered::NoEndpoint => refused(
                format!("{name} has no address{on}, and was not heard: it has to begin"),
                "give endpoint in [[overlay.peer]], or start the other gateway with keepalive_seconds",
            ),
            Unanswered::TooLong(longest) => refused(
                format!("the uplink carries frames of {longest} octets in one piece, not {octets}"),
                "ask with fewer octets",
            ),
            Unanswered::Lost => self.silence(peer, on),
        })
    }

    fn command(&self, command: Command) -> Result<String, CommandError> {
        match command {
            Command::Rekey => {
                self.mailboxes.iter().for_each(|mailbox| mailbox.post(Message::Rekey));
                Ok("new sessions are begun with all peers".into())
            }
            Command::SwitchSa { .. } => Err(CommandError {
                what: "an overlay has sessions, no associations".into(),
                remedy: "`antedate gateway rekey` makes new sessions".into(),
            }),
            Command::Reload => self.door.reload(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_tells_all_that_is_known() {
        let mut peer =
            OverlayPeer { name: "hall".into(), address: "10.66.0.2".into(), ..OverlayPeer::default() };
        peer.initiations = 3;
        let what = silence(&peer, "").what;
        assert_eq!(what, "hall has no session: 3 handshakes were begun here; last heard never");
        peer.session = true;
        (peer.handshake_age_seconds, peer.silent_seconds) = (Some(61.2), Some(4.0));
        let what = silence(&peer, "").what;
        assert!(
            what.contains("did not say that it is") && what.contains("10.66.0.2, answers no echo"),
            "{what}"
        );
        assert!(what.ends_with("last handshake 61 s ago, last heard 4 s ago"), "{what}");
        peer.antedate = true;
        let what = silence(&peer, " on the second uplink").what;
        assert_eq!(what, "hall does not answer within a second on the second uplink; last heard 4 s ago");
    }
}

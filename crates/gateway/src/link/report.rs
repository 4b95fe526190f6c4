//! The status of a MACsec gateway, from snapshots of its forwarding threads.

use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use antedate_channel::macsec::SwitchError;
use antedate_wire::echo::ECHO_LEN;
use antedate_wire::ethernet::HEADER_LEN;
use antedate_wire::macsec::An;
use antedate_wire::{EthernetAddress, Sci};

use crate::config::express::express_sci;
use crate::config::keys::channels;
use crate::frames::gate::{Gate, Way};
use crate::link::agreement;
use crate::link::daemon::{is_up, standby};
use crate::link::echo::{Ask, Desk, LONGEST};
use crate::link::message::Message;
use crate::link::snapshot::Snapshot;
use crate::run::control::{Command, CommandError, Echo, Ping, StatusSource};
use crate::run::flows::report::document;
use crate::run::lock;
use crate::run::loss::port::View;
use crate::run::mailbox::Mailbox;
use crate::run::reload::Door;
use crate::run::report::{ANSWER_TIMEOUT, About, Carries, Place, Shares, forwarding, port};
use crate::run::status::{self, Macsec, PathMtu, ReceiveSa, Status, TransmitSa};
use crate::run::tally::Tally;
use crate::run::watch::Watch;
use crate::sys::interface::Interface;

/// The longest wait for an echo.
const ECHO_PATIENCE: Duration = Duration::from_secs(1);

/// Answers requests of the control socket.
#[derive(Debug)]
pub struct Answers {
    /// The part of the status that only a reload changes.
    pub about: About,
    /// The mailboxes of the forwarding threads, in the order of [`Self::places`]: out first, in
    /// last; or those of the workers.
    pub mailboxes: Vec<Arc<Mailbox<Message>>>,
    /// How many of them send, the first ones.
    pub senders: usize,
    /// The counters of the threads.
    pub tally: Tally,
    /// CPU and priority of the threads.
    pub places: Vec<Arc<Mutex<Place>>>,
    /// The state of key agreement, if in use.
    pub agreement: Mutex<Option<agreement::View>>,
    /// The policy with the counters of its rules, for each thread that has its own.
    pub gates: Mutex<Vec<Arc<Gate>>>,
    /// The way to have the configuration read again.
    pub door: Door,
    /// Packet numbers below these are reserved.
    pub limits: Mutex<Vec<(An, u64)>>,
    /// Names, addresses and MTUs of the ports: field, uplink.
    pub ports: Mutex<[Carries; 2]>,
    /// For field and uplink: whether the link is up, and how often it went down.
    pub links: Mutex<[(bool, u64); 2]>,
    /// Recent CPU shares of the threads.
    pub shares: Shares,
    /// The conditions that need the operator.
    pub watch: Arc<Watch>,
    /// Echoes, with MACsec.
    pub desk: Option<Arc<Desk>>,
    /// Octets that protection adds to a frame.
    pub overhead: usize,
    /// The path MTU, and when it changed.
    pub path: Mutex<Option<(usize, Instant)>>,
    /// The second uplink, if any.
    pub second: Option<Mutex<Second>>,
    /// The gateways that stand by for one another.
    pub standby: Arc<standby::View>,
    /// Link loss forwarding.
    pub link_loss: Arc<View>,
}

/// The longest time in which one of two uplinks may be silent while the other brings frames. Key
/// agreement speaks each two seconds.
const SILENT: Duration = Duration::from_secs(7);

/// The second of two uplinks, and the frames of both.
#[derive(Debug)]
pub struct Second {
    /// Its present name.
    pub interface: String,
    link: bool,
    link_downs: u64,
    /// Frames of the first uplink and of the second.
    frames: [u64; 2],
    /// When they last rose.
    rose: [Instant; 2],
}

impl Second {
    /// A second uplink that starts now.
    #[must_use]
    pub fn of(port: &Interface) -> Self {
        let (frames, rose) = ([0; 2], [Instant::now(); 2]);
        Self { interface: port.name.clone(), link: is_up(port), link_downs: 0, frames, rose }
    }

    /// Notes name and link.
    pub fn follow(&mut self, port: &Interface, up: bool) {
        self.interface.clone_from(&port.name);
        self.link_downs += u64::from(self.link && !up);
        self.link = up;
    }

    /// Notes the frames of both uplinks. Returns which of them is silent while the other is not.
    pub fn note(&mut self, frames: [u64; 2], now: Instant) -> [bool; 2] {
        for (at, rose) in self.rose.iter_mut().enumerate() {
            if frames[at] != self.frames[at] {
                *rose = now;
            }
        }
        self.frames = frames;
        let [first, second] = self.rose;
        [second > first + SILENT, first > second + SILENT]
    }

    fn document(&self, [first_received, received]: [u64; 2]) -> status::MacsecUplink {
        status::MacsecUplink {
            interface: self.interface.clone(),
            link: self.link,
            link_downs: self.link_downs,
            received,
            first_received,
            mode: "both".into(),
            ..status::MacsecUplink::default()
        }
    }
}

/// The reason for not changing the association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SwitchSaError {
    /// No thread forwards frames to the uplink.
    #[error("there is no forwarding thread")]
    NoThread,
    /// The channel refused.
    #[error(transparent)]
    Refused(#[from] SwitchError),
    /// No answer, or no channel.
    #[error("this gateway has no secure channel, or its forwarding thread does not answer")]
    NoAnswer,
}

impl Answers {
    /// Collects snapshots of all forwarding threads. `None` when one does not answer.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let ask = |mailbox: &Arc<Mailbox<Message>>| -> Receiver<Snapshot> {
            let (answer, receiver) = mpsc::channel();
            mailbox.post(Message::Snapshot(answer));
            receiver
        };
        let asked: Vec<_> = self.mailboxes.iter().map(ask).collect();
        let mut whole = Snapshot::default();
        for receiver in asked {
            whole.merge(receiver.recv_timeout(ANSWER_TIMEOUT).ok()?);
        }
        Some(whole)
    }

    /// Protects with another association from the next frame on.
    ///
    /// # Errors
    /// When the channel refuses, or the forwarding thread does not answer.
    pub fn switch(&self, an: An) -> Result<(), SwitchSaError> {
        let ask = |mailbox: &Arc<Mailbox<Message>>| {
            let (answer, receiver) = mpsc::channel();
            mailbox.post(Message::Switch(an, answer));
            receiver
        };
        let asked: Vec<_> = self.mailboxes.iter().take(self.senders).map(ask).collect();
        if asked.is_empty() {
            return Err(SwitchSaError::NoThread);
        }
        for receiver in asked {
            receiver.recv_timeout(ANSWER_TIMEOUT).map_err(|_| SwitchSaError::NoAnswer)??;
        }
        Ok(())
    }

    /// Records the state of the links: field, uplink.
    pub fn link_changes(&self, up: [bool; 2]) {
        for ((known, downs), now) in lock(&self.links).iter_mut().zip(up) {
            if *known && !now {
                *downs += 1;
            }
            *known = now;
        }
    }

    /// The other members: channel, address, name or none, and whether it is known to be no Antedate.
    pub(super) fn members(&self) -> Vec<(Sci, EthernetAddress, String, bool)> {
        let view = lock(&self.agreement).clone();
        if let Some(view) = view {
            let view = lock(&view);
            let live = view.iter().flat_map(|seen| &seen.status.members).filter(|member| member.live);
            return live.map(|m| (m.sci, m.address, String::new(), !m.antedate)).collect();
        }
        let Some((_, own, members)) = &self.about.macsec else { return Vec::new() };
        let others = members
            .iter()
            .filter(|(sci, name)| *sci != own && **sci != express_sci(*own) && !channels::is_further(name));
        others.map(|(sci, name)| (*sci, sci.address(), name.clone(), false)).collect()
    }

    fn second_uplink(&self, second: &Mutex<Second>, taken: [u64; 2]) -> status::MacsecUplink {
        let first = lock(&self.ports)[1].name.clone();
        let document = lock(second).document(taken);
        let Some(pilot) = self.desk.as_ref().and_then(|desk| desk.pilot.as_ref()) else { return document };
        let seen = pilot.seen();
        status::MacsecUplink {
            mode: "waiting".into(),
            carries: if seen.second_carries { document.interface.clone() } else { first },
            switches: seen.switches,
            cause: seen.cause.map(|cause| cause.words().to_owned()).unwrap_or_default(),
            ..document
        }
    }

    fn macsec(&self, snapshot: &Snapshot) -> Option<Macsec> {
        let (suite, own, members) = self.about.macsec.as_ref()?;
        let limits = lock(&self.limits);
        let view = lock(&self.agreement).clone();
        let agreement = view.and_then(|view| lock(&view).as_ref().map(agreement::report::document));
        let limit = |an: An| limits.iter().find(|(known, _)| *known == an).map_or(0, |(_, limit)| *limit);
        let transmit = snapshot.transmit.iter().map(|(sci, sa)| TransmitSa {
            sci: sci.to_string(),
            an: sa.an.number(),
            next_pn: sa.next_pn,
            // An agreed key needs no reservation.
            reserved_until: if agreement.is_some() { sa.limit } else { limit(sa.an) },
        });
        let transmit: Vec<_> = transmit.collect();
        let receive = snapshot.receive.iter().map(|sa| ReceiveSa {
            sci: sa.sci.to_string(),
            member: members.get(&sa.sci).cloned().unwrap_or_default(),
            an: sa.an.number(),
            lowest_pn: sa.lowest_pn,
        });
        let used = agreement.as_ref().and_then(|known| known.keys.iter().find(|key| key.transmits));
        Some(Macsec {
            suite: used.map_or(suite, |key| &key.suite).clone(),
            sci: own.to_string(),
            encoding_sa: snapshot.encoding.map(An::number),
            transmit,
            receive: receive.collect(),
            path: (*lock(&self.path)).map(|(mtu, since)| PathMtu {
                mtu: mtu as u64,
                source: "probe".into(),
                seconds: since.elapsed().as_secs_f64(),
            }),
            second_uplink: self.second.as_ref().map(|second| self.second_uplink(second, snapshot.taken)),
            agreement,
            sealing: snapshot.sealing.clone(),
            opening: snapshot.opening.clone(),
            counters: snapshot.counters.clone(),
        })
    }
}

impl StatusSource for Answers {
    fn status(&self) -> Status {
        let snapshot = self.snapshot();
        let answering = snapshot.is_some();
        let snapshot = snapshot.unwrap_or_default();
        let [field, uplink] = *lock(&self.links);
        let gates = lock(&self.gates).clone();
        let hits = |way| Gate::total_hits(&gates, way);
        let [out, inward] = self.tally.totals();
        let [field_now, uplink_now] = lock(&self.ports).clone();
        Status {
            forwarding: answering,
            warnings: self.watch.active(),
            events: self.watch.events(),
            policy: gates.first().map(|gate| gate.text().clone()).unwrap_or_default(),
            field: port(&out, &inward, field, &field_now),
            uplink: port(&inward, &out, uplink, &uplink_now),
            out: forwarding(&out, &hits(Way::Out)),
            inward: forwarding(&inward, &hits(Way::In)),
            flows: document([&out.flows, &inward.flows]),
            threads: self.shares.threads(&self.about, &snapshot.waits, &self.places),
            macsec: self.macsec(&snapshot),
            standby: self.about.standby.then(|| self.standby.document()),
            link_loss: self.about.link_loss.then(|| self.link_loss.document()),
            ..self.about.head()
        }
    }

    fn ping(&self, ping: &Ping) -> Result<Echo, CommandError> {
        let refused = |what: String, remedy: &str| CommandError { what, remedy: remedy.into() };
        let Some(desk) = &self.desk else {
            return Err(refused("nothing is protected, so there is no echo".into(), "use [macsec]"));
        };
        let mtu = lock(&self.ports)[1].mtu;
        let longest = (mtu + HEADER_LEN).saturating_sub(self.overhead).min(LONGEST);
        let [octets, answer] =
            [ping.octets, ping.answer_octets].map(|octets| usize::from(octets).max(ECHO_LEN));
        if octets > longest {
            let what = format!("the uplink carries frames of {longest} octets in one piece, not {octets}");
            return Err(refused(what, "ask with fewer octets"));
        }
        let members = self.members();
        let asked = |(sci, address, name, _): &&(Sci, EthernetAddress, String, bool)| {
            *name == ping.peer || sci.to_string() == ping.peer || address.to_string() == ping.peer
        };
        let known = match &members[..] {
            [] => return Err(refused("there is no other member".into(), "see `antedate gateway status`")),
            [only] if ping.peer.is_empty() => Some(only),
            _ => members.iter().find(asked),
        };
        let Some((sci, address, name, other)) = known else {
            let what = format!("\"{}\" is no member", ping.peer);
            return Err(refused(what, "name one by its SCI or address, see `antedate gateway status`"));
        };
        let peer = if name.is_empty() { sci.to_string() } else { name.clone() };
        let ask = Ask { to: *sci, destination: *address, len: octets, wanted: answer };
        match desk.answer(ask, ECHO_PATIENCE) {
            Some(answer) => Ok(Echo {
                peer,
                round_trip_us: answer.took as f64 / 1e3,
                octets: answer.heard as u64,
                answer_octets: answer.len as u64,
                longest: longest as u64,
                stock: false,
            }),
            None if *other => Err(refused(
                format!("{peer} is no Antedate gateway, and has no echo"),
                "its frames arrive if the counter InPktsOK rises: see `antedate gateway status`",
            )),
            None => Err(refused(
                format!("{peer} does not answer within a second"),
                "see `antedate gateway status` here and there; a gateway of an earlier version has no echo",
            )),
        }
    }

    fn command(&self, command: Command) -> Result<String, CommandError> {
        let an = match command {
            Command::SwitchSa { an } => an,
            Command::Reload => return self.door.reload(),
            Command::Rekey => {
                return Err(CommandError {
                    what: "this gateway has no sessions".into(),
                    remedy: "keys that are agreed upon change by themselves; `antedate gateway switch-sa` changes static ones".into(),
                });
            }
        };
        let known: Vec<String> = lock(&self.limits).iter().map(|(an, _)| an.to_string()).collect();
        let remedy = match known.split_last() {
            Some((last, [])) => format!("the key file has association {last} alone"),
            Some((last, rest)) => {
                format!("name an association of the key file: {} or {last}", rest.join(", "))
            }
            None => "only gateways with a key_file have associations to change between".to_owned(),
        };
        let refused = |what: String| CommandError { what, remedy: remedy.clone() };
        if lock(&self.agreement).is_some() {
            return Err(CommandError {
                what: "keys are agreed upon with the other members, who would not hear of it".into(),
                remedy: "the key server changes them: see mka_rekey_seconds".into(),
            });
        }
        let an = An::new(an).ok_or_else(|| refused(format!("{an} is no association number")))?;
        self.switch(an).map_err(|error| refused(error.to_string()))?;
        Ok(format!("frames are protected with association {an} from now on"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_of_one_uplink_is_noticed() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut second =
            Second { interface: "eth2".into(), link: true, link_downs: 0, frames: [0; 2], rose: [start; 2] };
        let (first_alone, both) = ([5, 0], [false; 2]);
        assert_eq!(second.note(first_alone, at(7)), both);
        assert_eq!(second.note([6, 0], at(8)), [false, true]);
        assert_eq!(second.note([6, 0], at(99)), [false, true], "it lasts");
        assert_eq!(second.note([6, 1], at(100)), [true, false]);
        assert_eq!(second.note([7, 1], at(101)), both);
        // Both are silent: the wire has no traffic, or key agreement speaks of it.
        assert_eq!(second.note([7, 1], at(999)), both);
    }
}

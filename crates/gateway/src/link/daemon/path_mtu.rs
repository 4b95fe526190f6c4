//! Follows the path MTU between Antedate gateways, with one probe a member at a time.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use antedate_channel::fragment::Marks;
use antedate_wire::EthernetAddress;
use antedate_wire::echo::ECHO_LEN;
use antedate_wire::ethernet::HEADER_LEN;
use antedate_wire::macsec::{ICV_LEN, TAG_LEN_LONG, TAG_LEN_SHORT};

use super::Supervisor;
use crate::config::{Checked, Keyed, Protection, SciMode};
use crate::link::echo::{Answer, Ask, Desk};
use crate::link::loops::Guard;
use crate::link::message::Message;
use crate::link::pair::{HelloKeys, Pair};
use crate::link::probe::{Probe, Prober, Target};
use crate::link::ways::{Pilot, Ways};
use crate::run::lock;
use crate::run::mailbox::Mailbox;
use crate::run::trouble::Trouble;

/// The search, and the probes under way.
pub(super) struct Probes {
    start: Instant,
    prober: Prober,
    asked: Vec<(Probe, usize, Receiver<Answer>)>,
    found: Option<usize>,
}

impl Default for Probes {
    fn default() -> Self {
        Self { start: Instant::now(), prober: Prober::default(), asked: Vec::new(), found: None }
    }
}

/// Octets that protection adds to a frame.
pub(super) fn overhead(checked: &Checked) -> usize {
    let (Keyed::Macsec { macsec, .. } | Keyed::Agreed { macsec, .. }) = &checked.protection else { return 0 };
    let tag = if macsec.sci_mode == SciMode::Explicit { TAG_LEN_LONG } else { TAG_LEN_SHORT };
    tag + ICV_LEN
}

/// The desk of echoes. None without MACsec.
pub(super) fn desk(
    checked: &Checked,
    mailboxes: &[Arc<Mailbox<Message>>],
    keys: &Arc<HelloKeys>,
) -> Option<Arc<Desk>> {
    let (Keyed::Macsec { macsec, own, .. } | Keyed::Agreed { macsec, own, .. }) = &checked.protection else {
        return None;
    };
    let source = match macsec.sci_mode {
        // The source address stands for the SCI.
        SciMode::EndStation => own.address(),
        _ => EthernetAddress(checked.uplink.address),
    };
    let (out, inward) = (mailboxes.first()?, mailboxes.last()?);
    let mut desk = Desk::new(*own, source, Arc::clone(out));
    if let (Some(settings), Keyed::Agreed { cak, .. }) = (checked.config.standby, &checked.protection) {
        keys.follow(&cak.list());
        let mailboxes = [out, inward].map(Arc::clone);
        desk.pair = Some(Arc::new(Pair::new(*own, source, settings, Arc::clone(keys), mailboxes)));
    }
    let waiting = checked.config.second_uplink.as_ref().and_then(|second| second.waiting);
    if let (Some(settings), Some(interval)) = (waiting, checked.config.hello()) {
        let ways = Ways::new(*own, &settings, interval);
        desk.pilot = Some(Arc::new(Pilot::new(ways, Arc::clone(out))));
    }
    if let Some(settings) = checked.config.loops {
        desk.guard = Some((Arc::new(Guard::new(*own, source, settings)), Arc::clone(inward)));
    }
    Some(Arc::new(desk))
}

impl Supervisor<'_> {
    /// Sends the probes that are due, and applies their result.
    pub(super) fn probe(&mut self) {
        let Some(desk) = self.answers.desk.clone() else { return };
        let now = self.probes.start.elapsed();
        let Probes { prober, asked, .. } = &mut self.probes;
        asked.retain(|(probe, len, answers)| match answers.try_recv() {
            Ok(answer) => {
                if answer.heard == *len && answer.from == probe.target.sci {
                    prober.answered(now, *probe);
                }
                false
            }
            Err(_) => true,
        });
        let targets = self.targets();
        if targets.is_empty() {
            return;
        }
        let longest = lock(&self.answers.ports)[1].mtu;
        let Probes { prober, asked, .. } = &mut self.probes;
        for probe in prober.due(now, &targets, longest) {
            // Only the last try of a length counts.
            asked.retain(|(other, ..)| other.target != probe.target || other.mtu == probe.mtu);
            let of = |mtu: usize| (mtu + HEADER_LEN).saturating_sub(self.answers.overhead);
            let len = probe.mtu.map_or(ECHO_LEN, of).max(ECHO_LEN);
            let ask = Ask { to: probe.target.sci, destination: probe.target.address, len, wanted: ECHO_LEN };
            asked.push((probe, len, desk.ask(ask).1));
        }
        self.apply(longest);
    }

    /// The members with an echo that read our frames. With static keys, those that may have one.
    fn targets(&self) -> Vec<Target> {
        let view = lock(&self.answers.agreement).clone();
        let Some(view) = view else { return self.strangers() };
        let view = lock(&view);
        let status = view.as_ref().map(|seen| &seen.status);
        let Some(status) = status.filter(|status| status.keys.iter().flatten().any(|key| key.transmits))
        else {
            return Vec::new();
        };
        let all = status.members.iter().filter(|member| member.live && member.antedate && member.receives);
        all.map(|member| Target { sci: member.sci, address: member.address, has_echo: true }).collect()
    }

    /// The members of static keys. Not with fragments that are not marked, among more than two: an
    /// echo to one is a gap in the packet numbers for the others, which costs them frames.
    fn strangers(&self) -> Vec<Target> {
        let Protection::Macsec(macsec) = &self.config.protection else { return Vec::new() };
        let members = self.answers.members();
        if members.len() > 1 && macsec.fragmentation.agreed() == Some(Marks::More) {
            return Vec::new();
        }
        members.into_iter().map(|(sci, address, ..)| Target { sci, address, has_echo: false }).collect()
    }

    /// Bounds frames by the path MTU that was found.
    fn apply(&mut self, longest: usize) {
        let found = self.probes.prober.mtu();
        if found == self.probes.found {
            return;
        }
        self.probes.found = found;
        *lock(&self.answers.path) = found.map(|mtu| (mtu, Instant::now()));
        self.post(|| Message::PathMtu(found));
        if let Some(mtu) = found {
            tracing::info!(mtu, source = "probe", "the path MTU to the other gateways");
        }
        let short = found.filter(|mtu| *mtu < longest);
        let detail = short.map(|mtu| format!("payloads of {mtu} octets, the uplink {longest}"));
        self.answers.watch.holds(Trouble::ShortPath, "", detail.as_deref());
    }
}

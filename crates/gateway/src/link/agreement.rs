//! Key agreement (IEEE 802.1X-2020 clauses 9 and 11) beside the forwarding threads.
//!
//! The key-agreement thread speaks MKA on a packet socket of the uplink. It sends the decisions of
//! a [`Kay`] to the forwarding threads, one message per key and member. A key comes
//! expanded, with its first packet numbers prepared; the old one returns in the answer and is wiped
//! here, so the forwarding thread only exchanges the two. This thread announces that it receives
//! with a key only when all its messages were answered.
//!
//! - [`crate::config::cak`]: the file with the pre-shared keys
//! - [`reload`]: the file was read again; `newer`: because a member has a newer one
//! - [`report`]: members and keys in status and log
//! - `symptoms`: what goes wrong, for the watch

mod further;
mod newer;
pub mod reload;
pub mod report;
mod symptoms;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antedate_channel::fragment::Marks;
use antedate_channel::macsec::{
    CHANNELS_MAX, CipherSuite, ReadyReceive, ReadyTransmit, Retired, TransmitConfig, TransmitInstallError,
    channel_scis, channel_ssci,
};
use antedate_channel::mka::{Action, CakStatus, Config, Dropped, Install, Kay, Member, Status};
use antedate_hardening::stack;
use antedate_host::clock::Moment;
use antedate_host::fault::Fault;
use antedate_host::helper;
use antedate_wire::ethernet::HEADER_LEN;
use antedate_wire::macsec::An;
use antedate_wire::{EtherType, EthernetAddress, Sci};

use self::further::Further;
use self::newer::Newer;
use self::reload::{Reload, Reloader};
use self::symptoms::Symptoms;
use crate::config::agreement::Settings;
use crate::config::cak::CakFile;
use crate::config::express::{express_sci, express_ssci};
use crate::config::keys::channels::owner;
use crate::config::policy::{Class, Traffic};
use crate::config::uplink::OuterTag;
use crate::config::{Fragmentation, Macsec, SciMode};
use crate::link::message::{InstallError, Message, Shown};
use crate::link::pair::HelloKeys;
use crate::link::spread::Spread;
use crate::link::vouch::Voucher;
use crate::run::counters::{Counter, PathCounters};
use crate::run::lock;
use crate::run::mailbox::Mailbox;
use crate::run::setup;
use crate::run::watch::Watch;
use crate::sys::interface::Interface;
use crate::sys::listener::Listener;
use crate::sys::thread::{Woken, now as clock, wait};

/// The longest sleep, so that the thread notices its end.
const ROUND: Duration = Duration::from_millis(100);
/// Interval of checks whether the uplink was replaced.
const LOOK: Duration = Duration::from_secs(1);
/// The longest wait for a forwarding thread to install a key for all members.
const PATIENCE: Duration = Duration::from_secs(2);
/// Octets of the longest MKPDU: 63 live and 63 potential peers, all other sets, and some spare.
const MAX_MKPDU_LEN: usize = 4096;
/// The most frames that are received before other work.
const HEARD_AT_ONCE: usize = 64;

/// Key agreement with its running thread.
#[derive(Debug)]
pub struct Agreement {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    view: View,
    reloader: Reloader,
}

/// The latest state, for other threads.
pub type View = Arc<Mutex<Option<Seen>>>;

/// The state of key agreement.
#[derive(Debug)]
pub struct Seen {
    /// The state of the association that carries.
    pub status: Status,
    /// Each CAK.
    pub caks: Vec<CakStatus>,
}

/// The parts of the gateway around key agreement.
#[derive(Debug)]
pub struct Around {
    /// The port of key agreement.
    pub uplink: Interface,
    /// The second one, if any.
    pub second: Option<Interface>,
    /// The VLAN tag of protected frames there, which MKPDUs have too.
    pub outer: Option<OuterTag>,
    /// Whether frames to link-local groups pass switches.
    pub carries_link_local: bool,
    /// The port on which no MKPDU may arrive.
    pub field: Interface,
    /// The mailboxes of the forwarding threads: out first, in last; or those of the workers.
    pub threads: Vec<Arc<Mailbox<Message>>>,
    /// The gateway's own channels: the ordinary one, then the express one.
    pub channels: Vec<TransmitConfig>,
    /// State of each sending thread. Each behind the first one has a further channel.
    pub shown: Vec<Arc<Shown>>,
    /// Which of them get frames.
    pub spread: Arc<Spread>,
    /// The counters from the machines to the uplink.
    pub out: Arc<PathCounters>,
    /// The watch.
    pub watch: Arc<Watch>,
    /// Keys of hellos at the field, which follow the CAKs.
    pub hello_keys: Arc<HelloKeys>,
}

impl Agreement {
    /// Starts the thread.
    ///
    /// # Errors
    /// When no socket or thread can be opened.
    pub fn start(
        config: Config,
        fragmentation: Fragmentation,
        cak: &CakFile,
        around: Around,
    ) -> Result<Self, Fault> {
        let uplink = &around.uplink;
        let file = &cak.file;
        let refused = |what: String| {
            Fault::of_file(file, what, "see that the uplink exists and is up: ip link; or run as root")
        };
        let socket = listen(uplink, &config).map_err(|e| {
            refused(format!("cannot open a packet socket for key agreement on {}: {e}", uplink.name))
        })?;
        let second = match &around.second {
            Some(port) => Some(listen(port, &config).map_err(|e| {
                refused(format!("cannot open a packet socket for key agreement on {}: {e}", port.name))
            })?),
            None => None,
        };
        let kay = Kay::new(cak.list(), config.clone(), &mut random);
        let (reloader, reloads) = Reloader::new(file);
        let field = listen(&around.field, &config).ok();
        let (stop, view) = (Arc::new(AtomicBool::new(false)), View::default());
        let speaker = Speaker {
            kay,
            reloads,
            newer: Newer::new(file),
            config,
            socket: Some(socket),
            second,
            heard: Heard::default(),
            field,
            around,
            start: Moment::now(),
            looked: Instant::now(),
            voucher: Voucher::default(),
            view: Arc::clone(&view),
            said: report::Said::default(),
            symptoms: Symptoms::default(),
            fragmentation,
            known: Vec::new(),
            further: Further::default(),
            takes_from: Vec::new(),
            unanswered: Vec::new(),
            sends_fragments: false,
        };
        let stopped = Arc::clone(&stop);
        let thread = helper::thread("key-agreement")
            .spawn(move || speaker.run(&stopped))
            .map_err(|e| refused(format!("cannot start a thread: {e}")))?;
        Ok(Self { stop, thread: Some(thread), view, reloader })
    }

    /// The place of the latest state.
    #[must_use]
    pub fn view(&self) -> View {
        Arc::clone(&self.view)
    }

    /// The way to take over CAKs that were read again.
    #[must_use]
    pub const fn reloader(&self) -> &Reloader {
        &self.reloader
    }

    /// Whether the thread ended by itself, which is a bug of this program.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

impl Drop for Agreement {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic was already logged.
            let _ = thread.join();
        }
    }
}

fn listen(port: &Interface, config: &Config) -> io::Result<Listener> {
    let groups: Vec<_> =
        config.destinations.iter().filter(|to| to.is_multicast()).map(|group| group.0).collect();
    Listener::open(port, EtherType::Eapol.number(), &groups)
}

/// Fills from the system's generator. Waits where it fails, so that no key is made without
/// randomness.
fn random(octets: &mut [u8]) {
    while let Err(error) = getrandom::fill(octets) {
        tracing::error!(%error, "the system gives no random numbers: key agreement waits");
        thread::sleep(LOOK);
    }
}

struct Speaker {
    kay: Kay,
    reloads: mpsc::Receiver<Reload>,
    newer: Newer,
    config: Config,
    socket: Option<Listener>,
    second: Option<Listener>,
    /// MKPDUs that may come again by the other uplink.
    heard: Heard,
    /// Hears MKPDUs on the wrong port.
    field: Option<Listener>,
    around: Around,
    start: Moment,
    looked: Instant,
    voucher: Voucher,
    view: View,
    said: report::Said,
    symptoms: Symptoms,
    fragmentation: Fragmentation,
    /// Members with a key in the forwarding thread.
    known: Vec<Sci>,
    /// Their channels behind the first one.
    further: Further,
    /// Channels whose fragments it accepts.
    takes_from: Vec<Sci>,
    /// Keys that the forwarding thread has not yet acknowledged.
    unanswered: Vec<Unanswered>,
    sends_fragments: bool,
}

/// A key for receiving, its channel of answers, and the number of missing answers.
struct Unanswered {
    install: Install,
    answers: mpsc::Receiver<Result<Retired, InstallError>>,
    left: usize,
}

impl Speaker {
    fn run(mut self, stop: &AtomicBool) {
        setup::sockets_only();
        let mut frame = vec![0; MAX_MKPDU_LEN];
        while !stop.load(Ordering::Acquire) {
            let heard = self.turn(&mut frame);
            let bounded = self.kay.bounds_delay();
            let drained = heard < HEARD_AT_ONCE;
            if let Some(until) = self.voucher.turn(clock(), bounded, drained, heard) {
                self.around.shown.iter().for_each(|shown| shown.vouched.set(until));
            }
            let now = self.start.elapsed();
            let status = self.kay.status(now);
            let caks = self.kay.caks(now);
            self.said.changes(&status, &caks);
            self.symptoms.report(&status, now, &self.around.watch);
            self.symptoms.waits(&caks, now, &self.around.watch);
            self.fragments(&status);
            self.spread(&status);
            *lock(&self.view) = Some(Seen { status, caks });
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                self.newer.look();
                self.follow();
                self.hear_late();
                self.look(&mut frame);
            }
            let pause = self.kay.wake_at(now).saturating_sub(now).min(ROUND);
            // A pause of zero would be a busy loop while the clock does not advance.
            let pause = pause.max(Duration::from_millis(1));
            let sockets = [&self.socket, &self.second];
            let woken =
                wait(sockets.map(|socket| socket.as_ref().map_or(-1, AsRawFd::as_raw_fd)), Some(pause));
            for (socket, _) in sockets.into_iter().zip(woken).filter(|(_, woken)| *woken == Woken::Error) {
                socket.iter().for_each(Listener::take_error);
            }
        }
    }

    /// Receives, and does what is due. Returns the number of frames.
    ///
    /// Never inlined: keys and their expansions pass over the stack, which is wiped afterwards, and
    /// the caller's own frame is not.
    #[inline(never)]
    fn speak(&mut self, frame: &mut [u8]) -> (usize, bool) {
        self.reload();
        let heard = self.listen(frame);
        self.progress();
        self.kay.tick(self.start.elapsed(), &mut random);
        let acted = self.act();
        (heard, acted)
    }

    /// As [`speak`](Self::speak), and leaves no key on the stack.
    fn turn(&mut self, frame: &mut [u8]) -> usize {
        let (heard, acted) = self.speak(frame);
        if heard > 0 || acted {
            stack::wipe();
        }
        heard
    }

    /// Receives frames, but not all of a flood: sending, installing keys and stopping continue
    /// meanwhile. Returns their number.
    fn listen(&mut self, frame: &mut [u8]) -> usize {
        for heard in 0..HEARD_AT_ONCE {
            let mut sockets = self.socket.iter().chain(&self.second);
            let Some(len) = sockets.find_map(|socket| socket.receive(frame)) else { return heard };
            if self.second.is_some() && self.heard.again(frame.get(..len).unwrap_or_default()) {
                continue;
            }
            let now = self.start.elapsed();
            let heard = self.kay.receive(now, frame.get(..len).unwrap_or_default());
            if let Err(reason) = heard {
                let frame = frame.get(..len).unwrap_or_default();
                tracing::debug!(%reason, "an MKPDU is refused");
                self.symptoms.refused(reason, frame);
                let named = reason == Dropped::OtherName;
                if let Some(list) = named.then(|| self.newer.keys(frame, &self.config)).flatten()
                    && let Err(error) = self.take_over(now, list, None)
                {
                    tracing::error!("nothing is taken over: {error}; give the new CAK a CKN of its own");
                }
            }
            self.kay.tick(now, &mut random);
        }
        HEARD_AT_ONCE
    }

    /// Looks for MKPDUs on the field port, and for traffic that ends at switches.
    fn look(&mut self, frame: &mut [u8]) {
        if !self.around.field.still_there() || self.field.is_none() {
            let found = self.around.field.find_again();
            self.field = found.ok().and_then(|field| {
                self.around.field = field;
                listen(&self.around.field, &self.config).ok()
            });
        }
        for _ in 0..HEARD_AT_ONCE {
            let Some(len) = self.field.as_ref().and_then(|field| field.receive(frame)) else { break };
            let frame = frame.get(..len).unwrap_or_default();
            if self.kay.sender(frame).is_some() {
                self.symptoms.on_the_field(frame);
            }
        }
        if let Some(field) = &self.field {
            field.take_error();
        }
        let status = self.kay.status(self.start.elapsed());
        if self.config.destinations.len() > 1 && !self.around.carries_link_local {
            let Around { out, watch, .. } = &self.around;
            let passed =
                |traffic: Traffic| out.passed.get(Class::Named(traffic).index()).map_or(0, Counter::get);
            let kept = Traffic::NAMES.iter().filter(|(_, traffic)| traffic.ends_at_switches());
            let kept: Vec<_> = kept.map(|(name, traffic)| (*name, passed(*traffic))).collect();
            self.symptoms.kept_by_switches(&status, &kept, self.start.elapsed(), watch);
        }
    }

    /// Reports the packet numbers in use.
    fn progress(&mut self) {
        for (place, shown) in (0..CHANNELS_MAX).zip(&self.around.shown) {
            let encoding = shown.encoding.get();
            let an = encoding.checked_sub(1).and_then(|an| An::new(u8::try_from(an).ok()?));
            let Some(an) = an else { continue };
            if place > 0 {
                self.kay.progress_of(an, place, shown.usual_pn.get());
                continue;
            }
            let express = Some(shown.express_pn.get()).filter(|next| *next > 0);
            self.kay.progress(an, shown.usual_pn.get(), express);
        }
    }

    /// Carries out the actions of key agreement. Returns whether there were some.
    fn act(&mut self) -> bool {
        let mut acted = false;
        while let Some(action) = self.kay.next_action() {
            acted = true;
            match action {
                Action::Send(mut frame) => {
                    // A link that is down loses it like any other frame. The next one follows in
                    // two seconds.
                    let tag = self.around.outer.as_ref().and_then(|outer| outer.of(&frame));
                    if let Some(tag) = tag.filter(|_| frame.len() >= HEADER_LEN) {
                        frame.splice(12..12, tag.octets());
                    }
                    let sockets = self.socket.iter().chain(&self.second);
                    for sent in sockets.map(|socket| socket.send(&frame)).collect::<Vec<_>>() {
                        Symptoms::sent(&sent, frame.len(), &self.around.watch);
                        if let Err(error) = sent {
                            tracing::debug!(%error, "an MKPDU is not sent");
                        }
                    }
                }
                Action::Receive(install) => self.receive(install),
                Action::Transmit(install) => self.transmit(install),
                Action::Lowest { sci, an, lowest_pn, second_pn } => {
                    self.tell_receiver(sci, Message::Lowest(sci, an, lowest_pn));
                    if let Some(lowest) = second_pn {
                        let sci = express_sci(sci);
                        self.tell_receiver(sci, Message::Lowest(sci, an, lowest));
                    }
                }
                Action::Remove(an) => {
                    self.unanswered.retain(|late| late.install.an != an);
                    self.wipe(|answer| Message::RemoveSa(an, answer));
                }
                Action::Forget(sci) => {
                    self.known.retain(|known| *known != sci);
                    for late in &mut self.unanswered {
                        late.install.members.retain(|(member, _)| *member != sci);
                    }
                    self.takes_from.retain(|known| *known != sci);
                    self.wipe(|answer| Message::ForgetPeer(sci, answer));
                    self.wipe(|answer| Message::ForgetPeer(express_sci(sci), answer));
                    for further in self.further.forget(sci) {
                        self.takes_from.retain(|known| *known != further);
                        self.wipe(|answer| Message::ForgetPeer(further, answer));
                    }
                }
            }
        }
        acted
    }

    /// Checks for late answers: without its acknowledgement no member would ever transmit with a
    /// key. The messages stay queued, so none is repeated.
    fn hear_late(&mut self) {
        for late in std::mem::take(&mut self.unanswered) {
            self.hear(late, Instant::now());
        }
    }

    /// Installs a key for receiving, and waits until it is in use.
    fn receive(&mut self, install: Install) {
        let Install { an, ref sak, ref members, .. } = install;
        let (answer, answers) = mpsc::channel();
        let mut channels = members.clone();
        // An Antedate gateway may use a second channel, where frames carry the SCI. Without an SCI
        // there is only one channel.
        let caks = self.kay.caks(self.start.elapsed());
        let second = |sci: &Sci| all_members(&caks).any(|member| member.sci == *sci && member.antedate);
        let ours = |sci: &Sci| !self.config.pair && second(sci);
        let express: Vec<_> = channels.iter().filter(|(sci, _)| ours(sci)).copied().collect();
        channels.extend(express.into_iter().map(|(sci, ssci)| (express_sci(sci), ssci.map(express_ssci))));
        // Further channels of gateways with several workers.
        if self.config.takes_channels > 1 {
            for (member, ssci) in members {
                let count = of_member(&caks, *member).map(|member| member.channels).max().unwrap_or(1);
                let all = (0..).zip(channel_scis(*member, count)).skip(1);
                let further = all.map(|(place, sci)| (sci, ssci.map(|ssci| channel_ssci(ssci, place))));
                let further: Vec<_> = further.collect();
                self.further.note(*member, further.iter().map(|(sci, _)| *sci));
                channels.extend(further);
            }
        }
        let left = channels.len();
        for (sci, ssci) in channels {
            match ReadyReceive::new(sci, ssci, an, sak, 1) {
                Ok(ready) => {
                    let message = Message::InstallReceive(Box::new(ready.prepared()), answer.clone());
                    self.tell_receiver(sci, message);
                }
                Err(error) => {
                    tracing::error!(%error, %an, "a key is not installed for receiving");
                    return;
                }
            }
        }
        drop(answer);
        let late = self.unanswered.len();
        self.hear(Unanswered { install, answers, left }, Instant::now() + PATIENCE);
        if self.unanswered.len() > late {
            tracing::error!(%an, "the forwarding thread does not install a key");
        }
    }

    /// Waits for the answers about a key until `end`. Announces the key when all have arrived.
    fn hear(&mut self, mut late: Unanswered, end: Instant) {
        let Install { key, an, .. } = late.install;
        while late.left > 0 {
            match late.answers.recv_timeout(end.saturating_duration_since(Instant::now())) {
                // Dropping wipes the replaced key.
                Ok(Ok(retired)) => drop(retired),
                Ok(Err(error)) => {
                    return tracing::error!(%error, %an, "a key is not installed for receiving");
                }
                Err(_) => return self.unanswered.push(late),
            }
            late.left -= 1;
        }
        let members = &late.install.members;
        let new = members.iter().map(|(sci, _)| *sci).filter(|sci| !self.known.contains(sci));
        self.known.extend(new.collect::<Vec<_>>());
        // Before the announcement, after which peers may send fragments.
        let status = self.kay.status(self.start.elapsed());
        self.fragments(&status);
        self.kay.receives(key);
        self.kay.tick(self.start.elapsed(), &mut random);
    }

    /// Installs a key for transmitting.
    fn transmit(&mut self, install: Install) {
        let Install { an, sak, ssci, .. } = install;
        let Some(usual) = self.around.channels.first() else { return };
        // An agreed key is new, so each channel begins at 1 and needs no durable record.
        let ready = |channel: &TransmitConfig, sci: Sci, ssci: Option<u32>| {
            let config = TransmitConfig { suite: sak.suite(), sci, ssci, ..*channel };
            Ok(ReadyTransmit::new(config, an, &sak, 1, u64::MAX)?.prepared())
        };
        // The express channel is the second one of the first thread.
        let first = self.around.channels.iter().zip([ssci, ssci.map(express_ssci)]);
        let first = first.map(|(channel, ssci)| ready(channel, channel.sci, ssci)).collect();
        let further = (0..).zip(channel_scis(usual.sci, self.config.channels)).skip(1);
        let further = further.map(|(place, sci)| {
            let ssci = ssci.map(|ssci| channel_ssci(ssci, place));
            Ok(vec![ready(usual, sci, ssci)?])
        });
        let all: Result<Vec<Vec<_>>, TransmitInstallError> = [first].into_iter().chain(further).collect();
        let all = match all {
            Ok(all) => all,
            Err(error) => return tracing::error!(%error, %an, "a key is not installed for sending"),
        };
        let posted = all.into_iter().zip(&self.around.threads).map(|(ready, mailbox)| {
            let (answer, answers) = mpsc::channel();
            mailbox.post(Message::InstallTransmit(ready, answer));
            answers
        });
        for answers in posted.collect::<Vec<_>>() {
            match answers.recv_timeout(PATIENCE) {
                Ok(Ok(retired)) => drop(retired),
                Ok(Err(error)) => tracing::error!(%error, %an, "a key is not installed for sending"),
                Err(_) => tracing::error!(%an, "a forwarding thread does not install a key"),
            }
        }
    }

    /// Has all workers send while each member takes their channels, and the first one otherwise.
    fn spread(&mut self, status: &Status) {
        let own = self.config.channels;
        if own == 1 {
            return;
        }
        let shared = status.channels_in_use == own;
        match self.around.spread.set(shared) {
            Ok(changed) if changed || !shared => self.said.channels(status),
            Ok(_) => {}
            // It is tried again in each turn.
            Err(error) => self.said.not_spread(&error),
        }
    }

    /// Removes keys from the forwarding threads, and wipes them.
    fn wipe(&self, message: impl Fn(mpsc::Sender<Retired>) -> Message) {
        let (answer, answers) = mpsc::channel();
        self.post(|| message(answer.clone()));
        drop(answer);
        // Ends when all threads have answered. A thread that does not has ended, or wipes them
        // itself.
        while let Ok(retired) = answers.recv_timeout(PATIENCE) {
            drop(retired);
        }
    }

    /// Accepts fragments from members that announce them, and sends them when all members do.
    fn fragments(&mut self, status: &Status) {
        let marks = match self.fragmentation {
            Fragmentation::Off => return,
            // The configuration says so for all members.
            Fragmentation::On(marks) => marks,
            // Only Antedate gateways announce fragments, and they read both flags. A switch sends a
            // gateway only its own frames, so packet numbers have gaps, and a frame after a gap
            // must not be taken for the last fragment of another.
            Fragmentation::Auto => Marks::Both,
        };
        if marks == Marks::More
            && let Some(warning) = self.said.unmarked(status)
        {
            tracing::warn!("{warning}");
        }
        let always = self.fragmentation != Fragmentation::Auto;
        // A member that joined after the current key is live, but has no key in the forwarding
        // thread until the next one.
        let caks = self.kay.caks(self.start.elapsed());
        for member in all_members(&caks).filter(|member| member.live && self.known.contains(&member.sci)) {
            if !always && !member.fragments {
                continue;
            }
            for sci in [member.sci].into_iter().chain(self.further.of(member.sci)) {
                if !self.takes_from.contains(&sci) {
                    self.takes_from.push(sci);
                    self.post(|| Message::TakeFragments(sci, Some(marks)));
                }
            }
        }
        if !always && self.sends_fragments != status.all_reassemble {
            self.sends_fragments = status.all_reassemble;
            tracing::info!(on = status.all_reassemble, "all members take fragments");
            let marks = status.all_reassemble.then_some(marks);
            self.post(|| Message::SendFragments(marks));
        }
    }

    /// Tells the thread that opens the frames of a channel: its owner among several workers, or the
    /// last thread, which has the inbound direction.
    fn tell_receiver(&self, sci: Sci, message: Message) {
        let Around { threads, shown, .. } = &self.around;
        let several = shown.len() > 1;
        let place = if several { owner(sci, shown.len()) } else { threads.len().saturating_sub(1) };
        if let Some(mailbox) = threads.get(place) {
            mailbox.post(message);
        }
    }

    fn post(&self, message: impl Fn() -> Message) {
        for mailbox in &self.around.threads {
            mailbox.post(message());
        }
    }

    /// Reopens the socket if the uplink was replaced.
    fn follow(&mut self) {
        follow(&mut self.around.uplink, &mut self.socket, &self.config);
        if let Some(second) = &mut self.around.second {
            follow(second, &mut self.second, &self.config);
        }
    }
}

/// Reopens the socket on a port that was replaced.
fn follow(port: &mut Interface, socket: &mut Option<Listener>, config: &Config) {
    if port.still_there() && socket.is_some() {
        return;
    }
    let found = port.find_again();
    *socket = found
        .and_then(|found| {
            let socket = listen(&found, config)?;
            *port = found;
            Ok(socket)
        })
        .ok();
    if socket.is_some() {
        tracing::info!(uplink = %port.name, "key agreement goes on with the new interface");
    }
}

/// The last MKPDUs, as digests with a random key: a forged one is no copy of a genuine one.
#[derive(Debug, Default)]
struct Heard {
    key: RandomState,
    digests: [Option<u64>; 16],
    next: usize,
}

impl Heard {
    /// Whether this MKPDU is a copy of one of the last.
    fn again(&mut self, frame: &[u8]) -> bool {
        let digest = Some(self.key.hash_one(frame));
        if self.digests.contains(&digest) {
            return true;
        }
        self.digests[self.next % self.digests.len()] = digest;
        self.next += 1;
        false
    }
}

/// The members with this SCI in all associations. After a restart there may be two for a while.
fn of_member(caks: &[CakStatus], sci: Sci) -> impl Iterator<Item = &Member> {
    all_members(caks).filter(move |member| member.sci == sci)
}

/// The members of all associations.
fn all_members(caks: &[CakStatus]) -> impl Iterator<Item = &Member> {
    caks.iter().flat_map(|cak| &cak.members)
}

/// The participant of a configuration. `own` are its channels: the ordinary one, then the express
/// one; `channels` is the number of ordinary ones.
#[must_use]
pub fn participant(
    settings: &Settings,
    macsec: &Macsec,
    own: (Sci, Option<Sci>),
    channels: usize,
    uplink: &Interface,
    suites: Vec<CipherSuite>,
) -> Config {
    let pair = macsec.sci_mode == SciMode::PointToPoint;
    Config {
        second: own.1,
        channels: u8::try_from(channels).unwrap_or(CHANNELS_MAX),
        // Without an SCI in the frames there is only one channel.
        takes_channels: if pair { 1 } else { CHANNELS_MAX },
        priority: settings.priority,
        destinations: settings.destinations.clone(),
        source: EthernetAddress(uplink.address),
        suites,
        confidentiality: macsec.confidentiality,
        fragments: macsec.fragmentation != Fragmentation::Off,
        pair,
        delay_protect: settings.delay_protect,
        rekey_after: settings.rekey_after,
        ..Config::new(own.0)
    }
}

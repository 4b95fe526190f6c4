//! The main thread of a MACsec gateway: starts, supervises and stops the forwarding threads.
//!
//! The thread that calls [`run`] becomes the main thread. It reserves packet numbers on disk in
//! advance, records received packet numbers, follows links and interfaces, and logs. It never
//! handles frames.

mod hello;
mod interfaces;
mod leaves;
mod loops;
mod path_mtu;
mod reload;
pub mod standby;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antedate_channel::macsec::SLOTS;
use antedate_hardening::stack;
use antedate_host::control::Server;
use antedate_host::fault::Fault;
use antedate_host::hangup::Hangup;
use antedate_host::notify::Life;
use antedate_host::numbers::KeyLock;
use antedate_wire::macsec::An;

use self::interfaces::Watched;
pub(super) use self::interfaces::is_up;
use self::leaves::Leaves;
use self::path_mtu::Probes;
use crate::config::express::express_sci;
use crate::config::state;
use crate::config::{Checked, Config, Keyed, RESERVE, Rate, Threads};
use crate::frames::gate::Gate;
use crate::link::agreement::{self, Agreement, Around};
use crate::link::channels::{self, Attached, Channels};
use crate::link::express::Express;
use crate::link::fastest;
use crate::link::further;
use crate::link::ledger::Ledger;
use crate::link::message::{Message, Shown};
use crate::link::pair::HelloKeys;
use crate::link::path::{Inbound, Outbound, Validator};
use crate::link::report::{Answers, Second};
use crate::link::snapshot::Snapshot;
use crate::link::spread::Spread;
use crate::link::symptoms::Symptoms;
use crate::link::vouch::Vouched;
use crate::link::worker::Worker;
use crate::run::RunError;
use crate::run::control::{self, StatusSource};
use crate::run::http::endpoints::Endpoints;
use crate::run::lock;
use crate::run::loss;
use crate::run::mailbox::Mailbox;
use crate::run::reload::{Door, Reloads};
use crate::run::report::{About, Carries, Place, Shares};
use crate::run::runs::Runs;
use crate::run::setup::{self, Granted};
use crate::run::surroundings::Surroundings;
use crate::run::tally::Tally;
use crate::run::trouble::Trouble;
use crate::run::watch::{Watch, watch_flows, watch_stale, watch_storms};
use crate::sys::interface::Interface;
use crate::sys::lanes::Lanes;
use crate::sys::sender;

/// Interval of checks for a reservation. At a million frames a second, half of a default
/// reservation lasts half a second. Each check interrupts the forwarding thread if they share a
/// CPU.
const ROUND: Duration = Duration::from_millis(100);
/// The same for a smaller reservation.
const SHORT_ROUND: Duration = Duration::from_millis(20);
/// Interval of recording received packet numbers and checking links.
const NOTE: Duration = Duration::from_secs(1);
/// Interval of summaries of refused frames.
const SUMMARY: Duration = Duration::from_secs(60);

/// Runs a gateway with MACsec or without protection until `stop` is set. `hangup` has the
/// configuration read again. The calling thread becomes the main thread.
///
/// # Errors
/// When it cannot start, ends by itself, or cannot write its state at the end.
pub fn run(checked: &Checked, stop: &AtomicBool, hangup: &Hangup) -> Result<(), RunError> {
    // Static keys were expanded on the stack.
    let (door, reloads) = Reloads::new(hangup);
    let mut supervisor = stack::wiped(|| Supervisor::start(checked, door)).map_err(RunError::NotStarted)?;
    setup::settle(checked.config.run.preload);
    let mut life = Life::begin();
    let mut fallen = false;
    let pause = if checked.config.state.reserve < RESERVE { SHORT_ROUND } else { ROUND };
    let every = |time: Duration, round: u32| (pause * round).as_millis().is_multiple_of(time.as_millis());
    for round in (1..=(SUMMARY.as_millis() / pause.as_millis()) as u32).cycle() {
        if stop.load(Ordering::Acquire) {
            break;
        }
        thread::sleep(pause);
        reloads.serve(|| stack::wiped(|| supervisor.reload()));
        supervisor.reserve();
        supervisor.probe();
        if every(NOTE, round) {
            if supervisor.note() {
                life.sign();
            }
            supervisor.follow();
            supervisor.tell_members();
        }
        if every(SUMMARY, round) {
            supervisor.summary();
        }
        let silent = supervisor.agreement.as_ref().is_some_and(Agreement::is_finished);
        if silent || supervisor.threads.iter().any(JoinHandle::is_finished) {
            fallen = true;
            break;
        }
    }
    drop(life);
    supervisor.stop().map_err(RunError::NotRecorded)?;
    if fallen { Err(RunError::Forwarding) } else { Ok(()) }
}

struct Supervisor<'a> {
    /// The gateway as it started.
    checked: &'a Checked,
    /// The configuration in use.
    config: Config,
    mailboxes: Vec<Arc<Mailbox<Message>>>,
    threads: Vec<JoinHandle<Worker>>,
    /// Of each sending thread.
    shown: Vec<Arc<Shown>>,
    ledger: Option<Ledger>,
    /// Held until the last packet number is recorded.
    _locks: Vec<KeyLock>,
    agreement: Option<Agreement>,
    answers: Arc<Answers>,
    field: Watched,
    uplink: Watched,
    second: Option<Watched>,
    leaves: Leaves,
    /// Which workers send, with agreed keys.
    spread: Arc<Spread>,
    /// The rate of bulk in Mbit/s, if it follows the link's.
    link_rate: Option<u64>,
    /// The counts of the last summary.
    summed: (u64, u64),
    complained: Option<Instant>,
    symptoms: Symptoms,
    surroundings: Surroundings,
    probes: Probes,
    endpoints: Endpoints,
    link_loss: Option<Runs>,
    hello: Option<Runs>,
    standby: Option<Runs>,
    loops: Option<Runs>,
    _server: Server,
}

impl<'a> Supervisor<'a> {
    fn start(checked: &'a Checked, door: Door) -> Result<Self, Fault> {
        let config = checked.config.clone();
        let socket = setup::socket(&config)?;
        let mut endpoints = Endpoints::default();
        let shows = endpoints.prepare(&config)?;
        let senders = config.run.threads.channels();
        let gates: Vec<_> = (0..senders).map(|_| Arc::new(Gate::new(&config.policy))).collect();
        let gate = Arc::clone(&gates[0]);
        let tally = Tally::new(senders, config.watchdog_cycles);
        let [out, inward] = tally.of(0);
        let every_shown: Vec<_> = (0..senders).map(|_| Arc::new(Shown::default())).collect();
        let shown = Arc::clone(&every_shown[0]);
        let mtus = (checked.uplink_mtu(), checked.field.mtu);
        let mut ports =
            channels::ports(&config, (&checked.field, &checked.uplink, checked.second.as_ref()), mtus.0)?;
        let spread = Arc::new(Spread::default());
        if matches!(checked.protection, Keyed::Agreed { .. }) {
            spread
                .over(&ports)
                .map_err(|error| setup::no_socket(&config.file, [&checked.field, &checked.uplink], &error))?;
        }
        let Some((outbound, inbound)) = ports.first_mut() else {
            return Err(Fault::of_file(&config.file, "no port was opened", ""));
        };
        let ways = [("field.io", &checked.field), ("uplink.io", &checked.uplink)];
        let mut ways = ways.into_iter().zip(&checked.leave);
        let mut attach = || match ways.next() {
            Some(((key, port), leave)) => channels::xdp(&config, key, leave, port),
            None => Ok(Attached::No),
        };
        let [to_field, to_uplink] = [attach()?, attach()?];
        let leaves = Leaves::new([&to_field, &to_uplink]);
        leaves.tell(checked);
        if let Attached::Xdp(xdp) = to_field {
            inbound.to.attach(*xdp, checked.leave[0].in_order);
        }
        if let Attached::Xdp(xdp) = to_uplink {
            outbound.to.attach(*xdp, checked.leave[1].in_order);
        }
        let cpus = config.run.threads.cpus();
        let unmade = |error: std::io::Error| Fault::of_thread(&config.file, &error);
        let new = |_| Mailbox::new().map(Arc::new).map_err(unmade);
        let mailboxes = cpus.iter().map(new).collect::<Result<Vec<_>, _>>()?;
        // All that often fails, threads apart, succeeded by now: packet numbers reserved here are
        // lost if the start fails.
        let installed = Channels::new(checked)?;
        // Frames received meanwhile are stale.
        ports
            .iter_mut()
            .for_each(|(out, inward)| [&mut out.from, &mut inward.from].into_iter().for_each(Lanes::discard));
        let mut ports = ports.into_iter();
        let Some((outbound, inbound)) = ports.next() else {
            return Err(Fault::of_file(&config.file, "no port was opened", ""));
        };
        let mut outbound = Outbound::new(outbound, Arc::clone(&gate), Arc::clone(&out), installed.protector);
        let mut inbound = Inbound::new(inbound, gate, inward, installed.validator);
        further::equip(checked, &mut outbound, &mut inbound);
        let mut link_rate = None;
        if let (Some(settings), Some(transmit)) = (&config.express, installed.express) {
            let mbit = channels::rate(checked, settings.rate);
            link_rate = (settings.rate == Rate::OfLink).then_some(mbit);
            outbound.express =
                Some(Box::new(Express::new(transmit, settings.clone(), mbit, config.run.max_age)));
        }
        let shapes = reload::shapes(config.flows.as_ref());
        if !shapes.is_empty() {
            outbound.channels().for_each(|transmit| transmit.set_flows(shapes.clone()));
        }
        let hello_keys = Arc::new(HelloKeys::default());
        let desk = path_mtu::desk(checked, &mailboxes, &hello_keys);
        inbound.desk.clone_from(&desk);
        if desk.as_ref().is_some_and(|desk| desk.pilot.is_some()) {
            outbound.carry_by(sender::Carries::First);
        }
        let pair = desk.as_ref().and_then(|desk| desk.pair.clone());
        if let Some(pair) = &pair {
            outbound.stand_by(Arc::clone(pair));
            inbound.stand_by(Arc::clone(pair));
        }
        if let Some((desk, (guard, _))) = desk.as_ref().and_then(|desk| Some((desk, desk.guard.as_ref()?))) {
            outbound.guard(Arc::clone(guard), Arc::clone(desk));
            inbound.guard(Arc::clone(guard), Arc::clone(desk));
        }
        if config.transparent_clock {
            let kept = outbound.keep_time().and_then(|()| inbound.keep_time());
            kept.map_err(|error| {
                let remedy = "remove the line, or run a Linux with SO_TIMESTAMPING";
                let fault = Fault::of_io(&config.file, "have sent frames stamped", &error, remedy);
                config.at("ptp.transparent_clock", fault)
            })?;
        }
        if let Some(own) = further::own(checked, 0) {
            inbound.watch_for(own);
        }
        let own_channels: Vec<_> = outbound.channels().map(|transmit| *transmit.config()).collect();

        let mut parts = if matches!(config.run.threads, Threads::Two(_)) {
            vec![("out", Some(outbound), None), ("in", None, Some(inbound))]
        } else {
            vec![("both", Some(outbound), Some(inbound))]
        };
        let more =
            further::Parts { ports: ports.collect(), channels: installed.further, gates: gates.clone() };
        let more = further::workers(checked, more, &tally, desk.as_ref(), &shapes);
        parts.extend(more.into_iter().map(|(outbound, inbound)| ("both", Some(outbound), Some(inbound))));
        let (mut threads, mut places) = (Vec::new(), Vec::new());
        let all = parts.into_iter().zip(cpus).zip(&mailboxes).enumerate();
        for (number, (((direction, outbound, inbound), cpu), mailbox)) in all {
            let mailbox = Arc::clone(mailbox);
            let worker = Worker {
                outbound,
                inbound,
                mode: setup::mode(config.run.poll),
                rehearsal: own_channels.first().and_then(|channel| channels::rehearsal(channel.suite)),
                inbound_first: false,
                vouched: Vouched::default(),
                mailbox,
                shown: Arc::clone(every_shown.get(number).unwrap_or(&shown)),
            };
            let priority = config.run.priority;
            let place = Arc::new(Mutex::new(Place { direction, granted: Granted::default() }));
            places.push(Arc::clone(&place));
            let start = move || {
                lock(&place).granted = setup::place(cpu, priority);
                worker.run()
            };
            threads.push(setup::forwarding(direction).spawn(start).map_err(unmade)?);
        }
        let about = About::new(checked);
        let watch = Arc::new(Watch::default());
        let answers = Arc::new(Answers {
            about,
            mailboxes: mailboxes.clone(),
            senders,
            tally,
            places,
            agreement: Mutex::default(),
            gates: Mutex::new(gates),
            door,
            limits: Mutex::default(),
            ports: Mutex::new(
                leaves.shown([Carries::of(&checked.field, mtus.1), Carries::of(&checked.uplink, mtus.0)]),
            ),
            links: Mutex::new([&checked.field, &checked.uplink].map(|port| (is_up(port), 0))),
            shares: Shares::default(),
            watch: Arc::clone(&watch),
            desk,
            overhead: path_mtu::overhead(checked),
            path: Mutex::default(),
            link_loss: Arc::default(),
            standby: Arc::default(),
            second: checked.second.as_ref().map(|port| Mutex::new(Second::of(port))),
        });
        let agreement = match &checked.protection {
            Keyed::Agreed { macsec, settings, cak, own } => {
                let mut suites = checked.protection.suites();
                if suites.len() > 1 {
                    fastest::order(&mut suites);
                }
                let own = (*own, config.express.as_ref().map(|_| express_sci(*own)));
                let participant =
                    agreement::participant(settings, macsec, own, senders, &checked.uplink, suites);
                let around = Around {
                    uplink: checked.uplink.clone(),
                    second: checked.second.clone(),
                    outer: config.uplink.outer.clone(),
                    carries_link_local: config.uplink.carries_link_local,
                    field: checked.field.clone(),
                    threads: mailboxes.clone(),
                    channels: own_channels,
                    shown: every_shown.clone(),
                    spread: Arc::clone(&spread),
                    out: Arc::clone(&out),
                    watch: Arc::clone(&watch),
                    hello_keys,
                };
                let agreement = Agreement::start(participant, macsec.fragmentation, cak, around)?;
                *lock(&answers.agreement) = Some(agreement.view());
                Some(agreement)
            }
            _ => None,
        };
        let (link_loss, hello) = match &answers.desk {
            Some(desk) => {
                let parts = || (Arc::clone(desk), Arc::clone(&answers.link_loss), Arc::clone(&watch));
                let (ends, view, notes) = parts();
                let link_loss = loss::port::start(checked, move |now| ends.hellos.far(now), view, notes)?;
                let (desk, view, notes) = parts();
                (link_loss, hello::start(checked, desk, view, notes)?)
            }
            None => (None, None),
        };
        let standby = match pair {
            Some(pair) => {
                let view = Arc::clone(&answers.standby);
                standby::start(checked, pair, view, Arc::clone(&watch), Arc::clone(&shown))?
            }
            None => None,
        };
        let loops = match answers.desk.as_ref().and_then(|desk| Some((desk, desk.guard.as_ref()?))) {
            Some((desk, (guard, _))) => {
                let both = (Arc::clone(desk), Arc::clone(guard));
                loops::start(checked, both, Arc::clone(&watch), Arc::clone(&shown))?
            }
            None => None,
        };
        let server = control::serve(socket, &config.control.socket, answers.clone())?;
        endpoints.apply(shows, &(answers.clone() as Arc<dyn StatusSource>));
        let watched = |interface: &Interface| Watched { interface: interface.clone(), up: is_up(interface) };
        let supervisor = Self {
            checked,
            mailboxes,
            threads,
            shown: every_shown,
            ledger: installed.ledger,
            _locks: installed.locks,
            agreement,
            answers,
            field: watched(&checked.field),
            uplink: watched(&checked.uplink),
            second: checked.second.as_ref().map(watched),
            leaves,
            spread,
            link_rate,
            summed: (0, 0),
            complained: None,
            symptoms: Symptoms::default(),
            surroundings: Surroundings::new(&checked.field, &checked.uplinks(), true),
            probes: Probes::default(),
            endpoints,
            link_loss,
            hello,
            standby,
            loops,
            _server: server,
            config,
        };
        supervisor.show_limits();
        tracing::info!(
            field = %checked.field.name, uplink = %checked.uplink.name, uplink_mtu = mtus.0,
            protection = supervisor.answers.about.protection, "forwarding"
        );
        Ok(supervisor)
    }

    /// Extends the reservation when half of it is used.
    fn reserve(&mut self) {
        let Some(encoding) = self.shown.first().map(|shown| shown.encoding.get()) else { return };
        let Some(an) = encoding.checked_sub(1).and_then(|an| An::new(u8::try_from(an).ok()?)) else { return };
        // The channels share the reservation. While they change to another association, those that
        // did so count.
        let changed = self.shown.iter().filter(|shown| shown.encoding.get() == encoding);
        let next = changed.map(|shown| shown.next_pn()).max().unwrap_or_default();
        let Some(ledger) = &mut self.ledger else { return };
        match ledger.refill(an, next) {
            Ok(None) => {}
            Ok(Some(limit)) => {
                self.post(|| Message::Reserve { an, limit });
                self.show_limits();
            }
            Err(error) => self
                .complain(&format!("packet numbers cannot be reserved: {error}; {}", state::remedy(&error))),
        }
        self.switch_when_exhausted(an, next);
    }

    /// Changes to the next association shortly before this one's packet numbers end.
    fn switch_when_exhausted(&mut self, an: An, next: u64) {
        let Some(ledger) = &self.ledger else { return };
        let Some(sa) = ledger.transmit().iter().find(|sa| sa.an == an) else { return };
        if !sa.is_near_end(next) {
            return;
        }
        match ledger.after(an) {
            Some(following) => {
                tracing::warn!(from = %an, to = %following, "packet numbers run out: using the next association");
                if let Err(refusal) = self.answers.switch(following) {
                    self.complain(&format!("cannot switch to association {following}: {refusal}"));
                }
            }
            None => self.complain("packet numbers run out and there is no other key: make new ones with `antedate keygen macsec`"),
        }
    }

    /// Records the received packet numbers. Returns whether the forwarding threads answer.
    fn note(&mut self) -> bool {
        let Some(snapshot) = self.answers.snapshot() else { return false };
        self.suspect(&snapshot);
        let Some(ledger) = &mut self.ledger else { return true };
        for sa in &snapshot.receive {
            ledger.received(sa.sci, sa.an, sa.next_pn);
        }
        if let Err(error) = ledger.commit() {
            self.complain(&format!(
                "what was received cannot be written down: {error}; {}",
                state::remedy(&error)
            ));
        }
        true
    }

    /// Watches for forged frames, and for offloads that cannot be completed.
    fn suspect(&mut self, snapshot: &Snapshot) {
        let key_age = match &*lock(&self.answers.agreement) {
            // Static keys are of any age.
            None => Some(Duration::MAX),
            Some(view) => {
                let view = lock(view);
                // With the old key, frames of both may be under way.
                let keys = view.as_ref().map(|seen| seen.status.keys);
                keys.and_then(|[latest, old]| latest.filter(|_| old.is_none())).map(|key| key.age)
            }
        };
        let [out, inward] = self.answers.tally.totals();
        let last = inward.forger.get();
        let watch = &self.answers.watch;
        self.symptoms.report(&snapshot.counters, key_age, last, watch);
        watch.count(Trouble::OwnSci, "", inward.own_sci.get(), "");
        let offloads = out.unsupported_offload.get() + inward.unsupported_offload.get();
        watch.count(Trouble::UnsupportedOffload, "", offloads, "");
        watch_stale(watch, [&out, &inward]);
        watch_storms(watch, [&out, &inward]);
        self.watch_uplinks(snapshot);
        watch_flows(watch, [&out, &inward], [self.field.up, self.uplink.up]);
    }

    /// Logs the frames that were refused, or too long, since the last summary.
    fn summary(&mut self) {
        let [out, inward] = self.answers.tally.totals();
        let refused: u64 =
            [&out, &inward].iter().flat_map(|c| &c.refused).map(crate::run::counters::Counter::get).sum();
        let too_long = out.too_long.get() + inward.too_long.get();
        let (before, long_before) = std::mem::replace(&mut self.summed, (refused, too_long));
        if refused > before {
            tracing::info!(
                frames = refused - before,
                "refused by the policy in the last minute; `antedate gateway status` tells the kinds"
            );
        }
        if too_long > long_before {
            tracing::warn!(
                frames = too_long - long_before,
                "too long for the port where they leave; raise the uplink's MTU or lower the field's"
            );
        }
    }

    /// Tells link loss forwarding and the standby which members key agreement knows to be live.
    fn tell_members(&self) {
        if (self.link_loss.is_some() || self.standby.is_some()) && self.agreement.is_some() {
            let members: Vec<_> = self.answers.members().into_iter().map(|(sci, ..)| sci).collect();
            self.answers.desk.iter().for_each(|desk| desk.hellos.follow(members.clone()));
            *lock(&self.answers.standby.members) = members;
        }
    }

    /// Logs an error, at most once a minute.
    fn complain(&mut self, what: &str) {
        let now = Instant::now();
        if self.complained.is_none_or(|last| now - last >= Duration::from_secs(60)) {
            self.complained = Some(now);
            tracing::error!("{what}");
        }
    }

    fn post(&self, message: impl Fn() -> Message) {
        for mailbox in &self.mailboxes {
            mailbox.post(message());
        }
    }

    fn show_limits(&self) {
        if let Some(ledger) = &self.ledger {
            *lock(&self.answers.limits) =
                ledger.transmit().iter().map(|sa| (sa.an, sa.numbers.limit())).collect();
        }
    }

    fn stop(mut self) -> Result<(), Fault> {
        drop((self.link_loss.take(), self.hello.take(), self.standby.take(), self.loops.take()));
        // Its thread may wait for answers of the forwarding threads, which still run.
        drop(self.agreement.take());
        self.post(|| Message::Stop);
        let (mut last, mut all) = (Snapshot::default(), true);
        for thread in self.threads.drain(..) {
            // A thread that panicked wiped its channels while unwinding.
            let Ok(worker) = thread.join() else {
                all = false;
                continue;
            };
            let mut worker = worker;
            for transmit in worker.outbound.iter_mut().flat_map(Outbound::channels) {
                last.transmitted(transmit);
            }
            if let Some(Inbound { validator: Validator::Macsec(receive), .. }) = &worker.inbound {
                last.received(receive);
            }
        }
        if let Some(mut ledger) = self.ledger.take() {
            for sa in &last.receive {
                ledger.received(sa.sci, sa.an, sa.next_pn);
            }
            // Prepared packet numbers are burnt, although none protected a frame. Those of a thread that
            // panicked are not known, and the channels share a reservation: all of it stays reserved.
            let known = last.transmit.iter().filter(|_| all);
            let next: Vec<_> = known.map(|(_, sa)| (sa.an, sa.next_pn + SLOTS as u64)).collect();
            let directory = &self.config.state.directory;
            ledger.close(&next).map_err(|error| state::fault(&error, Fault::of_file(directory, "", "")))?;
        }
        tracing::info!("stopped");
        Ok(())
    }
}

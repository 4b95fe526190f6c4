//! Takes over a configuration that was read again.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use antedate_channel::macsec::FlowShape;
use antedate_host::fault::Faults;

use super::Supervisor;
use crate::config::machine::ThisMachine;
use crate::config::reload::{Rekeyed, Reread, reread};
use crate::config::{Config, FlowTables, Flows, Rate};
use crate::frames::gate::Gate;
use crate::link::channels;
use crate::link::express::Selector;
use crate::link::fastest;
use crate::link::message::{Change, Message};
use crate::run::control::StatusSource;
use crate::run::lock;
use crate::run::mailbox::Mailbox;
use crate::run::reload::{TAKEN_OVER, told};
use crate::run::setup;

/// The shapes of flows that are to have tables.
pub(super) fn shapes(flows: Option<&Flows>) -> Vec<FlowShape> {
    match flows {
        Some(Flows { tables: FlowTables::On, shapes }) => shapes.clone(),
        Some(Flows { tables: FlowTables::Auto, shapes }) if fastest::tables_pay() => shapes.clone(),
        _ => Vec::new(),
    }
}

impl Supervisor<'_> {
    /// Reads the configuration again, and takes all of it over or nothing. Returns a sentence.
    pub(super) fn reload(&mut self) -> Result<String, Faults> {
        let Reread { config, keys, changed, warnings } =
            reread(&self.config, &self.checked.protection, &ThisMachine)?;
        // The steps that may be refused come first, the one that cannot be undone last.
        let shows = self.endpoints.prepare(&config)?;
        let caks = match (&keys, &self.agreement) {
            (Rekeyed::Caks(caks), Some(agreement)) => Some(agreement.reloader().reload(caks)?),
            _ => None,
        };
        for warning in &warnings {
            tracing::warn!("{warning:#}");
        }
        self.endpoints.apply(shows, &(self.answers.clone() as Arc<dyn StatusSource>));
        self.take_over(config);
        Ok(told(&self.config.file, &changed, caks))
    }

    fn take_over(&mut self, config: Config) {
        let gate = |_| Arc::new(Gate::after(&config.policy, &self.config.policy));
        let gates: Vec<_> = (0..self.answers.senders).map(gate).collect();
        let flows = (config.flows != self.config.flows).then(|| shapes(config.flows.as_ref()));
        let express = config.express.as_ref().filter(|_| config.express != self.config.express);
        let express = express.map(|settings| (settings, channels::rate(self.checked, settings.rate)));
        if let Some((settings, mbit)) = express {
            self.link_rate = (settings.rate == Rate::OfLink).then_some(mbit);
        }
        // A thread for each direction shares the gate, and each of several workers has its own.
        let of_threads = gates.iter().cycle();
        let post = |(mailbox, gate): (&Arc<Mailbox<Message>>, &Arc<Gate>)| -> Receiver<Box<Change>> {
            let (answer, answers) = mpsc::channel();
            let change = Change {
                gate: Arc::clone(gate),
                max_age: config.run.max_age,
                mode: setup::mode(config.run.poll),
                flows: flows.clone(),
                express: express.map(|(settings, mbit)| (Box::new(Selector::new(settings.clone())), mbit)),
            };
            mailbox.post(Message::Change(Box::new(change), answer));
            answers
        };
        let answers: Vec<_> = self.mailboxes.iter().zip(of_threads).map(post).collect();
        // The message stays in the mailbox of a thread that does not answer in time.
        if !answers.iter().all(|answers| answers.recv_timeout(TAKEN_OVER).is_ok()) {
            tracing::warn!("a forwarding thread is slow, and takes over the new settings later");
        }
        self.answers.tally.watch(config.watchdog_cycles);
        *lock(&self.answers.gates) = gates;
        self.answers.about.set_poll(config.run.poll);
        self.config = config;
    }
}

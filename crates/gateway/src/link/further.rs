//! The workers of a gateway behind the first one: both directions, each with a transmit channel of
//! its own, and the receive channels whose owner it is.
//!
//! The first worker is the forwarding thread of every gateway. It has the frames with a deadline, and
//! the messages of the gateway itself.

use std::sync::Arc;

use antedate_channel::macsec::{FlowShape, channel_scis};
use antedate_wire::Sci;

use crate::config::keys::channels;
use crate::config::{Checked, Keyed, Protection};
use crate::frames::gate::Gate;
use crate::link::channels::BothPorts;
use crate::link::echo::Desk;
use crate::link::path::{Inbound, Outbound, Protector, Validator};
use crate::run::tally::Tally;

/// What the workers have apart: ports, channels, policy.
#[derive(Debug)]
pub struct Parts {
    /// The ports of each worker behind the first.
    pub ports: Vec<BothPorts>,
    /// The secure channels of each.
    pub channels: Vec<(Protector, Validator)>,
    /// The policy of each worker, the first one's included.
    pub gates: Vec<Arc<Gate>>,
}

/// The directions of each worker behind the first.
#[must_use]
pub fn workers(
    checked: &Checked,
    parts: Parts,
    tally: &Tally,
    desk: Option<&Arc<Desk>>,
    shapes: &[FlowShape],
) -> Vec<(Outbound, Inbound)> {
    let Parts { ports, channels, gates } = parts;
    let all = ports.into_iter().zip(channels).zip(gates.into_iter().skip(1)).enumerate();
    all.map(|(before, (((out, inward), (protector, validator)), gate))| {
        let worker = before + 1;
        let [counted_out, counted_in] = tally.of(worker);
        let mut outbound = Outbound::new(out, Arc::clone(&gate), counted_out, protector);
        let mut inbound = Inbound::new(inward, gate, counted_in, validator);
        equip(checked, &mut outbound, &mut inbound);
        if !shapes.is_empty() {
            outbound.channels().for_each(|transmit| transmit.set_flows(shapes.to_vec()));
        }
        inbound.desk = desk.cloned();
        if let Some(own) = own(checked, worker) {
            inbound.watch_for(own);
        }
        (outbound, inbound)
    })
    .collect()
}

/// What each forwarding thread of a configuration does beside protection.
pub fn equip(checked: &Checked, outbound: &mut Outbound, inbound: &mut Inbound) {
    let config = &checked.config;
    if let Protection::Macsec(macsec) = &config.protection {
        outbound.fragments = macsec.fragmentation.agreed();
    }
    if let Some(outer) = &config.uplink.outer {
        outbound.tag_outside(outer);
        inbound.compare_outside(outer);
    }
    if config.uplink.carries_link_local {
        outbound.carry_link_local();
        inbound.take_link_local();
    }
}

/// The own channel whose frames would come to this worker if they came back. With one worker, the
/// gateway's SCI.
#[must_use]
pub fn own(checked: &Checked, worker: usize) -> Option<Sci> {
    let workers = checked.config.run.threads.channels();
    match &checked.protection {
        Keyed::Agreed { own, .. } => {
            channel_scis(*own, workers as u8).find(|sci| channels::owner(*sci, workers) == worker)
        }
        Keyed::Macsec { own, keys, .. } => {
            let all = keys.member(*own).into_iter().flat_map(channels::all).map(|(sci, _)| sci);
            all.take(workers).find(|sci| channels::owner(*sci, workers) == worker)
        }
        Keyed::Overlay { .. } | Keyed::Plain => None,
    }
}

//! Chooses how frames leave by a port.

use antedate_host::fault::Fault;

use crate::config::io::{Io, Leave};
use crate::config::machine::{Interface, Machine};
use crate::config::read::Draft;
use crate::config::{Protection, SecondUplink};
use crate::sys::xdp::XdpError;

/// A driver that hands frames over at once, whatever their queue.
const AT_ONCE: &str = "veth";

/// One of the ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Field,
    Uplink,
}

/// An obstacle, and what can be done.
struct Obstacle {
    what: String,
    remedy: &'static str,
}

/// Chooses the way of a port's frames. A fault if it is configured and cannot be.
pub(super) fn choose(
    draft: &Draft,
    side: Side,
    port: &Interface,
    machine: &dyn Machine,
) -> Result<Leave, Fault> {
    let (io, key) = match side {
        Side::Field => (draft.field.as_ref().map(|field| field.io), "field.io"),
        Side::Uplink => (draft.uplink.io, "uplink.io"),
    };
    let io = io.unwrap_or_default();
    let ring = |why: String| Leave { xdp: false, must: false, in_order: true, why };
    if io == Io::Ring {
        return Ok(ring("as configured".to_owned()));
    }
    let found = match of_settings(draft, side) {
        Some(obstacle) => Err(obstacle),
        None => machine.card(port).map_err(of_machine),
    };
    match found {
        Err(Obstacle { what, remedy }) if io == Io::Xdp => {
            Err(draft.lines.fault(&draft.file, key, format!("\"xdp\" cannot be here: {what}"), remedy))
        }
        Err(Obstacle { what, .. }) => Ok(ring(what)),
        Ok(card) => {
            let at_once = card.driver.as_deref() == Some(AT_ONCE);
            let in_order = at_once || card.queues <= 1;
            let xdp = |must, why: &str| Leave { xdp: true, must, in_order, why: why.to_owned() };
            Ok(match io {
                Io::Xdp => xdp(true, "as configured"),
                _ if at_once => xdp(false, "it costs less on a veth pair"),
                _ if in_order => xdp(false, "the interface has one transmit queue"),
                _ => ring(format!(
                    "the interface has {} transmit queues; io = \"xdp\" would take the first one alone",
                    card.queues
                )),
            })
        }
    }
}

/// The obstacle in the configuration.
fn of_settings(draft: &Draft, side: Side) -> Option<Obstacle> {
    let obstacle = |what: &str, remedy| Some(Obstacle { what: what.to_owned(), remedy });
    if draft.run.as_ref().is_some_and(|run| !run.qdisc_bypass) {
        return obstacle("frames pass the queueing discipline", "remove run.qdisc_bypass, or write \"ring\"");
    }
    if matches!(draft.protection, Some(Protection::Overlay(_))) {
        return obstacle("an overlay sends super-frames", "remove the line");
    }
    if draft.run.as_ref().is_some_and(|run| run.threads.channels() > 1) {
        return obstacle(
            "several workers send, and a queue has one socket",
            "remove the line, or run.workers",
        );
    }
    if matches!(&draft.second_uplink, Some(Some(SecondUplink { .. }))) && side == Side::Uplink {
        return obstacle("there are two uplinks", "remove the line, or [second_uplink]");
    }
    if draft.transparent_clock == Some(true) {
        return obstacle(
            "only a packet socket stamps PTP messages",
            "remove the line, or ptp.transparent_clock",
        );
    }
    None
}

fn of_machine(error: XdpError) -> Obstacle {
    Obstacle { remedy: error.remedy(), what: error.to_string() }
}

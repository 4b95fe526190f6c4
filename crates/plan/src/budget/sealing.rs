//! The costs of sealing a message, and the choice of its cipher.

use super::{Message, Scenario};
use crate::device::{self, Cipher, Device, Way};

/// The costs of a message with a cipher, without any waiting.
pub(super) struct Sealing {
    /// none if the device sends plain, and relays protect
    pub(super) cipher: Option<Cipher>,
    pub(super) way: Way,
    pub(super) before: f64,
    pub(super) online: f64,
    pub(super) fallback: f64,
    pub(super) step: f64,
    pub(super) receiving: f64,
    pub(super) memory: usize,
}

fn sealing(scenario: &Scenario<'_>, message: &Message, cipher: Cipher) -> Option<Sealing> {
    let Scenario { device, antedated, .. } = *scenario;
    let costs = device.costs(cipher)?;
    let way = if antedated { Way::Template } else { Way::Unmodified };
    let Message { size, known, front, new_blocks, .. } = message;
    let counts = |device: &Device, way| {
        let costs = device.costs(cipher)?;
        let (before, online) = device::counts(costs, cipher, way, *size, *front, size - known, *new_blocks);
        Some((device.ms(before), device.ms(online)))
    };
    let (before, prepared) = counts(device, way)?;
    let (_, fallback) = counts(device, Way::Unmodified)?;
    // A preparation that is not quicker is left out.
    let (way, before, online) =
        if prepared < fallback { (way, before, prepared) } else { (Way::Unmodified, 0.0, fallback) };
    let receiving = match scenario.receiver {
        Some(receiver) => match device::opening(receiver.costs(cipher)?, way, *size) {
            Some(opening) => receiver.ms(opening),
            None => counts(receiver, way)?.1,
        },
        None => 0.0,
    };
    let step = if before > 0.0 {
        let step = if costs.step > 0.0 { costs.step } else { costs.prepare.block };
        device.ms(step).min(before)
    } else {
        0.0
    };
    let memory = match way {
        Way::Unmodified => 0,
        // A slot's cipherstream, its state, and a power and a position for each new block.
        _ if cipher.is_sparse() => size.next_multiple_of(64) + 96 + 24 * new_blocks,
        _ => size + 92,
    };
    Some(Sealing { cipher: Some(cipher), way, before, online, fallback, step, receiving, memory })
}

/// Nothing to do for the device: relays protect.
const PLAIN: Sealing = Sealing {
    cipher: None,
    way: Way::Unmodified,
    before: 0.0,
    online: 0.0,
    fallback: 0.0,
    step: 0.0,
    receiving: 0.0,
    memory: 0,
};

/// The quickest sealing at the deadline among the permitted ciphers.
pub(super) fn best(scenario: &Scenario<'_>, message: &Message) -> Option<Sealing> {
    if scenario.bearer.protects() {
        return Some(PLAIN);
    }
    let permitted = |one: &Cipher| scenario.cipher.is_none_or(|only| only == *one);
    let ciphers = Cipher::ALL.into_iter().filter(permitted);
    ciphers
        .filter_map(|cipher| sealing(scenario, message, cipher))
        .min_by(|a, b| (a.online + a.receiving).total_cmp(&(b.online + b.receiving)))
}

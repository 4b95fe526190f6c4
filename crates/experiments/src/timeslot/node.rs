//! The counts of a slot: of the node on the Cortex-M3 (program `tsch` of `firmware/`), of the ciphers
//! and the frames alone on the MSP430 (`slots`), whose flash the node exceeds.

use antedate_plan::strategy::{Costs, blocks};

use super::Count;
use crate::ExperimentError;

/// Levels that a node prepares. Level 4 has no MIC that would tell a wrong prediction.
pub(super) const PREPARED: [usize; 6] = [1, 2, 3, 5, 6, 7];

/// Octets of an acknowledgment without MIC, with a security header of 10 (TSCH) or 14.
const ACK: [u32; 2] = [27, 31];

/// The counts of a slot.
pub(super) struct Counts {
    /// nothing prepared, all foreseen, and the work before the slot
    pub(super) costs: Costs,
    /// of a whole node
    pub(super) node: Option<Node>,
    /// octets of all preparations, or of the node with them and its tables
    pub(super) ram: f64,
}

/// What only a node has.
pub(super) struct Node {
    /// sec1 to sec4 in a slot that the nodes did not prepare for, per level
    pub(super) worst: [[f64; 4]; 8],
    /// octets of `ram` that are allocated at the start: keys, tables, the queue
    pub(super) heap: f64,
}

/// The ciphers and the frames, without a node.
pub(super) fn ciphers(count: &Count) -> Result<Counts, ExperimentError> {
    let mut costs = Costs { block: count("slot-block")?, ack: ACK[1], ..Costs::default() };
    for (level, counted) in costs.levels.iter_mut().enumerate() {
        for operation in 0..4 {
            let name = format!("slot-{level}-sec{}", operation + 1);
            counted.plain[operation] = count(&name)?;
            counted.antedated[operation] = counted.plain[operation];
            if level > 0 {
                counted.antedated[operation] = count(&format!("{name}-antedated"))?;
            }
            // At level 4 an acknowledgment has nothing to prepare.
            if level > 0 && (level != 4 || operation < 2) {
                counted.before[operation] = count(&format!("{name}-prepare"))?;
            }
        }
    }
    let ram = 2.0 * (count("slot-ram-frame")? + count("slot-ram-ack")?);
    Ok(Counts { costs, node: None, ram })
}

/// sec1 to sec4 at a level.
fn operations(count: &Count, level: usize, state: &str) -> Result<[f64; 4], ExperimentError> {
    let get = |operation: &str| count(&format!("tsch-{level}-{state}-{operation}"));
    let sec2 = get("sec2")?;
    Ok([get("sec1")?, sec2, get("sec23")? - sec2, get("sec4")?])
}

/// A whole node.
pub(super) fn node(count: &Count) -> Result<Counts, ExperimentError> {
    let mut costs = Costs { block: count("slot-block")?, ack: ACK[0], ..Costs::default() };
    let mut worst = [[0.0; 4]; 8];
    for (level, counted) in costs.levels.iter_mut().enumerate() {
        counted.plain = operations(count, level, "plain")?;
        (counted.antedated, worst[level]) = (counted.plain, counted.plain);
        if PREPARED.contains(&level) {
            counted.antedated = operations(count, level, "ahead")?;
            worst[level] = operations(count, level, "wrong")?;
            // The blocks of the acknowledgment; the rest is the frame's.
            let done = |operation| {
                let [plain, ahead] = [false, true].map(|ahead| blocks(level, operation, ahead, ACK[0]));
                f64::from(plain.saturating_sub(ahead))
            };
            let acks = [done(2) * costs.block, done(3) * costs.block];
            let [receiver, sender] =
                ["receiver", "sender"].map(|end| count(&format!("tsch-{level}-before-{end}")));
            counted.before = [sender? - acks[1], receiver? - acks[0], acks[0], acks[1]];
        }
    }
    let heap = count("tsch-ram-heap")?;
    Ok(Counts { costs, node: Some(Node { worst, heap }), ram: count("tsch-ram-node")? + heap })
}

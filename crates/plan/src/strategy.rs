//! Strategies (table II of sciancalepore2016), unmodified and antedated.
//!
//! The costs of software are counted: programs of `firmware/` run each operation on an emulated
//! mote, on the Cortex-M3 that of a whole node. The engines are models: *hybrid* replaces each AES
//! block of the counted operation by one in the AES engine, *hardware* hands the frame to the CCM*
//! engine. An engine's model may come out slower than the software here; it is reported as such.

use serde::Serialize;

use crate::platform::Platform;
use crate::timeslot::Operations;

/// The implementation of AES and CCM*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// both in software
    Software,
    /// AES in an engine
    Hybrid,
    /// CCM* in an engine
    Hardware,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 3] = [Self::Software, Self::Hybrid, Self::Hardware];

    /// The name of the strategy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Hybrid => "hybrid",
            Self::Hardware => "hardware",
        }
    }

    /// The strategy of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name)
    }
}

/// Names of the security levels.
pub const LEVELS: [&str; 8] =
    ["no security", "MIC-32", "MIC-64", "MIC-128", "ENC", "ENC-MIC-32", "ENC-MIC-64", "ENC-MIC-128"];

/// Octets of the MIC, per security level.
pub const MIC: [u32; 8] = [0, 4, 8, 16, 0, 4, 8, 16];

/// Counted costs of sec1 to sec4 on a platform, in its counts (instructions or cycles).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counted {
    /// unmodified
    pub plain: [f64; 4],
    /// antedated, at the deadline
    pub antedated: [f64; 4],
    /// antedated, before the slot
    pub before: [f64; 4],
}

/// The counts of a platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Costs {
    /// per security level
    pub levels: [Counted; 8],
    /// an AES block
    pub block: f64,
    /// octets of an acknowledgment without MIC
    pub ack: u32,
}

/// Octets of a frame's header with an auxiliary security header of 14. With one of 10, as TSCH has it,
/// the numbers of blocks are the same.
const HEADER: u32 = 35;
const FRAME: u32 = 125;

/// AES blocks of an operation (0 for sec1 to 3 for sec4), unmodified or antedated at the deadline, with
/// an acknowledgment of `ack` octets without MIC.
#[must_use]
pub fn blocks(level: usize, operation: usize, antedated: bool, ack: u32) -> u32 {
    let mic = MIC[level % 8];
    let private = (FRAME - HEADER - mic).div_ceil(16);
    let acknowledgment = operation >= 2;
    match (level, acknowledgment, antedated) {
        (0, ..) | (4, true, _) => 0,
        // B0, two octets of length and the acknowledgment, S0.
        (_, true, false) => 1 + (2 + ack).div_ceil(16) + 1,
        // The blocks of the time correction, the last two octets.
        (_, true, true) => (2 + ack).div_ceil(16) - ack / 16,
        (4, false, false) => private,
        (4, false, true) => 0,
        (1..=3, false, false) => 1 + (2 + FRAME - mic).div_ceil(16) + 1,
        (_, false, false) => 1 + (2 + HEADER).div_ceil(16) + 2 * private + 1,
        // A queued frame is sealed before its slot.
        (_, false, true) if operation == 0 => 0,
        (1..=3, false, true) => (2 + FRAME - mic).div_ceil(16) - (2 + HEADER) / 16,
        // The header's last block, which depends on the bytes behind it, and the payload.
        (_, false, true) => 1 + private,
    }
}

fn octets(costs: &Costs, operation: usize) -> f64 {
    f64::from(if operation >= 2 { costs.ack } else { FRAME })
}

/// The security part of an operation's cost. The rest occurs without security too, and the
/// platform's times include it.
fn security_alone(costs: &Costs, count: f64, operation: usize) -> f64 {
    (count - costs.levels[0].plain[operation]).max(0.0)
}

fn milliseconds(platform: &Platform, count: f64) -> f64 {
    count * platform.cycles_per_count / (platform.mhz * 1000.0)
}

/// The time that security adds to the four operations.
#[must_use]
pub fn operations(
    platform: &Platform,
    costs: &Costs,
    level: usize,
    strategy: Strategy,
    antedated: bool,
) -> Operations {
    let one = |operation: usize| {
        let plain = one_of(platform, costs, level, strategy, false, operation);
        if !antedated {
            return plain;
        }
        // Late is never worse: where the engine is quicker than the remainder of a preparation, the
        // engine does the operation.
        one_of(platform, costs, level, strategy, true, operation).min(plain)
    };
    if level == 0 {
        return Operations::default();
    }
    Operations { sec1: one(0), sec2: one(1), sec3: one(2), sec4: one(3) }
}

/// A block in the AES engine, in milliseconds: sixteen octets in and sixteen out.
fn engine_block(platform: &Platform) -> f64 {
    platform.aes_block + platform.transfer * 32.0 / 127.0
}

fn one_of(
    platform: &Platform,
    costs: &Costs,
    level: usize,
    strategy: Strategy,
    antedated: bool,
    operation: usize,
) -> f64 {
    let counted = &costs.levels[level % 8];
    let count = if antedated { counted.antedated[operation] } else { counted.plain[operation] };
    let software = milliseconds(platform, security_alone(costs, count, operation));
    let blocks = f64::from(blocks(level, operation, antedated, costs.ack));
    match strategy {
        Strategy::Software => software,
        Strategy::Hybrid => {
            (software - milliseconds(platform, blocks * costs.block)).max(0.0)
                + blocks * engine_block(platform)
        }
        // A prepared frame is complete, or software processes its last octets; an engine cannot
        // continue a preparation.
        Strategy::Hardware if antedated => software,
        Strategy::Hardware if level == 4 && operation >= 2 => 0.0,
        Strategy::Hardware => {
            let octets = octets(costs, operation);
            platform.ccm_start + platform.ccm_octet * octets + platform.transfer * octets / 127.0
        }
    }
}

/// CPU time of the preparation before a slot, in milliseconds, of sender and receiver.
///
/// An operation is not prepared where an engine in the slot is quicker than the remainder of a
/// preparation.
#[must_use]
pub fn before(platform: &Platform, costs: &Costs, level: usize, strategy: Strategy) -> [f64; 2] {
    let one = |operation: usize| {
        let [plain, antedated] =
            [false, true].map(|ahead| one_of(platform, costs, level, strategy, ahead, operation));
        let software = milliseconds(platform, costs.levels[level % 8].before[operation]);
        match strategy {
            _ if level == 0 || plain <= antedated => 0.0,
            Strategy::Hybrid => {
                // Blocks not left for the slot are done before it, one by one in the engine.
                let [all, left] = [false, true].map(|ahead| blocks(level, operation, ahead, costs.ack));
                let done = f64::from(all.saturating_sub(left));
                (software - milliseconds(platform, done * costs.block)).max(0.0)
                    + done * engine_block(platform)
            }
            Strategy::Software | Strategy::Hardware => software,
        }
    };
    [one(0) + one(3), one(1) + one(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_match_ccm_star() {
        // ENC-MIC-32: B0, three of the header, six of payload, six of cipherstream, S0.
        let of = |level, operation, antedated| blocks(level, operation, antedated, 31);
        assert_eq!(of(5, 0, false), 17);
        assert_eq!((of(5, 0, true), of(5, 1, true)), (0, 7));
        // MIC-32: B0, eight, S0.
        assert_eq!((of(1, 1, false), of(1, 1, true)), (10, 6));
        assert_eq!((of(4, 0, false), of(4, 2, false), of(0, 0, false)), (6, 0, 0));
        assert_eq!((of(7, 2, false), of(7, 3, true)), (5, 2));
        // The time correction lies in one block.
        assert_eq!((blocks(7, 2, false, 27), blocks(7, 3, true, 27)), (4, 1));
    }
}

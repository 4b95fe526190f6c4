//! Devices: the cost of sealing a packet, prepared and unprepared.
//!
//! A cost is a straight line over 16-byte blocks and 64-byte units, with an addend for a partial
//! last block. The lines of the motes are fitted to the counts of the programs in `firmware/`
//! (`antedate lab scenarios` compares them with every point again). Vector instructions do not
//! follow a line, so `antedate plan --calibrate` records the cost of each number of blocks.

use serde::{Deserialize, Serialize};

/// A cost over blocks, in the device's counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// independent of the length
    pub fixed: f64,
    /// for each block of 16 bytes
    pub block: f64,
    /// if the last block is partial, or holes cover their blocks partially
    #[serde(default)]
    pub partial: f64,
    /// for each unit of 64 bytes, the step of some ciphers' cipherstream
    #[serde(default)]
    pub unit: f64,
    /// costs of 1, 2, ... blocks instead of the line; longer payloads continue from the last by
    /// `block`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<f64>,
    /// costs with a partial last block, instead of `partial`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partials: Vec<f64>,
}

/// A single new block at the end, which a serial MAC processes without its loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Single {
    /// a whole block
    pub whole: f64,
    /// a partial block
    pub partial: f64,
    /// addend for each byte of a partial block
    pub byte: f64,
}

impl Line {
    const fn new(fixed: f64, block: f64, partial: f64, unit: f64) -> Self {
        Self { fixed, block, partial, unit, blocks: Vec::new(), partials: Vec::new() }
    }

    /// The cost of `bytes` bytes.
    #[must_use]
    pub fn at(&self, bytes: usize) -> f64 {
        self.of(bytes.div_ceil(16), bytes.is_multiple_of(16))
    }

    /// The cost of `blocks` blocks; `whole` if the last is not partial.
    #[must_use]
    pub fn of(&self, blocks: usize, whole: bool) -> f64 {
        let (table, partial) = match whole {
            true => (&self.blocks, 0.0),
            false if self.partials.is_empty() => (&self.blocks, self.partial),
            false => (&self.partials, 0.0),
        };
        match table.last() {
            Some(last) if blocks > 0 => {
                let beyond = self.block * blocks.saturating_sub(table.len()) as f64;
                table.get(blocks - 1).unwrap_or(last) + beyond + partial
            }
            _ => {
                // A unit is four blocks.
                self.fixed + self.block * blocks as f64 + self.unit * blocks.div_ceil(4) as f64 + partial
            }
        }
    }
}

/// The ciphers of the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Cipher {
    /// AES-128-CCM with a tag of 8 bytes: static bytes of a template at the front
    #[serde(rename = "aes-128-ccm-8")]
    Ccm8,
    /// AES-128-GCM: holes anywhere
    #[serde(rename = "aes-128-gcm")]
    Gcm,
    /// ChaCha20-Poly1305: holes anywhere
    #[serde(rename = "chacha20-poly1305")]
    ChaCha,
}

impl Cipher {
    /// All ciphers, those with the least code first.
    pub const ALL: [Self; 3] = [Self::Ccm8, Self::Gcm, Self::ChaCha];

    /// The name of the cipher.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ccm8 => "aes-128-ccm-8",
            Self::Gcm => "aes-128-gcm",
            Self::ChaCha => "chacha20-poly1305",
        }
    }

    /// The cipher of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.name() == name)
    }

    /// Whether the cipher takes holes anywhere.
    #[must_use]
    pub const fn is_sparse(self) -> bool {
        !matches!(self, Self::Ccm8)
    }

    /// Bytes of the tag.
    #[must_use]
    pub const fn tag(self) -> usize {
        if matches!(self, Self::Ccm8) { 8 } else { 16 }
    }
}

/// The costs of a cipher on a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// sealing without preparation, by payload
    pub seal: Line,
    /// preparing, by payload
    pub prepare: Line,
    /// sealing at the deadline: with CCM by the bytes behind the front, otherwise by the blocks
    /// with holes
    pub online: Line,
    /// the same for a serial MAC without a prepared front, by payload
    #[serde(default)]
    pub antedated: Option<Line>,
    /// instead of `online` if a single block is new
    #[serde(default)]
    pub single: Option<Single>,
    /// opening, apart from sealing; without it, opening costs the same as sealing
    #[serde(default)]
    pub open: Option<Opening>,
    /// the longest step of preparation
    #[serde(default)]
    pub step: f64,
}

/// The costs of opening, by payload. A receiver that knows the next packet's number prepares its
/// cipherstream; what the packet contains it cannot know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// without preparation
    pub plain: Line,
    /// with a prepared cipherstream
    pub expected: Line,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// name
    pub name: String,
    /// description, and source of its numbers
    #[serde(default)]
    pub about: String,
    /// counts per microsecond
    pub counts_per_us: f64,
    /// power of the CPU at work, in mW
    #[serde(default)]
    pub cpu_mw: f64,
    /// bytes of RAM
    #[serde(default)]
    pub ram: Option<u64>,
    /// its operating system; none if messages need no time there
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Stack>,
    /// AES-128-CCM_8
    #[serde(rename = "aes-128-ccm-8", default)]
    pub ccm8: Option<Costs>,
    /// AES-128-GCM
    #[serde(rename = "aes-128-gcm", default)]
    pub gcm: Option<Costs>,
    /// ChaCha20-Poly1305
    #[serde(rename = "chacha20-poly1305", default)]
    pub chacha: Option<Costs>,
}

impl Device {
    /// The costs of a cipher, if known.
    #[must_use]
    pub const fn costs(&self, cipher: Cipher) -> Option<&Costs> {
        match cipher {
            Cipher::Ccm8 => self.ccm8.as_ref(),
            Cipher::Gcm => self.gcm.as_ref(),
            Cipher::ChaCha => self.chacha.as_ref(),
        }
    }

    /// The reason why the device is unusable, if any.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !positive(self.counts_per_us) {
            return Some("counts_per_us: must be more than 0".into());
        }
        if !self.cpu_mw.is_finite() || self.cpu_mw < 0.0 {
            return Some("cpu_mw: must be 0 or more".into());
        }
        if let Some(why) = self.stack.as_ref().and_then(Stack::fault) {
            return Some(why);
        }
        let mut any = false;
        for cipher in Cipher::ALL {
            let Some(Costs { seal, prepare, online, antedated, single, open, step }) = self.costs(cipher)
            else {
                continue;
            };
            any = true;
            let antedated = antedated.clone().unwrap_or_default();
            let single = single.unwrap_or_default();
            let open = open.clone().unwrap_or_default();
            // A partial last block may cost less.
            let lines = [seal, prepare, online, &antedated, &open.plain, &open.expected].into_iter();
            let costs = lines.flat_map(|line| {
                [line.fixed, line.block, line.unit]
                    .into_iter()
                    .chain(line.blocks.iter().chain(&line.partials).copied())
            });
            let costs = costs.chain([single.whole, single.partial, single.byte, *step]);
            let small = [seal.at(1), prepare.at(1), online.at(1)];
            if costs.chain(small).any(|value| !value.is_finite() || value < 0.0) {
                return Some(format!("{}: a cost must be 0 or more", cipher.name()));
            }
        }
        (!any).then(|| "no cipher: a device needs the costs of one".into())
    }

    /// Converts counts to milliseconds.
    #[must_use]
    pub fn ms(&self, counts: f64) -> f64 {
        counts / self.counts_per_us / 1000.0
    }
}

/// Measured delays of an operating system, in us: pairs of a share of packets and the delay within
/// which they pass. The last pair has the share 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// from the application's call to the link
    pub send_us: Vec<(f64, f64)>,
    /// from the link to the woken application
    pub receive_us: Vec<(f64, f64)>,
}

impl Stack {
    /// Send path and receive path of a share of packets, in us.
    #[must_use]
    pub fn at(&self, share: f64) -> [f64; 2] {
        [&self.send_us, &self.receive_us].map(|known| crate::bearer::at_quantile(known, share))
    }

    fn fault(&self) -> Option<String> {
        crate::bearer::delays_fault("stack: send_us", &self.send_us, 1.0)
            .or_else(|| crate::bearer::delays_fault("stack: receive_us", &self.receive_us, 1.0))
    }
}

/// The kind of sealing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// without preparation
    Unmodified,
    /// with all known bytes prepared
    Antedated,
    /// with all prepared that is known
    Template,
}

/// Counts of a packet, before and at the deadline. `front` is the bytes before the first new byte,
/// `new` the new bytes, and `new_blocks` the blocks with new bytes.
#[must_use]
pub fn counts(
    costs: &Costs,
    cipher: Cipher,
    way: Way,
    size: usize,
    front: usize,
    new: usize,
    new_blocks: usize,
) -> (f64, f64) {
    if way == Way::Unmodified {
        return (0.0, costs.seal.at(size));
    }
    let before = costs.prepare.at(size);
    let online = if cipher.is_sparse() {
        match way {
            Way::Template if new_blocks == 0 => 0.0,
            Way::Template => costs.online.of(new_blocks, new == 16 * new_blocks),
            _ if size == 0 => 0.0,
            _ => costs.online.of(size.div_ceil(16), true),
        }
    } else {
        let rest = if way == Way::Template { size - front.min(size) / 16 * 16 } else { size };
        match (&costs.antedated, &costs.single) {
            (Some(antedated), _) if way == Way::Antedated => antedated.at(size),
            (_, Some(single)) if rest == 16 => single.whole,
            (_, Some(single)) if rest < 16 => single.partial + single.byte * rest as f64,
            _ => costs.online.at(rest),
        }
    };
    (before, online)
}

/// Counts of opening a packet at its arrival, with the cipherstream prepared unless the way is
/// [`Way::Unmodified`]; none if only sealing is known.
#[must_use]
pub fn opening(costs: &Costs, way: Way, size: usize) -> Option<f64> {
    let Opening { plain, expected } = costs.open.as_ref()?;
    let plain = plain.at(size);
    Some(if way == Way::Unmodified { plain } else { expected.at(size).min(plain) })
}

/// The built-in devices.
#[must_use]
pub fn all() -> Vec<Device> {
    let device =
        |name: &str, about: &str, counts_per_us, cpu_mw, ram, [ccm8, gcm, chacha]: [Option<&Costs>; 3]| {
            Device {
                name: name.into(),
                about: about.into(),
                counts_per_us,
                cpu_mw,
                ram: Some(ram),
                stack: None,
                ccm8: ccm8.cloned(),
                gcm: gcm.cloned(),
                chacha: chacha.cloned(),
            }
        };
    vec![
        device(
            "msp430-16mhz",
            "MSP430F2617 at 16 MHz, AES in software; cycles counted by the simulator",
            16.0,
            // 515 uA a MHz at 3 V (datasheet SLAS541).
            24.7,
            8 * 1024,
            [Some(&MSP430_CCM), Some(&MSP430_GCM), Some(&MSP430_CHACHA)],
        ),
        device(
            "msp430-16mhz-aes",
            "the same with an AES engine of 0.24 ms a block, as hiller2018 has it; modelled",
            16.0,
            24.7,
            8 * 1024,
            [Some(&MSP430_ENGINE_CCM), None, Some(&MSP430_CHACHA)],
        ),
        device(
            "cortex-m3-32mhz",
            "Cortex-M3 at 32 MHz; instructions counted by QEMU, at an assumed 1.5 cycles each",
            32.0 / 1.5,
            39.0,
            32 * 1024,
            [Some(&M3_CCM), Some(&M3_GCM), Some(&M3_CHACHA)],
        ),
    ]
}

/// The device of a name.
#[must_use]
pub fn find(name: &str) -> Option<Device> {
    all().into_iter().find(|device| device.name == name)
}

#[path = "device_counts.rs"]
mod counted;
use counted::{M3_CCM, M3_CHACHA, M3_GCM, MSP430_CCM, MSP430_CHACHA, MSP430_ENGINE_CCM, MSP430_GCM};

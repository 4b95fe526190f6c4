//! Packets of the emulated motes.

use antedate_plan::device::Cipher;

use super::Counted;
use crate::motes::{self, Count};
use crate::{ExperimentError, Options};

/// A packet: size, known octets, and the program's word for its sealing.
type Packet = (usize, usize, &'static str);

const CCM: [Packet; 3] = [(80, 0, "seal"), (112, 48, "48-front-online"), (1008, 48, "48-front-online")];
const ENGINE: [Packet; 6] = [
    (15, 0, "seal"),
    (48, 32, "32-front-online"),
    (112, 0, "seal"),
    (208, 48, "48-front-online"),
    (512, 48, "48-front-online"),
    (1008, 48, "48-front-online"),
];
const GCM: [Packet; 1] = [(300, 284, "16-template-online")];
const CHACHA: [Packet; 2] = [(80, 64, "16-template-online"), (1521, 1489, "32-template-online")];

/// The longest packet that a mote opens with a prepared cipherstream.
const OPENED: usize = 512;

/// Runs the motes' programs and takes eighteen packets, of sizes that the planner's lines were fitted
/// over. Counts are exact and repeat.
///
/// # Errors
/// Programs that are missing or fail.
pub fn counted(options: &Options) -> Result<Vec<Counted>, ExperimentError> {
    let mut done = 0;
    let motes = motes::scenarios(|what| {
        options.progress(done, 9, what);
        done += 1;
    })?;
    options.progress(9, 9, "");
    let mut points = Vec::new();
    for (device, counts) in ["msp430-16mhz", "msp430-16mhz-aes", "cortex-m3-32mhz"].into_iter().zip(&motes) {
        let ccm: &[Packet] = if counts.gcm.is_some() { &CCM } else { &ENGINE };
        let all: [(Cipher, &str, Option<&Count>, &[Packet]); 3] = [
            (Cipher::Ccm8, "scenario", Some(&counts.ccm), ccm),
            (Cipher::Gcm, "gcm", counts.gcm.as_ref(), &GCM),
            (Cipher::ChaCha, "chacha", counts.chacha.as_ref(), &CHACHA),
        ];
        for (cipher, what, count, packets) in all {
            let Some(count) = count else { continue };
            for &(size, known, sealing) in packets {
                let antedated = sealing != "seal";
                let opened = size <= OPENED;
                let opening = if antedated { "open-online" } else { "open" };
                let sealing = count(&format!("{what}-{size}-{sealing}"))?;
                let opening = if opened { count(&format!("{what}-{size}-{opening}"))? } else { 0.0 };
                let counts = sealing + opening;
                points.push(Counted { device, cipher, antedated, size, known, opened, counts });
            }
        }
    }
    Ok(points)
}

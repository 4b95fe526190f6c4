//! Measures which cipher suite is the fastest on this CPU (`cipher = "auto"`).
//!
//! A frame is sealed and opened without preparation: preparation only moves part of this work into
//! idle time. The weights of the frame sizes are those of Lackorzynski et al. 2020, table IV. The
//! minimum of several short batches counts, which excludes other load.

use std::time::{Duration, Instant};

use antedate_aead::research::Morus1280;
use antedate_aead::{
    Aegis128L, Aes128Gcm, Aes128Ocb3, Aes256Gcm, AsconAead128, Backend, ChaCha20Poly1305, Key,
    KeyLengthError, Nonce, Suite,
};
use antedate_channel::macsec::{An, CipherSuite, FlowShape, Sak, Sci, Transmit, TransmitConfig};

/// Frame sizes in octets and their weights.
pub const WEIGHTS: [(usize, f64); 6] =
    [(128, 0.5), (256, 0.2), (512, 0.1), (1024, 0.1), (1400, 0.05), (1518, 0.05)];
/// Octets of addresses and SecTAG, which are authenticated only.
const HEADER: usize = 28;
/// Octets of the addresses.
const ADDRESSES: usize = 12;

/// The effort of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Batches of each size.
    pub batches: u32,
    /// Frames of a batch.
    pub frames: u32,
}

impl Effort {
    /// At the start of the daemon: some hundredths of a second for all suites.
    pub const START: Self = Self { batches: 8, frames: 4 };
}

/// Nanoseconds to seal and open a frame.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// For each size of [`WEIGHTS`].
    pub each: [f64; WEIGHTS.len()],
    /// The weighted mean.
    pub weighted: f64,
}

/// Sorts the suites, the fastest first, and logs the times.
pub fn order(suites: &mut [CipherSuite]) {
    let begin = Instant::now();
    let measured: Vec<(CipherSuite, f64)> =
        suites.iter().map(|suite| (*suite, of(*suite, Backend::detect(), Effort::START).weighted)).collect();
    let time =
        |suite: &CipherSuite| measured.iter().find(|(known, _)| known == suite).map_or(0.0, |(_, ns)| *ns);
    // XPN costs nothing and was not requested: of suites with one cipher the plain one comes first.
    suites.sort_by(|a, b| a.is_xpn().cmp(&b.is_xpn()).then(time(a).total_cmp(&time(b))));
    let told: Vec<String> = suites.iter().map(|suite| format!("{suite} {:.0} ns", time(suite))).collect();
    tracing::info!(took = ?begin.elapsed(), "cipher suites, the fastest first: {}", told.join(", "));
}

/// The times of a suite with a backend of this CPU.
#[must_use]
pub fn of(suite: CipherSuite, backend: Backend, effort: Effort) -> Times {
    let times = match suite {
        CipherSuite::GcmAes128 | CipherSuite::GcmAesXpn128 => measure::<Aes128Gcm>(backend, effort),
        CipherSuite::GcmAes256 | CipherSuite::GcmAesXpn256 => measure::<Aes256Gcm>(backend, effort),
        CipherSuite::ChaCha20Poly1305 => measure::<ChaCha20Poly1305>(backend, effort),
        CipherSuite::Aegis128L => measure::<Aegis128L>(backend, effort),
        CipherSuite::AsconAead128 => measure::<AsconAead128>(backend, effort),
        CipherSuite::Aes128Ocb3 => measure::<Aes128Ocb3>(backend, effort),
        CipherSuite::Morus1280 => measure::<Morus1280>(backend, effort),
    };
    // The key has the suite's length.
    times.unwrap_or(Times { each: [f64::MAX; WEIGHTS.len()], weighted: f64::MAX })
}

fn measure<S: Suite>(backend: Backend, effort: Effort) -> Result<Times, KeyLengthError>
where
    S::NonceBytes: Default + Copy,
{
    let octets = [0x5a; 32];
    let key = Key::<S>::with_backend(octets.get(..S::KEY_LEN).unwrap_or_default(), backend)?;
    let header = [0x5a; HEADER];
    let mut times = Times { each: [0.0; WEIGHTS.len()], weighted: 0.0 };
    for ((len, weight), each) in WEIGHTS.into_iter().zip(&mut times.each) {
        let data = vec![0xa5; len - ADDRESSES];
        let (mut sealed, mut opened) = (data.clone(), data.clone());
        let mut least = Duration::MAX;
        for _ in 0..effort.batches {
            let begin = Instant::now();
            for _ in 0..effort.frames {
                // The nonce repeats: no frame is sent, and the key is not secret.
                let nonce = S::NonceBytes::default();
                let tag = key.seal(Nonce::assume_unique(nonce), &header, &data, &mut sealed);
                let genuine = key.open(nonce, &header, &sealed, &mut opened, tag.as_bytes());
                std::hint::black_box(genuine.is_ok());
            }
            least = least.min(begin.elapsed());
        }
        *each = least.as_nanos() as f64 / f64::from(effort.frames);
        times.weighted += weight * *each;
    }
    Ok(times)
}

/// Measures whether flow tables are faster on this CPU, for a frame of 128 octets with four varying
/// blocks, the packet number's included. Logs the times.
#[must_use]
pub fn tables_pay() -> bool {
    let [ordinary, tables] = [false, true].map(|tables| one_flow(tables).as_nanos());
    let pay = tables * 10 < ordinary * 9;
    tracing::info!(pay, "flow tables: {tables} ns for a frame of 128 octets, {ordinary} ns without");
    pay
}

/// The minimum time for a prepared frame of one flow.
fn one_flow(tables: bool) -> Duration {
    const LEN: usize = 128;
    let frame = |number: u8| {
        let mut frame = [2u8; LEN];
        frame[12..16].copy_from_slice(&[0x88, 0x92, 0x80, 0x01]);
        frame[40..72].fill(number);
        frame
    };
    let suite = CipherSuite::GcmAes128;
    let sak = Sak::new(suite, &[0x5a; 16], None).ok();
    let transmit = Transmit::new(TransmitConfig::new(suite, Sci([2, 0, 0, 0, 0, 1, 0, 1]))).ok();
    let (Some(sak), Some(mut transmit)) = (sak, transmit) else { return Duration::MAX };
    // The frames are not sent, and the key protects nothing else.
    if transmit.install(An::ALL[0], &sak, 1, u64::MAX).is_err() {
        return Duration::MAX;
    }
    if tables {
        transmit.set_flows(vec![FlowShape { begins: vec![0x88, 0x92], holes: vec![28..44, 44..60] }]);
    }
    let (mut least, mut out) = (Duration::MAX, [0; LEN + 32]);
    for number in 0..64 {
        let frame = frame(number);
        let begin = Instant::now();
        let protected = transmit.protect(std::hint::black_box(&frame), &mut out);
        let time = begin.elapsed();
        let served = (transmit.counters().out_by_tables > 0) == tables;
        if protected.is_ok() && served {
            least = least.min(time);
        }
        while transmit.idle(64) > 0 {}
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_is_measured_with_both_ways() {
        for tables in [false, true] {
            assert!(one_flow(tables) < Duration::from_secs(1), "{tables}");
        }
    }

    #[test]
    fn ordering_keeps_all_and_puts_xpn_last() {
        let mut suites = CipherSuite::ALL;
        order(&mut suites);
        assert!(CipherSuite::ALL.iter().all(|suite| suites.contains(suite)));
        assert!(suites[7..].iter().all(|suite| suite.is_xpn()), "{suites:?}");
    }

    #[test]
    fn all_suites_run_on_all_backends() {
        let effort = Effort { batches: 1, frames: 1 };
        for suite in CipherSuite::ALL {
            for backend in Backend::available() {
                let times = of(suite, backend, effort);
                assert!(times.weighted > 0.0 && times.weighted < 1e9, "{suite} {backend:?} {times:?}");
            }
        }
    }
}

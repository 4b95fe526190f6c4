//! Goals: speed-up over the peers, by medians of one run.

use crate::field::What;
use crate::results::Results;
use serde_json::{Value, json};

/// A target number and its measurement.
pub struct Goal {
    name: String,
    wanted: String,
    measured: Option<(f64, String)>,
    met: bool,
}

const GCM: &str = "aes-128-gcm";
const CHACHA: &str = "chacha20-poly1305";
const CCM: &str = "aes-128-ccm-8";
const ONE: What = What::SealDynamic(1);

/// The peer of a ratio.
#[derive(Clone, Copy)]
enum Peer {
    Crate,
    IpsecMb,
}

/// Cipher, prepared operation, length, peer and required speed-up.
const FASTER: &[(&str, What, usize, Peer, f64)] = &[
    (GCM, ONE, 64, Peer::Crate, 6.0),
    (GCM, ONE, 1500, Peer::Crate, 30.0),
    (GCM, ONE, 64, Peer::IpsecMb, 5.0),
    (GCM, ONE, 1500, Peer::IpsecMb, 15.0),
    (GCM, What::SealAllNew, 1500, Peer::Crate, 3.0),
    (GCM, What::SealAllNew, 1500, Peer::IpsecMb, 1.8),
    (CHACHA, ONE, 64, Peer::Crate, 9.0),
    (CHACHA, ONE, 1500, Peer::Crate, 45.0),
    (CHACHA, ONE, 64, Peer::IpsecMb, 9.0),
    (CHACHA, ONE, 1500, Peer::IpsecMb, 30.0),
    (CHACHA, What::SealAllNew, 64, Peer::Crate, 5.0),
    (CHACHA, What::SealAllNew, 1500, Peer::Crate, 8.0),
    (CCM, ONE, 64, Peer::Crate, 6.0),
    (CCM, ONE, 1500, Peer::Crate, 40.0),
];

/// The instructions of the machine that the goals were set on, and whether this one has them.
#[cfg(target_arch = "x86_64")]
fn instructions() -> [(&'static str, bool); 4] {
    [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ("vaes", is_x86_feature_detected!("vaes")),
        ("vpclmulqdq", is_x86_feature_detected!("vpclmulqdq")),
    ]
}

/// The instructions that this machine lacks, for each row.
#[cfg(target_arch = "x86_64")]
fn lacking() -> Option<String> {
    let missing: Vec<&str> =
        instructions().into_iter().filter(|(_, here)| !here).map(|(name, _)| name).collect();
    (!missing.is_empty()).then(|| format!("this machine lacks {}", missing.join(", ")))
}

#[cfg(not(target_arch = "x86_64"))]
fn lacking() -> Option<String> {
    Some("set on x86-64".into())
}

/// The unprepared form may be so many times as slow as the fastest peer's.
const UNPREPARED: f64 = 1.02;

/// All goals, evaluated on this run.
pub fn all(results: &Results, ciphers: &[&'static str]) -> Vec<Goal> {
    let ran = |cipher: &str| ciphers.contains(&cipher);
    let wanted = FASTER.iter().filter(|goal| ran(goal.0));
    let mut goals: Vec<Goal> = wanted.map(|goal| faster(results, *goal)).collect();
    for cipher in [GCM, CHACHA].into_iter().filter(|cipher| ran(cipher)) {
        let lens = results.lens(cipher);
        let times = lens.iter().filter_map(|&len| results.ours(cipher, len, ONE));
        let (low, high) = times.fold((f64::INFINITY, 0.0_f64), |(low, high), t| (low.min(t), high.max(t)));
        let measured = (high > 0.0).then(|| (high / low, format!("{low:.1} to {high:.1} ns")));
        goals.push(at_most(format!("{cipher}, {}: slowest length over fastest", ONE.name()), 1.2, measured));
    }
    for cipher in ciphers {
        for what in [What::Seal, What::Open] {
            let ratio = |len: usize| {
                let (peer, who) = results.peers(cipher, len, what)?;
                Some((results.ours(cipher, len, what)? / peer, format!("at {len} bytes, {who}")))
            };
            let name = format!("{cipher}, {}: ours over the fastest peer", what.name());
            goals.push(at_most(name, UNPREPARED, worst(results.lens(cipher), ratio)));
        }
    }
    for cipher in ciphers {
        for what in [What::Prepare, What::PrepareDynamic] {
            let ratio = |len: usize| {
                let seal = results.ours(cipher, len, What::Seal)?;
                Some((results.ours(cipher, len, what)? / seal, format!("at {len} bytes")))
            };
            let measured = worst(results.lens(cipher), ratio);
            if measured.is_some() {
                goals.push(at_most(format!("{cipher}, {}: over its own seal", what.name()), 2.0, measured));
            }
        }
    }
    if let Some(lacking) = lacking() {
        for (_, detail) in goals.iter_mut().filter_map(|goal| goal.measured.as_mut()) {
            detail.push_str(&format!(" ({lacking})"));
        }
    }
    goals
}

fn faster(results: &Results, (cipher, what, len, peer, times): (&str, What, usize, Peer, f64)) -> Goal {
    let (name, theirs) = match peer {
        Peer::Crate => ("fastest crate", results.crates(cipher, len, what.replaces())),
        Peer::IpsecMb => {
            ("ipsec-mb", results.ipsec_mb(cipher, len, what.replaces()).map(|t| (t, "ipsec-mb")))
        }
    };
    let measured = theirs
        .zip(results.ours(cipher, len, what))
        .map(|((theirs, who), ours)| (theirs / ours, format!("{ours:.1} ns, {who} {theirs:.1} ns")));
    let met = measured.as_ref().is_some_and(|(ratio, _)| *ratio >= times);
    let name = format!("{cipher}, {}, {len} bytes: {name} over ours", what.name());
    Goal { name, wanted: format!("at least {times}"), measured, met }
}

fn at_most(name: String, bound: f64, measured: Option<(f64, String)>) -> Goal {
    let met = measured.as_ref().is_some_and(|(ratio, _)| *ratio <= bound);
    Goal { name, wanted: format!("at most {bound}"), measured, met }
}

fn worst(lens: Vec<usize>, ratio: impl Fn(usize) -> Option<(f64, String)>) -> Option<(f64, String)> {
    lens.into_iter().filter_map(ratio).max_by(|a, b| a.0.total_cmp(&b.0))
}

impl Goal {
    /// Whether it was measured here and not met.
    pub fn missed(&self) -> bool {
        self.measured.is_some() && !self.met
    }

    /// For the JSON result.
    pub fn json(&self) -> Value {
        let (value, detail) = self.measured.clone().unzip();
        json!({ "name": self.name, "goal": self.wanted, "value": value, "detail": detail, "met": self.met })
    }
}

/// The table of goals, measurements and results.
pub fn table(goals: &[Goal]) -> String {
    let width = goals.iter().map(|goal| goal.name.chars().count()).max().unwrap_or(0);
    let mut text = format!("{:width$}  {:>12}  {:>9}  met\n", "", "goal", "measured");
    for Goal { name, wanted, measured, met } in goals {
        let (value, detail) = match measured {
            Some((value, detail)) => (format!("{value:.2}"), detail.as_str()),
            None => ("-".into(), "not measured in this run"),
        };
        let met = match (measured, met) {
            (None, _) => "-",
            (_, true) => "yes",
            (_, false) => "NO",
        };
        text.push_str(&format!("{name:width$}  {wanted:>12}  {value:>9}  {met:3}  {detail}\n"));
    }
    text
}

//! The engine beside other implementations: the latency of sealing over the payload's length, with a
//! chart for each cipher. The benchmark and the report draw it.

use crate::axis::Kind;
use crate::chart::{self, Curve, Texts};

/// A measured latency.
#[derive(Clone, Copy, Debug)]
pub struct Latency<'a> {
    /// The cipher's name.
    pub cipher: &'a str,
    /// Octets of payload.
    pub len: usize,
    /// The implementation.
    pub who: &'a str,
    /// The operation, as the benchmark names it.
    pub what: &'a str,
    /// The median in nanoseconds.
    pub ns: f64,
}

/// The engine's name among the implementations.
pub const OURS: &str = "antedate";
/// The operation of all implementations that is drawn, and those of the engine alone.
const SEAL: &str = "seal";
const PREPARED: [(&str, &str, usize); 2] = [
    ("seal, prepared, all new", "antedate, prepared, all new", 5),
    ("seal, prepared, 1 new", "antedate, prepared, 1 block new", 2),
];
/// Beginning of the name of Intel's library, which is no crate.
const LIBRARY: &str = "ipsec-mb";

/// Draws all ciphers. `None` without a latency.
#[must_use]
pub fn figure(title: &str, latencies: &[Latency<'_>]) -> Option<String> {
    let mut ciphers: Vec<&str> = Vec::new();
    for latency in latencies {
        if !ciphers.contains(&latency.cipher) {
            ciphers.push(latency.cipher);
        }
    }
    let charts: Vec<(String, String)> =
        ciphers.into_iter().filter_map(|cipher| of_cipher(cipher, latencies)).collect();
    let description = "A chart for each cipher: the time of one packet over its length, both in decades.";
    (!charts.is_empty()).then(|| chart::column(&Texts { title, axis: "", description }, &charts))
}

fn of_cipher(cipher: &str, latencies: &[Latency<'_>]) -> Option<(String, String)> {
    type Of = fn(&Latency<'_>) -> bool;
    let groups: [(&str, usize, Of); 3] = [
        ("fastest crate", 1, |of| of.what == SEAL && of.who != OURS && !of.who.starts_with(LIBRARY)),
        (LIBRARY, 4, |of| of.what == SEAL && of.who.starts_with(LIBRARY)),
        ("antedate, not prepared", 0, |of| of.what == SEAL && of.who == OURS),
    ];
    let own = latencies.iter().filter(|of| of.cipher == cipher);
    let mut curves: Vec<Curve<'_>> = groups
        .into_iter()
        .map(|(name, hue, is)| (name, hue, fastest(own.clone().filter(|of| is(of)))))
        .collect();
    curves.extend(PREPARED.into_iter().map(|(what, name, hue)| {
        (name, hue, fastest(own.clone().filter(|of| of.who == OURS && of.what == what)))
    }));
    curves.retain(|(.., points)| !points.is_empty());
    let texts = Texts {
        title: cipher,
        axis: "latency (ns)",
        description: "The fastest of each group at each length.",
    };
    let drawn = chart::curves(&texts, "payload (bytes)", [Kind::Logarithmic; 2], &curves);
    (!curves.is_empty()).then(|| (cipher.to_owned(), drawn))
}

/// The smallest latency at each length, by length.
fn fastest<'a>(of: impl Iterator<Item = &'a Latency<'a>>) -> Vec<[f64; 2]> {
    let mut points: Vec<[f64; 2]> = Vec::new();
    for latency in of.filter(|of| of.ns.is_finite() && of.ns > 0.0) {
        let len = latency.len as f64;
        match points.iter_mut().find(|[at, _]| *at == len) {
            Some([_, ns]) => *ns = ns.min(latency.ns),
            None => points.push([len, latency.ns]),
        }
    }
    points.sort_by(|a, b| a[0].total_cmp(&b[0]));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fastest_of_each_group_is_drawn() {
        let of = |who, what, len, ns| Latency { cipher: "aes-128-gcm", len, who, what, ns };
        let all = [
            of("ring", SEAL, 64, 80.0),
            of("openssl", SEAL, 64, 110.0),
            of("ring", SEAL, 16, 79.0),
            of("ipsec-mb job", SEAL, 64, 43.0),
            of(OURS, SEAL, 64, 50.0),
            of(OURS, PREPARED[1].0, 64, 12.0),
            of(OURS, "prepare", 64, 90.0),
            of("broken", SEAL, 64, f64::NAN),
        ];
        assert_eq!(fastest(all[..3].iter()), [[16.0, 79.0], [64.0, 80.0]]);
        let svg = figure("The engine", &all).expect("drawn");
        assert_eq!(svg.matches("<polyline ").count(), 4, "{svg}");
        for name in ["fastest crate", "ipsec-mb", "not prepared", "1 block new"] {
            assert_eq!(svg.matches(name).count(), 1, "{name}");
        }
        assert!(!svg.contains("all new"), "not measured");
        assert_eq!(figure("The engine", &[]), None);
        assert_eq!(figure("The engine", &[of("ring", "open", 16, 1.0)]), None, "nothing is sealed");
    }
}

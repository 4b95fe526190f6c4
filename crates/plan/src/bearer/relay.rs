//! Measured delays, and relays that protect what devices send plain.

use serde::{Deserialize, Serialize};

use super::Bearer;

/// The kind of a pair of relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// MACsec gateways
    Gateway,
    /// an overlay: VXLAN in WireGuard
    Overlay,
    /// DTLS proxies
    DtlsProxy,
}

/// Both gateways: `docs/src/measurements.md`, 64 octets each millisecond; half of the round trip's
/// median, and its tail as one way's.
const GATEWAY_US: [(f64, f64); 3] = [(0.5, 6.9), (0.99, 20.0), (0.999, 47.9)];
/// Both ends of an overlay: `docs/src/overlay.md`, ours to ours.
const OVERLAY_US: [(f64, f64); 2] = [(0.5, 12.8), (0.999, 140.0)];
/// Both proxies: `docs/src/dtls.md`, up to 1200 octets; nothing is known beyond the 99th percentile.
const PROXY_US: [(f64, f64); 2] = [(0.5, 54.0), (0.99, 219.0)];

impl Via {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Overlay => "overlay",
            Self::DtlsProxy => "dtls-proxy",
        }
    }

    /// The given delays, or the measured ones.
    pub(super) fn added(self, given: &[(f64, f64)]) -> &[(f64, f64)] {
        match self {
            _ if !given.is_empty() => given,
            Self::Gateway => &GATEWAY_US,
            Self::Overlay => &OVERLAY_US,
            Self::DtlsProxy => &PROXY_US,
        }
    }

    /// Octets that the relays add to a packet.
    pub(super) const fn octets(self) -> usize {
        match self {
            // SecTAG with SCI, and ICV.
            Self::Gateway => 16 + 16,
            // Ethernet, VXLAN, UDP, IP, WireGuard, UDP, IP.
            Self::Overlay => 14 + 8 + 8 + 20 + 32 + 8 + 20,
            // Record header, explicit nonce, tag.
            Self::DtlsProxy => 13 + 8 + 16,
        }
    }

    pub(super) const fn carried_by(self, over: &Bearer) -> bool {
        matches!(
            over,
            Bearer::FastEthernet(_) | Bearer::Gigabit(_) | Bearer::Wireguard { .. } | Bearer::Loopback
        )
    }
}

/// The reason why delays are impossible, or unknown at a quantile.
pub(crate) fn fault(what: &str, known: &[(f64, f64)], quantile: f64) -> Option<String> {
    let rising = known.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    let sane =
        known.iter().all(|(share, delay)| (0.0..=1.0).contains(share) && delay.is_finite() && *delay >= 0.0);
    let last = known.last().map_or(0.0, |(share, _)| *share);
    if known.is_empty() || !rising || !sane {
        Some(format!(
            "{what} needs pairs [share, delay] with rising shares between 0 and 1 and delays that do not fall"
        ))
    } else if !(0.0..=1.0).contains(&quantile) {
        Some(format!("{what}: quantile must be between 0 and 1"))
    } else {
        (quantile > last).then(|| {
            format!("{what} ends before the quantile {quantile}; give delays up to it, or a lower quantile")
        })
    }
}

/// The delay of a share of packets, interpolated linearly between the known shares.
pub(crate) fn at_quantile(known: &[(f64, f64)], quantile: f64) -> f64 {
    let mut before = known.first().copied().unwrap_or_default();
    for &(share, delay) in known {
        if share >= quantile {
            let span = share - before.0;
            let part = if span > 0.0 { (quantile - before.0).max(0.0) / span } else { 1.0 };
            return before.1 + part * (delay - before.1);
        }
        before = (share, delay);
    }
    before.1
}

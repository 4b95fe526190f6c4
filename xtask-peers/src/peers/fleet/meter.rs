//! What a quiet fleet costs its servers.

use super::cluster::Cluster;
use std::time::Instant;

/// Messages and octets of a quiet fleet.
pub(super) struct Meter {
    begin: Instant,
    before: [f64; 4],
    seconds: f64,
}

/// Counters of all servers.
const COUNTERS: [&str; 4] = ["in_msgs", "in_bytes", "out_msgs", "out_bytes"];

impl Meter {
    fn sums(cluster: &Cluster) -> Result<[f64; 4], String> {
        let mut sums = [0.0; 4];
        for (sum, key) in sums.iter_mut().zip(COUNTERS) {
            *sum = cluster.sum(key)?;
        }
        Ok(sums)
    }

    pub(super) fn begin(cluster: &Cluster) -> Result<Self, String> {
        Ok(Self { begin: Instant::now(), before: Self::sums(cluster)?, seconds: cluster.load()?.0 })
    }

    pub(super) fn end(
        &self,
        cluster: &Cluster,
        count: usize,
        note: &mut dyn FnMut(String),
    ) -> Result<(), String> {
        let window = self.begin.elapsed().as_secs_f64();
        let mut days = Vec::new();
        for (key, (before, after)) in COUNTERS.iter().zip(self.before.iter().zip(Self::sums(cluster)?)) {
            let day = (after - before) / window * 86_400.0 / (count + 2) as f64;
            days.push(format!("{key} {day:.0}"));
        }
        let (seconds, memory) = cluster.load()?;
        note(format!(
            "a device and day, over all servers, replication included, by {window:.0} s: {}; each server stores {:.1} MB and has {:.0} MB in memory; the three take {:.1} % of a CPU",
            days.join(", "),
            cluster.stored()? / 1e6,
            memory / 1e6,
            (seconds - self.seconds) / window * 100.0
        ));
        Ok(())
    }
}

//! `--stats`: frames, octets and intervals of each sender, receiver, kind and verdict.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

/// The most rows. The rest is one more.
const ROWS_MAX: usize = 4096;

/// A packet, as it is counted.
pub(super) struct Counted<'a> {
    pub(super) seconds: f64,
    pub(super) octets: usize,
    pub(super) source: &'a str,
    pub(super) destination: &'a str,
    pub(super) kind: &'a str,
    /// The EtherType, or the topic.
    pub(super) within: Option<&'a str>,
    pub(super) verdict: &'a str,
}

/// A line that is counted.
pub(super) trait Packet {
    fn counted(&self) -> Counted<'_>;
}

/// Packets of one sender, receiver, kind and verdict.
#[derive(Debug, Default, Serialize)]
struct Row {
    source: String,
    destination: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<String>,
    verdict: String,
    frames: u64,
    octets: u64,
    /// Seconds of the first one and the last one.
    first: f64,
    last: f64,
    /// Seconds between one and the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    shortest: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    longest: Option<f64>,
}

impl Row {
    fn add(&mut self, packet: &Counted<'_>) {
        if self.frames == 0 {
            self.first = packet.seconds;
        } else {
            let interval = (packet.seconds - self.last).max(0.0);
            self.shortest = Some(self.shortest.map_or(interval, |least| least.min(interval)));
            self.longest = Some(self.longest.map_or(interval, |most| most.max(interval)));
        }
        self.last = packet.seconds;
        self.frames += 1;
        self.octets += packet.octets as u64;
    }

    /// The mean of the intervals.
    fn mean(&self) -> Option<f64> {
        (self.frames > 1).then(|| (self.last - self.first).max(0.0) / (self.frames - 1) as f64)
    }
}

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Stats {
    rows: HashMap<u64, Row>,
    rest: Row,
}

impl Stats {
    pub(super) fn add(&mut self, packet: &Counted<'_>) {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let Counted { source, destination, kind, within, verdict, .. } = packet;
        let mut name = DefaultHasher::new();
        (source, destination, kind, within, verdict).hash(&mut name);
        let is_full = self.rows.len() >= ROWS_MAX;
        let row = match self.rows.entry(name.finish()) {
            std::collections::hash_map::Entry::Occupied(row) => row.into_mut(),
            std::collections::hash_map::Entry::Vacant(_) if is_full => &mut self.rest,
            std::collections::hash_map::Entry::Vacant(place) => place.insert(Row {
                source: (*source).to_owned(),
                destination: (*destination).to_owned(),
                kind: (*kind).to_owned(),
                within: within.map(ToOwned::to_owned),
                verdict: (*verdict).to_owned(),
                ..Row::default()
            }),
        };
        row.add(packet);
    }

    /// The rows, those with the most octets first.
    pub(super) fn table(self) -> Table {
        let mut rows: Vec<Row> = self.rows.into_values().collect();
        rows.sort_by(|a, b| b.octets.cmp(&a.octets).then_with(|| a.source.cmp(&b.source)));
        let verdict = format!("others than the first {ROWS_MAX}");
        rows.extend((self.rest.frames > 0).then_some(Row { verdict, ..self.rest }));
        Table { stats: rows }
    }
}

/// The rows on the way out.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    stats: Vec<Row>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>10} {:>13} {:>10} {:>10} {:>10}  packets",
            "frames", "octets", "least ms", "mean ms", "most ms"
        )?;
        for row in &self.stats {
            let ms =
                |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{:.3}", time * 1e3));
            let [least, mean, most] = [row.shortest, row.mean(), row.longest].map(ms);
            write!(f, "{:>10} {:>13} {least:>10} {mean:>10} {most:>10}  ", row.frames, row.octets)?;
            let Row { source, destination, kind, within, verdict, .. } = row;
            let within = within.as_deref().map(|within| format!(" [{within}]")).unwrap_or_default();
            match source.is_empty() {
                true => writeln!(f, "{verdict}")?,
                false => writeln!(f, "{source} > {destination} {kind}{within} {verdict}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(source: &str, seconds: f64) -> Counted<'_> {
        let (destination, kind, within, verdict) = ("b", "macsec", Some("8892"), "authentic");
        Counted { seconds, octets: 100, source, destination, kind, within, verdict }
    }

    #[test]
    fn intervals_are_measured() {
        let mut stats = Stats::default();
        for seconds in [0.0, 0.004, 0.012] {
            stats.add(&packet("a", seconds));
        }
        stats.add(&packet("c", 0.005));
        let text = stats.table().to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines[1],
            "3           300      4.000      6.000      8.000  a > b macsec [8892] authentic"
        );
        assert_eq!(
            lines[2],
            "1           100          -          -          -  c > b macsec [8892] authentic"
        );
    }

    #[test]
    fn rows_are_bounded() {
        let mut stats = Stats::default();
        for number in 0..ROWS_MAX + 10 {
            stats.add(&packet(&number.to_string(), 0.0));
        }
        let table = stats.table();
        assert_eq!(table.stats.len(), ROWS_MAX + 1);
        assert_eq!(table.stats.last().map(|row| row.frames), Some(10));
    }
}

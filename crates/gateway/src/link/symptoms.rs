//! Forged, unknown and replayed frames, for the watch.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::run::trouble::Trouble;
use crate::run::watch::{Watch, address_of};

/// The kinds of frames, each with MACsec's counters and the number in a second that is normal.
const KINDS: [(Trouble, &[&str], u64); 3] = [
    (Trouble::ForgedFrames, &["InPktsNotValid", "InPktsBadTag"], 0),
    (Trouble::UnknownFrames, &["InPktsNoSCI", "InPktsNotUsingSA"], 0),
    // Frames that overtake each other, now and then.
    (Trouble::ReplayedFrames, &["InPktsLate"], 9),
];
/// The time after a change of keys in which frames of earlier keys may arrive.
const UNSETTLED: Duration = Duration::from_secs(6);

/// The counts of suspicious frames.
#[derive(Debug, Default)]
pub struct Symptoms {
    known: [u64; KINDS.len()],
    suspicious: [u64; KINDS.len()],
}

impl Symptoms {
    /// Compares the counters with those of a second ago. `key_age` is the age of the agreed key, if
    /// there is one; `last` is the source of the last frame that looked forged.
    pub fn report(
        &mut self,
        counters: &BTreeMap<String, u64>,
        key_age: Option<Duration>,
        last: u64,
        watch: &Watch,
    ) {
        let settled = key_age.is_some_and(|age| age >= UNSETTLED);
        for ((trouble, names, normal), (known, suspicious)) in
            KINDS.iter().zip(self.known.iter_mut().zip(&mut self.suspicious))
        {
            let total = names.iter().filter_map(|name| counters.get(*name)).sum();
            let more = u64::saturating_sub(total, std::mem::replace(known, total));
            if settled && more > *normal {
                *suspicious += more;
            }
            let detail = match trouble {
                Trouble::ReplayedFrames => String::new(),
                _ => format!("last from {}", address_of(last)),
            };
            watch.count(*trouble, "", *suspicious, &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Option<Duration> = Some(Duration::from_secs(60));

    fn counts(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
        all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn names(watch: &Watch) -> Vec<String> {
        watch.active().into_iter().map(|warning| warning.name).collect()
    }

    #[test]
    fn forged_and_unknown_frames_speak() {
        let (mut symptoms, watch) = (Symptoms::default(), Watch::default());
        symptoms.report(&counts(&[("InPktsNotValid", 0), ("InPktsOK", 9)]), OLD, 0, &watch);
        assert!(watch.active().is_empty());
        symptoms.report(&counts(&[("InPktsNotValid", 1)]), OLD, 0x0200_0000_0009, &watch);
        symptoms.report(&counts(&[("InPktsNotValid", 1), ("InPktsNoSCI", 2)]), OLD, 9, &watch);
        assert_eq!(names(&watch), ["forged-frames", "unknown-frames"]);
        let first = &watch.active()[0];
        assert_eq!(first.count, 1);
        assert!(watch.active()[1].what.contains("last from 00:00:00:00:00:09"), "{first:?}");
    }

    #[test]
    fn frames_of_earlier_keys_are_silent() {
        let (mut symptoms, watch) = (Symptoms::default(), Watch::default());
        symptoms.report(&counts(&[("InPktsNotValid", 500)]), None, 0, &watch);
        symptoms.report(&counts(&[("InPktsNotValid", 900)]), Some(Duration::from_secs(2)), 0, &watch);
        symptoms.report(&counts(&[("InPktsNotValid", 900)]), OLD, 0, &watch);
        assert!(watch.active().is_empty());
        symptoms.report(&counts(&[("InPktsNotValid", 901)]), OLD, 0, &watch);
        assert_eq!(watch.active()[0].count, 1);
    }

    #[test]
    fn single_late_frames_are_silent() {
        let (mut symptoms, watch) = (Symptoms::default(), Watch::default());
        for late in 0..50 {
            symptoms.report(&counts(&[("InPktsLate", 9 * late)]), OLD, 0, &watch);
        }
        assert!(watch.active().is_empty());
        symptoms.report(&counts(&[("InPktsLate", 9 * 49 + 10)]), OLD, 0, &watch);
        assert_eq!(names(&watch), ["replayed-frames"]);
    }
}

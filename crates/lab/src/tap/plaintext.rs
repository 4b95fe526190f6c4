//! Searches frames for process data, which should not be readable.

use std::collections::HashSet;

use crate::station::process_data::{IMAGE, MARKER};

/// Length in octets of a run that counts as found; shorter ones occur by chance.
pub const RUN: usize = 8;

/// All runs of [`RUN`] octets of the stations' static process data.
#[derive(Clone, Debug)]
pub struct Search {
    runs: HashSet<[u8; RUN]>,
    /// First two octets of all runs; excludes nearly every offset by one access.
    begins: Vec<bool>,
}

impl Default for Search {
    fn default() -> Self {
        // The image repeats, so runs across its end are those of two images in a row.
        let text: Vec<u8> = MARKER.iter().chain(IMAGE).chain(IMAGE).copied().collect();
        let runs: HashSet<[u8; RUN]> = text.windows(RUN).filter_map(|run| run.try_into().ok()).collect();
        let mut begins = vec![false; 1 << 16];
        runs.iter().for_each(|run| begins[begin(run)] = true);
        Self { runs, begins }
    }
}

fn begin(octets: &[u8]) -> usize {
    usize::from(octets[0]) << 8 | usize::from(octets[1])
}

impl Search {
    /// The offset of the first run of process data in `octets`.
    #[must_use]
    pub fn find(&self, octets: &[u8]) -> Option<usize> {
        octets.windows(RUN).position(|window| self.begins[begin(window)] && self.runs.contains(window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::station::process_data::{ProcessData, Writer};

    #[test]
    fn process_data_is_found_wherever_it_lies() {
        let search = Search::default();
        let mut object = vec![0; 300];
        Writer::prepare(&mut object).unwrap().write(&mut object, &ProcessData::default());
        let mut frame = vec![0xee; 23];
        frame.extend_from_slice(&object);
        assert_eq!(search.find(&frame), Some(23));
        assert!(search.find(&object[100..120]).is_some());
        assert!(search.find(&object[100..100 + RUN]).is_some());
        assert_eq!(search.find(&object[100..100 + RUN - 1]), None);
    }

    #[test]
    fn other_octets_are_no_find() {
        let search = Search::default();
        let noise: Vec<u8> = (0..4_096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_eq!(search.find(&noise), None);
        assert_eq!(search.find(b"PROC"), None);
        assert_eq!(search.find(b""), None);
    }
}

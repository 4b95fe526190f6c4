//! State of a subscriber: the numbers of the publishers that it heard, so that a recording is not
//! delivered after a restart.

use std::path::{Path, PathBuf};
use std::time::Duration;

use antedate_host::clock::Moment;
use antedate_host::fault::Fault;
use antedate_host::numbers::{KeyId, NumberFile, NumbersError, NumbersErrorKind};

use super::{Secret, State, opened, place};

/// The pause between two records of repetitions.
const PAUSE: Duration = Duration::from_secs(1);

/// What was heard, on disk.
pub(in super::super) struct Heard {
    directory: PathBuf,
    file: NumberFile,
    key: KeyId,
    recorded: Moment,
}

impl Heard {
    pub(in super::super) fn open(
        directory: &Path,
        secret: &Secret,
        state: State,
        volatile: bool,
    ) -> Result<Self, Fault> {
        let file = opened(directory, state, volatile).map_err(|error| fault(directory, error))?;
        Ok(Self { directory: directory.to_owned(), file, key: secret.id(), recorded: Moment::now() })
    }

    /// The publishers with their lowest acceptable numbers.
    pub(in super::super) fn publishers(&self) -> Vec<([u8; 6], u64)> {
        let all = self.file.bounds().filter(|(key, ..)| *key == self.key.digest());
        all.filter_map(|(_, place, lowest)| Some((*place.0.first_chunk()?, lowest))).collect()
    }

    /// Records what was heard: an event at once, repetitions at most once a second.
    pub(in super::super) fn record(
        &mut self,
        publishers: impl Iterator<Item = ([u8; 6], u64)>,
        at_once: bool,
    ) -> Result<(), Fault> {
        if !at_once && self.recorded.elapsed() < PAUSE {
            return Ok(());
        }
        self.recorded = Moment::now();
        let bounds: Vec<_> = publishers
            .map(|(sender, next)| (self.key, place(sender), next))
            .filter(|(key, place, next)| self.file.bound(key, *place) < *next)
            .collect();
        if bounds.is_empty() {
            return Ok(());
        }
        self.file.raise(&bounds).map_err(|error| fault(&self.directory, error))
    }
}

fn fault(directory: &Path, error: NumbersError) -> Fault {
    let shown = directory.display();
    error.into_fault(|kind| match kind {
        NumbersErrorKind::NoDirectory | NumbersErrorKind::Missing => {
            "at the first start give --first; if the state was lost, recordings pass once more unless the publishers get a new key".into()
        }
        NumbersErrorKind::InUse => "give each subscriber a state directory of its own".into(),
        NumbersErrorKind::Exists => "leave --first away to go on where it stopped".into(),
        _ => format!(
            "remove {shown} and give --first: recordings pass once more unless the publishers get a new key; if this is the last state, \
             moved, give --state-moved once"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heard_numbers_survive_a_restart() {
        let desk = tempfile::tempdir().expect("a directory");
        let state = desk.path().join("state");
        let key = Secret::of(&[7; 16]);
        let open = |key: &Secret, state_is| {
            Heard::open(&state, key, state_is, false).map_err(|fault| fault.to_string())
        };
        let missing = open(&key, State::Last).err().unwrap_or_default();
        assert!(missing.contains("--first"), "{missing}");
        let mut heard = open(&key, State::New).expect("new");
        assert_eq!(heard.publishers(), []);
        let both = [([2, 0, 0, 0, 0, 1], 9), ([2, 0, 0, 0, 0, 2], 5)];
        heard.record(both.into_iter(), true).map_err(|fault| fault.to_string()).expect("recorded");
        // Soon after, only an event is recorded.
        heard
            .record([([2, 0, 0, 0, 0, 1], 10)].into_iter(), false)
            .map_err(|fault| fault.to_string())
            .expect("later");
        assert_eq!(heard.publishers(), both);
        assert!(open(&key, State::Last).is_err(), "another subscriber has it");
        drop(heard);
        assert_eq!(open(&key, State::Last).expect("again").publishers(), both);
        assert_eq!(open(&Secret::of(&[8; 16]), State::Last).expect("another key").publishers(), []);
    }
}

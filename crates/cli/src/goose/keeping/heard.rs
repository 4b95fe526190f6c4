//! State of a subscriber: the numbers of the publishers that it heard, so that a recording is not
//! delivered after a restart.

use std::path::{Path, PathBuf};
use std::time::Duration;

use antedate_host::clock::Moment;
use antedate_host::fault::Fault;
use antedate_host::numbers::{NumberFile, NumbersError, NumbersErrorKind};

use super::{Secret, State, opened, place};

/// The pause between two records of repetitions.
const PAUSE: Duration = Duration::from_secs(1);

/// What was heard, on disk.
pub(in super::super) struct Heard {
    directory: PathBuf,
    file: NumberFile,
    recorded: Moment,
}

impl Heard {
    pub(in super::super) fn open(directory: &Path, state: State, volatile: bool) -> Result<Self, Fault> {
        let file = opened(directory, state, volatile).map_err(|error| fault(directory, error))?;
        Ok(Self { directory: directory.to_owned(), file, recorded: Moment::now() })
    }

    /// The publishers with a key, and their lowest acceptable numbers.
    pub(in super::super) fn publishers(&self, secret: &Secret) -> Vec<([u8; 6], u64)> {
        let id = secret.id().digest();
        let all = self.file.bounds().filter(|(key, ..)| *key == id);
        all.filter_map(|(_, place, lowest)| Some((*place.0.first_chunk()?, lowest))).collect()
    }

    /// Records what was heard: an event at once, repetitions at most once a second.
    pub(in super::super) fn record<'k>(
        &mut self,
        publishers: impl Iterator<Item = (&'k Secret, [u8; 6], u64)>,
        at_once: bool,
    ) -> Result<(), Fault> {
        if !at_once && self.recorded.elapsed() < PAUSE {
            return Ok(());
        }
        self.recorded = Moment::now();
        let bounds: Vec<_> = publishers
            .map(|(key, sender, next)| (key.id(), place(sender), next))
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
        let open = |state_is| Heard::open(&state, state_is, false).map_err(|fault| fault.to_string());
        let missing = open(State::Last).err().unwrap_or_default();
        assert!(missing.contains("--first"), "{missing}");
        let mut heard = open(State::New).expect("new");
        assert_eq!(heard.publishers(&key), []);
        let both = [([2, 0, 0, 0, 0, 1], 9), ([2, 0, 0, 0, 0, 2], 5)];
        let record = |heard: &mut Heard, all: &[([u8; 6], u64)], at_once| {
            let all = all.iter().map(|(sender, next)| (&key, *sender, *next));
            heard.record(all, at_once).map_err(|fault| fault.to_string()).expect("recorded");
        };
        record(&mut heard, &both, true);
        // Soon after, only an event is recorded.
        record(&mut heard, &[([2, 0, 0, 0, 0, 1], 10)], false);
        assert_eq!(heard.publishers(&key), both);
        assert!(open(State::Last).is_err(), "another subscriber has it");
        drop(heard);
        let again = open(State::Last).expect("again");
        assert_eq!(again.publishers(&key), both);
        assert_eq!(again.publishers(&Secret::of(&[8; 16])), []);
    }
}

//! The CAKs of a key file that was read again while the gateway runs: on request, or for the sake
//! of a member.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use antedate_channel::mka::{GRACE, Kay, Listed, OtherKey};
use antedate_host::fault::Fault;

use super::{Speaker, random};
use crate::config::cak::CakFile;

/// The longest wait for the key-agreement thread, which may wait for forwarding threads itself.
const PATIENCE: Duration = Duration::from_secs(3);

/// CAKs to take over, and the way back.
pub(super) type Reload = (Vec<Listed>, Sender<Result<(), OtherKey>>);

/// Hands CAKs to the key-agreement thread.
#[derive(Debug)]
pub struct Reloader {
    file: PathBuf,
    lists: Sender<Reload>,
}

impl Reloader {
    pub(super) fn new(file: &Path) -> (Self, Receiver<Reload>) {
        let (lists, reloads) = mpsc::channel();
        (Self { file: file.to_owned(), lists }, reloads)
    }

    /// Takes over the keys of a file that was read again. Returns a sentence about them.
    ///
    /// # Errors
    /// When one cannot be taken over. Everything stays as it was.
    pub fn reload(&self, read: &CakFile) -> Result<String, Fault> {
        let (answer, answers) = mpsc::channel();
        let silent = || Fault::of_file(&self.file, "key agreement does not answer", "see the log");
        self.lists.send((read.list(), answer)).map_err(|_| silent())?;
        answers.recv_timeout(PATIENCE).map_err(|_| silent())?.map_err(|error| {
            let remedy = "give the new CAK a CKN of its own, as `antedate keygen macsec --cak` does";
            Fault::of_file(&self.file, error.to_string(), remedy)
        })?;
        let names: Vec<String> = read
            .entries
            .iter()
            .map(|entry| format!("{} (priority {})", entry.name(), entry.priority))
            .collect();
        let plural = if names.len() == 1 { "" } else { "s" };
        Ok(format!("{}: {} CAK{plural}: {}", self.file.display(), names.len(), names.join(", ")))
    }
}

impl Speaker {
    /// Takes over lists of CAKs that were read on request.
    pub(super) fn reload(&mut self) {
        while let Ok((list, answer)) = self.reloads.try_recv() {
            let done = self.take_over(self.start.elapsed(), list, Some(GRACE));
            // Who asked may have given up.
            let _ = answer.send(done);
        }
    }

    /// Takes over a list of CAKs, and their keys of hellos.
    pub(super) fn take_over(
        &mut self,
        now: Duration,
        list: Vec<Listed>,
        grace: Option<Duration>,
    ) -> Result<(), OtherKey> {
        let same = |listed: &Listed| Listed { cak: Arc::clone(&listed.cak), priority: listed.priority };
        let copy: Vec<_> = list.iter().map(same).collect();
        take_over(&mut self.kay, now, list, grace)?;
        self.around.hello_keys.follow(&copy);
        Ok(())
    }
}

/// Takes over a list of CAKs, with the `grace` of [`Kay::replace`].
fn take_over(
    kay: &mut Kay,
    now: Duration,
    list: Vec<Listed>,
    grace: Option<Duration>,
) -> Result<(), OtherKey> {
    kay.replace(now, list, grace, &mut random)?;
    if let Some(cak) = kay.caks(now).into_iter().find(|cak| cak.carries && cak.removed) {
        let bound = grace.map(|grace| format!(", for {} s at most", grace.as_secs())).unwrap_or_default();
        tracing::warn!(
            ckn = %antedate_wire::Hex(cak.name.as_bytes()),
            "the CAK that carries is not in the file any more: it goes on until the members are live with another one{bound}",
        );
    }
    Ok(())
}

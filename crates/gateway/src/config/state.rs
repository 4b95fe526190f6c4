//! Faults of the state directory.

use antedate_host::fault::Fault;
use antedate_host::numbers::{NumbersError, NumbersErrorKind};

/// The remedy for a fault of the state file.
#[must_use]
pub fn remedy(error: &NumbersError) -> String {
    error.remedy().unwrap_or_else(|| {
        let renew = "make new keys with `antedate keygen macsec`, give them to all members";
        match &error.kind {
            NumbersErrorKind::NoDirectory | NumbersErrorKind::Missing => {
                "antedate gateway init FILE creates it, only for keys that were never used before".to_owned()
            }
            NumbersErrorKind::InUse => {
                "stop the other gateway; only one with another SCI (macsec.sci) may have a directory of its own".to_owned()
            }
            NumbersErrorKind::Exists => {
                "nothing to do: the gateway goes on where it stopped, and unknown keys begin at 1".to_owned()
            }
            NumbersErrorKind::Corrupt
            | NumbersErrorKind::Full
            | NumbersErrorKind::Older
            | NumbersErrorKind::Copied
            | NumbersErrorKind::OtherMachine => {
                let moved = if error.may_be_settled() {
                    "; only if this is the last state and no copy of it was used since: antedate gateway init --state-moved FILE"
                } else {
                    ""
                };
                let path = error.path.display();
                format!("{renew}, then remove {path} and call antedate gateway init FILE{moved}")
            }
            _ => renew.to_owned(),
        }
    })
}

/// The error as a fault at `at`, the setting that names the directory.
#[must_use]
pub fn fault(error: &NumbersError, at: Fault) -> Fault {
    let what = if at.file == error.path { error.kind.to_string() } else { error.to_string() };
    Fault { what, remedy: remedy(error), passing: error.is_passing(), ..at }
}

//! Failures of a verb and their exit statuses.

use std::fmt::Display;
use std::process::ExitCode;

use antedate_host::fault::{Fault, Faults};

use crate::output;

/// The result of a verb.
pub(crate) type Done = Result<(), Failure>;

/// Why the value of an option was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ValueError(String);

impl ValueError {
    pub(crate) fn new(why: impl Display) -> Self {
        Self(why.to_string())
    }
}

/// Why a verb failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A fault of the user's input or of the machine: status 2, or 3 if it may pass.
    Faults(Faults),
    /// The verb ran with a bad outcome: status 1.
    Verdict(String),
    /// The verb printed a state, and this is its exit status.
    State(u8),
}

impl Failure {
    /// A usage error with its remedy.
    pub(crate) fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::from(Fault {
            what: what.into(),
            remedy: remedy.into(),
            ..Fault::of_file("antedate".as_ref(), "", "")
        })
    }

    /// Reports it on standard error.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Faults(faults) => {
                output::tell(&faults);
                if faults.len() > 1 {
                    output::tell(format_args!("{} faults", faults.len()));
                }
                ExitCode::from(if faults.may_pass() { 3 } else { 2 })
            }
            Self::Verdict(what) => {
                output::tell(format_args!("antedate: {what}"));
                ExitCode::from(1)
            }
            Self::State(code) => ExitCode::from(code),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Faults(fault.into())
    }
}

impl From<Faults> for Failure {
    fn from(faults: Faults) -> Self {
        Self::Faults(faults)
    }
}

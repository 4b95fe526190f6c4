//! `antedate lab`.

use clap::Subcommand;

use crate::failure::Done;
use crate::output;

/// What to do in the laboratory.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Show the experiments that this version has.
    List,
}

impl Verb {
    pub(crate) fn run(self) -> Done {
        match self {
            Self::List => output::print(LIST),
        }
    }
}

/// The demonstration is the one experiment of this version.
const LIST: &str = "\
experiment  paper        what it shows
demo        hohmann2020  a Profinet controller and an IO device keep their cycle through two gateways
                         (antedate demo --help)
";

//! `antedate gateway reload`.

use antedate_gateway::run::control::Request;
use clap::Args;

use super::Running;
use crate::failure::Done;

#[derive(Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    running: Running,
}

impl Reload {
    pub(crate) fn run(self) -> Done {
        self.running.request(Request::Reload {})
    }
}

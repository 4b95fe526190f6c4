//! `antedate gateway rekey`.

use antedate_gateway::run::control::Request;
use clap::Args;

use super::Running;
use crate::failure::Done;

#[derive(Args)]
pub(crate) struct Rekey {
    #[command(flatten)]
    running: Running,
}

impl Rekey {
    pub(crate) fn run(self) -> Done {
        self.running.request(Request::Rekey {})
    }
}

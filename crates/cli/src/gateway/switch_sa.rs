//! `antedate gateway switch-sa AN`.

use antedate_gateway::run::control::Request;
use clap::Args;

use super::Running;
use crate::failure::Done;

#[derive(Args)]
pub(crate) struct SwitchSa {
    /// The association number to send under, 0 to 3.
    #[arg(value_name = "AN", value_parser = clap::value_parser!(u8).range(0..=3))]
    an: u8,
    #[command(flatten)]
    running: Running,
}

impl SwitchSa {
    pub(crate) fn run(self) -> Done {
        self.running.request(Request::SwitchSa { an: self.an })
    }
}

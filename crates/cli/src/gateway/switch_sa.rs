//! `antedate gateway switch-sa AN`.

use antedate_gateway::run::control::{Request, ask};
use antedate_host::fault::Fault;
use clap::Args;

use super::Running;
use crate::failure::Done;
use crate::output;

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
        let socket = &self.running.socket;
        let reply = ask(socket, Request::SwitchSa { an: self.an })?;
        if reply.ok {
            output::print(&format!("{}\n", reply.message))
        } else {
            Err(Fault::of_file(socket, reply.message, reply.remedy).into())
        }
    }
}

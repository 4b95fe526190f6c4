//! `antedate gateway reload`.

use antedate_gateway::run::control::{Request, ask};
use antedate_host::fault::Fault;
use clap::Args;

use super::Running;
use crate::failure::Done;
use crate::output;

#[derive(Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    running: Running,
}

impl Reload {
    pub(crate) fn run(self) -> Done {
        let socket = &self.running.socket;
        let reply = ask(socket, Request::Reload {})?;
        if !reply.ok {
            return Err(Fault::of_file(socket, reply.message, reply.remedy).into());
        }
        output::print(&format!("{}\n", reply.message))
    }
}

//! `antedate gateway init FILE`.

use std::path::PathBuf;

use antedate_gateway::config::state;
use antedate_gateway::config::{Config, Keys, Protection};
use antedate_host::fault::Fault;
use antedate_host::numbers::{NumberFile, permit_volatile};
use clap::Args;

use crate::failure::Done;
use crate::output;

#[derive(Args)]
pub(crate) struct Init {
    /// The configuration, whose state section names the directory.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The state exists and was moved here. Only if it is the last one, and no copy of it was used
    /// since
    #[arg(long)]
    state_moved: bool,
    /// The state may lie in memory (tmpfs). Only if the keys are made anew at each start of the machine
    #[arg(long)]
    volatile_state: bool,
}

impl Init {
    pub(crate) fn run(self) -> Done {
        let config = Config::load(&self.file)?;
        if config.protection == Protection::Plain {
            let fault =
                Fault::of_file(&self.file, "[plain] has no packet numbers to remember", "nothing to do");
            return Err(fault.into());
        }
        if let Protection::Overlay(_) = config.protection {
            let what = "each session of an overlay has fresh keys, so no counter needs to be remembered";
            return Err(Fault::of_file(&self.file, what, "nothing to do").into());
        }
        if let Protection::Macsec(macsec) = &config.protection
            && let Keys::Agreed(_) = macsec.keys
        {
            let what = "keys are agreed upon anew at each start, so no packet number needs to be remembered";
            return Err(Fault::of_file(&self.file, what, "nothing to do").into());
        }
        let directory = &config.state.directory;
        let make = if self.state_moved { NumberFile::settle } else { NumberFile::create };
        let permitted = if self.volatile_state { permit_volatile(directory) } else { Ok(()) };
        permitted
            .and_then(|()| make(directory))
            .map_err(|error| state::fault(&error, Fault::of_file(&self.file, "", "")))?;
        if self.state_moved {
            return output::print(&format!("{}: at home here from now on\n", directory.display()));
        }
        output::print(&format!(
            "{}: state made. It belongs to this gateway alone: never restore it from a backup, never delete it while\n\
             its keys are in use.\n",
            directory.display()
        ))
    }
}

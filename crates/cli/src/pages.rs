//! `antedate pages DIRECTORY`: manual pages by `clap_mangen`, completions by `clap_complete`.

use std::fs;
use std::path::{Path, PathBuf};

use antedate_host::fault::Fault;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Arguments;
use crate::failure::Done;

/// Shells, each with the directory below a prefix where it looks for completions.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions"),
    (Shell::Zsh, "share/zsh/vendor-completions"),
    (Shell::Fish, "share/fish/vendor_completions.d"),
];

#[derive(Args)]
#[command(after_help = "Example:\n  antedate pages target/usr")]
pub(crate) struct Pages {
    /// The prefix: pages go to share/man/man1 below it, completions where the shells look for them.
    #[arg(value_name = "DIRECTORY")]
    prefix: PathBuf,
}

impl Pages {
    pub(crate) fn run(self) -> Done {
        let make = |below: &str| {
            let directory = self.prefix.join(below);
            fs::create_dir_all(&directory).map_err(|error| unwritten(&directory, &error))?;
            Ok::<_, Fault>(directory)
        };
        let directory = make("share/man/man1")?;
        // Without the verbs that the help hides.
        let command = Arguments::command().disable_help_subcommand(true);
        let written = clap_mangen::generate_to(command, &directory);
        written.map_err(|error| unwritten(&directory, &error))?;
        for (shell, below) in SHELLS {
            let directory = make(below)?;
            let mut command = Arguments::command();
            let file = clap_complete::generate_to(shell, &mut command, "antedate", &directory);
            file.map_err(|error| unwritten(&directory, &error))?;
        }
        Ok(())
    }
}

fn unwritten(directory: &Path, error: &std::io::Error) -> Fault {
    Fault::of_io(directory, "write here", error, "name a directory that you can write to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_verbs_have_pages() {
        let place = tempfile::tempdir().expect("a directory");
        Pages { prefix: place.path().to_owned() }.run().unwrap_or_else(|_| panic!("written"));
        let file = |name: &str| fs::read_to_string(place.path().join("share").join(name));
        let run = file("man/man1/antedate-gateway-run.1").expect("a page of gateway run");
        assert!(run.contains("CAP_NET_RAW") && run.contains("\\-\\-log"), "{run}");
        assert!(file("man/man1/antedate-pages.1").is_err(), "a hidden verb");
        for name in [
            "bash-completion/completions/antedate.bash",
            "zsh/vendor-completions/_antedate",
            "fish/vendor_completions.d/antedate.fish",
        ] {
            assert!(file(name).expect(name).contains("key-status"), "{name}");
        }
    }
}

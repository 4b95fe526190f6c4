//! The commands of the documents, held against the command line.

#[path = "../../../xtask/src/commands.rs"]
#[allow(unreachable_pub, reason = "xtask exports it")]
pub(crate) mod commands;

use std::path::Path;

use clap::Parser;
use clap::error::{ContextKind, ErrorKind};

use self::commands::{Shown, commands, documents};
use crate::Arguments;

/// The fault of a shown command, if any.
pub(crate) fn fault(shown: &Shown) -> Option<String> {
    // The processes of the lab take their options as JSON, before the command line is read.
    if shown.words.first().is_some_and(|word| word.starts_with("lab-")) {
        return None;
    }
    let line = ["antedate"].into_iter().chain(shown.words.iter().map(String::as_str));
    let error = Arguments::try_parse_from(line).err()?;
    let value = error.get(ContextKind::InvalidValue).map(ToString::to_string).unwrap_or_default();
    let is_fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::MissingSubcommand => shown.is_open,
        // A value in capitals stands for one; within a sentence it may be left out.
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            // So does a host of documentation (RFC 2606).
            (shown.is_open && value.is_empty())
                || value.chars().any(|c| c.is_ascii_uppercase())
                || error.to_string().contains(".example")
        }
        _ => false,
    };
    (!is_fine).then(|| format!("{}: {:?}: {error}", shown.place, shown.words))
}

#[test]
fn commands_of_the_documents_are_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shown: Vec<Shown> =
        documents(&root).iter().flat_map(|(name, text)| commands(name, text, &["antedate"])).collect();
    let faults: Vec<String> = shown.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(shown.len() > 100, "{} commands are found", shown.len());
}

#[test]
fn wrong_commands_are_noticed() {
    for line in ["gateway rum g.toml", "demo --secure masec", "lab nothing", "keygen macsec --otu cak"] {
        let text = format!("Call `antedate {line}`.\n\n    antedate {line}\n");
        let shown = commands("a.md", &text, &["antedate"]);
        assert_eq!(shown.iter().filter_map(fault).count(), 2, "{line}");
    }
}

//! Verbs that this program was built without.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Verbs that a build may lack, below `antedate` or `antedate keygen`, and whether this one has
/// them.
const VERBS: [(&str, bool); 8] = [
    ("agent", cfg!(feature = "fleet")),
    ("dtls", cfg!(feature = "dtls")),
    ("fleet", cfg!(feature = "fleet")),
    ("lab", cfg!(feature = "lab")),
    ("mqtt", cfg!(feature = "mqtt")),
    ("plan", cfg!(feature = "plan")),
    ("raw-key", cfg!(feature = "dtls")),
    ("report", cfg!(feature = "lab")),
];

/// Where the other verbs are.
const REMEDY: &str = "the package `antedate` has dtls, fleet and mqtt, a build from the sources all verbs";

/// The error of a command line, with a tip where it names a verb that other builds have.
pub(crate) fn explained(error: clap::Error) -> clap::Error {
    explained_by(&VERBS, error)
}

/// A line that names the absent verbs, or nothing.
pub(crate) fn note() -> String {
    note_of(&VERBS)
}

fn explained_by(verbs: &[(&str, bool)], mut error: clap::Error) -> clap::Error {
    let is_absent = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(verb)) if error.kind() == ErrorKind::InvalidSubcommand => {
            verbs.contains(&(verb, false))
        }
        _ => false,
    };
    if is_absent {
        let tip = format!("this program was built without it: {REMEDY}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        // What looks like it is no help.
        error.remove(ContextKind::SuggestedSubcommand);
    }
    error
}

fn note_of(verbs: &[(&str, bool)]) -> String {
    let absent: Vec<&str> = verbs.iter().filter(|(_, has)| !has).map(|(verb, _)| *verb).collect();
    match absent[..] {
        [] => String::new(),
        _ => format!("\nThis program was built without {}: {REMEDY}.\n", absent.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    #[test]
    fn absent_verb_is_told_from_a_wrong_one() {
        let told = |verb: &str| {
            let program =
                Command::new("antedate").subcommand(Command::new("demo")).arg(Arg::new("x").long("x"));
            let error = program.try_get_matches_from(["antedate", verb]).expect_err("no such verb");
            explained_by(&[("demos", false), ("lab", true)], error).to_string()
        };
        let absent = told("demos");
        assert!(absent.contains("tip: this program was built without it: the package"), "{absent}");
        assert!(!absent.contains("similar"), "{absent}");
        assert!(told("demmo").contains("tip: a similar subcommand exists"), "{}", told("demmo"));
        assert!(!told("lab").contains("built without"), "{}", told("lab"));
        assert!(!told("--y").contains("built without"), "{}", told("--y"));
    }

    #[test]
    fn note_names_the_absent_verbs() {
        assert_eq!(note_of(&[("dtls", true)]), "");
        let note = note_of(&[("dtls", false), ("lab", true), ("mqtt", false)]);
        assert!(note.starts_with("\nThis program was built without dtls, mqtt: the package"), "{note}");
    }
}

//! `antedate help [COMMAND... | TOPIC]`.

use antedate_host::fault::suggest;
use clap::{Args, Command, CommandFactory};

use crate::Arguments;
use crate::absent;
use crate::failure::{Done, Failure};
use crate::output;

/// A topic: its name, its subject and its text.
struct Topic(&'static str, &'static str, &'static str);

const TOPICS: [Topic; 4] = [
    Topic("start", "from nothing to two protected segments", include_str!("start.txt")),
    Topic("keys", "which keys there are, and how they are changed", include_str!("keys.txt")),
    Topic("late", "what makes frames late, and what shows it", include_str!("late.txt")),
    Topic("status", "exit statuses, output, monitoring, environment", include_str!("status.txt")),
];

#[derive(Args)]
#[command(after_help = "Examples:\n  antedate help keys\n  antedate help gateway run")]
pub(crate) struct Help {
    /// A topic, or the words of a command. Without one, commands and topics are listed.
    #[arg(value_name = "COMMAND|TOPIC")]
    words: Vec<String>,
}

impl Help {
    pub(crate) fn run(self) -> Done {
        output::print(&text(&self.words)?)
    }
}

fn text(words: &[String]) -> Result<String, Failure> {
    if let [word] = words
        && let Some(Topic(.., text)) = TOPICS.iter().find(|Topic(name, ..)| name == word)
    {
        return Ok((*text).to_owned() + &absent::note());
    }
    let mut root = Arguments::command();
    root.build();
    let mut command = &mut root;
    for word in words {
        let known: Vec<String> = names(command).collect();
        let Some(next) = command.find_subcommand_mut(word) else {
            let topics = TOPICS.iter().map(|Topic(name, ..)| *name).filter(|_| words.len() == 1);
            let known: Vec<&str> = known.iter().map(String::as_str).chain(topics).collect();
            let remedy = suggest(word, known.iter().copied());
            return Err(Failure::usage(format!("there is no command or topic `{word}`"), remedy));
        };
        command = next;
    }
    let mut text = command.render_long_help().to_string();
    if words.is_empty() {
        text += "\nTopics of `antedate help`:\n";
        text.extend(TOPICS.iter().map(|Topic(name, about, _)| format!("  {name:<8} {about}\n")));
        text += &absent::note();
    }
    Ok(text)
}

fn names(command: &Command) -> impl Iterator<Item = String> + '_ {
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|command| command.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manual::commands::commands;
    use crate::manual::fault;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn topics_and_commands_have_a_text() {
        let text = |line: &str| text(&words(line)).unwrap_or_else(|_| panic!("{line}"));
        assert!(text("").contains("\n  late     what makes"));
        assert!(text("keys").contains("antedate keygen macsec --cak"));
        assert!(text("gateway run").contains("Usage: antedate gateway run"));
        let Err(Failure::Faults(faults)) = super::text(&words("gatway")) else { panic!("a fault") };
        assert!(faults.to_string().contains("did you mean \"gateway\"?"), "{faults}");
    }

    /// Each configuration key of a topic is a row of the gateway's chapter.
    #[test]
    fn topics_name_keys_that_exist() {
        let chapter = include_str!("../../../../docs/src/gateway.md");
        let mut named = 0;
        for Topic(name, _, text) in TOPICS {
            for key in text.split('`').skip(1).step_by(2).filter(|word| word.starts_with("run.")) {
                assert!(chapter.contains(&format!("| `{key}` |")), "{name}: {key}");
                named += 1;
            }
        }
        assert!(named >= 3, "{named}");
    }

    /// Each help text has an example, and each example of helps and topics is read.
    #[test]
    fn every_help_has_a_right_example() {
        let mut root = Arguments::command();
        root.build();
        let mut texts: Vec<(String, String)> =
            TOPICS.iter().map(|Topic(name, _, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let mut left = vec![root];
        while let Some(command) = left.pop() {
            let name = command.get_display_name().unwrap_or("antedate").to_owned();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = help.split("Example").nth(1).unwrap_or_else(|| panic!("{name}: no example"));
            let examples = examples.split_once('\n').map_or("", |(_, examples)| examples);
            assert!(examples.contains("antedate "), "{name}: {examples}");
            // The blocks of documents are indented by four, and have comments behind #.
            let block = examples.lines().map(|line| format!("  {}\n", line.replace("     ", " # ")));
            texts.push((name, format!("\n{}", block.collect::<String>())));
            let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
            left.extend(command.get_subcommands().filter(shown).cloned());
        }
        let mut read = 0;
        for (name, text) in &texts {
            for shown in commands(name, text, &["antedate"]).iter().filter(|shown| !shown.is_open) {
                assert_eq!(fault(shown), None);
                read += 1;
            }
        }
        assert!(read > 50, "{read}");
    }
}

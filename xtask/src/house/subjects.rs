//! The length of commit subjects: at most 72 characters.

use super::{Fault, verdict};
use xtask::report::{StepResult, Stop};
use xtask::shell::{Run, program};

const MAX: usize = 72;
/// This commit and its ancestors are older than the rule.
const FIRST: &str = "beed340";

const REMEDY: &str = "shorten the subject and say the rest in the body (`git rebase -i`, reword)";

/// Checks the commits after [`FIRST`].
pub(super) fn check() -> StepResult {
    let git = |words: &[&str]| program("git").args(words).read(20);
    match git(&["rev-parse", "--is-shallow-repository"]) {
        Ok(shallow) if shallow.trim() == "true" => {
            return Err(Stop::Skipped(
                "the clone is shallow; `git fetch --unshallow` gives the commits".into(),
            ));
        }
        Err(_) => return Err(Stop::Skipped("this is no clone, so there are no commits".into())),
        Ok(_) => {}
    }
    let range = format!("{FIRST}..HEAD");
    if git(&["merge-base", "--is-ancestor", FIRST, "HEAD"]).is_err() {
        return Err(Stop::Skipped(format!("commit {FIRST} is not in this history")));
    }
    let log = git(&["log", "--no-merges", "--format=%h %s", &range])?;
    verdict(&faults(&log), REMEDY, format!("{} commits", log.lines().count()))
}

/// Lines of hash and subject whose subject is too long.
fn faults(log: &str) -> Vec<Fault> {
    let long = log.lines().filter_map(|line| line.split_once(' ')).filter(|(_, s)| s.chars().count() > MAX);
    long.map(|(hash, subject)| {
        Fault::new(hash, 1, format!("subject of {} characters: {subject}", subject.chars().count()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_subjects_are_found() {
        let log = format!("abc {}\ndef {}\n", "a".repeat(72), "b".repeat(73));
        let found: Vec<String> = faults(&log).into_iter().map(|fault| fault.file).collect();
        assert_eq!(found, ["def"]);
    }
}

//! `cargo xtask ci`: `test` on a machine that must be able to run all steps.

use crate::test;

/// Runs all steps; a skipped step that `may_skip` does not name counts as failed.
pub(crate) fn main(may_skip: &[String]) -> Result<bool, String> {
    if let Some(wrong) = may_skip.iter().find(|name| !test::names().contains(name)) {
        return Err(format!("no step `{wrong}`; `cargo xtask test --list` names them"));
    }
    let mut report = test::run(&[])?;
    let skipped = report.skipped();
    report.step("nothing skipped", || {
        let wrong: Vec<String> = skipped.iter().filter(|name| !may_skip.contains(name)).cloned().collect();
        if !wrong.is_empty() {
            return Err(format!("a machine of CI must run these steps: {}", wrong.join(", ")).into());
        }
        Ok(if skipped.is_empty() { String::new() } else { format!("except {}", skipped.join(", ")) })
    });
    Ok(report.finish())
}

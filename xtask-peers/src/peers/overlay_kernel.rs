//! The kernel's WireGuard and VXLAN beside our overlay: `antedate lab overlay-kernel` in a guest that
//! counts instructions. The result stays as a file that `antedate report` takes.

use crate::experiment::experiment;
use xtask::report::StepResult;
use xtask::shell::cache;

/// Runs the experiment in its quick form, unless `ANTEDATE_OVERLAY_KERNEL` is `full`.
pub(crate) fn run() -> StepResult {
    let found = experiment("overlay-kernel", "ANTEDATE_OVERLAY_KERNEL")?;
    let file = cache("lab")?.join("overlay-kernel.json");
    found.write(&file)?;
    for metric in ["round trip", "UDP round trip"] {
        for case in found.cases() {
            let number = |name: &str| {
                let metric = format!("{metric} {name}");
                let ours = found.number(case, &metric, "antedated");
                if ours.is_nan() { found.number(case, &metric, "baseline") } else { ours }
            };
            if !number("median").is_nan() {
                println!(
                    "   {case}, {metric}: {:.1} / {:.1} us (median, p99.9)",
                    number("median"),
                    number("p99.9")
                );
            }
        }
    }
    let median = |case: &str, column: &str| found.number(case, "round trip median", column);
    let ratio =
        median("ours to ours", "antedated") / median("kernel VXLAN over kernel WireGuard", "baseline");
    let text = format!("ours / the kernel's, median: {ratio:.2}; {}", file.display());
    // Losses are judged; the ratio is a number to read.
    let whole = found.met("was lost").is_some_and(|checks| checks > 0) && ratio.is_finite();
    if whole { Ok(text) } else { Err(text.into()) }
}

//! The step of the report over the papers: its short form runs, each row has what it needs, and the
//! page is shown by a browser without a fault.

use crate::{firmware, page as copy};
use serde_json::Value;
use std::fs;
use std::path::Path;
use xtask::report::{StepResult, Stop};
use xtask::setup::{self, Purpose};
use xtask::shell::{Run, antedate_of, cache, program};

/// Seconds that the short form may take on two cores, and octets of its page.
const SECONDS: u64 = 720;
const OCTETS: u64 = 1_500_000;
/// Rows of the papers' numbers; fewer means that some were lost.
const ROWS: usize = 700;
/// Widths at which the page is shown: a telephone's and a screen's.
const WIDTHS: [u32; 2] = [360, 1280];

const BROWSER: &str = "chromium-headless-shell";

/// Runs the short form and judges it.
pub(crate) fn check(profile: &str) -> StepResult {
    setup::ensure(Purpose::Firmware)?;
    firmware::build()?;
    // Results of an earlier build are run again.
    let folder = cache("report")?;
    let run =
        || program(antedate_of(profile)).args(["report", "--quick", "--out"]).arg(&folder).verdict(SECONDS);
    // Other steps load the machine. A second run repeats what failed, and nothing else.
    let complete = run()? || run()?;
    let file = folder.join("report.json");
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let document: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let faults = faults(&document);
    if !faults.is_empty() {
        return Err(faults.join("; ").into());
    }
    if !complete {
        return Err(missing(&document).into());
    }
    drawn(&folder, &document, profile)?;
    let page = folder.join("index.html");
    let octets = fs::metadata(&page).map_err(|e| format!("{}: {e}", page.display()))?.len();
    if octets > OCTETS {
        return Err(format!("the page has {octets} octets, at most {OCTETS}").into());
    }
    for width in WIDTHS {
        shown(&page, width)?;
    }
    let rows = document["rows"].as_array().map_or(0, Vec::len);
    Ok(format!(
        "{rows} rows, {} figures, {octets} octets; {}",
        document["figures"].as_array().map_or(0, Vec::len),
        copy::age()?
    ))
}

/// Draws each result of the report by its experiment's `--figure`.
fn drawn(folder: &Path, document: &Value, profile: &str) -> Result<(), Stop> {
    let results = document["results"].as_array().into_iter().flatten();
    let taken = results.filter(|result| result["state"]["is"] == "taken");
    for name in taken.filter_map(|result| result["experiment"].as_str()) {
        let result = folder.join("results").join(format!("{name}.json"));
        let figure = result.with_extension("svg");
        let mut command = program(antedate_of(profile));
        command.args(["lab", name, "--from"]).arg(&result).arg("--figure").arg(&figure);
        command.read(20)?;
        let text = fs::read_to_string(&figure).map_err(|e| format!("{}: {e}", figure.display()))?;
        if text.matches("<rect ").count() == 0 {
            return Err(format!("{}: the figure shows no number", figure.display()).into());
        }
    }
    Ok(())
}

/// Results that are not shown.
fn missing(document: &Value) -> String {
    let results = document["results"].as_array().into_iter().flatten();
    let unused = results.filter(|result| result["state"]["is"] != "taken");
    let names: Vec<String> =
        unused.map(|result| format!("{}: {}", result["experiment"], result["state"]["why"])).collect();
    format!("without a result: {}", names.join("; "))
}

/// What rows lack. The rule of the verdict stands here once more, so that a change of it is noticed.
fn faults(document: &Value) -> Vec<String> {
    let rows: Vec<&Value> = document["rows"].as_array().into_iter().flatten().collect();
    let mut faults: Vec<String> = rows.iter().filter_map(|row| fault(row)).take(5).collect();
    if rows.len() < ROWS {
        faults.push(format!("{} rows, at least {ROWS}", rows.len()));
    }
    faults
}

fn fault(row: &Value) -> Option<String> {
    let name = format!("{}, {}: {}", row["paper"], row["item"], row["case"]);
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    for key in ["paper", "item", "case", "metric", "unit", "statistic", "reason"] {
        if text(key).is_empty() {
            return Some(format!("{name}: no {key}"));
        }
    }
    if !["executed", "emulated", "modelled", "datasheet"].contains(&text("label")) {
        return Some(format!("{name}: no label"));
    }
    let found = row["ours"].as_f64().or(row["baseline"].as_f64());
    let supported = match (text("verdict"), row["paper_value"].as_f64(), found) {
        ("not-comparable", ..) => true,
        ("not-measured", _, found) => found.is_none(),
        (verdict, Some(paper), Some(found)) => {
            let better = match text("better") {
                "less" => paper - found,
                "more" => found - paper,
                _ => -(found - paper).abs(),
            };
            let allowed = 0.05 * paper.abs() + 1e-9;
            let rule = if better > allowed {
                "surpassed"
            } else if better < -allowed {
                "not-reached"
            } else {
                "reproduced"
            };
            verdict == rule
        }
        _ => false,
    };
    (!supported).then(|| format!("{name}: {} does not follow from its numbers", row["verdict"]))
}

/// Looks for elements beyond the right edge, and tells them in the page's title.
const PROBE: &str = "<script>addEventListener('load',()=>{const root=document.documentElement,width=root.clientWidth;\
    const beyond=[...document.body.querySelectorAll('*')].filter(one=>{const inside=one.parentElement.closest('.wide');\
    return !inside&&one.getBoundingClientRect().right>width+1}).map(one=>one.tagName+' '+one.className);\
    document.title='probe '+width+' '+root.scrollWidth+' '+beyond.slice(0,5).join(',')+' end'})</script></body>";

/// Shows the page in a browser of this width: nothing lies beyond its edge, and nothing is written to
/// its console. The screenshot stays beside the page.
fn shown(page: &Path, width: u32) -> Result<(), Stop> {
    let fault = |e: std::io::Error| format!("{}: {e}", page.display());
    let html = fs::read_to_string(page).map_err(fault)?;
    let probe = page.with_file_name("probe.html");
    fs::write(&probe, html.replacen("</body>", PROBE, 1)).map_err(fault)?;
    let browser = |words: &[&str], of: &Path| {
        // The console's lines are among the browser's errors.
        let mut command = program("sh");
        command.args([
            "-c",
            "exec \"$0\" \"$@\" 2>&1",
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
        ]);
        command.arg("--enable-logging=stderr").arg(format!("--window-size={width},900")).args(words);
        command.arg(format!("file://{}", of.display())).read(120)
    };
    let said = browser(&["--dump-dom"], &probe)?;
    let screenshot = page.with_file_name(format!("screenshot-{width}.png"));
    let _ = fs::remove_file(&screenshot);
    browser(&[&format!("--screenshot={}", screenshot.display())], page)?;
    if !screenshot.exists() {
        return Err(format!("{BROWSER} made no screenshot").into());
    }
    Ok(judged(&said, width)?)
}

/// The judgement on what a browser said.
fn judged(said: &str, width: u32) -> Result<(), String> {
    if let Some(line) = said.lines().find(|line| line.contains("CONSOLE")) {
        return Err(format!("at {width} pixels the console has: {line}"));
    }
    let found = said.split("<title>probe ").nth(1).and_then(|rest| rest.split(" end").next());
    let found = found.ok_or_else(|| format!("at {width} pixels {BROWSER} did not show the page"))?;
    let mut parts = found.splitn(3, ' ');
    let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok()).unwrap_or(u32::MAX);
    let (shown, scrolled) = (number(), number());
    if shown > width {
        return Err(format!("{BROWSER} showed {shown} pixels in the place of {width}"));
    }
    let beyond = parts.next().unwrap_or_default();
    if scrolled > shown || !beyond.is_empty() {
        return Err(format!("at {width} pixels the page is {scrolled} wide; beyond the edge: {beyond}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row() -> Value {
        json!({ "paper": "hiller2018", "item": "figure 5", "case": "16 B", "metric": "saved", "unit": "%",
            "statistic": "mean", "label": "emulated", "better": "more", "paper_value": 78.93,
            "baseline": null, "ours": 90.0, "verdict": "surpassed", "reason": "+14 %" })
    }

    #[test]
    fn rows_without_support_are_faults() {
        assert_eq!(fault(&row()), None);
        let with = |key: &str, value: Value| {
            let mut row = row();
            row[key] = value;
            fault(&row)
        };
        for (key, value) in [
            ("label", json!(null)),
            ("label", json!("guessed")),
            ("reason", json!("")),
            ("verdict", json!("reproduced")),
            ("verdict", json!("not-measured")),
            ("verdict", json!(null)),
            ("ours", json!(null)),
            ("paper_value", json!(null)),
        ] {
            assert!(with(key, value.clone()).is_some(), "{key} {value}");
        }
        assert!(!faults(&json!({ "rows": [row()] })).is_empty(), "most rows are missing");
    }

    #[test]
    fn faults_of_a_page_are_seen() {
        let said = |text: &str| judged(&format!("<html><head><title>probe {text} end</title>"), 360);
        assert_eq!(said("360 360 "), Ok(()));
        assert!(said("360 700 TABLE wide").is_err() && said("360 360 P ").is_err());
        assert!(said("500 500 ").is_err(), "another width");
        assert!(judged("", 360).is_err());
        assert!(
            judged("[1:INFO:CONSOLE(3)] \"x is not defined\"\n<title>probe 360 360  end</title>", 360)
                .is_err()
        );
    }
}

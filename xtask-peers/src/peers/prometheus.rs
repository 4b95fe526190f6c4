//! Debian's Prometheus scrapes a gateway, and `promtool` checks its metrics and the alert rules.

use crate::daemon::{Gateway, Keys, Options, SUITES};
use crate::net;
use crate::place;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::Stdio;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Run, program, root, until};

const LISTEN: &str = "127.0.0.1:9464";
const DASHBOARD: &str = "docs/examples/antedate.dashboard.json";
const MANUAL: &str = "docs/src/monitoring.md";
const SERVER: &str = "127.0.0.1:9490";

/// Does nothing: packages suffice.
pub(crate) fn prepare() -> Result<(), Stop> {
    Ok(())
}

/// Checks the metrics as text and as Prometheus reads them, and that an alert fires on a missing
/// link.
pub(crate) fn run() -> StepResult {
    let dir = place::run()?.join("prometheus");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let rules = root().join("docs/examples/antedate.rules.yml");
    let checked = program("promtool").args(["check", "rules"]).arg(&rules).read(20)?;
    let alerts =
        checked.split_whitespace().skip_while(|word| *word != "SUCCESS:").nth(1).unwrap_or("?").to_owned();

    net::cell()?;
    let members = [("a", net::mac(0xa2)), ("b", net::mac(0xb2))];
    let options = Options {
        keys: Some(Keys::new(SUITES[0], 1, members)),
        allow: vec!["profinet-rt"],
        run: format!("poll = \"block\"\n[metrics]\nlisten = \"{LISTEN}\""),
        ..Options::default()
    };
    let gateway = Gateway::start("gwa", &options)?;
    lint()?;

    let config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{}]\nscrape_configs:\n  - job_name: antedate\n    \
         static_configs: [{{ targets: [\"{LISTEN}\"] }}]\n",
        rules.display()
    );
    let file = dir.join("prometheus.yml");
    fs::write(&file, config).map_err(|e| e.to_string())?;
    let mut command = net::inside("gwa", "prometheus");
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
    let server = command.arg(format!("--web.listen-address={SERVER}")).background(&dir.join("log"))?;
    let query = |what: &str| {
        let server = format!("http://{SERVER}");
        let found = net::inside("gwa", "promtool").args(["query", "instant", &server, what]).read(10);
        found.ok().filter(|found| !found.trim().is_empty())
    };
    until("a scrape", 30.0, || query("antedate_forwarding == 1 and on () up == 1"))?;
    let count = until("the series", 10.0, || query("count({job=\"antedate\"})"))?;
    let queries = dashboard()?;
    for expr in &queries {
        let server = format!("http://{SERVER}");
        net::inside("gwa", "promtool")
            .args(["query", "instant", &server, expr])
            .read(10)
            .map_err(|why| format!("{DASHBOARD}: `{expr}`: {why}"))?;
    }
    net::ip(&["-n", "gwb", "link", "set", "uplink", "down"])?;
    until("an alert", 40.0, || {
        query("ALERTS{alertname=\"AntedateLinkDown\", alertstate=\"firing\", port=\"uplink\"}")
    })?;
    drop(server);
    gateway.stop()?;
    let count = count.split_whitespace().nth(2).unwrap_or("?").to_owned();
    Ok(format!(
        "{count} series scraped, {alerts} alerts checked, one fired, {} queries of the dashboard",
        queries.len()
    ))
}

/// The dashboard's queries, with values for Grafana's variables. Each metric must be in the manual.
fn dashboard() -> Result<Vec<String>, String> {
    let text = fs::read_to_string(root().join(DASHBOARD)).map_err(|e| format!("{DASHBOARD}: {e}"))?;
    let manual = fs::read_to_string(root().join(MANUAL)).map_err(|e| format!("{MANUAL}: {e}"))?;
    let dashboard: Value = serde_json::from_str(&text).map_err(|e| format!("{DASHBOARD}: {e}"))?;
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut queries = Vec::new();
    for expr in targets.filter_map(|target| target["expr"].as_str()) {
        let names = expr.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for name in names.filter(|name| name.starts_with("antedate_")) {
            if !manual.contains(&format!("`{name}`")) {
                return Err(format!("{DASHBOARD}: {name} is no metric of {MANUAL}"));
            }
        }
        queries.push(expr.replace("$__rate_interval", "1m").replace("$instance", ".+"));
    }
    if queries.is_empty() { Err(format!("{DASHBOARD} has no query")) } else { Ok(queries) }
}

/// `promtool check metrics` on the text that a client without OpenMetrics gets.
fn lint() -> Result<(), String> {
    let fetch = format!(
        "import urllib.request as u; print(u.urlopen('http://{LISTEN}/metrics').read().decode(), end='')"
    );
    let text = net::inside("gwa", "/usr/bin/python3").args(["-c", &fetch]).read(10)?;
    let mut child = program("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("promtool: {e}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(text.as_bytes()).map_err(|e| format!("promtool: {e}"))?;
    }
    let output = child.wait_with_output().map_err(|e| format!("promtool: {e}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    if output.status.success() && said.trim().is_empty() {
        return Ok(());
    }
    Err(format!("promtool check metrics: {said}\n{text}"))
}

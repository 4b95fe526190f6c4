//! The page of a gateway in Debian's Chromium, which playwright-core of npm drives, through a fault;
//! and 500 hostile clients at it while machines exchange frames each millisecond.

use crate::daemon::{Gateway, Keys, Options, SUITES};
use crate::net;
use crate::place;
use serde_json::json;
use std::fs;
use std::path::Path;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Run, antedate, cache, root};

use super::npm;

const LISTEN: &str = "127.0.0.1:9465";
/// Debian's Chromium without windows.
const CHROMIUM: &str = "/usr/bin/chromium-headless-shell";
/// The pictures of the book.
const PICTURES: [&str; 2] = ["page-alarm.png", "page-dark.png"];

/// Installs playwright-core. A machine that cannot fetch it skips the test.
pub(crate) fn prepare() -> Result<(), Stop> {
    npm::install("page", "page.js")
        .map_err(|reason| Stop::Skipped(format!("playwright-core cannot be fetched here: {reason}")))
}

/// Has the script look. With `ANTEDATE_PICTURES` the pictures go to the book.
pub(crate) fn run() -> StepResult {
    let dir = place::run()?.join("page");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    net::cell()?;
    let members = [("a", net::mac(0xa2)), ("b", net::mac(0xb2))];
    let options = Options {
        keys: Some(Keys::new(SUITES[0], 1, members)),
        policy: Some(
            "[policy]\nallow = [\"profinet\"]\n[[policy.rule]]\naction = \"allow\"\nethertype = [\"lldp\"]\n"
                .into(),
        ),
        ..Options::default()
    };
    let shown = Options { sections: "[page]\nlisten = \"127.0.0.1:9465\"\n", ..options.clone() };
    let (a, b) = (Gateway::start("gwa", &shown)?, Gateway::start("gwb", &options)?);
    // A cycle that a busy machine keeps, to look at one fault alone; then a short one.
    let seen = watched("look", 32_000, &a, &dir)?;
    let held = watched("siege", 1_000, &a, &dir)?;
    a.stop()?;
    b.stop()?;
    net::remove_cell();
    keep(&dir)?;
    Ok(format!("{seen}; {held}"))
}

/// Has the script do a part while two stations exchange frames. Returns its verdict.
fn watched(part: &str, cycle_us: u32, gateway: &Gateway, dir: &Path) -> Result<String, String> {
    let log = |role: &str| dir.join(format!("{role}.log"));
    let station = |space, role: &str| {
        let options = json!({ "role": role, "cycle_us": cycle_us, "patience_seconds": 30.0, "live_ms": 100 });
        let mut command = net::inside(space, antedate());
        command.arg("lab-station").arg(options.to_string()).background(&log(role))
    };
    let (device, plc) = (station("dev", "device")?, station("plc", "plc")?);
    let link = |state: &str| json!(["ip", "-n", "gwb", "link", "set", "field", state]);
    let status = json!([antedate(), "gateway", "status", "--json", "--socket", gateway.socket()]);
    let given = json!({
        "part": part, "chromium": CHROMIUM, "url": format!("http://{LISTEN}/"), "status": status,
        "fault": link("down"), "repair": link("up"), "out": dir, "seconds": 3, "rounds": 3,
        "stations": (["device", "plc"].map(&log)),
    });
    let script = cache("peers/page")?.join("page.js");
    let said = net::inside("gwa", "node").arg(script).arg(given.to_string()).read(100)?;
    drop((device, plc));
    match said.trim().lines().last().and_then(|line| line.strip_prefix("ok ")) {
        Some(told) => Ok(told.to_owned()),
        None => Err(format!("page.js: no verdict:\n{said}")),
    }
}

/// Copies the pictures to the book, if asked for.
fn keep(dir: &Path) -> Result<(), String> {
    if std::env::var_os("ANTEDATE_PICTURES").is_none() {
        return Ok(());
    }
    for name in PICTURES {
        let to = root().join("docs/src/figures").join(name);
        fs::copy(dir.join(name), &to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    Ok(())
}

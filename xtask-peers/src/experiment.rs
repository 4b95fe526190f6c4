//! Experiments of `antedate lab` in a QEMU guest whose clock counts instructions (`-icount
//! shift=0`).
//!
//! Gateways, machines and the Linux kernel share one CPU, which takes a nanosecond for each
//! instruction. Delays there come from the gateway, the kernel and their turns on that CPU alone. A
//! virtual machine whose cores are withheld for longer than the bound under test cannot show this.

use crate::guest::{self, Guest, Image};
use serde_json::Value;
use xtask::report::Stop;
use xtask::shell::antedate;

pub(crate) fn prepare() -> Result<(), Stop> {
    guest::build()?;
    Ok(())
}

fn image() -> Result<Image, String> {
    guest::build()?.with(&antedate(), &[])
}

/// The result of an experiment.
pub(crate) struct Found(Value);

/// Boots the guest and runs the named experiment, in its quick form unless the environment variable
/// is `full`.
pub(crate) fn experiment(name: &str, variable: &str) -> Result<Found, String> {
    let full = std::env::var(variable).is_ok_and(|form| form == "full");
    let mut guest = Guest::boot_counting(&image()?)?;
    guest.load_tunnels()?;
    experiment_in(&mut guest, name, full)
}

/// Runs the named experiment in a guest with our program.
pub(crate) fn experiment_in(guest: &mut Guest, name: &str, full: bool) -> Result<Found, String> {
    let form = if full { "" } else { "--quick " };
    guest.run(&format!(
        "antedate lab {name} {form}--json /run/found.json >/run/lab.log 2>&1 & echo $! >/run/lab.pid"
    ))?;
    // Each answer shows that the guest is alive; while busy, its seconds are longer than ours.
    while guest.attempt("sleep 1; kill -0 $(cat /run/lab.pid) 2>/dev/null")?.0 == 0 {}
    let said = guest.run("cat /run/found.json || cat /run/lab.log")?;
    let found =
        serde_json::from_str(said.trim()).map_err(|error| format!("the experiment says: {error}: {said}"))?;
    Ok(Found(found))
}

impl Found {
    /// Writes the result as `antedate lab --json` does.
    pub(crate) fn write(&self, file: &std::path::Path) -> Result<(), String> {
        std::fs::write(file, self.0.to_string()).map_err(|error| format!("{}: {error}", file.display()))
    }

    pub(crate) fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = self.rows().iter().filter_map(|row| row["case"].as_str()).collect();
        cases.dedup();
        cases
    }

    fn rows(&self) -> &[Value] {
        self.0["rows"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// A number of a case: ours, or the `baseline`. NaN if it is missing.
    pub(crate) fn number(&self, case: &str, metric: &str, column: &str) -> f64 {
        let row = self.rows().iter().find(|row| row["case"] == case && row["metric"] == metric);
        row.and_then(|row| row[column].as_f64()).unwrap_or(f64::NAN)
    }

    /// The number of checks with these words, if all of them were met.
    pub(crate) fn met(&self, words: &str) -> Option<usize> {
        let checks = self.0["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let with: Vec<&Value> = checks
            .iter()
            .filter(|check| check["what"].as_str().is_some_and(|what| what.contains(words)))
            .collect();
        with.iter().all(|check| check["met"] == true).then_some(with.len())
    }
}

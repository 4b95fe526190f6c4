//! The fleet's metrics in Prometheus' text format (0.0.4). Names of devices, roles and cells have
//! letters, digits and `-_.` only, so labels need no escapes.

use std::fmt::Write;

use super::View;
use crate::fleet::show::STATES;

/// A family's head.
fn family(text: &mut String, name: &str, help: &str) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "# HELP antedate_fleet_{name} {help}\n# TYPE antedate_fleet_{name} gauge");
}

pub(super) fn text(view: &View) -> String {
    let mut text = String::new();
    family(&mut text, "up", "Whether NATS answered the last question.");
    let _ = writeln!(text, "antedate_fleet_up {}", u8::from(view.trouble.is_empty()));
    family(&mut text, "pending", "Devices that ask for membership.");
    let _ = writeln!(text, "antedate_fleet_pending {}", view.pending.len());
    family(&mut text, "devices", "Members in each state.");
    for state in STATES {
        let count = view.rows.iter().filter(|row| row.state == state).count();
        let _ = writeln!(text, "antedate_fleet_devices{{state=\"{state}\"}} {count}");
    }
    family(&mut text, "device_state", "The state of a member, as a label.");
    for row in &view.rows {
        let _ = writeln!(
            text,
            "antedate_fleet_device_state{{device=\"{}\",role=\"{}\",cell=\"{}\",state=\"{}\"}} 1",
            row.name, row.role, row.cell, row.state
        );
    }
    let mut each = |name: &str, help: &str, value: &dyn Fn(&super::Row) -> i64| {
        family(&mut text, name, help);
        for row in view.rows.iter().filter(|row| row.state != "never") {
            let _ = writeln!(text, "antedate_fleet_{name}{{device=\"{}\"}} {}", row.name, value(row));
        }
    };
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    each("report_age_seconds", "Seconds since the last report.", &|row| signed(row.seconds));
    each("clock_seconds", "Seconds by which its clock is ahead of NATS's.", &|row| row.clock);
    each("settings_version", "The version of its settings in force.", &|row| signed(row.settings));
    each("settings_told", "The version of the last settings that it was told.", &|row| signed(row.told));
    each("frames_out", "Frames out by its gateway's present count.", &|row| signed(row.frames[0]));
    each("frames_in", "Frames in by its gateway's present count.", &|row| signed(row.frames[1]));
    family(&mut text, "cell_key_age_seconds", "Seconds since the CAK of a cell was made.");
    for (cell, seconds) in view.cells.iter().filter(|(cell, _)| !cell.is_empty()) {
        let _ = writeln!(text, "antedate_fleet_cell_key_age_seconds{{cell=\"{cell}\"}} {seconds}");
    }
    text
}

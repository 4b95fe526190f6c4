//! The verbs that show a fleet.

use std::path::PathBuf;

use antedate_fleet::home::Member;
use antedate_fleet::identity::code;
use antedate_fleet::report::{self, Event, Level};
use antedate_fleet::rollout::{self, Known};
use antedate_fleet::{now, subjects};
use clap::Args;
use serde::Serialize;

use super::manage::check;
use super::{Place, block_on, connect};
use crate::failure::{Done, Failure};
use crate::output;

#[derive(Args)]
pub(crate) struct Devices {
    #[command(flatten)]
    place: Place,
}

impl Devices {
    pub(crate) fn run(self) -> Done {
        let home = self.place.open()?;
        let mut rows =
            vec![["NAME", "CODE", "ROLE", "CELL", "GROUPS", "PASS", "STATE"].map(str::to_owned).to_vec()];
        for (id, member) in &home.devices {
            let state = match (member.revoked, member.version) {
                (0, 0) => "no settings yet".to_owned(),
                (0, version) => format!("settings {version}"),
                _ => "revoked".to_owned(),
            };
            let days = member.pass_ends.saturating_sub(now()) / 86_400;
            let pass = if member.pass_ends == 0 { String::new() } else { format!("{days} d") };
            let Member { name, role, cell, .. } = member;
            rows.push(vec![name.clone(), code(id), role.clone(), cell.clone(), groups(member), pass, state]);
        }
        output::print(&table(&rows))
    }
}

/// The groups of a device besides its cell.
fn groups(member: &Member) -> String {
    let is = |key: &str| member.values.get(key).is_some_and(|value| value == "yes");
    let group = |what: &str, name: &str, key: &str| {
        let part = if is(key) { format!(" ({key})") } else { String::new() };
        (!name.is_empty()).then(|| format!("{what} {name}{part}"))
    };
    let all = [
        group("overlay", &member.overlay, "hub"),
        group("dtls", &member.dtls, "listener"),
        group("mqtt", &member.mqtt, "reader"),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Columns of their own width.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[derive(Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    place: Place,
}

impl Plan {
    pub(crate) fn run(self) -> Done {
        let home = self.place.open()?;
        let planned = rollout::plan(&home, false)?;
        planned.iter().try_for_each(check)?;
        let mut text = String::new();
        for one in &planned {
            let files: Vec<String> = one
                .differences
                .iter()
                .map(|found| format!("{} (+{} -{} lines)", found.file, found.added, found.removed))
                .collect();
            let first = if one.first { ", for the first time" } else { "" };
            text.push_str(&format!("{}: {}{first}\n", one.name, files.join(", ")));
        }
        for (cell, names) in home.left_cells()? {
            text.push_str(&format!("{cell}: another CAK at `apply`, since {} left it\n", names.join(", ")));
        }
        for (group, names) in home.left_mqtt()? {
            text.push_str(&format!(
                "{group}: the next epoch at `apply`, since {} left it\n",
                names.join(", ")
            ));
        }
        let all = home.members().count();
        text.push_str(&format!("{} of {all} device(s) would change\n", planned.len()));
        output::print(&text)
    }
}

#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    place: Place,
    /// Write it as JSON to FILE, or to standard output without one.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Exit with status 1 if a device needs the operator.
    #[arg(long)]
    check: bool,
}

/// The states of a member, better ones first.
pub(super) const STATES: [&str; 8] =
    ["ok", "warning", "behind", "critical", "refused", "absent", "silent", "never"];

/// A member's row.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) code: String,
    pub(super) role: String,
    pub(super) cell: String,
    /// One of [`STATES`].
    pub(super) state: &'static str,
    pub(super) what: String,
    pub(super) settings: u64,
    pub(super) told: u64,
    /// Seconds since its last report.
    pub(super) seconds: u64,
    /// Seconds by which its clock is ahead of NATS's.
    pub(super) clock: i64,
    pub(super) ckn: String,
    pub(super) antedate: String,
    /// Frames out and in.
    pub(super) frames: [u64; 2],
}

/// Seconds by which a clock may be wrong.
const CLOCK: i64 = 300;

pub(super) fn row(id: &str, member: &Member, known: Option<&Known>) -> Row {
    let mut row = Row {
        name: member.name.clone(),
        code: code(id),
        role: member.role.clone(),
        cell: member.cell.clone(),
        state: "never",
        what: "has never reported".into(),
        settings: 0,
        told: member.version,
        seconds: 0,
        clock: 0,
        ckn: String::new(),
        antedate: String::new(),
        frames: [0; 2],
    };
    let Some(known) = known else { return row };
    let report = &known.report;
    row.settings = report.settings;
    row.seconds = now().saturating_sub(known.time);
    row.clock =
        i64::try_from(report.time).unwrap_or_default() - i64::try_from(known.time).unwrap_or_default();
    row.ckn.clone_from(&report.health.ckn);
    row.antedate.clone_from(&report.antedate);
    row.frames = report.health.frames;
    (row.state, row.what) = if known.is_silent() {
        ("silent", format!("no report for {} s", row.seconds))
    } else if !report.refused.is_empty() {
        ("refused", report.refused.clone())
    } else if row.clock.abs() > CLOCK {
        ("warning", format!("its clock is {} s wrong", row.clock))
    } else if report.settings < member.version {
        ("behind", format!("has settings {} of {}", report.settings, member.version))
    } else {
        (report.health.level.name(), report.health.what.clone())
    };
    row
}

impl Status {
    pub(crate) fn run(self) -> Done {
        let home = self.place.open()?;
        let reading = home.reading()?;
        let known = block_on(async { Ok(rollout::reports(&home, &connect(&home).await?, &reading).await?) })?;
        let rows: Vec<Row> = home.members().map(|(id, member)| row(id, member, known.get(id))).collect();
        let bad = rows.iter().filter(|row| row.state != Level::Ok.name()).count();
        if let Some(file) = &self.json {
            output::json(file, &rows)?;
        } else {
            let mut all = vec![
                ["NAME", "ROLE", "CELL", "STATE", "SETTINGS", "AGE", "WHAT"].map(str::to_owned).to_vec(),
            ];
            for row in &rows {
                all.push(vec![
                    row.name.clone(),
                    row.role.clone(),
                    row.cell.clone(),
                    row.state.to_owned(),
                    row.settings.to_string(),
                    format!("{} s", row.seconds),
                    row.what.clone(),
                ]);
            }
            output::print(&table(&all))?;
        }
        if self.check && bad > 0 {
            return Err(Failure::Verdict(format!("{bad} of {} device(s) need the operator", rows.len())));
        }
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct Events {
    #[command(flatten)]
    place: Place,
    /// Of one device: its name or code.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
}

impl Events {
    pub(crate) fn run(self) -> Done {
        let home = self.place.open()?;
        let reading = home.reading()?;
        let one = self.device.as_deref().map(|who| home.find(who)).transpose()?;
        let stored = block_on(async { Ok(connect(&home).await?.all(&subjects::EVENTS, true).await?) })?;
        let mut text = String::new();
        for event in stored.iter().filter(|event| one.as_ref().is_none_or(|id| *id == event.id)) {
            let Some(member) = home.devices.get(&event.id) else { continue };
            // What its device has not signed is no event.
            let read =
                member.keys().and_then(|keys| report::open::<Event>(&event.payload, &keys, &reading).ok());
            if let Some(read) = read {
                text.push_str(&format!("{} {}: {}\n", event.time, member.name, read.what));
            }
        }
        output::print(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_fleet::identity::{Identity, Seed};
    use antedate_fleet::report::{Health, Report};

    #[test]
    fn most_urgent_state_is_shown() {
        let keys = Identity::of(Seed::of([1; 32])).public();
        let mut member = Member::new("press", "gateway", "line4", keys);
        member.version = 5;
        let time = now();
        let known = |report: Report, time| Known { report: Report { time, ..report }, time };
        let state = |known: Option<&Known>| row(&keys.id(), &member, known).state;
        assert_eq!(state(None), "never");
        let good = Report { settings: 5, ..Report::default() };
        assert_eq!(state(Some(&known(good.clone(), time))), "ok");
        assert_eq!(state(Some(&known(good.clone(), time - 1000))), "silent");
        assert_eq!(state(Some(&known(Report { settings: 4, ..good.clone() }, time))), "behind");
        assert_eq!(state(Some(&known(Report { refused: "x".into(), ..good.clone() }, time))), "refused");
        let ill = Health { level: Level::Critical, ..Health::default() };
        assert_eq!(state(Some(&known(Report { health: ill, ..good.clone() }, time))), "critical");
        // A clock in 1970.
        let early = Known { report: Report { time: 12, ..good }, time };
        assert!(row(&keys.id(), &member, Some(&early)).what.contains("clock"));
    }

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [vec!["A".to_owned(), "B".to_owned()], vec!["long".to_owned(), "x".to_owned()]];
        assert_eq!(table(&rows), "A     B\nlong  x\n");
    }
}

//! The numbers as a page of tables for the book.

use serde_json::Value;
use std::fmt::Write;

/// A Markdown page of the measured parts.
pub(crate) fn page(parts: &Value) -> String {
    let mut out = String::from(
        "# The gateway beside plain bridges and OpenVPN\n\n`cargo xtask bench gateway`; one line for each part, when and on what machine.\n\n",
    );
    // Writing to a string cannot fail.
    let names = || super::PARTS.into_iter().map(|(name, _)| name);
    for part in names().filter(|part| parts[part].is_object()) {
        let (begun, machine) = (&parts[part]["begun"], &parts[part]["machine"]);
        let _ = writeln!(
            out,
            "- {part}: {}, {} cores of {}, kernel {}, load before {}",
            text(begun),
            machine["cores"],
            text(&machine["cpu"]),
            text(&machine["kernel"]),
            text(&machine["load_before"])
        );
    }
    let rows = |part: &str| parts[part]["rows"].as_array().filter(|rows| !rows.is_empty());
    if let Some(rows) = rows("roundtrips") {
        out.push_str("\n## Round trips\n\n| frames | path | median µs | p99 | p99.9 | placement |\n| --- | --- | --- | --- | --- | --- |\n");
        for row in rows {
            let us = |key: &str| number(&row[key], 1);
            let (load, who, place) = (text(&row["load"]), text(&row["contender"]), text(&row["placement"]));
            let _ = writeln!(
                out,
                "| {load} | {who} | {} | {} | {} | {place} |",
                us("p50"),
                us("p99"),
                us("p99_9")
            );
        }
    }
    let goals = names().filter_map(|part| parts[part]["goals"].as_array()).flatten();
    let lines = goals.map(|goal| {
        let met = match goal["met"].as_bool() {
            Some(true) => "met",
            Some(false) => "**not met**",
            None => "no verdict",
        };
        format!(
            "| {} | {} | {} | {met} |\n",
            text(&goal["name"]),
            text(&goal["goal"]),
            text(&goal["measured"])
        )
    });
    let lines: String = lines.collect();
    if !lines.is_empty() {
        let _ = write!(
            out,
            "\n## Against the goals\n\n| | goal | measured | |\n| --- | --- | --- | --- |\n{lines}"
        );
    }
    if let Some(rows) = rows("tcp") {
        out.push_str("\n## TCP\n\n| path | Gbit/s | placement |\n| --- | --- | --- |\n");
        for row in rows {
            let (who, place) = (text(&row["contender"]), text(&row["placement"]));
            let _ = writeln!(out, "| {who} | {} | {place} |", number(&row["rate"], 2));
        }
    }
    if let Some(rows) = rows("pps") {
        out.push_str("\n## Frames a second, one way\n\n| octets | path | without loss | 0.1 % lost | of a flood | placement |\n| --- | --- | --- | --- | --- | --- |\n");
        for row in rows {
            let count = |key: &str| number(&row[key], 0);
            let (who, place) = (text(&row["contender"]), text(&row["placement"]));
            let _ = writeln!(
                out,
                "| {} | {who} | {} | {} | {} | {place} |",
                row["frame_bytes"],
                count("lossless"),
                count("loss_0_1_percent"),
                count("flood_arrived")
            );
        }
    }
    if let Some(rows) = rows("scale") {
        out.push_str("\n## Workers\n\n| workers | keys | frames a second | with all cores busy | CPU ns a frame, sending gateway | receiving | busiest worker's share | modelled: a core for each |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
        for row in rows {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                row["workers"],
                text(&row["keys"]),
                number(&row["rate"], 0),
                number(&row["modelled"], 0),
                number(&row["gateway_ns"][0], 0),
                number(&row["gateway_ns"][1], 0),
                number(&row["busiest_share"], 2),
                number(&row["core_for_each"], 0)
            );
        }
    }
    if let Some(rows) = rows("hub") {
        out.push_str("\n## Workers of an overlay's hub\n\n| workers | frames a second | CPU ns a frame, hub | busiest worker's share | passed on | modelled: a core for each |\n| --- | --- | --- | --- | --- | --- |\n");
        for row in rows {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} |",
                row["workers"],
                number(&row["rate"], 0),
                number(&row["hub_ns"], 0),
                number(&row["busiest_share"], 2),
                number(&row["passed_share"], 4),
                number(&row["core_for_each"], 0)
            );
        }
    }
    if let Some(rows) = rows("express") {
        out.push_str("\n## A flow with a deadline beside bulk\n\n| path | bulk sent a second | arrived | frames lost | missed cycles | interval p99 µs | longest |\n| --- | --- | --- | --- | --- | --- | --- |\n");
        for row in rows {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                text(&row["contender"]),
                number(&row["bulk_sent"], 0),
                number(&row["bulk_arrived"], 0),
                row["lost"],
                row["missed"],
                number(&row["interval_p99_us"], 0),
                number(&row["interval_max_us"], 0)
            );
        }
    }
    if let Some(rows) = rows("cpu") {
        out.push_str("\n## CPU\n\n| path | polling bound | % of a core, each gateway | median round trip µs |\n| --- | --- | --- | --- |\n");
        for row in rows {
            let shares: Vec<String> =
                row["cpu_percent"].as_array().into_iter().flatten().map(|share| number(share, 2)).collect();
            let _ = writeln!(
                out,
                "| {} | {} % | {} | {} |",
                text(&row["contender"]),
                row["poll_cpu_percent"],
                shares.join(", "),
                number(&row["round_trip_p50_us"], 1)
            );
        }
    }
    if let Some(rows) = rows("watched") {
        out.push_str("\n## Page, metrics and watched flows\n\n| frames | | median µs | p99 |\n| --- | --- | --- | --- |\n");
        for row in rows {
            let (load, who) = (text(&row["load"]), text(&row["daemon"]));
            let _ =
                writeln!(out, "| {load} | {who} | {} | {} |", number(&row["p50"], 1), number(&row["p99"], 1));
        }
    }
    if let Some(rows) = rows("dtls") {
        out.push_str("\n## DTLS proxy\n\n| sessions | of these speak | CPU µs a round trip, listen | connect | median µs | p99 | KiB a session, listen | connect |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
        for row in rows {
            let tenths = |key: &str| number(&row[key], 1);
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                row["sessions"],
                text(&row["speak"]),
                tenths("listen_cpu_us"),
                tenths("connect_cpu_us"),
                tenths("p50_us"),
                tenths("p99_us"),
                tenths("listen_session_kib"),
                tenths("connect_session_kib")
            );
        }
    }
    if let Some(rows) = rows("cycles") {
        out.push_str("\n## Cycles\n\n| cycle | path | bus errors | of these not beside a stall | missed cycles | interval p99 µs |\n| --- | --- | --- | --- | --- | --- |\n");
        for row in rows {
            let errors = row["bus_errors"].as_u64().unwrap_or(0);
            let alone = errors.saturating_sub(row["bus_errors_stalled"].as_u64().unwrap_or(0));
            let _ = writeln!(
                out,
                "| {} µs | {} | {errors} | {alone} | {} | {} |",
                row["cycle_us"],
                text(&row["contender"]),
                row["missed"],
                number(&row["interval_p99_us"], 0)
            );
        }
    }
    out
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number that is not finite is no number in JSON either.
fn number(value: &Value, digits: usize) -> String {
    value.as_f64().map_or_else(|| "-".into(), |number| format!("{number:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_measured_has_its_tables_and_nothing_else_has() {
        let machine = json!({ "cores": 2, "cpu": "A", "kernel": "6", "load_before": "0.1" });
        let parts = json!({ "roundtrips": {
            "begun": "today", "machine": machine,
            "rows": [{ "load": "64 bytes", "contender": "bridges", "placement": "split", "p50": 4.25, "p99": 5.0, "p99_9": null }],
            "goals": [{ "name": "a / b", "goal": "at most 1", "measured": "2", "met": false }, { "name": "c / d", "goal": "no goal", "measured": "3", "met": null }],
        } });
        let page = page(&parts);
        for line in [
            "- roundtrips: today, 2 cores of A, kernel 6, load before 0.1\n",
            "| 64 bytes | bridges | 4.2 | 5.0 | - | split |\n",
            "| a / b | at most 1 | 2 | **not met** |\n",
            "| c / d | no goal | 3 | no verdict |\n",
        ] {
            assert!(page.contains(line), "{page}");
        }
        assert!(!page.contains("## TCP") && !page.contains("## Cycles"), "{page}");
    }
}

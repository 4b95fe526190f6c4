//! Figures of made-up results, and of each experiment's.

use std::fs;
use std::path::Path;

use super::*;

fn report(rows: Vec<Row>) -> Report {
    Report { rows, ..Report::new("timeslot", "") }
}

#[test]
fn quartiles_make_boxes_and_the_rest_bars() {
    let five = ["min", "p25", "median", "p75", "max"].into_iter().zip([1.0, 2.0, 3.0, 4.0, 500.0]);
    let mut rows: Vec<Row> = five
        .map(|(name, value)| Row::new("ours", format!("round trip {name}"), "µs").antedated(value))
        .collect();
    rows.push(Row::new("ours", "throughput", "Mbit/s").baseline(2.0).antedated(3.0));
    rows.push(Row::new("another", "round trip p25", "µs").antedated(9.0));
    rows.push(Row::new("left out", "left out", "").note("apt-get install it"));
    let svg = of(&report(rows)).expect("a figure");
    assert_eq!(svg.matches("<svg ").count(), 4, "boxes, bars and bars in one figure: {svg}");
    assert!(svg.contains("ours, antedated") && svg.contains("another, round trip p25"));
    assert!(svg.contains("throughput (Mbit/s)") && !svg.contains("left out"));
    assert!(svg.ends_with("</svg>\n") && svg.matches("</svg>").count() == 4);
}

#[test]
fn results_are_drawn_from_their_files() {
    let mut result = report(vec![Row::new("a", "b", "ms").antedated(2.0)]);
    let bare = serde_json::to_string(&result).expect("JSON");
    let stored = format!("{{\"program\":\"p\",\"report\":{bare}}}");
    let drawn = of(&result).expect("a figure");
    assert_eq!(of_result("timeslot", &bare).expect("a figure"), drawn);
    assert_eq!(of_result("timeslot", &stored).expect("a figure"), drawn);
    assert!(of_result("motes", &bare).expect_err("another").to_string().contains("timeslot"));
    for wrong in ["", "{}", "[1]", "{\"report\":{}}"] {
        assert!(of_result("timeslot", wrong).is_err(), "{wrong}");
    }
    result.rows.clear();
    assert!(of(&result).is_err(), "nothing to draw");
    result.check("it holds", true);
    assert!(of(&result).expect("goals").contains("it holds"));
}

#[test]
fn long_charts_say_what_they_leave_out() {
    let rows = (0..70).map(|n| Row::new(format!("case {n}"), "time", "ms").antedated(f64::from(n)));
    let svg = of(&report(rows.collect())).expect("a figure");
    assert!(svg.contains("10 more cases") && svg.contains("case 59") && !svg.contains("case 60"));
}

/// Results that `antedate lab NAME --quick --json` wrote, cut to the first cases of each quantity, with
/// up to six goals.
const RESULTS: &str = "tests/results";

#[test]
fn every_experiment_draws_its_figure() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(RESULTS);
    for experiment in crate::ALL {
        let file = folder.join(format!("{}.json", experiment.name));
        let text = fs::read_to_string(&file).unwrap_or_else(|error| {
            unreachable!("{}: {error}: keep a result of the new experiment there", file.display())
        });
        let svg = of_result(experiment.name, &text)
            .unwrap_or_else(|error| unreachable!("{}: {error}", file.display()));
        let (Stored::Report { report: found } | Stored::Bare(found)) =
            serde_json::from_str(&text).expect("a result");
        let numbers = found.rows.iter().filter(|row| numbers(row).iter().any(Option::is_some));
        let mut drawn = 0;
        for row in numbers {
            let heading =
                antedate_figure::escaped(&heading(stem(&row.metric).unwrap_or(&row.metric), &row.unit));
            assert!(
                svg.contains(&format!(">{heading}</text>")),
                "{}: no chart of {heading}",
                experiment.name
            );
            drawn += 1;
        }
        assert!(drawn + found.checks.len() > 0, "{}: nothing to draw", experiment.name);
        assert!(svg.matches("<rect ").count() > 0, "{}: no bar and no box", experiment.name);
        assert_eq!(svg.matches("<svg ").count(), svg.matches("</svg>").count(), "{}", experiment.name);
        for broken in ["=\"NaN", "=\"inf", "=\"-inf"] {
            assert!(!svg.contains(broken), "{}: a coordinate that is no number", experiment.name);
        }
    }
    assert_eq!(
        fs::read_dir(folder).expect("the folder").count(),
        crate::ALL.len(),
        "a result of no experiment"
    );
}

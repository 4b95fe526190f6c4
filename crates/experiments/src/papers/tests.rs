//! The report as a whole: results on the disk, rows, page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::results::{Found, Line, Results, State, Stored, digest};
use super::*;

fn machine() -> Machine {
    Machine { cpu: "a CPU".into(), cores: 2, kernel: "6".into(), load: String::new() }
}

/// A result with a row for each row of the papers that asks for this experiment.
fn complete(papers: &[Paper], experiment: &str, number: f64) -> Stored {
    let mut rows: Vec<Line> = Vec::new();
    for group in papers.iter().flat_map(|paper| &paper.numbers) {
        if group.experiment.as_deref() != Some(experiment) {
            continue;
        }
        for value in &group.values {
            for case in [&group.case, &group.baseline_case, &group.against].into_iter().flatten() {
                let of = |text: &str| text.replace("{}", value.named());
                rows.push(Line {
                    case: of(case),
                    metric: of(group.row.as_deref().unwrap_or(&group.metric)),
                    unit: group.unit.clone(),
                    baseline: Some(2.0 * number),
                    antedated: Some(number),
                    note: "<script>alert(1)</script>".into(),
                });
            }
        }
    }
    Stored {
        program: "me".into(),
        began: "2026-11-28T08:00:00Z".into(),
        seconds: 1.0,
        quick: false,
        report: Found {
            experiment: experiment.into(),
            machine: machine(),
            antedate: env!("CARGO_PKG_VERSION").into(),
            rows,
            checks: Vec::new(),
        },
    }
}

/// Results of all experiments.
fn all(papers: &[Paper], number: f64) -> Results {
    let mut results = Results::default();
    for needed in run::NEEDED.iter().filter(|needed| !needed.paper.is_empty()) {
        results.add(needed.name, Some(complete(papers, needed.name, number)), State::Taken, "me");
    }
    results
}

fn settings(folder: PathBuf, program: PathBuf) -> Settings {
    Settings { folder, quick: false, only: None, run: false, old: false, program }
}

#[test]
fn each_printed_number_has_its_row() {
    let papers = printed::all().expect("the papers' files");
    assert_eq!(papers.iter().map(|paper| paper.name.as_str()).collect::<Vec<_>>(), PAPERS);
    for results in [Results::default(), all(&papers, 1.0)] {
        for paper in &papers {
            let rows = join::rows(paper, &results);
            let numbers: usize = paper.numbers.iter().map(|group| group.values.len()).sum();
            assert_eq!(rows.len(), numbers);
            for row in &rows {
                assert_eq!(row.contradiction(), None, "{}", row.name());
            }
            let mut names = BTreeSet::new();
            for row in &rows {
                assert!(names.insert(format!("{} {}", row.name(), row.statistic)), "twice: {}", row.name());
            }
        }
    }
}

/// The numbers that the papers print, by paper and item.
const PRINTED: &str = include_str!("../../papers/printed.toml");

/// The numbers of a paper's rows, by item.
fn by_item(paper: &Paper) -> BTreeMap<String, Vec<f64>> {
    let mut items: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for group in &paper.numbers {
        let numbers: Vec<f64> = group.values.iter().filter_map(printed::Value::printed).collect();
        if !numbers.is_empty() {
            items.entry(group.item.clone()).or_default().extend(numbers);
        }
    }
    items
}

#[test]
fn no_printed_number_is_lost() {
    let listed: BTreeMap<String, BTreeMap<String, Vec<f64>>> = toml::from_str(PRINTED).expect("the list");
    assert_eq!(listed.len(), PAPERS.len());
    for paper in printed::all().expect("the papers' files") {
        assert_eq!(
            by_item(&paper),
            listed[&paper.name],
            "{}: left the rows, right papers/printed.toml",
            paper.name
        );
    }
}

#[test]
fn lost_and_changed_numbers_are_noticed() {
    let papers = printed::all().expect("the papers' files");
    let whole = by_item(&papers[0]);
    let of = |change: fn(&mut printed::Group)| {
        let mut paper = papers[0].clone();
        let group =
            paper.numbers.iter_mut().find(|group| group.values[0].printed().is_some()).expect("a group");
        change(group);
        by_item(&paper)
    };
    assert_ne!(of(|group| group.values.clear()), whole);
    assert_ne!(of(|group| group.values[0] = printed::Value::Number("a".into(), 0.125)), whole);
    assert_ne!(of(|group| group.item.push('x')), whole);
}

#[test]
fn experiments_of_the_papers_are_run() {
    for paper in printed::all().expect("the papers' files") {
        for group in &paper.numbers {
            let Some(experiment) = &group.experiment else { continue };
            let needed = run::NEEDED.iter().find(|needed| needed.name == experiment);
            assert!(needed.is_some_and(|needed| needed.serves(&paper.name)), "{} {experiment}", paper.name);
        }
    }
}

#[test]
fn unsupported_verdicts_are_noticed() {
    let papers = printed::all().expect("the papers' files");
    let results = all(&papers, 1.0);
    let rows: Vec<Comparison> = papers.iter().flat_map(|paper| join::rows(paper, &results)).collect();
    let row = rows.iter().find(|row| row.verdict == Verdict::Surpassed).expect("a row").clone();
    for verdict in [Verdict::Reproduced, Verdict::NotReached, Verdict::NotMeasured] {
        assert!(Comparison { verdict, ..row.clone() }.contradiction().is_some(), "{verdict:?}");
    }
    assert!(Comparison { reason: String::new(), ..row.clone() }.contradiction().is_some());
    assert!(Comparison { repeat: String::new(), ..row.clone() }.contradiction().is_some());
    let model =
        rows.iter().find(|row| row.label == Label::Modelled && row.found().is_some()).expect("a model");
    assert!(Comparison { check: None, ..model.clone() }.contradiction().is_some());
    let missing = rows.iter().find(|row| row.verdict == Verdict::NotMeasured).expect("a row");
    assert!(Comparison { verdict: Verdict::Surpassed, ..missing.clone() }.contradiction().is_some());
    let error = ReportError::Contradiction { row: row.name(), why: "it does".into() };
    assert!(error.to_string().contains(&row.name()));
}

#[test]
fn label_is_not_better_than_the_note() {
    let papers = printed::all().expect("the papers' files");
    let mut stored = complete(&papers, "timeslot", 1.0);
    stored.report.rows.iter_mut().for_each(|line| line.note = "modelled from the paper's times".into());
    let mut results = Results::default();
    results.add("timeslot", Some(stored), State::Taken, "me");
    let paper = papers.iter().find(|paper| paper.name == "sciancalepore2016").expect("a paper");
    let rows = join::rows(paper, &results);
    let told = rows.iter().filter(|row| row.repeat.contains("timeslot") && row.found().is_some());
    assert!(told.clone().count() > 100 && told.clone().all(|row| row.label >= Label::Modelled));
}

#[test]
fn data_without_its_form_is_refused() {
    let fault = |text: &str| match printed::read("x", text) {
        Err(ReportError::Data { paper, why }) => {
            assert_eq!(paper, "x");
            why
        }
        other => unreachable!("{other:?}"),
    };
    assert!(!fault("name = 1").is_empty());
    let head = "name = \"x\"\nauthors = \"\"\ntitle = \"\"\nmachine = \"\"\nclaims = []\n[[numbers]]\nitem = \"i\"\nmetric = \"m\"\nunit = \"ms\"\nstatistic = \"mean\"\nbetter = \"less\"\n";
    let one = "values = [[\"a\", 1]]\n";
    let with = |more: &str| fault(&format!("{head}{more}"));
    assert!(with("values = [[\"a\", 1]]\n").contains("label"), "a number without a label");
    assert!(with("label = \"emulated\"\nvalues = []\n").contains("no values"));
    assert!(with(&format!("label = \"emulated\"\n{one}")).contains("neither an experiment nor a reason"));
    let wrong = format!("label = \"emulated\"\nexperiment = \"nothing\"\ncase = \"c\"\n{one}");
    assert!(with(&wrong).contains("does not exist"));
    let model = format!("label = \"modelled\"\nexperiment = \"motes\"\ncase = \"c\"\n{one}");
    assert!(with(&model).contains("check"));
}

#[test]
fn page_is_whole_and_escaped() {
    let papers = printed::all().expect("the papers' files");
    let results = all(&papers, 1.0);
    let written = document(&papers, &results, "me".into(), machine()).expect("a report");
    let html = &written.html;
    assert!(html.starts_with(PAGE_BEGIN) && html.ends_with("</html>\n"));
    assert!(!html.contains("<script"), "notes are escaped");
    for refused in ["http://", "https://", "src=", "@import", "url("] {
        let allowed = html.matches("http://www.w3.org/2000/svg").count();
        let found = html.matches(refused).count() - if refused == "http://" { allowed } else { 0 };
        assert_eq!(found, 0, "{refused}: the page needs no network");
    }
    for needed in
        ["<main id=\"main\">", "<nav aria-label", "class=\"skip\"", "<caption>", "scope=\"col\"", "<footer>"]
    {
        assert!(html.contains(needed), "{needed}");
    }
    assert!(html.len() < 1_500_000, "{} octets", html.len());
    assert!(written.figures.len() > 20, "{:?}", written.document.not_drawn);
    assert!(written.without_result().is_empty());
    for figure in &written.figures {
        assert!(figure.csv.lines().count() > 1, "{}", figure.name);
    }
    // Ids are unique, so that links lead to one place.
    let ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
}

#[test]
fn results_are_set_aside_with_reasons() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path().into(), "antedate".into());
    fs::create_dir(folder.path().join(RESULTS)).expect("a folder");
    let papers = printed::all().expect("the papers' files");
    let good = complete(&papers, "timeslot", 1.0);
    let state = |stored: &Stored, settings: &Settings| {
        let text = serde_json::to_string(stored).expect("JSON");
        fs::write(result_file(&settings.folder, "timeslot"), text).expect("written");
        results::take(settings, "timeslot", "me", &machine()).1
    };
    assert_eq!(results::take(&settings, "timeslot", "me", &machine()).1, State::Missing);
    assert_eq!(state(&good, &settings), State::Taken);
    let mut old = good.clone();
    old.report.antedate = "0.0.1".into();
    assert!(matches!(state(&old, &settings), State::Old(why) if why.contains("0.0.1")));
    assert_eq!(state(&old, &Settings { old: true, ..settings.clone() }), State::Taken);
    let failed = result_file(&settings.folder, "timeslot").with_extension("failed");
    fs::write(&failed, "no QEMU here\n").expect("written");
    assert!(matches!(state(&old, &settings), State::Old(why) if why.ends_with("failed: no QEMU here")));
    fs::remove_file(&failed).expect("removed");
    let mut old = good.clone();
    old.program = "another".into();
    assert!(matches!(state(&old, &settings), State::Old(why) if why.contains("another build")));
    let mut old = good.clone();
    old.report.machine.cpu = "another CPU".into();
    assert!(matches!(state(&old, &settings), State::Old(why) if why.contains("another CPU")));
    let short = Stored { quick: true, ..good.clone() };
    assert!(matches!(state(&short, &settings), State::Old(_)));
    assert_eq!(state(&short, &Settings { quick: true, ..settings.clone() }), State::Taken);
    let mut other = good.clone();
    other.report.experiment = "motes".into();
    assert!(matches!(state(&other, &settings), State::Broken(why) if why.contains("motes")));
    let file = result_file(&settings.folder, "timeslot");
    for broken in ["", "{", "[1]", "{\"experiment\":3}"] {
        fs::write(&file, broken).expect("written");
        assert!(
            matches!(results::take(&settings, "timeslot", "me", &machine()).1, State::Broken(_)),
            "{broken}"
        );
    }
    // What `antedate lab --json` wrote.
    fs::write(&file, serde_json::to_string(&good.report).expect("JSON")).expect("written");
    assert_eq!(results::take(&settings, "timeslot", "me", &machine()).1, State::Taken);
    fs::remove_file(&file).expect("removed");
    fs::write(file.with_extension("failed"), "\nno QEMU here\n").expect("written");
    assert!(
        matches!(results::take(&settings, "timeslot", "me", &machine()).1, State::Failed(why) if why == "no QEMU here")
    );
}

/// A program that stands for this one: it writes a result, or fails with a word.
fn program(folder: &Path, script: &str) -> PathBuf {
    let file = folder.join("antedate");
    fs::write(&file, format!("#!/bin/sh\necho \"$2\" >> {}/ran\n{script}\n", folder.display()))
        .expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its mode");
    file
}

#[test]
fn missing_experiments_run_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = Machine::here();
    let found = Found {
        experiment: "NAME".into(),
        machine: here,
        antedate: env!("CARGO_PKG_VERSION").into(),
        rows: Vec::new(),
        checks: Vec::new(),
    };
    let text = serde_json::to_string(&found).expect("JSON");
    fs::write(folder.path().join("result"), text).expect("written");
    let script = format!(
        "[ $2 != timeslot ] || {{ echo 'antedate: lab timeslot: no QEMU here' >&2; exit 2; }}\nsed \"s/NAME/$2/\" {}/result > \"$4\"",
        folder.path().display()
    );
    let program = program(folder.path(), &script);
    let settings = Settings {
        only: Some("sciancalepore2016"),
        run: true,
        ..settings(folder.path().join("report"), program.clone())
    };
    let ran = || fs::read_to_string(folder.path().join("ran")).expect("a list");
    let (mut failures, mut kept) = (Vec::new(), BTreeSet::new());
    let mut tell = |step: &Step<'_>| {
        kept.insert((step.kept, step.at[1]));
        if let Some(Err(why)) = step.ended {
            failures.push(format!("{}: {why}", step.experiment));
        }
    };
    let written = report(&settings, &mut tell).expect("a report");
    assert_eq!(ran(), "formulas\ntimeslot\n");
    assert_eq!(written.without_result(), ["timeslot"]);
    // Only what is missing runs again.
    let written = report(&settings, &mut tell).expect("a report");
    assert_eq!(ran(), "formulas\ntimeslot\ntimeslot\n");
    assert!(written.html.contains("no QEMU here"));
    assert_eq!(failures, ["timeslot: no QEMU here"; 2]);
    assert_eq!(kept, BTreeSet::from([(0, 2), (1, 1)]), "kept results are told");
    let names = fs::read_dir(settings.folder.join(RESULTS)).expect("a folder");
    let names: BTreeSet<String> =
        names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, BTreeSet::from(["formulas.json".into(), "timeslot.failed".into()]));
    assert_eq!(digest(&program).expect("a digest").len(), 16);
}

#[test]
fn unusable_folder_is_an_error() {
    let settings = settings("/proc/no/such/folder".into(), "/bin/sh".into());
    assert!(matches!(report(&settings, &mut |_| {}), Err(ReportError::Folder { .. })));
    let interrupted = ReportError::Interrupted { kept: 3 };
    assert!(interrupted.to_string().starts_with("interrupted; results kept: 3"));
}

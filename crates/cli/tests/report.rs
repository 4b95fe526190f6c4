//! `antedate report` through interruptions, full disks and folders with other content.

mod folder;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use folder::Folder;

const PAPER: [&str; 3] = ["--quick", "--only", "lackorzynski2020"];

/// A report that runs, and the line in which it says what it takes and what it runs.
fn begun(folder: &Folder) -> (Child, String, BufReader<impl Read>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_antedate"))
        .arg("report")
        .args(PAPER)
        .args(["--out", "report"])
        .current_dir(folder.0.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("a line");
    (child, line, errors)
}

/// Interrupts a report, and returns its last words.
fn interrupted(mut child: Child, mut errors: BufReader<impl Read>) -> String {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill").success());
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("its words");
    assert_eq!(child.wait().expect("its end").code(), Some(1), "{rest}");
    rest
}

fn said(output: &std::process::Output) -> (Option<i32>, String) {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn interrupted_report_goes_on() {
    let folder = Folder::new();
    let (child, line, errors) = begun(&folder);
    assert!(line.starts_with("antedate: results kept: 0; experiments to run: 3, about "), "{line}");
    let words = interrupted(child, errors);
    assert!(words.contains("interrupted; ") && words.contains("the same command goes on"), "{words}");
    let results = folder.path("report/results");
    let names =
        || fs::read_dir(&results).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    assert!(
        names().all(|name| name.to_string_lossy().ends_with(".json")),
        "{:?}",
        names().collect::<Vec<_>>()
    );
    if !results.join("formulas.json").exists() {
        let made = folder.call(&["lab", "formulas", "--json", "report/results/formulas.json"]);
        assert!(made.status.success());
    }
    let (child, line, errors) = begun(&folder);
    assert!(line.starts_with("antedate: results kept: 1; experiments to run: 2, about "), "{line}");
    assert!(interrupted(child, errors).contains("interrupted; results kept: 1;"));
    let (status, text) =
        said(&folder.call(&["report", "--no-run", "--out", "report", "--only", "lackorzynski2020"]));
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("fragmentation: missing: it has not run") && !text.contains("formulas:"), "{text}");
    assert!(folder.path("report/index.html").exists());
}

#[test]
fn other_content_is_named() {
    let folder = Folder::new();
    let report =
        |more: &[&str]| said(&folder.call(&[&["report", "--no-run", "--out", "report"], more].concat()));
    fs::create_dir_all(folder.path("report/results")).expect("a folder");
    fs::write(folder.path("report/results/timeslot.json"), "{").expect("written");
    fs::write(folder.path("report/results/motes.json"), "[1, 2]").expect("written");
    let (status, text) = report(&[]);
    assert_eq!(status, Some(1), "{text}");
    for name in ["timeslot", "motes"] {
        assert!(text.contains(&format!("{name}: broken: ")), "{text}");
        assert!(folder.path(&format!("report/results/{name}.json")).exists(), "what was there stays");
    }
    let page = fs::read_to_string(folder.path("report/index.html")).expect("a page");
    assert!(page.contains("broken: "));
    fs::write(folder.path("report/own-latencies.svg"), "mine").expect("written");
    let (status, text) = report(&[]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("own-latencies.svg") && text.contains("move it away"), "{text}");
    assert_eq!(fs::read_to_string(folder.path("report/own-latencies.svg")).expect("it"), "mine");
    let (status, text) = said(&folder.call(&["report", "--quick", "--out", "/proc/report"]));
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("/proc/report") && text.contains("a folder that you can write to"), "{text}");
}

#[test]
fn full_disk_keeps_the_earlier_page() {
    let folder = Folder::new();
    let report = || said(&folder.call(&["report", "--no-run", "--out", "report"]));
    assert_eq!(report().0, Some(1), "no result is there");
    for name in ["index.html", "report.json"] {
        let (file, part) =
            (folder.path(&format!("report/{name}")), folder.path(&format!("report/{name}.part")));
        let before = fs::read(&file).expect("an earlier one");
        symlink("/dev/full", &part).expect("a link");
        let (status, text) = report();
        assert_eq!(status, Some(2), "{text}");
        assert!(text.contains(name) && text.contains("free some space"), "{text}");
        assert_eq!(fs::read(&file).expect("it"), before);
        assert!(fs::symlink_metadata(part).is_err(), "what remains takes space");
    }
    assert_eq!(report().0, Some(1));
}

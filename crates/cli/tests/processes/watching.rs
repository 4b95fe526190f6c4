//! `antedate gateway status --watch` ends by a key, a signal, and a closed output.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{ANTEDATE, PATIENCE, Site, directory, overlay};

fn ends_well(mut watch: Child, by: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = watch.try_wait().expect("its state") {
            return assert!(status.success(), "by {by}: {status}");
        }
        if Instant::now() > end {
            let _ = watch.kill();
            panic!("it does not end by {by}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Reads until the output has this text so many times.
fn read_until(watch: &mut Child, text: &str, times: usize) -> String {
    let output = watch.stdout.as_mut().expect("its output");
    let (mut said, mut piece) = (String::new(), [0; 4096]);
    while said.matches(text).count() < times {
        let read = output.read(&mut piece).expect("more output");
        assert!(read > 0, "it ended: {said}");
        said += &String::from_utf8_lossy(&piece[..read]);
    }
    said
}

pub(super) fn status_is_watched() {
    let files = directory("watching");
    let sections = overlay(&files);
    let site = Site::build_in(files, sections);
    let socket = site.files.join("a.sock").display().to_string();
    let words = ["gateway", "status", "--watch", "--socket", &socket];
    let start = |command: &mut Command| {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts")
    };

    // A terminal, in which `script` (util-linux) runs it.
    let line = format!("{ANTEDATE} {}", words.join(" "));
    let mut watch = start(Command::new("script").args(["-qec", &line, "/dev/null"]));
    let said = read_until(&mut watch, "gateway     antedate", 3);
    assert!(said.contains("A\x1b[?7l\x1b[2Kgateway"), "drawn in place: {said:?}");
    let mut keys = watch.stdin.take().expect("its keys");
    keys.write_all(b"xq").expect("two keys");
    ends_well(watch, "a key");

    let mut watch = start(Command::new(ANTEDATE).args(words));
    let said = read_until(&mut watch, "gateway     antedate", 2);
    assert!(!said.contains('\x1b') && said.contains("\nflows "), "{said}");
    drop(watch.stdout.take());
    ends_well(watch, "a closed output");

    let mut watch = start(Command::new(ANTEDATE).args(words));
    read_until(&mut watch, "gateway     antedate", 1);
    let sent = Command::new("kill").args(["-INT", &watch.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    ends_well(watch, "Ctrl-C");
}

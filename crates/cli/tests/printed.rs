//! Commands of the documents, run as they are printed, with an /etc and a /var of their own.

#[path = "../../../xtask/src/commands.rs"]
#[allow(unreachable_pub, reason = "xtask exports it")]
mod commands;
#[path = "../../wire/tests/skip/mod.rs"]
mod skip;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use commands::{Shown, commands, documents};
use skip::skipped;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// True for commands that need only files and take no time. Words in capitals stand for others.
fn is_quick(shown: &Shown) -> bool {
    let words: Vec<&str> = shown.words.iter().map(String::as_str).collect();
    let stands_for = |word: &&str| {
        word.rsplit('=')
            .next()
            .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase()))
    };
    let needs_more = |word: &&str| ["--calibrate", "--for-members"].contains(word);
    let is_known =
        matches!(words[..], ["keygen", _, ..] | ["plan", _, ..] | ["lab", "list"] | ["mqtt", "init", ..]);
    is_known && !shown.is_open && !words.iter().any(|word| stands_for(word) || needs_more(word))
}

/// Runs a script as root of new namespaces. `None` where the machine forbids them.
fn in_namespaces(folder: &Path, script: &str) -> Option<String> {
    let call = |script: &str| {
        let mounts = "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /etc && mkdir -p lib && mount --bind lib /var/lib && \
                      mkdir -p /etc/antedate /var/lib/antedate && ip link set lo up";
        Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--net",
                "--mount",
                "sh",
                "-c",
                &format!("{mounts}\n{script}"),
            ])
            .env("A", env!("CARGO_BIN_EXE_antedate"))
            .env_remove("RUST_LOG")
            .current_dir(folder)
            .output()
            .expect("unshare(1) of util-linux")
    };
    if !call("true").status.success() {
        skipped("the commands of the documents: this machine forbids namespaces");
        return None;
    }
    let output = call(script);
    Some(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}

fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("'{}' ", word.replace('\'', "'\\''"))).collect()
}

#[test]
fn quick_commands_work_as_printed() {
    let mut ran = 0;
    for (name, text) in documents(&root()) {
        let quick: Vec<Shown> = commands(&name, &text, &["antedate"]).into_iter().filter(is_quick).collect();
        if quick.is_empty() {
            continue;
        }
        let folder = tempfile::tempdir().expect("a directory");
        symlink(root().join("docs"), folder.path().join("docs")).expect("a link");
        // The planner's example of the README.
        fs::copy(root().join("docs/examples/plan/profinet-cell.toml"), folder.path().join("plant.toml"))
            .expect("a copy");
        let line = |shown: &Shown| {
            format!("\"$A\" {}>said 2>&1; echo \"status $? $(tail -n 3 said)\"\n", quoted(&shown.words))
        };
        let script: String = quick.iter().map(line).collect();
        let Some(said) = in_namespaces(folder.path(), &script) else { return };
        let answers: Vec<&str> = said.split("status ").skip(1).collect();
        assert_eq!(answers.len(), quick.len(), "{said}");
        for (shown, said) in quick.iter().zip(answers) {
            // The planner's verdict on an example may be a missed deadline.
            let may_miss = shown.words[0] == "plan" && said.starts_with("1 ");
            assert!(said.starts_with("0 ") || may_miss, "{}: {:?}: {said}", shown.place, shown.words);
        }
        ran += quick.len();
    }
    assert!(ran >= 15, "{ran}");
}

/// The introduction's gateway: its configuration and commands, in their order.
const GATEWAY: &str = "\
for port in eth0 eth1; do ip link add $port type veth peer name to-$port; ip link set $port up; ip link set to-$port up; done
KEYGEN && cp -p cak /etc/antedate/cak && CHECK || exit 1
RUN 2>log & gateway=$!
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do STATUS >state && break; sleep 0.5; done
kill $gateway; wait $gateway; echo \"ended with $?\"; cat state log
";

#[test]
fn the_introduction_starts_a_gateway() {
    let text = fs::read_to_string(root().join("docs/src/introduction.md")).expect("the introduction");
    let shown = commands("introduction.md", &text, &["antedate"]);
    let printed = |words: &[&str]| {
        let found =
            shown.iter().find(|shown| !shown.is_open && shown.words.iter().zip(words).all(|(a, b)| a == b));
        format!("\"$A\" {}", quoted(&found.expect("a command").words))
    };
    let folder = tempfile::tempdir().expect("a directory");
    let block =
        text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a configuration");
    fs::write(folder.path().join("gateway.toml"), block).expect("a file");
    let script = GATEWAY
        .replace("KEYGEN", &printed(&["keygen"]))
        .replace("CHECK", &printed(&["gateway", "check"]))
        .replace("RUN", &printed(&["gateway", "run"]))
        .replace("STATUS", &printed(&["gateway", "status"]));
    let Some(said) = in_namespaces(folder.path(), &script) else { return };
    assert!(said.contains("ended with 0") && said.contains("macsec"), "{said}");
}

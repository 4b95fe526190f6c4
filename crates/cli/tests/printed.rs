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
    let needs_more = |word: &&str| ["--calibrate", "--verify", "--for-members"].contains(word);
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

/// The `sh` blocks of a section of a chapter.
fn blocks(chapter: &str, section: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/src").join(chapter)).expect("a chapter");
    let (_, section) = text.split_once(&format!("\n## {section}\n")).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).collect()
}

#[test]
fn bridge_joins_several_field_ports() {
    let blocks = blocks("gateway.md", "Several field ports");
    let [join, isolate] = &blocks[..] else { panic!("{blocks:?}") };
    let folder = tempfile::tempdir().expect("a directory");
    let script = format!(
        r#"set -e
        number=1
        for end in eth1:m1 eth2:m2 uplink0:far; do
          space=${{end#*:}}
          ip netns add $space
          ip link add ${{end%:*}} type veth peer name eth0 netns $space
          ip -n $space addr add 10.7.0.$number/24 dev eth0
          ip -n $space link set eth0 up
          number=$((number + 1))
        done
        sysctl -q -w net.ipv6.conf.uplink0.disable_ipv6=1
        ip link set uplink0 up
        {join}
        printf '[field]\ninterface = "field0"\n[uplink]\ninterface = "uplink0"\n[plain]\n[policy]\nallow = ["arp", "ipv4"]\n[state]\ndirectory = "state"\n[control]\nsocket = "s"\n' > gateway.toml
        mkdir state
        "$A" gateway check gateway.toml 2>&1
        "$A" gateway run gateway.toml > log 2>&1 &
        gateway=$!
        trap 'kill $gateway' EXIT
        for look in $(seq 100); do [ -S s ] && break; sleep 0.1; done
        reaches() {{ ip netns exec $1 ping -q -n -c 3 -i 0.1 -W 1 10.7.0.$2 > /dev/null && echo "$1 reaches $2"; }}
        sent() {{ "$A" gateway status --json --socket s | grep -m 1 forwarded_frames; }}
        reaches m1 3
        reaches m2 3
        reaches m1 2
        before=$(sent)
        ip netns exec m1 ping -q -n -c 20 -i 0.01 10.7.0.2 > /dev/null
        [ "$before" = "$(sent)" ] && echo "local frames stay local"
        {isolate}
        reaches m1 2 || echo "m1 is isolated"
        reaches m1 3
        "#
    );
    let Some(said) = in_namespaces(folder.path(), &script) else { return };
    let found: Vec<&str> =
        said.lines().filter(|line| line.starts_with('m') || line.contains("local")).collect();
    let wanted = [
        "m1 reaches 3",
        "m2 reaches 3",
        "m1 reaches 2",
        "local frames stay local",
        "m1 is isolated",
        "m1 reaches 3",
    ];
    assert_eq!(found, wanted, "{said}");
    // The host says nothing at the ports.
    assert_eq!(said.matches("warning").count(), 1, "of [plain]: {said}");
}

//! The command as a user calls it: output and exit status.

mod folder;
#[path = "command/goose.rs"]
mod goose;
#[path = "../../wire/tests/skip/mod.rs"]
mod skip;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use folder::Folder;
use skip::skipped;

impl Folder {
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    fn antedate(&self, arguments: &[&str]) -> Called {
        Called(self.call(arguments))
    }

    /// Runs a script as root of new network and mount namespaces; `None` where the machine forbids
    /// them.
    fn in_namespaces(&self, script: &str) -> Option<Called> {
        let call = |script: &str| {
            let output = Command::new("unshare")
                .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c"])
                .arg(format!("mount -t tmpfs tmpfs /run && mkdir /run/netns && ip link set lo up\n{script}"))
                .env("A", Path::new(env!("CARGO_BIN_EXE_antedate")))
                .env("TMPDIR", self.0.path())
                .env_remove("RUST_LOG")
                .current_dir(self.0.path())
                .output();
            Called(output.expect("unshare(1) of util-linux"))
        };
        if call("true").status() == 0 {
            return Some(call(script));
        }
        skipped("a command in namespaces: this machine forbids them");
        None
    }
}

struct Called(Output);

impl Called {
    fn status(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    fn out(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    fn err(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }
}

const MEMBERS: [&str; 4] = ["--member", "press=02:00:5e:10:00:01", "--member", "hall=02:00:5e:10:00:02"];

#[test]
fn template_is_learnt_from_lines_and_hex() {
    let folder = Folder::new();
    folder.write("ppmp", "{\"ts\":1,\"v\": 20.5}\n{\"ts\":2,\"v\": 31.7}\n");
    let called = folder.antedate(&["template", "learn", "--lines", "ppmp", "--json"]);
    assert_eq!(called.status(), 0, "{}", called.err());
    let learnt: serde_json::Value = serde_json::from_str(&called.out()).expect("is JSON");
    assert_eq!(
        (&learnt[0]["length"], &learnt[0]["front"], &learnt[0]["static"]),
        (&18.into(), &6.into(), &13.into())
    );

    folder.write("hex", "0102\n01xx\n");
    let called = folder.antedate(&["template", "learn", "--hex", "hex"]);
    assert_eq!(called.status(), 2);
    assert!(called.err().contains("hex:2"), "{}", called.err());
    // Four values in one block are four multiplications.
    let called = folder.antedate(&["template", "example", "modbus"]);
    assert!(
        called.out().contains("4 multiplications with GCM or ChaCha20-Poly1305, 1 of 1 blocks with CCM"),
        "{}",
        called.out()
    );
    assert_eq!(folder.antedate(&["template", "learn", "ppmp"]).status(), 2, "one message alone");
}

#[test]
fn json_does_not_overwrite_a_message() {
    let folder = Folder::new();
    for (name, text) in [("a", "{\"v\": 20.5}"), ("b", "{\"v\": 31.7}"), ("c", "{\"v\": 32.7}")] {
        folder.write(name, text);
    }
    let called = folder.antedate(&["template", "learn", "--json", "a", "b", "c"]);
    assert_eq!(called.status(), 2);
    assert!(called.err().contains("a: is there, and no result of this command"), "{}", called.err());
    assert_eq!(fs::read_to_string(folder.path("a")).expect("a message"), "{\"v\": 20.5}");
    for _ in 0..2 {
        let called = folder.antedate(&["template", "learn", "a", "b", "c", "--json", "out"]);
        assert_eq!(called.status(), 0, "a result is replaced: {}", called.err());
    }
}

#[test]
fn ranges_are_joined_over_any_gap() {
    let folder = Folder::new();
    folder.write("lines", "a-b-c\nx-y-z\n");
    let most = usize::MAX.to_string();
    let called = folder.antedate(&["template", "learn", "--lines", "lines", "--gap", &most, "--json"]);
    let learnt: serde_json::Value = serde_json::from_str(&called.out()).expect("is JSON");
    assert_eq!(learnt[0]["holes"].as_array().map(Vec::len), Some(1), "{}", called.out());
}

#[test]
fn planner_examples_meet_their_deadlines() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/plan");
    let mut count = 0;
    for entry in fs::read_dir(&examples).expect("examples").flatten() {
        let called = Folder::new().antedate(&["plan", &entry.path().to_string_lossy()]);
        // This one shows the bounds that the paper's sleeping radios break.
        let broken = entry.file_name() == "wind-park-services.toml";
        assert_eq!(called.status(), i32::from(broken), "{}: {}", entry.path().display(), called.err());
        // The bounds of 100 and 250 ms: radios that stay on help, a shorter message does not.
        let radios = called
            .out()
            .matches("\n               would meet: keep the receivers' radios on: wait_ms = 0\n")
            .count();
        assert_eq!(radios, if broken { 2 } else { 0 }, "{}", called.out());
        count += 1;
    }
    assert_eq!(count, 7);
}

const SCENARIO: &str = "platform = \"msp430-16mhz\"\nantedated = false\nbearer = { kind = \"none\" }\n\
    [[message]]\nname = \"trip\"\nsize = 112\nstatic = 96\nperiod_ms = 100.0\ndeadline_ms = 1.0\n";

#[test]
fn missed_deadline_gets_cheapest_change() {
    let folder = Folder::new();
    folder.write("late.toml", SCENARIO);
    let called = folder.antedate(&["plan", "late.toml"]);
    assert_eq!(called.status(), 1, "{}", called.err());
    assert!(called.out().contains("would meet: prepare before"), "{}", called.out());
    let swept =
        folder.antedate(&["plan", "late.toml", "--sweep", "payload=16..64,16", "--figure", "late.svg"]);
    assert_eq!((swept.status(), swept.out().lines().count()), (0, 5), "{}", swept.err());
    assert!(fs::read_to_string(folder.path("late.svg")).is_ok_and(|svg| svg.starts_with("<svg")));
    let half = ["--sweep", "payload=16..64,16", "--csv", "half.csv", "--figure", "no/such/directory"];
    let swept = folder.antedate(&[&["plan", "late.toml"], &half[..]].concat());
    assert_eq!(swept.status(), 2, "{}", swept.err());
    assert!(swept.err().contains("--figure no/such/directory: No such file"), "{}", swept.err());
    assert!(!folder.path("half.csv").exists());
}

/// A scenario with the changes of an advice, merged as TOML.
fn follow(scenario: &str, changes: &serde_json::Value) -> String {
    let mut table: toml::Table = scenario.parse().expect("a scenario");
    let changes = toml::Value::try_from(changes).unwrap_or_else(|error| panic!("{error}: {changes}"));
    let changes = changes.as_table().expect("keys").clone();
    for (key, value) in changes {
        let (Some(entries), Some(old)) = (
            value.as_array().filter(|_| key == "message"),
            table.get_mut("message").and_then(|old| old.as_array_mut()),
        ) else {
            table.insert(key, value);
            continue;
        };
        for entry in entries.iter().filter_map(toml::Value::as_table) {
            let named = old.iter_mut().filter_map(toml::Value::as_table_mut);
            let own = named.into_iter().find(|own| own.get("name") == entry.get("name")).expect("a message");
            own.extend(entry.clone());
        }
    }
    table.to_string()
}

#[test]
fn followed_advice_is_answered_with_yes() {
    let folder = Folder::new();
    let mut combined = 0;
    for (platform, cipher, bearer, size, known, period, deadline) in [
        (
            "msp430-16mhz",
            "aes-128-gcm",
            "kind = \"fast-ethernet\", switches = 4, other_frame = 1522",
            185,
            138,
            1.0,
            1.0,
        ),
        (
            "msp430-16mhz",
            "aes-128-gcm",
            "kind = \"fast-ethernet\", switches = 4, other_frame = 1522",
            112,
            56,
            50.0,
            1.0,
        ),
        ("msp430-16mhz", "aes-128-ccm-8", "kind = \"tsch\", slots = 101, hops = 2", 40, 8, 500.0, 5000.0),
        (
            "cortex-m3-32mhz",
            "any",
            "kind = \"mqtt\", broker_ms = 50.0, over = { kind = \"gigabit\" }",
            48,
            32,
            1.0,
            100.0,
        ),
        (
            "cortex-m3-32mhz",
            "any",
            "kind = \"relayed\", via = \"gateway\", over = { kind = \"fast-ethernet\" }",
            1400,
            0,
            1.0,
            0.3,
        ),
    ] {
        let scenario = format!(
            "platform = \"{platform}\"\ncipher = \"{cipher}\"\nbearer = {{ {bearer} }}\n[[message]]\n\
             name = \"trip\"\nsize = {size}\nstatic = {known}\nperiod_ms = {period}\ndeadline_ms = {deadline}\n"
        );
        folder.write("late.toml", &scenario);
        let called = folder.antedate(&["plan", "late.toml", "--json", "--html", "late.html"]);
        assert_eq!(called.status(), 1, "{scenario}{}", called.err());
        let answer: serde_json::Value = serde_json::from_str(&called.out()).expect("is JSON");
        let changes = &answer["messages"][0]["changes"];
        folder.write("followed.toml", &follow(&scenario, changes));
        let followed = folder.antedate(&["plan", "followed.toml"]);
        assert_eq!(followed.status(), 0, "{scenario}{changes}{}{}", followed.out(), followed.err());
        combined += usize::from(changes.as_object().is_some_and(|keys| keys.len() > 1));
        let page = fs::read_to_string(folder.path("late.html")).expect("a page");
        assert!(page.contains("<svg") && page.contains("would meet"), "{page}");
    }
    assert!(combined >= 2, "{combined}");
}

#[test]
fn results_replace_no_other_file() {
    let folder = Folder::new();
    let own = [
        ("a.toml", SCENARIO),
        ("list.json", "[1, 2]"),
        ("own.json", "{\"mine\": 1}"),
        ("own.csv", "name,address\n"),
        ("own.svg", "<?xml version=\"1.0\"?><svg/>"),
        ("own.pcap", "\u{b}\n\r\n"),
    ];
    own.iter().for_each(|(name, text)| folder.write(name, text));
    folder.write("b.toml", SCENARIO);
    let sweep = ["plan", "b.toml", "--sweep", "payload=16..64,16"];
    for (arguments, name) in [
        // As of `--json *.toml`.
        (&["plan", "--json", "a.toml", "b.toml"][..], "a.toml"),
        (&["plan", "b.toml", "--json", "list.json"], "list.json"),
        (&["plan", "b.toml", "--json", "own.json"], "own.json"),
        (&[&sweep[..], &["--csv", "own.csv"]].concat(), "own.csv"),
        (&[&sweep[..], &["--figure", "own.svg"]].concat(), "own.svg"),
        (&["plan", "--calibrate", "--out", "a.toml"], "a.toml"),
        (&["lab", "scenarios", "--quick", "--json", "own.json"], "own.json"),
        (&["lab", "scenarios", "--quick", "--json", "a.toml"], "a.toml"),
        (&["demo", "--json", "own.json"], "own.json"),
        (&["demo", "--pcap", "own.pcap"], "own.pcap"),
    ] {
        let called = folder.antedate(arguments);
        assert_eq!(called.status(), 2, "{arguments:?}: {}", called.out());
        let fault = format!("{name}: is there, and no result of this command");
        assert!(called.err().contains(&fault) && called.err().contains("remedy"), "{}", called.err());
    }
    for (name, text) in own {
        assert_eq!(fs::read_to_string(folder.path(name)).expect("it is there"), text, "{name}");
    }
    // Earlier results are replaced, and an empty file.
    folder.write("new.json", "");
    for _ in 0..2 {
        for arguments in [
            &["plan", "b.toml", "--json", "new.json"][..],
            &[&sweep[..], &["--csv", "new.csv", "--figure", "new.svg"]].concat(),
        ] {
            let called = folder.antedate(arguments);
            assert!(called.status() < 2, "{arguments:?}: {}", called.err());
        }
    }
    let other = ["plan", "b.toml", "--sweep", "period=50..100,50", "--csv", "new.csv"];
    assert_eq!(folder.antedate(&other).status(), 0, "a table of another sweep");
}

#[test]
fn faulty_scenarios_are_refused_with_reason() {
    let folder = Folder::new();
    for (from, to, reason) in [
        ("deadline_ms = 1.0\n", "", "deadline_ms"),
        ("static = 96", "static = 113", "static"),
        ("size = 112", "size = 0", "payload"),
        ("period_ms = 100.0", "period_ms = -1.0", "period_ms"),
        ("msp430-16mhz", "z80", "z80"),
        ("kind = \"none\"", "kind = \"pigeon\"", "pigeon"),
        ("kind = \"none\"", "kind = \"wireguard\", rate_mbit = 10.0, delay_ms = [[0.5, 3.0]]", "quantile"),
        ("name = \"trip\"\n", "", "name"),
        (
            "[[message]]",
            "[[message]]\nname = \"trip\"\nsize = 9\nstatic = 0\nperiod_ms = 1\ndeadline_ms = 1\n[[message]]",
            "two are called",
        ),
        ("size = 112", "size = 112\ncolour = 1", "colour"),
    ] {
        folder.write("wrong.toml", &SCENARIO.replace(from, to));
        let called = folder.antedate(&["plan", "wrong.toml"]);
        assert_eq!(called.status(), 2, "{reason}: {}", called.out());
        assert!(called.err().contains(reason), "{reason}: {}", called.err());
    }
    let slotframe = "platform = \"cc2538\"\nlevel = \"ENC\"\nslotframe = 101\ndeadline_ms = 10.0\n[[flow]]\nname = \"a\"\n";
    for (scenario, from, to, place) in [
        (SCENARIO, "size = 112", "size = 112\ncolour = 1", "wrong.toml:7: unknown field `colour`"),
        (SCENARIO, "size = 112", "size = 1,2", "wrong.toml:6: "),
        (SCENARIO, "{ kind = \"none\" }", "\"none\"", "wrong.toml:3: bearer: must be a table"),
        (SCENARIO, "msp430-16mhz", "here.toml", "here.toml:2: "),
        (slotframe, "slotframe = 101", "slotframe = \"x\"", "wrong.toml:3: "),
        (slotframe, "10.0", "nan", "deadline_ms: must be more than 0"),
        (slotframe, "10.0", "-1", "deadline_ms: must be more than 0"),
    ] {
        folder.write("here.toml", "name = \"x\"\ncounts = 1\n");
        folder.write("wrong.toml", &scenario.replace(from, to));
        let called = folder.antedate(&["plan", "wrong.toml"]);
        assert!(called.status() == 2 && called.err().contains(place), "{place}: {}", called.err());
    }
}

#[test]
fn overload_misses_and_is_null_in_json() {
    let folder = Folder::new();
    let often = SCENARIO
        .replace("period_ms = 100.0", "period_ms = 1.0")
        .replace("deadline_ms = 1.0", "deadline_ms = 100.0");
    folder.write("often.toml", &often);
    let called = folder.antedate(&["plan", "often.toml"]);
    assert_eq!(called.status(), 1, "{}{}", called.out(), called.err());
    assert!(
        called.out().contains("limited by messages come faster than the device seals them"),
        "{}",
        called.out()
    );
    let called = folder.antedate(&["plan", "often.toml", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&called.out()).expect("is JSON");
    let busy = SCENARIO
        .replace("deadline_ms = 1.0", "deadline_ms = 100.0\n[[work]]\nperiod_ms = 1.0\ncost_ms = 2.0");
    folder.write("busy.toml", &busy);
    let called = folder.antedate(&["plan", "busy.toml"]);
    assert!(called.status() == 0 && called.out().contains("more than the CPU can do"), "{}", called.out());
    for alone in [&["plan", "busy.toml", "--check"] as &[&str], &["plan", "busy.toml", "--out", "here.toml"]]
    {
        let called = folder.antedate(alone);
        assert!(called.status() == 2 && called.err().contains("cannot be used with"), "{}", called.err());
    }
    let message = &answer["messages"][0];
    assert_eq!((&message["meets"], &message["latency_ms"]), (&false.into(), &serde_json::Value::Null));
}

#[test]
fn closed_stderr_keeps_the_exit_status() {
    let folder = Folder::new();
    folder.write("late.toml", SCENARIO);
    for (status, arguments) in
        [(2, ["gateway", "check", "none.toml"]), (1, ["plan", "late.toml", "--json=x"])]
    {
        let called = Command::new(env!("CARGO_BIN_EXE_antedate"))
            .args(arguments)
            .current_dir(folder.0.path())
            .stdout(std::process::Stdio::null())
            .stderr(fs::File::options().write(true).open("/dev/full").expect("a full disk"))
            .status()
            .expect("the command");
        assert_eq!(called.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn a_log_that_nobody_takes_ends_no_daemon() {
    let folder = Folder::new();
    folder.antedate(&["keygen", "dtls", "--identity", "a", "--out", "psk"]);
    let call = ["--preserve-status", "2", env!("CARGO_BIN_EXE_antedate"), "dtls", "listen"];
    let status = Command::new("timeout")
        .args(call)
        .args(["--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--psk", "psk"])
        .env_remove("RUST_LOG")
        .current_dir(folder.0.path())
        .stderr(fs::File::options().write(true).open("/dev/full").expect("a full disk"))
        .status()
        .expect("timeout(1) of coreutils");
    assert_eq!(status.code(), Some(0));
}

/// All names in a document.
fn names(value: &serde_json::Value) -> Vec<String> {
    match value {
        serde_json::Value::Object(map) => {
            map.iter().flat_map(|(name, value)| std::iter::once(name.clone()).chain(names(value))).collect()
        }
        serde_json::Value::Array(all) => all.iter().flat_map(names).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn manual_names_all_json_fields() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let example = |name: &str| docs.join("examples/plan").join(name).to_string_lossy().into_owned();
    let folder = Folder::new();
    folder.write("late.toml", SCENARIO);
    folder.write("lines", "t=20.5\nt=21.7\n");
    for (chapter, arguments) in [
        ("planner.md", ["plan", "late.toml", "--json"].map(str::to_owned).to_vec()),
        ("planner.md", vec!["plan".into(), example("profinet-cell.toml"), "--json".into()]),
        ("dot15d4.md", vec!["plan".into(), example("tsch.toml"), "--json".into()]),
        ("templates.md", ["template", "learn", "--lines", "lines", "--json"].map(str::to_owned).to_vec()),
    ] {
        let called = folder.antedate(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let answer: serde_json::Value = serde_json::from_str(&called.out()).expect("is JSON");
        let text = fs::read_to_string(docs.join("src").join(chapter)).expect("a chapter");
        for name in names(&answer) {
            assert!(text.contains(&format!("`{name}`")), "`{name}` is not in {chapter}");
        }
    }
}

#[test]
fn a_misspelt_verb_is_a_usage_error() {
    let called = Folder::new().antedate(&["gatewya"]);
    assert_eq!(called.status(), 2);
    assert!(called.err().contains("gateway"), "{}", called.err());
    assert!(called.out().is_empty());
}

#[test]
fn help_is_no_error_and_names_every_verb() {
    let called = Folder::new().antedate(&["--help"]);
    assert_eq!(called.status(), 0);
    for verb in ["demo", "gateway", "keygen", "lab"] {
        assert!(called.out().contains(verb), "{}", called.out());
    }
    assert!(!called.out().contains("lab-"), "the lab's own processes are not for users");
}

#[test]
fn key_files_are_private_and_kept() {
    let folder = Folder::new();
    let arguments: Vec<&str> = ["keygen", "macsec", "--out", "keys"].into_iter().chain(MEMBERS).collect();
    let called = folder.antedate(&arguments);
    assert_eq!(
        (called.status(), called.out().as_str()),
        (0, "keys: keys for 2 members\n"),
        "{}",
        called.err()
    );
    assert_eq!(fs::metadata(folder.path("keys")).expect("keys").permissions().mode() & 0o7777, 0o600);
    let before = fs::read(folder.path("keys")).expect("keys");

    let called = folder.antedate(&arguments);
    assert_eq!(called.status(), 2);
    assert!(called.err().contains("keys: exists already, and keys are not overwritten"), "{}", called.err());
    assert_eq!(fs::read(folder.path("keys")).expect("keys"), before);
}

/// All kinds of `keygen`.
const KINDS: [&[&str]; 6] = [
    &["macsec", "--member", "press=02:00:5e:10:00:01", "--member", "hall=02:00:5e:10:00:02"],
    &["macsec", "--cak"],
    &["wireguard"],
    &["dtls", "--identity", "turbine 3"],
    &["mqtt", "--group", "line4", "--topic", "line4/#"],
    &["mqtt", "--device", "press7"],
];

#[test]
fn no_kind_of_key_is_overwritten() {
    for kind in KINDS {
        let folder = Folder::new();
        folder.write("keys", "mine");
        let called = folder.antedate(&[&["keygen"], kind, &["--out", "keys"]].concat());
        assert_eq!(called.status(), 2, "{kind:?}");
        assert!(
            called.err().contains("keys: exists already, and keys are not overwritten"),
            "{}",
            called.err()
        );
        assert_eq!(fs::read(folder.path("keys")).expect("keys"), b"mine");
    }
}

#[test]
fn failed_key_file_leaves_nothing() {
    for kind in KINDS {
        let folder = Folder::new();
        // Like a full disk: the file can be created, but not written.
        let output = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" keygen \"$@\" --out keys"])
            .arg(env!("CARGO_BIN_EXE_antedate"))
            .args(kind)
            .current_dir(folder.0.path())
            .output()
            .expect("the command");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("cannot write the key file"), "{kind:?}: {said}");
        assert!(!folder.path("keys").exists(), "{kind:?}");
    }
}

#[test]
fn two_calls_give_different_keys() {
    let folder = Folder::new();
    let arguments: Vec<&str> =
        ["keygen", "macsec", "--suite", "gcm-aes-xpn-256"].into_iter().chain(MEMBERS).collect();
    let (first, second) = (folder.antedate(&arguments).out(), folder.antedate(&arguments).out());
    assert!(first.contains("suite = \"gcm-aes-xpn-256\"") && first.contains("ssci = 2"), "{first}");
    assert_ne!(first, second);
}

#[test]
fn impossible_members_are_refused() {
    let folder = Folder::new();
    for (arguments, expected) in [
        (vec![], "--member <NAME=SCI|MAC>"),
        (vec!["--member", "a=02:00:5e:10:00:01"], "1 member(s), but keys are shared by 2 to 16"),
        (vec!["--member", "a=1", "--member", "b=2"], "neither an SCI (16 hexadecimal digits) nor an address"),
        (
            vec!["--member", "a=02:00:5e:10:00:01", "--member", "a=02:00:5e:10:00:02"],
            "--member a comes twice",
        ),
        (
            vec!["--member", "a=02:00:5e:10:00:01", "--member", "b=02005e1000010001"],
            "b and a have the same SCI 02005e1000010001",
        ),
    ] {
        let arguments: Vec<&str> = ["keygen", "macsec"].into_iter().chain(arguments).collect();
        let called = folder.antedate(&arguments);
        assert_eq!(called.status(), 2);
        assert!(called.err().contains(expected), "{}", called.err());
        assert!(called.out().is_empty());
    }
}

#[test]
fn useless_options_are_refused() {
    let folder = Folder::new();
    for (arguments, option) in [
        (&["macsec", "--bits", "256", MEMBERS[0], MEMBERS[1], MEMBERS[2], MEMBERS[3]] as &[&str], "--bits"),
        (&["mqtt", "--device", "press7", "--topic", "a/#"], "--topic"),
        (&["mqtt", "--device", "press7", "--algorithm", "aes-256-gcm"], "--algorithm"),
        (&["mqtt", "--for-members", "manager.toml", "--reader", "scada"], "--reader"),
        (&["mqtt", "--for-members", "manager.toml", "--member", "press7"], "--member"),
    ] {
        let arguments: Vec<&str> = ["keygen"].iter().chain(arguments).copied().collect();
        let called = folder.antedate(&arguments);
        assert_eq!((called.status(), called.out().as_str()), (2, ""), "{arguments:?}");
        assert!(
            called.err().contains(option) && called.err().contains("cannot be used with"),
            "{}",
            called.err()
        );
    }
}

#[test]
fn impossible_identities_are_refused() {
    for name in ["#3", " turbine", ""] {
        let folder = Folder::new();
        let called = folder.antedate(&[
            "keygen",
            "dtls",
            "--identity",
            "turbine-3",
            "--identity",
            name,
            "--out",
            "psk",
        ]);
        assert_eq!((called.status(), called.out().as_str()), (2, ""), "{name:?}");
        assert!(!folder.path("psk").exists(), "{name:?}: {}", called.err());
    }
}

#[test]
fn proxy_without_proof_is_refused() {
    for (words, expected) in [
        ("connect", "nothing proves the two sides to each other"),
        ("connect --psk psk --key key --peers peers", "--psk and a key or certificate at once"),
        ("connect --key key", "nothing says which server is trusted"),
        ("listen", "nothing proves this server to its clients"),
        ("listen --psk psk --ca ca.pem", "the server has none"),
        ("listen --key key", "nothing says which clients are trusted"),
    ] {
        let addresses = ["--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"];
        let arguments: Vec<&str> = ["dtls"].into_iter().chain(words.split(' ')).chain(addresses).collect();
        let called = Folder::new().antedate(&arguments);
        assert_eq!(called.status(), 2, "{words}");
        assert!(called.err().contains(expected) && called.err().contains("remedy"), "{}", called.err());
    }
}

#[test]
fn raw_key_has_the_line_of_its_digest() {
    let folder = Folder::new();
    let made = folder.antedate(&["keygen", "raw-key", "--name", "turbine-3", "--out", "turbine-3.key"]);
    assert_eq!(made.status(), 0, "{}", made.err());
    assert!(made.out().starts_with("turbine-3 sha256:"), "{}", made.out());
    let again = folder.antedate(&["dtls", "digest", "turbine-3.key"]);
    assert_eq!(again.out(), made.out());
    let called = folder.antedate(&["keygen", "raw-key", "--name", "sha256:1", "--out", "other.key"]);
    assert_eq!((called.status(), folder.path("other.key").exists()), (2, false));
}

#[test]
fn proxy_limits_of_zero_are_refused() {
    let needed = ["dtls", "connect", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--psk", "psk"];
    for option in ["--idle-seconds", "--max-sessions"] {
        let arguments: Vec<&str> = needed.into_iter().chain([option, "0"]).collect();
        let called = Folder::new().antedate(&arguments);
        assert_eq!(called.status(), 2);
        assert!(called.err().contains(&format!("invalid value '0' for '{option}")), "{}", called.err());
    }
}

#[test]
fn check_reports_all_faults_with_status_2() {
    let folder = Folder::new();
    folder.write("g.toml", "[field]\ninterface = \"nowhere0\"\n[uplink]\ninterface = \"nowhere1\"\n[macsec]\nkey_file = \"keys\"\nchipher = \"x\"\n");
    for verb in ["check", "run"] {
        let called = folder.antedate(&["gateway", verb, "g.toml"]);
        assert_eq!(called.status(), 2);
        for expected in [
            "g.toml:2: field.interface: there is no interface \"nowhere0\" here",
            "g.toml:4: uplink.interface: there is no interface \"nowhere1\" here",
            "g.toml:7: macsec.chipher: unknown key\n    remedy: did you mean \"cipher\"?",
            "keys: cannot read the key file: no such file or directory",
            "faults\n",
        ] {
            assert!(called.err().contains(expected), "{expected} in\n{}", called.err());
        }
        assert!(called.out().is_empty());
    }
}

#[test]
fn readable_key_file_is_refused() {
    let folder = Folder::new();
    let arguments: Vec<&str> = ["keygen", "macsec", "--out", "keys"].into_iter().chain(MEMBERS).collect();
    folder.antedate(&arguments);
    fs::set_permissions(folder.path("keys"), fs::Permissions::from_mode(0o640)).expect("chmod");
    folder.write(
        "g.toml",
        "[field]\ninterface = \"a\"\n[uplink]\ninterface = \"b\"\n[macsec]\nkey_file = \"keys\"\n",
    );
    let called = folder.antedate(&["gateway", "check", "g.toml"]);
    assert_eq!(called.status(), 2);
    assert!(called.err().contains(
        "others than its owner have rights on this key file (mode 0640)\n    remedy: chmod 600 keys"
    ));
    // An agent of a fleet writes it for its group.
    let called = folder.antedate(&["gateway", "check", "--agent", "g.toml"]);
    assert_eq!(called.status(), 2);
    let said = called.err();
    assert!(!said.contains("mode 0640") && said.contains("no interface \"a\""), "{said}");
}

#[test]
fn the_state_is_made_once() {
    let folder = Folder::new();
    folder.write("g.toml", "[field]\ninterface = \"a\"\n[uplink]\ninterface = \"b\"\n[macsec]\nkey_file = \"keys\"\n[state]\ndirectory = \"state\"\n");
    let called = folder.antedate(&["gateway", "init", "g.toml"]);
    assert_eq!(called.status(), 0, "{}", called.err());
    assert!(folder.path("state/packet-numbers").exists());
    let called = folder.antedate(&["gateway", "init", "g.toml"]);
    assert_eq!(called.status(), 2);
    assert!(called.err().contains("there is a state file already"), "{}", called.err());

    folder.write("plain.toml", "[field]\ninterface = \"a\"\n[uplink]\ninterface = \"b\"\n[plain]\n");
    let called = folder.antedate(&["gateway", "init", "plain.toml"]);
    assert_eq!(called.status(), 2);
    assert!(called.err().contains("[plain] has no packet numbers to remember"), "{}", called.err());
}

#[test]
fn state_in_memory_needs_permission() {
    let folder = Folder::new();
    let memory = tempfile::tempdir_in("/dev/shm").expect("shared memory (POSIX)");
    let state = memory.path().join("state").display().to_string();
    folder.write(
        "g.toml",
        &format!("[field]\ninterface = \"a\"\n[uplink]\ninterface = \"b\"\n[macsec]\nkey_file = \"keys\"\n[state]\ndirectory = \"{state}\"\n"),
    );
    let other = memory.path().join("other").display().to_string();
    for (words, at) in [(["gateway", "init", "g.toml"], &state), (["mqtt", "init", &other], &other)] {
        let refused = folder.antedate(&words);
        assert_eq!(refused.status(), 2, "{}", refused.out());
        let err = refused.err();
        assert!(err.contains("(tmpfs)") && err.contains("--volatile-state"), "{err}");
        let permitted = folder.antedate(&[&words[..], &["--volatile-state"]].concat());
        assert_eq!(permitted.status(), 0, "{}", permitted.err());
        assert!(std::path::Path::new(at).join("packet-numbers").exists());
    }
}

#[test]
fn proxy_without_idle_time_is_refused() {
    let addresses = ["--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--psk", "psk"];
    let called =
        Folder::new().antedate(&[&["dtls", "listen", "--idle-seconds", "0"], &addresses[..]].concat());
    assert_eq!(called.status(), 2);
    assert!(called.err().contains("--idle-seconds"), "{}", called.err());
}

#[test]
fn impossible_demo_options_are_refused() {
    let folder = Folder::new();
    for (arguments, expected) in [
        (["--cycle-us", "10"], "--cycle-us 10: 250 to 512000 are possible"),
        (["--frame-bytes", "9000"], "--frame-bytes 9000"),
        (["--faults", "loose"], "no fault is called `loose`"),
        (["--secure", "tls"], "`tls` is none of macsec, overlay, none, bridge"),
        (["--seconds", "0"], "give 0.1 to"),
        (["--ports", "eth0"], "write field=eth1,uplink=eth0,keys=FILE"),
        (["--json", "no/such/directory"], "--json no/such/directory: No such file or directory"),
        (["--pcap", "no/such/directory"], "--pcap no/such/directory: No such file or directory"),
    ] {
        let arguments: Vec<&str> = ["demo"].into_iter().chain(arguments).collect();
        let called = folder.antedate(&arguments);
        assert_eq!(called.status(), 2, "{arguments:?}");
        assert!(called.err().contains(expected), "{}", called.err());
        assert!(called.out().is_empty());
    }
}

#[test]
fn what_a_machine_lacks_has_one_remedy() {
    for verb in [&["demo"] as &[&str], &["lab", "fragmentation-keys"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_antedate")).args(verb).env("PATH", "/nowhere").output();
        let called = Called(output.expect("the command"));
        assert_eq!(called.status(), 2, "{}", called.out());
        let said = called.err();
        assert!(said.trim_end().ends_with("install it with `apt-get install iproute2`"), "{said}");
    }
}

#[test]
fn unwritable_result_is_refused_first() {
    let folder = Folder::new();
    for (arguments, expected) in [
        (["lab", "overlay-cycles", "--json", "no/such/directory"], "--json no/such/directory: No such file"),
        (["lab", "scenarios", "--figure", "no/such/directory"], "--figure no/such/directory: No such file"),
        (["plan", "--figure", "no/such/directory", "cell.toml"], "--figure no/such/directory: No such file"),
        (["demo", "--figure", "no/such/directory", "--express"], "--figure no/such/directory: No such file"),
        (["plan", "--calibrate", "--out", "no/such/directory"], "--out no/such/directory: No such file"),
    ] {
        let begun = std::time::Instant::now();
        let called = folder.antedate(&arguments);
        assert_eq!(called.status(), 2, "{arguments:?}: {}", called.out());
        assert!(called.err().contains(expected), "{}", called.err());
        assert!(called.out().is_empty() && begun.elapsed().as_secs() < 5);
    }
}

/// An experiment in namespaces is interrupted.
const INTERRUPTED: &str = r#"
"$A" lab fragmentation-cycles > out 2> err & P=$!
for i in $(seq 100); do ls /run/netns 2> /dev/null | grep -q "antedate-$P-device" && break; sleep 0.05; done
ls /run/netns | grep -q "antedate-$P-" || { echo "no namespaces"; cat err; exit 1; }
sleep 0.5
kill $P; wait $P
echo "status $?"
ls /run/netns | grep "antedate-$P-"
ls "$TMPDIR" | grep antedate-lab
cat err
"#;

#[test]
fn interrupted_experiment_cleans_up() {
    let Some(called) = Folder::new().in_namespaces(INTERRUPTED) else { return };
    let expected = "status 1\nantedate: interrupted, which is no result\n";
    assert_eq!(called.out(), expected, "{}", called.err());
}

/// The reader closes after the first message; a subscriber that continues is killed.
const CLOSED: &str = r#"
ip link add eth0 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up
(umask 077; echo 000102030405060708090a0b0c0d0e0f > key)
(timeout 20 "$A" goose subscribe eth1 --key key --patience 60; echo "subscriber: $?" >&2) | head -2 > read & P=$!
sleep 0.5
"$A" goose publish eth0 --key key --state numbers --first --events 20 --repeats 0 > published
wait $P; wc -l < read
"#;

#[test]
fn goose_subscriber_ends_with_its_reader() {
    let Some(called) = Folder::new().in_namespaces(CLOSED) else { return };
    assert_eq!(called.out().trim(), "2", "{}", called.err());
    assert!(called.err().contains("subscriber: 0"), "{}", called.err());
}

/// A wire that keeps each frame for half a second, and a trip on it. A second subscriber takes it as
/// it comes.
const HELD: &str = r#"
for pair in "eth0 near" "far eth1"; do set -- $pair
ip link add $1 type veth peer name $2 && ip link set $1 up && ip link set $2 up; done
timeout 20 python3 -c '
import select, socket, time
near, far = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2))
near.bind(("near", 0)); far.bind(("far", 0))
held = []
while True:
    now = time.monotonic()
    while held and held[0][0] <= now: far.send(held.pop(0)[1])
    if not select.select([near], [], [], 0.01)[0]: continue
    frame, address = near.recvfrom(2000)
    if address[2] != socket.PACKET_OUTGOING: held.append((now + 0.5, frame))
' & W=$!
(umask 077; echo 000102030405060708090a0b0c0d0e0f > key)
"$A" goose subscribe eth1 --key key --count 1 --patience 6 > any & P=$!
"$A" goose subscribe eth1 --key key --max-age 100 --count 1 --patience 6 > fresh 2> said & Q=$!
sleep 1
"$A" goose publish eth0 --key key --state numbers --first --trust-clock --events 2 --repeats 1 > published
sleep 0.7; wait $P; echo "any: $?"; wait $Q; echo "fresh: $?"; kill $W; wc -l < fresh; grep -c "WARN .* older than --max-age" said
"#;

#[test]
fn held_back_goose_event_is_refused() {
    let Some(called) = Folder::new().in_namespaces(HELD) else { return };
    assert_eq!(called.out(), "any: 0\nfresh: 1\n1\n1\n", "{}", called.err());
}

/// A publisher, which has given up its rights, is asked to end while it waits for its next message.
const WAITING: &str = r#"
ip link add eth0 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up
(umask 077; echo 000102030405060708090a0b0c0d0e0f > key)
"$A" goose publish eth0 --key key --state numbers --first --interval 60000 & P=$!
for i in $(seq 100); do test -e numbers/packet-numbers && break; sleep 0.05; done
sleep 0.3; grep -E "^(NoNewPrivs|Seccomp):" /proc/$P/status | tr -d '\t'; kill $P
(for i in $(seq 100); do sleep 0.1; kill -0 $P || exit; done; kill -9 $P) > /dev/null 2>&1 & wait $P; echo $?
"#;

#[test]
fn waiting_goose_publisher_can_be_ended() {
    let Some(called) = Folder::new().in_namespaces(WAITING) else { return };
    assert_eq!(called.out(), "NoNewPrivs:1\nSeccomp:2\n0\n", "{}", called.err());
}

/// Fewer messages come than requested.
const TOO_FEW: &str = r#"
ip link add eth0 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up
"$A" goose subscribe eth1 --plain --count 1 --patience 0 > read; echo $?
"#;

#[test]
fn missing_goose_messages_are_reported() {
    let Some(called) = Folder::new().in_namespaces(TOO_FEW) else { return };
    assert_eq!(called.out().trim(), "1", "{}", called.err());
    assert!(called.err().contains("0 of 1 messages came before the end"), "{}", called.err());
}

#[test]
fn short_demo_writes_text_and_json() {
    let folder = Folder::new();
    let called = folder.antedate(&["demo", "--cycle-us", "20000", "--seconds", "1", "--json", "out.json"]);
    // A machine under load may miss cycles; verdict and exit status must agree.
    let report = fs::read_to_string(folder.path("out.json")).expect("the report");
    let verdict: serde_json::Value = serde_json::from_str(&report).expect("is JSON");
    assert!(
        !called.out().is_empty() && !called.out().contains('\u{1b}'),
        "no live view in a pipe: {}",
        called.out()
    );
    assert_eq!(called.status() == 0, verdict["passed"] == true, "{}{}{report}", called.out(), called.err());
    assert_eq!(verdict["holds"], true, "{}{}{report}", called.out(), called.err());
    assert!(
        report.contains("\"nonce_reuse\": 0") && report.contains("\"plaintext_frames_on_wire\": 0"),
        "{report}"
    );
}

#[test]
fn redundant_demo_survives_each_fault() {
    let folder = Folder::new();
    let words =
        ["demo", "--topology", "redundant", "--cycle-us", "5000", "--seconds", "0.5", "--json", "out.json"];
    let called = folder.antedate(&words);
    let report = fs::read_to_string(folder.path("out.json")).unwrap_or_else(|_| panic!("{}", called.err()));
    let verdict: serde_json::Value = serde_json::from_str(&report).expect("is JSON");
    // A machine under load may be late; verdict and exit status must agree.
    assert_eq!(called.status() == 0, verdict["passed"] == true, "{}{}{report}", called.out(), called.err());
    assert_eq!(verdict["holds"], true, "{}{}{report}", called.out(), called.err());
    for fault in ["kill", "stop", "one-uplink", "both-uplinks", "field-cable"] {
        assert_eq!(verdict["faults"][fault]["times"], 1, "{report}");
    }
    let refused = folder.antedate(&["demo", "--topology", "redundant", "--secure", "none"]);
    assert_eq!(refused.status(), 2);
    assert!(refused.err().contains("is for --secure macsec"), "{}", refused.err());
}

#[test]
fn interrupted_demo_has_not_passed() {
    let folder = Folder::new();
    let script = "\"$A\" demo --cycle-us 20000 --seconds 60 --faults lose --json out.json > out & P=$!; sleep 2; kill $P; wait $P";
    let output = Command::new("sh")
        .args(["-c", script])
        .env("A", Path::new(env!("CARGO_BIN_EXE_antedate")))
        .current_dir(folder.0.path())
        .output()
        .expect("a shell");
    let called = Called(output);
    let text = fs::read_to_string(folder.path("out")).expect("what it said");
    assert_eq!(called.status(), 1, "{text}{}", called.err());
    assert!(text.trim_end().ends_with("FAILED: interrupted before its end"), "{text}");
    assert!(text.contains("FAIL it ran to its end"), "{text}");
    let report = fs::read_to_string(folder.path("out.json")).expect("the report");
    let verdict: serde_json::Value = serde_json::from_str(&report).expect("is JSON");
    assert_eq!((&verdict["passed"], &verdict["interrupted"]), (&false.into(), &true.into()));
}

#[test]
fn log_colours_follow_the_terminal() {
    let folder = Folder::new();
    folder.antedate(&["keygen", "dtls", "--identity", "a", "--out", "psk"]);
    for (wish, coloured) in [("", true), ("1", false)] {
        let script = "timeout 2 \"$A\" dtls listen --listen 127.0.0.1:0 --to 127.0.0.1:9 --psk psk";
        let output = Command::new("script")
            .args(["-qec", script, "/dev/null"])
            .env("A", Path::new(env!("CARGO_BIN_EXE_antedate")))
            .env("NO_COLOR", wish)
            .env_remove("RUST_LOG")
            .current_dir(folder.0.path())
            .output()
            .expect("script(1) of bsdutils");
        let said = Called(output).out();
        assert!(said.contains("DTLS at 127.0.0.1"), "{said}");
        assert_eq!(said.contains('\u{1b}'), coloured, "{said}");
    }
}

#[test]
fn asking_where_no_gateway_runs_says_so() {
    let folder = Folder::new();
    for arguments in [
        &["gateway", "status", "--socket", "s"] as &[&str],
        &["gateway", "switch-sa", "1", "--socket", "s"],
        &["gateway", "ping", "--socket", "s"],
    ] {
        let called = folder.antedate(arguments);
        assert_eq!(called.status(), 2);
        assert!(called.err().starts_with("s: no gateway answers here\n    remedy: "), "{}", called.err());
    }
}

#[test]
fn check_of_no_gateway_is_critical() {
    let called = Folder::new().antedate(&["gateway", "status", "--check", "--socket", "s"]);
    assert_eq!(called.status(), 2);
    assert_eq!(called.out(), "ANTEDATE CRITICAL - s: no gateway answers here\n");
    assert_eq!(called.err(), "");
}

/// A gateway's life on virtual interfaces in a network namespace, without root.
const LIFE: &str = r#"
set -e
fail() { echo "FAILED: $1" >&2; cat log >&2; exit 1; }
ip link add f type veth peer name f0
ip link add u type veth peer name u0
ip link set u address 02:00:5e:10:00:01
for i in f f0 u u0; do ip link set $i up mtu 1600; done
ip link set f mtu 1500
"$A" gateway check g.toml > /dev/null 2> log && fail "a missing state passes the check"
"$A" gateway init g.toml > /dev/null
"$A" gateway check g.toml > checked 2> log || fail "check"
sed 's/"f"/"late"/' g.toml > late.toml
"$A" gateway run late.toml 2> late && fail "it runs without an interface" || test $? = 3 || fail "not to be tried again: $(cat late)"
cp state/packet-numbers before
for n in 10 11; do
    (exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n $n; exec "$A" gateway run g.toml) 2> denied && fail "it runs with $n files"
    grep -q 'packet socket' denied || fail "denied: $(cat denied)"
    cmp before state/packet-numbers || fail "a start that fails costs packet numbers"
done
"$A" gateway run g.toml 2> log & P=$!
trap 'kill -9 $P 2> /dev/null || :' EXIT
for i in $(seq 200); do "$A" gateway status --socket c.sock > status 2> /dev/null && break; sleep 0.02; done
grep -q 'sending under AN 0' status || fail "status"
"$A" gateway run g.toml > /dev/null 2> second && fail "a second gateway starts"
grep -q 'g.toml:[0-9]*: control.socket: .*another gateway answers on this control socket' second || fail "second: $(cat second)"
sed 's/c.sock/d.sock/' g.toml > third.toml
"$A" gateway run third.toml > /dev/null 2> third && fail "a third gateway starts"
grep -q 'another process of this machine sends with these keys' third || fail "third: $(cat third)"
test ! -e d.sock || fail "the third gateway leaves its socket behind"
"$A" gateway switch-sa 1 --socket c.sock > switched || fail "switch-sa"
"$A" gateway switch-sa 3 --socket c.sock 2> refused && fail "an association without a key"
grep -q 'name an association of the key file: 0 or 1$' refused || fail "switch-sa: $(cat refused)"
"$A" gateway status --socket c.sock --check > checked || fail "status --check: $(cat checked)"
grep -q '^ANTEDATE OK - MACsec, .* | out=' checked || fail "status --check: $(cat checked)"
"$A" gateway status --socket c.sock --json status.json || fail "status --json"
grep -q '"encoding_sa": 1' status.json || fail "the association was not switched"
grep -q '"mtu": 1540' status.json || fail "uplink.mtu does not hold"
ip link del u
ip link add u address 02:00:5e:10:00:77 mtu 700 type veth peer name u0
for i in u u0; do ip link set $i up; done
for i in $(seq 200); do "$A" gateway status --socket c.sock > status; grep -q 'of 700 octets' status && break; sleep 0.02; done
grep -q 'uplink  *u up, 02[-:]00[-:]5e[-:]10[-:]00[-:]77, payloads of 700 octets' status || fail "another uplink: $(cat status)"
grep -q 'carries less than uplink.mtu says' log || fail "an uplink that carries less is not warned of"
ip link set u mtu 1600 address 02:00:5e:10:00:01
kill -HUP $P
for i in $(seq 200); do grep -q 'read again' log && break; sleep 0.02; done
grep -q 'read again: .*g.toml: nothing has changed' log || fail "SIGHUP is not answered: $(cat log)"
kill $P; wait $P || fail "SIGTERM ends with $?"
test ! -e c.sock || fail "the socket stays"
"$A" gateway run g.toml 2> log & P=$!
for i in $(seq 200); do "$A" gateway status --socket c.sock > status 2> /dev/null && break; sleep 0.02; done
"$A" gateway events --socket c.sock -- sh -c 'cat >> handed' > events & E=$!
trap 'kill -9 $P $E 2> /dev/null || :' EXIT
sleep 0.3
kill -9 $P; wait $P || :
for i in $(seq 200); do grep -q '"event":"begin","name":"no-answer"' events && break; sleep 0.02; done
"$A" gateway run g.toml 2> log & P=$!
for i in $(seq 200); do grep -q '"event":"end","name":"no-answer"' events && break; sleep 0.02; done
sed 's/.*"event":"\([a-z]*\)","name":"\([a-z-]*\)".*/\1 \2/' events | grep -e answer -e restart > told
printf 'begin no-answer\nrestart restart\nend no-answer\n' | cmp - told || fail "events: $(cat events)"
sleep 0.1; kill $E; cmp events handed || fail "handed over: $(cat handed)"
timeout 20 "$A" gateway events --socket none.sock -- /no/program > none 2> no && fail "an event is lost in silence"
grep -q '^/no/program: cannot be started' no || fail "events: $(cat no)"
kill $P; wait $P || fail "ends with $? after a crash"
cat state/packet-numbers
"#;

#[test]
fn gateway_life_from_start_to_stop() {
    let folder = Folder::new();
    let keys: Vec<&str> = ["keygen", "macsec", "--out", "keys"].into_iter().chain(MEMBERS).collect();
    assert_eq!(folder.antedate(&keys).status(), 0);
    folder.write(
        "g.toml",
        "[field]\ninterface = \"f\"\n[uplink]\ninterface = \"u\"\nmtu = 1540\n[macsec]\nkey_file = \"keys\"\n\
         [policy]\nallow = [\"lldp\"]\n[state]\ndirectory = \"state\"\n[control]\nsocket = \"c.sock\"\n",
    );
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", LIFE])
        .env("A", Path::new(env!("CARGO_BIN_EXE_antedate")))
        .env_remove("RUST_LOG")
        .current_dir(folder.0.path())
        .output()
        .expect("unshare(1) of util-linux");
    let called = Called(output);
    assert_eq!(called.status(), 0, "{}{}", called.out(), called.err());
    // The crash costs one reservation.
    let next: Vec<u64> = called
        .out()
        .lines()
        .filter(|line| line.starts_with("transmit"))
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    assert_eq!(next.len(), 2, "{}", called.out());
    for next in next {
        assert!((1 << 20..(1 << 20) + 1000).contains(&next), "{}", called.out());
    }
}

const OBSERVED: &str = "[field]\ninterface = \"f\"\n[uplink]\ninterface = \"u\"\n[macsec]\nkey_file = \"keys\"\n\
                        [policy]\nallow = [\"lldp\"]\n";

#[test]
fn observing_a_capture_prints_a_policy() {
    let folder = Folder::new();
    folder.write("g.toml", OBSERVED);
    let frame = |rest: &[u8]| [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1][..], rest, &[0; 46]].concat();
    let mut capture: Vec<u8> =
        [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1].iter().flat_map(|w| w.to_le_bytes()).collect();
    for frame in [frame(&[0x88, 0x92, 0x80, 1]), frame(&[0x88, 0xf5]), frame(&[0x88, 0xcc])] {
        capture
            .extend([5u32, 0, frame.len() as u32, frame.len() as u32].iter().flat_map(|w| w.to_le_bytes()));
        capture.extend(frame);
    }
    fs::write(folder.path("c.pcap"), capture).expect("a file");
    let called = folder.antedate(&["gateway", "observe", "g.toml", "--pcap", "c.pcap"]);
    assert_eq!((called.status(), called.err().as_str()), (0, ""));
    assert_eq!(
        called.out(),
        "[policy]\nallow = [\n    \
         # 1 frame, 0.0 s to 0.0 s; 02:00:00:00:00:01 to 02:00:00:00:00:09: 1\n    \"lldp\",\n    \
         # 1 frame, 0.0 s to 0.0 s, refused now; 02:00:00:00:00:01 to 02:00:00:00:00:09: 1\n    \"profinet-rt\",\n    \
         # No device was given a name. One fresh from the factory needs:\n    # \"profinet-dcp-set-name\",\n]\n\n\
         # 1 frame, 0.0 s to 0.0 s, refused now; 02:00:00:00:00:01 to 02:00:00:00:00:09: 1\n\
         [[policy.rule]]\naction = \"allow\"\nethertype = 0x88f5\n"
    );
    let called = folder.antedate(&["gateway", "observe", "g.toml", "--pcap", "c.pcap", "--json"]);
    assert!(called.out().contains("\"line\": \"profinet-rt\""), "{}", called.out());
    let called = folder.antedate(&["gateway", "observe", "g.toml", "--pcap", "g.toml"]);
    assert_eq!(called.status(), 2);
    assert!(called.err().starts_with("g.toml: is neither pcap nor pcapng\n    remedy: "), "{}", called.err());
}

/// A machine asks for an address. The observer hears it and ends at SIGINT.
const LISTENS: &str = r#"
ip link add f type veth peer name m; ip link add u type veth peer name w
for i in f m u w; do ip link set dev $i up; done
ip address add 10.0.0.1/24 dev m
"$A" gateway observe g.toml > policy 2> log & P=$!
for i in $(seq 200); do grep -q observing log && break; sleep 0.02; done
ping -c 2 -i 0.2 -W 1 10.0.0.2 > /dev/null
kill -INT $P; wait $P || { echo "ends with $?"; cat log; exit 1; }
"$A" gateway observe g.toml --seconds 1 > again 2>> log || exit 1
cat policy; cat log >&2
"#;

#[test]
fn observer_hears_the_field_and_ends() {
    let folder = Folder::new();
    folder.write("g.toml", OBSERVED);
    let called = folder.antedate(&["gateway", "observe", "g.toml", "--seconds", "1"]);
    assert_eq!(called.status(), 3, "{}", called.err());
    let Some(called) = folder.in_namespaces(LISTENS) else { return };
    assert_eq!(called.status(), 0, "{}{}", called.out(), called.err());
    assert!(called.out().contains("\"arp\",") && called.out().contains(" out, "), "{}", called.out());
    assert!(
        called.err().contains("observing f and u; nothing is sent; stop with Ctrl-C"),
        "{}",
        called.err()
    );
}

#[test]
fn results_are_drawn_again() {
    let folder = Folder::new();
    let called = folder.antedate(&["lab", "formulas", "--json", "f.json", "--figure", "f.svg"]);
    assert_eq!(called.status(), 0, "{}", called.err());
    let read = |name: &str| std::fs::read_to_string(folder.path(name)).expect("a file");
    let drawn = read("f.svg");
    assert!(drawn.starts_with("<svg ") && drawn.contains("time on the air (ms)"), "{drawn}");
    let called = folder.antedate(&["lab", "formulas", "--from", "f.json", "--figure", "again.svg"]);
    assert_eq!((called.status(), read("again.svg")), (0, drawn), "{}", called.err());
    std::fs::write(folder.path("other.json"), "{\"experiment\":\"formulas\"}").expect("written");
    for (arguments, expected) in [
        (["lab", "motes", "--from", "f.json", "--figure", "m.svg"], "f.json: it is a result of formulas"),
        (["lab", "formulas", "--from", "no.json", "--figure", "m.svg"], "no.json: cannot be read"),
        (["lab", "formulas", "--from", "other.json", "--figure", "m.svg"], "is no result of `antedate lab"),
        (["lab", "formulas", "--from", "f.json", "--figure", "f.json"], "f.json: is there, and no result"),
    ] {
        let called = folder.antedate(&arguments);
        assert_eq!(called.status(), 2, "{arguments:?}: {}", called.out());
        assert!(called.err().contains(expected), "{}", called.err());
    }
}

//! Payloads of MQTT from C: the header against the code, and the example as a program under the
//! compiler's sanitizers.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const FLAGS: [&str; 8] = [
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
    "-pedantic",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
];
const GROUP: &str = "group = \"line4\"\nalgorithm = \"aes-128-gcm\"\ntopics = [\"plant/#\"]\n\n[[key]]\nepoch = 3\nsecret = \"5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e\"\n";

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    output
}

/// The library with payloads of MQTT, built once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let exe = std::env::current_exe().expect("this program has a path");
        let target = exe.ancestors().nth(3).expect("it lies in a target directory").join("capi-mqtt");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        run(Command::new(cargo)
            .args(["rustc", "--quiet", "--offline", "--lib", "--crate-type", "staticlib"])
            .args(["--no-default-features", "--features", "std,aes-128-gcm,mqtt", "--target-dir"])
            .arg(&target)
            .current_dir(HERE)
            .env_remove("ANTEDATE_CAPACITY"));
        target.join("debug/libantedate_capi.a")
    })
}

fn compile(source: &Path, program: &Path) {
    run(Command::new("cc")
        .args(FLAGS)
        .args([OsStr::new("-I"), Path::new(HERE).join("include").as_os_str()])
        .args([source.as_os_str(), OsStr::new("-o"), program.as_os_str(), library().as_os_str()])
        .args(["-lpthread", "-ldl", "-lm"]));
}

/// A folder with a group file and the compiled source.
struct Place {
    folder: TempDir,
    program: PathBuf,
}

impl Place {
    fn new(source: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let program = folder.path().join("program");
        compile(source, &program);
        let keys = folder.path().join("line4.toml");
        fs::write(&keys, GROUP).expect("written");
        fs::set_permissions(&keys, Permissions::from_mode(0o600)).expect("ours alone");
        Self { folder, program }
    }

    fn call(&self, words: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new(&self.program)
            .args(words)
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        // A program that reads nothing may have ended.
        let _ = child.stdin.take().expect("was piped").write_all(input);
        child.wait_with_output().expect("ends")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn header_declares_exactly_the_functions() {
    let header = fs::read_to_string(Path::new(HERE).join("include/antedate_mqtt.h")).expect("the header");
    let declared: BTreeSet<&str> = header
        .lines()
        .filter(|line| line.starts_with("antedate_result "))
        .filter_map(|line| line.split_once('(')?.0.split(' ').next_back())
        .collect();
    let symbols = run(Command::new("nm").args(["-g", "--defined-only"]).arg(library()));
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let defined: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split_once(" T ").map(|(_, name)| name))
        .filter(|name| name.starts_with("antedate_mqtt_"))
        .collect();
    assert_eq!(declared, defined);
    assert_eq!(declared.len(), 9);
}

#[test]
fn client_in_c_seals_and_opens() {
    use antedate_channel::mqtt::{Algorithm, Group};
    let place = Place::new(&Path::new(HERE).join("examples/c/mqtt_client.c"));
    assert!(place.call(&["init", "press7"], b"").status.success());
    let again = place.call(&["init", "press7"], b"");
    assert!(!again.status.success() && said(&again).contains("a file or the state has a fault"));
    let seal = ["seal", "line4.toml", "press7", "press7", "plant/force"];
    let mut group = Group::new("line4", Algorithm::A128Gcm);
    group.install(3, &[0x5e; 32]);
    let mut last = Vec::new();
    for (number, payload) in [(1, &b"81.5"[..]), (2, b""), (3, &[b'x'; 40_000])] {
        let sealed = place.call(&seal, payload);
        assert!(sealed.status.success(), "{}", said(&sealed));
        let mut out = Vec::new();
        let opened = group.open("plant/force", &sealed.stdout, &mut out).expect("authentic");
        assert_eq!((&out[..], opened.sequence), (payload, number));
        last = sealed.stdout;
    }
    let opened = place.call(&["open", "line4.toml", "plant/force"], &last);
    assert!(String::from_utf8_lossy(&opened.stdout).starts_with("press7 3: xxxx"), "{}", said(&opened));
    // Another topic, another content, a topic of no group, no group file.
    let moved = place.call(&["open", "line4.toml", "plant/other"], &last);
    assert!(!moved.status.success() && said(&moved).contains("unauthentic: "), "{}", said(&moved));
    last[60] ^= 1;
    let changed = place.call(&["open", "line4.toml", "plant/force"], &last);
    assert!(!changed.status.success() && said(&changed).contains("remedy"), "{}", said(&changed));
    let other = place.call(&["seal", "line4.toml", "press7", "press7", "other"], b"x");
    assert!(!other.status.success() && said(&other).contains("belongs to no group file"), "{}", said(&other));
    let none = place.call(&["open", "none.toml", "plant/force"], b"x");
    assert!(none.status.code() == Some(2) && said(&none).contains("none.toml"), "{}", said(&none));
}

/// What the chapter's block of C needs around it.
const AROUND: &str = r#"
#include <stdio.h>
#include <string.h>
INCLUDE

int main(void) {
    char why[ANTEDATE_MQTT_TEXT];
    const char *keys[1] = {"line4.toml"}, *topic = "plant/line4/press7/force";
    uint8_t message[4 + ANTEDATE_MQTT_OVERHEAD], content[4 + ANTEDATE_MQTT_OVERHEAD];
    size_t len = 0;
    antedate_mqtt *guard = NULL;
    antedate_mqtt_opened opened;
    const antedate_mqtt_files files = {keys, 1, "press7", NULL, "press7"};
    antedate_mqtt_create_state("press7", why, sizeof why);
BODY
    printf("%.*s", (int)opened.len, (const char *)content);
    return 0;
}
"#;

#[test]
fn block_of_the_book_runs() {
    let chapter = Path::new(HERE).join("../../docs/src/mqtt-applications.md");
    let text = fs::read_to_string(chapter).expect("the chapter");
    let block = text.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let (include, calls): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| line.starts_with('#'));
    let folder = tempfile::tempdir().expect("a directory");
    let source = folder.path().join("block.c");
    let program = AROUND.replace("INCLUDE", &include.join("\n")).replace("BODY", &calls.join("\n"));
    fs::write(&source, program).expect("written");
    let output = Place::new(&source).call(&[], b"");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"81.5"[..]), "{}", said(&output));
}

/// Misuse that the header names, and a child of `fork()`.
const MISUSE: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include "antedate_mqtt.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(got, right) do { if ((got) != (right)) return __LINE__; } while (0)

int main(void) {
    char why[ANTEDATE_MQTT_TEXT], tiny[1];
    uint8_t out[ANTEDATE_MQTT_OVERHEAD + 4], plain[sizeof out];
    size_t len = 9;
    antedate_mqtt *guard = NULL, *second = NULL;
    antedate_mqtt_opened opened;
    const char *keys[1] = {"line4.toml"};
    const antedate_bytes payload = {(const uint8_t *)"81.5", 4}, nothing = {NULL, 3};
    antedate_mqtt_files files = {keys, 1, "state", NULL, "press7"};
    MUST(sizeof(antedate_mqtt_opened), OPENED_BYTES);
    MUST(antedate_mqtt_create_state("state", why, sizeof why), ANTEDATE_OK);
    MUST(antedate_mqtt_new(NULL, &files, why, sizeof why), ANTEDATE_ARGUMENT);
    MUST(antedate_mqtt_new(&guard, NULL, why, sizeof why), ANTEDATE_ARGUMENT);
    MUST(antedate_mqtt_new(&guard, &files, why, sizeof why), ANTEDATE_OK);
    MUST(antedate_mqtt_new(&second, &files, tiny, sizeof tiny), ANTEDATE_FILES);
    if (second != NULL || tiny[0] != 0) return __LINE__;
    MUST(antedate_mqtt_rotation_topic(guard, 0, why, sizeof why), ANTEDATE_STATE);
    MUST(antedate_mqtt_idle(guard), ANTEDATE_OK);
    MUST(antedate_mqtt_seal(guard, NULL, payload, out, sizeof out, &len), ANTEDATE_ARGUMENT);
    MUST(antedate_mqtt_seal(guard, "plant/a", nothing, out, sizeof out, &len), ANTEDATE_ARGUMENT);
    MUST(antedate_mqtt_seal(guard, "plant/a", payload, out, sizeof out - 1, &len), ANTEDATE_TOO_LONG);
    MUST(antedate_mqtt_seal(NULL, "plant/a", payload, out, sizeof out, &len), ANTEDATE_ARGUMENT);
    MUST(antedate_mqtt_seal(guard, "plant/+", payload, out, sizeof out, &len), ANTEDATE_REFUSED);
    MUST(antedate_mqtt_seal(guard, "plant/a", payload, out, sizeof out, &len), ANTEDATE_OK);
    pid_t child = fork();
    if (child == 0) {
        size_t own;
        MUST(antedate_mqtt_seal(guard, "plant/a", payload, plain, sizeof plain, &own), ANTEDATE_FORKED);
        MUST(antedate_mqtt_close(guard, why, sizeof why), ANTEDATE_FORKED);
        _exit(0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) return __LINE__;
    const antedate_bytes message = {out, len};
    MUST(antedate_mqtt_open(guard, "plant/a", message, 1, plain, len - 1, &opened), ANTEDATE_TOO_LONG);
    MUST(antedate_mqtt_open(guard, "other", message, 1, plain, sizeof plain, &opened), ANTEDATE_OK);
    MUST(opened.kind, ANTEDATE_MQTT_PLAIN);
    MUST(antedate_mqtt_open(guard, "plant/a", message, 0, plain, sizeof plain, &opened), ANTEDATE_OK);
    if (opened.len != 4 || memcmp(plain, "81.5", 4) != 0 || strcmp(opened.publisher, "press7") != 0) return __LINE__;
    if (opened.sequence != 1 || opened.epoch != 3 || opened.kind != ANTEDATE_MQTT_PAYLOAD) return __LINE__;
    MUST(antedate_mqtt_flush(guard), ANTEDATE_OK);
    MUST(antedate_mqtt_open(guard, "plant/a", message, 1, plain, sizeof plain, &opened), ANTEDATE_REFUSED);
    MUST(antedate_mqtt_why(guard, why, sizeof why), ANTEDATE_OK);
    if (strncmp(why, "repeated: ", 10) != 0) return __LINE__;
    MUST(antedate_mqtt_close(guard, why, sizeof why), ANTEDATE_OK);
    MUST(antedate_mqtt_close(NULL, why, sizeof why), ANTEDATE_ARGUMENT);
    return 0;
}
"#;

#[test]
fn misuse_is_an_error() {
    let folder = tempfile::tempdir().expect("a directory");
    let source = folder.path().join("misuse.c");
    // Size of the struct by C's rules: two of eight octets, three of four, 68 characters, padding.
    let bytes = (8 + 8 + 3 * 4 + 68usize).next_multiple_of(8);
    fs::write(&source, MISUSE.replace("OPENED_BYTES", &bytes.to_string())).expect("written");
    let place = Place::new(&source);
    let output = place.call(&[], b"");
    assert_eq!(output.status.code(), Some(0), "line: {}", said(&output));
}

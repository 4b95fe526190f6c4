//! Tests of the header against the code, and of the examples as programs: compiled by the system's
//! C compiler, linked with the static library, run.

use antedate_capi::{
    BLOCKS, Bytes, CAPACITY, CONTEXT_BYTES, Code, Content, DOT15D4_KEY_BYTES, DOT15D4_SLOT_BYTES, Front,
    Head, Hole, LENGTHS, PAYLOAD_MAX, Parts, Protection, Template,
};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const HEADERS: [&str; 3] = ["antedate.h", "antedate_dot15d4.h", "antedate_dtls.h"];
const FLAGS: [&str; 6] = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic"];

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    output
}

/// A static library, built with the header's command.
fn build(name: &str, features: &[&str]) -> PathBuf {
    // Beside the test programs: target/debug/deps/c-0123 gives target/capi-c.
    let exe = std::env::current_exe().expect("this program has a path");
    let target = exe.ancestors().nth(3).expect("it lies in a target directory").join(name);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo)
        .args(["rustc", "--quiet", "--offline", "--lib", "--crate-type", "staticlib", "--target-dir"])
        .arg(&target)
        .args(features)
        .current_dir(HERE)
        .env_remove("ANTEDATE_CAPACITY"));
    target.join("debug/libantedate_capi.a")
}

/// The library with all suites, built once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build("capi-c", &[]))
}

fn compile(source: &Path, program: &Path) {
    compile_with(library(), source, program);
}

fn compile_with(library: &Path, source: &Path, program: &Path) {
    run(Command::new("cc")
        .args(FLAGS)
        .args([OsStr::new("-I"), Path::new(HERE).join("include").as_os_str()])
        .args([OsStr::new("-I"), Path::new(HERE).join("examples/c").as_os_str()])
        .args([source.as_os_str(), OsStr::new("-o"), program.as_os_str(), library.as_os_str()])
        .args(["-lpthread", "-ldl", "-lm"]));
}

fn example(name: &str, into: &Path) -> PathBuf {
    let program = into.join(name);
    compile(&Path::new(HERE).join("examples/c").join(name).with_extension("c"), &program);
    program
}

#[test]
fn header_matches_the_code() {
    let mut source = HEADERS.map(|name| format!("#include \"{name}\"\n")).concat();
    let mut asserted = 0;
    let mut assert = |what: String| {
        asserted += 1;
        source.push_str(&format!("typedef char assert_{asserted}[({what}) ? 1 : -1];\n"));
    };
    for (name, value) in [
        ("ANTEDATE_CAPACITY", CAPACITY),
        ("ANTEDATE_CONTEXT_BYTES", CONTEXT_BYTES),
        ("sizeof(antedate_sealer)", CONTEXT_BYTES.next_multiple_of(8)),
        ("sizeof(antedate_opener)", CONTEXT_BYTES.next_multiple_of(8)),
        ("ANTEDATE_BLOCKS", BLOCKS),
        ("ANTEDATE_LENGTHS", LENGTHS),
        ("ANTEDATE_PAYLOAD_MAX", PAYLOAD_MAX),
        ("sizeof(antedate_result)", size_of::<Code>()),
        ("sizeof(antedate_bytes)", size_of::<Bytes>()),
        ("offsetof(antedate_bytes, len)", std::mem::offset_of!(Bytes, len)),
        ("sizeof(antedate_hole)", size_of::<Hole>()),
        ("offsetof(antedate_hole, start)", std::mem::offset_of!(Hole, start)),
        ("offsetof(antedate_hole, end)", std::mem::offset_of!(Hole, end)),
        ("sizeof(antedate_template)", size_of::<Template>()),
        ("offsetof(antedate_template, payload)", std::mem::offset_of!(Template, payload)),
        ("offsetof(antedate_template, holes)", std::mem::offset_of!(Template, holes)),
        ("offsetof(antedate_template, hole_count)", std::mem::offset_of!(Template, hole_count)),
        ("sizeof(antedate_front)", size_of::<Front>()),
        ("offsetof(antedate_front, payload)", std::mem::offset_of!(Front, payload)),
        ("offsetof(antedate_front, lengths)", std::mem::offset_of!(Front, lengths)),
        ("offsetof(antedate_front, length_count)", std::mem::offset_of!(Front, length_count)),
        ("offsetof(antedate_front, length_start)", std::mem::offset_of!(Front, length_start)),
        ("offsetof(antedate_front, length_end)", std::mem::offset_of!(Front, length_end)),
        ("sizeof(antedate_dot15d4_protection)", size_of::<Protection>()),
        ("offsetof(antedate_dot15d4_protection, key_source)", std::mem::offset_of!(Protection, key_source)),
        (
            "offsetof(antedate_dot15d4_protection, frame_counter)",
            std::mem::offset_of!(Protection, frame_counter),
        ),
        ("sizeof(antedate_dot15d4_parts)", size_of::<Parts>()),
        ("offsetof(antedate_dot15d4_parts, source)", std::mem::offset_of!(Parts, source)),
        ("offsetof(antedate_dot15d4_parts, source_pan)", std::mem::offset_of!(Parts, source_pan)),
        ("offsetof(antedate_dot15d4_parts, mic_len)", std::mem::offset_of!(Parts, mic_len)),
        ("offsetof(antedate_dtls_writer, sealer)", size_of::<Head>() + 56),
        ("offsetof(antedate_dtls_reader, opener)", size_of::<Head>() + 56),
        ("offsetof(antedate_dtls_writer, next)", std::mem::offset_of!(Head, next)),
        ("sizeof(antedate_dtls_content)", size_of::<Content>()),
        ("offsetof(antedate_dtls_content, len)", std::mem::offset_of!(Content, len)),
        ("offsetof(antedate_dtls_content, record_len)", std::mem::offset_of!(Content, record_len)),
    ] {
        assert(format!("{name} == {value}"));
    }
    for (name, code) in [
        ("OK", Code::Ok),
        ("ARGUMENT", Code::Argument),
        ("SUITE", Code::Suite),
        ("KEY_LENGTH", Code::KeyLength),
        ("NONCE_LENGTH", Code::NonceLength),
        ("SIZE", Code::Size),
        ("STATE", Code::State),
        ("SPENT", Code::Spent),
        ("TEMPLATE", Code::Template),
        ("TOO_LONG", Code::TooLong),
        ("MISFIT", Code::Misfit),
        ("UNSUPPORTED", Code::Unsupported),
        ("UNAUTHENTIC", Code::Unauthentic),
        ("FORKED", Code::Forked),
        ("ENGINE", Code::Engine),
        ("FRAME", Code::Frame),
        ("REPLAYED", Code::Replayed),
        ("FILES", Code::Files),
        ("REFUSED", Code::Refused),
    ] {
        assert(format!("ANTEDATE_{name} == {}", code as i32));
    }
    assert(format!("sizeof(antedate_dot15d4_key) >= {DOT15D4_KEY_BYTES}"));
    assert(format!("sizeof(antedate_dot15d4_slot) >= {DOT15D4_SLOT_BYTES}"));
    // Lengths of key, nonce and tag in the header's comments.
    let header =
        std::fs::read_to_string(Path::new(HERE).join("include/antedate.h")).expect("the header is there");
    let mut checks = String::new();
    let mut suites = 0;
    for line in
        header.lines().filter(|line| line.contains(" = ") && line.contains("/* ") && line.contains(','))
    {
        let (name, rest) = line.trim().split_once(" = ").expect("filtered");
        let Some((_, lengths)) = rest.split_once("/* ") else { continue };
        let lengths: Vec<usize> =
            lengths.split([',', ' ']).filter_map(|word| word.trim().parse().ok()).take(3).collect();
        let [key, nonce, tag] = lengths[..] else { continue };
        suites += 1;
        checks.push_str(&format!(
            "if (antedate_key_len({name}) != {key} || antedate_nonce_len({name}) != {nonce} || \
             antedate_tag_len({name}) != {tag}) return {suites};\n"
        ));
    }
    assert_eq!(suites, 12, "the suites of the header were read");
    source.push_str(&format!(
        "int main(void) {{\n{checks}return antedate_key_len(99) != 0 || sizeof(antedate_sealer) < antedate_sealer_bytes() \
         || sizeof(antedate_opener) < antedate_opener_bytes() \
         || sizeof(antedate_dot15d4_key) < antedate_dot15d4_key_bytes() \
         || sizeof(antedate_dot15d4_slot) < antedate_dot15d4_slot_bytes() ? 100 : 0; }}\n"
    ));
    let directory = tempfile::tempdir().expect("a directory");
    let (file, program) = (directory.path().join("check.c"), directory.path().join("check"));
    std::fs::write(&file, source).expect("can be written");
    compile(&file, &program);
    run(&mut Command::new(program));
}

#[test]
fn header_declares_exactly_the_functions() {
    let read = |name| std::fs::read_to_string(Path::new(HERE).join("include").join(name));
    let header: String = HEADERS.map(|name| read(name).expect("the header is there")).concat();
    let declared: BTreeSet<&str> = header
        .lines()
        .filter(|line| {
            let kinds = ["antedate_result ", "size_t ", "uint32_t ", "const char *"];
            kinds.iter().any(|kind| line.starts_with(kind))
        })
        .filter_map(|line| line.split_once('(')?.0.split([' ', '*']).next_back())
        .collect();
    let symbols = run(Command::new("nm").args(["-g", "--defined-only"]).arg(library()));
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let defined: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split_once(" T ").map(|(_, name)| name))
        .filter(|name| name.starts_with("antedate_"))
        .collect();
    assert!(defined.len() > 15, "{defined:?}");
    assert_eq!(declared, defined);
}

/// The library of `--aes callback` has the chip's AES alone.
#[test]
fn chip_seals_and_fails_safely() {
    use antedate_aead::{Aes128Ccm8, Key, Nonce};
    let features = ["--no-default-features", "--features", "std,aes-128-ccm-8,callback-aes"];
    let library = build("capi-callback", &features);
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("cc2538");
    compile_with(&library, &Path::new(HERE).join("tests/c/cc2538.c"), &program);
    let printed = run(&mut Command::new(program)).stdout;
    let printed = String::from_utf8(printed).expect("is text");
    let plain: Vec<u8> = (0..40).map(|i| b'a' + i % 26).collect();
    let key = Key::<Aes128Ccm8>::new(b"sixteen byte key").expect("a key");
    for (line, number) in printed.lines().zip(1u8..) {
        let mut nonce = *b"salt\0\0\0\0\0\0\0\0";
        nonce[11] = number;
        let mut sealed = [0; 40];
        let tag = key.seal(Nonce::assume_unique(nonce), b"header", &plain, &mut sealed);
        let bytes = sealed.iter().chain(tag.as_bytes());
        assert_eq!(line, bytes.map(|byte| format!("{byte:02x}")).collect::<String>(), "packet {number}");
    }
    assert_eq!(printed.lines().count(), 2);
}

#[test]
fn sensor_reports_to_receiver() {
    let directory = tempfile::tempdir().expect("a directory");
    let (sensor, receiver) = (example("sensor", directory.path()), example("receiver", directory.path()));
    let mut sending =
        Command::new(sensor).arg("40").stdout(Stdio::piped()).spawn().expect("the sensor starts");
    let pipe = sending.stdout.take().expect("was piped");
    let received = run(Command::new(receiver).stdin(pipe));
    assert!(sending.wait().expect("the sensor ends").success());
    let text = String::from_utf8(received.stdout).expect("is text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 40);
    assert_eq!(lines[0], r#"{"sensor": 7, "unit": "K", "temperature": 291.37, "status": "ok"}"#);
    assert_eq!(lines[39], r#"{"sensor": 7, "unit": "K", "temperature": 290.80, "status": "ok"}"#);
}

#[test]
fn receiver_drops_forgeries_and_replays() {
    let directory = tempfile::tempdir().expect("a directory");
    let (sensor, receiver) = (example("sensor", directory.path()), example("receiver", directory.path()));
    let sent = run(Command::new(sensor).arg("5")).stdout;
    let frames: Vec<&[u8]> = sent.chunks(sent.len() / 5).collect();
    let mut forged = frames[1].to_vec();
    forged[50] ^= 1;
    // The second comes forged and then genuine, the third is lost, the first comes again.
    let stream = [frames[0], &forged, frames[1], frames[3], frames[0], frames[4]].concat();
    let mut receiving = Command::new(receiver)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    receiving.stdin.take().expect("was piped").write_all(&stream).expect("is read");
    let output = receiving.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(1));
    let temperatures: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.chars().skip(42).take(6).collect())
        .collect();
    assert_eq!(temperatures, ["291.37", "292.74", "294.48", "295.85"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "receiver: 4 authentic, 2 refused\n");
}

#[test]
fn group_opens_a_payload_sealed_in_c() {
    use antedate_channel::mqtt::{Algorithm, Group};
    let directory = tempfile::tempdir().expect("a directory");
    let program = example("mqtt_publisher", directory.path());
    let mut group = Group::new("line4", Algorithm::AesCcm16_64_128);
    group.install(3, &[0x5e; 32]);
    let material = group.material(3, b"press7").expect("material");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let long = format!("{{\"values\":\"{}\"}}", "x".repeat(400));
    for (number, payload) in [("1", "21.5"), ("300", ""), ("70000", &long)] {
        let sealed = run(Command::new(&program).args([
            &hex(material.key()),
            &hex(material.base()),
            "press7",
            "3",
            "plant/press7/force",
            number,
            payload,
        ]));
        let mut out = Vec::new();
        let opened = group.open("plant/press7/force", &sealed.stdout, &mut out).expect("authentic");
        assert_eq!(
            (String::from_utf8(out).as_deref(), opened.sequence.to_string().as_str()),
            (Ok(payload), number)
        );
        assert!(group.open("plant/press7/force", &sealed.stdout, &mut Vec::new()).is_err(), "a second time");
    }
}

/// Runs a program of two modes: `first` gives lines or records to `second`.
fn through(program: &Path, first: &[&str], second: &str, input: &[u8]) -> (Vec<u8>, Output) {
    let feed = |words: &[&str], input: &[u8]| -> Output {
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        // A program that reads nothing may have ended.
        let _ = child.stdin.take().expect("was piped").write_all(input);
        child.wait_with_output().expect("ends")
    };
    let sent = feed(first, input);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let received = feed(&[second], &sent.stdout);
    (sent.stdout, received)
}

/// The Rust implementation reads the frames of the node in C, and the sink in C as well.
#[test]
fn tsch_node_reports_to_sink_and_rust() {
    use antedate_channel::dot15d4::*;
    let directory = tempfile::tempdir().expect("a directory");
    let program = example("tsch_node", directory.path());
    let (sent, sink) = through(&program, &["report", "12"], "sink", b"");
    let printed = String::from_utf8(sink.stdout).expect("is text");
    assert!(sink.status.success(), "{}", String::from_utf8_lossy(&sink.stderr));
    assert_eq!(printed.lines().count(), 12);
    assert_eq!(printed.lines().next(), Some("slot 101: temperature 21.7"));
    assert_eq!(printed.lines().last(), Some("slot 1212: temperature 22.4"));
    let (pan, extended) = (PanId(0xabcd), ExtendedAddress([2, 0, 0, 0, 0, 0, 0, 7]));
    let policy = Policy::uniform(Levels::of(&[SecurityLevel::EncMic32]));
    let config = Config {
        extended: ExtendedAddress([1; 8]),
        pan,
        short: Some(ShortAddress(1)),
        policy,
        enc_without_mic: false,
    };
    let mut security = Security::new(config);
    security.add_device(Device { pan, extended, short: None, exempt: false });
    let lookup = KeyLookup::Identified(KeyIdentifier::Index(1));
    let key = LinkKey::new(*b"a key of a plant");
    security.install_key(KeyConfig::fresh(lookup, key, NonceKind::Asn)).expect("installed");
    let (mut rest, mut out, mut read) = (&sent[..], [0; 125], 0);
    while let Some((asn, behind)) = rest.split_first_chunk() {
        let (frame, after) = behind[1..].split_at(behind[0].into());
        let asn = Asn::new(u64::from_be_bytes(*asn));
        let received = security.unsecure(frame, asn, None, &mut out).expect("authentic");
        let line = printed.lines().nth(read).expect("the sink read it too");
        assert!(line.ends_with(std::str::from_utf8(&out[..received.len]).expect("text")), "{line}");
        (rest, read) = (after, read + 1);
    }
    assert_eq!(read, 12);
    // One frame is forged, and one comes again.
    let record = sent.len() / 12;
    let mut forged = sent.clone();
    forged[record + 30] ^= 1;
    forged.extend_from_slice(&sent[..record]);
    let mut child = Command::new(&program)
        .arg("sink")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("was piped").write_all(&forged).expect("is read");
    let output = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), &*said), (Some(1), "tsch_node: 11 accepted, 2 refused\n"));
}

/// The Rust implementation reads the records of the program in C, and the program itself.
#[test]
fn dtls_records_are_read_in_c_and_rust() {
    use antedate_channel::dtls::{Aead, ConnectionId, DirectionKeys, Reader, records};
    let directory = tempfile::tempdir().expect("a directory");
    let program = example("dtls_records", directory.path());
    let lines = b"valve open\nvalve shut\n\nlast";
    let (sent, read) = through(&program, &["protect"], "open", lines);
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    assert_eq!(read.stdout, lines);
    let keys = DirectionKeys::new(Aead::Aes128Ccm8, b"a session's key\0", &[1, 2, 3, 4]).expect("fits");
    let mut reader = Reader::new(&keys, 1, ConnectionId::new(&[0xc1, 0xd0]).expect("short")).expect("fits");
    let mut text = Vec::new();
    for record in records(&sent, 2) {
        let mut out = [0; 300];
        let opened = reader.open(&record.expect("a record"), &mut out).expect("authentic");
        text.extend_from_slice(&out[..opened.len]);
    }
    assert_eq!(text, lines);
}

/// A parent, its child and its grandchild each try their own sealer and those of their ancestors.
const FORKS: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include "antedate.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static antedate_sealer first, second, third;

static antedate_result make(antedate_sealer *sealer) {
    static const uint8_t octets[16] = {1};
    antedate_bytes key = {octets, 16}, salt = {octets, 12};
    return antedate_sealer_init(sealer, ANTEDATE_AES_128_CCM_8, key, salt);
}

static antedate_result seal(antedate_sealer *sealer) {
    uint8_t plain[4] = {0}, cipher[4], tag[16];
    antedate_bytes aad = {plain, 1};
    while (antedate_step(sealer, 100) > 0) {
    }
    return antedate_seal(sealer, aad, plain, cipher, sizeof plain, tag);
}

static void must(int line, antedate_result got, antedate_result right) {
    if (got != right) {
        _exit(line > 255 ? 255 : line);
    }
}
#define MUST(got, right) must(__LINE__, (got), (right))

static int wait_for(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 254;
}

int main(void) {
    MUST(make(&first), ANTEDATE_OK);
    MUST(antedate_prepare(&first, 1), ANTEDATE_OK);
    pid_t child = fork();
    if (child == 0) {
        MUST(seal(&first), ANTEDATE_FORKED);
        MUST(antedate_prepare(&first, 2), ANTEDATE_FORKED);
        MUST(make(&second), ANTEDATE_OK);
        MUST(antedate_prepare(&second, 1), ANTEDATE_OK);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            MUST(make(&third), ANTEDATE_OK);
            MUST(seal(&first), ANTEDATE_FORKED);
            MUST(seal(&second), ANTEDATE_FORKED);
            MUST(antedate_prepare(&third, 1), ANTEDATE_OK);
            MUST(seal(&third), ANTEDATE_OK);
            _exit(0);
        }
        int said = wait_for(grandchild);
        if (said != 0) {
            _exit(said);
        }
        MUST(seal(&second), ANTEDATE_OK);
        MUST(antedate_sealer_wipe(&first), ANTEDATE_OK);
        MUST(make(&first), ANTEDATE_OK);
        MUST(antedate_prepare(&first, 1), ANTEDATE_OK);
        MUST(seal(&first), ANTEDATE_OK);
        _exit(0);
    }
    int said = wait_for(child);
    MUST(seal(&first), ANTEDATE_OK);
    return said;
}
"#;

#[test]
#[cfg(target_os = "linux")]
fn child_process_seals_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, program) = (directory.path().join("forks.c"), directory.path().join("forks"));
    std::fs::write(&source, FORKS).expect("written");
    compile(&source, &program);
    run(&mut Command::new(program));
}

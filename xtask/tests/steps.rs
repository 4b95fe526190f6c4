//! `cargo xtask test` sees failures: each step runs with stand-ins for its tools, of which one
//! fails. No step may then pass.

#[path = "../../crates/wire/tests/skip/mod.rs"]
mod skip;

use skip::skipped;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::cross::{ARMV7, ARMV8};
use xtask::setup::tools;

/// Stands for each tool. The call number `FAIL_AT` fails; other calls leave the results that the
/// steps read.
const TOOL: &str = r##"#!/bin/sh
calls=$(($(cat "$STAND_INS/calls" 2>/dev/null || echo 0) + 1))
echo "$calls" > "$STAND_INS/calls"
[ "$calls" = "$FAIL_AT" ] && exit 1
for last; do :; done
elf() {
    # The head of an ELF file of 32 bits with one segment of 64 octets.
    word() { printf "\\$1\\000\\000\\000"; }
    { head -c 28 /dev/zero; word 064; head -c 10 /dev/zero; printf '\040\000\001\000'; head -c 6 /dev/zero
      word 001; head -c 12 /dev/zero; word 100; head -c 12 /dev/zero; } > "$last"
}
# What a stand-in writes belongs to the test.
output() {
    case "$last" in "$STAND_INS"/*) mkdir -p "${last%/*}" ;; *) echo "$last is no output" >&2; exit 2 ;; esac
}
case "${0##*/} $*" in
"cargo metadata"*) exec "$REAL_CARGO" "$@" ;;
"git rev-parse"*) echo false ;;
"git log"*) echo "abc1234 Show the length of a subject" ;;
"antedate demo"*) echo '{ "passed": true, "holds": true }' > "$last" ;;
"antedate report"*)
    echo '<html><body></body></html>' > "$last/index.html"
    row='{ "paper": "p", "item": "i", "case": "c", "metric": "m", "unit": "u", "statistic": "s", "reason": "r", "label": "executed", "verdict": "not-comparable" }'
    { printf '{ "rows": [ %s' "$row"; for n in $(seq 699); do printf ', %s' "$row"; done; printf ' ] }'; } > "$last/report.json" ;;
chromium-headless-shell*--screenshot*)
    for argument; do case "$argument" in --screenshot=*) : > "${argument#*=}" ;; esac; done ;;
chromium-headless-shell*) echo "<title>probe 300 300  end</title>" ;;
"antedate lab"*) echo '{ "checks": [ { "what": "packets open", "met": true } ] }' > "$last" ;;
"cargo package --list"*) printf '%s\n' Cargo.toml README.md LICENSE-APACHE LICENSE-MIT ;;
"cargo package"*)
    for name in aead wire channel smoltcp; do
        packed="$CARGO_TARGET_DIR/publish/package/antedate-$name-$VERSION"
        mkdir -p "$packed"
        : > "$packed/Cargo.toml"
    done ;;
"cargo test"*)
    [ -z "$ANTEDATE_BACKENDS" ] || echo Portable > "$ANTEDATE_BACKENDS"
    [ -z "$ANTEDATE_KERNELS" ] || printf 'kernel\ta.rs:1\tavx2\nran\ta.rs:1\tavx2\n' >> "$ANTEDATE_KERNELS" ;;
"cargo rustc"*staticlib*)
    for kind in thumbv7m-none-eabi/mote demo; do
        built="$CARGO_TARGET_DIR/capi/build/$kind"
        mkdir -p "$built"
        sizes="capacity 000128, sealer 000592, opener 000568, frame_key 000200, frame_slot 000300 bytes"
        echo "antedate build: $sizes" > "$built/libantedate_capi.a"
        : > "$built/libantedate_capi.so"
    done ;;
*-strip*)
    last="$2"
    output
    : > "$last" ;;
"tar --create"*" --file "*)
    before=
    for argument; do
        [ "$before" != --file ] || last="$argument"
        before="$argument"
    done
    output
    : > "$last" ;;
"tar --extract"*)
    last="$PWD/antedate-lab/usr/bin/antedate"
    output
    ln -sf "$STAND_INS/tool" "$last" ;;
"make "*" -n "*) echo "cargo xtask capi --suite ccm --aes bitslice --out elsewhere" ;;
"make "*)
    for last in "$2/bin/exchange" "$2/build/exchange"; do
        output
        printf '#!/bin/sh\n' > "$last"
        chmod +x "$last"
    done ;;
"cmake --build"*antedate_build)
    last="$2/antedate/antedate/include/antedate.h"
    output
    echo '#define ANTEDATE_DOT15D4_SLOT_BYTES 368' > "$last" ;;
"cmake --build"*)
    for program in "sensor 10" "receiver 10" "tsch_node 3" "dtls_records 3"; do
        for kind in "" _static; do
            printf '#!/bin/sh\nseq %s\n' "${program#* }" > "$last/${program% *}$kind"
            chmod +x "$last/${program% *}$kind"
        done
    done
    for client in mqtt_client mqtt_client_static; do
        printf '#!/bin/sh\n[ "$1" != open ] || echo opened\n' > "$last/$client"
        chmod +x "$last/$client"
    done ;;
"cmake -S"*) mkdir -p "$4" ;;
cc*)
    output
    printf '#!/bin/sh\nseq 10\n' > "$last"
    chmod +x "$last" ;;
ld.lld-16*)
    output
    elf ;;
"qemu-system-"*/bare) cat "$ROOT/vectors/sensor.txt" ;;
"qemu-system-"*/measure) for at in 1 2 3 4 5 6; do echo "suite 64 200 100 200 100"; done ;;
"qemu-system-"*/embassy) grep "^ccm" "$ROOT/vectors/sensor.txt" ;;
qemu-system-arm*pairs.so*)
    for argument; do case "$argument" in *out=*) pairs="${argument##*out=}" ;; esac; done
    mkdir -p "${pairs%/*}"
    elf
    : > "$pairs"
    for measurement in nothing aes-128-block ccm8-16-seal ccm8-112-seal ccm8-112-open ccm8-112-96-front-online \
        key blocks seal open ascon-16-seal ascon-64-seal ascon-1008-seal ascon-1008-open; do
        echo "$measurement 100"
        [ "$measurement" = nothing ] || echo "0 2 100" >> "$pairs"
        echo . >> "$pairs"
    done ;;
qemu-system-arm*-plugin*)
    for argument; do case "$argument" in *out=*) traces="${argument##*out=}" ;; esac; done
    mkdir -p "${traces%/*}"
    : > "$traces"
    for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        for measurement in key blocks seal open; do
            echo "$measurement 100"
            # Accesses of the control alone differ.
            case "$last" in *_sliced) echo "100 aa 50 bb" ;; *) echo "100 aa 50 $round" ;; esac >> "$traces"
        done
    done ;;
qemu-system-arm*)
    echo nothing 0
    for call in seal-112 call-2 call-3 call-4 call-5 call-6 call-7 call-8 call-9; do echo "$call 100"; done ;;
"xtask-peers peer-step"*) printf 'passed\nopened\n' > "$last" ;;
valgrind*) echo '{ "case": "control", "errors": 1, "verdicts": 0 }' ;;
antedate-timing*) echo '{ "case": "control", "samples": 9, "t": 5.0 }' ;;
esac
"##;

/// Stands for `rustc`: this toolchain has the `core` of every target.
const RUSTC: &str = r#"#!/bin/sh
case "$*" in
"--print sysroot") echo "$STAND_INS/sysroot" ;;
*) exec "$REAL_RUSTC" "$@" ;;
esac
"#;

/// A folder of stand-ins.
struct StandIns(PathBuf);

impl StandIns {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        let script = |path: &str, text: &str| {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, text).expect("a script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        };
        script("tool", TOOL);
        script("bin/rustc", RUSTC);
        // A package that is missing stays missing.
        script("bin/apt-get", "#!/bin/sh\nexit 1\n");
        let deny = format!("cache/antedate-tools/cargo-deny-{}/bin/cargo-deny", tools::CARGO_DENY);
        let mdbook = format!("cache/antedate-tools/mdbook-{}/bin/mdbook", tools::MDBOOK);
        let places = [
            "bin/cargo",
            "bin/git",
            "bin/valgrind",
            "bin/chromium-headless-shell",
            "bin/cc",
            "bin/clang-16",
            "bin/cmake",
            "bin/tar",
            "bin/make",
            "bin/pkg-config",
            "bin/ld.lld-16",
            "bin/qemu-system-arm",
            "bin/qemu-system-riscv32",
            "bin/aarch64-linux-gnu-gcc",
            "bin/aarch64-linux-gnu-strip",
            "bin/x86_64-linux-gnu-strip",
            "bin/arm-linux-gnueabihf-gcc",
            "bin/qemu-aarch64",
            "bin/qemu-arm",
            "usr/bin/cargo",
            "target/debug/antedate",
            "target/debug/xtask-peers",
            "target/timing/release/antedate-timing",
        ];
        for place in places.into_iter().chain([deny.as_str(), &mdbook]) {
            let path = dir.join(place);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            symlink(dir.join("tool"), path).expect("a link");
        }
        fs::create_dir_all(dir.join("usr/src/rust/library/core")).expect("a folder");
        for target in ["thumbv7m-none-eabi", "aarch64-unknown-none", ARMV8.target, ARMV7.target] {
            fs::create_dir_all(dir.join("sysroot/lib/rustlib").join(target).join("lib")).expect("a folder");
        }
        Self(dir)
    }

    /// Runs `xtask`. Returns its output, whether it succeeded, and the number of calls of tools.
    fn run(&self, arguments: &[&str], fail_at: usize) -> (String, bool, usize) {
        let calls = self.0.join("calls");
        let _ = fs::remove_file(&calls);
        let real = |name: &str| std::env::var(name.to_uppercase()).unwrap_or_else(|_| name.to_string());
        let path = format!("{}:{}", self.0.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(arguments)
            .env("STAND_INS", &self.0)
            .env("ROOT", concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .env("FAIL_AT", fail_at.to_string())
            .env("VERSION", env!("CARGO_PKG_VERSION"))
            .env("REAL_CARGO", real("cargo"))
            .env("REAL_RUSTC", real("rustc"))
            .env("CARGO", self.0.join("bin/cargo"))
            .env("PATH", path)
            .env("CARGO_TARGET_DIR", self.0.join("target"))
            .env("XDG_CACHE_HOME", self.0.join("cache"))
            .env("ANTEDATE_XTASK_USR", self.0.join("usr"))
            .env_remove("ANTEDATE_SKIPPED")
            .output()
            .expect("xtask starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let calls = fs::read_to_string(calls).ok().and_then(|text| text.trim().parse().ok());
        (said, output.status.success(), calls.unwrap_or(0))
    }
}

/// The steps that read the sources alone; unit tests show them faults.
const WITHOUT_TOOLS: [&str; 9] = [
    "house comments",
    "house test names",
    "house circles",
    "house errors",
    "house oracles",
    "house results",
    "house reasons",
    "house unsafe",
    "house line length",
];

#[test]
fn no_step_passes_beside_a_failed_tool() {
    let stand_ins = StandIns::new("steps");
    let (names, ..) = stand_ins.run(&["test", "--list"], 0);
    assert!(names.lines().count() > 30, "{names}");
    for step in names.lines() {
        let passes = format!("-- {step}: passed");
        let (said, success, calls) = stand_ins.run(&["test", "--only", step], 0);
        if !said.contains(&passes) || !success {
            // A lesser machine skips the step, or its set-up fails.
            assert!(
                said.contains(&format!("-- {step}: skipped")) || said.contains("-- set-up: FAILED"),
                "{said}"
            );
            skipped(&format!("the step `{step}` with a failing tool: this machine cannot run it"));
            continue;
        }
        assert_eq!(calls == 0, WITHOUT_TOOLS.contains(&step), "{step}: {calls} calls of tools");
        // Each call of few; of many alike, the first and the last two.
        for fail_at in (1..=calls).filter(|at| calls <= 5 || *at == 1 || *at + 1 >= calls) {
            // A name selects the steps that begin with it too, so the call may be of another step.
            let (said, success, _) = stand_ins.run(&["test", "--only", step], fail_at);
            assert!(
                !success || !said.contains(&passes),
                "call {fail_at} of {calls} fails, and the step passes: {said}"
            );
        }
    }
}

#[test]
fn steps_that_run_together_are_judged_each() {
    let stand_ins = StandIns::new("together");
    let together = ["test", "--only", "cipher bench", "--only", "fuzz targets", "--only", "no_std"];
    let passed = |said: &str| {
        ["cipher bench", "fuzz targets", "no_std"].map(|step| said.contains(&format!("-- {step}: passed")))
    };
    let (said, success, calls) = stand_ins.run(&together, 0);
    if said.contains("set-up: FAILED") {
        return skipped("steps that run together: this machine cannot run them");
    }
    assert!(success && passed(&said) == [true; 3] && calls > 2, "{said}");
    let (said, success, _) = stand_ins.run(&together, 1);
    assert!(!success && passed(&said).contains(&false) && said.contains("FAILED: "), "{said}");
}

#[test]
fn ci_knows_the_steps_it_may_skip() {
    let status = |name: &str| {
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        xtask.args(["ci", "--may-skip", name]).output().expect("xtask starts").status.code()
    };
    assert_eq!(status("advisory"), Some(2));
}

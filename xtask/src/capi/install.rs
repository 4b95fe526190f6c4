//! The C library of this machine as others install it: static, shared, for pkg-config and CMake.

use super::{Aes, Arguments, Sizes, compile, headers, write};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::report::StepResult;
use xtask::shell::{DEMO, Run, cache, program, root};

/// The version of the interface: it changes when programs must be compiled again.
const INTERFACE: &str = "0";
/// The examples of frames and records, and lines of a shell that send three through each.
const LAYERS: [(&str, &str); 3] = [
    ("tsch_node", "\"$1\" report 3 | \"$1\" sink"),
    ("dtls_records", "printf 'a\\nb\\nc\\n' | \"$1\" protect | \"$1\" open"),
    (
        "mqtt_client",
        "rm -rf state && \"$1\" init state && for text in a b c; do printf $text | \"$1\" seal line4.toml state press7 plant/a | \"$1\" open line4.toml plant/a; done",
    ),
];
/// The group file of the MQTT client.
const GROUP: &str = "group = \"line4\"\nalgorithm = \"aes-128-gcm\"\ntopics = [\"plant/#\"]\n[[key]]\nepoch = 1\nsecret = \"5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e\"\n";
/// The libraries below a static one.
const BELOW: &str = "-lpthread -ldl -lm";

/// Installs the library at `out`.
pub(super) fn install(arguments: &Arguments, features: &str, out: &Path) -> Result<(), String> {
    let version = env!("CARGO_PKG_VERSION");
    let lib = out.join("lib");
    let soname = format!("libantedate.so.{INTERFACE}");
    let flags = [format!("-Clink-arg=-Wl,-soname,{soname}")];
    let library = compile(arguments, features, "staticlib,cdylib", "libantedate_capi.a", &flags)?;
    let sizes = Sizes::read(&library)?;
    // A shared library may need more for its contexts one day: programs keep the header's reserve.
    headers(arguments, out, sizes.capacity, None)?;
    copy(&library, &lib.join("libantedate.a"))?;
    let file = format!("libantedate.so.{version}");
    copy(&library.with_extension("so"), &lib.join(&file))?;
    link(&file, &lib.join(&soname))?;
    link(&soname, &lib.join("libantedate.so"))?;
    // Both files find the folder from their own place, so it can be moved.
    let pkg_config = format!(
        "prefix=${{pcfiledir}}/../..\n\nName: antedate\nDescription: AEAD ciphers whose work is done before the data \
         exists\nVersion: {version}\nLibs: -L${{prefix}}/lib -lantedate\nLibs.private: {BELOW}\nCflags: \
         -I${{prefix}}/include\n"
    );
    write(&lib.join("pkgconfig/antedate.pc"), pkg_config.as_bytes())?;
    write(&lib.join("cmake/Antedate/AntedateConfig.cmake"), cmake(&file).as_bytes())?;
    let compatible = format!(
        "set(PACKAGE_VERSION {version})\nif(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)\n  \
         set(PACKAGE_VERSION_COMPATIBLE FALSE)\nelse()\n  set(PACKAGE_VERSION_COMPATIBLE TRUE)\n  \
         if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n    set(PACKAGE_VERSION_EXACT TRUE)\n  \
         endif()\nendif()\n"
    );
    write(&lib.join("cmake/Antedate/AntedateConfigVersion.cmake"), compatible.as_bytes())
}

/// The package's targets `Antedate::antedate` (shared) and `Antedate::antedate_static`.
fn cmake(shared: &str) -> String {
    format!(
        "get_filename_component(_antedate \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" ABSOLUTE)\n\
         if(NOT TARGET Antedate::antedate)\n  \
         add_library(Antedate::antedate SHARED IMPORTED)\n  \
         set_target_properties(Antedate::antedate PROPERTIES\n    \
         IMPORTED_LOCATION \"${{_antedate}}/lib/{shared}\"\n    \
         IMPORTED_SONAME libantedate.so.{INTERFACE}\n    \
         INTERFACE_INCLUDE_DIRECTORIES \"${{_antedate}}/include\")\n  \
         add_library(Antedate::antedate_static STATIC IMPORTED)\n  \
         set_target_properties(Antedate::antedate_static PROPERTIES\n    \
         IMPORTED_LOCATION \"${{_antedate}}/lib/libantedate.a\"\n    \
         INTERFACE_INCLUDE_DIRECTORIES \"${{_antedate}}/include\"\n    \
         INTERFACE_LINK_LIBRARIES \"{BELOW}\")\nendif()\nunset(_antedate)\n"
    )
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let bytes = fs::read(from).map_err(|e| format!("{}: {e}", from.display()))?;
    write(to, &bytes)
}

fn link(target: &str, at: &Path) -> Result<(), String> {
    let _ = fs::remove_file(at);
    symlink(target, at).map_err(|e| format!("{}: {e}", at.display()))
}

/// The step: installs, then builds the examples by CMake and by pkg-config, with each library, and lets
/// a sensor report to a receiver.
pub(crate) fn check() -> StepResult {
    let folder = cache("capi")?.join("installed");
    let _ = fs::remove_dir_all(&folder);
    let out = folder.join("prefix");
    let arguments = Arguments {
        target: None,
        // Those of the examples: all would take a minute to compile.
        suite: ["aes-128-gcm", "ccm-star-64", "ccm"].map(String::from).to_vec(),
        aes: Aes::Bitslice,
        capacity: None,
        out: Some(out),
        profile: Some(DEMO),
        mqtt: true,
    };
    let out = super::build(&arguments)?;
    let group = folder.join("line4.toml");
    write(&group, GROUP.as_bytes())?;
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(&group, private).map_err(|e| format!("{}: {e}", group.display()))?;
    let built = folder.join("cmake");
    let sources = root().join("crates/capi/examples/c");
    program("cmake")
        .arg("-S")
        .arg(&sources)
        .arg("-B")
        .arg(&built)
        .arg(define("CMAKE_PREFIX_PATH", &out))
        .bounded(60)?;
    program("cmake").arg("--build").arg(&built).bounded(60)?;
    for kind in ["", "_static"] {
        report(&built.join(format!("sensor{kind}")), &built.join(format!("receiver{kind}")))?;
        for (example, line) in LAYERS {
            let mut shell = Command::new("sh");
            shell.args(["-c", line, "sh"]).arg(built.join(format!("{example}{kind}"))).current_dir(&folder);
            let said = shell.read(10)?;
            if said.lines().count() != 3 {
                return Err(format!("{example}{kind}: {said:?} of 3 messages arrived").into());
            }
        }
    }
    for kind in ["--shared", "--static"] {
        let words = package(&out, kind)?;
        let example = |name: &str| -> Result<PathBuf, String> {
            let to = folder.join(format!("{name}{kind}"));
            let mut compiler = program("cc");
            compiler.arg(sources.join(name).with_extension("c")).args(words.split_whitespace());
            compiler.arg("-o").arg(&to).bounded(30)?;
            Ok(to)
        };
        report(&example("sensor")?, &example("receiver")?)?;
    }
    super::modules::check(&folder, &out)?;
    let modules = "modules for Contiki-NG, RIOT and Zephyr without their trees";
    Ok(format!("static and shared, by CMake and by pkg-config; {modules}"))
}

fn define(name: &str, path: &Path) -> String {
    format!("-D{name}={}", path.display())
}

/// The compiler's words for a library.
fn package(out: &Path, kind: &str) -> Result<String, String> {
    let mut tool = program("pkg-config");
    tool.env("PKG_CONFIG_PATH", out.join("lib/pkgconfig")).args(["--cflags", "--libs", kind, "antedate"]);
    let words = tool.read(10)?;
    let lib = out.join("lib");
    Ok(match kind {
        "--static" => words.replace("-lantedate", &lib.join("libantedate.a").to_string_lossy()),
        _ => format!("{words} -Wl,-rpath,{}", lib.display()),
    })
}

/// Ten packets from a sensor to a receiver.
fn report(sensor: &Path, receiver: &Path) -> Result<(), String> {
    let mut shell = Command::new("sh");
    let said = shell.args(["-c", "\"$1\" 10 | \"$2\"", "sh"]).args([sensor, receiver]).read(10)?;
    match said.lines().count() {
        10 => Ok(()),
        other => Err(format!("{}: {other} of 10 packets arrived", receiver.display())),
    }
}

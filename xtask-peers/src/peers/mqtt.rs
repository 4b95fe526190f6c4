//! Mosquitto between our client and paho-mqtt, and our envelopes read by pycose: in both
//! directions, forged, repeated, after kills. Then the Python package, in the programs of the book.

mod brokers;
mod node;

use super::python;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use xtask::report::{StepResult, Stop};
use xtask::shell::{Run, antedate, cache, cargo, profile, program, root};

/// The number of kills of the publisher.
const KILLS: &str = "200";

/// Seconds for the long queues together, and for each.
pub(crate) const LONG: u64 = 9000;
const LONG_EACH: u64 = 5400;
const PLUGIN: &str = "antedate-mosquitto-plugin";

/// Makes the Python environment and the broker's plugin.
pub(crate) fn prepare() -> Result<(), Stop> {
    let python = python()?;
    // In the product's profile, so that the two share what they compile.
    cargo().args(["build", "--locked", "--profile", &profile(), "--package", PLUGIN]).bounded(600)?;
    install_wheel(&python)?;
    sparkplug()?;
    brokers::prepare()?;
    node::prepare()?;
    // Checks the layouts that the plugin assumes against Mosquitto's own headers.
    program("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-fsyntax-only"])
        .arg(python::script("mqtt/layout.c"))
        .bounded(60)?;
    Ok(())
}

fn python() -> Result<PathBuf, String> {
    python::environment(
        "mqtt",
        &[
            "aiomqtt==2.5.1",
            "cbor2==6.2.1",
            "cryptography==50.0.2",
            "gmqtt==0.8.0",
            "maturin==1.16.0",
            "mypy==2.4.1",
            "paho-mqtt==2.2.0",
            "pycose==1.1.0",
        ],
    )
}

/// The environment of the Sparkplug library, which needs paho-mqtt 1.
fn sparkplug() -> Result<PathBuf, String> {
    python::environment("sparkplug", &["paho-mqtt==1.6.1", "pysparkplug==0.6.1"])
}

/// Builds the wheel of the Python package, as its users do, and installs it.
fn install_wheel(python: &Path) -> Result<(), String> {
    let wheels = cache("peers")?.join("wheels");
    let _ = fs::remove_dir_all(&wheels);
    let mut maturin = program(python.with_file_name("maturin"));
    maturin.args(["build", "--quiet", "--locked", "--profile", &profile(), "--interpreter"]).arg(python);
    maturin.args(["--manifest-path", "crates/python/Cargo.toml", "--out"]).arg(&wheels).bounded(600)?;
    let built = fs::read_dir(&wheels).map_err(|e| e.to_string())?.find_map(|entry| Some(entry.ok()?.path()));
    let mut pip = program(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"]);
    pip.arg(built.ok_or("maturin made no wheel")?).bounded(60)
}

/// A script with a directory of its own, its arguments, and the most seconds that it takes.
struct Part {
    name: &'static str,
    folder: String,
    words: Vec<OsString>,
    seconds: u64,
}

impl Part {
    fn new<W: AsRef<OsStr>>(name: &'static str, words: &[W], seconds: u64) -> Self {
        let words = words.iter().map(|word| word.as_ref().to_owned()).collect();
        Self { name, folder: format!("mqtt-{name}"), words, seconds }
    }

    /// A queue of so many messages at one of the other brokers.
    fn queue(count: &str, broker: &str, seconds: u64) -> Self {
        let folder = format!("mqtt-brokers-{}", broker.split('=').next().unwrap_or_default());
        Self { folder, ..Self::new("brokers", &[count, broker], seconds) }
    }

    /// Runs it. Its last line is the verdict.
    fn run(&self) -> Result<(), String> {
        let work = cache("peers")?.join(&self.folder);
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&work).map_err(|e| e.to_string())?;
        let mut script = program(if self.name == "sparkplug" { sparkplug()? } else { python()? });
        script.arg(python::script(&format!("mqtt/{}.py", self.name))).arg(antedate()).arg(&work);
        let said = script.args(&self.words).read(self.seconds)?;
        print!("{said}");
        match said.lines().last() {
            Some(r#"{"passed": true}"#) => Ok(()),
            _ => Err(format!("{}: no verdict:\n{said}", self.name)),
        }
    }
}

/// Runs parts, two at a time, since much of their time is waiting. The long ones come first.
fn two_at_a_time(parts: Vec<Part>) -> Result<(), String> {
    let queue = Mutex::new(parts.into_iter());
    let take = |all: bool| {
        let mut queue = queue.lock().ok()?;
        if all { queue.by_ref().last() } else { queue.next() }
    };
    let work = || -> Result<(), String> {
        while let Some(part) = take(false) {
            // The other one ends with the part that it has.
            part.run().inspect_err(|_| drop(take(true)))?;
        }
        Ok(())
    };
    let (one, other) = thread::scope(|scope| {
        let other = scope.spawn(work);
        (work(), other.join().unwrap_or_else(|_| Err("a part panicked".into())))
    });
    match (one, other) {
        (Err(one), Err(other)) => Err(format!("{one}\n{other}")),
        (one, other) => one.and(other),
    }
}

/// Runs all parts of the scripts, each with its own broker.
pub(crate) fn run() -> StepResult {
    let plugin = antedate().with_file_name("libantedate_mosquitto_plugin.so");
    let chapter = root().join("docs/src/mqtt-applications.md");
    let (others, none) = (brokers::all()?, [""; 0]);
    let mut parts = vec![
        Part::new("peer", &[OsStr::new(KILLS), plugin.as_ref()], 600),
        Part::new("keys", &none, 400),
        Part::new("cluster", &["/usr/sbin/nats-server"], 240),
        Part::new("backlog", &["2000"], 240),
        Part::new("transport", &none, 240),
    ];
    parts.extend(others.iter().map(|broker| Part::queue("300", broker, 240)));
    parts.extend([
        Part::new("applications", &[chapter], 240),
        Part::new("proxy", &none, 240),
        Part::new("troubles", &none, 240),
        Part::new("pairs", &["10000", "100"], 120),
        Part::new("asynchronous", &none, 120),
        Part::new("options", &none, 120),
        Part::new("sparkplug", &none, 120),
    ]);
    two_at_a_time(parts)?;
    let done = format!(
        "Mosquitto and {} other brokers, a NATS cluster, paho-mqtt and gmqtt over 3.1.1 and 5, pycose both ways; kills of all three; the Python package; the proxy with paho-mqtt and pysparkplug",
        others.len()
    );
    let mut missing = brokers::missing(&others);
    if !node::run()? {
        missing.push("mqtt.js and Node-RED");
    }
    match missing[..] {
        [] => Ok(format!("{done}; the Node package with mqtt.js and in Node-RED")),
        ref missing => Err(Stop::Skipped(format!(
            "partners that cannot be fetched here: {}; all else passed: {done}",
            missing.join(", ")
        ))),
    }
}

/// Long queues: each message is read once, at Mosquitto through kills under load, and at the other brokers.
/// Beside them a subscriber of very many topics.
pub(crate) fn run_long() -> StepResult {
    let others = brokers::all()?;
    let mut parts = vec![
        Part::new("backlog", &["100000"], LONG_EACH),
        Part::new("pairs", &["1000000", "200"], LONG_EACH),
    ];
    parts.extend(others.iter().map(|broker| Part::queue("100000", broker, LONG_EACH)));
    two_at_a_time(parts)?;
    let done = format!(
        "100,000 queued messages for each QoS and version at Mosquitto and {} other brokers (mochi: 5,000): each was read once; a million pairs of publisher and topic",
        others.len()
    );
    match brokers::missing(&others)[..] {
        [] => Ok(done),
        ref missing => {
            Err(Stop::Skipped(format!("brokers that cannot be fetched here: {}; {done}", missing.join(", "))))
        }
    }
}

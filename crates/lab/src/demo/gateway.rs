//! A gateway process, `antedate gateway run FILE`, and requests to its control socket.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{DemoError, Secure};
use crate::process::{Place, Process, executable};
use crate::sys::clock::monotonic_ns;

/// Bound of a gateway's start.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// MACsec's counters of received frames that count no refusal (IEEE 802.1AE-2018 clause 10.7).
const NOT_REFUSED: [&str; 7] = [
    "InPktsOK",
    "InPktsUnchecked",
    "InPktsDelayed",
    "InPktsUntagged",
    "InPktsInvalid",
    "InPktsUnusedSA",
    "InPktsUncontrolled",
];

/// Set-up of a gateway.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) name: &'static str,
    pub(super) field: String,
    pub(super) uplink: String,
    pub(super) secure: Secure,
    /// Key file, relative to the directory. With an overlay: the file with the other end's public
    /// key.
    pub(super) keys: PathBuf,
    /// More lines of `[macsec]`, and further sections.
    pub(super) macsec: String,
    pub(super) cpus: Vec<usize>,
    /// `SCHED_FIFO`, where permitted.
    pub(super) priority: Option<u8>,
    /// Sends through the queueing discipline, so a tap on the same machine hears the frames.
    pub(super) audible: bool,
}

impl Setup {
    fn text(&self) -> String {
        let Self { name, field, uplink, keys, .. } = self;
        let protection = match self.secure {
            Secure::Macsec => format!("[macsec]\nkey_file = \"{}\"{}", keys.display(), self.macsec),
            Secure::Overlay => overlay(name, keys),
            Secure::None | Secure::Bridge => "[plain]".to_owned(),
        };
        let mut run = String::new();
        if let [cpu] = self.cpus[..] {
            run.push_str(&format!("cpus = [{cpu}]\n"));
        }
        if let Some(priority) = self.priority {
            run.push_str(&format!("priority = {priority}\n"));
        }
        if self.audible {
            run.push_str("qdisc_bypass = false\n");
        }
        format!(
            "[field]\ninterface = \"{field}\"\n\n[uplink]\ninterface = \"{uplink}\"\n\n{protection}\n\n\
             [policy]\nallow = [\"profinet\"]\n\n[run]\n{run}\n\
             [state]\ndirectory = \"state-{name}\"\n\n[control]\nsocket = \"{name}.sock\"\n"
        )
    }
}

/// A running gateway.
#[derive(Debug)]
pub(super) struct Gateway {
    setup: Setup,
    file: PathBuf,
    socket: PathBuf,
    process: Process,
}

/// Refusals on the uplink by reason.
pub(super) type Refused = BTreeMap<String, u64>;

impl Gateway {
    /// Writes the configuration, creates the state file, starts the daemon in `namespace` and waits
    /// for its answer.
    pub(super) fn start(
        setup: Setup,
        directory: &Path,
        namespace: Option<&std::fs::File>,
    ) -> Result<Self, DemoError> {
        let file = directory.join(format!("{}.toml", setup.name));
        write_private(&file, &setup.text())?;
        // With an existing state file the gateway continues its numbers.
        if setup.secure == Secure::Macsec && !directory.join(format!("state-{}", setup.name)).exists() {
            // Keys beside the state end with this run.
            let own =
                setup.keys.parent().is_none_or(|parent| parent.as_os_str().is_empty() || parent == directory);
            let volatile = own.then_some("--volatile-state");
            let file = file.to_string_lossy();
            let words: Vec<&str> = ["gateway", "init"].into_iter().chain(volatile).chain([&*file]).collect();
            antedate(&words)?;
        }
        let socket = directory.join(format!("{}.sock", setup.name));
        let process = launch(&setup, &file, namespace)?;
        let mut gateway = Self { setup, file, socket, process };
        gateway.wait()?;
        Ok(gateway)
    }

    fn wait(&mut self) -> Result<(), DemoError> {
        let deadline = Instant::now() + START_PATIENCE;
        while Instant::now() < deadline {
            if self.status().is_some() {
                return Ok(());
            }
            if !self.process.is_running() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // Lets its last output arrive.
        std::thread::sleep(Duration::from_millis(50));
        Err(DemoError::process(&format!("gateway {}", self.setup.name), self.process.errors().join("\n")))
    }

    /// Kills it with SIGKILL.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// Restarts it after [`Gateway::kill`] without waiting. Returns the time in nanoseconds of
    /// CLOCK_MONOTONIC.
    pub(super) fn restart(&mut self, namespace: Option<&std::fs::File>) -> Result<u64, DemoError> {
        let at = monotonic_ns();
        self.process = launch(&self.setup, &self.file, namespace)?;
        Ok(at)
    }

    /// Its status, if it answers.
    pub(super) fn status(&self) -> Option<Value> {
        status(&self.socket)
    }

    /// The path of its control socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Refusals on its uplink since its start.
    pub(super) fn refused(&self) -> Refused {
        self.status().map(|status| refused(&status)).unwrap_or_default()
    }

    /// Whether it runs.
    pub(super) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Its standard error.
    pub(super) fn errors(&mut self) -> String {
        self.process.errors().join("\n")
    }

    /// Ends it; true for a clean end.
    pub(super) fn end(&mut self) -> bool {
        self.process.terminate();
        self.process.finish(Duration::from_secs(3))
    }
}

/// The status of the gateway with this control socket, if it answers.
pub(super) fn status(socket: &Path) -> Option<Value> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"{\"request\":\"status\"}\n").ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    let mut reply: Value = serde_json::from_str(&line).ok()?;
    Some(reply.get_mut("status")?.take())
        .filter(|status| status.get("forwarding") == Some(&Value::Bool(true)))
}

/// Configuration of overlay gateway `a` or `b`. The file has the other end's public key.
fn overlay(name: &str, public_of_other: &Path) -> String {
    let (own, other) = if name == "a" { (1, 2) } else { (2, 1) };
    let public = std::fs::read_to_string(public_of_other).unwrap_or_default();
    format!(
        "[overlay]\nprivate_key_file = \"{name}.key\"\naddress = \"10.66.0.{own}\"\nvni = 42\n\
         [[overlay.peer]]\nname = \"other\"\npublic_key = \"{}\"\nendpoint = \"192.0.2.{other}:51820\"\n\
         address = \"10.66.0.{other}\"\nkeepalive_seconds = 5",
        public.trim()
    )
}

fn launch(setup: &Setup, file: &Path, namespace: Option<&std::fs::File>) -> Result<Process, DemoError> {
    let program = executable().map_err(|error| DemoError::Start(format!("this program: {error}")))?;
    let place = Place { namespace, cpus: &setup.cpus };
    Process::start(setup.name, &program, &["gateway", "run", &file.to_string_lossy()], &place)
        .map_err(|error| DemoError::Start(format!("gateway {}: {error}", setup.name)))
}

/// Refusals in a gateway's status: by policy, by obstacle, by MACsec.
fn refused(status: &Value) -> Refused {
    let numbers = |value: Option<&Value>| -> Vec<(String, u64)> {
        let map = value.and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(name, n)| Some((name.clone(), n.as_u64()?))).collect()
    };
    let mut all: Refused = numbers(status.pointer("/in/refused")).into_iter().collect();
    all.extend(numbers(status.pointer("/overlay/refused")));
    let macsec = numbers(status.pointer("/macsec/counters"));
    all.extend(
        macsec
            .into_iter()
            .filter(|(name, _)| name.starts_with("InPkts") && !NOT_REFUSED.contains(&name.as_str())),
    );
    all.retain(|_, n| *n > 0);
    all
}

/// Refusals between two states.
pub(super) fn more(before: &Refused, after: &Refused) -> Refused {
    let grown = after.iter().map(|(reason, n)| (reason.clone(), n - n.min(before.get(reason).unwrap_or(&0))));
    grown.filter(|(_, n)| *n > 0).collect()
}

/// Adds refusals.
pub(super) fn add(to: &mut Refused, more: &Refused) {
    for (reason, n) in more {
        *to.entry(reason.clone()).or_default() += n;
    }
}

/// Runs this program with `arguments` to its end.
pub(super) fn antedate(arguments: &[&str]) -> Result<(), DemoError> {
    let command = arguments.join(" ");
    let program = executable().map_err(|error| DemoError::Start(format!("this program: {error}")))?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| DemoError::Start(format!("antedate {command}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(DemoError::process(&format!("antedate {command}"), String::from_utf8_lossy(&output.stderr).trim()))
}

pub(super) fn write_private(file: &Path, text: &str) -> Result<(), DemoError> {
    std::fs::write(file, text)
        .and_then(|()| std::fs::set_permissions(file, Permissions::from_mode(0o600)))
        .map_err(|error| DemoError::Start(format!("{}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_exclude_acceptances() {
        let status = serde_json::json!({
            "in": { "refused": { "policy:ipv4": 2, "too-long": 0 } },
            "macsec": { "counters": { "InPktsOK": 9, "InPktsLate": 3, "OutPktsEncrypted": 4, "InPktsNoTag": 0 } }
        });
        let refused = refused(&status);
        assert_eq!(refused, Refused::from([("policy:ipv4".into(), 2), ("InPktsLate".into(), 3)]));
        let later = Refused::from([("InPktsLate".into(), 5)]);
        assert_eq!(more(&refused, &later), Refused::from([("InPktsLate".into(), 2)]));
    }

    #[test]
    fn a_configuration_is_what_the_setup_says() {
        let setup = Setup {
            name: "a",
            field: "field".into(),
            uplink: "uplink".into(),
            secure: Secure::Macsec,
            macsec: String::new(),
            keys: "keys.toml".into(),
            cpus: vec![1],
            priority: Some(20),
            audible: false,
        };
        let text = setup.text();
        assert!(text.contains("[macsec]\nkey_file = \"keys.toml\""), "{text}");
        assert!(text.contains("cpus = [1]\npriority = 20\n"), "{text}");
        let plain = Setup { secure: Secure::None, cpus: vec![], priority: None, ..setup }.text();
        assert!(plain.contains("[plain]") && !plain.contains("macsec"), "{plain}");
    }
}

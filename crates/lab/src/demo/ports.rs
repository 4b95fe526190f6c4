//! One gateway on real interfaces, `--ports field=eth1,uplink=eth0`: machines behind the field
//! port, another gateway behind the uplink.
//!
//! The gateway process runs, and a tap on frames that leave the uplink, which should be its only
//! traffic. There is no virtual station and no emulated wire, so the verdict covers the uplink's
//! frames. The keys are shared with the other gateway and given as a file.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use antedate_gateway::config::keys::KeyFile;
use antedate_gateway::config::machine::{Machine as _, ThisMachine};
use antedate_gateway::config::state as state_fault;
use antedate_host::numbers::{NumberFile, NumbersErrorKind};
use serde::Serialize;

use super::gateway::{Gateway, Setup};
use super::placement::Placement;
use super::plant::Directory;
use super::verdict::{Check, RAN_TO_ITS_END, Report, conclusion, machine};
use super::{DemoError, OptionError, Options, Outcome, Secure};
use crate::process::{Place, Process};
use crate::sys::signal;
use crate::tap;

/// The real interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ports {
    /// Interface of the field network.
    pub field: String,
    /// Interface of the uplink.
    pub uplink: String,
    /// Key file, shared with the other gateway. Not needed with `--secure none`.
    pub keys: Option<PathBuf>,
}

impl Ports {
    /// Checks interfaces and keys before anything starts.
    fn check(&self, secure: Secure) -> Result<(), DemoError> {
        if self.field == self.uplink {
            let what = format!(
                "--ports: field and uplink are both {}, and a gateway needs two interfaces",
                self.field
            );
            return Err(DemoError::Usage(what));
        }
        for (side, name) in [("field", &self.field), ("uplink", &self.uplink)] {
            if let Err(error) = ThisMachine.interface(name) {
                return Err(DemoError::Usage(format!(
                    "--ports {side}={name}: {error}; `ip link` shows what there is"
                )));
            }
        }
        if let (Some(file), Secure::Macsec) = (&self.keys, secure) {
            KeyFile::load(file, ThisMachine.user())
                .map_err(|faults| DemoError::Usage(format!("--ports keys: {faults}")))?;
        }
        Ok(())
    }
}

impl FromStr for Ports {
    type Err = OptionError;

    /// Reads `field=eth1,uplink=eth0[,keys=FILE]`.
    fn from_str(text: &str) -> Result<Self, OptionError> {
        let form = || OptionError(format!("`{text}`: write field=eth1,uplink=eth0,keys=FILE"));
        let (mut field, mut uplink, mut keys) = (None, None, None);
        for part in text.split(',') {
            match part.split_once('=').ok_or_else(form)? {
                ("field", name) if !name.is_empty() => field = Some(name.to_owned()),
                ("uplink", name) if !name.is_empty() => uplink = Some(name.to_owned()),
                ("keys", file) if !file.is_empty() => keys = Some(PathBuf::from(file)),
                _ => return Err(form()),
            }
        }
        Ok(Self { field: field.ok_or_else(form)?, uplink: uplink.ok_or_else(form)?, keys })
    }
}

/// Name of the state directory beside real keys.
const STATE_DIRECTORY: &str = "antedate-demo-state";

/// Directory of the gateway's files. With real keys the state stays beside them, because their
/// packet numbers outlive this run; otherwise all is removed.
fn directory(ports: &Ports, keys: &Path) -> Result<(PathBuf, Option<Directory>), DemoError> {
    match keys.parent() {
        Some(parent) if ports.keys.is_some() => {
            let directory = parent.join(STATE_DIRECTORY);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
            made.map_err(|error| DemoError::Start(format!("{}: {error}", directory.display())))?;
            Ok((directory, None))
        }
        _ => Directory::create().map(|own| (own.0.clone(), Some(own))),
    }
}

/// Checks that the state knows the keys' used packet numbers. A gateway could have used them with
/// another state.
fn known(keys: &Path, state: &Path) -> Result<(), DemoError> {
    let keys = KeyFile::load(keys, ThisMachine.user())
        .map_err(|faults| DemoError::Usage(format!("--ports keys: {faults}")))?;
    let used = |state: &NumberFile| {
        keys.associations.iter().all(|sa| state.next(&sa.numbers_id()).is_ok_and(|next| next > 1))
    };
    match NumberFile::open(state) {
        Ok(state) if used(&state) => return Ok(()),
        Err(error) if !matches!(error.kind, NumbersErrorKind::NoDirectory | NumbersErrorKind::Missing) => {
            return Err(DemoError::Usage(format!("--ports keys: {error}; {}", state_fault::remedy(&error))));
        }
        _ => {}
    }
    Err(DemoError::Usage(format!(
        "--ports keys: {} does not know which packet numbers of these keys were used; with keys that no gateway ever used \
         give --first, with any other make new ones (`antedate keygen macsec`)",
        state.display()
    )))
}

pub(super) fn run(options: &Options, ports: &Ports) -> Result<Outcome, DemoError> {
    let keys = match (&ports.keys, options.secure) {
        (_, Secure::Bridge) => {
            return Err(DemoError::Usage(
                "--ports: --secure bridge is a comparison inside the plant alone".into(),
            ));
        }
        (_, Secure::Overlay) => {
            return Err(DemoError::Usage(
                "--ports: an overlay needs addresses and keys of both ends: write a configuration and use `antedate \
                 gateway run`"
                    .into(),
            ));
        }
        (None, Secure::Macsec) => {
            return Err(DemoError::Usage(
                "--ports: both gateways need the same keys: make them with `antedate keygen macsec`, copy them to the \
                 other gateway and add keys=FILE"
                    .into(),
            ));
        }
        (Some(file), _) => std::path::absolute(file)
            .map_err(|error| DemoError::Usage(format!("--ports keys={}: {error}", file.display())))?,
        (None, _) => PathBuf::new(),
    };
    if !options.faults.is_empty() {
        return Err(DemoError::Usage("--faults: a real wire does what it wants; leave --ports out".into()));
    }
    ports.check(options.secure)?;
    let placement = Placement::on(&crate::sys::sched::allowed_cpus());
    if options.secure == Secure::Macsec
        && !options.first
        && let Some(parent) = keys.parent()
    {
        known(&keys, &parent.join(STATE_DIRECTORY).join("state-real"))?;
    }
    let (directory, _own) = directory(ports, &keys)?;
    let setup = Setup {
        name: "real",
        field: ports.field.clone(),
        uplink: ports.uplink.clone(),
        secure: options.secure,
        keys,
        macsec: options.macsec(),
        cpus: placement.plc_side.clone(),
        priority: None,
        audible: true,
    };
    let tap_options = tap::Options {
        interfaces: vec![ports.uplink.clone()],
        outgoing_only: true,
        pcap: options.pcap.clone(),
        ..tap::Options::default()
    };
    let mut tap = Process::role("tap", "lab-tap", &tap_options, &Place::default())
        .map_err(|error| DemoError::Start(format!("tap: {error}")))?;
    if tap.next_line(Duration::from_secs(5)).is_none() {
        return Err(DemoError::process("tap", tap.errors().join("\n")));
    }
    let mut gateway = Gateway::start(setup, &directory, None)?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(options.milliseconds) && !signal::stopping() {
        if !gateway.is_running() {
            return Err(DemoError::process("the gateway", gateway.errors()));
        }
        say(
            options,
            &format!("{:.0} of {:.0} s", began.elapsed().as_secs_f64(), options.milliseconds as f64 / 1e3),
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    say(options, "");
    let interrupted = began.elapsed() < Duration::from_millis(options.milliseconds);
    let status = gateway.status().unwrap_or_default();
    let refused = gateway.refused();
    let clean = gateway.end();
    let lines = tap.end();
    let seen = lines.iter().rev().find_map(|line| match serde_json::from_str(line) {
        Ok(tap::Line::Result(seen)) => Some(*seen),
        _ => None,
    });
    let seen = seen.ok_or_else(|| DemoError::process("tap", tap.errors().join("\n")))?;

    let check =
        |name: &str, passed, found: String| Check { name: name.to_owned(), passed, timing: false, found };
    let asked = options.milliseconds as f64 / 1e3;
    let found = format!("{:.1} of {asked:.1} s", began.elapsed().as_secs_f64().min(asked));
    let mut checks = vec![
        check("the gateway ends cleanly", clean, clean.to_string()),
        check(RAN_TO_ITS_END, !interrupted, found),
    ];
    if options.secure == Secure::Macsec {
        let readable = seen.counts.plaintext_frames;
        let encrypted = seen.counts.encrypted;
        checks.push(check("frames left by the uplink, encrypted", encrypted > 0, encrypted.to_string()));
        checks.push(check("not one readable frame left by the uplink", readable == 0, readable.to_string()));
        checks.push(check(
            "no packet number spent twice",
            seen.nonces.reused == 0 && seen.nonces.unrecorded == 0,
            seen.nonces.reused.to_string(),
        ));
        let dropped = seen.counts.dropped;
        checks.push(check("the tap saw every frame", dropped == 0, format!("{dropped} missed")));
    }
    let passed = checks.iter().all(|check| check.passed);
    let mut text = format!(
        "One gateway between {} and {} for {:.1} s: {} frames left by the uplink\n",
        ports.field,
        ports.uplink,
        began.elapsed().as_secs_f64(),
        seen.counts.frames
    );
    for check in &checks {
        text.push_str(&format!(
            "{} {:54} {}\n",
            if check.passed { "pass" } else { "FAIL" },
            check.name,
            check.found
        ));
    }
    let report = Report {
        passed,
        holds: passed,
        interrupted,
        plaintext_frames_on_wire: seen.counts.plaintext_frames,
        nonce_reuse: seen.nonces.reused,
        refused,
        secure: options.secure,
        seconds: began.elapsed().as_secs_f64(),
        checks,
        wire: "real".into(),
        machine: machine(),
        antedate: env!("CARGO_PKG_VERSION").into(),
        tap: seen,
        gateways: vec![status],
        ..Report::default()
    };
    text.push_str(&format!("\n{}\n", conclusion(&report)));
    Ok(Outcome { passed, text, report })
}

/// Prints a line that the next one replaces on a terminal.
fn say(options: &Options, line: &str) {
    if options.live {
        let mut out = io::stdout().lock();
        let _ = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    use antedate_channel::macsec::CipherSuite;
    use antedate_wire::Sci;

    use super::*;

    #[test]
    fn ports_are_read_in_any_order() {
        let ports: Ports = "uplink=eth0,field=eth1".parse().unwrap();
        assert_eq!((ports.field.as_str(), ports.uplink.as_str(), ports.keys), ("eth1", "eth0", None));
        let with_keys: Ports = "field=a,uplink=b,keys=/k".parse().unwrap();
        assert_eq!(with_keys.keys, Some(PathBuf::from("/k")));
        for text in ["", "field=eth1", "eth1,eth0", "field=,uplink=b", "field=a,uplink=b,x=y"] {
            assert!(text.parse::<Ports>().is_err(), "{text}");
        }
    }

    #[test]
    fn run_without_keys_leaves_no_files() {
        let ports: Ports = "uplink=eth0,field=eth1".parse().unwrap();
        let (place, own) = directory(&ports, Path::new("")).expect("a directory");
        assert!(directory(&ports, Path::new("")).is_err(), "it may be anybody's");
        drop(own);
        assert!(!place.exists());
        let keys = tempfile::tempdir().expect("a directory");
        let ports: Ports = "uplink=eth0,field=eth1,keys=/k".parse().unwrap();
        for _ in 0..2 {
            let (place, own) = directory(&ports, &keys.path().join("keys.toml")).expect("a directory");
            assert!(own.is_none() && place == keys.path().join("antedate-demo-state"));
        }
    }

    #[test]
    fn keys_without_known_numbers_are_refused() {
        let desk = tempfile::tempdir().unwrap();
        let (file, state) = (desk.path().join("keys"), desk.path().join("state-real"));
        let members = [1, 2].map(|n| (format!("g{n}"), Sci([2, 0, 0, 0, 0, n, 0, 1])));
        let mut octet = 0;
        let random = |out: &mut [u8]| {
            octet += 1;
            out.fill(octet);
            Ok::<_, ()>(())
        };
        let keys = KeyFile::generate(CipherSuite::GcmAes128, members.to_vec(), random).unwrap();
        keys.write_new(&file).unwrap();
        let refused = || known(&file, &state).unwrap_err().to_string();
        assert!(refused().contains("--first"), "{}", refused());
        drop(NumberFile::create(&state).unwrap());
        assert!(refused().contains("--first"), "a state of other keys: {}", refused());
        let used: Vec<_> = keys.associations.iter().map(|sa| (sa.numbers_id(), 100)).collect();
        let mut held = NumberFile::open(&state).unwrap();
        held.reserve(&used).unwrap();
        let said = refused();
        assert!(said.contains("another process holds") && !said.contains("--first"), "{said}");
        drop(held);
        known(&file, &state).unwrap();
    }

    #[test]
    fn missing_interfaces_are_refused_first() {
        for (text, expected) in [
            ("field=nowhere0,uplink=nowhere1", "--ports field=nowhere0: no such interface"),
            ("field=lo,uplink=nowhere1", "--ports field=lo: it is no Ethernet interface"),
            ("field=a,uplink=a", "--ports: field and uplink are both a"),
        ] {
            let ports: Ports = text.parse().unwrap();
            let options = Options { secure: Secure::None, ..Options::default() };
            let found = run(&options, &ports).map(|_| ()).unwrap_err().to_string();
            assert!(found.starts_with(expected), "{found}");
        }
    }
}

//! Real gateways on a path of [`crate::net`]: their key files, configurations, processes and
//! counters.

use crate::net;
use crate::place;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use xtask::shell::{Background, Run, antedate, program, until};

/// The names of the cipher suites, with their key lengths in octets.
pub(crate) const SUITES: [(&str, usize); 4] =
    [("gcm-aes-128", 16), ("gcm-aes-256", 32), ("gcm-aes-xpn-128", 16), ("gcm-aes-xpn-256", 32)];

/// A test's static key: the same octets in each run, so that a capture stays readable.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) suite: &'static str,
    /// The secure association's key in hexadecimal digits.
    pub(crate) key: String,
    /// The members' names and addresses; the SCI has port 1, the SSCI is the position in the list.
    pub(crate) members: [(&'static str, String); 2],
    /// The transmit channels of each member, with consecutive ports of the SCI.
    pub(crate) channels: usize,
}

/// The salt of the suites with extended packet numbers.
pub(crate) const SALT: &str = "a1a2a3a4a5a6a7a8a9aaabac";

impl Keys {
    /// A key for `suite` whose first octet is `first`.
    pub(crate) fn new(suite: (&'static str, usize), first: u8, members: [(&'static str, String); 2]) -> Keys {
        let key = (0..suite.1).map(|i| format!("{:02x}", first.wrapping_add(i as u8))).collect();
        Keys { suite: suite.0, key, members, channels: 1 }
    }

    /// True for the suites with extended packet numbers.
    pub(crate) fn is_xpn(&self) -> bool {
        self.suite.contains("xpn")
    }

    /// The SCI of a member in hexadecimal digits.
    pub(crate) fn sci(&self, member: usize) -> String {
        format!("{}0001", self.members[member].1.replace(':', ""))
    }

    /// The key file.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "suite = \"{}\"\n\n[[sa]]\nan = 0\nkey_id = \"{}\"\nkey = \"{}\"\n",
            self.suite,
            "01".repeat(16),
            self.key
        );
        if self.is_xpn() {
            text.push_str(&format!("salt = \"{SALT}\"\n"));
        }
        for (index, (name, mac)) in self.members.iter().enumerate() {
            text.push_str(&format!("\n[[member]]\nname = \"{name}\"\nsci = \"{mac}/1\"\n"));
            if self.is_xpn() {
                text.push_str(&format!("ssci = {}\n", index + 1));
            }
            if self.channels > 1 {
                text.push_str(&format!("channels = {}\n", self.channels));
            }
        }
        text
    }
}

#[derive(Default, Clone)]
pub(crate) struct Options {
    /// The protection; `None` forwards without it.
    pub(crate) keys: Option<Keys>,
    /// In place of static keys: the lines of the pre-shared key's file, for key agreement.
    pub(crate) cak: Option<String>,
    /// In place of both: the sections `[overlay]` and `[[overlay.peer]]`.
    pub(crate) overlay: Option<String>,
    /// More lines for `[field]` and `[uplink]` both.
    pub(crate) io: &'static str,
    /// More lines for `[uplink]`.
    pub(crate) uplink: &'static str,
    /// More lines for `[macsec]`.
    pub(crate) macsec: String,
    /// The traffic that may pass.
    pub(crate) allow: Vec<&'static str>,
    /// In place of `allow`: the section `[policy]`, rules included.
    pub(crate) policy: Option<String>,
    /// Further sections.
    pub(crate) sections: &'static str,
    /// The lines of `[run]`.
    pub(crate) run: String,
    /// The core of the whole process.
    pub(crate) core: Option<usize>,
    /// The program; `None` for that of this tree.
    pub(crate) program: Option<PathBuf>,
}

impl Options {
    fn program(&self) -> PathBuf {
        self.program.clone().unwrap_or_else(antedate)
    }
}

pub(crate) struct Gateway {
    process: Background,
    socket: PathBuf,
    space: String,
    options: Options,
}

impl Gateway {
    /// Starts a gateway in the namespace `space` with the ports `field` and `uplink`, and waits
    /// until it answers.
    pub(crate) fn start(space: &str, options: &Options) -> Result<Gateway, String> {
        let dir = place::run()?.join(space);
        // Packet numbers restart, which is forbidden for real keys: these keys are public and
        // protect nothing.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("state")).map_err(|e| format!("{}: {e}", dir.display()))?;
        let file = dir.join("gateway.toml");
        let Options { io, uplink, .. } = options;
        let mut config = format!(
            "[field]\ninterface = \"field\"\n{io}\n[uplink]\ninterface = \"uplink\"\n{io}\n{uplink}\n"
        );
        let secret = |name: &str, text: &str| {
            let file = dir.join(name);
            fs::write(&file, text).map_err(|e| e.to_string())?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).map_err(|e| e.to_string())
        };
        match (&options.keys, &options.cak) {
            _ if options.overlay.is_some() => config.push_str(options.overlay.as_deref().unwrap_or_default()),
            (Some(keys), _) => {
                secret("keys.toml", &keys.text())?;
                config.push_str(&format!("[macsec]\nkey_file = \"keys.toml\"\n{}\n", options.macsec));
            }
            (None, Some(cak)) => {
                secret("cak", cak)?;
                config.push_str(&format!("[macsec]\ncak_file = \"cak\"\n{}\n", options.macsec));
            }
            (None, None) => config.push_str("[plain]\n"),
        }
        let allow: Vec<String> = options.allow.iter().map(|a| format!("\"{a}\"")).collect();
        let policy = options.policy.clone().unwrap_or(format!("[policy]\nallow = [{}]\n", allow.join(", ")));
        config.push_str(&format!("{}{policy}[run]\n{}\n", options.sections, options.run));
        config.push_str("[state]\ndirectory = \"state\"\n[control]\nsocket = \"s\"\n");
        fs::write(&file, config).map_err(|e| e.to_string())?;
        if options.keys.is_some() {
            program(options.program()).args(["gateway", "init"]).arg(&file).read(10)?;
        }
        Self::launch(space, options)
    }

    /// Starts the prepared gateway and waits until it answers.
    fn launch(space: &str, options: &Options) -> Result<Gateway, String> {
        let dir = place::run()?.join(space);
        let (file, socket) = (dir.join("gateway.toml"), dir.join("s"));
        let mut command = match options.core {
            Some(core) => {
                let mut command = net::inside(space, "taskset");
                command.args(["-c", &core.to_string()]).arg(options.program());
                command
            }
            None => net::inside(space, options.program()),
        };
        let mut process = command.args(["gateway", "run"]).arg(&file).background(&dir.join("log"))?;
        let ready = until("the gateway's answer", 10.0, || match process.alive() {
            Err(e) => Some(Err(e)),
            Ok(()) => socket.exists().then_some(Ok(())),
        });
        ready.and_then(|r| r)?;
        let gateway = Gateway { process, socket, space: space.to_owned(), options: options.clone() };
        until("the gateway's status", 10.0, || gateway.status().ok())?;
        Ok(gateway)
    }

    /// Kills it, and starts it again after this time with its state.
    pub(crate) fn restart(self, outage: Duration) -> Result<Gateway, String> {
        let Gateway { process, space, options, .. } = self;
        drop(process);
        std::thread::sleep(outage);
        Self::launch(&space, &options)
    }

    /// Its control socket.
    pub(crate) fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    pub(crate) fn pid(&self) -> u32 {
        // `ip netns exec` and `taskset` replace themselves, so the child is the daemon.
        self.process.pid()
    }

    /// The output of `antedate gateway status --json`.
    pub(crate) fn status(&self) -> Result<Value, String> {
        let mut command = Command::new(antedate());
        let text = command.args(["gateway", "status", "--json", "--socket"]).arg(&self.socket).read(10)?;
        serde_json::from_str(&text).map_err(|e| format!("gateway status: {e}\n{text}"))
    }

    /// A MACsec counter by the standard's name.
    pub(crate) fn counter(&self, name: &str) -> Result<u64, String> {
        let status = self.status()?;
        let count = status["macsec"]["counters"][name].as_u64();
        count.ok_or_else(|| format!("the gateway's status has no {name}:\n{status:#}"))
    }

    /// Writes its file of CAKs, and has it read.
    pub(crate) fn reload(&self, caks: &str) -> Result<(), String> {
        fs::write(self.socket.with_file_name("cak"), caks).map_err(|e| e.to_string())?;
        let mut command = Command::new(antedate());
        command.args(["gateway", "reload", "--socket"]).arg(&self.socket).read(10).map(drop)
    }

    /// Stops it as the administrator does; an error unless it ends cleanly.
    pub(crate) fn stop(self) -> Result<(), String> {
        let (status, log) = self.process.stop(10)?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the gateway ended with {status}\n{}", xtask::shell::tail(&log, 15)))
        }
    }
}

/// The counters of IEEE 802.1AE that must be zero if all frames were genuine.
pub(crate) const INVALID: [&str; 6] =
    ["InPktsNotValid", "InPktsBadTag", "InPktsUnknownSCI", "InPktsNotUsingSA", "InPktsLate", "InPktsNoTag"];

/// The two gateways of [`net::cell`] with one key.
pub(crate) struct Pair {
    /// The controller's side.
    pub(crate) a: Gateway,
    /// The device's side.
    pub(crate) b: Gateway,
}

impl Pair {
    /// Starts both, protected, for the traffic in `allow`.
    pub(crate) fn start(allow: &[&'static str]) -> Result<Pair, String> {
        Self::with(Options { allow: allow.to_vec(), ..Options::default() })
    }

    /// Starts both, protected, with this section `[policy]`.
    pub(crate) fn with_policy(policy: &str) -> Result<Pair, String> {
        Self::with(Options { policy: Some(policy.to_owned()), ..Options::default() })
    }

    fn with(options: Options) -> Result<Pair, String> {
        let options = Options { keys: Some(cell_keys(SUITES[0])), ..options };
        Ok(Pair { a: Gateway::start("gwa", &options)?, b: Gateway::start("gwb", &options)? })
    }

    /// Checks that both gateways validated frames and counted none as invalid, then stops them.
    pub(crate) fn finish(self) -> Result<(), String> {
        if self.a.counter("InPktsOK")? == 0 {
            return Err("gateway a validated no frame, so nothing went through it".into());
        }
        self.finish_one_way()
    }

    /// As [`Pair::finish`], for traffic from a to b alone.
    pub(crate) fn finish_one_way(self) -> Result<(), String> {
        if self.b.counter("InPktsOK")? == 0 {
            return Err("gateway b validated no frame, so nothing went through it".into());
        }
        for gateway in [&self.a, &self.b] {
            for name in INVALID {
                let count = gateway.counter(name)?;
                if count != 0 {
                    return Err(format!("{name} is {count} at a gateway"));
                }
            }
        }
        self.a.stop()?;
        self.b.stop()
    }
}

/// Keys for the two gateways of [`net::cell`].
pub(crate) fn cell_keys(suite: (&'static str, usize)) -> Keys {
    Keys::new(suite, 0x10, [("a", net::mac(0xa2)), ("b", net::mac(0xb2))])
}

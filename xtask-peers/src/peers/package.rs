//! `dpkg` installs our package in a fresh root, upgrades it while its gateway carries traffic,
//! removes and purges it.
//!
//! The root is this machine's, below an overlay in memory that ends with the sandbox.

use crate::daemon::{Gateway, Options};
use crate::net;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::package;
use xtask::report::{StepResult, Stop};
use xtask::sandbox;
use xtask::shell::{Background, Run, cache, has_program, program, until};

const OLD: &str = "0.1.0~1";
const NEW: &str = "0.1.0~2";
const PATH: &str = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
/// The rights that the unit gives.
const RIGHTS: [&str; 7] = [
    "setpriv",
    "--reuid=antedate",
    "--regid=antedate",
    "--clear-groups",
    "--inh-caps=-all,+net_raw",
    "--ambient-caps=-all,+net_raw",
    "--bounding-set=-all,+net_raw",
];
const CAK: &str = "network={\n\tmka_cak=000102030405060708090a0b0c0d0e0f\n\tmka_ckn=2e\n}\n";
/// What the administrator writes.
const CONFIG: &str = "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n[macsec]\ncak_file = \"cak\"\n\
                      [policy]\nallow = [\"arp\", \"ipv4\"]\n";
/// A line of the old version's conffiles.
const OLD_LINE: &str = "# of the version before\n";

fn folder() -> Result<PathBuf, String> {
    Ok(cache("peers/run")?.join("package"))
}

/// Packs the tests' build, and an older version with other conffiles.
pub(crate) fn prepare() -> Result<(), Stop> {
    if let Some(missing) = ["dpkg", "systemd-sysusers", "setpriv"].iter().find(|name| !has_program(name)) {
        return Err(Stop::Skipped(format!("no program {missing}")));
    }
    let dir = folder()?;
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let [new, gateway] = package::of_tests(NEW, &dir)?;
    let old = dir.join("old");
    program("dpkg-deb").arg("--raw-extract").args([&new, &old]).read(30)?;
    let change = |name: &str, change: &dyn Fn(String) -> String| {
        let file = old.join(name);
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        fs::write(&file, change(text)).map_err(|e| format!("{}: {e}", file.display()))
    };
    change("DEBIAN/control", &|text| text.replace(NEW, OLD))?;
    for conffile in ["etc/antedate/gateway.toml", "etc/default/antedate-mqtt-sub"] {
        change(conffile, &|text| format!("{OLD_LINE}{text}"))?;
    }
    let mut pack = program("dpkg-deb");
    pack.args(["--root-owner-group", "-Znone", "--build"]).arg(&old).arg(dir.join("old.deb")).read(30)?;
    for (package, name) in [(new, "new.deb"), (gateway, "gateway.deb")] {
        fs::rename(&package, dir.join(name)).map_err(|e| format!("{}: {e}", package.display()))?;
    }
    Ok(())
}

/// A root of its own.
struct Root(PathBuf);

impl Root {
    fn new() -> Result<Self, String> {
        let dir = folder()?.join("memory");
        fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
        mount(&["-t", "tmpfs", "tmpfs"], &dir)?;
        let [upper, work, place] = ["upper", "work", "root"].map(|name| dir.join(name));
        for folder in [&upper, &work, &place] {
            fs::create_dir_all(folder).map_err(|e| e.to_string())?;
        }
        let layers = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
        mount(&["-t", "overlay", "overlay", "-o", &layers], &place)?;
        mount(&["-t", "proc", "proc"], &place.join("proc"))?;
        mount(&["--rbind", "/dev"], &place.join("dev"))?;
        for name in ["run", "tmp"] {
            mount(&["-t", "tmpfs", "tmpfs"], &place.join(name))?;
        }
        let packages = ["old.deb", "new.deb", "gateway.deb"];
        let copied = packages.iter().try_for_each(|name| {
            fs::copy(folder().unwrap_or_default().join(name), place.join("tmp").join(name)).map(drop)
        });
        copied.map_err(|e| e.to_string())?;
        Ok(Self(place))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A command inside.
    fn inside(&self, words: &[&str]) -> Command {
        let mut command = program("chroot");
        command.arg(&self.0).args(["env", "-i", PATH, "LC_ALL=C"]).args(words);
        command
    }

    fn dpkg(&self, words: &[&str]) -> Result<String, String> {
        let quick = ["dpkg", "--force-unsafe-io", "--no-triggers", "--force-confdef", "--force-confold"];
        self.inside(&[&quick[..], words].concat()).read(60)
    }

    /// Names of files, of users and of groups of the package.
    fn traces(&self) -> Result<Vec<String>, String> {
        let places = ["find", "/etc", "/usr", "/var", "-xdev", "-name", "*antedate*"];
        let mut found: Vec<String> = self.inside(&places).read(30)?.lines().map(Into::into).collect();
        for list in ["etc/passwd", "etc/group"] {
            let text = fs::read_to_string(self.path(list)).map_err(|e| format!("{list}: {e}"))?;
            found.extend(
                text.lines()
                    .filter(|line| line.starts_with("antedate:") || line.starts_with("antedate-agent:"))
                    .map(Into::into),
            );
        }
        found.sort();
        Ok(found)
    }

    fn text(&self, name: &str) -> Result<String, String> {
        fs::read_to_string(self.path(name)).map_err(|e| format!("{name}: {e}"))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        fs::write(self.path(name), text).map_err(|e| format!("{name}: {e}"))
    }

    /// Starts the installed gateway as its unit does, and waits for its message.
    fn start(&self) -> Result<Background, String> {
        let notify = self.path("run/notify");
        let _ = fs::remove_file(&notify);
        let manager = UnixDatagram::bind(&notify).map_err(|e| format!("{}: {e}", notify.display()))?;
        fs::set_permissions(&notify, fs::Permissions::from_mode(0o666)).map_err(|e| e.to_string())?;
        manager.set_read_timeout(Some(Duration::from_secs(20))).map_err(|e| e.to_string())?;
        let line = self.text("usr/lib/systemd/system/antedate-gateway.service")?;
        let line = line.lines().find_map(|line| line.strip_prefix("ExecStart=")).ok_or("no ExecStart")?;
        let place = self.0.display();
        let script = format!(
            "mount -t sysfs sysfs {place}/sys && exec chroot {place} env -i {PATH} NOTIFY_SOCKET=/run/notify {} {line}",
            RIGHTS.join(" ")
        );
        let mut gateway =
            net::inside("gwa", "sh").args(["-c", &script]).background(&folder()?.join("log"))?;
        let mut message = [0; 100];
        let got = manager.recv(&mut message).map_err(|e| {
            let log = fs::read_to_string(folder().unwrap_or_default().join("log")).unwrap_or_default();
            format!("no message of the gateway: {e}\n{log}")
        })?;
        if !message[..got].starts_with(b"READY=1") {
            return Err(format!("not ready: {}", String::from_utf8_lossy(&message[..got])));
        }
        gateway.alive()?;
        Ok(gateway)
    }
}

fn mount(words: &[&str], place: &Path) -> Result<(), String> {
    program("mount").args(words).arg(place).read(10).map(drop)
}

fn require(holds: bool, what: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Checks an installation from nothing to nothing.
pub(crate) fn run() -> StepResult {
    if sandbox::is_mapped_user() {
        return Err(Stop::Skipped("packages make users, which needs root".into()));
    }
    let root = Root::new()?;
    let before = root.traces()?;
    installed(&root)?;
    let lost = upgraded(&root)?;
    replaced(&root)?;
    root.dpkg(&["--remove", "antedate"])?;
    require(!root.path("usr/bin/antedate").exists(), "the program is there after a removal")?;
    require(root.text("etc/antedate/gateway.toml")? == CONFIG, "a removal changed a conffile")?;
    root.dpkg(&["--purge", "antedate"])?;
    let after = root.traces()?;
    require(after == before, format!("left after a purge: {after:?}, {before:?} before"))?;
    Ok(format!(
        "{lost} frames lost by an upgrade, nothing by the package of a gateway, nothing left by a purge"
    ))
}

/// Puts the package of a gateway alone in its place, and takes it back. Neither loses a key.
fn replaced(root: &Root) -> Result<(), String> {
    let (full, small) = ("antedate", "antedate-gateway");
    for (package, gone, file) in [(small, full, "gateway.deb"), (full, small, "new.deb")] {
        root.dpkg(&["--install", &format!("/tmp/{file}")])?;
        // A purge of the other package keeps the files of this one.
        root.dpkg(&["--purge", gone])?;
        let files = root.inside(&["dpkg", "--listfiles", package]).read(10)?;
        let has = |unit: &str| files.lines().any(|file| file.ends_with(unit));
        require(has("/antedate-gateway.service"), format!("{package}: no unit of a gateway"))?;
        require(has("/antedate-mqtt-sub.service") == (package == full), format!("{package}: other units"))?;
        require(
            root.text("etc/antedate/gateway.toml")? == CONFIG,
            format!("{package}: another configuration"),
        )?;
        require(root.text("etc/antedate/cak")? == CAK, format!("{package}: another key"))?;
        let missing = files.lines().find(|file| !root.path(file.trim_start_matches('/')).exists());
        require(missing.is_none(), format!("{package}: not there: {missing:?}"))?;
    }
    Ok(())
}

/// Installs the old version.
fn installed(root: &Root) -> Result<(), String> {
    root.dpkg(&["--install", "/tmp/old.deb"])?;
    let wrong = root.dpkg(&["--verify", "antedate"])?;
    require(wrong.is_empty(), format!("files differ from the package: {wrong}"))?;
    let state = root.inside(&["stat", "--format=%U %a", "/var/lib/antedate"]).read(10)?;
    require(state.trim() == "antedate 700", format!("/var/lib/antedate: {state}"))?;
    for file in
        ["usr/share/man/man1/antedate-gateway-run.1", "usr/share/bash-completion/completions/antedate.bash"]
    {
        require(root.path(file).exists(), format!("no {file}"))?;
    }
    let mut verify = root.inside(&["systemd-analyze", "verify", "--man=no", "--recursive-errors=no"]);
    let units = root.inside(&["dpkg", "--listfiles", "antedate"]).read(10)?;
    verify.args(units.lines().filter(|file| file.ends_with(".service"))).read(30).map(drop)
}

/// Upgrades it while its gateway carries frames. Returns the number of lost ones.
fn upgraded(root: &Root) -> Result<u64, String> {
    root.write("etc/antedate/gateway.toml", CONFIG)?;
    root.write("etc/antedate/cak", CAK)?;
    root.inside(&["chmod", "600", "/etc/antedate/cak"]).read(10)?;
    root.inside(&["install", "-d", "-o", "antedate", "/run/antedate", "/run/lock"]).read(10)?;
    root.inside(&["chown", "antedate:", "/etc/antedate/cak"]).read(10)?;
    net::cell()?;
    net::address("plc", "eth0", "10.9.0.1/24", None)?;
    net::address("dev", "eth0", "10.9.0.2/24", None)?;
    let other = Options { cak: Some(CAK.into()), allow: vec!["arp", "ipv4"], ..Options::default() };
    let other = Gateway::start("gwb", &other)?;
    let gateway = root.start()?;
    let ping = |count: &str, interval: &str| {
        let mut ping = net::inside("plc", "ping");
        ping.args(["-q", "-W", "2", "-c", count, "-i", interval, "10.9.0.2"]);
        ping
    };
    until("a first ping", 20.0, || ping("1", "1").read(5).ok())?;
    let log = folder()?.join("ping");
    let pings = ping("500", "0.006").background(&log)?;
    root.dpkg(&["--install", "/tmp/new.deb"])?;
    let said = until("the last ping", 20.0, || {
        let said = fs::read_to_string(&log).unwrap_or_default();
        said.contains("packets transmitted").then_some(said)
    })?;
    drop(pings);
    let (sent, received) = counts(&said).ok_or_else(|| format!("ping: {said}"))?;
    require(sent == 500 && sent == received, format!("lost by an upgrade: {said}"))?;
    let exe = fs::read_link(format!("/proc/{}/exe", gateway.pid())).map_err(|e| e.to_string())?;
    require(exe.to_string_lossy().ends_with("(deleted)"), "the running gateway has the new program")?;
    require(root.text("etc/antedate/gateway.toml")? == CONFIG, "an upgrade changed the user's conffile")?;
    let unchanged = root.text("etc/default/antedate-mqtt-sub")?;
    require(!unchanged.contains(OLD_LINE), "an upgrade left an unchanged conffile old")?;
    let version = root.inside(&["dpkg-query", "--show", "--showformat=${Version}", "antedate"]).read(10)?;
    require(version == NEW, format!("version {version}"))?;
    end(gateway)?;
    let gateway = root.start()?;
    until("a ping through the new version", 20.0, || ping("1", "1").read(5).ok())?;
    end(gateway)?;
    other.stop()?;
    Ok(sent - received)
}

fn end(gateway: Background) -> Result<(), String> {
    let (status, log) = gateway.stop(10)?;
    require(status.success(), format!("the gateway ended with {status}\n{log}"))
}

/// The numbers of sent and received packets.
fn counts(said: &str) -> Option<(u64, u64)> {
    let line = said.lines().find(|line| line.contains("packets transmitted"))?;
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

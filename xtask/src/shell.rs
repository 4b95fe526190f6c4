//! Runs programs: echoed, bounded in time, stopped as a whole group.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Cargo's target directory, honouring `CARGO_TARGET_DIR`.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The release build of the product's binary.
pub(crate) fn antedate() -> PathBuf {
    target().join("release/antedate")
}

/// A place under the target directory for downloads, caches and results.
pub(crate) fn cache(name: &str) -> Result<PathBuf, String> {
    let dir = target().join(name);
    std::fs::create_dir_all(&dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    Ok(dir)
}

/// Builds the product in release; every command that starts it calls this first.
pub(crate) fn build_release() -> Result<(), String> {
    cargo().args(["build", "--release", "--package", "antedate"]).bounded(900)
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// A command by name, in the workspace's root.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// The command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// True if a program of that name is in `PATH` or in the administrator's directories.
pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(["/usr/sbin", "/sbin"]).any(|dir| Path::new(dir).join(name).is_file())
}

/// What xtask asks of a [`Command`].
pub(crate) trait Run {
    /// Runs with output passed through; an error if it fails or is not done after `seconds`.
    fn bounded(&mut self, seconds: u64) -> Result<(), String>;
    /// As [`Run::bounded`], and prints the command first.
    fn echoed(&mut self, seconds: u64) -> Result<(), String>;
    /// As [`Run::echoed`] for test runners; the error carries what they said of the tests that failed.
    fn tests(&mut self, seconds: u64) -> Result<(), String>;
    /// Runs silently and gives standard output; the error carries standard error.
    fn read(&mut self, seconds: u64) -> Result<String, String>;
    /// Starts in the background in a process group of its own, output to a file.
    fn background(&mut self, log: &Path) -> Result<Background, String>;
    /// As [`Run::background`], with its standard input.
    fn piped(&mut self, log: &Path) -> Result<(Background, ChildStdin), String>;
}

impl Run for Command {
    fn bounded(&mut self, seconds: u64) -> Result<(), String> {
        let said = line(self);
        let child = self.process_group(0).stdin(Stdio::null()).spawn().map_err(|e| format!("{said}: {e}"))?;
        let mut group = Group::of(child);
        match group.wait(seconds)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{said}: {status}")),
            None => Err(format!("{said}: not done after {seconds} s")),
        }
    }

    fn echoed(&mut self, seconds: u64) -> Result<(), String> {
        println!("$ {}", line(self));
        self.bounded(seconds)
    }

    fn tests(&mut self, seconds: u64) -> Result<(), String> {
        let said = line(self);
        println!("$ {said}");
        let child = self.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut group = Group::of(child.map_err(|e| format!("{said}: {e}"))?);
        let (send, failures) = channel();
        if let Some(out) = group.0.stdout.take() {
            std::thread::spawn(move || send.send(pass_on(out)));
        }
        let status = group.wait(seconds)?;
        group.kill();
        // What a test left behind may still hold the pipe.
        let failures = failures.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{said}: {status}\n{failures}")),
            None => Err(format!("{said}: not done after {seconds} s\n{failures}")),
        }
    }

    fn read(&mut self, seconds: u64) -> Result<String, String> {
        let said = line(self);
        let child = self
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{said}: {e}"))?;
        let mut group = Group::of(child);
        // Both pipes are drained beside the wait, so that a talkative program cannot block.
        let out = group.0.stdout.take().map(drain);
        let err = group.0.stderr.take().map(drain);
        let status = group.wait(seconds)?;
        if status.is_none() {
            group.kill();
        }
        // What it left behind in its group may still hold the pipes, and ends then.
        let text = |pipe: Option<Receiver<String>>| {
            let left = |pipe: &Receiver<String>| {
                group.signal("-KILL");
                pipe.recv_timeout(Duration::from_secs(5))
            };
            let text = pipe.map(|pipe| pipe.recv_timeout(Duration::from_secs(1)).or_else(|_| left(&pipe)));
            text.and_then(Result::ok).unwrap_or_default()
        };
        let (out, err) = (text(out), text(err));
        match status {
            Some(status) if status.success() => Ok(out),
            Some(status) => Err(format!("{said}: {status}\n{}{}", tail(&out, 15), tail(&err, 15))),
            None => Err(format!("{said}: not done after {seconds} s\n{}{}", tail(&out, 15), tail(&err, 15))),
        }
    }

    fn background(&mut self, log: &Path) -> Result<Background, String> {
        start(self, log, Stdio::null())
    }

    fn piped(&mut self, log: &Path) -> Result<(Background, ChildStdin), String> {
        let mut background = start(self, log, Stdio::piped())?;
        let stdin =
            background.group.0.stdin.take().ok_or_else(|| format!("{}: no input", background.said))?;
        Ok((background, stdin))
    }
}

fn start(command: &mut Command, log: &Path, stdin: Stdio) -> Result<Background, String> {
    let said = line(command);
    let file = File::create(log).map_err(|e| format!("{}: {e}", log.display()))?;
    let both = file.try_clone().map_err(|e| e.to_string())?;
    let child = command.process_group(0).stdin(stdin).stdout(file).stderr(both).spawn();
    let child = child.map_err(|e| format!("{said}: {e}"))?;
    Ok(Background { group: Group::of(child), said, log: log.to_path_buf() })
}

fn drain(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (send, text) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        send.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    text
}

/// Prints what a test runner prints, and gives its lines from "failures:" to "test result:".
fn pass_on(out: impl Read) -> String {
    let mut failures = String::new();
    let mut inside = false;
    for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        inside |= line == "failures:";
        if inside {
            failures += &format!("  | {line}\n");
        }
        inside &= !line.starts_with("test result:");
    }
    failures
}

/// The last `n` lines.
pub(crate) fn tail(text: &str, n: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(n)..].iter().map(|l| format!("  | {l}\n")).collect()
}

/// Waits until `ready` gives a value; the error says what was waited for.
pub(crate) fn until<T>(what: &str, seconds: f64, mut ready: impl FnMut() -> Option<T>) -> Result<T, String> {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        if let Some(value) = ready() {
            return Ok(value);
        }
        if Instant::now() > end {
            return Err(format!("{what}: not after {seconds} s"));
        }
        sleep(Duration::from_millis(20));
    }
}

/// A child that leads a process group; killed with all of it when dropped.
struct Group(Child);

/// The groups that run, by their leaders.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on Ctrl-C and SIGTERM end all groups that run, which a terminal's Ctrl-C does not reach, and then this process. A child
/// without a group of its own gets Ctrl-C itself, and is waited for.
pub(crate) fn end_with_signals() -> Result<(), String> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|e| format!("signals cannot be caught: {e}"))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let groups = running();
            if signal == SIGINT && groups.is_empty() {
                continue;
            }
            groups.iter().for_each(|leader| send("-KILL", *leader));
            eprintln!("xtask: interrupted");
            std::process::exit(1);
        }
    });
    Ok(())
}

fn send(signal: &str, leader: u32) {
    let _ = Command::new("kill").args([signal, "--", &format!("-{leader}")]).stderr(Stdio::null()).status();
}

impl Group {
    fn of(child: Child) -> Self {
        running().push(child.id());
        Self(child)
    }

    /// Sleeps until it ends. To look now and then would take the CPU from those that are measured.
    fn wait(&mut self, seconds: u64) -> Result<Option<ExitStatus>, String> {
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            if let Some(status) = self.0.try_wait().map_err(|e| e.to_string())? {
                running().retain(|leader| *leader != self.0.id());
                return Ok(Some(status));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // Now it is known to be there: one whose end was seen before has no process any more.
            let ended = pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty())
                .and_then(|pid| poll(&mut [PollFd::new(&pid, PollFlags::IN)], left.try_into().ok().as_ref()));
            match ended {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(format!("process {}: {e}", self.0.id())),
            }
        }
    }

    fn signal(&self, signal: &str) {
        send(signal, self.0.id());
    }

    fn kill(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.signal("-KILL");
            let _ = self.0.wait();
        }
        running().retain(|leader| *leader != self.0.id());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program in the background; stopped when dropped.
pub(crate) struct Background {
    group: Group,
    said: String,
    log: PathBuf,
}

impl Background {
    /// The process's id.
    pub(crate) fn pid(&self) -> u32 {
        self.group.0.id()
    }

    /// What it printed so far.
    pub(crate) fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// An error with its last lines if it has ended.
    pub(crate) fn alive(&mut self) -> Result<(), String> {
        match self.group.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} ended: {status}\n{}", self.said, tail(&self.output(), 15))),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Waits for its own end; an error unless that is a success.
    pub(crate) fn finish(mut self, seconds: u64) -> Result<String, String> {
        match self.group.wait(seconds)? {
            Some(status) if status.success() => Ok(self.output()),
            Some(status) => Err(format!("{}: {status}\n{}", self.said, tail(&self.output(), 15))),
            None => Err(format!("{}: not done after {seconds} s\n{}", self.said, tail(&self.output(), 15))),
        }
    }

    /// Asks it to end (SIGTERM) and waits; gives its exit status and output.
    pub(crate) fn stop(mut self, seconds: u64) -> Result<(ExitStatus, String), String> {
        self.group.signal("-TERM");
        match self.group.wait(seconds)? {
            Some(status) => Ok((status, self.output())),
            None => Err(format!("{}: still there {seconds} s after SIGTERM", self.said)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_program_left_behind_does_not_hide_its_words() {
        let file = std::env::temp_dir().join(format!("antedate-xtask-left-{}", std::process::id()));
        let script = "sleep 60 & echo $! > \"$0\"; echo the reason >&2; exit 1";
        let began = Instant::now();
        let said = Command::new("sh").args(["-c", script]).arg(&file).read(50);
        assert!(said.as_ref().is_err_and(|why| why.contains("the reason")), "{said:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let left = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(&file);
        let gone = || (!Path::new(&format!("/proc/{}/fd/1", left.trim())).exists()).then_some(());
        until("the end of what was left", 10.0, gone).expect("ended");
    }

    #[test]
    fn an_end_that_was_seen_before_is_still_told() {
        let child = Command::new("sh").args(["-c", "exit 3"]).process_group(0).spawn();
        let mut group = Group::of(child.expect("a shell"));
        let gone = || group.0.try_wait().ok().flatten();
        until("its end", 10.0, gone).expect("ended");
        assert_eq!(group.wait(5).expect("its status").and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn who_does_not_end_is_waited_for_as_long_as_was_said() {
        let child = Command::new("sleep").arg("60").process_group(0).spawn();
        let mut group = Group::of(child.expect("a sleep"));
        let began = Instant::now();
        assert!(group.wait(1).expect("no status").is_none());
        assert!((1..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    const MARK: &str = "ANTEDATE_XTASK_INTERRUPTED";

    #[test]
    fn what_runs_in_a_group_of_its_own_ends_with_a_signal() {
        if let Some(file) = std::env::var_os(MARK) {
            // The process that is interrupted.
            end_with_signals().expect("caught");
            let script = "echo $$ > \"$0\"; sleep 60";
            let _ = Command::new("sh").args(["-c", script]).arg(file).bounded(90);
            return;
        }
        let file = std::env::temp_dir().join(format!("antedate-xtask-{}", std::process::id()));
        let me = std::env::current_exe().expect("this program");
        let mut command = Command::new(me);
        command.args(["shell::tests::what_runs_in_a_group_of_its_own_ends_with_a_signal", "--exact"]);
        let mut child =
            command.env(MARK, &file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it");
        let inner = until("the inner process", 20.0, || {
            std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok()
        });
        let inner = inner.expect("runs");
        let sent = Command::new("kill").arg(child.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()));
        assert_eq!(child.wait().expect("its end").code(), Some(1));
        // Nobody may have looked after it yet.
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{inner}/stat")).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        };
        let gone = until("its end", 10.0, gone);
        let _ = std::fs::remove_file(&file);
        gone.expect("ended");
    }
}

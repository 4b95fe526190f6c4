//! Programs in their own process groups: run to their end, or in the background.

use super::group::Group;
use super::{line, tail};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Ways to run a [`Command`].
pub trait Run {
    /// Runs with output passed through; an error if it fails or exceeds `seconds`.
    fn bounded(&mut self, seconds: u64) -> Result<(), String>;
    /// As [`Run::bounded`], and prints the command first.
    fn echoed(&mut self, seconds: u64) -> Result<(), String>;
    /// As [`Run::echoed`] for programs whose exit status says more than failure, and returns it.
    fn status_of(&mut self, seconds: u64) -> Result<i32, String>;
    /// As [`Run::echoed`] for programs with a verdict: true for exit status 0, false for 1.
    fn verdict(&mut self, seconds: u64) -> Result<bool, String>;
    /// As [`Run::echoed`] for test runners; the error carries their lines about failed tests.
    fn tests(&mut self, seconds: u64) -> Result<(), String>;
    /// Runs silently and returns standard output; the error contains standard error.
    fn read(&mut self, seconds: u64) -> Result<String, String>;
    /// Starts in the background in its own process group, with output to a file.
    fn background(&mut self, log: &Path) -> Result<Background, String>;
    /// As [`Run::background`], also returns its standard input.
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

    fn status_of(&mut self, seconds: u64) -> Result<i32, String> {
        let said = line(self);
        println!("$ {said}");
        let child = self.process_group(0).stdin(Stdio::null()).spawn().map_err(|e| format!("{said}: {e}"))?;
        match Group::of(child).wait(seconds)? {
            Some(status) => status.code().ok_or_else(|| format!("{said}: {status}")),
            None => Err(format!("{said}: not done after {seconds} s")),
        }
    }

    fn verdict(&mut self, seconds: u64) -> Result<bool, String> {
        match self.status_of(seconds)? {
            code @ (0 | 1) => Ok(code == 0),
            code => Err(format!("{}: exit status {code}", line(self))),
        }
    }

    fn tests(&mut self, seconds: u64) -> Result<(), String> {
        let said = line(self);
        println!("$ {said}");
        self.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = Group::of(self.spawn().map_err(|e| format!("{said}: {e}"))?);
        let (send, failures) = channel();
        if let (Some(out), Some(errors)) = (group.0.stdout.take(), group.0.stderr.take()) {
            let other = send.clone();
            std::thread::spawn(move || pass_on(out, &send));
            std::thread::spawn(move || pass_errors_on(errors, &other));
        }
        let status = group.wait(seconds)?;
        group.kill();
        // A process that a test left running may hold a pipe: its lines so far are enough.
        let failures: String =
            std::iter::from_fn(|| failures.recv_timeout(Duration::from_secs(5)).ok()).collect();
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
        // Both pipes are drained during the wait, so that a full pipe cannot block the program.
        let out = group.0.stdout.take().map(drain);
        let err = group.0.stderr.take().map(drain);
        let status = group.wait(seconds)?;
        if status.is_none() {
            group.kill();
        }
        // A process that remains in its group may hold the pipes; it is killed.
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

/// Prints a test runner's standard output, and sends its lines from "failures:" to "test result:".
fn pass_on(out: impl Read, failures: &Sender<String>) {
    let mut inside = false;
    for line in lines(out) {
        println!("{line}");
        inside |= line == "failures:";
        if inside {
            let _ = failures.send(format!("  | {line}\n"));
        }
        inside &= !line.starts_with("test result:");
    }
}

/// Prints a test runner's standard error, and sends its errors, and panics with their first line.
fn pass_errors_on(errors: impl Read, failures: &Sender<String>) {
    let mut is_message = false;
    for line in lines(errors) {
        eprintln!("{line}");
        let is_panic = line.contains("panicked at");
        let is_error = ["error", "Caused by", "  process didn't"].iter().any(|start| line.starts_with(start));
        if is_panic || is_message || is_error {
            let _ = failures.send(format!("  | {line}\n"));
        }
        is_message = is_panic;
    }
}

fn lines(out: impl Read) -> impl Iterator<Item = String> {
    let lines = BufReader::new(out).split(b'\n').map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// A program in the background; stopped when dropped.
pub struct Background {
    group: Group,
    said: String,
    log: PathBuf,
}

impl Background {
    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.group.0.id()
    }

    /// Its output so far.
    pub fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// An error with the last lines of output if it has ended.
    pub fn alive(&mut self) -> Result<(), String> {
        match self.group.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} ended: {status}\n{}", self.said, tail(&self.output(), 15))),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Waits for its own end; an error unless it succeeds.
    pub fn finish(mut self, seconds: u64) -> Result<String, String> {
        match self.group.wait(seconds)? {
            Some(status) if status.success() => Ok(self.output()),
            Some(status) => Err(format!("{}: {status}\n{}", self.said, tail(&self.output(), 15))),
            None => Err(format!("{}: not done after {seconds} s\n{}", self.said, tail(&self.output(), 15))),
        }
    }

    /// Asks it to end (SIGTERM) and waits; returns its exit status and output.
    pub fn stop(mut self, seconds: u64) -> Result<(ExitStatus, String), String> {
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
    use crate::shell::until;
    use std::time::Instant;

    #[test]
    fn verdicts_are_statuses_zero_and_one() {
        let end = |code: &str| Command::new("sh").args(["-c", code]).verdict(20);
        assert_eq!((end("exit 0"), end("exit 1")), (Ok(true), Ok(false)));
        assert!(end("exit 2").is_err() && end("kill -9 $$").is_err());
    }

    #[test]
    fn failed_tests_are_in_the_error() {
        let said = |script: &str| Command::new("sh").args(["-c", script]).tests(20).err().unwrap_or_default();
        let listed = said("printf 'fine\\nfailures:\\n    one\\ntest result: FAILED\\nfine\\n'; exit 1");
        assert!(listed.contains("|     one\n") && !listed.contains("fine\n"), "{listed}");
        let panics = said("printf \"thread 'a' panicked at b.rs:1:\\nit is two\\nnote: no\\n\" >&2; exit 1");
        assert!(panics.contains("b.rs:1:\n  | it is two\n") && !panics.contains("| note"), "{panics}");
        // A process that is left holds the pipes.
        let left = said("echo 'failures:'; echo 'the test'; sleep 9 & exit 1");
        assert!(left.contains("the test"), "{left}");
    }

    #[test]
    fn orphans_do_not_hide_the_output() {
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
}

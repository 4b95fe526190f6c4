//! The lab's processes: one executable with several roles.
//!
//! A parent starts its own executable with `lab-ROLE JSON`: the role as a hidden verb, its options
//! as one JSON argument. `main` calls [`dispatch`] first.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::output::Output;
use crate::sys::process::Signal;
use crate::sys::{self, signal};
use crate::{emulator, roundtrip, station, tap};

/// Exit status of a usage or set-up error.
pub const USAGE: u8 = 2;

/// Runs one of the lab's hidden roles if the arguments (program name first) name one.
///
/// The roles are `lab-station`, `lab-io-device`, `lab-ping`, `lab-echo`, `lab-flood`, `lab-wire` and
/// `lab-tap`.
pub fn dispatch(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    let role = arguments.next()?;
    let role = role.to_str().filter(|role| role.starts_with("lab-"))?;
    let options =
        arguments.next().and_then(|options| options.into_string().ok()).unwrap_or_else(|| "{}".into());
    let result = match role {
        "lab-station" => main(&options, |options, output| {
            station::run(options, output).map(|report| station::Line::Result(Box::new(report)))
        }),
        "lab-io-device" => main(&options, station::io_device::run),
        "lab-wire" => main(&options, emulator::run),
        "lab-tap" => main(&options, tap::run),
        "lab-ping" => main(&options, roundtrip::run_ping),
        "lab-echo" => main(&options, roundtrip::run_echo),
        "lab-flood" => main(&options, roundtrip::run_flood),
        _ => return None,
    };
    Some(result)
}

/// Runs a role: options from JSON, lines of JSON to standard output, errors to standard error.
fn main<O, R, E>(options: &str, role: impl FnOnce(O, &mut Output) -> Result<R, E>) -> ExitCode
where
    O: DeserializeOwned,
    R: Serialize,
    E: std::fmt::Display,
{
    signal::install();
    let options = match serde_json::from_str(options) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: the options are not what this role takes: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let mut output = Output::stdout();
    match role(options, &mut output) {
        Ok(result) => {
            output.line(&result);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(USAGE)
        }
    }
}

/// Where a process runs.
#[derive(Debug, Default)]
pub struct Place<'a> {
    /// The network namespace; `None` is the parent's.
    pub namespace: Option<&'a File>,
    /// The cores; an empty list means the parent's.
    pub cpus: &'a [usize],
}

/// A process of the lab; ended on drop.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<String>,
    error_text: Vec<String>,
}

/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

impl Process {
    /// Starts a role of this executable. Must be called from the main thread: the child is killed
    /// when the calling thread ends.
    pub fn role(name: &str, role: &str, options: &impl Serialize, place: &Place<'_>) -> io::Result<Self> {
        let options = serde_json::to_string(options).map_err(io::Error::other)?;
        Self::start(name, &executable()?, &[role, &options], place)
    }

    /// Starts any program.
    pub fn start(name: &str, program: &PathBuf, arguments: &[&str], place: &Place<'_>) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        sys::process::arrange(&mut command, place.namespace, place.cpus);
        let mut child = command.spawn()?;
        let lines = child.stdout.take().map_or_else(|| channel().1, read_lines);
        let errors = child.stderr.take().map_or_else(|| channel().1, read_lines);
        let input = child.stdin.take();
        Ok(Self { name: name.to_owned(), child, input, lines, errors, error_text: Vec::new() })
    }

    /// Name for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line of JSON to its standard input.
    pub fn tell(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_string(value).map_err(io::Error::other)?;
        text.push('\n');
        match &mut self.input {
            Some(input) => input.write_all(text.as_bytes()).and_then(|()| input.flush()),
            None => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    }

    /// The lines since the last call.
    pub fn lines(&mut self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Waits for the next line; `None` at the end of output or after `patience`.
    pub fn next_line(&mut self, patience: Duration) -> Option<String> {
        self.lines.recv_timeout(patience).ok()
    }

    /// Its standard error so far, at most the last hundred lines.
    pub fn errors(&mut self) -> &[String] {
        self.error_text.extend(self.errors.try_iter());
        let surplus = self.error_text.len().saturating_sub(100);
        self.error_text.drain(..surplus);
        &self.error_text
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The exit status of one that ended by itself.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().ok()??.code()
    }

    /// Stops it, or lets it go on.
    pub fn hold(&mut self, still: bool) -> io::Result<()> {
        let signal = if still { Signal::Stop } else { Signal::Continue };
        if self.is_running() { sys::process::signal(self.pid(), signal) } else { Ok(()) }
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) -> io::Result<()> {
        if self.is_running() {
            sys::process::signal(self.pid(), Signal::Kill)?;
        }
        self.child.wait().map(drop)
    }

    /// Sends SIGTERM.
    pub fn terminate(&mut self) {
        if self.is_running() {
            let _ = sys::process::signal(self.pid(), Signal::Terminate);
        }
    }

    /// Waits for its end and kills it after `patience`. True if it ended by itself with status 0.
    pub fn finish(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        let _ = self.kill();
        false
    }

    /// Sends SIGTERM, waits, and kills it if it does not end. Returns the remaining lines.
    pub fn end(&mut self) -> Vec<String> {
        self.terminate();
        self.finish(GRACE);
        // The readers end with the pipes, after the last line.
        let last = std::iter::from_fn(|| self.errors.recv_timeout(GRACE).ok());
        self.error_text.extend(last);
        std::iter::from_fn(|| self.lines.recv_timeout(GRACE).ok()).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.terminate();
        self.finish(GRACE);
    }
}

/// Removes the directories in `parent` that are named by a prefix and the ID of an ended process.
pub fn sweep_directories(parent: &Path, prefixes: &[&str]) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let of = |prefix: &&str| name.to_str()?.strip_prefix(prefix)?.parse::<u32>().ok();
        // Directories of other users stay.
        if prefixes.iter().find_map(of).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The path of this program, even if its file was replaced meanwhile.
pub fn executable() -> io::Result<PathBuf> {
    std::env::current_exe()
}

fn read_lines(pipe: impl io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

//! Process groups, which end and are killed as a whole.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process_group};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A child that leads a process group; the group is killed when dropped.
pub(super) struct Group(pub(super) Child);

/// Time that an interrupted group has to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// The running groups, by their leaders.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes Ctrl-C and SIGTERM end all running groups, which a terminal's Ctrl-C does not reach, and
/// then this process. A child in this process's own group receives Ctrl-C itself; this process
/// waits for it.
pub fn end_with_signals() -> Result<(), String> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|e| format!("signals cannot be caught: {e}"))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let groups = running();
            if signal == SIGINT && groups.is_empty() {
                continue;
            }
            groups.iter().for_each(|leader| send("-TERM", *leader));
            // A program like this one ends its own groups now.
            let end = Instant::now() + GRACE;
            while groups.iter().any(|leader| exists(*leader)) && Instant::now() < end {
                sleep(Duration::from_millis(20));
            }
            groups.iter().for_each(|leader| send("-KILL", *leader));
            eprintln!("xtask: interrupted");
            std::process::exit(1);
        }
    });
    Ok(())
}

fn exists(leader: u32) -> bool {
    let id = i32::try_from(leader).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process_group(id).is_ok())
}

fn send(signal: &str, leader: u32) {
    let _ = Command::new("kill").args([signal, "--", &format!("-{leader}")]).stderr(Stdio::null()).status();
}

impl Group {
    pub(super) fn of(child: Child) -> Self {
        running().push(child.id());
        Self(child)
    }

    /// Sleeps until the leader ends; polling would take CPU time from measurements.
    pub(super) fn wait(&mut self, seconds: u64) -> Result<Option<ExitStatus>, String> {
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
            // The process exists here: `try_wait` found it running.
            let ended = pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty())
                .and_then(|pid| poll(&mut [PollFd::new(&pid, PollFlags::IN)], left.try_into().ok().as_ref()));
            match ended {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(format!("process {}: {e}", self.0.id())),
            }
        }
    }

    pub(super) fn signal(&self, signal: &str) {
        send(signal, self.0.id());
    }

    pub(super) fn kill(&mut self) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{Run, until};
    use std::os::unix::process::CommandExt;

    #[test]
    fn earlier_end_is_still_reported() {
        let child = Command::new("sh").args(["-c", "exit 3"]).process_group(0).spawn();
        let mut group = Group::of(child.expect("a shell"));
        let gone = || group.0.try_wait().ok().flatten();
        until("its end", 10.0, gone).expect("ended");
        assert_eq!(group.wait(5).expect("its status").and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn wait_ends_at_its_bound() {
        let child = Command::new("sleep").arg("60").process_group(0).spawn();
        let mut group = Group::of(child.expect("a sleep"));
        let began = Instant::now();
        assert!(group.wait(1).expect("no status").is_none());
        assert!((1..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    const MARK: &str = "ANTEDATE_XTASK_INTERRUPTED";

    #[test]
    fn signals_end_groups() {
        if let Some(file) = std::env::var_os(MARK) {
            // The interrupted process.
            end_with_signals().expect("caught");
            let script = "echo $$ > \"$0\"; sleep 60";
            let _ = Command::new("sh").args(["-c", script]).arg(file).bounded(90);
            return;
        }
        let file = std::env::temp_dir().join(format!("antedate-xtask-{}", std::process::id()));
        let me = std::env::current_exe().expect("this program");
        let mut command = Command::new(me);
        command.args(["shell::group::tests::signals_end_groups", "--exact"]);
        let mut child =
            command.env(MARK, &file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it");
        let inner = until("the inner process", 20.0, || {
            std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok()
        });
        let inner = inner.expect("runs");
        let sent = Command::new("kill").arg(child.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()));
        assert_eq!(child.wait().expect("its end").code(), Some(1));
        // It may still be a zombie.
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{inner}/stat")).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        };
        let gone = until("its end", 10.0, gone);
        let _ = std::fs::remove_file(&file);
        gone.expect("ended");
    }
}

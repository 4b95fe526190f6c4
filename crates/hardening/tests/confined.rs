//! A process that gave up its rights tries what it must not do.
#![allow(unsafe_code, reason = "system calls that must fail")]

use std::fs::{self, File};
use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use antedate_hardening::confine::{self, Needs};

/// Set for the process that gives up its rights: a directory that it may write.
const DIRECTORY: &str = "ANTEDATE_TEST_CONFINED";
/// Set for the process that looks up a name then.
const NAMES: &str = "ANTEDATE_TEST_NAMES";
/// The exit status where the kernel lacks a limit.
const LACKING: u8 = 77;

#[path = "../../wire/tests/skip/mod.rs"]
mod skip;

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        println!("forbidden_calls_are_refused: test");
        return ExitCode::SUCCESS;
    }
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return confined(&PathBuf::from(directory));
    }
    if std::env::var_os(NAMES).is_some() {
        confine::process(&Needs { names: true, ..Needs::default() }).expect("the kernel limits it");
        // In a thread, as in a daemon.
        let found = thread::spawn(|| ("localhost", 1).to_socket_addrs().map(Iterator::count));
        assert!(found.join().expect("it ends").expect("localhost has an address") > 0);
        return ExitCode::SUCCESS;
    }
    let around = tempfile::tempdir().expect("a directory");
    let [directory, keys] = ["state", "state.keys"].map(|name| around.path().join(name));
    [&directory, &keys].iter().for_each(|made| fs::create_dir(made).expect("made"));
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(&program).env(DIRECTORY, &directory).spawn().expect("it runs");
    // A file that appears later, as one that replaces another does.
    fs::write(keys.join("new"), "key").expect("written");
    fs::rename(keys.join("new"), keys.join("file")).expect("renamed");
    let status = child.wait().expect("it ends");
    let named = Command::new(program).env(NAMES, "1").status().expect("it runs");
    if status.code() == Some(LACKING.into()) {
        skip::skipped("confinement: this kernel has no Landlock or no seccomp");
        return ExitCode::SUCCESS;
    }
    let success = status.success() && named.success();
    println!("test forbidden_calls_are_refused ... {}", if success { "ok" } else { "FAILED" });
    if !success {
        println!("\nfailures:\n    confined: {status}, with names: {named}; their panics are above");
        println!("\ntest result: FAILED. 0 passed; 1 failed");
    }
    ExitCode::from(u8::from(!success))
}

/// The error of a system call.
fn refusal(result: impl Into<i64>) -> Option<i32> {
    (result.into() < 0).then(|| io::Error::last_os_error().raw_os_error()).flatten()
}

fn confined(directory: &Path) -> ExitCode {
    let outside = fs::read("/etc/passwd").is_ok();
    let keys = directory.with_extension("keys");
    let needs = Needs {
        writes: vec![directory.join("missing/file")],
        reads: vec![keys.join("file")],
        ..Needs::default()
    };
    match confine::process(&needs) {
        Ok(true) => {}
        Ok(false) => return ExitCode::from(LACKING),
        Err(error) => panic!("{error}"),
    }
    // Files: the named directory, and the state of the kernel.
    let file = directory.join("state");
    fs::write(&file, "1").expect("it writes its state");
    fs::rename(&file, directory.join("other")).expect("it replaces its state");
    assert!(fs::read("/proc/self/status").is_ok());
    assert!(fs::write(keys.join("file"), "").is_err(), "a file to read is written");
    assert!(outside && File::open("/etc/passwd").is_err(), "another file is read");
    assert!(fs::write("/tmp/antedate-must-not-be", "").is_err(), "another file is written");
    let end = Instant::now() + Duration::from_secs(10);
    while fs::read(keys.join("file")).is_err() {
        assert!(Instant::now() < end, "a file that was replaced is not read");
        thread::sleep(Duration::from_millis(1));
    }
    // No other program, no other process.
    assert!(Command::new("/bin/true").spawn().is_err(), "a program is started");
    let program = c"/bin/true";
    // SAFETY: a path that ends with zero, and no arguments. If it succeeds, the test fails.
    let started = unsafe { libc::execve(program.as_ptr(), ptr::null(), ptr::null()) };
    assert_eq!(refusal(started), Some(libc::EPERM));
    // SAFETY: no pointers.
    let traced = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
    assert_eq!(refusal(traced), Some(libc::EPERM));
    // SAFETY: no pointers.
    let namespace = unsafe { libc::unshare(libc::CLONE_NEWUSER) };
    assert_eq!(refusal(namespace), Some(libc::EPERM));
    // SAFETY: no pointers.
    let socket = unsafe { libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0) };
    assert_eq!(refusal(socket), Some(libc::EPERM));
    let (rights, kind) = (libc::PROT_WRITE | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which touches no other memory.
    let memory = unsafe { libc::mmap(ptr::null_mut(), 4096, rights, kind, -1, 0) };
    assert_eq!(memory, libc::MAP_FAILED, "memory is written and executed");
    // What a daemon does.
    let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let to = other.local_addr().expect("an address");
    let frames = thread::spawn(move || {
        confine::frames_only().expect("the kernel limits a thread");
        let sent = one.send_to(b"frame", to).is_ok();
        let opened = File::open("/proc/self/status").is_ok();
        let bound = UdpSocket::bind("127.0.0.1:0").is_ok();
        (sent, opened, bound)
    });
    assert_eq!(frames.join().expect("it ends"), (true, false, false));
    assert!(other.recv(&mut [0; 8]).is_ok());
    let status = fs::read_to_string("/proc/self/status").expect("its status");
    for line in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    ExitCode::SUCCESS
}

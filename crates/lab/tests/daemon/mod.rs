//! A gateway as a thread of the test, inside a network namespace.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antedate_gateway::config::{check, machine::ThisMachine};
use antedate_gateway::daemon;
use antedate_gateway::run::control::{self, Reply, Request};
use antedate_lab::ns::Namespace;
use antedate_lab::sys::namespace;

/// A gateway: its configuration, its control socket, and the thread while it runs.
pub(crate) struct Daemon {
    file: PathBuf,
    socket: PathBuf,
    /// Stands in the place of `/etc/hosts`.
    hosts: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    /// A stopped gateway.
    pub(crate) fn new(file: PathBuf, socket: PathBuf) -> Self {
        Self { file, socket, hosts: None, stop: Arc::default(), thread: None }
    }

    /// Uses this table of host names when it starts.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn with_hosts(&mut self, hosts: PathBuf) {
        self.hosts = Some(hosts);
    }

    /// Starts it and waits for its control socket.
    pub(crate) fn start(&mut self, space: &Namespace) {
        let inside = space.file().try_clone().expect("the namespace's handle");
        let (file, stop) = (self.file.clone(), Arc::new(AtomicBool::new(false)));
        let hosts = self.hosts.clone();
        self.stop = Arc::clone(&stop);
        self.thread = Some(thread::spawn(move || {
            namespace::enter(&inside).expect("the thread enters the namespace");
            if let Some(hosts) = hosts {
                namespace::cover(Path::new("/etc/hosts"), &hosts).expect("another table of hosts");
            }
            let mut checked = check(&file, &ThisMachine).unwrap_or_else(|faults| panic!("{faults}"));
            daemon::run(&mut checked, &stop).unwrap_or_else(|fault| panic!("{fault}"));
        }));
        let end = Instant::now() + Duration::from_secs(5);
        while control::ask(&self.socket, Request::Status {}).is_err() {
            assert!(Instant::now() < end, "the gateway does not start");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops it. Its thread must end without a panic.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let stopped = thread.join();
            assert!(stopped.is_ok() || thread::panicking(), "the gateway does not stop cleanly");
        }
    }

    /// Its configuration.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Changes the text of its configuration, without having it read.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn edit(&self, before: &str, changed: &str) {
        let text = fs::read_to_string(&self.file).expect("its configuration");
        assert!(text.contains(before), "{before}");
        fs::write(&self.file, text.replace(before, changed)).expect("the configuration is written");
    }

    /// Asks its control socket.
    pub(crate) fn ask(&self, request: Request) -> Reply {
        control::ask(&self.socket, request).unwrap_or_else(|fault| panic!("{fault}"))
    }
}

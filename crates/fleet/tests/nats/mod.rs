//! A real NATS server.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[path = "../../../wire/tests/skip/mod.rs"]
mod skip;

const SERVER: &str = "/usr/sbin/nats-server";

/// Whether this machine has one. If not, the test is told as skipped.
pub(crate) fn is_here(what: &str) -> bool {
    let is_here = Path::new(SERVER).exists();
    if !is_here {
        skip::skipped(&format!("{what}: there is no nats-server"));
    }
    is_here
}

/// A server, which ends with this value.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server with a configuration. Its log is beside that.
pub(crate) fn start(configuration: &Path) -> Server {
    let log = std::fs::File::create(configuration.with_extension("log")).unwrap();
    let mut server = Command::new(SERVER);
    server.arg("--config").arg(configuration).stdin(Stdio::null()).stderr(log);
    Server(server.spawn().unwrap())
}

/// A port that nobody listens at.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

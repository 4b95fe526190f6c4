//! What daemons tell a service manager: that they have started, live, and stop.

use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ANTEDATE: &str = env!("CARGO_BIN_EXE_antedate");
const PATIENCE: Duration = Duration::from_secs(20);
/// Signs come four times as often.
const WATCHDOG: Duration = Duration::from_millis(200);

/// A daemon and the service manager's socket.
struct Service {
    daemon: Child,
    socket: UnixDatagram,
}

impl Service {
    fn start(directory: &Path, words: &[&str]) -> Self {
        let place = directory.join("notify");
        let socket = UnixDatagram::bind(&place).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let daemon = Command::new(ANTEDATE)
            .args(words)
            .env("NOTIFY_SOCKET", &place)
            .env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string())
            .stdout(Stdio::null())
            .spawn();
        Self { daemon: daemon.expect("it starts"), socket }
    }

    fn message(&self) -> String {
        let mut text = [0; 100];
        let length = self.socket.recv(&mut text).expect("a message in time");
        String::from_utf8_lossy(&text[..length]).trim().to_owned()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.daemon.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {name}");
    }

    /// Ready, then alive; silent while it is stopped; stopping after SIGTERM.
    fn judge(mut self) {
        assert_eq!(self.message(), "READY=1");
        assert_eq!([self.message(), self.message()], ["WATCHDOG=1", "WATCHDOG=1"]);
        self.signal("-STOP");
        self.socket.set_read_timeout(Some(WATCHDOG * 3)).expect("a limit");
        while self.socket.recv(&mut [0; 100]).is_ok() {}
        let silence = self.socket.recv(&mut [0; 100]).expect_err("it stands still");
        assert_eq!(silence.kind(), ErrorKind::WouldBlock);
        self.signal("-CONT");
        self.socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
        assert_eq!(self.message(), "WATCHDOG=1");
        self.signal("-TERM");
        while self.message() == "WATCHDOG=1" {}
        assert!(self.daemon.wait().expect("it ends").success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn private(file: &Path, text: &str) {
    let mut options = std::fs::OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(file);
    std::io::Write::write_all(&mut made.expect("a file"), text.as_bytes()).expect("written");
}

#[test]
fn dtls_proxy_tells_that_it_lives() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = directory.path().join("psk");
    private(&keys, "press:000102030405060708090a0b0c0d0e0f\n");
    let keys = keys.display().to_string();
    let words = ["dtls", "listen", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--psk", &keys];
    let words = [&words[..], &["--threads", "2"]].concat();
    Service::start(directory.path(), &words).judge();
}

#[test]
fn subscriber_lives_without_its_broker() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (keys, state) = (file("group.toml"), file("state"));
    let keygen = ["keygen", "mqtt", "--group", "line4", "--topic", "a/#", "--out", &keys];
    for words in [&keygen[..], &["mqtt", "init", &state]] {
        let made = Command::new(ANTEDATE).args(words).output().expect("it runs");
        assert!(made.status.success(), "{made:?}");
    }
    // A port that nobody listens at.
    let words = ["mqtt", "sub", "-h", "127.0.0.1", "-p", "1", "-t", "a/#", "--keys", &keys];
    let words = [&words[..], &["--state", &state, "--keep-trying"]].concat();
    Service::start(directory.path(), &words).judge();
}

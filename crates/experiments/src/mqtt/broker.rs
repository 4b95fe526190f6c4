//! A Mosquitto broker of the experiment, on free loopback ports, with and without TLS.

use crate::ExperimentError;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use antedate_mqtt_client::{Settings, Tls};

/// The path on Debian, then others.
const PROGRAMS: [&str; 3] = ["/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto", "mosquitto"];

/// A running broker; ends on drop.
#[derive(Debug)]
pub(crate) struct Broker {
    child: Child,
    port: u16,
    tls_port: u16,
    certificate: PathBuf,
    directory: Directory,
}

/// The broker's files; removed on drop, also if the broker does not start.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn create() -> Result<Self, ExperimentError> {
        let path = crate::files("antedate-lab-");
        let _ = fs::remove_dir_all(&path);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("{}: no directory for the broker: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Broker {
    /// Starts a broker.
    pub(crate) fn start() -> Result<Self, ExperimentError> {
        let directory = Directory::create()?;
        let certificate = certificate(&directory.0)?;
        let [port, tls_port] = ports()?;
        let file = directory.0.join("mosquitto.conf");
        let shown = directory.0.display();
        let text = format!(
            "per_listener_settings false\nallow_anonymous true\npersistence false\nmax_queued_messages 0\nset_tcp_nodelay true\nuser root\n\
             listener {port} 127.0.0.1\n\
             listener {tls_port} 127.0.0.1\ncertfile {shown}/cert.pem\nkeyfile {shown}/key.pem\n"
        );
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let spawn = |program: &&str| {
            let mut command = Command::new(program);
            command.arg("-c").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
            // The broker ends with this process.
            antedate_lab::sys::process::arrange(&mut command, None, &[]);
            command.spawn().ok()
        };
        let child =
            PROGRAMS.iter().find_map(spawn).ok_or("there is no mosquitto here: apt-get install mosquitto")?;
        let mut broker = Self { child, port, tls_port, certificate, directory };
        let end = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, tls_port)).is_err() {
            if Instant::now() > end || !matches!(broker.child.try_wait(), Ok(None)) {
                return Err("mosquitto does not listen; is it version 2 or later?".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(broker)
    }

    /// Settings of a connection to it.
    pub(crate) fn settings(&self, name: &str, tls: bool) -> Settings {
        let port = if tls { self.tls_port } else { self.port };
        Settings {
            tls: tls.then(|| Tls { cafile: Some(self.certificate.clone()), ..Tls::default() }),
            queue: 4096,
            ..Settings::new(name, "127.0.0.1", port)
        }
    }

    /// A directory with the broker's lifetime.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory.0
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ports() -> Result<[u16; 2], ExperimentError> {
    let no_port = |error: std::io::Error| format!("no free port: {error}");
    // Both are bound at once, so they differ.
    let listeners = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let mut ports = [0; 2];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener.and_then(|one| one.local_addr()).map_err(no_port)?.port();
    }
    Ok(ports)
}

/// Creates a certificate for this run.
fn certificate(directory: &Path) -> Result<PathBuf, ExperimentError> {
    let (key, cert) = (directory.join("key.pem"), directory.join("cert.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=antedate lab", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .stderr(Stdio::null())
        .status();
    match made {
        Ok(status) if status.success() => Ok(cert),
        Ok(status) => Err(format!("openssl made no certificate: {status}").into()),
        Err(error) => Err(format!("openssl: {error}; apt-get install openssl").into()),
    }
}

//! The senders: gateway pairs with static and with agreed keys, a publisher of MQTT, one of GOOSE.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antedate_lab::ns::{Chain, ChainOptions, Namespace};
use antedate_lab::sys::packet::{Options, PacketSocket};

use super::heard::{GooseLine, Line, Subscriber};
use super::victim::{Victim, antedate};
use crate::mqtt::broker::Broker;
use crate::mqtt::roundtrip::Station;
use crate::{ExperimentError, failed};

/// Octets of kernel buffer in front of an ear.
const BUFFER: usize = 32 << 20;
/// Interval of the machines' frames.
const INTERVAL: Duration = Duration::from_micros(500);

/// Senders that are killed in turns. Fields drop in this order: processes before their namespaces.
pub(super) struct Party {
    pub(super) victims: Vec<Victim>,
    _machines: Option<Machines>,
    _chain: Option<Chain>,
    _namespace: Option<Namespace>,
    _broker: Option<Broker>,
    _files: Option<Files>,
}

/// A directory of keys and states; removed on drop.
struct Files(PathBuf);

impl Files {
    fn make() -> Result<Self, ExperimentError> {
        let path = crate::files("antedate-lab-");
        let _ = fs::remove_dir_all(&path);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Both machines: they send to each other without pause.
struct Machines {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Machines {
    fn start(chain: &Chain) -> Result<Self, ExperimentError> {
        let open = |space: &Namespace| {
            space
                .run(|| PacketSocket::open("eth0", Options::default()))
                .and_then(|socket| socket)
                .map_err(failed)
        };
        let sockets = [(open(&chain.plc)?, [1, 2]), (open(&chain.device)?, [2, 1])];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                for (socket, [own, other]) in &sockets {
                    let mut frame =
                        vec![2, 0, 0x5e, 0, 0, *other, 2, 0, 0x5e, 0, 0, *own, 0x88, 0x92, 0x80, 0x01];
                    frame.resize(64, *own);
                    // A gateway that was killed takes nothing.
                    let _ = socket.send(&frame);
                }
                thread::sleep(INTERVAL);
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn ear(space: &Namespace, interface: &str) -> Result<PacketSocket, ExperimentError> {
    let options = Options { promiscuous: true, receive_buffer: BUFFER, ..Options::default() };
    space.run(|| PacketSocket::open(interface, options)).and_then(|socket| socket).map_err(failed)
}

/// Two gateways between two machines. With a suite their keys are static, otherwise agreed.
pub(super) fn gateways(suite: Option<&str>) -> Result<Party, ExperimentError> {
    let chain = Chain::build(ChainOptions::default())?;
    chain.bridge_wire()?;
    let wire = chain.wire.as_ref().ok_or("there is no wire")?;
    let files = Files::make()?;
    let keys = files.path("keys");
    let protection = match suite {
        Some(suite) => {
            let members = ["a=02:00:5e:00:00:a2", "b=02:00:5e:00:00:b2"];
            let [a, b] = members;
            antedate(
                &["keygen", "macsec", "--suite", suite, "--member", a, "--member", b, "--out", &keys],
                None,
            )?;
            format!("key_file = \"{keys}\"")
        }
        None => {
            antedate(&["keygen", "macsec", "--cak", "--out", &keys], None)?;
            format!("cak_file = \"{keys}\"\nmka_destination = \"broadcast\"")
        }
    };
    let mut victims = Vec::new();
    for (name, space, interface) in
        [("gateway a", &chain.gateway_a, "a"), ("gateway b", &chain.gateway_b, "b")]
    {
        let (file, state) =
            (files.path(&format!("{interface}.toml")), files.path(&format!("state-{interface}")));
        let text = format!(
            "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n[macsec]\n{protection}\n\
             [policy]\nallow = [\"profinet\"]\n[run]\npoll = \"block\"\n\
             [state]\ndirectory = \"{state}\"\nreserve = 4096\n[control]\nsocket = \"{}\"\n",
            files.path(&format!("{interface}.sock"))
        );
        private(&file, &text)?;
        if suite.is_some() {
            antedate(&["gateway", "init", "--volatile-state", &file], Some(space))?;
        }
        let line = Line::new(ear(wire, interface)?, suite.is_none());
        let mut victim = Victim::new(name, &["gateway", "run", &file], Some(space), line)?;
        if suite.is_some() {
            victim.keeps(Path::new(&state))?;
        }
        victims.push(victim);
    }
    let machines = Machines::start(&chain)?;
    Ok(Party {
        victims,
        _machines: Some(machines),
        _chain: Some(chain),
        _namespace: None,
        _broker: None,
        _files: Some(files),
    })
}

/// A publisher, a broker and a subscriber.
pub(super) fn mqtt() -> Result<Party, ExperimentError> {
    let broker = Broker::start()?;
    let settings = broker.settings("ear", false);
    let path = |name: &str| broker.directory().join(name).to_string_lossy().into_owned();
    let (keys, state) = (path("group.toml"), path("state"));
    let topic = "plant/press7/force";
    antedate(&["keygen", "mqtt", "--group", "g", "--topic", topic, "--out", &keys], None)?;
    antedate(&["mqtt", "init", "--volatile-state", &state], None)?;
    let port = settings.port.to_string();
    let arguments = [
        "mqtt",
        "pub",
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "--keys",
        &keys,
        "--state",
        &state,
        "--publisher",
        "press7",
        "-t",
        topic,
        "-l",
    ];
    let station = Station::connect(&settings, "#")?;
    let mut victim = Victim::new("mqtt publisher", &arguments, None, Subscriber(station))?.fed();
    victim.keeps(Path::new(&state))?;
    Ok(Party {
        victims: vec![victim],
        _machines: None,
        _chain: None,
        _namespace: None,
        _broker: Some(broker),
        _files: None,
    })
}

/// A publisher on a line.
pub(super) fn goose() -> Result<Party, ExperimentError> {
    let space = Namespace::create("goose")?;
    space.batch(&[
        "link add name g0 type veth peer name g1".into(),
        "link set dev g0 up".into(),
        "link set dev g1 up".into(),
    ])?;
    let files = Files::make()?;
    let (key, state) = (files.path("key"), files.path("state"));
    private(&key, "5f1e0c8a7b3d49268f0e1d2c3b4a5968\n")?;
    let line = GooseLine::new(ear(&space, "g1")?);
    let publish =
        ["goose", "publish", "g0", "--key", &key, "--state", &state, "--repeats", "0", "--interval", "1"];
    antedate(&[&publish[..], &["--first", "--volatile-state", "--events", "1"]].concat(), Some(&space))?;
    let always = [&publish[..], &["--events", "4000000000"]].concat();
    let mut victim = Victim::new("goose publisher", &always, Some(&space), line)?;
    victim.keeps(Path::new(&state))?;
    Ok(Party {
        victims: vec![victim],
        _machines: None,
        _chain: None,
        _namespace: Some(space),
        _broker: None,
        _files: Some(files),
    })
}

fn private(file: &str, text: &str) -> Result<(), ExperimentError> {
    fs::write(file, text)?;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(0o600))?)
}

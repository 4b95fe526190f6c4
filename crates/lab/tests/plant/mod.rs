//! The plant of the gateway tests: a chain of namespaces, two gateways as threads, raw sockets at
//! the ends.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::config::keys::KeyFile;
use antedate_gateway::run::control::{Ping, Reply, Request};
use antedate_gateway::run::status::Status;
use antedate_host::numbers::{NumberFile, permit_volatile};
use antedate_lab::ns::{Chain, ChainOptions, Namespace};
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_wire::Sci;

use crate::daemon::Daemon;

/// The head of a cyclic frame: addresses, EtherType, frame ID.
pub(crate) const CYCLIC: [u8; 16] = [2, 0, 0x5e, 0, 0, 2, 2, 0, 0x5e, 0, 0, 1, 0x88, 0x92, 0x80, 0x01];
/// Wait for an expected frame, and for an unexpected one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
const QUIET: Duration = Duration::from_millis(150);

/// A cyclic frame with a number.
pub(crate) fn cyclic(number: u8, length: usize) -> Vec<u8> {
    let mut frame = CYCLIC.to_vec();
    frame.resize(length, number);
    frame
}

/// A DCP Set request (frame ID 0xfefd, service 4).
pub(crate) fn dcp_set() -> Vec<u8> {
    let mut frame = cyclic(0, 64);
    frame[14..18].copy_from_slice(&[0xfe, 0xfd, 4, 0]);
    frame
}

/// A frame with the EtherType of ARP.
pub(crate) fn arp() -> Vec<u8> {
    let mut frame = cyclic(0, 64);
    frame[12..14].copy_from_slice(&[0x08, 0x06]);
    frame
}

/// The frame with VLAN tags, outermost first.
pub(crate) fn vlan(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    for (tpid, tci) in tags {
        tagged.extend(tpid.to_be_bytes());
        tagged.extend(tci.to_be_bytes());
    }
    tagged.extend(&frame[12..]);
    tagged
}

/// Carries 16 MiB of TCP from one machine to the other and back, and compares each octet.
#[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
pub(crate) fn carry_tcp(chain: &Chain) {
    const OCTETS: usize = 16 << 20;
    for (space, last) in [(&chain.plc, 1), (&chain.device, 2)] {
        space.batch(&[format!("addr add 10.7.0.{last}/24 dev eth0")]).expect("an address");
    }
    for (from, to, at) in
        [(&chain.plc, &chain.device, "10.7.0.2:5201"), (&chain.device, &chain.plc, "10.7.0.1:5202")]
    {
        let listener = to.run(|| TcpListener::bind(at)).expect("its namespace").expect("a listener");
        let at = at.parse().expect("an address");
        let connect = || TcpStream::connect_timeout(&at, PATIENCE);
        let mut sender = from.run(connect).expect("its namespace").expect("a connection");
        let (mut receiver, _) = listener.accept().expect("a connection");
        receiver.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        sender.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        let octet = |at: usize| (at.wrapping_mul(2_654_435_761) >> 13) as u8;
        let sent: Vec<u8> = (0..OCTETS).map(octet).collect();
        let mut came = Vec::with_capacity(OCTETS);
        thread::scope(|scope| {
            let (sent, sender) = (&sent, &mut sender);
            scope.spawn(move || {
                sender.write_all(sent).expect("all is sent");
                sender.shutdown(std::net::Shutdown::Write).expect("an end");
            });
            receiver.read_to_end(&mut came).expect("all comes");
        });
        assert!(came == sent, "{} of {OCTETS} octets, or others", came.len());
    }
}

/// Options of a test.
pub(crate) struct Settings<'a> {
    pub(crate) suite: &'a str,
    /// More lines of `[field]` and `[uplink]` both.
    pub(crate) io: &'a str,
    /// More lines of `[uplink]`, `[macsec]`, `[policy]` and `[run]`.
    pub(crate) uplink: &'a str,
    pub(crate) macsec: &'a str,
    pub(crate) policy: &'a str,
    pub(crate) run: &'a str,
    pub(crate) wire_mtu: u32,
    /// The transmit channels of each gateway in the key file.
    pub(crate) channels: u16,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        let policy = "allow = [\"profinet-rt\"]";
        Self {
            suite: "gcm-aes-128",
            io: "",
            uplink: "",
            macsec: "",
            policy,
            run: "poll = \"block\"",
            wire_mtu: 1550,
            channels: 1,
        }
    }
}

/// Machines, gateways and wire; removed on drop.
pub(crate) struct Plant {
    pub(crate) plc: Port,
    pub(crate) device: Port,
    pub(crate) a: Gateway,
    pub(crate) b: Gateway,
    pub(crate) chain: Chain,
    files: PathBuf,
}

impl Plant {
    pub(crate) fn build(settings: &Settings<'_>) -> Self {
        let chain = Chain::build(ChainOptions { wire_mtu: settings.wire_mtu, ..ChainOptions::default() });
        let chain = chain.expect("the chain is built");
        chain.bridge_wire().expect("a bridge as wire");
        let files = std::env::temp_dir().join(format!("antedate-gateways-{}", std::process::id()));
        let _ = fs::remove_dir_all(&files);
        fs::create_dir_all(&files).expect("a directory for the files");
        fs::set_permissions(&files, fs::Permissions::from_mode(0o700)).expect("its mode");
        keys(&files, settings.suite, settings.channels);
        let a = Gateway::start(&chain.gateway_a, &files, "a", settings);
        let b = Gateway::start(&chain.gateway_b, &files, "b", settings);
        let plc = Port::open(&chain.plc, "eth0");
        let device = Port::open(&chain.device, "eth0");
        Self { plc, device, a, b, chain, files }
    }

    /// Sends the frame until it arrives.
    pub(crate) fn until_it_crosses(&self, frame: &[u8]) {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            self.plc.try_send(frame);
            if self.device.next(Duration::from_millis(100)).as_deref() == Some(frame) {
                return;
            }
        }
        panic!("nothing crosses any more");
    }

    /// Replaces gateway A's uplink and wire by new ones of the same name.
    pub(crate) fn replace_wire(&self) {
        let (gateway, wire) = (&self.chain.gateway_a, self.chain.wire.as_ref().expect("there is a wire"));
        gateway.batch(&["link del uplink".into()]).expect("the uplink is removed");
        let add = format!(
            "link add name uplink mtu 1550 address 02:00:5e:00:00:a2 type veth peer name a mtu 1550 netns {}",
            wire.name()
        );
        gateway.batch(&[add, "link set dev uplink up".into()]).expect("a new uplink");
        wire.batch(&["link set dev a master br0".into(), "link set dev a up".into()]).expect("a new wire");
    }

    /// Moves gateway A's uplink away for a while and back with the same index.
    pub(crate) fn borrow_uplink(&self, time: Duration) {
        let (gateway, away) = (&self.chain.gateway_a, Namespace::create("away").expect("another place"));
        gateway.batch(&[format!("link set dev uplink netns {}", away.name())]).expect("it goes");
        thread::sleep(time);
        away.batch(&[format!("link set dev uplink netns {}", gateway.name())]).expect("it comes back");
        gateway.batch(&["link set dev uplink up".into()]).expect("it is up");
    }

    /// Changes the MTU of the whole wire.
    pub(crate) fn set_wire_mtu(&self, mtu: u32) {
        let set = |interface: &str| format!("link set dev {interface} mtu {mtu}");
        let wire = self.chain.wire.as_ref().expect("there is a wire");
        wire.batch(&["a", "b", "br0"].map(set)).expect("the wire's MTU");
        self.chain.gateway_a.batch(&[set("uplink")]).expect("an uplink's MTU");
        self.chain.gateway_b.batch(&[set("uplink")]).expect("an uplink's MTU");
    }

    /// A socket on the wire that hears gateway A and sends towards gateway B.
    pub(crate) fn record_wire(&self) -> Recorder {
        let wire = self.chain.wire.as_ref().expect("there is a wire");
        Recorder { hears: Port::open(wire, "a"), sends: Port::open(wire, "b") }
    }

    /// Stops both gateways cleanly and restarts them.
    pub(crate) fn restart_both(&mut self) {
        self.a.stop();
        self.b.stop();
        self.a.run(&self.chain.gateway_a);
        self.b.run(&self.chain.gateway_b);
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        self.a.stop();
        self.b.stop();
        let _ = fs::remove_dir_all(&self.files);
    }
}

fn keys(files: &Path, suite: &str, channels: u16) {
    let sci = |last| Sci([2, 0, 0x5e, 0, 0, last, 0, 1]);
    let members = vec![("a".into(), sci(0xa2)), ("b".into(), sci(0xb2))];
    // One process of a machine may send with a key, and other test programs may run beside this.
    let mut count = std::process::id();
    let fill = |bytes: &mut [u8]| {
        for byte in bytes {
            count = count.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (count >> 24) as u8;
        }
        Ok::<_, ()>(())
    };
    let keys = KeyFile::generate(suite.parse().expect("a suite"), members, fill).expect("keys");
    let keys = keys.with_channels(channels);
    keys.write_new(&files.join("keys")).expect("the key file is written");
}

/// A gateway in a namespace of the chain.
pub(crate) struct Gateway(Daemon);

impl Gateway {
    fn start(namespace: &Namespace, files: &Path, name: &str, settings: &Settings<'_>) -> Self {
        let Settings { io, uplink, macsec, policy, run, .. } = settings;
        let (state, socket) = (files.join(format!("state-{name}")), files.join(format!("{name}.sock")));
        let text = format!(
            "[field]\ninterface = \"field\"\n{io}\n[uplink]\ninterface = \"uplink\"\n{io}\n{uplink}\n\
             [macsec]\nkey_file = \"keys\"\n{macsec}\n[policy]\n{policy}\n[run]\n{run}\n\
             [state]\ndirectory = \"{}\"\n[control]\nsocket = \"{}\"\n",
            state.display(),
            socket.display()
        );
        // The folder of temporary files may be a tmpfs.
        permit_volatile(&state).and_then(|()| NumberFile::create(&state)).map(drop).expect("a new state");
        Self::with(namespace, files, name, &text)
    }

    /// Starts a gateway with this configuration. Its control socket must be `NAME.sock` beside it.
    pub(crate) fn with(namespace: &Namespace, files: &Path, name: &str, text: &str) -> Self {
        let (file, socket) = (files.join(format!("{name}.toml")), files.join(format!("{name}.sock")));
        fs::write(&file, text).expect("the configuration is written");
        let mut gateway = Self(Daemon::new(file, socket));
        gateway.run(namespace);
        gateway
    }

    /// As [`Self::with`], with another `/etc/hosts`.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn with_hosts(space: &Namespace, files: &Path, name: &str, text: &str, hosts: &Path) -> Self {
        let (file, socket) = (files.join(format!("{name}.toml")), files.join(format!("{name}.sock")));
        fs::write(&file, text).expect("the configuration is written");
        let mut gateway = Self(Daemon::new(file, socket));
        gateway.0.with_hosts(hosts.to_owned());
        gateway.run(space);
        gateway
    }

    pub(crate) fn run(&mut self, namespace: &Namespace) {
        self.0.start(namespace);
    }

    pub(crate) fn stop(&mut self) {
        self.0.stop();
    }

    pub(crate) fn status(&self) -> Status {
        let reply = self.0.ask(Request::Status {});
        *reply.status.expect("a status")
    }

    /// For overlay tests only.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn rekey(&self) {
        let reply = self.0.ask(Request::Rekey {});
        assert!(reply.ok, "{}", reply.message);
    }

    /// Changes the text of its configuration, without having it read.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn edit(&self, before: &str, changed: &str) {
        self.0.edit(before, changed);
    }

    /// Any other request.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn ask(&self, request: Request) -> Reply {
        self.0.ask(request)
    }

    /// Sends one echo.
    pub(crate) fn ping(&self, ping: Ping) -> Reply {
        self.0.ask(Request::Ping(ping))
    }

    pub(crate) fn switch(&self, an: u8) -> Result<String, String> {
        let reply = self.0.ask(Request::SwitchSa { an });
        if reply.ok { Ok(reply.message) } else { Err(reply.message) }
    }
}

/// A socket of a machine.
pub(crate) struct Port(PacketSocket);

impl Port {
    pub(crate) fn open(namespace: &Namespace, interface: &str) -> Self {
        let options = Options { promiscuous: true, metadata: true, ..Options::default() };
        let socket = namespace.run(|| PacketSocket::open(interface, options)).expect("a thread");
        Self(socket.expect("a socket"))
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        self.0.send(frame).expect("the frame is sent");
    }

    /// Like [`Self::send`], on a link that may be down.
    pub(crate) fn try_send(&self, frame: &[u8]) {
        let _ = self.0.send(frame);
    }

    /// The next frame with its VLAN tag in place. IPv6 is off, so there is no link-local traffic.
    pub(crate) fn next(&self, patience: Duration) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 2048];
        let end = Instant::now() + patience;
        loop {
            // A link that went down is reported once, as an error.
            if let Ok(Some(received)) = self.0.receive_with_metadata(&mut buffer) {
                let frame = &buffer[..received.len];
                return Some(received.vlan.map_or_else(|| frame.to_vec(), |tag| vlan(frame, &[tag])));
            }
            let left = end.checked_duration_since(Instant::now())?;
            let _ = self.0.wait(left.as_nanos() as u64);
        }
    }

    #[track_caller]
    pub(crate) fn expect(&self, frame: &[u8]) {
        let next = self.next(PATIENCE).expect("a frame arrives");
        assert_eq!(next, frame);
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&self) {
        assert_eq!(self.next(QUIET), None);
    }
}

/// Hears the wire on gateway A's side and sends on gateway B's.
pub(crate) struct Recorder {
    hears: Port,
    sends: Port,
}

impl Recorder {
    pub(crate) fn take(&self, count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| self.hears.next(PATIENCE).expect("a frame on the wire")).collect()
    }

    /// All frames until the wire is quiet.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn rest(&self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.hears.next(QUIET)).collect()
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        self.sends.send(frame);
    }
}

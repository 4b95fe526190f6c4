//! An IO device that protects itself: smoltcp over MACsec with key agreement (`antedate-smoltcp`),
//! on a cable to a gateway. A machine behind the gateway pings it and speaks TCP with it, by the
//! kernel's stack.

mod daemon;
mod harness;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use antedate_gateway::run::control::Request;
use antedate_gateway::run::status::Macsec;
use antedate_lab::ns::Namespace;
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_smoltcp::{Cak, Counters, EthernetAddress, MacsecDevice, Settings, Status};
use rand_core::{TryCryptoRng, TryRng};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant as StackInstant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use daemon::Daemon;
use harness::Test;

const TESTS: &[Test] = &[
    ("device_answers_through_a_gateway", device_answers_through_a_gateway),
    ("key_changes_lose_no_ping", key_changes_lose_no_ping),
    ("recordings_and_forgeries_are_refused", recordings_and_forgeries_are_refused),
    ("device_without_the_cak_is_deaf", device_without_the_cak_is_deaf),
];
const PATIENCE: Duration = Duration::from_secs(10);
const CAK: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const CKN: &[u8] = b"abc";
const MTU: usize = 1514 + 32;
/// The stations' addresses.
const DEVICE: [u8; 6] = [2, 0, 0x5e, 0, 9, 1];
const HOST: [u8; 6] = [2, 0, 0x5e, 0, 9, 2];
const ECHO: u16 = 7;
const MACSEC: [u8; 2] = [0x88, 0xe5];
const EAPOL: [u8; 2] = [0x88, 0x8e];

fn main() -> ExitCode {
    harness::run("devices that protect themselves", TESTS)
}

/// The driver: a packet socket.
struct Port(PacketSocket);

struct Came(Vec<u8>);
struct Leaves<'a>(&'a PacketSocket);

impl phy::RxToken for Came {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Leaves<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.send(&frame).expect("the frame is sent");
        result
    }
}

impl Device for Port {
    type RxToken<'a> = Came;
    type TxToken<'a> = Leaves<'a>;

    fn receive(&mut self, _: StackInstant) -> Option<(Came, Leaves<'_>)> {
        let mut buffer = vec![0; 2048];
        let len = self.0.receive(&mut buffer, false).expect("the socket works")?;
        buffer.truncate(len);
        Some((Came(buffer), Leaves(&self.0)))
    }

    fn transmit(&mut self, _: StackInstant) -> Option<Leaves<'_>> {
        Some(Leaves(&self.0))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

/// The kernel's random numbers.
struct Random(fs::File);

impl TryRng for Random {
    type Error = core::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        let mut octets = [0; 4];
        self.try_fill_bytes(&mut octets)?;
        Ok(u32::from_ne_bytes(octets))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        let mut octets = [0; 8];
        self.try_fill_bytes(&mut octets)?;
        Ok(u64::from_ne_bytes(octets))
    }

    fn try_fill_bytes(&mut self, octets: &mut [u8]) -> Result<(), Self::Error> {
        self.0.read_exact(octets).expect("random octets");
        Ok(())
    }
}

impl TryCryptoRng for Random {}

/// What the device says of itself.
#[derive(Clone, Debug)]
struct Said {
    counters: Counters,
    status: Status,
}

/// A running device, which answers pings and echoes TCP.
struct Running {
    stop: Arc<AtomicBool>,
    said: Arc<Mutex<Option<Said>>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(space: &Namespace, cak: [u8; 16]) -> Self {
        let options = Options { promiscuous: true, ..Options::default() };
        let socket = space.run(|| PacketSocket::open("eth0", options)).expect("a thread").expect("a socket");
        let (stop, said) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let (ends, tells) = (Arc::clone(&stop), Arc::clone(&said));
        let thread = thread::spawn(move || device(socket, cak, &ends, &tells));
        Self { stop, said, thread: Some(thread) }
    }

    fn said(&self) -> Said {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        said.expect("it runs")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the device ends cleanly");
        }
    }
}

/// The program of the device.
fn device(socket: PacketSocket, cak: [u8; 16], stop: &AtomicBool, said: &Mutex<Option<Said>>) {
    let start = Instant::now();
    let now = || StackInstant::from_micros(start.elapsed().as_micros() as i64);
    let random = Random(fs::File::open("/dev/urandom").expect("random numbers"));
    let cak = Cak::new(&cak, CKN).expect("a CAK");
    let mut device = MacsecDevice::new(Port(socket), cak, Settings::new(EthernetAddress(DEVICE)), random)
        .expect("a device");
    let hardware = HardwareAddress::Ethernet(smoltcp::wire::EthernetAddress(DEVICE));
    let mut interface = Interface::new(Config::new(hardware), &mut device, now());
    interface.update_ip_addrs(|all| {
        all.push(IpCidr::new(IpAddress::v4(10, 9, 0, 1), 24)).expect("an address");
    });
    let buffer = || tcp::SocketBuffer::new(vec![0; 16 << 10]);
    let mut sockets = SocketSet::new(vec![]);
    let echo = sockets.add(tcp::Socket::new(buffer(), buffer()));
    while !stop.load(Ordering::Acquire) {
        let wake = device.poll(now());
        interface.poll(now(), &mut device, &mut sockets);
        let socket = sockets.get_mut::<tcp::Socket<'_>>(echo);
        if !socket.is_open() {
            socket.listen(ECHO).expect("a listener");
        }
        if socket.can_recv() && socket.can_send() {
            let space = socket.send_capacity() - socket.send_queue();
            let octets = socket
                .recv(|octets| {
                    let len = octets.len().min(space);
                    (len, octets[..len].to_vec())
                })
                .expect("octets");
            socket.send_slice(&octets).expect("space");
        } else if socket.may_send() && !socket.may_recv() {
            socket.close();
        }
        while device.prepare(8) > 0 {}
        let told = Said { counters: device.counters(), status: device.status(now()) };
        *said.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
        let stack = interface.poll_at(now(), &sockets).unwrap_or(wake);
        let pause = (wake.min(stack).total_micros() - now().total_micros()).clamp(0, 50_000);
        let _ = device.driver().0.wait(pause as u64 * 1000);
    }
}

/// A machine, a gateway, and the cable to the device.
struct Bench {
    gateway: Daemon,
    _space: Namespace,
    host: Namespace,
    device: Namespace,
    machine: PacketSocket,
    /// The device's end of the cable, in both directions.
    cable: PacketSocket,
    /// The gateway's end, where an outsider sends.
    outsider: PacketSocket,
    files: PathBuf,
}

impl Bench {
    fn build(macsec: &str) -> Self {
        let [space, host, device] =
            ["gateway", "host", "device"].map(|role| Namespace::create(role).expect("a namespace"));
        space
            .batch(&[
                format!(
                    "link add name field type veth peer name eth0 address {} netns {}",
                    EthernetAddress(HOST),
                    host.name()
                ),
                format!(
                    "link add name uplink mtu 1550 type veth peer name eth0 mtu 1550 netns {}",
                    device.name()
                ),
                "link set dev field up".into(),
                "link set dev uplink up".into(),
            ])
            .expect("links");
        host.batch(&["addr add 10.9.0.2/24 dev eth0".into(), "link set dev eth0 up".into()])
            .expect("a machine");
        device.batch(&["link set dev eth0 up".into()]).expect("a cable");
        let files = std::env::temp_dir().join(format!("antedate-device-{}", std::process::id()));
        let _ = fs::remove_dir_all(&files);
        fs::create_dir_all(&files).expect("a directory for the files");
        fs::set_permissions(&files, fs::Permissions::from_mode(0o700)).expect("its mode");
        let key = files.join("cak");
        fs::write(&key, "mka_cak=000102030405060708090a0b0c0d0e0f\nmka_ckn=616263\n").expect("the CAK");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("its mode");
        let (file, socket) = (files.join("gateway.toml"), files.join("gateway.sock"));
        let text = format!(
            "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
             [macsec]\ncak_file = \"{}\"\n{macsec}\n[policy]\nallow = [\"arp\", \"ipv4\"]\n\
             [run]\npoll = \"block\"\nmax_age_cyclic_ms = 1000\n[control]\nsocket = \"{}\"\n",
            key.display(),
            socket.display()
        );
        fs::write(&file, text).expect("the configuration is written");
        let open = |space: &Namespace, port: &'static str, outgoing| {
            let options = Options { promiscuous: true, outgoing, ..Options::default() };
            space.run(move || PacketSocket::open(port, options)).expect("a thread").expect("a socket")
        };
        let machine = open(&host, "eth0", false);
        let (cable, outsider) = (open(&device, "eth0", true), open(&space, "uplink", false));
        let mut gateway = Daemon::new(file, socket);
        gateway.start(&space);
        Self { gateway, _space: space, host, device, machine, cable, outsider, files }
    }

    fn macsec(&self) -> Macsec {
        let status = self.gateway.ask(Request::Status {}).status.expect("a status");
        status.macsec.expect("MACsec is in use")
    }

    /// Pings the device with this number, until it answers or `patience` is over.
    fn answers(&self, number: u16, patience: Duration) -> bool {
        self.machine.send(&ping(number)).expect("the ping is sent");
        let end = Instant::now() + patience;
        let mut buffer = vec![0; 2048];
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            let _ = self.machine.wait(left.as_nanos() as u64);
            while let Ok(Some(len)) = self.machine.receive(&mut buffer, false) {
                if is_answer(&buffer[..len], number) {
                    return true;
                }
            }
        }
        false
    }

    fn until_it_answers(&self) {
        let end = Instant::now() + PATIENCE;
        while !self.answers(u16::MAX, Duration::from_millis(100)) {
            assert!(Instant::now() < end, "no ping is answered: {:?}", self.macsec());
        }
    }

    /// The frames on the cable until now.
    fn recorded(&self) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 2048];
        std::iter::from_fn(|| {
            let len = self.cable.receive(&mut buffer, false).ok()??;
            Some(buffer[..len].to_vec())
        })
        .collect()
    }

    /// A connection from the machine to the device.
    fn connect(&self) -> TcpStream {
        let to = SocketAddr::from(([10, 9, 0, 1], ECHO));
        let connection = self.host.run(|| TcpStream::connect_timeout(&to, PATIENCE)).expect("a thread");
        let connection = connection.expect("a connection");
        connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        connection.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        connection
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.gateway.stop();
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// An ICMP echo request of the machine to the device.
fn ping(number: u16) -> Vec<u8> {
    let sum = |octets: &[u8]| {
        let words = octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let sum = words.sum::<u32>();
        (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
    };
    let mut frame = [DEVICE, HOST].concat();
    frame.extend([8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 1, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
    frame.extend([8, 0, 0, 0, 0x2a, 0x2a]);
    frame.extend(number.to_be_bytes());
    frame.extend([0x55; 32]);
    let (ip, icmp) = (sum(&frame[14..34]), sum(&frame[34..]));
    frame[24..26].copy_from_slice(&ip);
    frame[36..38].copy_from_slice(&icmp);
    frame
}

fn is_answer(frame: &[u8], number: u16) -> bool {
    let is = |at: usize, octets: &[u8]| frame.get(at..at + octets.len()) == Some(octets);
    is(6, &DEVICE)
        && is(23, &[1])
        && is(34, &[0, 0])
        && is(38, &[0x2a, 0x2a])
        && is(40, &number.to_be_bytes())
}

fn device_answers_through_a_gateway() {
    let bench = Bench::build("mka_priority = 16");
    let running = Running::start(&bench.device, CAK);
    let start = Instant::now();
    bench.until_it_answers();
    println!("   the first ping is answered {:?} after the device's start", start.elapsed());
    let start = Instant::now();
    for number in 0..200 {
        assert!(bench.answers(number, Duration::from_secs(1)), "ping {number} is lost");
    }
    println!("   a ping takes {:?} on average", start.elapsed() / 200);
    // More than both windows, in frames of full length.
    let sent: Vec<u8> = (0..300_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut connection = bench.connect();
    let mut other = connection.try_clone().expect("a second handle");
    let octets = sent.clone();
    let writer = thread::spawn(move || other.write_all(&octets).expect("all is sent"));
    let mut came = vec![0; sent.len()];
    connection.read_exact(&mut came).expect("all comes back");
    writer.join().expect("the writer ends");
    assert!(came == sent, "other octets come back");
    // All on the cable is MACsec or MKA, and shows nothing.
    let recorded = bench.recorded();
    assert!(recorded.iter().all(|frame| [MACSEC, EAPOL].contains(&[frame[12], frame[13]])));
    assert!(recorded.iter().any(|frame| frame.len() > 1500), "frames of full length");
    assert!(!recorded.iter().any(|frame| frame.windows(16).any(|window| window == [0x55; 16])));
    let Said { counters, status } = running.said();
    assert!(!status.is_key_server && status.members[0].antedate && status.fault.is_none(), "{status:?}");
    assert_eq!(counters.receive.discarded() - counters.receive.in_pkts_not_using_sa, 0, "{counters:?}");
    let share = counters.transmit.out_prepared as f64 / counters.transmit.out_pkts_encrypted as f64;
    println!("   {:.1} % of the device's frames were prepared", 100.0 * share);
    let gateway = bench.macsec().counters;
    assert_eq!((gateway["InPktsNotValid"], gateway["InPktsLate"], gateway["InPktsBadTag"]), (0, 0, 0));
}

fn key_changes_lose_no_ping() {
    let bench = Bench::build("mka_priority = 16\nmka_rekey_seconds = 10");
    let running = Running::start(&bench.device, CAK);
    bench.until_it_answers();
    let mut connection = bench.connect();
    let before = running.said().status.fresh_keys;
    let (start, mut number, mut longest) = (Instant::now(), 0, Duration::ZERO);
    while start.elapsed() < Duration::from_secs(25) {
        number += 1;
        assert!(bench.answers(number, Duration::from_secs(1)), "ping {number} is lost: {:?}", running.said());
        let before = Instant::now();
        let (said, mut heard) = (number.to_be_bytes(), [0; 2]);
        connection.write_all(&said).expect("it is sent");
        connection.read_exact(&mut heard).expect("it comes back");
        assert_eq!(heard, said);
        longest = longest.max(before.elapsed());
        thread::sleep(Duration::from_millis(10));
    }
    let said = running.said();
    println!(
        "   {number} pings and echoes, {} keys, an echo took {longest:?} at most",
        said.status.fresh_keys
    );
    assert!(said.status.fresh_keys >= before + 2, "{:?}", said.status);
    assert_eq!((said.counters.keys_refused, said.counters.receive.in_pkts_not_valid), (0, 0));
}

fn recordings_and_forgeries_are_refused() {
    let bench = Bench::build("mka_priority = 16");
    let running = Running::start(&bench.device, CAK);
    bench.until_it_answers();
    let _ = bench.recorded();
    assert!(bench.answers(1, Duration::from_secs(1)));
    let recorded = bench.recorded();
    let to_device = |frame: &&Vec<u8>| frame[..6] == DEVICE && frame[12..14] == MACSEC;
    let genuine = recorded.iter().find(to_device).expect("the protected ping");
    // Number and ICV: a forger knows the next number.
    let mut ahead = genuine.clone();
    ahead[17..20].copy_from_slice(&[0, 1, 0]);
    let before = running.said().counters;
    let send = |frame: &[u8]| bench.outsider.send(frame).expect("it is sent");
    (0..10).for_each(|_| send(genuine));
    for at in 20..ahead.len() {
        let mut forged = ahead.clone();
        forged[at] ^= 0x40;
        send(&forged);
    }
    (0..10).for_each(|_| send(&ping(1)));
    thread::sleep(Duration::from_millis(300));
    let mut buffer = vec![0; 2048];
    while let Ok(Some(len)) = bench.machine.receive(&mut buffer, false) {
        assert!(!is_answer(&buffer[..len], 1), "a ping is answered twice");
    }
    // Neither the cable nor the machine shows an answer to any of them.
    let mut answers = bench.recorded().into_iter().filter(|frame| frame[6..12] == DEVICE);
    assert!(answers.all(|frame| frame[12..14] == EAPOL), "the device answers");
    let (before, after) = (before.receive, running.said().counters.receive);
    assert_eq!(after.in_pkts_ok, before.in_pkts_ok, "{after:?}");
    assert!(after.in_pkts_late >= before.in_pkts_late + 10, "{after:?}");
    assert!(after.in_pkts_no_tag >= before.in_pkts_no_tag + 10, "{after:?}");
    assert!(after.in_pkts_not_valid > before.in_pkts_not_valid + 50, "{after:?}");
    assert!(bench.answers(2, Duration::from_secs(1)), "and it still works");
}

fn device_without_the_cak_is_deaf() {
    let bench = Bench::build("mka_priority = 16");
    let running = Running::start(&bench.device, [7; 16]);
    (0..30).for_each(|number| assert!(!bench.answers(number, Duration::from_millis(100))));
    let said = running.said();
    assert!(said.status.members.is_empty() && said.status.received == 0, "{:?}", said.status);
    assert_eq!(said.counters.transmit.out_pkts_encrypted + said.counters.receive.delivered(), 0);
    let mut sent = bench.recorded().into_iter().filter(|frame| frame[6..12] == DEVICE).peekable();
    assert!(sent.peek().is_some() && sent.all(|frame| frame[12..14] == EAPOL));
    drop(running);
    let _with_the_cak = Running::start(&bench.device, CAK);
    bench.until_it_answers();
}

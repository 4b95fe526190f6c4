//! Gateways with key agreement: each with a machine behind it, all uplinks on one bridge.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::run::control::{Reply, Request};
use antedate_gateway::run::status::{Agreement, Macsec, Status};
use antedate_lab::ns::Namespace;
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_wire::echo::is_between_gateways;

use crate::daemon::Daemon;

/// Bound of the agreement, longer for each member.
const PATIENCE: Duration = Duration::from_secs(10);
const EACH: Duration = Duration::from_millis(500);

/// The default CAK.
pub(crate) const CAK: &str = "000102030405060708090a0b0c0d0e0f";

/// Associations of this process: each has files of its own.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A gateway and its machine.
pub(crate) struct Member {
    pub(crate) machine: PacketSocket,
    pub(crate) gateway: Gateway,
    /// The namespace of the machine, whose port is `eth0`.
    #[allow(dead_code, reason = "each test program compiles this module; one alone reads it")]
    pub(crate) place: Namespace,
}

/// All members.
pub(crate) struct Association {
    pub(crate) members: Vec<Member>,
    pub(crate) wire: Namespace,
    /// A second way between the gateways, if there is one.
    pub(crate) second: Option<Namespace>,
    files: PathBuf,
    /// Its number in this process.
    id: u32,
}

impl Association {
    /// Builds this many gateways, with more lines for `[macsec]`. The lowest number is preferred as
    /// key server.
    pub(crate) fn build(count: usize, macsec: &str) -> Self {
        // Bit 3 lets MKA's group address pass, like a two-port relay between buildings.
        let mut association = Self::with_bridge("0x4008");
        for number in 0..count {
            association.add(&format!("mka_priority = {}\n{macsec}", 10 + number), CAK);
        }
        association
    }

    /// No gateway yet, and two ordinary switches: each gateway gets a second port, `second`, to the
    /// other one.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn with_two_ways() -> Self {
        let mut association = Self::with_bridge("0");
        association.second = Some(switch(&format!("second{}", association.id), "0"));
        association
    }

    /// No gateway yet, and an ordinary switch.
    pub(crate) fn switched() -> Self {
        Self::with_bridge("0")
    }

    fn with_bridge(mask: &str) -> Self {
        let id = COUNT.fetch_add(1, Ordering::Relaxed);
        let files = std::env::temp_dir().join(format!("antedate-members-{}-{id}", std::process::id()));
        let _ = fs::remove_dir_all(&files);
        fs::create_dir_all(&files).expect("a directory for the files");
        fs::set_permissions(&files, fs::Permissions::from_mode(0o700)).expect("its mode");
        let wire = switch(&format!("wire{id}"), mask);
        Self { members: Vec::new(), wire, second: None, files, id }
    }

    /// Adds a stopped gateway. A busy machine may stop it for more than the usual 100 ms.
    pub(crate) fn add(&mut self, macsec: &str, cak: &str) {
        let text = format!(
            "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
             [macsec]\ncak_file = \"CAK\"\n{macsec}\n[policy]\nallow = [\"profinet-rt\", \"lldp\"]\n\
             [run]\npoll = \"block\"\nmax_age_cyclic_ms = 1000\n"
        );
        self.add_configured(&text, cak);
    }

    /// Adds a stopped gateway with this configuration, whose `CAK` stands for the file of the key.
    pub(crate) fn add_configured(&mut self, text: &str, cak: &str) {
        let number = self.members.len();
        let [gateway, machine] = ["g", "m"]
            .map(|role| Namespace::create(&format!("{role}{number}-{}", self.id)).expect("a namespace"));
        gateway
            .batch(&[
                format!(
                    "link add name field address 02:00:5e:00:01:{number:02x} type veth peer name eth0 address \
                     02:00:5e:00:02:{number:02x} netns {}",
                    machine.name()
                ),
                format!(
                    "link add name uplink mtu 1550 address 02:00:5e:00:03:{number:02x} type veth peer name p{number} mtu 1550 netns {}",
                    self.wire.name()
                ),
                "link set dev field up".into(),
                "link set dev uplink up".into(),
            ])
            .expect("links");
        machine.batch(&["link set dev eth0 up".into()]).expect("a link");
        self.wire
            .batch(&[format!("link set dev p{number} master br0"), format!("link set dev p{number} up")])
            .expect("a port of the bridge");
        if let Some(second) = &self.second {
            let name = second.name();
            gateway
                .batch(&[
                    format!(
                        "link add name second mtu 1550 address 02:00:5e:00:04:{number:02x} type veth peer name p{number} mtu 1550 netns {name}"
                    ),
                    "link set dev second up".into(),
                ])
                .expect("a second port");
            second
                .batch(&[format!("link set dev p{number} master br0"), format!("link set dev p{number} up")])
                .expect("a port of the second switch");
        }
        let options = Options { promiscuous: true, ..Options::default() };
        let socket =
            machine.run(|| PacketSocket::open("eth0", options)).expect("a thread").expect("a socket");
        let gateway = Gateway::new(gateway, &self.files, number, text, cak);
        self.members.push(Member { machine: socket, gateway, place: machine });
    }

    pub(crate) fn start_all(&mut self) {
        self.members.iter_mut().for_each(|member| member.gateway.start());
    }

    /// Waits until these members transmit with one key.
    pub(crate) fn until_agreed(&self, numbers: &[usize]) -> Duration {
        let start = Instant::now();
        loop {
            let all: Vec<_> =
                numbers.iter().map(|number| self.members[*number].gateway.agreement()).collect();
            let key = |agreement: &Agreement| {
                let used = agreement.keys.first().filter(|key| key.transmits);
                used.map(|key| key.key.clone())
            };
            let first = all.first().and_then(key);
            let live = |agreement: &Agreement| agreement.members.iter().filter(|member| member.live).count();
            if first.is_some() && all.iter().all(|one| key(one) == first && live(one) + 1 == numbers.len()) {
                return start.elapsed();
            }
            let patience = PATIENCE + EACH * numbers.len() as u32;
            assert!(start.elapsed() < patience, "no agreement: {all:#?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a frame from one machine and expects it at another.
    pub(crate) fn crosses(&self, from: usize, to: usize, mark: u8) {
        let frame = frame(from, to, u32::from(mark));
        // A port that was down has an error for the first send.
        let machine = &self.members[from].machine;
        machine.send(&frame).or_else(|_| machine.send(&frame)).expect("the frame is sent");
        let came = self.next(to, Duration::from_secs(3));
        assert_eq!(came.as_deref(), Some(&frame[..]), "{from} to {to}");
    }

    /// A socket on the second gateway's port of the switch: hears what goes there, and what it sends
    /// goes there.
    pub(crate) fn on_the_wire(&self) -> PacketSocket {
        let options = Options { promiscuous: true, outgoing: true, ..Options::default() };
        self.wire.run(|| PacketSocket::open("p1", options)).expect("a thread").expect("a socket")
    }

    /// Limits the uplinks of stopped gateways to this MTU.
    pub(crate) fn narrow(&mut self, mtu: usize) {
        for (number, member) in self.members.iter().enumerate() {
            member.gateway.space.batch(&[format!("link set dev uplink mtu {mtu}")]).expect("an MTU");
            self.wire.batch(&[format!("link set dev p{number} mtu {mtu}")]).expect("an MTU");
        }
    }

    /// Sends a full frame from one machine until it arrives at another: members may not yet know
    /// after the agreement that the others accept fragments.
    pub(crate) fn crosses_whole(&self, from: usize, to: usize, mark: u32) {
        let mut whole = frame(from, to, mark);
        whole.resize(1514, 0);
        let end = Instant::now() + Duration::from_secs(3);
        loop {
            self.members[from].machine.send(&whole).expect("the frame is sent");
            while let Some(came) = self.next(to, Duration::from_millis(100)) {
                if came == whole {
                    return;
                }
            }
            assert!(Instant::now() < end, "no frame of full length crosses from {from} to {to}");
        }
    }

    /// The next frame at a machine, apart from those between gateways.
    pub(crate) fn next(&self, number: usize, patience: Duration) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 2048];
        let end = Instant::now() + patience;
        loop {
            if let Ok(Some(received)) = self.members[number].machine.receive_with_metadata(&mut buffer) {
                let frame = &buffer[..received.len];
                if !is_between_gateways(frame) {
                    return Some(frame.to_vec());
                }
                continue;
            }
            let left = end.checked_duration_since(Instant::now())?;
            let _ = self.members[number].machine.wait(left.as_nanos() as u64);
        }
    }
}

/// A namespace with a switch.
fn switch(name: &str, mask: &str) -> Namespace {
    let wire = Namespace::create(name).expect("a namespace");
    wire.batch(&[
        format!(
            "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 group_fwd_mask {mask}"
        ),
        "link set dev br0 up".into(),
    ])
    .expect("a bridge");
    wire
}

impl Drop for Association {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(|member| member.gateway.stop());
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// A cyclic frame with a number from one machine to another.
pub(crate) fn frame(from: usize, to: usize, number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0x5e, 0, 2, to as u8, 2, 0, 0x5e, 0, 2, from as u8, 0x88, 0x92, 0x80, 0x01];
    frame.extend(number.to_be_bytes());
    frame.resize(64, 0);
    frame
}

/// The numbers of lost frames, as ranges.
#[derive(PartialEq, Eq)]
pub(crate) struct Lost(pub(crate) Vec<u32>);

impl std::fmt::Debug for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges = self.0.chunk_by(|a, b| a + 1 == *b);
        f.debug_list().entries(ranges.filter_map(|range| Some(*range.first()?..=*range.last()?))).finish()
    }
}

/// No frame is lost.
pub(crate) const NONE: Lost = Lost(Vec::new());

/// Sends a frame every millisecond for this time, with actions at certain seconds. Returns the
/// number of frames sent, and the lost ones.
pub(crate) fn load(
    association: &mut Association,
    (from, to): (usize, usize),
    seconds: u64,
    mut at: impl FnMut(u64, &mut Association),
) -> (u32, Lost) {
    let start = Instant::now();
    let (mut sent, mut done, mut came) = (0u32, 0, Vec::new());
    let collect = |association: &Association, came: &mut Vec<u32>, patience| {
        while let Some(frame) = association.next(to, patience) {
            if let Some(number) = frame.get(16..20).and_then(<[u8]>::first_chunk) {
                came.push(u32::from_be_bytes(*number));
            }
        }
    };
    while start.elapsed() < Duration::from_secs(seconds) {
        let due = start + Duration::from_millis(sent.into());
        if let Some(pause) = due.checked_duration_since(Instant::now()) {
            thread::sleep(pause);
        }
        association.members[from].machine.send(&frame(from, to, sent)).expect("the frame is sent");
        sent += 1;
        collect(association, &mut came, Duration::ZERO);
        if start.elapsed().as_secs() > done {
            done += 1;
            at(done, association);
        }
    }
    collect(association, &mut came, Duration::from_millis(300));
    came.sort_unstable();
    came.dedup();
    (sent, Lost((0..sent).filter(|number| came.binary_search(number).is_err()).collect()))
}

/// A gateway in a namespace.
pub(crate) struct Gateway {
    space: Namespace,
    daemon: Daemon,
    key: PathBuf,
}

impl Gateway {
    fn new(space: Namespace, files: &std::path::Path, number: usize, text: &str, cak: &str) -> Self {
        let key = files.join(format!("cak-{number}"));
        fs::write(&key, format!("mka_cak={cak}\nmka_ckn=616263\n")).expect("the CAK is written");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("its mode");
        let (file, socket) = (files.join(format!("{number}.toml")), files.join(format!("{number}.sock")));
        let text = text.replace("CAK", &key.display().to_string());
        let text = format!("{text}\n[control]\nsocket = \"{}\"\n", socket.display());
        fs::write(&file, text).expect("the configuration is written");
        Self { space, daemon: Daemon::new(file, socket), key }
    }

    /// Starts it with its configuration and CAK, and without earlier state.
    pub(crate) fn start(&mut self) {
        self.daemon.start(&self.space);
    }

    /// Stops it without notice: MKA has no farewell.
    pub(crate) fn stop(&mut self) {
        self.daemon.stop();
    }

    /// Sets one of its ports up or down.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn set_link(&self, port: &str, up: bool) {
        self.space.set_link(port, up).expect("a link");
    }

    /// Writes its file of CAKs.
    pub(crate) fn write_caks(&self, text: &str) {
        fs::write(&self.key, text).expect("the CAKs are written");
    }

    /// Writes its file of CAKs, and has it read.
    pub(crate) fn reload(&self, text: &str) -> Reply {
        self.write_caks(text);
        self.ask(Request::Reload {})
    }

    /// Its configuration.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn file(&self) -> &std::path::Path {
        self.daemon.file()
    }

    /// Changes the text of its configuration, without having it read.
    #[allow(dead_code, reason = "each test program compiles this module; one alone calls it")]
    pub(crate) fn edit(&self, before: &str, changed: &str) {
        self.daemon.edit(before, changed);
    }

    pub(crate) fn ask(&self, request: Request) -> Reply {
        self.daemon.ask(request)
    }

    /// The names of the conditions that last.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let reply = self.daemon.ask(Request::Status {});
        reply
            .status
            .map(|status| status.warnings.into_iter().map(|warning| warning.name).collect())
            .unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Status {
        *self.daemon.ask(Request::Status {}).status.expect("a status")
    }

    pub(crate) fn macsec(&self) -> Macsec {
        self.status().macsec.expect("MACsec is in use")
    }

    pub(crate) fn agreement(&self) -> Agreement {
        self.macsec().agreement.unwrap_or_default()
    }
}

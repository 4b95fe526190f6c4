//! Sites behind an overlay: a chain of namespaces with IP addresses on the uplinks. The far end is
//! Antedate, or kernel VXLAN over wireguard-go behind a bridge.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::config::tunnel_keys::{Kind, Secret, encode, generate, public_of, write_new};
use antedate_lab::ns::{Chain, ChainOptions, Namespace};

use crate::plant::{Gateway, Port};

/// Options of a test.
#[derive(Clone, Copy)]
pub(crate) struct Settings<'a> {
    /// More lines of `[overlay]`.
    pub(crate) overlay: &'a str,
    /// More lines of the peer.
    pub(crate) peer: &'a str,
    pub(crate) policy: &'a str,
    pub(crate) preshared: bool,
    pub(crate) wire_mtu: u32,
    pub(crate) wire: Wire,
    pub(crate) far: Far,
}

/// The network between the uplinks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// One network, over a bridge, which sends no ICMP.
    Bridge,
    BridgeV6,
    /// Two networks, with a router between them.
    Router,
    RouterV6,
}

impl Wire {
    fn is_v6(self) -> bool {
        matches!(self, Self::BridgeV6 | Self::RouterV6)
    }

    /// The address of an end, 1 or 2, without its prefix length.
    fn address(self, end: u8) -> String {
        match self {
            Self::Bridge => format!("192.0.2.{end}"),
            Self::BridgeV6 => format!("2001:db8::{end}"),
            Self::Router => format!("{}.1", ["192.0.2", "198.51.100"][usize::from(end - 1)]),
            Self::RouterV6 => format!("2001:db8:{end}::1"),
        }
    }

    /// The UDP address of an end.
    pub(crate) fn endpoint(self, end: u8) -> String {
        let address = self.address(end);
        if self.is_v6() { format!("[{address}]:51820") } else { format!("{address}:51820") }
    }

    /// Connects the uplinks of a chain.
    fn build(self, chain: &Chain) {
        let wire = chain.wire.as_ref().expect("a wire");
        let ends = [&chain.gateway_a, &chain.gateway_b];
        if self.is_v6() {
            for space in ends.into_iter().chain([wire]) {
                let off = "net.ipv6.conf.field.disable_ipv6=1";
                for set in ["net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.all.accept_dad=0", off] {
                    let _ = run(space, &["sysctl", "-qw", set]);
                }
            }
        }
        let routed = matches!(self, Self::Router | Self::RouterV6);
        if !routed {
            chain.bridge_wire().expect("a bridge as wire");
        }
        let (length, nodad) = if self.is_v6() { (64, " nodad") } else { (24, "") };
        for ((space, port), end) in ends.into_iter().zip(["a", "b"]).zip(1..) {
            let own = self.address(end);
            let mut lines = vec![format!("addr add {own}/{length} dev uplink{nodad}")];
            if routed {
                let last = if self.is_v6() { "fe" } else { "254" };
                let router = format!("{}{last}", &own[..own.len() - 1]);
                wire.batch(&[format!("addr add {router}/{length} dev {port}{nodad}")]).expect("a router");
                lines.push(format!("route add default via {router}"));
            }
            space.batch(&lines).expect("an address");
        }
        if routed {
            for set in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
                run(wire, &["sysctl", "-qw", set]).expect("a router");
            }
        }
    }
}

/// The far end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Far {
    Antedate,
    WireguardGo,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Self {
            overlay: "",
            peer: "",
            policy: "allow = [\"all\"]",
            preshared: false,
            wire_mtu: 1500,
            wire: Wire::Bridge,
            far: Far::Antedate,
        }
    }
}

/// Both sites and the wire; removed on drop.
pub(crate) struct Sites {
    pub(crate) plc: Port,
    pub(crate) device: Port,
    pub(crate) near: Gateway,
    pub(crate) far: Option<Gateway>,
    pub(crate) stock: Option<Stock>,
    pub(crate) chain: Chain,
    pub(crate) keys: [Secret; 2],
    pub(crate) files: PathBuf,
}

/// A fixed key.
fn key(kind: Kind, seed: u8) -> Secret {
    let fill = |octets: &mut [u8]| {
        octets
            .iter_mut()
            .enumerate()
            .for_each(|(at, octet)| *octet = seed.wrapping_add(37u8.wrapping_mul(at as u8)));
        Ok::<_, ()>(())
    };
    generate(kind, fill).expect("a key")
}

/// Configuration of one end.
pub(crate) fn configuration(
    files: &Path,
    name: &str,
    ends: [u8; 2],
    peer_key: &Secret,
    settings: &Settings<'_>,
) -> String {
    let [own, other] = ends;
    let Settings { overlay, peer, policy, wire, .. } = settings;
    let (listen, endpoint) =
        (if wire.is_v6() { "listen = \"[::]:51820\"\n" } else { "" }, wire.endpoint(other));
    let peer = peer.replace("OTHER", &other.to_string());
    let preshared = if settings.preshared { "preshared_key_file = \"psk\"\n" } else { "" };
    format!(
        "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
         [overlay]\nprivate_key_file = \"{name}.key\"\naddress = \"10.66.0.{own}\"\nvni = 42\n{listen}{overlay}\n\
         [[overlay.peer]]\nname = \"far\"\npublic_key = \"{}\"\nendpoint = \"{endpoint}\"\n\
         address = \"10.66.0.{other}\"\n{preshared}{peer}\n[policy]\n{policy}\n[run]\npoll = \"block\"\n\
         max_age_cyclic_ms = 1000\n\
         [control]\nsocket = \"{}\"\n",
        *encode(&public_of(peer_key)),
        files.join(format!("{name}.sock")).display()
    )
}

impl Sites {
    pub(crate) fn build(settings: &Settings<'_>) -> Self {
        let chain = Chain::build(ChainOptions { wire_mtu: settings.wire_mtu, ..ChainOptions::default() });
        let chain = chain.expect("the chain is built");
        settings.wire.build(&chain);
        if settings.overlay.contains("second_uplink") {
            let pair =
                format!("link add name second type veth peer name second netns {}", chain.gateway_b.name());
            chain.gateway_a.batch(&[pair]).expect("another way");
            for (space, last) in [(&chain.gateway_a, 1), (&chain.gateway_b, 2)] {
                let address = format!("addr add 198.51.100.{last}/24 dev second");
                space.batch(&[address, "link set dev second up".into()]).expect("an address there");
            }
        }
        let files = std::env::temp_dir().join(format!("antedate-overlay-{}", std::process::id()));
        let _ = fs::remove_dir_all(&files);
        fs::create_dir_all(&files).expect("a directory for the files");
        fs::set_permissions(&files, fs::Permissions::from_mode(0o700)).expect("its mode");
        let keys = [key(Kind::Private, 1), key(Kind::Private, 2)];
        write_new(&files.join("a.key"), &keys[0]).expect("a key file");
        write_new(&files.join("b.key"), &keys[1]).expect("a key file");
        write_new(&files.join("psk"), &key(Kind::Preshared, 3)).expect("a key file");
        let text = configuration(&files, "a", [1, 2], &keys[1], settings);
        let near = Gateway::with(&chain.gateway_a, &files, "a", &text);
        let (far, stock) = match settings.far {
            Far::Antedate => {
                let text = configuration(&files, "b", [2, 1], &keys[0], settings);
                (Some(Gateway::with(&chain.gateway_b, &files, "b", &text)), None)
            }
            Far::WireguardGo => (None, Some(Stock::start(&chain.gateway_b, &files, &keys, settings))),
        };
        let (plc, device) = (Port::open(&chain.plc, "eth0"), Port::open(&chain.device, "eth0"));
        Self { plc, device, near, far, stock, chain, keys, files }
    }

    /// Sends a frame from one side until it arrives at the other.
    pub(crate) fn until_it_crosses(&self, from: &Port, to: &Port, frame: &[u8]) {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            from.try_send(frame);
            if to.next(Duration::from_millis(200)).as_deref() == Some(frame) {
                while to.next(Duration::from_millis(50)).is_some() {}
                return;
            }
        }
        panic!("nothing crosses: {:?}", self.near.status().overlay);
    }
}

impl Drop for Sites {
    fn drop(&mut self) {
        self.near.stop();
        if let Some(far) = &mut self.far {
            far.stop();
        }
        self.stock = None;
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// Runs a program in a namespace to its end. Returns its output.
pub(crate) fn run(space: &Namespace, words: &[&str]) -> Result<String, String> {
    let output =
        Command::new("ip").args(["netns", "exec", space.name()]).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{words:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    Err(format!("{words:?}: {said}{}", String::from_utf8_lossy(&output.stderr)))
}

/// The missing requirement of the stock end, if any.
pub(crate) fn stock_is_missing() -> Option<String> {
    let runs = |name: &str| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    let missing: Vec<&str> = ["wireguard-go", "wg"].into_iter().filter(|name| !runs(name)).collect();
    if !missing.is_empty() {
        return Some(format!(
            "{} not found: apt-get install wireguard-go wireguard-tools",
            missing.join(", ")
        ));
    }
    (!Path::new("/dev/net/tun").exists()).then(|| "no /dev/net/tun".to_owned())
}

/// Kernel VXLAN over wireguard-go, bridged to the field.
pub(crate) struct Stock {
    process: Child,
    name: String,
}

impl Stock {
    pub(crate) fn start(
        space: &Namespace,
        files: &Path,
        keys: &[Secret; 2],
        settings: &Settings<'_>,
    ) -> Self {
        // Its control socket is in the file system, which all namespaces share.
        let name = format!("wg{}", std::process::id());
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space.name(), "wireguard-go", "--foreground", &name]);
        command.env("LOG_LEVEL", "error").stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn().expect("wireguard-go starts");
        let stock = Self { process, name };
        let end = Instant::now() + Duration::from_secs(5);
        while run(space, &["ip", "link", "show", &stock.name]).is_err() {
            assert!(Instant::now() < end, "wireguard-go does not start");
            thread::sleep(Duration::from_millis(20));
        }
        let (key, psk) = (files.join("b.key"), files.join("psk"));
        let (key, psk) = (key.display().to_string(), psk.display().to_string());
        let public = encode(&public_of(&keys[0])).to_string();
        let mut words =
            vec!["wg", "set", &stock.name, "listen-port", "51820", "private-key", &key, "peer", &public];
        if settings.preshared {
            words.extend(["preshared-key", &psk]);
        }
        let near = settings.wire.endpoint(1);
        words.extend(["endpoint", &near, "allowed-ips", "10.66.0.1/32"]);
        run(space, &words).expect("wg");
        let name = &stock.name;
        let lines = [
            format!("addr add 10.66.0.2/24 dev {name}"),
            format!("link set dev {name} mtu 1420 up"),
            "link add vx0 type vxlan id 42 local 10.66.0.2 remote 10.66.0.1 dstport 4789".to_owned(),
            "link set dev vx0 mtu 1500".to_owned(),
        ];
        space.batch(&lines).expect("VXLAN");
        space.bridge(&["field", "vx0"]).expect("a bridge");
        space.batch(&["link set dev vx0 up".to_owned()]).expect("VXLAN is up");
        stock
    }

    /// Its interface.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(format!("/var/run/wireguard/{}.sock", self.name));
    }
}

//! Gateways as processes in network namespaces: what stalls, signals and the host do to them.

#[path = "../../lab/tests/harness/mod.rs"]
mod harness;
#[path = "processes/listening.rs"]
mod listening;
#[path = "processes/memory.rs"]
mod memory;
#[path = "processes/retired.rs"]
mod retired;
#[path = "processes/rights.rs"]
mod rights;
#[path = "processes/snapshot.rs"]
mod snapshot;
#[path = "processes/tunnel.rs"]
mod tunnel;
#[path = "processes/watching.rs"]
mod watching;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use antedate_lab::ns::{Chain, ChainOptions, Namespace};
use antedate_lab::process::{Place, Process};
use antedate_lab::sys::packet::{Options, PacketSocket};

const TESTS: &[harness::Test] = &[
    ("no_stale_frame_leaves_after_a_stall", no_stale_frame_leaves_after_a_stall),
    ("second_sender_with_a_key_is_refused", second_sender_with_a_key_is_refused),
    ("changes_of_the_host_are_told", changes_of_the_host_are_told),
    ("only_documented_signals_end_it", only_documented_signals_end_it),
    ("retired_key_leaves_memory", memory::retired_key_leaves_memory),
    ("ended_dtls_session_leaves_memory", retired::ended_dtls_session_leaves_memory),
    ("retired_group_key_leaves_memory", retired::retired_group_key_leaves_memory),
    ("retired_tunnel_keys_leave_memory", tunnel::retired_tunnel_keys_leave_memory),
    ("gateway_ends_after_a_snapshot", snapshot::gateway_ends_after_a_snapshot),
    ("gateway_gives_up_rights", rights::gateway_gives_up_rights),
    ("status_is_watched", watching::status_is_watched),
    ("interface_is_inspected", listening::interface_is_inspected),
];
const ANTEDATE: &str = env!("CARGO_BIN_EXE_antedate");
/// A frame of a cyclic flow, and one of another kind, without their numbers.
const HEADS: [[u8; 16]; 2] = [
    [2, 0, 0x5e, 0, 0, 2, 2, 0, 0x5e, 0, 0, 1, 0x88, 0x92, 0x80, 0x01],
    [2, 0, 0x5e, 0, 0, 2, 2, 0, 0x5e, 0, 0, 1, 0x88, 0xb5, 0, 0],
];
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    harness::run("gateways as processes", TESTS)
}

fn antedate(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(ANTEDATE).args(arguments).output().expect("antedate runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

fn signal(process: &Process, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.pid().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name}");
}

/// Stops a process, and waits until all its threads stand still: on a busy machine the first of them
/// sees the signal late.
fn stop(process: &Process) {
    signal(process, "STOP");
    let tasks = format!("/proc/{}/task", process.pid());
    let still = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))
    };
    let end = Instant::now() + PATIENCE;
    while !fs::read_dir(&tasks).expect("its threads").flatten().all(still) {
        assert!(Instant::now() < end, "it does not stop");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A chain with two gateways.
struct Site {
    chain: Chain,
    files: PathBuf,
    gateways: [Process; 2],
}

impl Site {
    /// Gateways with this protection: the section of `a`, then that of `b`.
    fn build_in(files: PathBuf, sections: [String; 2]) -> Self {
        let chain =
            Chain::build(ChainOptions { wire_mtu: 1600, ..ChainOptions::default() }).expect("a chain");
        chain.bridge_wire().expect("a bridge as wire");
        for (space, address) in [(&chain.gateway_a, "192.0.2.1"), (&chain.gateway_b, "192.0.2.2")] {
            space.batch(&[format!("address add {address}/24 dev uplink")]).expect("an address");
        }
        let gateways = [("a", &chain.gateway_a), ("b", &chain.gateway_b)];
        let gateways = [0, 1].map(|at| {
            let (name, space) = gateways[at];
            fs::write(files.join(format!("{name}.toml")), configuration(name, &sections[at]))
                .expect("written");
            start(&files, name, space)
        });
        Self { chain, files, gateways }
    }

    /// Gateways with these sections, and with state files for static keys.
    fn with(name: &str, sections: [String; 2]) -> Self {
        let files = directory(name);
        if name == "macsec" {
            for (at, name) in ["a", "b"].into_iter().enumerate() {
                let file = files.join(format!("{name}.toml"));
                fs::write(&file, configuration(name, &sections[at])).expect("written");
                let made = antedate(&["gateway", "init", &file.display().to_string()]);
                assert_eq!(made.0, 0, "{}", made.1);
            }
        }
        Self::build_in(files, sections)
    }

    fn port(space: &Namespace) -> PacketSocket {
        let options = Options { promiscuous: true, ..Options::default() };
        space.run(|| PacketSocket::open("eth0", options)).expect("a thread").expect("a socket")
    }

    fn log(&mut self, at: usize) -> String {
        self.gateways[at].errors().join("\n")
    }

    /// Waits for a line of a gateway's log.
    fn await_line(&mut self, at: usize, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.log(at).contains(text) {
            assert!(Instant::now() < end, "no line with: {text}\n{}", self.log(at));
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for gateway in &mut self.gateways {
            if gateway.is_running() {
                signal(gateway, "CONT");
            }
            gateway.terminate();
        }
        let _ = fs::remove_dir_all(&self.files);
    }
}

fn directory(name: &str) -> PathBuf {
    let files = std::env::temp_dir().join(format!("antedate-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&files);
    fs::create_dir_all(&files).expect("a directory");
    fs::set_permissions(&files, fs::Permissions::from_mode(0o700)).expect("its mode");
    files
}

fn configuration(name: &str, section: &str) -> String {
    format!(
        "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n{section}\n[policy]\nallow = [\"all\"]\n\
         [state]\ndirectory = \"state-{name}\"\n[control]\nsocket = \"{name}.sock\"\n"
    )
}

fn start(files: &std::path::Path, name: &str, space: &Namespace) -> Process {
    let file = files.join(format!("{name}.toml")).display().to_string();
    let place = Place { namespace: Some(space.file()), ..Place::default() };
    let mut process =
        Process::start(name, &ANTEDATE.into(), &["gateway", "run", &file], &place).expect("it starts");
    let socket = files.join(format!("{name}.sock")).display().to_string();
    let end = Instant::now() + PATIENCE;
    while antedate(&["gateway", "status", "--socket", &socket]).0 != 0 {
        assert!(Instant::now() < end && process.is_running(), "{:?}", process.errors());
        thread::sleep(Duration::from_millis(20));
    }
    process
}

/// Static keys of two members, made in a directory. Returns the sections of both.
fn macsec(files: &std::path::Path) -> [String; 2] {
    let keys = files.join("keys.toml").display().to_string();
    let members = ["a=02:00:5e:00:00:a2", "b=02:00:5e:00:00:b2"];
    let made =
        antedate(&["keygen", "macsec", "--member", members[0], "--member", members[1], "--out", &keys]);
    assert_eq!(made.0, 0, "{}", made.1);
    ["02005e0000a20001", "02005e0000b20001"]
        .map(|sci| format!("[macsec]\nkey_file = \"{keys}\"\nsci = \"{sci}\""))
}

fn overlay(files: &std::path::Path) -> [String; 2] {
    let keys = ["a", "b"].map(|name| {
        let key = files.join(format!("{name}.key")).display().to_string();
        let made = antedate(&["keygen", "wireguard", "--out", &key]);
        assert_eq!(made.0, 0, "{}", made.1);
        let public = made.1.split_whitespace().find(|word| word.len() == 44 && word.ends_with('='));
        (key, public.expect("a public key").to_owned())
    });
    [0, 1].map(|own| {
        let other = 1 - own;
        format!(
            "[overlay]\nprivate_key_file = \"{}\"\naddress = \"10.66.0.{}\"\nvni = 42\n[[overlay.peer]]\nname = \"peer\"\n\
             public_key = \"{}\"\nendpoint = \"192.0.2.{}:51820\"\naddress = \"10.66.0.{}\"",
            keys[own].0,
            own + 1,
            keys[other].1,
            other + 1,
            other + 1
        )
    })
}

fn frame(kind: usize, number: u32) -> Vec<u8> {
    let mut frame = HEADS[kind].to_vec();
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// The kind and number of a frame of this test.
fn read(frame: &[u8]) -> Option<(usize, u32)> {
    let kind = HEADS.iter().position(|head| frame.starts_with(head))?;
    Some((kind, u32::from_be_bytes(*frame.get(16..)?.first_chunk()?)))
}

/// The frames that arrive until none does for a while.
fn arrivals(port: &PacketSocket, quiet: Duration) -> Vec<(usize, u32)> {
    let (mut frames, mut buffer, mut last) = (Vec::new(), vec![0; 2048], Instant::now());
    while last.elapsed() < quiet {
        match port.receive_with_metadata(&mut buffer) {
            Ok(Some(received)) => {
                frames.extend(read(&buffer[..received.len]));
                last = Instant::now();
            }
            _ => drop(port.wait(10_000_000)),
        }
    }
    frames
}

fn no_stale_frame_leaves_after_a_stall() {
    let files = directory("stall-keys");
    let sections = [
        ("macsec", macsec(&files)),
        ("plain", [(); 2].map(|()| "[plain]".to_owned())),
        ("overlay", overlay(&files)),
    ];
    for (name, sections) in sections {
        let mut site = Site::with(name, sections);
        let [plc, device] = [&site.chain.plc, &site.chain.device].map(Site::port);
        let end = Instant::now() + PATIENCE;
        while !arrivals(&device, Duration::from_millis(100)).contains(&(1, 0)) {
            assert!(Instant::now() < end, "{name}: nothing crosses: {}", site.log(0));
            plc.send(&frame(1, 0)).expect("sent");
        }
        for stopped in [0, 1] {
            stop(&site.gateways[stopped]);
            let _ = arrivals(&device, Duration::from_millis(100));
            let begin = Instant::now();
            let mut sent = Vec::new();
            // More than the ring holds, so that the newest are lost.
            for number in 0..1300 {
                for kind in [0, 1] {
                    let _ = plc.send(&frame(kind, number));
                }
                sent.push(begin.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_secs(3).saturating_sub(begin.elapsed()));
            let resumed = begin.elapsed();
            signal(&site.gateways[stopped], "CONT");
            let mut came = Vec::new();
            let end = Instant::now() + PATIENCE;
            while !(0..2).all(|kind| came.contains(&(kind, 5000))) {
                assert!(Instant::now() < end, "{name}, {stopped} stopped: no fresh frame");
                for kind in [0, 1] {
                    let _ = plc.send(&frame(kind, 5000));
                }
                came.extend(arrivals(&device, Duration::from_millis(300)));
            }
            for (kind, number) in came {
                let Some(at) = sent.get(number as usize) else { continue };
                // The bounds, and half a second in the hands of the other gateway.
                let bound = Duration::from_millis([600, 1500][kind]);
                let age = resumed - *at;
                assert!(age <= bound, "{name}, {stopped} stopped: a frame of kind {kind} is {age:?} old");
            }
        }
        site.await_line(0, "frames waited longer than their bound");
    }
    let _ = fs::remove_dir_all(&files);
}

fn second_sender_with_a_key_is_refused() {
    let files = directory("second-keys");
    let sections = macsec(&files);
    let site = Site::with("macsec", sections.clone());
    // A third gateway with the key and SCI of the first, and a state of its own.
    let file = site.files.join("c.toml");
    fs::write(&file, configuration("c", &sections[0])).expect("written");
    let file = file.display().to_string();
    let _ = antedate(&["gateway", "init", &file]);
    let space = &site.chain.gateway_a;
    for verb in ["check", "run"] {
        let place = Place { namespace: Some(space.file()), ..Place::default() };
        let mut process =
            Process::start(verb, &ANTEDATE.into(), &["gateway", verb, &file], &place).expect("it starts");
        assert!(!process.finish(PATIENCE), "{verb} succeeds");
        let _ = process.end();
        let said = process.errors().join("\n");
        assert!(said.contains("another process of this machine sends with"), "{verb}: {said}");
    }
    let _ = fs::remove_dir_all(&files);
}

fn changes_of_the_host_are_told() {
    let mut site = Site::with("plain", [(); 2].map(|()| "[plain]".to_owned()));
    let [plc, device] = [&site.chain.plc, &site.chain.device].map(Site::port);
    let crosses = |number: u32| {
        let _ = plc.send(&frame(1, number));
        arrivals(&device, Duration::from_millis(200)).contains(&(1, number))
    };
    let end = Instant::now() + PATIENCE;
    while !crosses(1) {
        assert!(Instant::now() < end, "nothing crosses: {}", site.log(0));
    }
    let space = |site: &Site, line: &str| site.chain.gateway_a.batch(&[line.to_owned()]).expect(line);
    space(&site, "link add name hbr type bridge");
    space(&site, "link set dev field master hbr");
    site.await_line(0, "field belongs to the bridge hbr");
    space(&site, "link set dev field nomaster");
    site.await_line(0, "the setting is gone");
    space(&site, "address add 198.51.100.7/24 dev field");
    site.await_line(0, "field has addresses of the host (198.51.100.7)");
    // A new name.
    space(&site, "link set dev uplink down");
    space(&site, "link set dev uplink name other");
    space(&site, "link set dev other up");
    site.await_line(0, "a new name, and is followed");
    let end = Instant::now() + PATIENCE;
    while !crosses(2) {
        assert!(Instant::now() < end, "nothing crosses after the renaming: {}", site.log(0));
    }
}

fn only_documented_signals_end_it() {
    let mut site = Site::with("plain", [(); 2].map(|()| "[plain]".to_owned()));
    for name in
        ["HUP", "PIPE", "ALRM", "USR1", "USR2", "VTALRM", "PROF", "IO", "XCPU", "XFSZ", "PWR", "RTMIN"]
    {
        signal(&site.gateways[0], name);
    }
    site.await_line(0, "SIGTERM stops");
    thread::sleep(Duration::from_millis(300));
    assert!(site.gateways[0].is_running(), "{}", site.log(0));
    signal(&site.gateways[0], "QUIT");
    site.await_line(0, "stopped");
}

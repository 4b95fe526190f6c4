//! Frames of 1500 octets over a wire of 1500: L2TPv3 over the kernel's MACsec, which fragments in
//! IP, compared with two of our gateways, which fragment in MACsec (Lackorzynski et al. 2020,
//! section IV-C).
//!
//! Both connect the same two field networks in one QEMU guest: a machine on each side, and a box
//! between machine and wire. In one case the box is a kernel bridge of the field port and an L2TPv3
//! pseudowire (`encap ip`) whose IP packets leave over a MACsec interface; in the other it is our
//! gateway, which sleeps until the kernel wakes it. Keys and cipher are the same (GCM-AES-128,
//! encrypted). The guest's clock counts instructions (`-icount shift=0`), so the times measure the
//! work of the kernel and the gateways on one CPU, without cache misses and waiting. Kernel bridges
//! without protection are the baseline.

mod result;

use crate::guest::{self, Guest, Image};
use result::Measured;
use serde_json::{Value, json};
use xtask::report::{StepResult, Stop};
use xtask::shell::{antedate, cache};

/// Octets behind the Ethernet header: the smallest frame, the longest without fragments, and a full
/// one, the longest of the meter.
const SIZES: [u64; 3] = [46, 1468, 1500];
/// The same for TCP: the longest without fragments, a full one, and the longest in two fragments.
const BULK_SIZES: [u64; 3] = [1468, 1500, 2936];
/// Octets that the machines' ports carry behind the Ethernet header.
const FIELD_MTU: u64 = 3000;
/// Addresses of the machines, and the octets that one sends to the other over TCP.
const ADDRESSES: [&str; 2] = ["10.7.0.1", "10.7.0.2"];
const BULK: &str = "8M";
/// Round trips of each size in one block, and blocks of each path in turn.
/// `ANTEDATE_L2TP_ROUND_TRIPS` sets the first.
const BLOCK: u64 = 500;
const BLOCKS: usize = 2;
const GOAL: f64 = 0.95;
const SA: &str = "000102030405060708090a0b0c0d0e0f";
const MACS: [&str; 2] = ["02:00:00:00:0b:01", "02:00:00:00:0b:02"];
const DEVICE: &str = "02:00:00:00:0d:02";

pub(crate) fn prepare() -> Result<(), Stop> {
    guest::build()?;
    Ok(())
}

fn image() -> Result<Image, String> {
    let keys = format!(
        "suite = \"gcm-aes-128\"\n\n[[sa]]\nan = 0\nkey_id = \"{}\"\nkey = \"{SA}\"\n\n\
         [[member]]\nname = \"a\"\nsci = \"{}/1\"\n\n[[member]]\nname = \"b\"\nsci = \"{}/1\"\n",
        "01".repeat(16),
        MACS[0],
        MACS[1]
    );
    let gateway = |name: &str| {
        format!(
            "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n\
             [macsec]\nkey_file = \"keys.toml\"\nfragmentation = \"marked\"\n[policy]\nallow = [\"all\"]\n\
             [run]\npoll = \"block\"\n[state]\ndirectory = \"/run/{name}.state\"\n[control]\nsocket = \"/run/{name}.s\"\n"
        )
    };
    let files = [
        ("etc/keys.toml", 0o600, keys.as_str()),
        ("etc/a.toml", 0o644, &gateway("a")),
        ("etc/b.toml", 0o644, &gateway("b")),
    ];
    guest::build()?.with(&antedate(), &files)
}

/// The connection between the two field networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Bridges,
    Tunnel,
    Gateways,
}

impl Path {
    const ALL: [Self; 3] = [Self::Bridges, Self::Tunnel, Self::Gateways];

    const fn name(self) -> &'static str {
        match self {
            Self::Bridges => "kernel bridges, no protection",
            Self::Tunnel => "MACsec + L2TPv3",
            Self::Gateways => "our gateways, fragments",
        }
    }

    fn build(self, guest: &mut Guest) -> Result<(), String> {
        let ends = [("plc", "a", "02:00:00:00:0d:01"), ("dev", "b", DEVICE)];
        for ((space, field, mac), address) in ends.into_iter().zip(ADDRESSES) {
            guest.run(&format!("ip netns add {space} && ip netns add {field}"))?;
            guest.run(&format!(
                "ip link add eth0 netns {space} address {mac} mtu {FIELD_MTU} type veth peer name field netns {field} mtu {FIELD_MTU}"
            ))?;
            guest.run(&format!("ip -n {space} link set eth0 up; ip -n {field} link set lo up; ip -n {field} link set field up"))?;
            guest.run(&format!("ip -n {space} addr add {address}/24 dev eth0"))?;
        }
        let [a, b] = MACS;
        guest.run(&format!(
            "ip link add uplink netns a address {a} type veth peer name uplink netns b address {b}"
        ))?;
        for space in ["a", "b"] {
            // Bridges do not fragment: their wire carries all.
            let mtu = if self == Self::Bridges { FIELD_MTU } else { 1500 };
            guest.run(&format!("ip -n {space} link set uplink mtu {mtu} up"))?;
        }
        match self {
            Self::Bridges => Self::bridge(guest, "uplink"),
            Self::Tunnel => {
                for (space, peer, own, other, number) in [
                    ("a", b, "10.2.0.1", "10.2.0.2", ["01", "02"]),
                    ("b", a, "10.2.0.2", "10.2.0.1", ["02", "01"]),
                ] {
                    let inside = format!("ip netns exec {space} ip");
                    let [send, receive] = number;
                    // Static keys differ by direction, because the kernel requires it.
                    let key = |number: &str| format!("key {number} {number}{}", &SA[2..]);
                    for line in [
                        format!(
                            "{inside} link add link uplink m0 type macsec port 1 encrypt on cipher gcm-aes-128"
                        ),
                        format!("{inside} macsec add m0 tx sa 0 pn 1 on {}", key(send)),
                        format!("{inside} macsec add m0 rx port 1 address {peer}"),
                        format!(
                            "{inside} macsec add m0 rx port 1 address {peer} sa 0 pn 1 on {}",
                            key(receive)
                        ),
                        format!("{inside} link set m0 up"),
                        format!("{inside} addr add {own}/24 dev m0"),
                        format!(
                            "{inside} l2tp add tunnel tunnel_id 1 peer_tunnel_id 1 encap ip local {own} remote {other}"
                        ),
                        format!(
                            "{inside} l2tp add session name t0 tunnel_id 1 session_id 1 peer_session_id 1"
                        ),
                        format!("{inside} link set t0 mtu {FIELD_MTU} up"),
                    ] {
                        guest.run(&line)?;
                    }
                }
                Self::bridge(guest, "t0")
            }
            Self::Gateways => {
                for space in ["a", "b"] {
                    guest.run(&format!(
                        "mkdir -p /run/{space}.state && antedate gateway init --volatile-state /etc/{space}.toml"
                    ))?;
                    guest.run(&format!("ip netns exec {space} antedate gateway run /etc/{space}.toml >/run/{space}.log 2>&1 & echo $! >/run/{space}.pid"))?;
                }
                for space in ["a", "b"] {
                    let ready = format!(
                        "for i in 1 2 3 4 5 6 7 8 9; do antedate gateway status --socket /run/{space}.s >/dev/null 2>&1 && exit 0; sleep 1; done; cat /run/{space}.log; exit 1"
                    );
                    guest.run(&ready)?;
                }
                Ok(())
            }
        }
    }

    /// Bridges the field port and the port to the other side, in both boxes.
    fn bridge(guest: &mut Guest, other: &str) -> Result<(), String> {
        for space in ["a", "b"] {
            guest.run(&format!("ip -n {space} link add br0 type bridge"))?;
            for port in ["field", other] {
                guest.run(&format!("ip -n {space} link set {port} master br0"))?;
            }
            guest.run(&format!("ip -n {space} link set br0 up"))?;
        }
        Ok(())
    }

    fn take_down(self, guest: &mut Guest) -> Result<(), String> {
        if self == Self::Gateways {
            guest.run(
                "for i in a b; do kill $(cat /run/$i.pid); done; sleep 1; busybox rm -rf /run/*.state /run/*.s",
            )?;
        }
        guest.run("for i in plc a b dev; do ip netns del $i; done; sleep 1").map(drop)
    }
}

/// Round-trip times of one size over one path, in nanoseconds of the guest, with their counts.
#[derive(Default, Clone)]
struct Times(Vec<(u64, u64)>);

impl Times {
    fn count(&self) -> u64 {
        self.0.iter().map(|(_, n)| n).sum()
    }

    /// The mean, in microseconds.
    fn mean(&self) -> f64 {
        self.0.iter().map(|(ns, n)| *ns as f64 * *n as f64).sum::<f64>() / self.count() as f64 / 1_000.0
    }

    fn percentile(&self, percent: f64) -> f64 {
        let mut all = self.0.clone();
        all.sort_unstable();
        let wanted = (self.count() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = all.iter().find(|(_, n)| {
            seen += n;
            seen >= wanted
        });
        found.map_or(f64::NAN, |(ns, _)| *ns as f64 / 1_000.0)
    }
}

/// Measures all sizes over a path that is up.
fn measure(guest: &mut Guest, count: u64, measured: &mut Measured) -> Result<(), String> {
    let still = json!({ "wanted": false });
    let echo = json!({ "interface": "eth0", "realtime": still });
    guest.run(&format!(
        "ip netns exec dev antedate lab-echo '{echo}' >/run/echo.log 2>&1 & echo $! >/run/echo.pid; sleep 1"
    ))?;
    for (size, times) in SIZES.into_iter().zip(&mut measured.times) {
        let ping = json!({
            "interface": "eth0", "destination": DEVICE, "frame_bytes": size + 14, "interval_us": 1000, "spin_us": 0,
            "count": count, "warm_up": 50, "histogram": true, "realtime": still,
        });
        let said = guest.run(&format!("ip netns exec plc antedate lab-ping '{ping}'"))?;
        let last = said.lines().rev().find(|line| line.trim_start().starts_with('{'));
        let report: Value = last
            .and_then(|line| serde_json::from_str(line.trim()).ok())
            .ok_or(format!("the meter says: {said}"))?;
        if report["lost"] != 0 {
            return Err(format!(
                "{} of {} round trips of {size} octets were lost",
                report["lost"], report["sent"]
            ));
        }
        for pair in report["histogram_ns"].as_array().into_iter().flatten() {
            if let (Some(ns), Some(n)) = (pair[0].as_u64(), pair[1].as_u64()) {
                times.0.push((ns, n));
            }
        }
    }
    guest.run("kill $(cat /run/echo.pid); sleep 1")?;
    for (size, rates) in BULK_SIZES.into_iter().zip(&mut measured.rates) {
        rates.push(throughput(guest, size)?);
    }
    Ok(())
}

/// Mbit/s of one TCP connection whose frames have `size` octets behind the Ethernet header.
fn throughput(guest: &mut Guest, size: u64) -> Result<f64, String> {
    let [_, server] = ADDRESSES;
    for space in ["plc", "dev"] {
        guest.run(&format!("ip -n {space} link set eth0 mtu {size}"))?;
    }
    guest.run(&format!("ip netns exec dev iperf3 -s -1 -B {server} >/run/iperf3.log 2>&1 & sleep 1"))?;
    let said = guest.run(&format!("ip netns exec plc iperf3 -c {server} -n {BULK} -J"));
    for space in ["plc", "dev"] {
        guest.run(&format!("ip -n {space} link set eth0 mtu {FIELD_MTU}"))?;
    }
    let said = said?;
    let begin = said.find('{').unwrap_or_default();
    let found: Value =
        serde_json::from_str(said[begin..].trim()).map_err(|e| format!("iperf3 says: {e}: {said}"))?;
    let bits = found["end"]["sum_received"]["bits_per_second"].as_f64().filter(|bits| *bits > 0.0);
    bits.map(|bits| bits / 1e6).ok_or_else(|| format!("iperf3 measured nothing: {said}"))
}

/// Boots the guest and measures the paths in turn.
pub(crate) fn run() -> StepResult {
    let set = std::env::var("ANTEDATE_L2TP_ROUND_TRIPS").ok();
    let block = match set.as_deref().map(str::parse) {
        None => BLOCK,
        Some(Ok(number @ 1..)) => number,
        Some(_) => {
            return Err("ANTEDATE_L2TP_ROUND_TRIPS is a number of round trips from 1 on".to_string().into());
        }
    };
    let mut guest = Guest::boot_counting(&image()?)?;
    guest.load_tunnels()?;
    let mut measured: [Measured; 3] = Default::default();
    for _ in 0..BLOCKS {
        for (path, measured) in Path::ALL.into_iter().zip(&mut measured) {
            path.build(&mut guest).map_err(|e| format!("{}: {e}", path.name()))?;
            measure(&mut guest, block, measured).map_err(|e| format!("{}: {e}", path.name()))?;
            path.take_down(&mut guest).map_err(|e| format!("{}: {e}", path.name()))?;
        }
    }
    println!("   round trips in a guest that counts instructions, µs at a nanosecond each, median and p99.9");
    for (path, measured) in Path::ALL.into_iter().zip(&measured) {
        let cells = SIZES.iter().zip(&measured.times).map(|(size, times)| {
            format!("{size} B {:.1} / {:.1}", times.percentile(50.0), times.percentile(99.9))
        });
        println!("   {:30} {}", path.name(), cells.collect::<Vec<_>>().join("   "));
        let rates =
            BULK_SIZES.iter().enumerate().map(|(at, size)| format!("{size} B {:.0}", measured.rate(at)));
        println!("   {:30} {} Mbit/s by iperf3", "", rates.collect::<Vec<_>>().join("   "));
    }
    let kernel = guest.run("cat /proc/sys/kernel/osrelease")?;
    let file = cache("lab")?.join("l2tp.json");
    result::write(&file, kernel.trim(), &measured)?;
    println!("   for the folder results of a report: {}", file.display());
    compare(&measured.map(|path| path.times), block * BLOCKS as u64).map_err(Stop::from)
}

/// The result and the goal's verdict.
///
/// # Errors
///
/// If a path lacks round trips of a size.
fn compare(times: &[[Times; SIZES.len()]; 3], count: u64) -> Result<String, String> {
    if let Some(other) = times.iter().flatten().map(Times::count).find(|found| *found != count) {
        return Err(format!("of {count} round trips of a size over a path {other} were told"));
    }
    let [_, tunnel, ours] = times;
    let ratio = |percent: f64| ours[2].percentile(percent) / tunnel[2].percentile(percent);
    let split = ours[2].percentile(50.0) / ours[1].percentile(50.0);
    let middle = ratio(50.0);
    let met = if middle <= GOAL { "met" } else { "missed" };
    Ok(format!(
        "1500 octets against L2TPv3 over MACsec: {middle:.2} of p50 (goal {GOAL}: {met}), {:.2} of p99.9; in two fragments {:+.1} % over 1468 octets",
        ratio(99.9),
        (split - 1.0) * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_goal_is_told() {
        let times = |ns: u64| Times(vec![(ns, 10)]);
        let path = |ns: u64| [times(ns), times(ns), times(ns)];
        let said = compare(&[path(30), path(100), path(97)], 10).expect("compared");
        assert!(said.contains("0.97 of p50 (goal 0.95: missed), 0.97 of p99.9"), "{said}");
        let said = compare(&[path(30), path(100), path(92)], 10).expect("compared");
        assert!(said.contains("0.92 of p50 (goal 0.95: met)"), "{said}");
        assert!(compare(&[path(30), path(100), Default::default()], 10).is_err());
        assert!(compare(&Default::default(), 10).is_err());
    }
}

//! The gateway on another CPU: Debian's kernel for it on an emulated machine, with our program
//! inside.
//!
//! The guest runs the demo with a cycle long enough for emulation, then a gateway against the
//! kernel's own MACsec with each cipher suite.

use crate::daemon::{INVALID, Keys, SALT, SUITES};
use crate::experiment::experiment_in;
use crate::guest::{self, Guest};
use crate::net::mac;
use crate::peers::kernel_counter;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// The demo's cycle, and its duration.
const CYCLE_US: u32 = 20_000;
const SECONDS: u32 = 10;
/// Time limit of the demo on this machine.
const DEMO_MAX: Duration = Duration::from_secs(600);
/// Addresses, and ICMP payloads: a short one, and a full frame of 1500 octets.
const HOST: &str = "10.9.0.2";
const FAR: &str = "10.9.0.1";
const FAR_MAC: u8 = 0x0f;
const GATEWAY_MAC: u8 = 0xa2;
/// The least speed-up of AES-GCM by the CPU's AES instructions over portable code.
const SPEED: f64 = 5.0;
const SIZES: [u32; 2] = [56, 1472];

/// Boots a guest of that CPU with the program in it, and returns a summary.
pub(super) fn run(cpu: &'static guest::Cpu, program: &Path) -> Result<String, String> {
    let mut files = Vec::new();
    for suite in SUITES {
        files.push((format!("etc/{}.key", suite.0), 0o600, keys(suite).text()));
        files.push((format!("etc/{}.toml", suite.0), 0o644, configuration(suite.0)));
    }
    let files: Vec<_> =
        files.iter().map(|(name, mode, text)| (name.as_str(), *mode, text.as_str())).collect();
    let image = guest::build_for(cpu)?.with(program, &files)?;
    instructions(*cpu == guest::AARCH64, &image)?;
    let mut guest = Guest::boot_alone(&image)?;
    guest.load_tunnels()?;
    let shown = demo(&mut guest)?;
    build(&mut guest)?;
    for suite in SUITES {
        far_end(&mut guest, suite).map_err(|e| format!("{}: {e}", suite.0))?;
        println!("   {}: pings of {SIZES:?} octets through the kernel's MACsec, counters clean", suite.0);
    }
    Ok(format!("{shown}; the kernel's MACsec in {} suites", SUITES.len()))
}

/// Measures each suite by each backend, in a guest whose clock counts instructions. On a CPU with
/// AES instructions, AES-GCM must be several times as fast by them.
fn instructions(has_aes: bool, image: &guest::Image) -> Result<(), String> {
    let mut guest = Guest::boot_counting(image)?;
    guest.load_tunnels()?;
    let found = experiment_in(&mut guest, "ciphers", false)?;
    let taken = |case: &str| found.number(case, "seal and open, weighted by table IV", "antedated");
    let mut cases: Vec<&str> = found.cases().into_iter().filter(|case| taken(case).is_finite()).collect();
    cases.retain(|case| !case.starts_with("fastest"));
    cases.sort_unstable();
    cases.dedup();
    for case in &cases {
        println!(
            "   {case}: {:.0} instructions to seal and open a frame (weighted by table IV)",
            taken(case)
        );
    }
    let by_any = cases.iter().filter(|case| case.starts_with("gcm-aes-128,")).map(|case| taken(case));
    let (best, portable) = (by_any.fold(f64::INFINITY, f64::min), taken("gcm-aes-128, Portable"));
    if !portable.is_finite() || (has_aes && best * SPEED > portable) {
        return Err(format!(
            "AES-GCM takes {best:.0} instructions at best, and {portable:.0} by portable code"
        ));
    }
    Ok(())
}

/// The demo without and with protection: nothing may be readable on the wire, no nonce may repeat,
/// and protection may cause no missed cycle.
fn demo(guest: &mut Guest) -> Result<String, String> {
    let mut said = |secure: &str| -> Result<Value, String> {
        // The demo's verdict covers the cycles, which are judged below; the guest answers while it
        // runs.
        guest.run(&format!(
            "antedate demo --secure {secure} --cycle-us {CYCLE_US} --seconds {SECONDS} --json /run/{secure}.json \
             >/run/demo.log 2>&1 & echo $! >/run/demo.pid"
        ))?;
        let start = Instant::now();
        while guest.attempt("sleep 2; kill -0 $(cat /run/demo.pid) 2>/dev/null")?.0 == 0 {
            if start.elapsed() > DEMO_MAX {
                let log = guest.run("cat /run/demo.log")?;
                return Err(format!("the demo has not ended within {} s: {log}", DEMO_MAX.as_secs()));
            }
        }
        let text = guest.run(&format!("cat /run/{secure}.json || cat /run/demo.log"))?;
        serde_json::from_str(text.trim()).map_err(|e| format!("the demo says: {e}: {text}"))
    };
    let (none, macsec) = (said("none")?, said("macsec")?);
    let count = |report: &Value, name: &str| {
        report[name].as_u64().ok_or_else(|| format!("the demo's report has no {name}:\n{report:#}"))
    };
    for name in ["plaintext_frames_on_wire", "nonce_reuse"] {
        if count(&macsec, name)? != 0 {
            return Err(format!("{name} is not 0:\n{macsec:#}"));
        }
    }
    if count(&none, "plaintext_frames_on_wire")? == 0 {
        return Err(format!("without protection nothing was readable on the wire:\n{none:#}"));
    }
    let (errors, before) = (count(&macsec, "bus_errors")?, count(&none, "bus_errors")?);
    if errors > before {
        return Err(format!("{errors} bus errors, {before} without protection:\n{macsec:#}"));
    }
    let said = format!(
        "demo with a cycle of {} ms: {errors} bus errors ({before} without protection)",
        CYCLE_US / 1000
    );
    println!("   {said}, nothing readable on the wire, no nonce twice");
    Ok(said)
}

fn keys(suite: (&'static str, usize)) -> Keys {
    Keys::new(suite, 0x80, [("gateway", mac(GATEWAY_MAC)), ("kernel", mac(FAR_MAC))])
}

fn configuration(suite: &str) -> String {
    format!(
        "[field]\ninterface = \"field\"\n[uplink]\ninterface = \"uplink\"\n[macsec]\nkey_file = \"{suite}.key\"\n\
         [policy]\nallow = [\"arp\", \"ipv4\"]\n[state]\ndirectory = \"/run/{suite}\"\n[control]\nsocket = \"/run/s\"\n"
    )
}

/// Builds the namespaces of a host, a gateway and the far end.
fn build(guest: &mut Guest) -> Result<(), String> {
    for space in ["host", "gw", "far"] {
        guest.run(&format!("ip netns add {space}"))?;
    }
    for (one, name, octet, other, port, beside) in
        [("host", "eth0", 0x01, "gw", "field", 0xa1), ("far", "eth0", FAR_MAC, "gw", "uplink", GATEWAY_MAC)]
    {
        guest.run(&format!(
            "ip link add {name} netns {one} address {} type veth peer name {port} netns {other} address {}",
            mac(octet),
            mac(beside)
        ))?;
        let mtu = if one == "far" { crate::net::WIRE_MTU } else { crate::net::FIELD_MTU };
        guest.run(&format!("ip -n {one} link set {name} mtu {mtu} up"))?;
        guest.run(&format!("ip -n {other} link set {port} mtu {mtu} up"))?;
    }
    guest.run(&format!("ip -n host addr add {HOST}/24 dev eth0")).map(drop)
}

/// Tests one suite: the kernel's end with the same key, pings both ways, and the counters of both.
fn far_end(guest: &mut Guest, suite: (&'static str, usize)) -> Result<(), String> {
    let keys = keys(suite);
    let (name, key) = (suite.0, &keys.key);
    let numbers =
        |ssci: u32| if keys.is_xpn() { format!("xpn 1 salt {SALT} ssci {ssci}") } else { "pn 1".to_string() };
    let inside = "ip netns exec far ip";
    let gateway = keys.sci(0);
    for line in [
        format!("antedate gateway init --volatile-state /etc/{name}.toml"),
        format!(
            "ip netns exec gw antedate gateway run /etc/{name}.toml >/run/{name}.log 2>&1 & echo $! >/run/gw.pid"
        ),
        format!(
            "for i in 1 2 3 4 5 6 7 8 9; do antedate gateway status --socket /run/s >/dev/null 2>&1 && exit 0; sleep 1; done; cat /run/{name}.log; exit 1"
        ),
        format!(
            "{inside} link add link eth0 m0 type macsec port 1 cipher {name} encrypt on protect on replay on window 0 validate strict"
        ),
        format!("{inside} macsec add m0 tx sa 0 {} on key 01 {key}", numbers(2)),
        format!("{inside} macsec add m0 rx sci {gateway}"),
        format!("{inside} macsec add m0 rx sci {gateway} sa 0 {} on key 02 {key}", numbers(1)),
        format!("{inside} link set m0 mtu {} up", crate::net::FIELD_MTU),
        format!("{inside} addr add {FAR}/24 dev m0"),
    ] {
        guest.run(&line)?;
    }
    for size in SIZES {
        for (space, to) in [("host", FAR), ("far", HOST)] {
            guest.run(&format!("ip netns exec {space} ping -q -n -c 3 -i 0.1 -W 5 -s {size} {to}"))?;
        }
    }
    let shown = guest.run(&format!("{inside} -s macsec show m0"))?;
    let status = guest.run("antedate gateway status --json --socket /run/s")?;
    let status: Value =
        serde_json::from_str(status.trim()).map_err(|e| format!("gateway status: {e}\n{status}"))?;
    let ours = |counter: &str| status["macsec"]["counters"][counter].as_u64();
    for counter in INVALID {
        if kernel_counter(&shown, counter).unwrap_or(0) != 0 || ours(counter) != Some(0) {
            return Err(format!("{counter} is not 0 at either end\n{shown}\n{status:#}"));
        }
    }
    for (what, sent, taken) in [
        ("gateway to kernel", ours("OutPktsEncrypted"), kernel_counter(&shown, "InPktsOK")),
        ("kernel to gateway", kernel_counter(&shown, "OutPktsEncrypted"), ours("InPktsOK")),
    ] {
        // Two sizes, three requests and three answers either way.
        if sent != taken || taken.is_none_or(|count| count < 12) {
            return Err(format!("{what}: sent {sent:?}, accepted {taken:?}\n{shown}\n{status:#}"));
        }
    }
    guest
        .run(&format!(
            "{inside} link del m0; kill $(cat /run/gw.pid); sleep 1; ! kill -0 $(cat /run/gw.pid) 2>/dev/null"
        ))
        .map(drop)
}

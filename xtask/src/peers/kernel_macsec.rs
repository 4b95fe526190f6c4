use super::guest::{self, Guest};
use crate::net;
use crate::report::StepResult;
pub(crate) fn run() -> StepResult {
    let image = guest::build()?;
    net::namespace("gw")?;
    net::ip(&["-n", "gw", "tuntap", "add", "dev", "uplink", "mode", "tap"])?;
    net::ip(&["-n", "gw", "link", "set", "uplink", "address", "02:00:00:00:00:a2", "mtu", "1550", "up"])?;
    let mut g = Guest::boot(&image, net::inside("gw", "qemu-system-x86_64"), "uplink", "02:00:00:00:00:0f")?;
    for c in [
        "ip link",
        "ip link add link eth0 macsec0 type macsec port 1 cipher gcm-aes-xpn-256",
        "ip -s macsec show",
        "false",
        "ip -s link show eth0",
        "dmesg | tail; ip -V; cat /mods/order | tr '\\n' ' '",
    ] {
        let (s, o) = g.attempt(c)?;
        println!("{c}: {s}\n{o}");
    }
    Ok("x".into())
}
pub(crate) fn prepare() -> Result<(), String> {
    guest::build().map(drop)
}

//! Topologies of network namespaces (network_namespaces(7)), one for each machine.
//!
//! ```text
//! |  plc          gwa               wire          gwb               device
//! |  eth0 ----- field uplink ----- a    b ----- uplink field ----- eth0
//! |       1500               1550         1550               1500         MTU
//! ```
//!
//! The lines are veth pairs with their offloads on. IPv6 is off, so only the lab sends. Names begin
//! with `antedate-PID-`; the next run removes those of a killed one.

mod privilege;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

pub use privilege::{Privilege, acquire};

use crate::sys;

/// Directory of `ip netns`, with a file per namespace.
const DIRECTORY: &str = "/run/netns";
const PREFIX: &str = "antedate-";

/// Why a topology could not be built. Each message has a remedy.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The program `ip` is missing.
    #[error("`ip` was not found; install it with `apt-get install iproute2`")]
    IpMissing,
    /// `ip` refused something.
    #[error("`{command}` failed: {reason}; {}", remedy(.reason))]
    Ip {
        /// The command, or the batch line.
        command: String,
        /// Message of `ip`.
        reason: String,
    },
    /// Neither root nor a user namespace is available.
    #[error(
        "no right to make network namespaces, and the kernel refuses a user namespace ({0}); run as root, or allow \
         user namespaces with `sysctl kernel.unprivileged_userns_clone=1` and, where AppArmor guards them, \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    )]
    Forbidden(io::Error),
    /// A file of the kernel could not be opened or written.
    #[error("{path}: {error}; run as root, with /proc and /run/netns writable")]
    File {
        /// The file.
        path: String,
        /// The error.
        error: io::Error,
    },
}

fn remedy(reason: &str) -> &'static str {
    if reason.contains("not permitted") {
        "run as root, or in a container with CAP_NET_ADMIN and CAP_SYS_ADMIN"
    } else if reason.contains("not supported") || reason.contains("Unknown device type") {
        "load the kernel modules `veth` and `bridge`"
    } else {
        "`ip netns list` shows what exists"
    }
}

/// A network namespace; removed with its contents on drop.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Creates an empty namespace with loopback up and IPv6 off.
    pub fn create(role: &str) -> Result<Self, NamespaceError> {
        let name = format!("{PREFIX}{}-{role}", std::process::id());
        ip(&["netns", "add", &name])?;
        let path = format!("{DIRECTORY}/{name}");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => {
                let _ = ip(&["netns", "del", &name]);
                return Err(NamespaceError::File { path, error });
            }
        };
        let namespace = Self { name, file };
        namespace.silence_ipv6()?;
        ip(&["-n", &namespace.name, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Name in `ip netns`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An open handle for [`sys::process::arrange`].
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Runs `work` on a thread inside the namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                sys::namespace::enter(&self.file)?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Joins interfaces by a Linux bridge that forwards LLDP and learns at once.
    pub fn bridge(&self, ports: &[&str]) -> Result<(), NamespaceError> {
        let mut lines =
            vec!["link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0".to_owned()];
        // Bit 14: the nearest-bridge group address 01-80-C2-00-00-0E of LLDP.
        lines.push("link set dev br0 type bridge group_fwd_mask 0x4000".to_owned());
        lines.extend(ports.iter().map(|port| format!("link set dev {port} master br0")));
        lines.push("link set dev br0 up".to_owned());
        self.batch(&lines)
    }

    /// Takes a link down or up.
    pub fn set_link(&self, interface: &str, up: bool) -> Result<(), NamespaceError> {
        ip(&["-n", &self.name, "link", "set", "dev", interface, if up { "up" } else { "down" }])
    }

    /// Runs several `ip` commands.
    pub fn batch(&self, lines: &[String]) -> Result<(), NamespaceError> {
        batch(&["-n", &self.name], lines)
    }

    fn silence_ipv6(&self) -> Result<(), NamespaceError> {
        let silenced = self.run(|| {
            // `default` applies to later interfaces. A kernel without IPv6 has neither file.
            ["default", "all"]
                .into_iter()
                .map(|which| format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"))
                .try_for_each(|path| match fs::write(&path, "1") {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(NamespaceError::File { path, error })
                    }
                    _ => Ok(()),
                })
        });
        silenced.unwrap_or_else(|error| {
            Err(NamespaceError::File { path: format!("{DIRECTORY}/{}", self.name), error })
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.name]);
    }
}

/// Options of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainOptions {
    /// MTU between stations and gateways.
    pub field_mtu: u32,
    /// MTU between the gateways.
    pub wire_mtu: u32,
    /// Adds a namespace for the untrusted wire between the gateways.
    pub wire: bool,
}

impl Default for ChainOptions {
    fn default() -> Self {
        Self { field_mtu: 1500, wire_mtu: 1550, wire: true }
    }
}

/// PLC, gateway A, the wire, gateway B, IO device.
#[derive(Debug)]
pub struct Chain {
    /// Controller, with `eth0`.
    pub plc: Namespace,
    /// Gateway A, with `field` and `uplink`.
    pub gateway_a: Namespace,
    /// The wire, with `a` and `b`. `None` in a short chain, where the uplinks are one veth pair.
    pub wire: Option<Namespace>,
    /// Gateway B, with `uplink` and `field`.
    pub gateway_b: Namespace,
    /// Device, with `eth0`.
    pub device: Namespace,
}

impl Chain {
    /// Builds the chain with all links up. Nothing forwards yet.
    pub fn build(options: ChainOptions) -> Result<Self, NamespaceError> {
        let chain = Self {
            plc: Namespace::create("plc")?,
            gateway_a: Namespace::create("gwa")?,
            wire: options.wire.then(|| Namespace::create("wire")).transpose()?,
            gateway_b: Namespace::create("gwb")?,
            device: Namespace::create("device")?,
        };
        let field = options.field_mtu;
        let wire = options.wire_mtu;
        let mut lines = vec![
            pair((&chain.plc, "eth0", 0x01), (&chain.gateway_a, "field", 0xa1), field),
            pair((&chain.device, "eth0", 0x02), (&chain.gateway_b, "field", 0xb1), field),
        ];
        if let Some(middle) = &chain.wire {
            lines.push(pair((&chain.gateway_a, "uplink", 0xa2), (middle, "a", 0xc1), wire));
            lines.push(pair((&chain.gateway_b, "uplink", 0xb2), (middle, "b", 0xc2), wire));
        } else {
            lines.push(pair((&chain.gateway_a, "uplink", 0xa2), (&chain.gateway_b, "uplink", 0xb2), wire));
        }
        batch(&[], &lines)?;
        for (namespace, interfaces) in chain.interfaces() {
            let up: Vec<_> =
                interfaces.iter().map(|interface| format!("link set dev {interface} up")).collect();
            namespace.batch(&up)?;
        }
        Ok(chain)
    }

    /// Puts plain Linux bridges in place of the gateways, for comparison.
    pub fn bridge_gateways(&self) -> Result<(), NamespaceError> {
        self.gateway_a.bridge(&["field", "uplink"])?;
        self.gateway_b.bridge(&["field", "uplink"])
    }

    /// Puts a plain Linux bridge into the wire. Does nothing in a short chain.
    pub fn bridge_wire(&self) -> Result<(), NamespaceError> {
        self.wire.as_ref().map_or(Ok(()), |wire| wire.bridge(&["a", "b"]))
    }

    fn interfaces(&self) -> Vec<(&Namespace, &'static [&'static str])> {
        let mut all: Vec<(&Namespace, &'static [&'static str])> = vec![
            (&self.plc, &["eth0"]),
            (&self.gateway_a, &["field", "uplink"]),
            (&self.gateway_b, &["uplink", "field"]),
            (&self.device, &["eth0"]),
        ];
        all.extend(self.wire.as_ref().map(|wire| (wire, ["a", "b"].as_slice())));
        all
    }
}

/// The `ip` command for one veth pair. Addresses are locally administered and fixed.
fn pair(one: (&Namespace, &str, u8), other: (&Namespace, &str, u8), mtu: u32) -> String {
    let (namespace, name, last) = one;
    let (peer_namespace, peer, peer_last) = other;
    format!(
        "link add name {name} mtu {mtu} address 02:00:5e:00:00:{last:02x} netns {} \
         type veth peer name {peer} mtu {mtu} address 02:00:5e:00:00:{peer_last:02x} netns {}",
        namespace.name, peer_namespace.name
    )
}

/// Removes namespaces of ended runs. Returns their names.
pub fn sweep() -> Vec<String> {
    remove(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Removes this process's namespaces before an exit without drops. Returns their names.
pub fn remove_own() -> Vec<String> {
    remove(|pid| pid == std::process::id())
}

fn remove(whose: impl Fn(u32) -> bool) -> Vec<String> {
    let Ok(entries) = fs::read_dir(DIRECTORY) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let theirs = names.filter(|name| owner(name).is_some_and(&whose));
    theirs.filter(|name| ip(&["netns", "del", name]).is_ok()).collect()
}

/// The process ID in a namespace's name, if it is one of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

fn ip(arguments: &[&str]) -> Result<(), NamespaceError> {
    run_ip(arguments, None)
}

fn batch(prefix: &[&str], lines: &[String]) -> Result<(), NamespaceError> {
    let arguments: Vec<&str> = prefix.iter().copied().chain(["-batch", "-"]).collect();
    run_ip(&arguments, Some(&lines.join("\n")))
}

fn run_ip(arguments: &[&str], input: Option<&str>) -> Result<(), NamespaceError> {
    let failed =
        |reason: String| NamespaceError::Ip { command: format!("ip {}", arguments.join(" ")), reason };
    let mut command = Command::new("ip");
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NamespaceError::IpMissing,
        _ => failed(error.to_string()),
    })?;
    if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
        pipe.write_all(input.as_bytes()).map_err(|error| failed(error.to_string()))?;
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_read_from_our_names_alone() {
        assert_eq!(owner("antedate-123-plc"), Some(123));
        assert_eq!(owner("antedate-x-plc"), None);
        assert_eq!(owner("blue"), None);
    }

    #[test]
    fn a_refusal_names_what_to_do() {
        let error =
            NamespaceError::Ip { command: "ip netns add x".into(), reason: "Operation not permitted".into() };
        assert!(error.to_string().contains("run as root"), "{error}");
    }
}

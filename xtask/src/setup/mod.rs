//! `cargo xtask setup`: the missing packages of a fresh Debian machine with Rust, announced before
//! installation.

use crate::shell::{Run, has_program, is_root, line, program};
use std::path::Path;

mod disk;
pub mod targets;
pub mod tools;

/// The command that needs the set-up.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Purpose {
    /// `cargo xtask demo`
    Demo,
    /// `cargo xtask test`, which includes the peers
    Test,
    /// `cargo xtask peers`
    Peers,
    /// `cargo xtask bench gateway`
    Bench,
    /// `cargo xtask bench aead`
    Ciphers,
    /// `cargo xtask firmware`
    Firmware,
    /// `cargo xtask timing`
    Timing,
}

impl Purpose {
    /// GiB that a fresh clone needs below its target directory.
    const fn gibibytes(self) -> u64 {
        match self {
            // All programs and tests in two profiles, fuzz targets, images of motes, a guest,
            // virtual environments.
            Test => 10,
            Bench | Ciphers | Firmware | Peers => 4,
            Demo | Timing => 2,
        }
    }
}

use Purpose::{Bench, Ciphers, Demo, Firmware, Peers, Test, Timing};

/// The evidence of an installed package.
enum Sign {
    Program(&'static str),
    File(&'static str),
    /// A module of Debian's own Python.
    Python(&'static str),
}

use Sign::{File, Program, Python};

struct Need {
    sign: Sign,
    package: &'static str,
    why: &'static str,
    purposes: &'static [Purpose],
}

const NEEDS: &[Need] = &[
    Need {
        sign: Program("cc"),
        package: "gcc",
        why: "the linker of Rust programs",
        purposes: &[Demo, Test, Peers, Bench, Ciphers, Firmware, Timing],
    },
    Need {
        sign: File("/usr/include/stdio.h"),
        package: "libc6-dev",
        why: "what that linker links",
        purposes: &[Demo, Test, Peers, Bench, Ciphers, Firmware, Timing],
    },
    Need {
        sign: Program("valgrind"),
        package: "valgrind",
        why: "branches and addresses that depend on secrets",
        purposes: &[Test, Timing],
    },
    Need {
        sign: Program("ip"),
        package: "iproute2",
        why: "network namespaces",
        purposes: &[Demo, Test, Peers, Bench],
    },
    Need {
        sign: Program("unshare"),
        package: "util-linux",
        why: "a private network for tests",
        purposes: &[Test, Peers, Bench],
    },
    Need {
        sign: Program("iperf3"),
        package: "iperf3",
        why: "TCP and UDP through the gateways",
        purposes: &[Test, Peers, Bench],
    },
    Need {
        sign: Program("ptp4l"),
        package: "linuxptp",
        why: "PTP through the gateways",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("hostapd"),
        package: "hostapd",
        why: "an authenticator for the gateways",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("wpa_supplicant"),
        package: "wpasupplicant",
        why: "a supplicant for the gateways",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("ping"),
        package: "iputils-ping",
        why: "reachability between peers",
        purposes: &[Test, Peers, Bench],
    },
    Need {
        sign: Program("ethtool"),
        package: "ethtool",
        why: "the offloads of the test interfaces",
        purposes: &[Test, Peers, Bench],
    },
    Need {
        sign: Program("tshark"),
        package: "tshark",
        why: "an independent dissector of PROFINET",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("promtool"),
        package: "prometheus",
        why: "an independent reader of the metrics and the alerts",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("qemu-system-x86_64"),
        package: "qemu-system-x86",
        why: "a guest with the Linux kernel's MACsec",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("x86_64-linux-gnu-objdump"),
        package: "binutils",
        why: "the libraries of that guest",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("zstd"),
        package: "zstd",
        why: "that guest's kernel image",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("xz"),
        package: "xz-utils",
        why: "that guest's kernel image",
        purposes: &[Test, Peers],
    },
    Need {
        sign: File("/usr/bin/python3"),
        package: "python3",
        why: "scapy, profinet-py and libiec61850's Python package",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Python("ensurepip"),
        package: "python3-venv",
        why: "a virtual environment for them",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("wireguard-go"),
        package: "wireguard-go",
        why: "a stock far end of an overlay",
        purposes: &[Test, Peers, Bench],
    },
    Need {
        sign: Program("wg"),
        package: "wireguard-tools",
        why: "sets that far end up",
        purposes: &[Test, Peers, Bench],
    },
    Need {
        sign: File("/usr/sbin/mosquitto"),
        package: "mosquitto",
        why: "the MQTT broker of tests and of the experiment",
        purposes: &[Test, Peers, Bench],
    },
    Need {
        sign: Program("mosquitto_sub"),
        package: "mosquitto-clients",
        why: "reads a broker's queue beside our subscriber",
        purposes: &[Test, Peers],
    },
    Need {
        sign: File("/usr/sbin/nats-server"),
        package: "nats-server",
        why: "another MQTT broker, and the engine of a fleet",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("node"),
        package: "nodejs",
        why: "runs another MQTT broker, aedes, and drives a browser",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("npm"),
        package: "npm",
        why: "fetches aedes, mqtt.js and Node-RED",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("mvn"),
        package: "maven",
        why: "fetches another MQTT broker, HiveMQ, and Scandium, a partner of our DTLS, and brings the Java that runs them",
        purposes: &[Test, Peers],
    },
    Need {
        sign: File("/usr/bin/chromium-headless-shell"),
        package: "chromium-headless-shell",
        why: "a browser that looks at the gateway's page",
        purposes: &[Test, Peers],
    },
    Need {
        sign: File("/usr/include/mosquitto_broker.h"),
        package: "mosquitto-dev",
        why: "the broker's headers, which its plugin is held against",
        purposes: &[Test, Peers],
    },
    Need {
        sign: File("/usr/include/mosquitto.h"),
        package: "libmosquitto-dev",
        why: "the header that those include",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("openvpn"),
        package: "openvpn",
        why: "the peer of the gateway's benchmark",
        purposes: &[Test, Bench],
    },
    Need {
        sign: Program("openssl"),
        package: "openssl",
        why: "the peer of our DTLS, and certificates for the gateway's benchmark",
        purposes: &[Test, Peers, Bench],
    },
    Need {
        sign: Program("go"),
        package: "golang-go",
        why: "builds a partner of our DTLS that has connection IDs, and an MQTT broker",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("gnutls-cli"),
        package: "gnutls-bin",
        why: "a partner of our DTLS",
        purposes: &[Test, Peers],
    },
    Need {
        sign: File("/usr/include/mbedtls/ssl.h"),
        package: "libmbedtls-dev",
        why: "a partner of our DTLS",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("coap-server-gnutls"),
        package: "libcoap3-bin",
        why: "CoAP over DTLS, a partner of ours",
        purposes: &[Test, Peers],
    },
    Need {
        sign: Program("qemu-system-arm"),
        package: "qemu-system-arm",
        why: "an emulated Cortex-M3",
        purposes: &[Test, Firmware, Peers],
    },
    Need {
        sign: Program("skopeo"),
        package: "skopeo",
        why: "an independent reader of the image for containers",
        purposes: &[Test],
    },
    Need {
        sign: Program("qemu-system-riscv32"),
        package: "qemu-system-misc",
        why: "an emulated RISC-V of 32 bits",
        purposes: &[Test, Firmware],
    },
    Need {
        sign: Program("chromium-headless-shell"),
        package: "chromium-headless-shell",
        why: "shows the page of the report",
        purposes: &[Test],
    },
    Need {
        sign: Program("ld.lld-16"),
        package: "lld-16",
        why: "links for motes",
        purposes: &[Test, Firmware],
    },
    Need {
        sign: Program("clang-16"),
        package: "clang-16",
        why: "compiles C for motes",
        purposes: &[Test, Firmware],
    },
    Need {
        sign: File("/usr/bin/cargo"),
        package: "cargo-web",
        why: "compiles for motes",
        purposes: &[Test, Firmware],
    },
    Need {
        sign: File("/usr/bin/rustc"),
        package: "rustc-web",
        why: "compiles for motes",
        purposes: &[Test, Firmware],
    },
    Need {
        sign: File("/usr/include/openssl/ssl.h"),
        package: "libssl-dev",
        why: "compiles the benchmark of ciphers without building OpenSSL",
        purposes: &[Test],
    },
    Need { sign: Program("pkg-config"), package: "pkg-config", why: "finds C libraries", purposes: &[Test] },
    Need { sign: Program("cmake"), package: "cmake", why: "builds examples in C", purposes: &[Test] },
    Need { sign: Program("perl"), package: "perl", why: "OpenSSL is built with it", purposes: &[Ciphers] },
    Need { sign: Program("make"), package: "make", why: "OpenSSL is built with it", purposes: &[Ciphers] },
];

impl Need {
    fn missing(&self) -> bool {
        match self.sign {
            Program(name) => !has_program(name),
            File(path) => !Path::new(path).exists(),
            Python(module) => {
                program("/usr/bin/python3").args(["-c", &format!("import {module}")]).read(20).is_err()
            }
        }
    }
}

/// Installs the packages of a purpose; without one, those of demo, test and bench.
pub fn set_up(purpose: Option<Purpose>) -> Result<bool, String> {
    let purposes = purpose.map_or(vec![Demo, Test, Bench], |purpose| vec![purpose]);
    for purpose in purposes {
        ensure(purpose)?;
    }
    println!("xtask: everything is there");
    Ok(true)
}

/// Installs the packages that `purpose` lacks, if any.
pub fn ensure(purpose: Purpose) -> Result<(), String> {
    disk::check(purpose.gibibytes())?;
    let needs = || NEEDS.iter().filter(|n| n.purposes.contains(&purpose) && n.missing());
    let missing: Vec<(&str, &str)> = needs().map(|n| (n.package, n.why)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    packages(&missing)?;
    let still: Vec<&str> = needs().map(|n| n.package).collect();
    if still.is_empty() {
        Ok(())
    } else {
        Err(format!("installed, but not found afterwards: {}", still.join(" ")))
    }
}

/// Announces Debian packages, each with its use, then installs them.
pub fn packages(wanted: &[(&str, &str)]) -> Result<(), String> {
    println!("This needs Debian packages that are not here:");
    for (package, why) in wanted {
        println!("  {package:16} {why}");
    }
    let names: Vec<&str> = wanted.iter().map(|(package, _)| *package).collect();
    if !has_program("apt-get") {
        return Err(format!(
            "there is no apt-get here; install by this system's own means: {}",
            names.join(" ")
        ));
    }
    let by_hand = format!("apt-get install --no-install-recommends {}", names.join(" "));
    let sudo: &[&str] = if is_root() {
        &[]
    } else if has_program("sudo") {
        &["sudo"]
    } else {
        return Err(format!("neither root nor sudo; ask an administrator for:\n  {by_hand}"));
    };
    // A stale index is the usual reason for a failed download, so a second try follows an update.
    if apt(sudo, &install(&names)).is_err() {
        apt(sudo, &["update"])?;
        apt(sudo, &install(&names)).map_err(|e| format!("{e}\nby hand: {by_hand}"))?;
    }
    Ok(())
}

fn install<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    words.extend(packages);
    words
}

fn apt(sudo: &[&str], words: &[&str]) -> Result<(), String> {
    let all: Vec<&str> =
        sudo.iter().copied().chain(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]).collect();
    let mut command = program(all[0]);
    command.args(&all[1..]).args(words);
    println!("$ {}", line(&command));
    // Standard input stays open for sudo's prompt.
    let status = command.status().map_err(|e| format!("{}: {e}", line(&command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", line(&command))) }
}

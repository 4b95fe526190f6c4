//! The rights that running gateways have left.

use std::fs;

use antedate_gateway::run::control::{self, Request};

use super::memory::{agreeing, settled, write_cak};
use super::signal;

/// `CAP_NET_RAW` and `CAP_IPC_LOCK`.
const SOCKETS_AND_MEMORY: u64 = 1 << 13 | 1 << 14;

/// The value of a line of `/proc/PID/status`.
fn line<'a>(status: &'a str, name: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':').map(str::trim);
    status.lines().find_map(value).unwrap_or_default()
}

pub(super) fn gateway_gives_up_rights() {
    let mut site = agreeing("rights", "");
    settled(&site, 0);
    let mut forwarding = 0;
    for thread in
        fs::read_dir(format!("/proc/{}/task", site.gateways[0].pid())).expect("its threads").flatten()
    {
        let status = fs::read_to_string(thread.path().join("status")).expect("its status");
        assert_eq!((line(&status, "NoNewPrivs"), line(&status, "Seccomp")), ("1", "2"), "{status}");
        let allowed = match line(&status, "Name") {
            "antedate" | "key-agreement" => SOCKETS_AND_MEMORY,
            "out" | "in" | "both" => {
                forwarding += 1;
                let others =
                    fs::read_to_string(format!("/proc/{}/status", site.gateways[0].pid())).expect("it runs");
                let [own, others] = [&status, &others]
                    .map(|status| line(status, "Seccomp_filters").parse::<u32>().expect("a number"));
                assert!(own > others, "frames have no filter of their own: {status}");
                0
            }
            _ => 0,
        };
        for set in ["CapEff", "CapPrm"] {
            let capabilities = u64::from_str_radix(line(&status, set), 16).expect("a set");
            assert_eq!(capabilities & !allowed, 0, "{set}: {status}");
        }
    }
    assert!(forwarding > 0, "no forwarding thread");
    // A key file that was replaced is still read.
    let new = site.files.join("cak.new");
    write_cak(&new);
    fs::rename(new, site.files.join("cak")).expect("replaced");
    let reply = control::ask(&site.files.join("a.sock"), Request::Reload {}).expect("a reply");
    assert!(reply.ok, "{reply:?}");
    // So is the configuration, on a signal too.
    let (file, new) = (site.files.join("a.toml"), site.files.join("new.toml"));
    let text = fs::read_to_string(&file).expect("its configuration");
    fs::write(&new, text.replace("[\"all\"]", "[\"lldp\"]")).expect("written");
    fs::rename(new, file).expect("replaced");
    signal(&site.gateways[0], "HUP");
    site.await_line(0, "policy taken over");
}

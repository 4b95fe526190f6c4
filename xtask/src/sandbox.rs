//! A private network, mount and process namespace for commands that build networks.
//!
//! The command starts itself again under `unshare`. Its namespaces, links and daemons end with it,
//! also after a crash, and their names cannot clash with the machine's. Without root, a user
//! namespace gives the same except real-time scheduling.

use crate::shell::{Run, is_root, program};
use std::process::{Command, Stdio};

const MARK: &str = "ANTEDATE_XTASK_SANDBOX";

/// Inside a sandbox: prepares it and returns `Ok(None)`. Outside: runs this command in a sandbox
/// and returns its verdict.
pub fn enter() -> Result<Option<bool>, String> {
    if inside() {
        // `ip netns` and wireguard-go keep their names below /run, and gateways their locks of keys,
        // which are the same in many tests; a mount of our own there hides nothing else of the
        // machine.
        let places: &[&str] =
            if is_mapped_user() { &["/run"] } else { &["/run/lock", "/run/netns", "/run/wireguard"] };
        for place in places {
            std::fs::create_dir_all(place).map_err(|e| format!("{place}: {e}"))?;
            program("mount").args(["-t", "tmpfs", "tmpfs", place]).bounded(5)?;
        }
        std::fs::create_dir_all("/run/netns").map_err(|e| format!("/run/netns: {e}"))?;
        program("ip").args(["link", "set", "lo", "up"]).bounded(5)?;
        return Ok(None);
    }
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = unshare();
    command.arg(me).args(std::env::args_os().skip(1)).env(MARK, if is_root() { "root" } else { "user" });
    let status = command.stdin(Stdio::null()).status().map_err(|e| format!("unshare: {e}"))?;
    match status.code() {
        Some(0) => Ok(Some(true)),
        Some(1) => Ok(Some(false)),
        _ => Err(format!("the private network namespace: {status}")),
    }
}

/// True in a sandbox of an ordinary user, whose root has fewer rights.
pub fn is_mapped_user() -> bool {
    std::env::var(MARK).is_ok_and(|v| v == "user")
}

/// True inside a sandbox.
pub fn inside() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Checks that this machine allows a sandbox; the error names the missing part.
pub fn possible() -> Result<(), String> {
    unshare().arg("true").read(10).map(drop).map_err(|_| {
        "this machine forbids network namespaces: run as root, or allow user namespaces (kernel.unprivileged_userns_clone=1)"
            .to_string()
    })
}

fn unshare() -> Command {
    let mut command = program("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command
}

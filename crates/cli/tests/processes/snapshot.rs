//! A virtual machine that goes on from a snapshot. The event is that of the kernel's driver, which
//! the kernel passes on for a process that administers the network namespace.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use antedate_lab::ns::Namespace;
use antedate_lab::process::{Place, Process};
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sendto, socket_with};

use super::{ANTEDATE, PATIENCE, Site, directory, harness, macsec, overlay, start};

/// Tells the processes of a namespace about a new generation.
fn tell(space: &Namespace) -> std::io::Result<()> {
    let event = b"change@/devices/platform/VMGENCTR:00\0ACTION=change\0SUBSYSTEM=platform\0NEW_VMGENID=1\0";
    // The header of netlink(7): length, type, NLM_F_REQUEST, sequence number, port.
    let mut message = (16 + event.len() as u32).to_ne_bytes().to_vec();
    message.extend([0x20_u16, 1].map(u16::to_ne_bytes).concat());
    message.extend([0; 8]);
    message.extend(event);
    let send = || {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(KOBJECT_UEVENT))?;
        sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))
    };
    space.run(send)??;
    Ok(())
}

pub(super) fn gateway_ends_after_a_snapshot() {
    let files = directory("snapshot-keys");
    for (name, sections) in [("macsec", macsec(&files)), ("overlay", overlay(&files))] {
        let mut site = Site::with(name, sections);
        if let Err(error) = tell(&site.chain.gateway_a) {
            return harness::skipped(&format!("the event of a snapshot: {error}"));
        }
        site.await_line(0, "this virtual machine went on from a snapshot");
        let end = Instant::now() + PATIENCE;
        while site.gateways[0].is_running() {
            assert!(Instant::now() < end, "{name}: it does not end: {}", site.log(0));
            thread::sleep(Duration::from_millis(10));
        }
        assert!(site.gateways[1].is_running(), "{name}: of another machine");
        // Static keys are not used again; a new start agrees on others.
        if name == "overlay" {
            start(&site.files, "a", &site.chain.gateway_a).terminate();
            continue;
        }
        let file = site.files.join("a.toml").display().to_string();
        let place = Place { namespace: Some(site.chain.gateway_a.file()), ..Place::default() };
        let words = ["gateway", "run", &file];
        let mut again = Process::start("again", &ANTEDATE.into(), &words, &place).expect("it starts");
        assert!(!again.finish(PATIENCE), "it runs with the old keys");
        let _ = again.end();
        let said = again.errors().join("\n");
        for words in ["no key has packet numbers left", "antedate keygen macsec"] {
            assert!(said.contains(words), "{said}");
        }
    }
    let _ = fs::remove_dir_all(&files);
}

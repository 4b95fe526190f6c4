//! The memory of running processes, searched for keys.

mod aes128;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::run::control::{self, Request};
use antedate_gateway::run::status::Agreement;
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_wire::mka::{DistributedSak, Repr};

use super::{PATIENCE, Site, arrivals, directory, frame};
use aes128::{derived, expanded, unwrapped};

const CAK: [u8; 16] = *b"\x3a\xd1\x77\x04\x9e\x5f\xc8\x21\xb6\x40\xed\x8d\x12\x6b\xfa\x93";
const CKN: &str = "6d656d6f7279";
const HEX_CAK: &str = "3ad177049e5fc821b640ed8d126bfa93";
/// The longest time that a retired key may stay in memory.
pub(super) const WIPED: Duration = Duration::from_secs(1);
/// Octets read at once.
const PIECE: usize = 1 << 20;

/// Something to search for.
pub(super) struct Needle {
    pub(super) name: String,
    octets: [u8; 16],
}

/// Where a needle was found: its name, and the flags of the mapping (`VmFlags` of
/// `proc_pid_smaps(5)`).
pub(super) type Found = Vec<(String, String)>;

pub(super) fn needle(name: impl Into<String>, octets: [u8; 16]) -> Needle {
    Needle { name: name.into(), octets }
}

/// A key, and what is computed from it: the keys of its rounds, and the key of GHASH.
pub(super) fn schedule(name: &str, key: [u8; 16]) -> Vec<Needle> {
    let rounds = expanded(key);
    let mut hash = aes128::encrypted(key, [0; 16]);
    let mut needles = vec![needle(format!("{name}, GHASH key"), hash)];
    hash.reverse();
    needles.push(needle(format!("{name}, GHASH key backwards"), hash));
    needles.extend((0..).zip(rounds).map(|(round, key)| needle(format!("{name}, round {round}"), key)));
    needles
}

/// Searches all memory of a process. `None` if it cannot be read.
pub(super) fn search(pid: u32, needles: &[Needle]) -> Option<Found> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?;
    let mut begins = vec![false; 1 << 16];
    needles.iter().for_each(|needle| {
        begins[usize::from(u16::from_le_bytes([needle.octets[0], needle.octets[1]]))] = true
    });
    let (mut found, mut range) = (Found::new(), None);
    let mut piece = vec![0; PIECE + 15];
    for line in maps.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-')
            && let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16))
        {
            range = line.contains(" rw").then_some(from..to);
            continue;
        }
        let (Some(flags), Some(range)) = (line.strip_prefix("VmFlags:"), range.clone()) else { continue };
        for at in range.clone().step_by(PIECE) {
            let len = piece.len().min((range.end - at) as usize);
            let Ok(len) = memory.read_at(&mut piece[..len], at) else { continue };
            for (place, window) in piece[..len].windows(16).enumerate() {
                if place < PIECE && begins[usize::from(u16::from_le_bytes([window[0], window[1]]))] {
                    let hits = needles.iter().filter(|needle| needle.octets == window);
                    found.extend(
                        hits.map(|needle| (needle.name.clone(), format!("{:x} {flags}", at + place as u64))),
                    );
                }
            }
        }
    }
    Some(found)
}

pub(super) fn count(found: &Found, name: &str) -> usize {
    found.iter().filter(|(found, _)| found == name).count()
}

/// The SAKs by number that pass a port of the wire.
fn distributed(port: &PacketSocket, saks: &mut BTreeMap<u32, [u8; 16]>) {
    let kek = derived(CAK, b"IEEE8021 KEK", CKN);
    let mut frame = vec![0; 4096];
    while let Ok(Some(len)) = port.receive(&mut frame, false) {
        let Ok(parsed) = Repr::parse(&frame[..len]) else { continue };
        if let Some(DistributedSak::Sak(sak)) = parsed.repr.distributed_sak {
            saks.insert(sak.number, unwrapped(kek, sak.wrapped));
        }
    }
}

fn agreement(site: &Site, name: &str) -> Agreement {
    let socket = site.files.join(format!("{name}.sock"));
    let reply = control::ask(&socket, Request::Status {}).expect("a status");
    reply.status.and_then(|status| status.macsec?.agreement).expect("key agreement")
}

/// The number of keys since the start, once both gateways use a single one.
pub(super) fn settled(site: &Site, above: u64) -> u64 {
    let end = Instant::now() + PATIENCE;
    loop {
        let both = ["a", "b"].map(|name| agreement(site, name));
        let single =
            |one: &Agreement| matches!(&one.keys[..], [key] if key.transmits) && one.fresh_keys > above;
        if both.iter().all(single) {
            return both[0].fresh_keys;
        }
        assert!(Instant::now() < end, "no key after {above}: {both:#?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Two gateways that agree on keys, with more settings of MACsec.
pub(super) fn agreeing(name: &str, more: &str) -> Site {
    let files = directory(name);
    write_cak(&files.join("cak"));
    let section = format!("[macsec]\ncak_file = \"cak\"\nmka_destination = \"broadcast\"\n{more}");
    Site::build_in(files, [(); 2].map(|()| section.clone()))
}

/// Writes the file of the CAK.
pub(super) fn write_cak(file: &Path) {
    fs::write(file, format!("mka_cak={HEX_CAK}\nmka_ckn={CKN}\n")).expect("written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("its mode");
}

pub(super) fn retired_key_leaves_memory() {
    let mut site = agreeing("memory", "mka_rekey_seconds = 8");
    let options = Options { promiscuous: true, outgoing: true, ..Options::default() };
    let wire = site.chain.wire.as_ref().expect("a wire");
    let wire = wire.run(|| PacketSocket::open("a", options)).expect("a thread").expect("a socket");
    let mut saks = BTreeMap::new();
    // The first key was distributed before.
    let first = settled(&site, 0);
    let fresh = settled(&site, first);
    distributed(&wire, &mut saks);
    let (_, sak) = saks.last_key_value().expect("a SAK was distributed");
    let [plc, device] = [&site.chain.plc, &site.chain.device].map(Site::port);
    for (from, to) in [(&plc, &device), (&device, &plc)] {
        (0..20).for_each(|number| drop(from.send(&frame(1, number))));
        assert!(!arrivals(to, Duration::from_millis(50)).is_empty(), "nothing crosses: {}", site.log(0));
    }
    let lasting = [
        schedule("CAK", CAK),
        schedule("KEK", derived(CAK, b"IEEE8021 KEK", CKN)),
        schedule("ICK", derived(CAK, b"IEEE8021 ICK", CKN)),
        [0, 16]
            .map(|at| needle("CAK in digits", *HEX_CAK.as_bytes()[at..].first_chunk().expect("16")))
            .into(),
    ];
    let mut needles: Vec<_> = lasting.into_iter().flatten().chain(schedule("SAK", *sak)).collect();
    needles.sort_by(|a, b| a.name.cmp(&b.name));
    for gateway in &site.gateways {
        let Some(found) = search(gateway.pid(), &needles) else {
            return super::harness::skipped("the memory of gateways: /proc/PID/mem is not readable");
        };
        // The search finds a key in use: in the key agreement thread, and in each direction.
        assert!(count(&found, "SAK, round 0") >= 1, "{found:?}");
    }
    settled(&site, fresh);
    thread::sleep(WIPED);
    for at in 0..2 {
        let found = search(site.gateways[at].pid(), &needles).expect("its memory");
        // One copy of the CAK and of the keys derived from it, which makes and checks MKPDUs.
        for name in ["CAK", "KEK", "ICK"].map(|name| format!("{name}, round 0")) {
            let flags = found.iter().filter(|(found, _)| *found == name).map(|(_, flags)| flags);
            let closed = |flags: &String| [" lo", " dd"].iter().all(|flag| flags.contains(flag));
            assert!(flags.clone().count() == 1 && flags.clone().all(closed), "{name}: {found:#?}");
        }
        let rest: Vec<_> =
            found.iter().filter(|(name, _)| name.starts_with("SAK") || !name.ends_with(" 0")).collect();
        assert!(rest.is_empty(), "gateway {at}: {rest:#?}");
    }
    assert!(site.gateways.iter_mut().all(|gateway| gateway.is_running()));
}

//! `run.workers`, and the channels of members in the key file.

use super::machine::{KEYS, PEER, Site, overlay};
use super::*;
use crate::config::keys::{KeyFile, channels};

fn keys(here: u16, there: u16) -> String {
    KEYS.replace("sci = \"0200000000000001\"\n", &format!("sci = \"0200000000000001\"\nchannels = {here}\n"))
        .replace("sci = \"0200000000000002\"", &format!("sci = \"0200000000010001\"\nchannels = {there}"))
}

#[test]
fn workers_are_read() {
    let run = |lines: &str| parse(&format!("{SMALLEST}[run]\n{lines}\n"));
    assert_eq!(run("workers = 3").unwrap().run.threads, Threads::Workers(vec![None; 3]));
    let pinned = run("workers = 2\ncpus = [5, 3]").unwrap().run.threads;
    assert_eq!((pinned.cpus(), pinned.channels()), (vec![Some(5), Some(3)], 2));
    assert_eq!(run("workers = 1\ncpus = [4]").unwrap().run.threads, Threads::One(Some(4)));
    for (lines, fault) in [
        ("workers = 9", "run.workers: 9 is out of range"),
        ("workers = 0", "run.workers: 0 is out of range"),
        ("workers = 3\ncpus = [1, 2]", "run.cpus: names 2 CPUs for 3 forwarding thread(s)"),
        ("workers = 2\nthreads = 2", "run.threads: stands beside workers"),
    ] {
        let found = run(lines).unwrap_err();
        assert!(found.contains(fault), "{found}");
    }
}

#[test]
fn each_worker_needs_a_channel() {
    let site = Site::new("port = 1\n[run]\nworkers = 3\n");
    site.keys(&keys(4, 2));
    let checked = site.check().unwrap();
    let Keyed::Macsec { keys: members, own, .. } = &checked.protection else { panic!("{checked:?}") };
    let peers: Vec<_> = members.peers(*own).map(|peer| (peer.name.as_str(), peer.sci.port())).collect();
    assert_eq!(peers, [("there", 1), ("there#2", 2)], "own channels are no peers");
    site.keys(&keys(2, 4));
    let found = site.check().unwrap_err();
    assert!(found.contains("run.workers: 3 workers need a transmit channel each"), "{found}");
    assert!(found.contains("antedate keygen macsec --channels 3"), "{found}");
}

#[test]
fn workers_are_refused_where_they_do_not_fit() {
    for (lines, fault) in [
        ("include_sci = false\n[run]\nworkers = 2\n", "need the SCI in each frame"),
        (
            "[run]\nworkers = 2\n[express]\ntraffic = [\"profinet-rt\"]\nrate_mbit = 100\n",
            "cannot be beside [express]",
        ),
        ("[run]\nworkers = 2\n[second_uplink]\ninterface = \"eth2\"\n", "cannot be beside [second_uplink]"),
        ("[run]\nworkers = 2\n[standby]\ngroup = 1\n", "cannot be beside [standby]"),
        ("[run]\nworkers = 2\n[loop_detection]\n", "cannot be beside [loop_detection]"),
        ("[run]\nworkers = 2\n[ptp]\ntransparent_clock = true\n", "cannot be beside ptp.transparent_clock"),
        (
            "[run]\nworkers = 2\n[policy]\nbroadcast_limit = 100\n",
            "cannot be beside bounds on frames a second",
        ),
    ] {
        let site = Site::new(lines);
        site.keys(&keys(2, 2));
        let found = site.check().unwrap_err();
        assert!(found.contains(&format!("run.workers: {fault}")), "{found}");
    }
}

#[test]
fn workers_agree_upon_keys() {
    let agreed = |lines: &str| {
        let site = Site::agreed(lines);
        site.check()
    };
    let checked = agreed("[run]\nworkers = 8\n").unwrap();
    let Keyed::Agreed { own, .. } = &checked.protection else { panic!("{checked:?}") };
    assert_eq!((own.port(), checked.config.run.threads.channels()), (1, 8));
    assert!(agreed("port = 32766\n[run]\nworkers = 2\n").is_ok());
    for port in [32767, 65535] {
        let found = agreed(&format!("port = {port}\n[run]\nworkers = 2\n")).unwrap_err();
        assert!(found.contains(&format!("run.workers: 2 port numbers from {port} on pass 32767")), "{found}");
        assert!(found.contains("give this gateway a lower port in [macsec]"), "{found}");
    }
    for (lines, fault) in [
        ("include_sci = false\n[run]\nworkers = 2\n", "need the SCI in each frame"),
        ("[run]\nworkers = 2\n[standby]\ngroup = 1\n", "cannot be beside [standby]"),
    ] {
        let found = agreed(lines).unwrap_err();
        assert!(found.contains(&format!("run.workers: {fault}")), "{found}");
    }
    // The packet numbers of each channel lengthen the MKPDUs.
    let warned = |workers: u8| {
        let site = Site::agreed(&format!("[run]\nworkers = {workers}\n"));
        site.edit("interface = \"eth0\"", "interface = \"eth0\"\nmtu = 350");
        let warnings = site.check().unwrap().warnings;
        warnings.iter().any(|warning| warning.to_string().contains("the MKPDUs of key agreement"))
    };
    assert!(!warned(4) && warned(5));
}

#[test]
fn channels_of_members_are_apart() {
    let parse = |text: &str| KeyFile::parse(Path::new("keys"), text).map_err(|faults| faults.to_string());
    let found =
        parse(&KEYS.replace("0200000000000001\"\n", "0200000000000001\"\nchannels = 2\n")).unwrap_err();
    assert!(found.contains("\"here\" has the SCI 0200000000000002 too"), "{found}");
    for (line, fault) in [
        ("channels = 0", "0 is out of range"),
        ("channels = 9", "9 is out of range"),
        ("channels = true", "channels"),
    ] {
        let found =
            parse(&KEYS.replace("0200000000000002\"", &format!("0200000000010001\"\n{line}"))).unwrap_err();
        assert!(found.contains(fault), "{found}");
    }
    // Express channels begin at 32768.
    for (sci, legal) in [("0200000000017ffe", true), ("0200000000017fff", false), ("020000000001ffff", false)]
    {
        let text = KEYS.replace("0200000000000002\"", &format!("{sci}\"\nchannels = 2"));
        assert_eq!(parse(&text).is_ok(), legal, "{sci}");
    }
}

#[test]
fn workers_of_an_overlay_share_its_peers() {
    let with = |lines: &str, run: &str| overlay(lines, &format!("{PEER}[run]\n{run}\n")).check();
    let secured = "private_key_file = \"wg.key\"\n";
    let checked = with(secured, "workers = 4").unwrap();
    assert_eq!(checked.config.run.threads.channels(), 4);
    let warnings: Vec<_> = checked.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|warning| warning.contains("run.workers: 4 workers share 1 peer(s)")),
        "{warnings:?}"
    );
    for (lines, run, fault) in [
        ("wireguard = false\n", "workers = 2", "run.workers: need WireGuard"),
        (
            &format!("{secured}[overlay.second_uplink]\ninterface = \"eth2\"\nlisten = 4001\n"),
            "workers = 2",
            "run.workers: cannot be beside [overlay.second_uplink]",
        ),
        (
            &format!("{secured}release_clock_us = 500\n"),
            "workers = 2",
            "run.workers: cannot be beside overlay.release_clock_us",
        ),
        (secured, "threads = 2", "run.threads: an overlay has one forwarding thread"),
    ] {
        let found = with(lines, run).unwrap_err();
        assert!(found.contains(fault), "{found}");
    }
}

#[test]
fn channels_with_xpn_have_their_own_ssci() {
    let mut next = 0u8;
    let fill = |out: &mut [u8]| {
        out.iter_mut().for_each(|octet| {
            next = next.wrapping_add(1);
            *octet = next;
        });
        Ok::<_, ()>(())
    };
    let sci = |last| Sci([2, 0, 0, 0, 0, last, 0, 1]);
    let members = vec![("a".into(), sci(1)), ("b".into(), sci(2))];
    let made = KeyFile::generate(CipherSuite::GcmAesXpn128, members, fill).unwrap().with_channels(8);
    let read =
        KeyFile::parse(Path::new("keys"), &made.to_text()).map_err(|faults| faults.to_string()).unwrap();
    assert_eq!(read.members, made.members);
    let all: Vec<_> = read.members.iter().flat_map(channels::all).collect();
    let sscis: std::collections::BTreeSet<_> = all.iter().map(|(_, ssci)| ssci.unwrap()).collect();
    assert_eq!((all.len(), sscis.len()), (16, 16));
    // A file whose ranges of SSCIs overlap would repeat nonces.
    let found = KeyFile::parse(Path::new("keys"), &made.to_text().replace("ssci = 9", "ssci = 8"))
        .map_err(|faults| faults.to_string())
        .unwrap_err();
    assert!(
        found.contains("\"a\" has the same SSCI") || found.contains("\"b\" has the same SSCI"),
        "{found}"
    );
    // Each channel has one owner, and consecutive ones different owners.
    let owners: Vec<_> = all.iter().take(8).map(|(sci, _)| channels::owner(*sci, 4)).collect();
    assert_eq!(owners, [1, 2, 3, 0, 1, 2, 3, 0]);
}

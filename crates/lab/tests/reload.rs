//! Configurations that are read again while frames pass, a thousand a second.

mod daemon;
mod harness;
#[allow(dead_code, reason = "this program uses a part of the members")]
mod members;
#[allow(dead_code, reason = "this program uses a part of the plant")]
mod plant;
#[allow(dead_code, reason = "this program uses a part of the sites")]
mod sites;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use antedate_gateway::config::tunnel_keys::{Kind, encode, generate, public_of, write_new};
use antedate_gateway::run::control::{Reply, Request};
use antedate_gateway::run::status::{OverlayPeer, Status};
use harness::Test;
use members::{Association, Lost, NONE, frame, load};
use plant::{Plant, arp, cyclic};
use sites::{Far, Settings, Sites};

const TESTS: &[Test] = &[
    ("settings_change_without_a_loss", settings_change_without_a_loss),
    ("faulty_file_changes_nothing", faulty_file_changes_nothing),
    ("two_threads_take_over_one_policy", two_threads_take_over_one_policy),
    ("metrics_come_and_go", metrics_come_and_go),
    ("overlay_peers_come_and_go", overlay_peers_come_and_go),
    ("preshared_key_changes_without_a_loss", preshared_key_changes_without_a_loss),
    ("static_key_changes_without_a_loss", static_key_changes_without_a_loss),
    ("stock_end_changes_its_static_key", stock_end_changes_its_static_key),
];

fn main() -> ExitCode {
    harness::run("reload", TESTS)
}

fn taken(reply: &Reply, what: &str) {
    assert!(reply.ok && reply.message.contains(what), "{reply:?}");
}

fn refused(reply: &Reply, what: &str) {
    assert!(!reply.ok && reply.message.contains(what), "{reply:?}");
}

/// Changes both members' configurations.
fn change(association: &Association, before: &str, changed: &str, what: &str) {
    for member in &association.members {
        member.gateway.edit(before, changed);
        taken(&member.gateway.ask(Request::Reload {}), what);
    }
}

fn status(association: &Association, number: usize) -> Status {
    let reply = association.members[number].gateway.ask(Request::Status {});
    *reply.status.expect("a status")
}

fn agreed() -> Association {
    let mut association = Association::build(2, "");
    association.start_all();
    association.until_agreed(&[0, 1]);
    association.crosses(0, 1, 1);
    association
}

fn settings_change_without_a_loss() {
    const ALLOW: &str = "allow = [\"profinet-rt\", \"lldp\"]";
    const RULE: &str = "[[policy.rule]]\naction = \"allow\"\nethertype = 0x8892\n";
    let other = RULE.replace("0x8892", "0x88cc");
    let mut association = agreed();
    let (sent, lost) = load(&mut association, (0, 1), 9, |second, members| match second {
        1 => change(members, ALLOW, RULE, "policy taken over"),
        // The rule stays, and goes on with its count.
        2 => change(members, RULE, &format!("{other}{RULE}"), "policy taken over"),
        3 => {
            let adaptive = "poll = \"adaptive\"\nmax_age_ms = 900";
            change(members, "poll = \"block\"", adaptive, "run.poll, run.max_age_ms taken over");
        }
        4 => change(members, "poll = \"adaptive\"", "poll = \"busy\"", "run.poll taken over"),
        5 => change(members, "poll = \"busy\"", "poll = \"block\"", "run.poll taken over"),
        6 => {
            let shape = "[[flows.shape]]\nbegins = \"8892\"\nvaries = [[14, 40]]\n";
            change(members, "[run]", &format!("[flows]\ntables = true\n{shape}[run]"), "flows taken over");
        }
        7 => change(members, "tables = true", "tables = false", "flows taken over"),
        8 => change(members, "tables = false", "tables = false", "1 CAK: 616263"),
        _ => {}
    });
    println!("   {sent} frames, lost: {lost:?}");
    assert_eq!(lost, NONE);
    let rules = status(&association, 1).inward.rules;
    assert!(rules.len() == 2 && rules[1] > 7_000, "{rules:?}");
    assert_eq!(status(&association, 0).threads[0].poll, "block");
    // The new policy holds.
    change(&association, "action = \"allow\"", "action = \"deny\"", "policy taken over");
    association.members[0].machine.send(&frame(0, 1, u32::MAX)).expect("the frame is sent");
    assert_eq!(association.next(1, Duration::from_millis(200)), None);
    assert_eq!(status(&association, 0).out.refused.get("policy:profinet-rt"), Some(&1));
}

fn faulty_file_changes_nothing() {
    let mut association = agreed();
    let before = fs::read_to_string(association.members[0].gateway.file()).expect("its configuration");
    let (sent, lost) = load(&mut association, (0, 1), 3, |second, members| {
        let gateway = &members.members[0].gateway;
        // Each of these files would stop the traffic too.
        gateway.edit("\"profinet-rt\", ", "");
        let [at, with, what] = match second {
            1 => [
                "\"uplink\"\n",
                "\"uplink\"\nmtu = 1400\n",
                "uplink.mtu: cannot change while the gateway runs",
            ],
            _ => ["poll =", "pol =", "unknown key"],
        };
        gateway.edit(at, with);
        let reply = gateway.ask(Request::Reload {});
        refused(&reply, what);
        assert!(reply.message.contains("remedy"), "{reply:?}");
        fs::write(gateway.file(), &before).expect("the configuration is written");
    });
    println!("   {sent} frames, lost: {lost:?}");
    assert_eq!(lost, NONE);
    let gateway = &association.members[0].gateway;
    // A faulty file of CAKs keeps the configuration too, and a faulty configuration the CAKs.
    gateway.edit("\"profinet-rt\", ", "");
    refused(&gateway.reload("mka_cak=00\n"), "mka_cak: is not what it must be");
    association.crosses(0, 1, 7);
}

fn two_threads_take_over_one_policy() {
    let plant = Plant::build(&plant::Settings {
        run: "poll = \"adaptive\"\nthreads = 2",
        ..plant::Settings::default()
    });
    plant.until_it_crosses(&cyclic(1, 64));
    plant.plc.send(&arp());
    plant.device.expect_nothing();
    for gateway in [&plant.a, &plant.b] {
        gateway.edit("[\"profinet-rt\"]", "[\"arp\"]");
        gateway.edit("poll = \"adaptive\"", "poll = \"block\"");
        taken(&gateway.ask(Request::Reload {}), "policy, run.poll taken over");
    }
    plant.plc.send(&arp());
    plant.device.expect(&arp());
    plant.device.send(&arp());
    plant.plc.expect(&arp());
    plant.plc.send(&cyclic(2, 64));
    plant.device.expect_nothing();
    assert!(plant.a.status().threads.iter().all(|thread| thread.poll == "block"));
    // Static keys stay, and so does their file.
    plant.a.edit("key_file = \"keys\"", "key_file = \"keys\"\nreplay_window = 8");
    refused(&plant.a.ask(Request::Reload {}), "macsec.replay_window");
}

fn metrics_come_and_go() {
    let plant = Plant::build(&plant::Settings::default());
    let space = &plant.chain.gateway_a;
    let ask = || {
        let asked = space.run(|| -> std::io::Result<String> {
            let mut client = TcpStream::connect("127.0.0.1:9464")?;
            let request =
                "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/openmetrics-text\r\n\r\n";
            client.write_all(request.as_bytes())?;
            let mut answer = String::new();
            client.read_to_string(&mut answer)?;
            Ok(answer)
        });
        asked.expect("a thread")
    };
    assert!(ask().is_err(), "off unless configured");
    let on = "[metrics]\nlisten = \"127.0.0.1:9464\"\n[state]";
    plant.a.edit("[state]", on);
    taken(&plant.a.ask(Request::Reload {}), "metrics taken over");
    plant.until_it_crosses(&cyclic(1, 64));
    let answer = ask().expect("metrics");
    for line in ["antedate_forwarding 1\n", "antedate_forwarded_frames_total{direction=\"out\"} ", "# EOF\n"]
    {
        assert!(answer.contains(line), "{line}: {answer}");
    }
    // A socket that cannot be opened changes nothing.
    let other = space.run(|| TcpListener::bind("127.0.0.1:9465")).expect("a thread").expect("a socket");
    plant.a.edit("127.0.0.1:9464", "127.0.0.1:9465");
    refused(&plant.a.ask(Request::Reload {}), "cannot listen on 127.0.0.1:9465");
    drop(other);
    assert!(ask().is_ok());
    plant.a.edit(&on.replace("9464", "9465"), "[state]");
    taken(&plant.a.ask(Request::Reload {}), "metrics taken over");
    assert!(ask().is_err());
}

/// Sends a numbered frame from the PLC each millisecond. Returns the lost ones.
fn send_all(sites: &Sites, seconds: u64, mut at: impl FnMut(u64, &Sites)) -> Lost {
    let (start, mut done, mut came) = (Instant::now(), 0, Vec::new());
    let collect = |came: &mut Vec<u32>, patience| {
        while let Some(frame) = sites.device.next(patience) {
            came.extend(
                frame.get(16..20).and_then(<[u8]>::first_chunk).map(|number| u32::from_be_bytes(*number)),
            );
        }
    };
    let mut sent = 0u32;
    while start.elapsed() < Duration::from_secs(seconds) {
        let due = start + Duration::from_millis(sent.into());
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut frame = cyclic(0, 64);
        frame[16..20].copy_from_slice(&sent.to_be_bytes());
        sites.plc.send(&frame);
        sent += 1;
        collect(&mut came, Duration::ZERO);
        if start.elapsed().as_secs() > done {
            done += 1;
            at(done, sites);
        }
    }
    collect(&mut came, Duration::from_millis(300));
    let lost = Lost((0..sent).filter(|number| !came.contains(number)).collect());
    println!("   {sent} frames, lost: {lost:?}");
    lost
}

/// An answer of the device to [`cyclic`].
fn back(number: u8) -> Vec<u8> {
    let mut frame = cyclic(number, 64);
    let (destination, source) = frame[..12].split_at_mut(6);
    destination.swap_with_slice(source);
    frame
}

fn crosses(sites: &Sites) {
    sites.until_it_crosses(&sites.plc, &sites.device, &cyclic(1, 64));
    sites.until_it_crosses(&sites.device, &sites.plc, &back(2));
}

fn peers(sites: &Sites) -> Vec<OverlayPeer> {
    sites.near.status().overlay.expect("an overlay").peers
}

fn overlay_peers_come_and_go() {
    let sites = Sites::build(&Settings::default());
    crosses(&sites);
    let stranger = generate(Kind::Private, |octets| {
        octets.fill(0x33);
        Ok::<_, ()>(())
    })
    .expect("a key");
    let hall = format!(
        "[[overlay.peer]]\nname = \"hall\"\npublic_key = \"{}\"\nendpoint = \"192.0.2.77:51820\"\naddress = \"10.66.0.7\"\n\
         macs = [\"02:00:5e:00:00:77\"]\n",
        *encode(&public_of(&stranger))
    );
    let far = "[[overlay.peer]]\nname = \"far\"";
    let with_hall = format!("{hall}{far}");
    let reload = |sites: &Sites, before: &str, changed: &str, what: &str| {
        sites.near.edit(before, changed);
        taken(&sites.near.ask(Request::Reload {}), what);
    };
    let lost = send_all(&sites, 6, |second, sites| match second {
        1 => reload(sites, far, &with_hall, "new peers: hall"),
        2 => {
            let names: Vec<_> = peers(sites).into_iter().map(|peer| peer.name).collect();
            assert_eq!(names, ["far", "hall"]);
            reload(sites, "vni = 42", "vni = 42\nstorm_limit = 5000", "overlay.storm_limit taken over");
        }
        3 => reload(sites, "name = \"far\"", "name = \"yard\"\nkeepalive_seconds = 5", "changed peers: yard"),
        // It goes, and comes as the first in the list of the gateway.
        4 => reload(sites, &hall, "", "removed peers: hall"),
        5 => {
            let reply = {
                sites.near.edit("vni = 42", "vni = 43");
                sites.near.ask(Request::Reload {})
            };
            refused(&reply, "overlay.vni: cannot change while the gateway runs");
            sites.near.edit("vni = 43", "vni = 42");
        }
        _ => {}
    });
    assert_eq!(lost, NONE);
    let all = peers(&sites);
    assert_eq!((all.len(), all[0].name.as_str(), all[0].handshakes), (1, "yard", 1), "{all:?}");
    assert_eq!(all[0].macs, 1, "its machine was not learned anew");

    // Without the other end among its peers nothing passes, in either direction.
    let yard = "name = \"yard\"\nkeepalive_seconds = 5\npublic_key = \"";
    let key = encode(&public_of(&sites.keys[1]));
    let other = encode(&public_of(&stranger));
    reload(&sites, &format!("{yard}{}", *key), &format!("{yard}{}", *other), "removed peers: yard");
    sites.plc.send(&cyclic(3, 64));
    sites.device.expect_nothing();
    sites.device.send(&back(4));
    sites.plc.expect_nothing();
    reload(&sites, &format!("{yard}{}", *other), &format!("{yard}{}", *key), "new peers: yard");
    crosses(&sites);
}

fn preshared_key_changes_without_a_loss() {
    let sites = Sites::build(&Settings { preshared: true, ..Settings::default() });
    crosses(&sites);
    let new = generate(Kind::Preshared, |octets| {
        octets.fill(0x44);
        Ok::<_, ()>(())
    })
    .expect("a key");
    write_new(&sites.files.join("psk.new"), &new).expect("a key file");
    let reload = |gateway: &plant::Gateway| {
        gateway.edit("\"psk\"", "\"psk.new\"");
        taken(&gateway.ask(Request::Reload {}), "another preshared key: far");
    };
    let lost = send_all(&sites, 14, |second, sites| match second {
        1 => reload(&sites.near),
        4 => {
            assert_eq!(peers(sites)[0].handshakes, 1, "the other end has the old key");
            reload(sites.far.as_ref().expect("ours"));
        }
        _ => {}
    });
    assert_eq!(lost, NONE);
    assert!(peers(&sites)[0].handshakes > 1, "{:?}", peers(&sites));
}

/// Makes another private key of the far end, in `b.new`. Returns its public keys: the present one and
/// the other one.
fn other_key(sites: &Sites) -> [String; 2] {
    let new = generate(Kind::Private, |octets| {
        octets.fill(0x44);
        Ok::<_, ()>(())
    })
    .expect("a key");
    write_new(&sites.files.join("b.new"), &new).expect("a key file");
    [&sites.keys[1], &new].map(|key| encode(&public_of(key)).to_string())
}

fn static_key_changes_without_a_loss() {
    let sites = Sites::build(&Settings::default());
    crosses(&sites);
    let [old, new] = other_key(&sites);
    let edit = |gateway: &plant::Gateway, before: &str, after: &str, what: &str| {
        gateway.edit(before, after);
        taken(&gateway.ask(Request::Reload {}), what);
    };
    let present = format!("public_key = \"{old}\"");
    let both = format!("{present}\nnext_public_key = \"{new}\"");
    let lost = send_all(&sites, 10, |second, sites| match second {
        1 => edit(&sites.near, &present, &both, "changed peers"),
        3 => {
            assert_eq!(peers(sites)[0].public_key, old, "the far end has the old key");
            let far = sites.far.as_ref().expect("ours");
            edit(far, "\"b.key\"", "\"b.new\"", "another private key");
        }
        8 => {
            let peer = &peers(sites)[0];
            assert_eq!((&peer.public_key, &peer.other_public_key), (&new, &old));
            let last = format!("public_key = \"{new}\"");
            edit(&sites.near, &both, &last, "changed peers");
        }
        _ => {}
    });
    assert_eq!(lost, NONE);
    let peer = &peers(&sites)[0];
    assert!(peer.handshakes > 1 && peer.public_key == new && peer.other_public_key.is_empty(), "{peer:?}");
}

fn stock_end_changes_its_static_key() {
    if let Some(missing) = sites::stock_is_missing() {
        harness::skipped(&format!("a stock far end: {missing}"));
        return;
    }
    let sites = Sites::build(&Settings { far: Far::WireguardGo, ..Settings::default() });
    crosses(&sites);
    let [old, new] = other_key(&sites);
    let present = format!("public_key = \"{old}\"");
    let key = sites.files.join("b.new").display().to_string();
    // It drops its sessions with the key, and begins a handshake at its next frame.
    let lost = send_all(&sites, 7, |second, sites| match second {
        1 => {
            sites.near.edit(&present, &format!("{present}\nnext_public_key = \"{new}\""));
            taken(&sites.near.ask(Request::Reload {}), "changed peers");
        }
        3 => {
            let name = sites.stock.as_ref().expect("a stock end").name();
            let words = ["wg", "set", name, "private-key", &key];
            sites::run(&sites.chain.gateway_b, &words).expect("wg set");
            sites.device.send(&back(9));
        }
        _ => {}
    });
    assert_eq!(lost, NONE);
    let peer = &peers(&sites)[0];
    assert_eq!((&peer.public_key, &peer.other_public_key), (&new, &old));
}

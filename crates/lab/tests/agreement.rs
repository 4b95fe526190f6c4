//! Gateways with key agreement in network namespaces: start, key changes under load, failure of a
//! member.

mod daemon;
mod harness;
mod members;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use antedate_gateway::run::control::{Ping, Reply, Request};
use antedate_lab::sys::packet::{Options, PacketSocket};
use antedate_wire::link_local;
use harness::Test;
use members::{Association, CAK, NONE, frame, load};

const TESTS: &[Test] = &[
    ("two_gateways_agree_and_pass_traffic", two_gateways_agree_and_pass_traffic),
    ("three_gateways_agree_with_every_suite", three_gateways_agree_with_every_suite),
    ("eight_gateways_share_one_key", eight_gateways_share_one_key),
    ("sixty_four_gateways_share_one_key", sixty_four_gateways_share_one_key),
    ("a_suite_is_chosen_that_all_may_use", a_suite_is_chosen_that_all_may_use),
    ("key_changes_under_load_lose_no_frame", key_changes_under_load_lose_no_frame),
    ("late_member_sends_fragments", late_member_sends_fragments),
    ("two_gateways_agree_without_sci", two_gateways_agree_without_sci),
    ("fallen_key_server_is_replaced", fallen_key_server_is_replaced),
    ("restarted_gateway_rejoins_at_once", restarted_gateway_rejoins_at_once),
    ("other_cak_is_no_member", other_cak_is_no_member),
    ("key_after_a_cut_begins_at_one", key_after_a_cut_begins_at_one),
    ("introduction_works_over_a_switch", introduction_works_over_a_switch),
    ("filtered_mkpdus_speak_on_both_ends", filtered_mkpdus_speak_on_both_ends),
    ("other_cipher_speaks_on_both_ends", other_cipher_speaks_on_both_ends),
    ("swapped_ports_speak", swapped_ports_speak),
    ("forged_frames_speak", forged_frames_speak),
    ("lldp_over_a_switch_speaks", lldp_over_a_switch_speaks),
    ("lldp_is_carried_over_a_switch", lldp_is_carried_over_a_switch),
    ("short_path_is_found_and_followed", short_path_is_found_and_followed),
    ("mkpdus_have_the_outer_tag", mkpdus_have_the_outer_tag),
    ("echoes_stay_between_gateways", echoes_stay_between_gateways),
    ("cak_changes_one_by_one", cak_changes_one_by_one),
    ("cak_changes_at_once", cak_changes_at_once),
    ("replaced_cak_file_loses_no_frame", replaced_cak_file_loses_no_frame),
    ("single_cak_end_changes_last", single_cak_end_changes_last),
    ("restarted_gateway_is_followed", restarted_gateway_is_followed),
    ("followers_keep_the_old_cak", followers_keep_the_old_cak),
    ("faulty_cak_file_changes_nothing", faulty_cak_file_changes_nothing),
];

fn main() -> ExitCode {
    harness::run("key agreement", TESTS)
}

fn two_gateways_agree_and_pass_traffic() {
    for destination in ["nearest-non-tpmr-bridge", "broadcast", "02:00:5e:00:03:01"] {
        // A unicast destination is the other gateway's address.
        let other = if destination.starts_with("02") { "02:00:5e:00:03:00" } else { destination };
        let mut association = Association::build(0, "");
        association.add(&format!("mka_priority = 1\nmka_destination = \"{destination}\""), CAK);
        association.add(&format!("mka_priority = 2\nmka_destination = \"{other}\""), CAK);
        association.start_all();
        let took = association.until_agreed(&[0, 1]);
        println!("   {destination}: agreed {took:?} after the start of the second");
        // A bridge port takes up to a second to forward; without it agreement takes a quarter of
        // one.
        assert!(took < Duration::from_millis(1900), "{took:?}");
        association.crosses(0, 1, 1);
        association.crosses(1, 0, 2);
        let [a, b] = [0, 1].map(|number| association.members[number].gateway.macsec());
        let (agreement, other) = (a.agreement.expect("agreed"), b.agreement.expect("agreed"));
        assert!(agreement.is_key_server && !other.is_key_server && other.members[0].key_server);
        assert_eq!((&agreement.members[0].sci, agreement.members[0].antedate), (&b.sci, true));
        assert_eq!((agreement.fresh_keys, agreement.fault.as_str()), (1, ""));
        assert_eq!((a.counters["InPktsOK"], b.counters["InPktsOK"]), (1, 1));
    }
}

fn mkpdus_have_the_outer_tag() {
    let mut association = Association::build(0, "");
    let text = "[field]\ninterface = \"field\"\n\
        [uplink]\ninterface = \"uplink\"\nvlan = \"outside\"\nvlan_id = 100\n\
        [macsec]\ncak_file = \"CAK\"\n[policy]\nallow = [\"profinet-rt\"]\n\
        [run]\npoll = \"block\"\nmax_age_cyclic_ms = 1000\n";
    association.add_configured(text, CAK);
    association.add_configured(text, CAK);
    let options = Options { promiscuous: true, metadata: true, ..Options::default() };
    let port = association.wire.run(|| PacketSocket::open("p0", options)).expect("a thread");
    let port = port.expect("a socket at the bridge");
    association.start_all();
    association.until_agreed(&[0, 1]);
    association.crosses(0, 1, 1);
    association.crosses(1, 0, 2);
    let (mut buffer, mut kinds) = ([0; 2048], [0; 2]);
    while kinds.contains(&0) {
        assert!(port.wait(3_000_000_000).expect("a wait"), "MKPDUs and frames: {kinds:?}");
        let Ok(Some(received)) = port.receive_with_metadata(&mut buffer) else { continue };
        assert_eq!(received.vlan, Some((0x8100, 100)), "{:02x?}", &buffer[..received.len]);
        kinds[usize::from(buffer[12..14] == [0x88, 0x8e])] += 1;
    }
}

fn three_gateways_agree_with_every_suite() {
    for suite in
        ["gcm-aes-128", "gcm-aes-256", "gcm-aes-xpn-128", "gcm-aes-xpn-256", "ascon-aead128", "aes-128-ocb3"]
    {
        let mut association = Association::build(3, &format!("cipher = \"{suite}\""));
        association.start_all();
        association.until_agreed(&[0, 1, 2]);
        for (mark, (from, to)) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)].into_iter().enumerate() {
            // The bridge has learnt no machine yet, so a third one may have got an earlier frame
            // too.
            (0..3).for_each(|number| while association.next(number, Duration::from_millis(20)).is_some() {});
            association.crosses(from, to, mark as u8);
        }
        assert_eq!(association.members[2].gateway.agreement().keys[0].suite, suite);
    }
}

fn eight_gateways_share_one_key() {
    all_reach_each_other(8);
}

/// The largest number of members of an association.
fn sixty_four_gateways_share_one_key() {
    all_reach_each_other(64);
}

fn all_reach_each_other(count: usize) {
    let mut association = Association::build(count, "cipher = \"auto\"");
    association.start_all();
    let all: Vec<usize> = (0..count).collect();
    let took = association.until_agreed(&all);
    let agreement = association.members[count - 1].gateway.agreement();
    println!(
        "   {count} gateways agreed {took:?} after the start of the last, with {} keys",
        agreement.fresh_keys
    );
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from) {
            let sent = frame(from, to, (count * from + to) as u32);
            association.members[from].machine.send(&sent).expect("the frame is sent");
            // The bridge floods frames to machines that it has not learnt.
            while association.next(to, Duration::from_secs(3)).expect("it arrives") != sent {}
        }
    }
    // A restarted member joins at once; the others continue.
    association.members[3].gateway.stop();
    association.members[3].gateway.start();
    association.until_agreed(&all);
    all.iter().for_each(|number| while association.next(*number, Duration::from_millis(20)).is_some() {});
    association.crosses(3, 5, 99);
}

fn a_suite_is_chosen_that_all_may_use() {
    // The third one allows one suite only, and joins later.
    let auto = "cipher = \"auto\"\nmka_delay_protect = true\nmka_priority";
    let mut association = Association::build(0, "");
    association.add(&format!("{auto} = 1\nauto_ciphers = [\"gcm-aes-256\", \"chacha20-poly1305\"]"), CAK);
    association.add(&format!("{auto} = 2"), CAK);
    association.add("cipher = \"gcm-aes-256\"\nmka_priority = 3", CAK);
    association.members[0].gateway.start();
    association.members[1].gateway.start();
    association.until_agreed(&[0, 1]);
    association.crosses(0, 1, 1);
    association.crosses(1, 0, 2);
    let first = association.members[1].gateway.macsec().suite;
    println!("   two of them chose {first}");
    assert!(["gcm-aes-256", "chacha20-poly1305"].contains(&first.as_str()));
    association.members[2].gateway.start();
    association.until_agreed(&[0, 1, 2]);
    association.crosses(2, 0, 3);
    (0..3).for_each(|number| while association.next(number, Duration::from_millis(20)).is_some() {});
    association.crosses(0, 2, 4);
    let macsec = association.members[1].gateway.macsec();
    assert_eq!(macsec.suite, "gcm-aes-256");
    // MKPDUs bypass the controlled port, and delay protection must not lose a frame.
    let counters = &macsec.counters;
    assert!(counters["InPktsUncontrolled"] > 0, "{counters:#?}");
    assert_eq!((counters["InPktsNoTag"], counters["InPktsLate"]), (0, 0));
}

fn key_changes_under_load_lose_no_frame() {
    let mut association = Association::build(3, "mka_rekey_seconds = 10");
    association.members[0].gateway.start();
    association.members[1].gateway.start();
    association.until_agreed(&[0, 1]);
    association.crosses(0, 1, 0);
    let (sent, lost) = load(&mut association, (0, 1), 16, |second, association| {
        // A third one joins, which needs a fresh key, and leaves without notice.
        match second {
            2 => association.members[2].gateway.start(),
            4 => association.members[2].gateway.stop(),
            _ => {}
        }
    });
    let agreement = association.members[1].gateway.agreement();
    println!("   {sent} frames, {} keys, lost: {lost:?}", agreement.fresh_keys);
    assert!(agreement.fresh_keys >= 3, "{agreement:#?}");
    assert_eq!(lost, NONE);
}

/// The others hold a key when it joins, and learn that it fragments before its first fragment.
fn late_member_sends_fragments() {
    let mut association = Association::build(3, "");
    association.narrow(1500);
    (0..2).for_each(|number| association.members[number].gateway.start());
    association.until_agreed(&[0, 1]);
    association.crosses_whole(0, 1, 1);
    association.members[2].gateway.start();
    association.until_agreed(&[0, 1, 2]);
    for (mark, (from, to)) in [(2, 0), (0, 2), (2, 1), (1, 2), (1, 0)].into_iter().enumerate() {
        association.crosses_whole(from, to, 2 + mark as u32);
    }
    let counters = association.members[2].gateway.macsec().counters;
    assert!(counters["OutFramesFragmented"] >= 2 && counters["InFramesReassembled"] >= 2, "{counters:?}");
}

fn two_gateways_agree_without_sci() {
    let mut association = Association::build(3, "include_sci = false");
    (0..2).for_each(|number| association.members[number].gateway.start());
    association.until_agreed(&[0, 1]);
    association.crosses(0, 1, 1);
    association.crosses(1, 0, 2);
    assert_eq!(association.members[0].gateway.agreement().fault, "");
    // A third one's frames cannot be attributed, but each member can announce itself.
    association.members[2].gateway.start();
    association.until_agreed(&[0, 1, 2]);
    for member in &association.members {
        let fault = member.gateway.agreement().fault;
        assert!(fault.contains("include_sci"), "{fault}");
    }
}

fn fallen_key_server_is_replaced() {
    let mut association = Association::build(3, "");
    association.start_all();
    association.until_agreed(&[0, 1, 2]);
    let before = association.members[1].gateway.agreement().fresh_keys;
    let (sent, lost) = load(&mut association, (1, 2), 10, |second, association| {
        if second == 1 {
            association.members[0].gateway.stop();
        }
    });
    let agreement = association.members[1].gateway.agreement();
    println!("   {sent} frames, lost: {lost:?}");
    assert!(agreement.is_key_server, "{agreement:#?}");
    assert_eq!((lost, agreement.fresh_keys), (NONE, before + 1));
}

fn restarted_gateway_rejoins_at_once() {
    let mut association = Association::build(2, "");
    association.start_all();
    association.until_agreed(&[0, 1]);
    association.crosses(0, 1, 1);
    for number in [1, 0] {
        let before = association.members[1 - number].gateway.agreement().keys[0].key.clone();
        association.members[number].gateway.stop();
        association.members[number].gateway.start();
        let took = association.until_agreed(&[0, 1]);
        println!("   gateway {number}: agreed {took:?} after its start");
        assert!(took < Duration::from_secs(4), "{took:?}");
        association.crosses(0, 1, 2);
        association.crosses(1, 0, 3);
        let key = association.members[0].gateway.agreement().keys[0].key.clone();
        assert_ne!(key, before, "no packet number comes twice under one key");
    }
}

fn other_cak_is_no_member() {
    let mut association = Association::build(2, "");
    association.add("mka_priority = 1", "ffffffffffffffffffffffffffffffff");
    association.start_all();
    association.until_agreed(&[0, 1]);
    std::thread::sleep(Duration::from_millis(2500));
    association.crosses(0, 1, 1);
    let agreement = association.members[0].gateway.agreement();
    assert!(agreement.refused["wrong-icv"] > 0, "{agreement:#?}");
    let foreign = association.members[2].gateway.macsec();
    assert_eq!(foreign.encoding_sa, None, "there is no key");
    let foreign = foreign.agreement.expect("key agreement runs");
    assert_eq!((foreign.members.len(), foreign.keys.len()), (0, 0));
    association.members[2].machine.send(&frame(2, 0, 9)).expect("the frame is sent");
    (0..2).for_each(|number| assert_eq!(association.next(number, Duration::from_millis(200)), None));
}

fn key_after_a_cut_begins_at_one() {
    let mut association = Association::build(2, "mka_delay_protect = true");
    association.start_all();
    association.until_agreed(&[0, 1]);
    (0..100).for_each(|mark| association.crosses(mark % 2, 1 - mark % 2, mark as u8));
    let an = association.members[0].gateway.agreement().keys[0].an;
    association.wire.batch(&["link set dev p1 down".into()]).expect("a cut");
    let end = Instant::now() + Duration::from_secs(10);
    while !(association.members.iter()).all(|member| member.gateway.agreement().keys.is_empty()) {
        assert!(Instant::now() < end, "who is alone has no key");
        std::thread::sleep(Duration::from_millis(50));
    }
    association.wire.batch(&["link set dev p1 up".into()]).expect("no cut");
    association.until_agreed(&[0, 1]);
    assert_eq!(association.members[0].gateway.agreement().keys[0].an, an, "nobody knows of the one before");
    // Time to learn which packet numbers are late.
    std::thread::sleep(Duration::from_millis(1500));
    (0..4).for_each(|mark| association.crosses(mark % 2, 1 - mark % 2, mark as u8));
}

/// The configuration of the introduction: the lines between two sentences, indented.
fn introduced() -> String {
    let chapter = include_str!("../../../docs/src/introduction.md");
    let (_, rest) = chapter.split_once("write `gateway.toml`:\n\n```toml\n").expect("the configuration");
    let (text, _) = rest.split_once("```\n\nand run it:").expect("its end");
    let text = text.replace("\"eth1\"", "\"field\"").replace("\"eth0\"", "\"uplink\"");
    let text = text.replace("/etc/antedate/cak", "CAK");
    assert!(text.contains("\"field\"") && text.contains("CAK"), "{text}");
    text
}

/// Waits until a gateway warns of this, or no longer.
fn until_warned(association: &Association, number: usize, name: &str, warned: bool) {
    let end = Instant::now() + Duration::from_secs(15);
    let mut warnings = association.members[number].gateway.warnings();
    while warnings.iter().any(|known| known == name) != warned {
        assert!(Instant::now() < end, "{name} is not {warned} at gateway {number}: {warnings:?}");
        std::thread::sleep(Duration::from_millis(100));
        warnings = association.members[number].gateway.warnings();
    }
}

/// A protected echo to the only other member.
fn ping(association: &Association, number: usize, octets: u16) -> Reply {
    association.members[number].gateway.ask(Request::Ping(Ping { octets, ..Ping::default() }))
}

fn introduction_works_over_a_switch() {
    let mut association = Association::switched();
    (0..2).for_each(|_| association.add_configured(&introduced(), CAK));
    association.start_all();
    let took = association.until_agreed(&[0, 1]);
    println!("   agreed {took:?} after the start of the second");
    assert!(took < Duration::from_secs(4), "{took:?}");
    for number in 0..2 {
        let reply = ping(&association, number, 0);
        let echo = reply.echo.unwrap_or_else(|| panic!("{}", reply.message));
        assert_eq!((echo.octets, echo.answer_octets, echo.longest), (60, 60, 1550 + 14 - 32));
        assert_eq!(association.members[number].gateway.warnings(), [""; 0]);
        let agreement = association.members[number].gateway.agreement();
        // A bridge without spanning tree forwards the group of bridges.
        let by = &agreement.members[0].hears_by;
        assert!(["01:80:c2:00:00:00", "ff:ff:ff:ff:ff:ff"].contains(&by.as_str()), "{by}");
    }
    association.crosses(0, 1, 1);
}

fn filtered_mkpdus_speak_on_both_ends() {
    let mut association = Association::switched();
    association.add("mka_destination = \"nearest-bridge\"", CAK);
    association.add("mka_destination = \"broadcast\"", CAK);
    association.start_all();
    until_warned(&association, 0, "unheard", true);
    until_warned(&association, 1, "alone", true);
    association.members[0].gateway.stop();
    until_warned(&association, 1, "alone", true);
}

fn other_cipher_speaks_on_both_ends() {
    let mut association = Association::switched();
    association.add("cipher = \"gcm-aes-128\"", CAK);
    association.add("cipher = \"gcm-aes-256\"", CAK);
    association.start_all();
    (0..2).for_each(|number| until_warned(&association, number, "no-key", true));
}

fn swapped_ports_speak() {
    let mut association = Association::build(2, "");
    association.start_all();
    association.until_agreed(&[0, 1]);
    // Both networks of the first gateway are one: the second one's MKPDUs reach its machines.
    let listener = association.on_the_wire();
    let mkpdu = next_on(&listener, |frame| frame[12..14] == [0x88, 0x8e]);
    association.members[0].machine.send(&mkpdu).expect("it is sent");
    until_warned(&association, 0, "swapped-ports", true);
}

fn forged_frames_speak() {
    let mut association = Association::build(2, "");
    association.start_all();
    association.until_agreed(&[0, 1]);
    std::thread::sleep(Duration::from_secs(8));
    let listener = association.on_the_wire();
    association.crosses(0, 1, 1);
    let mut forged = next_on(&listener, |frame| frame[12..14] == [0x88, 0xe5]);
    *forged.last_mut().expect("an ICV") ^= 1;
    forged[19] = 0xff;
    listener.send(&forged).expect("it is sent");
    until_warned(&association, 1, "forged-frames", true);
    forged[20] ^= 0xff;
    listener.send(&forged).expect("it is sent");
    until_warned(&association, 1, "unknown-frames", true);
    association.crosses(0, 1, 2);
}

fn lldp_over_a_switch_speaks() {
    let mut association = Association::switched();
    (0..2).for_each(|_| association.add("", CAK));
    association.start_all();
    association.until_agreed(&[0, 1]);
    let mut lldp = frame(0, 1, 1);
    lldp[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
    // Key agreement first finds out that it is no cable.
    std::thread::sleep(Duration::from_secs(13));
    association.members[0].machine.send(&lldp).expect("it is sent");
    until_warned(&association, 0, "not-carried", true);
    assert_eq!(association.next(1, Duration::from_millis(200)), None);
}

fn lldp_is_carried_over_a_switch() {
    for express in ["", "[express]\ntraffic = [\"profinet-rt\"]\nrate_mbit = 1000\n"] {
        let mut association = Association::switched();
        for carries in [true, true, false] {
            association.add_configured(
                &format!(
                    "[field]\ninterface = \"field\"\n\
                     [uplink]\ninterface = \"uplink\"\ncarry_link_local = {carries}\n\
                     [macsec]\ncak_file = \"CAK\"\n{express}[policy]\nallow = [\"all\"]\n\
                     [run]\npoll = \"block\"\nmax_age_cyclic_ms = 1000\n"
                ),
                CAK,
            );
        }
        let wire = association.on_the_wire();
        association.start_all();
        association.until_agreed(&[0, 1, 2]);
        let refused = |association: &Association, number: usize| {
            let status = association.members[number].gateway.status();
            [&status.out, &status.inward].map(|way| way.refused.get("policy:malformed").copied().unwrap_or(0))
        };
        let mut lldp = frame(0, 1, 1);
        lldp[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
        let tagged = [&lldp[..12], &[0x81, 0, 0xe0, 0], &lldp[12..]].concat();
        for (count, sent) in [(1, &lldp), (2, &tagged)] {
            association.members[0].machine.send(sent).expect("it is sent");
            let came = association.next(1, Duration::from_secs(3));
            // The tag is beside the frame.
            assert_eq!(came.as_deref(), Some(&lldp[..]));
            assert_eq!(association.next(2, Duration::from_millis(200)), None, "it does not take them");
            assert_eq!(refused(&association, 2), [0, count]);
        }
        // A machine cannot speak in this form.
        let mut carried = vec![0; 2000];
        let len = link_local::carry(&lldp, &mut carried).expect("it fits");
        association.members[0].machine.send(&carried[..len]).expect("it is sent");
        assert_eq!(association.next(1, Duration::from_millis(200)), None);
        assert_eq!(refused(&association, 0), [1, 0]);
        let (mut buffer, mut on_the_way) = ([0; 2048], 0);
        while let Ok(Some(length)) = wire.receive(&mut buffer, false) {
            assert!(length < 14 || buffer[..5] != [0x01, 0x80, 0xc2, 0, 0] || buffer[12..14] != [0x88, 0xe5]);
            on_the_way += u32::from(buffer[..6] == link_local::GROUP.0);
        }
        assert_eq!(on_the_way, 2);
    }
}

fn short_path_is_found_and_followed() {
    let mut association = Association::switched();
    (0..2).for_each(|_| association.add("", CAK));
    // The switch drops longer frames without a word. It has space for a VLAN tag.
    let limit = |association: &Association, mtu: usize| {
        association.wire.batch(&[format!("link set dev p1 mtu {mtu}")]).expect("an MTU");
    };
    let until = |association: &Association, expected: u64| {
        let end = Instant::now() + Duration::from_secs(100);
        let path =
            |association: &Association| association.members[0].gateway.macsec().path.map(|path| path.mtu);
        while path(association) != Some(expected) {
            assert!(Instant::now() < end, "{:?} is found, not {expected}", path(association));
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    limit(&association, 1400);
    association.start_all();
    association.until_agreed(&[0, 1]);
    until(&association, 1404);
    association.crosses_whole(0, 1, 1);
    until_warned(&association, 0, "short-path", true);
    limit(&association, 1550);
    until(&association, 1550);
    until_warned(&association, 0, "short-path", false);
    association.crosses_whole(0, 1, 2);
}

fn echoes_stay_between_gateways() {
    let mut association = Association::build(2, "");
    association.start_all();
    association.until_agreed(&[0, 1]);
    let echo = ping(&association, 0, 1500).echo.expect("an answer");
    assert_eq!((echo.octets, echo.answer_octets), (1500, 60));
    let refused = ping(&association, 0, 1600);
    assert!(!refused.ok && refused.message.contains("1532 octets in one piece"), "{}", refused.message);
    let hall = Ping { peer: "hall".into(), ..Ping::default() };
    let nobody = association.members[0].gateway.ask(Request::Ping(hall));
    assert!(!nobody.ok && nobody.message.contains("\"hall\" is no member"), "{}", nobody.message);
    // A machine's echo passes nowhere.
    let mut forged = frame(0, 1, 1);
    forged[12..19].copy_from_slice(&[0x88, 0xb7, 0xa2, 0x4e, 0xd7, 0, 1]);
    association.members[0].machine.send(&forged).expect("it is sent");
    (0..2).for_each(|number| assert_eq!(association.next(number, Duration::from_millis(300)), None));
}

/// A block of the file of CAKs. The old one is that of [`CAK`].
fn block(new: bool, priority: i32) -> String {
    let (cak, ckn) = if new { ("2e".repeat(16), "6e6577") } else { (CAK.to_owned(), "616263") };
    format!("network={{\nmka_cak={cak}\nmka_ckn={ckn}\npriority={priority}\n}}\n")
}

/// The names of the CAKs that carry at both gateways.
fn carriers(association: &Association) -> Vec<String> {
    let caks = association.members.iter().map(|member| member.gateway.agreement().caks);
    caks.flat_map(|caks| caks.into_iter().find(|cak| cak.carries).map(|cak| cak.ckn)).collect()
}

/// Two gateways that agree under the old CAK and have learnt their machines.
fn with_the_old_cak() -> Association {
    let mut association = Association::build(2, "");
    association.start_all();
    association.until_agreed(&[0, 1]);
    association.crosses(0, 1, 1);
    association.crosses(1, 0, 2);
    association
}

fn reload(association: &Association, number: usize, text: &str) {
    let reply = association.members[number].gateway.reload(text);
    assert!(reply.ok, "{}", reply.message);
}

fn cak_changes_one_by_one() {
    let mut association = with_the_old_cak();
    let both = format!("{}{}", block(false, 0), block(true, 1));
    let (sent, lost) = load(&mut association, (0, 1), 9, |second, association| match second {
        1 => reload(association, 1, &both),
        3 => {
            assert_eq!(carriers(association), ["616263"; 2]);
            reload(association, 0, &both);
        }
        5 => {
            assert_eq!(carriers(association), ["6e6577"; 2]);
            reload(association, 1, &block(true, 1));
        }
        7 => reload(association, 0, &block(true, 1)),
        _ => {}
    });
    println!("   {sent} frames, lost: {lost:?}");
    assert!(association.members.iter().all(|member| member.gateway.agreement().caks.len() == 1));
    assert_eq!((carriers(&association), lost), (vec!["6e6577".to_owned(); 2], NONE));
}

fn cak_changes_at_once() {
    let mut association = with_the_old_cak();
    // Without priorities the first in the file is preferred.
    let both = format!("{}{}", block(true, 0), block(false, 0));
    let (sent, lost) = load(&mut association, (1, 0), 5, |second, association| match second {
        1 => (0..2).for_each(|number| reload(association, number, &both)),
        3 => (0..2).for_each(|number| reload(association, number, &block(true, 0))),
        _ => {}
    });
    println!("   {sent} frames, lost: {lost:?}");
    assert_eq!((carriers(&association), lost), (vec!["6e6577".to_owned(); 2], NONE));
}

fn replaced_cak_file_loses_no_frame() {
    let mut association = with_the_old_cak();
    let (sent, lost) = load(&mut association, (0, 1), 5, |second, association| match second {
        1 => reload(association, 0, &block(true, 0)),
        3 => reload(association, 1, &block(true, 0)),
        _ => {}
    });
    println!("   {sent} frames, lost: {lost:?}");
    assert_eq!((carriers(&association), lost), (vec!["6e6577".to_owned(); 2], NONE));
}

fn single_cak_end_changes_last() {
    let mut association = with_the_old_cak();
    reload(&association, 0, &format!("{}{}", block(false, 0), block(true, 1)));
    std::thread::sleep(Duration::from_secs(1));
    association.crosses(1, 0, 3);
    // It stops and starts, as wpa_supplicant does.
    association.members[1].gateway.stop();
    association.members[1].gateway.write_caks(&block(true, 0));
    association.members[1].gateway.start();
    let took = association.until_agreed(&[0, 1]);
    println!("   agreed {took:?} after its start");
    assert!(took < Duration::from_secs(4), "{took:?}");
    association.crosses(0, 1, 4);
    association.crosses(1, 0, 5);
    assert_eq!(carriers(&association), ["6e6577"; 2]);
}

/// Every file is replaced, one gateway is restarted, and nobody reloads.
fn restarted_gateway_is_followed() {
    for (first, text) in [(0, block(true, 0)), (1, format!("{}{}", block(false, 0), block(true, 1)))] {
        let mut association = with_the_old_cak();
        association.members[first].gateway.write_caks(&block(true, 0));
        association.members[1 - first].gateway.write_caks(&text);
        std::thread::sleep(Duration::from_millis(2500));
        assert_eq!(carriers(&association), ["616263"; 2], "a file alone changes nothing");
        association.members[first].gateway.stop();
        association.members[first].gateway.start();
        let took = association.until_agreed(&[0, 1]);
        println!("   agreed {took:?} after the start of number {first}");
        assert!(took < Duration::from_secs(4), "{took:?}");
        association.crosses(0, 1, 3);
        association.crosses(1, 0, 4);
        assert_eq!(carriers(&association), ["6e6577"; 2]);
    }
}

/// A member with the old CAK only is not lost by a gateway that follows another one.
fn followers_keep_the_old_cak() {
    let mut association = Association::build(3, "");
    association.start_all();
    association.until_agreed(&[0, 1, 2]);
    association.crosses(1, 2, 1);
    association.crosses(2, 1, 2);
    let caks = |association: &Association, number: usize| -> Vec<(String, bool)> {
        let caks = association.members[number].gateway.agreement().caks;
        caks.into_iter().map(|cak| (cak.ckn, cak.carries)).collect()
    };
    let name = |new: bool| String::from(if new { "6e6577" } else { "616263" });
    let (sent, lost) = load(&mut association, (1, 2), 13, |second, association| match second {
        1 => (0..2).for_each(|number| association.members[number].gateway.write_caks(&block(true, 0))),
        4 => association.members[0].gateway.stop(),
        5 => association.members[0].gateway.start(),
        8 => {
            assert_eq!(caks(association, 1), [(name(true), false), (name(false), true)]);
            association.members[2].gateway.write_caks(&block(true, 0));
        }
        _ => {}
    });
    println!("   {sent} frames, lost: {lost:?}");
    association.until_agreed(&[0, 1, 2]);
    (0..3).for_each(|number| assert_eq!(caks(&association, number), [(name(true), true)]));
    assert_eq!(lost, NONE);
}

fn faulty_cak_file_changes_nothing() {
    let association = with_the_old_cak();
    let gateway = &association.members[0].gateway;
    let other = block(false, 0).replace("0001", "1001");
    for (text, what) in [
        ("network={\nmka_cak=00\n", "mka_cak: is not what it must be"),
        (other.as_str(), "the CKN 616263 has another CAK in use"),
        (block(true, 0).repeat(2).as_str(), "is the name of another block"),
        ("", "mka_cak: is missing"),
    ] {
        let reply = gateway.reload(text);
        assert!(!reply.ok && reply.message.contains(what), "{}", reply.message);
        assert!(!reply.message.contains("0203"), "{}", reply.message);
    }
    association.crosses(0, 1, 3);
    assert_eq!(carriers(&association), ["616263"; 2]);
}

/// The next frame of this kind on the wire.
fn next_on(socket: &PacketSocket, kind: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut buffer, end) = (vec![0; 2048], Instant::now() + Duration::from_secs(5));
    loop {
        match socket.receive(&mut buffer, false) {
            Ok(Some(len)) if len > 22 && kind(&buffer[..len]) => return buffer[..len].to_vec(),
            Ok(Some(_)) => {}
            _ => {
                assert!(Instant::now() < end, "no such frame comes");
                let _ = socket.wait(10_000_000);
            }
        }
    }
}

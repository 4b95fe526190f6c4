use super::*;
use antedate_host::private_file::create;

fn faults(text: &str) -> String {
    GroupFile::parse(Path::new("g.toml"), text).expect_err("faults").to_string()
}

#[test]
fn rotation_topic_is_outside_the_groups_topics() {
    let with = |topics: &str, more: &str| {
        format!(
            "group = \"line4\"\nalgorithm = \"aes-128-gcm\"\ntopics = [\"{topics}\"]\nmanager = \"{}\"\n{more}",
            hex(&manager_public(&[7; 32]))
        )
    };
    let said = faults(&with("#", ""));
    assert!(faults(&with("+/keys/+/press7", "")).contains("antedate/keys/line4"), "one member's");
    assert!(said.contains("antedate/keys/line4") && said.contains("rotation_topic"), "{said}");
    assert!(faults(&with("plant/#", "rotation_topic = \"plant/keys\"\n")).contains("plant/keys"));
    assert!(faults(&with("plant/#", "rotation_topic = \"plant/+\"\n")).contains("name of a topic"));
    GroupFile::parse(Path::new("g.toml"), &with("plant/#", "")).expect("apart from each other");
}

fn group() -> GroupFile {
    GroupFile {
        file: PathBuf::new(),
        group: "line4".into(),
        algorithm: Algorithm::AesCcm16_64_128,
        topics: vec!["plant/line4/#".into()],
        rotation_topic: "antedate/keys/line4".into(),
        manager: Some(manager_public(&[5; 32])),
        signing: Some(Zeroizing::new([5; 32])),
        keys: vec![Key { epoch: 1, secret: Zeroizing::new([6; 32]), grace: Some(7), without: Vec::new() }],
        max_ages: vec![("plant/line4/valve".into(), 5)],
        signed: vec!["plant/line4/valve".into()],
        members: vec![Member {
            name: "press7".into(),
            public: Some([7; 32]),
            publish: true,
            verify: Some(manager_public(&[7; 32])),
        }],
        per_member: false,
        past_epochs: 0,
        topic_maps: Vec::new(),
        used_codes: Vec::new(),
    }
}

#[test]
fn managing_reads_back() {
    let managing = GroupFile {
        per_member: true,
        past_epochs: 8,
        topic_maps: vec![TopicMap { here: "site2/".into(), sealed: String::new() }],
        used_codes: vec![[1; 8], [0xfe; 8]],
        keys: vec![Key { without: vec!["press8".into()], ..group().keys.remove(0) }],
        ..group()
    };
    let text = managing.to_checked_text(false).expect("reads back");
    assert!(text.len() < managing.capacity());
    let read = GroupFile::parse(Path::new("g"), &text).expect("a group");
    assert!(read.per_member && read.past_epochs == 8 && read.used_codes == managing.used_codes);
    assert_eq!((&read.keys[0].without, &read.topic_maps), (&managing.keys[0].without, &managing.topic_maps));
    // None of it is a member's matter.
    let told = managing.to_text(true);
    for word in ["past_epochs", "per-member", "used_codes", "topic_map", "without"] {
        assert!(!told.contains(word), "{word}: {}", *told);
    }
    assert!(faults(&text.replace("past_epochs = 8", "past_epochs = 33")).contains("past_epochs"));
    assert!(faults(&text.replace("fefefefefefefefe", "fe")).contains("mark of a code"));
}

#[test]
fn bridged_topics_have_their_sealed_names() {
    let with = |maps: &[(&str, &str)]| {
        let maps =
            maps.iter().map(|(here, sealed)| TopicMap { here: (*here).into(), sealed: (*sealed).into() });
        GroupFile { topic_maps: maps.collect(), ..group() }
    };
    let far = with(&[("site2/", "")]);
    assert!(far.covers("site2/plant/line4/a") && far.covers_filter("site2/plant/line4/+/force"));
    assert_eq!(far.sealed_name("site2/plant/line4/a"), "plant/line4/a");
    // The sealed name has one place here.
    assert!(!far.covers("plant/line4/a") && !far.covers_filter("plant/line4/#"));
    assert_eq!(far.rotation_topic_here(Some("press7")), "site2/antedate/keys/line4/press7");
    let part = with(&[("far/line4/", "plant/line4/"), ("far/keys/", "antedate/keys/")]);
    assert!(part.covers("far/line4/a") && !part.covers("plant/line4/a") && !part.covers("far/other"));
    assert_eq!(part.rotation_topic_here(None), "far/keys/line4");
    let added = with(&[("", "plant/")]);
    assert!(added.covers("line4/a") && !added.covers("plant/line4/a"));
    let refused = |maps: &[(&str, &str)]| with(maps).to_checked_text(false).expect_err("refused").to_string();
    for two in [[("a/", "x/"), ("b/", "x/y/")], [("a/", "x/"), ("a/b/", "y/")], [("", "x/"), ("b/", "y/")]] {
        assert!(refused(&two).contains("two names"), "{two:?}");
    }
    assert!(refused(&[("+/", "")]).contains("no beginning of a topic"));
}

#[test]
fn secret_of_zeros_is_refused() {
    let text = group().to_text(false).replace(&"06".repeat(32), &"00".repeat(32));
    assert!(faults(&text).contains("all zeros"), "{text}");
}

#[test]
fn group_file_reads_back() {
    let read = GroupFile::parse(Path::new("g"), &group().to_text(false)).expect("a group");
    assert_eq!((read.keys.len(), read.members.clone(), read.manager), (1, group().members, group().manager));
    assert!(read.keys.iter().all(|key| (key.epoch, key.grace) == (1, Some(7))));
    let read = GroupFile::parse(Path::new("g"), &group().to_text(true)).expect("a group");
    assert!(read.keys.is_empty() && read.signing.is_none());
    // Its signed topics need the members' names and verify keys, and nothing else of them.
    let told = group().members.into_iter().map(|member| Member { public: None, ..member });
    assert_eq!((&read.members, &read.signed), (&told.collect::<Vec<_>>(), &group().signed));
    let unsigned = GroupFile { signed: Vec::new(), ..group() }.to_text(true);
    assert!(GroupFile::parse(Path::new("g"), &unsigned).expect("a group").members.is_empty());
    assert_eq!(read.manager, group().manager);
    assert!(read.covers("plant/line4/a") && !read.covers("plant/line5/a"));
}

#[test]
fn topics_of_any_characters_read_back() {
    let all: String = ('\u{1}'..='\u{200}').filter(|c| !matches!(c, '+' | '#' | '/')).collect();
    let topics =
        ["a/\u{200b}", "a\"b\\c", "\u{7f}\u{85}\t\r\n", "\u{10ffff}\u{1f39b}", &all].map(String::from);
    let odd = GroupFile {
        topics: topics.to_vec(),
        max_ages: Vec::new(),
        signed: Vec::new(),
        rotation_topic: format!("keys/{all}"),
        ..group()
    };
    for for_members in [false, true] {
        let text = odd.to_checked_text(for_members).expect("reads back");
        let read = GroupFile::parse(Path::new("g"), &text).expect("a group");
        assert_eq!((read.topics, read.rotation_topic), (topics.to_vec(), odd.rotation_topic.clone()));
    }
}

#[test]
fn invalid_group_is_not_written() {
    let faults = |group: GroupFile| group.to_checked_text(false).expect_err("refused").to_string();
    let said =
        faults(GroupFile { topics: vec!["#".into()], max_ages: Vec::new(), signed: Vec::new(), ..group() });
    assert!(said.starts_with("the new group file: topics: \"#\" takes in the rotation topic"), "{said}");
    let verify = Some(manager_public(&[7; 32]));
    let member = |i| Member { name: format!("m{i}"), public: Some([7; 32]), publish: true, verify };
    let said = faults(GroupFile { members: (0..2 * MEMBERS_MAX).map(member).collect(), ..group() });
    assert!(said.contains("longer than") && said.contains("several groups"), "{said}");
}

#[test]
fn overlapping_groups_are_reported_once() {
    let with = |file: &str, topics: &[&str]| GroupFile {
        file: file.into(),
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        ..group()
    };
    let said = overlaps(&[with("a", &["x", "o/#"]), with("b", &["p"]), with("c", &["o/line/#", "o/+", "p"])]);
    assert!(
        matches!(&said[..], [ac, bc] if ac.starts_with("c: \"o/line/#\" overlaps with \"o/#\" of a,")
        && bc.starts_with("c: \"p\" overlaps with \"p\" of b,")),
        "{said:?}"
    );
    assert!(overlaps(&[with("a", &["o/a", "o/#"])]).is_empty(), "within one group");
}

#[test]
fn second_file_of_a_group_is_a_fault() {
    let with = |file: &str, name: &str| GroupFile { file: file.into(), group: name.into(), ..group() };
    let found = doubled(&[with("a", "line4"), with("b", "line5"), with("c", "line4")]);
    assert!(
        matches!(&found[..], [fault] if fault.to_string().starts_with("c: is of the group \"line4\", as a is"))
    );
}

#[test]
fn managed_group_needs_a_device() {
    let read =
        |for_members| GroupFile::parse(Path::new("g"), &group().to_text(for_members)).expect("a group");
    let files = [read(true), read(false)];
    assert!(matches!(&keyless(&files, None)[..], [fault] if fault.to_string().contains("--device")));
    let device = Device { name: "press7".into(), secret: Zeroizing::new([7; 32]) };
    assert!(keyless(&files, Some(&device)).is_empty());
}

#[test]
fn filter_is_covered_by_a_wider_one() {
    assert!(group().covers_filter("plant/line4/+/force") && !group().covers_filter("plant/+/force"));
}

#[test]
fn all_faults_at_once_show_no_key() {
    let digits = "00112233445566778899aabbccddeeff00112233445566778899aabbccddee";
    let text = format!(
        "group = \"a b\"\nalgorithm = \"aes-ccm-16-64-127\"\ntopics = [\"a/#/b\"]\n[[key]]\nepoch = 1\nsecret = \"{digits}\"\n[[key]]\nepoch = -1\n"
    );
    let found = faults(&text);
    for part in [
        "g.toml:1: group: is not a name",
        "did you mean \"aes-ccm-16-64-128\"?",
        "g.toml:3: topics[0]: + stands alone on its level",
        "g.toml:6: key[0].secret: is not 64 hexadecimal digits",
        "g.toml:8: key[1].epoch",
    ] {
        assert!(found.contains(part), "{part}\n{found}");
    }
    assert!(!found.contains("0011"), "{found}");
    assert!(
        faults("group=\"g\"\nalgorithm=\"aes-128-gcm\"\ntopics=[\"a\"]\n").contains("neither a [[key]] nor")
    );
}

#[test]
fn secrets_readable_by_others_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("g.toml");
    create(&file, &group().to_text(false)).expect("written");
    assert!(GroupFile::load(&file).is_ok());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("mode");
    let found = GroupFile::load(&file).expect_err("refused").to_string();
    assert!(found.contains("others") && found.contains("chmod 600"), "{found}");
}

#[test]
fn members_file_may_be_readable_by_others() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("g.toml");
    let load = |text: &str, mode| {
        std::fs::write(&file, text).expect("written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("mode");
        GroupFile::load(&file).map_err(|faults| faults.to_string())
    };
    let text = group().to_text(true);
    for mode in [0o600, 0o640, 0o644, 0o444, 0o755] {
        assert_eq!(load(&text, mode).expect("no secret").manager, group().manager);
    }
    for mode in [0o664, 0o646, 0o666] {
        let said = load(&text, mode).expect_err("others could name another manager");
        assert!(said.contains("can change") && said.contains("chmod go-w"), "{said}");
    }
    // The syntax fault is reported, not the mode.
    let said = load(&format!("{}topcis = 1\n", *text), 0o644).expect_err("a fault");
    assert!(said.contains("topcis") && !said.contains("chmod"), "{said}");
    let secrets = group().to_text(false);
    for text in [secrets.to_string(), format!("{}\n[[key]]\nsecret = 1\n", *text), format!("{}[", *secrets)] {
        let said = load(&text, 0o644).expect_err("secrets");
        assert!(said.contains("chmod 600") && said.contains("make new keys"), "{said}");
    }
}

#[test]
fn ages_are_of_covered_topics() {
    let with = |more: &str| {
        let key = "[[key]]\nepoch = 1\nsecret = \"".to_owned() + &"1".repeat(64) + "\"\n";
        format!("group = \"g\"\nalgorithm = \"aes-128-gcm\"\ntopics = [\"plant/#\"]\n{key}{more}")
    };
    let fresh = "[[fresh]]\ntopics = [\"plant/valve\", \"plant/+/stop\"]\nmax_age = 5\n";
    let wide = "[[fresh]]\ntopics = [\"plant/#\"]\nmax_age = 60\n";
    let parse = |text: &str| GroupFile::parse(Path::new("g.toml"), text).expect("a group");
    let group = parse(&with(&(wide.to_owned() + fresh)));
    let ages = ["plant/valve", "plant/a/stop", "plant/force"].map(|topic| group.max_age(topic));
    assert_eq!(ages, [Some(5), Some(5), Some(60)], "the shortest counts");
    assert_eq!(parse(&with(fresh)).max_age("plant/force"), None);
    assert_eq!(parse(&group.to_text(false)).max_ages, group.max_ages);
    // A group without one says how to get it, as a comment that can be made a line.
    let hint = parse(&with("")).to_text(false);
    let made = hint
        .replace("# [[fresh]]", "[[fresh]]")
        .replace("# topics = [\"plant/line4/valve\"]", "topics = [\"plant/line4/valve\"]");
    assert_eq!(parse(&made.replace("# max_age", "max_age")).max_age("plant/line4/valve"), Some(5));
    assert!(!group.to_text(false).contains("# [[fresh]]"));
    let said = faults(&with("[[fresh]]\ntopics = [\"other/#\"]\nmax_age = 5\n"));
    assert!(said.contains("the group does not protect all of it"), "{said}");
    assert!(faults(&with("[[fresh]]\ntopics = [\"plant/a\"]\nmax_age = 0\n")).contains("max_age"));
    assert!(faults(&with("[[fresh]]\ntopics = [\"plant/a\"]\n")).contains("max_age"));
}

#[test]
fn files_hold_the_most_members_of_a_rotation() {
    let member = |at: usize| Member {
        name: format!("{at:0>64}"),
        public: Some([7; 32]),
        publish: false,
        // Each check takes its time, and the length is the same.
        verify: Some([7; 32]),
    };
    let full = GroupFile { members: (0..MEMBERS_MAX).map(member).collect(), ..group() };
    let text = full.to_text(false);
    assert!(text.len() < FILE_MAX, "{}", text.len());
    let members = full.members.into_iter().map(|member| Member { verify: None, ..member });
    let plain = GroupFile { members: members.collect(), signed: Vec::new(), ..group() };
    assert!(plain.to_checked_text(false).is_ok());
}

#[test]
fn keys_of_small_order_are_refused() {
    let base = |member: &str| {
        format!(
            "group = \"g\"\nalgorithm = \"aes-128-gcm\"\ntopics = [\"plant/#\"]\n[[key]]\nepoch = 1\nsecret = \"{}\"\n[[member]]\nname = \"m\"\n{member}\n",
            "5e".repeat(32)
        )
    };
    let one = format!("01{}", "00".repeat(31));
    for (field, good) in [("public", hex(&[7; 32])), ("verify", hex(&manager_public(&[7; 32])))] {
        assert!(GroupFile::parse(Path::new("g"), &base(&format!("{field} = \"{good}\""))).is_ok(), "{field}");
        for weak in ["00".repeat(32), one.clone()] {
            let text = base(&format!("{field} = \"{weak}\""));
            let faults = GroupFile::parse(Path::new("g"), &text).expect_err("a weak key").to_string();
            assert!(faults.contains("small order"), "{field}: {faults}");
        }
    }
}

#[test]
fn managers_key_of_small_order_is_refused() {
    let one = format!("01{}", "00".repeat(31));
    for weak in ["00".repeat(32), one] {
        let text = group().to_text(true).replace(&hex(&manager_public(&[5; 32])), &weak);
        assert!(faults(&text).contains("small order"), "{weak}");
    }
}

#[test]
fn signed_topics_need_verify_keys() {
    let signed = |members: &str| {
        format!(
            "group = \"g\"\nalgorithm = \"aes-128-gcm\"\ntopics = [\"plant/#\"]\n[[signed]]\ntopics = [\"plant/valve\"]\n[[key]]\nepoch = 1\nsecret = \"{}\"\n{members}",
            "5e".repeat(32)
        )
    };
    let faults = GroupFile::parse(Path::new("g"), &signed("")).expect_err("nobody can sign").to_string();
    assert!(faults.contains("verify key"), "{faults}");
    let member = format!("[[member]]\nname = \"m\"\nverify = \"{}\"\n", hex(&manager_public(&[7; 32])));
    let group = GroupFile::parse(Path::new("g"), &signed(&member)).expect("a group");
    assert!(group.is_signed("plant/valve") && !group.is_signed("plant/force"));
    assert!(group.verify_key(b"m").is_some() && group.verify_key(b"n").is_none());
    let wide = signed(&member).replace("plant/valve", "hall/#");
    assert!(GroupFile::parse(Path::new("g"), &wide).is_err());
}

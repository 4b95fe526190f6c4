use super::*;
use antedate_channel::mqtt::Algorithm;

fn material(name: &[u8]) -> Material {
    Material::derive("g", Algorithm::A128Gcm, 1, &[1; 32], name).expect("material")
}

#[test]
fn crashes_and_clean_ends_repeat_no_number() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("state");
    assert!(Store::open(&place).expect_err("missing").remedy.contains("antedate mqtt init"));
    Store::create(&place).expect("created");
    let mut last = 0;
    for run in 0..20 {
        let store = Store::open(&place).expect("opened");
        assert!(Store::open(&place).is_err(), "one client to a state");
        let mut numbers = store.numbers("g", &material(b"a")).expect("numbers");
        for _ in 0..run * 3 {
            let number = numbers.take().expect("a number");
            assert!(number > last, "{number} after {last}");
            last = number;
        }
        // Every other run ends without closing: a crash.
        if run % 2 == 0 {
            store.close([&numbers]).expect("closed");
            assert!(numbers.reserved.left() > 0 || numbers.take().is_err());
        }
    }
    let store = Store::open(&place).expect("opened");
    assert_eq!(
        store.numbers("g", &material(b"b")).expect("numbers").take(),
        Ok(1),
        "another publisher begins anew"
    );
}

#[test]
fn a_key_has_one_source_of_numbers() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("state");
    Store::create(&place).expect("created");
    let store = Store::open(&place).expect("opened");
    let mut first = store.numbers("g", &material(b"a")).expect("numbers");
    let fault = store.numbers("g", &material(b"a")).expect_err("in use");
    assert!(fault.remedy.contains("one file"), "{fault:?}");
    let last = (0..100).map(|_| first.take().expect("a number")).max().expect("some");
    drop(first);
    let mut second = store.numbers("g", &material(b"a")).expect("no longer in use");
    assert!(second.take().expect("a number") > last);
    // Another reservation in the file is skipped.
    let key = second.reserved.key();
    store.with(|file| file.reserve(&[(key, 5000)])).expect("reserved");
    while second.reserved.left() > 0 {
        second.take().expect("a number");
    }
    assert_eq!(second.take(), Ok(5000));
}

#[test]
fn numbers_of_past_epochs_are_forgotten() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("state");
    Store::create(&place).expect("created");
    let store = Store::open(&place).expect("opened");
    let material =
        |epoch: u32| Material::derive("g", Algorithm::A128Gcm, epoch, &[1; 32], b"a").expect("material");
    let known = |store: &Store, epoch: u32| {
        let key = KeyId::new("antedate MQTT key", material(epoch).key());
        store.with(|file| file.next(&key)).expect("known") > 1
    };
    let [first, second, third] = [1, 2, 3].map(material);
    let mut numbers = store.numbers("g", &first).expect("numbers");
    numbers.take().expect("a number");
    store.numbers("g", &second).expect("numbers").take().expect("a number");
    // The epoch after them is not reached yet.
    store.forget_numbers("g", b"m", [&first, &second]).expect("nothing to do");
    store.reached("g", b"m", 2).expect("durable");
    store.reached("g", b"n", 9).expect("durable");
    store.forget_numbers("g", b"m", [&first, &second]).expect("nothing to do");
    assert!(known(&store, 1) && known(&store, 2), "the first one's numbers are in use");
    (0..100).for_each(|_| assert!(numbers.take().is_ok()));
    drop(numbers);
    store.forget_numbers("g", b"m", [&first, &second]).expect("forgotten");
    assert!(!known(&store, 1) && known(&store, 2));
    drop(store);
    let store = Store::open(&place).expect("opened");
    let fault = store.numbers("g", &first).expect_err("forgotten");
    assert!(fault.remedy.contains("rotate until epoch 2 or later"), "{fault:?}");
    assert!(store.numbers("g", &material(0)).is_err());
    assert!(store.numbers("g", &second).expect("numbers").take().expect("a number") > 1);
    assert_eq!(store.numbers("g", &third).expect("numbers").take(), Ok(1));
    store.numbers("h", &first).expect("another group");
}

#[test]
fn bounds_and_epochs_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("state");
    Store::create(&place).expect("created");
    let store = Store::open(&place).expect("opened");
    let (epoch_key, a, b) = (material(b"\0"), material(b"a"), material(b"b"));
    assert_eq!((store.lowest(&epoch_key, &a, "t"), store.epoch("g", b"m")), (1, 0));
    store.received_with([(&epoch_key, &b"a"[..], "t", 8)], || Ok(())).expect("durable");
    store.reached("g", b"m", 3).expect("durable");
    drop(store);
    let store = Store::open(&place).expect("opened");
    let lowest = |store: &Store| {
        [(&a, "t"), (&a, "u"), (&b, "t")].map(|(who, topic)| store.lowest(&epoch_key, who, topic))
    };
    assert_eq!((lowest(&store), store.epoch("g", b"m")), ([8, 1, 1], 3));
    assert_eq!(store.epoch("g", b"n"), 0, "a group of the same name, made anew");
    // A bound of an earlier version.
    store.with(|file| file.raise(&[(received_key(&b), super::place("t"), 5)])).expect("durable");
    assert_eq!(lowest(&store), [8, 1, 5]);
    store.forget([&material(b"c")]).expect("nothing to forget");
    assert_eq!(lowest(&store), [8, 1, 5]);
    store.forget([&epoch_key]).expect("forgotten");
    assert_eq!(lowest(&store), [1, 1, 5]);
    store.forget([&b]).expect("forgotten");
    assert_eq!(lowest(&store), [1, 1, 1]);
}

#[test]
fn rotation_messages_are_kept_for_each_group() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("state");
    Store::create(&place).expect("created");
    let store = Store::open(&place).expect("opened");
    assert_eq!(store.rotation("g"), None);
    store.keep_rotation("g", b"the first, which is longer", false).expect("kept");
    assert_eq!(store.former_rotation("g"), None);
    store.keep_rotation("g", b"second", true).expect("kept");
    store.keep_rotation("g.new", b"other", true).expect("kept");
    drop(store);
    let store = Store::open(&place).expect("opened");
    assert_eq!(store.rotation("g").as_deref(), Some(&b"second"[..]));
    assert_eq!(store.rotation("g.new").as_deref(), Some(&b"other"[..]));
    let former = store.former_rotation("g").map(|(message, _)| message);
    assert_eq!(former.as_deref(), Some(&b"the first, which is longer"[..]));
    store.keep_rotation("g", b"second", false).expect("kept");
    assert_eq!(store.former_rotation("g"), None);
    store.close([]).expect("closed");
    store.keep_rotation("g", b"late", true).expect_err("closed");
    assert_eq!(store.rotation("g").as_deref(), Some(&b"second"[..]));
}

/// A store in a new state directory.
fn created() -> (tempfile::TempDir, std::path::PathBuf, Store) {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("state");
    Store::create(&place).expect("created");
    let store = Store::open(&place).expect("opened");
    (directory, place, store)
}

fn received(store: &Store, topic: &str, lowest: u64) {
    let epoch_key = material(b"\0");
    store.received_with([(&epoch_key, &b"a"[..], topic, lowest)], || Ok(())).expect("durable");
}

fn lowest(store: &Store, topic: &str) -> u64 {
    store.lowest(&material(b"\0"), &material(b"a"), topic)
}

#[test]
fn bounds_are_many_beside_a_small_file() {
    let (_directory, at, store) = created();
    let topics: Vec<String> = (0..20_000).map(|topic| format!("t/{topic}")).collect();
    let epoch_key = material(b"\0");
    let bounds =
        topics.iter().zip(2..).map(|(topic, lowest)| (&epoch_key, &b"a"[..], topic.as_str(), lowest));
    store.received_with(bounds, || Ok(())).expect("durable");
    drop(store);
    let store = Store::open(&at).expect("opened");
    let lowest = [0, 1, 9_999, 19_999].map(|topic| lowest(&store, &topics[topic]));
    assert_eq!(lowest, [2, 3, 10_001, 20_001]);
    let len = std::fs::metadata(at.join("packet-numbers")).expect("the state file").len();
    assert!(len < 1000, "{len} octets");
}

#[test]
fn batch_that_was_not_passed_on_is_undone() {
    let (_directory, at, store) = created();
    received(&store, "t", 5);
    let epoch_key = material(b"\0");
    for (topic, bound) in [("t", 8), ("u", 3), ("t", 9)] {
        let bounds = [(&epoch_key, &b"a"[..], topic, bound)];
        store.received_with(bounds, || Err(ErrorKind::BrokenPipe.into())).expect_err("not passed on");
    }
    drop(store);
    let store = Store::open(&at).expect("opened");
    assert_eq!((lowest(&store, "t"), lowest(&store, "u")), (5, 1));
    // Killed before the state file, and at once after it.
    store
        .state()
        .received
        .as_ref()
        .expect("a database")
        .write(4, &[(pair(&epoch_key, b"a", "t"), 7)])
        .expect("written");
    drop(store);
    let store = Store::open(&at).expect("opened");
    assert_eq!(lowest(&store, "t"), 5);
    received(&store, "t", 7);
    received(&store, "t", 6);
    drop(store);
    assert_eq!(lowest(&Store::open(&at).expect("opened"), "t"), 7);
}

#[test]
fn database_of_another_time_is_refused() {
    let (_directory, at, store) = created();
    received(&store, "t", 5);
    drop(store);
    let [file, copy] = [received::NAME, "copy"].map(|name| at.join(name));
    std::fs::copy(&file, &copy).expect("copied");
    let store = Store::open(&at).expect("opened");
    received(&store, "t", 6);
    received(&store, "t", 7);
    drop(store);
    std::fs::copy(&copy, &file).expect("restored");
    let fault = Store::open(&at).expect_err("older");
    assert!(fault.what.contains("is older than the state file"), "{fault:?}");
    assert!(fault.remedy.contains("rotate the group's key"), "{fault:?}");
    std::fs::remove_file(&file).expect("removed");
    let fault = Store::open(&at).expect_err("missing");
    assert!(fault.what.contains("is missing"), "{fault:?}");
}

#[test]
fn damaged_database_is_refused_or_the_same() {
    let (_directory, at, store) = created();
    let topics: Vec<String> = (0..500).map(|topic| format!("t/{topic}")).collect();
    let epoch_key = material(b"\0");
    let bounds = topics.iter().zip(2..).map(|(topic, bound)| (&epoch_key, &b"a"[..], topic.as_str(), bound));
    store.received_with(bounds, || Ok(())).expect("durable");
    drop(store);
    let file = at.join(received::NAME);
    let whole = std::fs::read(&file).expect("read");
    let mut refused = 0;
    for place in (0..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x55;
        std::fs::write(&file, &damaged).expect("written");
        match Store::open(&at) {
            Err(fault) => {
                assert!(!fault.remedy.is_empty(), "{fault:?}");
                refused += 1;
            }
            Ok(store) => {
                topics.iter().zip(2..).for_each(|(topic, bound)| assert_eq!(lowest(&store, topic), bound));
            }
        }
    }
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("cut");
    Store::open(&at).expect_err("half a database");
    assert!(refused > 0);
}

#[test]
fn bounds_of_earlier_versions_move() {
    let (_directory, at, store) = created();
    let (epoch_key, a) = (material(b"\0"), material(b"a"));
    let first = (received_key(&a), place("t"), 4);
    let second = (received_key(&epoch_key), first_octets(&pair(&epoch_key, b"a", "u")), 6);
    store.with(|file| file.raise(&[first, second])).expect("durable");
    store.reached("g", b"m", 3).expect("durable");
    assert_eq!((lowest(&store, "t"), lowest(&store, "u")), (4, 6));
    received(&store, "v", 2);
    drop(store);
    let store = Store::open(&at).expect("opened");
    assert_eq!(["t", "u", "v", "w"].map(|topic| lowest(&store, topic)), [4, 6, 2, 1]);
    assert_eq!(store.with(|file| Ok(file.bounds().count())).expect("open"), 2, "epoch and batch remain");
    assert_eq!(store.epoch("g", b"m"), 3);
    store.forget([&epoch_key, &a]).expect("forgotten");
    assert_eq!(["t", "u", "v"].map(|topic| lowest(&store, topic)), [1, 1, 1]);
}

//! `antedate mqtt` and `antedate keygen mqtt` as called by a manager and a member, without a broker
//! or with a minimal one.

mod folder;

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use antedate_channel::mqtt::{Publisher, Reserved};
use antedate_mqtt::file::GroupFile;
use antedate_mqtt::guard::Guard;
use antedate_mqtt::manage::Manager;
use antedate_mqtt::store::Store;
use folder::Folder;

impl Folder {
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a file")
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).expect("a file").permissions().mode() & 0o7777
    }

    /// Exit status, standard output and standard error.
    fn antedate(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.call(arguments);
        let [out, err] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code().unwrap_or(-1), out, err)
    }

    /// Standard output of a successful call.
    fn good(&self, arguments: &[&str]) -> String {
        let (status, out, err) = self.antedate(arguments);
        assert_eq!(status, 0, "{arguments:?}: {err}");
        out
    }

    /// Standard error of a failing call.
    fn bad(&self, wanted: i32, arguments: &[&str]) -> String {
        let (status, out, err) = self.antedate(arguments);
        assert_eq!(status, wanted, "{arguments:?}: {out}{err}");
        err
    }

    /// A manager's file with the members press7 and press8.
    fn managed(&self) {
        let mut members = Vec::new();
        for name in ["press7", "press8"] {
            let device = format!("{name}.device");
            let said = self.good(&["keygen", "mqtt", "--device", name, "--out", &device]);
            members.push(format!("--member={name}={}", said.trim().rsplit(' ').next().expect("a key")));
        }
        let mut call = vec!["keygen", "mqtt", "--group", "g", "--topic", "a/#", "--out", "manager.toml"];
        call.extend(members.iter().map(String::as_str));
        self.good(&call);
    }
}

/// A port without a listener.
const NOBODY: [&str; 4] = ["-h", "127.0.0.1", "-p", "1"];

#[test]
fn group_file_is_locked_while_changed() {
    let folder = Folder::new();
    folder.managed();
    let before = folder.read("manager.toml");
    let held = File::open(folder.path("manager.toml")).expect("a file");
    held.lock().expect("the lock");
    for verb in [&["rotate"][..], &["rotate", "--again"], &["revoke", "--member", "press7"]] {
        let call = [&["mqtt"], verb, &["--group", "manager.toml"], &NOBODY].concat();
        let said = folder.bad(2, &call);
        assert!(said.contains("another antedate mqtt rotate or revoke"), "{said}");
    }
    assert_eq!(folder.read("manager.toml"), before);
    // Not by closing it: a process that another test just starts may also have it open.
    held.unlock().expect("given back");
    let said = folder.bad(1, &[&["mqtt", "rotate", "--group", "manager.toml"], &NOBODY[..]].concat());
    assert!(said.contains("the new key is in the file") && said.contains("rotate --again"), "{said}");
    assert!(folder.read("manager.toml").contains("epoch = 2"));
}

#[test]
fn unpublished_revocation_remains() {
    let folder = Folder::new();
    folder.managed();
    let call = |verb: &[&str]| {
        folder.bad(1, &[&["mqtt"], verb, &["--group", "manager.toml"], &NOBODY].concat());
        folder.read("manager.toml")
    };
    let file = call(&["rotate", "--grace", "5"]);
    assert!(file.contains("epoch = 1\n") && file.contains("grace = 5\n"), "{file}");
    let file = call(&["revoke", "--member", "press7"]);
    assert!(!file.contains("epoch = 2\n") && file.contains("epoch = 3\n"), "{file}");
    // It is named as one without the key, and no member.
    assert!(file.contains("grace = 0\n") && file.contains("without = [\"press7\"]\n"), "{file}");
    assert!(!file.contains("name = \"press7\""), "{file}");
    assert_eq!(call(&["rotate", "--again"]), file);
    let said = folder.bad(2, &["mqtt", "rotate", "--again", "--grace", "60", "--group", "manager.toml"]);
    assert!(said.contains("--grace"), "{said}");
}

#[test]
fn access_lists_keep_their_file_modes() {
    let folder = Folder::new();
    folder.good(&["keygen", "mqtt", "--group", "g", "--topic", "a/#", "--member", "m", "--out", "g.toml"]);
    fs::write(folder.path("acl.new"), "mine").expect("a file");
    let call = ["mqtt", "acl", "g.toml", "--acl", "acl", "--passwords", "passwords"];
    let (status, _, said) = folder.antedate(&call);
    assert_eq!(status, 0, "{said}");
    assert!(
        said.contains("chown mosquitto: acl\n") && said.contains("chown mosquitto: passwords\n"),
        "{said}"
    );
    assert_eq!((folder.mode("acl"), folder.mode("passwords")), (0o600, 0o600));
    for name in ["acl", "passwords"] {
        fs::set_permissions(folder.path(name), Permissions::from_mode(0o640)).expect("mode");
    }
    let (status, shown, said) = folder.antedate(&[&call[..], &["--renew-all"]].concat());
    assert_eq!((status, said.as_str()), (0, ""));
    assert!(shown.starts_with("m "), "{shown}");
    assert_eq!((folder.mode("acl"), folder.mode("passwords")), (0o640, 0o640));
    assert_eq!(folder.read("acl.new"), "mine");
}

#[test]
fn passwords_stay_with_their_users() {
    let folder = Folder::new();
    let keygen = ["keygen", "mqtt", "--group", "g", "--topic", "a/#", "--member", "m"];
    folder.good(&[&keygen[..], &["--member", "n", "--out", "two.toml"]].concat());
    folder.good(&[&keygen[..], &["--member", "o", "--out", "other.toml"]].concat());
    let acl = |file: &str, more: &[&str]| {
        let call = ["mqtt", "acl", file, "--acl", "acl", "--passwords", "passwords"];
        let (status, shown, said) = folder.antedate(&[&call[..], more].concat());
        assert_eq!(status, 0, "{said}");
        let names: Vec<String> =
            shown.lines().filter_map(|line| Some(line.split_once(' ')?.0.into())).collect();
        (names.join(" "), said, folder.read("passwords"))
    };
    let (shown, _, before) = acl("two.toml", &["--enrolment", "newcomer"]);
    assert_eq!(shown, "m manager n newcomer");
    assert!(folder.read("acl").contains("user newcomer\ntopic write antedate/enrol/g/+\n"));
    let (shown, said, same) = acl("two.toml", &["--enrolment", "newcomer"]);
    assert_eq!((shown.as_str(), said.as_str(), same), ("", "", before.clone()));
    // One is gone and one is new.
    let (shown, said, after) = acl("other.toml", &["--enrolment", "newcomer"]);
    assert!(shown == "o" && said.contains("without n from now on"), "{shown} {said}");
    let line = |text: &str, user: &str| text.lines().find(|line| line.starts_with(user)).map(str::to_owned);
    assert_eq!((line(&after, "m:"), line(&after, "n:")), (line(&before, "m:"), None));
    let (shown, _, renewed) = acl("other.toml", &["--enrolment", "newcomer", "--renew", "m"]);
    assert!(shown == "m" && line(&renewed, "m:") != line(&before, "m:"), "{shown}");
    assert_eq!(line(&renewed, "o:"), line(&after, "o:"));
    let call = ["mqtt", "acl", "two.toml", "--acl", "acl", "--passwords", "passwords", "--renew", "z"];
    assert!(folder.bad(2, &call).contains("there is no such user"));
}

#[test]
fn manager_name_grants_no_rights() {
    let folder = Folder::new();
    folder.good(&[
        "keygen", "mqtt", "--group", "g", "--topic", "a/#", "--member", "manager", "--out", "g.toml",
    ]);
    let call = ["mqtt", "acl", "g.toml", "--acl", "acl"];
    let said = folder.bad(2, &call);
    assert!(said.contains("manager is a member too") && said.contains("--manager"), "{said}");
    let said = folder.bad(2, &[&call[..], &["--manager", "a:b"]].concat());
    assert!(said.contains("use 1 to 64 letters, digits and - _ ."), "{said}");
    assert!(!folder.path("acl").exists());
    folder.good(&[&call[..], &["--manager", "boss"]].concat());
    assert!(folder.read("acl").contains("user boss\ntopic readwrite antedate/keys/g\n"));
}

#[test]
fn unreadable_group_is_not_created() {
    let folder = Folder::new();
    let member = format!("m={}", "7".repeat(64));
    let call = ["keygen", "mqtt", "--group", "g", "--topic", "#", "--member", &member, "--out", "g.toml"];
    let said = folder.bad(2, &call);
    assert!(said.contains("takes in the rotation topic") && said.contains("narrow the topics"), "{said}");
    assert!(!folder.path("g.toml").exists());

    let topic = "a/\u{200b} \"\\\t\u{7f}";
    folder
        .good(&["keygen", "mqtt", "--group", "g", "--topic", topic, "--member", &member, "--out", "g.toml"]);
    folder.good(&["keygen", "mqtt", "--for-members", "g.toml", "--out", "members.toml"]);
    folder.good(&["mqtt", "acl", "g.toml", "--acl", "acl"]);
    assert!(folder.read("acl").contains(&format!("topic readwrite {topic}\n")));
}

#[test]
fn ambiguous_acl_topic_is_refused() {
    let folder = Folder::new();
    for (topic, file) in [("a\nuser spy\ntopic b", "f.toml"), (" a", "g.toml"), ("a\t", "h.toml")] {
        folder.good(&["keygen", "mqtt", "--group", "g", "--topic", topic, "--member", "m", "--out", file]);
        let said = folder.bad(2, &["mqtt", "acl", file, "--acl", "acl"]);
        assert!(said.contains("access list") && said.contains("without line breaks"), "{said}");
    }
    assert!(!folder.path("acl").exists());
}

#[test]
fn invalid_name_is_refused_with_rule() {
    let folder = Folder::new();
    folder.good(&["keygen", "mqtt", "--group", "g", "--topic", "a", "--out", "g.toml"]);
    let long = "n".repeat(70);
    for name in [long.as_str(), "", "a b", "\u{e4}"] {
        let publisher = ["--keys", "g.toml", "--publisher", name, "-t", "a"];
        for call in [
            [&["mqtt", "pub", "-m", "1"], &publisher[..]].concat(),
            [&["mqtt", "sub"], &publisher[..]].concat(),
            vec!["keygen", "mqtt", "--device", name],
            vec!["keygen", "mqtt", "--group", "g", "--topic", "a", "--member", name],
        ] {
            let said = folder.bad(2, &call);
            assert!(said.contains("use 1 to 64 letters, digits and - _ ."), "{said}");
        }
    }
}

#[test]
fn unmanaged_group_rotates_in_its_file() {
    let folder = Folder::new();
    folder.good(&["keygen", "mqtt", "--group", "g", "--topic", "a/#", "--out", "a.toml"]);
    fs::write(folder.path("a.new"), "mine").expect("a file");
    let first = folder.read("a.toml");
    let rotate = ["mqtt", "rotate", "--group", "a.toml"];
    let said = folder.good(&[&rotate[..], &NOBODY].concat());
    assert!(said.contains("epoch 2 is in a.toml") && said.contains("copy the file to all members"), "{said}");
    let second = folder.read("a.toml");
    assert!(second.starts_with(&first) && second.contains("epoch = 2\n"), "both are read: {second}");
    folder.good(&rotate);
    let third = folder.read("a.toml");
    assert!(!third.contains("epoch = 1\n") && third.contains("epoch = 3\n"), "the two newest: {third}");
    assert_eq!((folder.mode("a.toml"), folder.read("a.new").as_str()), (0o600, "mine"));

    let said = folder.bad(2, &[&rotate[..], &["--again"]].concat());
    assert!(said.contains("no manager") && said.contains("copy the file to the members"), "{said}");
    let held = File::open(folder.path("a.toml")).expect("a file");
    held.lock().expect("the lock");
    assert!(folder.bad(2, &rotate).contains("another antedate mqtt rotate"));
    assert_eq!(folder.read("a.toml"), third);
}

#[test]
fn overlapping_topics_are_reported() {
    let folder = Folder::new();
    for (name, topic) in [("a", "o/#"), ("b", "o/line/#"), ("c", "p/#")] {
        folder.good(&["keygen", "mqtt", "--group", name, "--topic", topic, "--out", &format!("{name}.toml")]);
    }
    let said = folder.bad(
        1,
        &[&["mqtt", "sub", "--keys", "a.toml", "--keys", "b.toml", "-t", "o/#"], &NOBODY[..]].concat(),
    );
    assert!(said.contains("b.toml: \"o/line/#\" overlaps with \"o/#\" of a.toml"), "{said}");
    let said = folder.bad(
        1,
        &[&["mqtt", "sub", "--keys", "a.toml", "--keys", "c.toml", "-t", "o/#"], &NOBODY[..]].concat(),
    );
    assert!(!said.contains("overlaps"), "{said}");
}

/// A broker of MQTT 3.1.1 for subscribers to one topic. It confirms no publish.
struct Broker {
    port: String,
    /// The retained message. Subscribers get its changes.
    retained: Arc<Mutex<Vec<u8>>>,
    /// The will of each connection, if it left one.
    wills: mpsc::Receiver<Option<Vec<u8>>>,
    /// A client with a will disconnected without DISCONNECT.
    died: Arc<AtomicBool>,
}

impl Broker {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port().to_string();
        let (retained, died) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<AtomicBool>::default());
        let (left, wills) = mpsc::channel();
        let (kept, bad) = (Arc::clone(&retained), Arc::clone(&died));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (kept, bad, left) = (Arc::clone(&kept), Arc::clone(&bad), left.clone());
                thread::spawn(move || {
                    if serve(client.expect("a client"), &kept, &left).is_none() {
                        bad.store(true, Ordering::Relaxed);
                    }
                });
            }
        });
        Self { port, retained, wills, died }
    }

    fn keep(&self, message: Vec<u8>) {
        *self.retained.lock().expect("the message") = message;
    }

    /// Waits for the next connection.
    fn connected(&self) -> Option<Vec<u8>> {
        self.wills.recv_timeout(Duration::from_secs(20)).expect("a connection")
    }

    /// Waits for the next connection with a will.
    fn will(&self) -> Vec<u8> {
        loop {
            if let Some(will) = self.connected() {
                return will;
            }
        }
    }
}

/// Serves a client to its end. `None` if it had a will and did not disconnect.
fn serve(
    mut client: TcpStream,
    retained: &Mutex<Vec<u8>>,
    wills: &mpsc::Sender<Option<Vec<u8>>>,
) -> Option<()> {
    let (mut has_will, mut subscribed, mut known, mut id) = (false, false, Vec::new(), 0);
    loop {
        let message = retained.lock().expect("the message").clone();
        if subscribed && message != known {
            let topic = b"antedate/keys/g";
            let len = 2 + topic.len() + 2 + message.len();
            let mut packet = vec![0x33, len as u8 | 0x80, (len >> 7) as u8, 0, topic.len() as u8];
            // One that waits for its acknowledgement keeps its identifier [MQTT-2.3.1-4].
            id += 1;
            packet.extend([&topic[..], &[0, id], &message].concat());
            client.write_all(&packet).ok()?;
            known = message;
        }
        client.set_read_timeout(Some(Duration::from_millis(20))).expect("a time");
        let come = client.peek(&mut [0]);
        if come.is_err() {
            continue;
        }
        client.set_read_timeout(None).expect("no time");
        let Some((kind, body)) = packet(&mut client) else { return (!has_will).then_some(()) };
        match kind >> 4 {
            1 => {
                let text = |at: usize| {
                    let end = at + 2 + usize::from(u16::from_be_bytes([body[at], body[at + 1]]));
                    (&body[at + 2..end], end)
                };
                has_will = body[7] & 4 != 0;
                let will = has_will.then(|| text(text(text(10).1).1).0.to_vec());
                wills.send(will).expect("the test listens");
                client.write_all(&[0x20, 2, 0, 0]).ok()?;
            }
            8 => {
                subscribed = true;
                client.write_all(&suback(&body)).ok()?;
            }
            14 => return Some(()),
            _ => {}
        }
    }
}

/// A SUBACK that grants each filter of a SUBSCRIBE.
fn suback(body: &[u8]) -> Vec<u8> {
    let (mut at, mut count) = (2, 0);
    while let [high, low, ..] = body[at..] {
        (at, count) = (at + 3 + usize::from(u16::from_be_bytes([high, low])), count + 1);
    }
    [&[0x90, 2 + count, body[0], body[1]][..], &vec![1; count.into()]].concat()
}

/// The next packet: its first byte, and the bytes behind its length.
fn packet(client: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut byte = || {
        let mut one = [0];
        client.read_exact(&mut one).ok().map(|()| one[0])
    };
    let (kind, mut len, mut shift) = (byte()?, 0, 0);
    loop {
        let next = byte()?;
        len |= usize::from(next & 0x7f) << shift;
        shift += 7;
        if next & 0x80 == 0 {
            break;
        }
    }
    let mut body = vec![0; len];
    client.read_exact(&mut body).ok()?;
    Some((kind, body))
}

impl Folder {
    fn start(&self, arguments: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_antedate"))
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command")
    }
}

fn terminate(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
}

/// The end of a command within ten seconds: exit status and standard error.
fn end(mut child: Child) -> (Option<i32>, String) {
    drop(child.stdin.take());
    let end = Instant::now() + Duration::from_secs(10);
    while child.try_wait().expect("its state").is_none() {
        if Instant::now() > end {
            child.kill().expect("killed");
        }
        thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("its output");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn identifier_of_several_filters_is_refused() {
    let folder = Folder::new();
    folder.managed();
    let identifier = ["-D", "subscribe", "subscription-identifier", "7"];
    let filters = ["-t", "a/#", "-t", "a/b"];
    let child = folder.start(
        &[&["mqtt", "sub", "--keys", "manager.toml", "-h", "127.0.0.1"][..], &filters, &identifier].concat(),
    );
    let (status, told) = end(child);
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains("more than one filter") && told.contains("leave the identifier out"), "{told}");
}

#[test]
fn will_has_the_newest_epoch() {
    let folder = Folder::new();
    folder.managed();
    folder.good(&["keygen", "mqtt", "--for-members", "manager.toml", "--out", "g.toml"]);
    folder.good(&["mqtt", "init", "state"]);
    let broker = Broker::new();
    let publisher = || {
        folder.start(&[
            "mqtt",
            "pub",
            "-h",
            "127.0.0.1",
            "-p",
            &broker.port,
            "--keys",
            "g.toml",
            "--device",
            "press7.device",
            "--state",
            "state",
            "-t",
            "a/b",
            "-l",
            "--will-topic",
            "a/gone",
            "--will-payload",
            "gone",
        ])
    };
    let mut manager = Manager::open(&folder.path("manager.toml")).expect("a manager");
    let epoch_of = |manager: &Manager, will: &[u8]| {
        let opened = manager.group().to_group().open("a/gone", will, &mut Vec::new());
        opened.map(|opened| opened.epoch).map_err(|refused| refused.to_string())
    };
    broker.keep(manager.announce().expect("a message"));
    let child = publisher();
    assert_eq!(epoch_of(&manager, &broker.will()), Ok(1));
    // While it is connected.
    manager.rotate(&[], 60).expect("rotated");
    broker.keep(manager.announce().expect("a message"));
    assert_eq!(epoch_of(&manager, &broker.will()), Ok(2));
    let (status, said) = end(child);
    assert_eq!(status, Some(0), "{said}");
    // While it is away, with the previous key in its state directory.
    manager.rotate(&[], 60).expect("rotated");
    broker.keep(manager.announce().expect("a message"));
    let child = publisher();
    assert_eq!(epoch_of(&manager, &broker.will()), Ok(3));
    let (status, said) = end(child);
    assert_eq!(status, Some(0), "{said}");
    assert!(!broker.died.load(Ordering::Relaxed), "no will is published");
}

#[test]
fn publisher_can_end_while_fetching_keys() {
    let folder = Folder::new();
    folder.managed();
    folder.good(&["keygen", "mqtt", "--for-members", "manager.toml", "--out", "g.toml"]);
    folder.good(&["mqtt", "init", "state"]);
    let manager = Manager::open(&folder.path("manager.toml")).expect("a manager");
    let call = "mqtt pub -h 127.0.0.1 --keys g.toml --device press7.device --state state -q 1 -t a/b -m x --will-topic a/gone --will-payload gone -p";
    // Whether or not it has come, nothing else is reported.
    for comes in [false, true] {
        let broker = Broker::new();
        if comes {
            broker.keep(manager.announce().expect("a message"));
        }
        let child = folder.start(&call.split(' ').chain([&broker.port[..]]).collect::<Vec<_>>());
        assert_eq!(broker.connected(), None, "for the key");
        terminate(&child);
        let (status, said) = end(child);
        assert_eq!(status, Some(1), "{said}");
        let confirmed = said.contains("stopped, and 1 messages were not confirmed");
        assert!(said.contains("stopped before the key came") || comes && confirmed, "{said}");
    }
}

#[test]
fn unconfirmed_rotation_can_be_ended() {
    let folder = Folder::new();
    folder.managed();
    let broker = Broker::new();
    let child =
        folder.start(&["mqtt", "rotate", "--group", "manager.toml", "-h", "127.0.0.1", "-p", &broker.port]);
    let late = Instant::now() + Duration::from_secs(10);
    while !folder.read("manager.toml").contains("epoch = 2") {
        assert!(Instant::now() < late, "no rotation");
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(500));
    terminate(&child);
    let (status, said) = end(child);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("stopped") && said.contains("rotate --again"), "{said}");
}

#[test]
fn enrolment_code_needs_a_broker() {
    let folder = Folder::new();
    let words = ["mqtt", "enrol", "--group", "g", "--name", "press7", "--device", "d", "--keys", "k"];
    let (status, out, err) = folder.antedate(&[&words[..], &NOBODY].concat());
    assert!(status == 1 && out.is_empty() && err.contains("port 1"), "{status}: {out}{err}");
}

#[test]
fn group_without_a_most_age_is_told() {
    let folder = Folder::new();
    let keygen = |out: &str, more: &[&str]| {
        let words = ["keygen", "mqtt", "--group", "g", "--topic", "a/#", "--out", out];
        folder.antedate(&[&words[..], more].concat()).2
    };
    assert!(keygen("bare", &[]).contains("no topic has a most age"));
    assert_eq!(keygen("aged", &["--max-age", "a/valve=5"]), "");
    // A service says so at each start; a command that ends does not.
    for (file, more, told) in [("bare", "--keep-trying", true), ("bare", "-N", false), ("aged", "-N", false)]
    {
        let words = ["mqtt", "sub", "--keys", file, "-t", "a/#", "-W", "1", more];
        let said = folder.antedate(&[&words[..], &NOBODY].concat()).2;
        assert_eq!(said.contains("no topic has a most age"), told, "{said}");
    }
}

#[test]
fn file_of_another_kind_has_one_fault() {
    let folder = Folder::new();
    let list = "root:x:0:0:root:/root:/bin/bash\n".repeat(30);
    fs::write(folder.path("k"), &list).expect("a file");
    fs::set_permissions(folder.path("k"), Permissions::from_mode(0o600)).expect("a file");
    for verb in [&["mqtt", "sub", "--keys", "k", "-t", "a"][..], &["mqtt", "acl", "--acl", "a", "k"]] {
        let said = folder.bad(2, verb);
        assert!(said.matches("remedy:").count() == 1 && said.contains("k:1: the file is not TOML"), "{said}");
    }
}

#[test]
fn option_faults_come_before_a_new_key() {
    let folder = Folder::new();
    folder.managed();
    let before = folder.read("manager.toml");
    for verb in [&["rotate"][..], &["revoke", "--member", "press7"]] {
        let call = [&["mqtt"], verb, &["--group", "manager.toml", "--cafile", "none.pem"], &NOBODY].concat();
        let said = folder.bad(2, &call);
        assert!(said.contains("none.pem"), "{said}");
    }
    assert_eq!(folder.read("manager.toml"), before);
}

/// Accepts a connection, with its previous session if `session` is 1. Returns the client
/// identifier.
fn taken(listener: &TcpListener, session: u8) -> (TcpStream, String) {
    let (mut client, _) = listener.accept().expect("a client");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let (_, body) = packet(&mut client).expect("CONNECT");
    let id = body[12..12 + usize::from(body[11])].to_vec();
    client.write_all(&[0x20, 2, session, 0]).expect("CONNACK");
    (client, String::from_utf8(id).expect("text"))
}

/// Answers a client's subscriptions until it has sent `counts` so often.
fn answered(client: &mut TcpStream, counts: u8, mut often: usize) {
    while often > 0 {
        let (kind, body) = packet(client).expect("a packet");
        if kind >> 4 == 8 {
            client.write_all(&suback(&body)).expect("SUBACK");
        }
        often -= usize::from(kind >> 4 == counts);
    }
}

/// Sends a message with QoS 1.
fn deliver(client: &mut TcpStream, number: u8, topic: &str, payload: &[u8]) {
    let len = 2 + topic.len() + 2 + payload.len();
    let mut packet = vec![0x32, len as u8 | 0x80, (len >> 7) as u8, 0, topic.len() as u8];
    packet.extend([topic.as_bytes(), &[0, number], payload].concat());
    client.write_all(&packet).expect("PUBLISH");
}

/// A subscriber with a continuing session in a group with a manager, and the listener that it
/// connects to.
fn resumed(folder: &Folder, more: &[&str]) -> (TcpListener, Child) {
    folder.managed();
    folder.good(&["keygen", "mqtt", "--for-members", "manager.toml", "--out", "g.toml"]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let call = "mqtt sub -h 127.0.0.1 --keys g.toml --device press7.device -t a/# -c -i x -q 1 -p";
    let call: Vec<&str> = call.split(' ').chain([&port[..]]).chain(more.iter().copied()).collect();
    (listener, folder.start(&call))
}

#[test]
fn queued_messages_wait_for_the_key() {
    let folder = Folder::new();
    let (listener, child) = resumed(&folder, &["-C", "20", "-W", "10"]);
    let manager = Manager::open(&folder.path("manager.toml")).expect("a manager");
    let material = manager.group().to_group().material(1, b"press8").expect("a publisher");
    let mut publisher = Publisher::new(&material, Reserved::new(1, 100));
    let (mut client, id) = taken(&listener, 0);
    // As if it had no new keys since it was away.
    if id == "x-keys" {
        answered(&mut client, 8, 1);
        deliver(&mut client, 1, "antedate/keys/g", &manager.announce().expect("a message"));
        answered(&mut client, 14, 1);
        (client, _) = taken(&listener, 1);
    }
    for number in 1..=20 {
        let mut envelope = Vec::new();
        publisher.seal("a/b", b"x", &mut envelope).expect("sealed");
        deliver(&mut client, number, "a/b", &envelope);
    }
    while let Some((kind, body)) = packet(&mut client) {
        if kind >> 4 == 8 {
            let _ = client.write_all(&suback(&body));
        }
    }
    let (status, said) = end(child);
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn short_time_starts_after_the_key() {
    let folder = Folder::new();
    let (listener, child) = resumed(&folder, &["-W", "1"]);
    let (mut client, id) = taken(&listener, 0);
    assert_eq!(id, "x-keys");
    thread::sleep(Duration::from_millis(1100));
    answered(&mut client, 14, 1);
    let (mut client, _) = taken(&listener, 0);
    let mut asked = Vec::new();
    while let Some((kind, body)) = packet(&mut client) {
        if kind >> 4 == 8 {
            client.write_all(&suback(&body)).expect("SUBACK");
            asked.push(String::from_utf8_lossy(&body[4..]).into_owned());
        }
    }
    assert!(asked.contains(&"a/#\u{1}".to_owned()), "{asked:?}");
    // The whole second passed after that, without a key.
    let (status, said) = end(child);
    assert!(status == Some(1) && said.contains("when the time was over no key had come from"), "{said}");
    assert_eq!(said.matches("has no key here yet").count(), 1, "{said}");
}

#[test]
fn silent_broker_keeps_the_time_limit() {
    // The subscription to the keys, the other one, and the connection after a lost one.
    for (seconds, lost) in [("1", false), ("2", true)] {
        let folder = Folder::new();
        let (listener, child) = resumed(&folder, &["-W", seconds]);
        let (_keys, id) = taken(&listener, 0);
        assert_eq!(id, "x-keys");
        let (client, _) = taken(&listener, 0);
        let _open = if lost {
            drop(client);
            listener.accept().expect("a client").0
        } else {
            client
        };
        let (status, said) = end(child);
        assert_eq!((status, said.contains("connection is lost")), (Some(1), lost), "{said}");
        let missing =
            if lost { "there was no connection to" } else { "there was no answer to the subscription" };
        assert!(said.contains(&format!("when the time was over {missing}")), "{said}");
    }
}

/// A subscriber with a state directory, up to its connection after the one for the keys.
fn connected_with_state(folder: &Folder) -> (TcpListener, Child, TcpStream) {
    folder.good(&["mqtt", "init", "state"]);
    let (listener, child) = resumed(folder, &["--state", "state"]);
    let (mut client, mut id) = taken(&listener, 0);
    if id == "x-keys" {
        answered(&mut client, 14, 1);
        (client, id) = taken(&listener, 0);
    }
    assert_eq!(id, "x");
    (listener, child, client)
}

#[test]
fn resumed_session_gets_dropped_rotation() {
    let folder = Folder::new();
    let (listener, mut child, mut client) = connected_with_state(&folder);
    answered(&mut client, 8, 2);
    drop(client);
    let (mut client, _) = taken(&listener, 1);
    client.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
    let asked = packet(&mut client).filter(|(kind, _)| kind >> 4 == 8).map(|(_, body)| body);
    child.kill().expect("killed");
    child.wait().expect("its end");
    let asked = asked.map(|body| String::from_utf8_lossy(&body[4..]).into_owned());
    // Those for all, and the device's own.
    assert_eq!(asked.as_deref(), Some("antedate/keys/g\u{1}\0\u{16}antedate/keys/g/press7\u{1}"));
}

#[test]
fn resumed_session_gets_its_filters() {
    let folder = Folder::new();
    let (listener, mut child, mut client) = connected_with_state(&folder);
    // The connection ends after the request and before the answer.
    assert!(packet(&mut client).is_some_and(|(kind, _)| kind >> 4 == 8));
    drop(client);
    let (mut client, _) = taken(&listener, 1);
    client.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
    let mut asked = Vec::new();
    while asked.len() < 2
        && let Some((kind, body)) = packet(&mut client)
    {
        if kind >> 4 == 8 {
            asked.push(String::from_utf8_lossy(&body[4..]).into_owned());
        }
    }
    child.kill().expect("killed");
    child.wait().expect("its end");
    assert!(asked.contains(&"a/#\u{1}".to_owned()), "{asked:?}");
}

/// A broker that sends one message with QoS 1 to one subscriber. Returns whether it was
/// acknowledged.
fn broker(listener: &TcpListener, topic: &str, payload: &[u8]) -> bool {
    let (mut stream, _) = listener.accept().expect("a subscriber");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    let (mut buffer, mut acknowledged) = ([0; 1024], false);
    while let Ok(1..) = stream.read(&mut buffer) {
        match buffer[0] >> 4 {
            1 => stream.write_all(&[0x20, 2, 0, 0]).expect("CONNACK"),
            8 => {
                stream.write_all(&[0x90, 3, buffer[2], buffer[3], 1]).expect("SUBACK");
                let len = 2 + topic.len() + 2 + payload.len();
                let mut publish = vec![0x32, u8::try_from(len).expect("short"), 0, topic.len() as u8];
                publish.extend_from_slice(topic.as_bytes());
                publish.extend_from_slice(&[0, 1]);
                publish.extend_from_slice(payload);
                stream.write_all(&publish).expect("PUBLISH");
            }
            4 => acknowledged = true,
            _ => {}
        }
    }
    acknowledged
}

#[test]
fn unprinted_payload_is_not_acknowledged() {
    let folder = Folder::new();
    folder.good(&["keygen", "mqtt", "--group", "line4", "--topic", "line4/#", "--out", "line4.toml"]);
    for state in ["press7", "reads"] {
        folder.good(&["mqtt", "init", state]);
    }
    let group = GroupFile::load(&folder.path("line4.toml")).expect("a group");
    let store = Store::open(&folder.path("press7")).map_err(|fault| fault.to_string()).expect("a state");
    let mut guard = Guard::new(vec![group], None, Some(store), Some("press7".into()));
    let mut sealed = Vec::new();
    guard.seal("line4/force", b"81.5", &mut sealed).expect("sealed");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let subscribe = |out: Stdio, more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_antedate"))
            .args(["mqtt", "sub", "-p", &port, "-h", "127.0.0.1", "--keys", "line4.toml", "--state", "reads"])
            .args(["-q", "1", "-t", "line4/#", "-W", "20"])
            .args(more)
            .current_dir(folder.0.path())
            .stdout(out)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command")
    };
    let end = |child: Child| {
        let output = child.wait_with_output().expect("its end");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let full = subscribe(File::options().write(true).open("/dev/full").expect("there").into(), &[]);
    assert!(!broker(&listener, "line4/force", &sealed));
    let (status, err) = end(full);
    assert_eq!(status, Some(2), "{err}");
    assert!(err.starts_with("standard output: cannot be written: "), "{err}");
    // A closed reader. Not by closing a pipe: a process that another test just starts may also have
    // its end open.
    let (reader, out) = UnixStream::pair().expect("a pair");
    reader.shutdown(Shutdown::Both).expect("shut");
    let closed = subscribe(OwnedFd::from(out).into(), &[]);
    assert!(!broker(&listener, "line4/force", &sealed));
    assert_eq!(end(closed), (Some(0), String::new()));
    // An unprinted message was not received: it opens again.
    let read = subscribe(Stdio::null(), &["-C", "1"]);
    assert!(broker(&listener, "line4/force", &sealed));
    assert_eq!(end(read), (Some(0), String::new()));
}

#[test]
fn payloads_may_begin_with_a_hyphen() {
    let folder = Folder::new();
    folder.good(&["keygen", "mqtt", "--group", "g", "--topic", "a", "--out", "g.toml"]);
    for payload in [&["-m", "-12.5"][..], &["-m", "-"], &["--template", "-@@.@"]] {
        let call = [&["mqtt", "pub", "--keys", "g.toml", "-t", "a"], payload, &NOBODY].concat();
        let said = folder.bad(1, &call);
        assert!(said.contains("no connection"), "{payload:?}: {said}");
    }
}

#[test]
fn unreadable_lines_are_reported() {
    let folder = Folder::new();
    folder.good(&["keygen", "mqtt", "--group", "g", "--topic", "a", "--out", "g.toml"]);
    let broker = Broker::new();
    let call = ["mqtt", "pub", "--keys", "g.toml", "-t", "a", "-h", "127.0.0.1", "-p", &broker.port];
    let directory = Command::new(env!("CARGO_BIN_EXE_antedate"))
        .args([&call[..], &["-l"]].concat())
        .current_dir(folder.0.path())
        .stdin(File::open(folder.0.path()).expect("the directory"))
        .output()
        .expect("the command");
    let said = String::from_utf8_lossy(&directory.stderr);
    assert_eq!(directory.status.code(), Some(2), "{said}");
    assert!(said.contains("standard input: "), "{said}");
    for how in [&["-l"][..], &["--template", "@@"]] {
        let mut child = folder.start(&[&call[..], how].concat());
        child.stdin.take().expect("piped").write_all(b"\n\n").expect("written");
        assert_eq!(end(child), (Some(0), String::new()), "{how:?}");
    }
}

#[test]
fn extreme_time_and_empty_id_are_handled() {
    let folder = Folder::new();
    folder.good(&["keygen", "mqtt", "--group", "g", "--topic", "a", "--out", "g.toml"]);
    let call = ["mqtt", "sub", "--keys", "g.toml", "-t", "a"];
    let said = folder.bad(1, &[&call[..], &["-W", "18446744073709551615"], &NOBODY].concat());
    assert!(said.contains("no connection"), "{said}");
    let said = folder.bad(2, &[&call[..], &["-i", "", "-c"], &NOBODY].concat());
    assert!(said.contains("--id <ID>"), "{said}");
}

#[test]
fn frames_are_sealed_and_opened_once() {
    let folder = Folder::new();
    folder.good(&["keygen", "mqtt", "--group", "g", "--topic", "a/#", "--out", "g.toml"]);
    folder.good(&["mqtt", "init", "s"]);
    folder.good(&["mqtt", "init", "o"]);
    let run = |verb: &str, more: &[&str], frames: Vec<u8>, count: usize| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_antedate"))
            .args(["mqtt", verb, "--frames", "--keys", "g.toml"])
            .args(more)
            .current_dir(folder.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command");
        let mut input = child.stdin.take().expect("piped");
        input.write_all(&frames).expect("written");
        // All answers come while the input is open: the next request may follow them.
        let (sender, answers) = std::sync::mpsc::channel();
        let mut output = child.stdout.take().expect("piped");
        std::thread::spawn(move || {
            let mut head = [0; 5];
            while output.read_exact(&mut head).is_ok() {
                let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                let mut content = vec![0; length];
                output.read_exact(&mut content).expect("a whole frame");
                let _ = sender.send((head[0], content));
            }
        });
        let patience = std::time::Duration::from_secs(60);
        let found: Vec<_> = (0..count).map_while(|_| answers.recv_timeout(patience).ok()).collect();
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!((found.len(), answers.iter().count()), (count, 0), "answers while the input is open");
        found
    };
    let frame = |topic: &str, content: &[u8]| {
        let lengths = [&(topic.len() as u16).to_be_bytes()[..], &(content.len() as u32).to_be_bytes()];
        [lengths[0], topic.as_bytes(), lengths[1], content].concat()
    };
    let sealing = [frame("a/b", b"81.5"), frame("other", b"no key of it"), frame("a/c", b"")].concat();
    let sealed = run("seal", &["--state", "s", "--publisher", "p"], sealing, 3);
    assert_eq!(sealed.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [0, 1, 0], "{sealed:?}");
    let [first, third] = [&sealed[0].1, &sealed[2].1];
    // On its topic, a second time, on another topic, and not an envelope.
    let opening = [frame("a/b", first), frame("a/b", first), frame("a/b", third), frame("a/c", b"x")];
    let opened = run("open", &["--state", "o"], [&opening.concat()[..], &frame("a/c", third)].concat(), 5);
    assert_eq!(opened[0], (0, b"81.5".to_vec()));
    assert_eq!(opened.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [0, 1, 1, 1, 0], "{opened:?}");
}

//! GOOSE by an SCL file, on interfaces of a namespace.

use std::fs;

use super::Folder;

const SCL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/goose/antedate.scd");

#[test]
fn control_blocks_are_listed() {
    let folder = Folder::new();
    let called = folder.antedate(&["goose", "list", SCL]);
    assert_eq!(called.status(), 0, "{}", called.err());
    for words in [
        "antedate/gcbTrip (line 48): antedateLD0/LLN0$GO$gcbTrip",
        "to 01:0c:cd:01:00:02, APPID 1001, VLAN 0, priority 6; repeated after 4 to 500 ms; goID antedate-position, confRev 7",
        "antedateLD0/XCBR1.Pos.stVal: one of intermediate-state, off, on, bad-state",
    ] {
        assert!(called.out().contains(words), "{words}: {}", called.out());
    }
    let broken = fs::read_to_string(SCL).expect("the example").replace("confRev=\"3\"", "confRev=\"three\"");
    fs::write(folder.path("broken.scd"), broken).expect("written");
    let called = folder.antedate(&["goose", "list", "broken.scd"]);
    assert_eq!(called.status(), 1);
    assert!(called.out().contains("broken.scd:48: confRev `three` is not a number"), "{}", called.out());
    assert!(called.err().contains("1 of 2 control blocks cannot be used"), "{}", called.err());
    let called = folder.antedate(&["goose", "list", "absent.scd"]);
    assert_eq!(called.status(), 2);
    assert!(called.err().contains("ICD, CID or SCD"), "{}", called.err());
}

/// Two publishers of one control block, which end. A third value is refused, and so is a second
/// beginning.
const PUBLISHERS: &str = r#"
ip link add br0 type bridge && ip link set br0 up
for i in 0 1 2; do
    ip link add eth$i type veth peer name port$i && ip link set port$i master br0
    ip link set eth$i up && ip link set port$i up
done
(umask 077; echo 000102030405060708090a0b0c0d0e0f > key)
of="--scl SCL --control-block gcbTrip --key key"
"$A" goose subscribe eth1 $of --state heard --first --wait > read 2> said & S=$!
until_in() { for i in $(seq 300); do grep -q "$1" $2 && return; sleep 0.05; done; echo "no $1 in $2"; }
until_in listening read
trip='{"GGIO1.Ind1.stVal": true, "GGIO1.IntIn1.stVal": -7}'
for i in 0 2; do
    (echo "$trip"; sleep 2) | "$A" goose publish eth$i $of --state numbers$i --first --trust-clock 2> published$i &
    P="$P $!"
done
wait $P
until_in '"event":"several publishers","state":"ends"' read
until_in '"event":"publisher missing","state":"begins"' read
echo '{"GGIO1.Ind1.stVal": 5}' | "$A" goose publish eth0 $of --state numbers0 2> refused; echo "refused: $?"
"$A" goose publish eth0 $of --state again --first < /dev/null 2> again; echo "again: $?"
"$A" goose publish eth2 $of --state numbers0 < /dev/null 2> moved; echo "moved: $?"
kill $S; wait $S; echo "subscriber: $?"
"#;

#[test]
fn publishers_are_supervised() {
    let folder = Folder::new();
    let Some(called) = folder.in_namespaces(&PUBLISHERS.replace("SCL", SCL)) else { return };
    assert_eq!(called.out(), "refused: 1\nagain: 2\nmoved: 2\nsubscriber: 0\n", "{}", called.err());
    let read = |name| fs::read_to_string(folder.path(name)).expect(name);
    let lines: Vec<serde_json::Value> =
        read("read").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let values = lines.iter().filter(|line| line["sequence"] == 0).map(|line| &line["values"]);
    assert_eq!(values.clone().count(), 2, "{lines:?}");
    for values in values {
        assert_eq!(values["antedateLD0/GGIO1.Ind1.stVal"], true);
        assert_eq!(values["antedateLD0/GGIO1.IntIn1.stVal"], -7);
    }
    let events = |name: &str, state: &str| {
        lines.iter().filter(|line| line["event"] == name && line["state"] == state).count()
    };
    for (event, state) in
        [("several publishers", "begins"), ("several publishers", "ends"), ("publisher missing", "begins")]
    {
        assert!(events(event, state) > 0, "{event} {state}: {lines:?}");
    }
    assert!(read("said").contains("find the device that publishes under a reference of another"));
    assert!(read("refused").contains("line 1: `GGIO1.Ind1.stVal` is 5; it must be true or false"));
    assert!(
        read("again").contains("key.publishers: this interface's address published with this key before")
    );
    assert!(read("moved").contains("numbers0: has the numbers of"), "{}", read("moved"));
}

/// A publisher and a subscriber of a group whose key changes while they run.
const CHANGE: &str = r#"
ip link add eth0 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up
one=000102030405060708090a0b0c0d0e0f
two=100102030405060708090a0b0c0d0e0f
(umask 077; echo "1 2026-01-01T00:00:00Z $one" > key)
of="--scl SCL --control-block gcbTrip --key key"
"$A" goose subscribe eth1 $of --state heard --first --wait --overlap 1 > read 2> said & S=$!
until_in() { for i in $(seq 300); do grep -q "$1" $2 && return; sleep 0.05; done; echo "no $1 in $2"; }
until_in listening read
mkfifo values
"$A" goose publish eth0 $of --state numbers --first --trust-clock < values 2> published & P=$!
exec 3> values
echo '{"GGIO1.Ind1.stVal": true, "GGIO1.IntIn1.stVal": 1}' >&3
until_in '"state":1,' read
begin=$(date -u -d '+3 seconds' +%FT%TZ)
(umask 077; echo "1 2026-01-01T00:00:00Z $one"; echo "2 $begin $two") > new; chmod 600 new; mv new key
until_in 'key 2 is in use' published
until_in 'key 1 is no longer accepted' said
echo '{"GGIO1.IntIn1.stVal": 2}' >&3
until_in '"GGIO1.IntIn1.stVal":2\|IntIn1.stVal":2' read
exec 3>&-
wait $P; echo "publisher: $?"
# After a restart the second key goes on without --first.
echo '{"GGIO1.Ind1.stVal": true, "GGIO1.IntIn1.stVal": 3}' | "$A" goose publish eth0 $of --state numbers; echo "again: $?"
kill $S; wait $S; echo "subscriber: $?"
"#;

#[test]
fn group_changes_its_key() {
    let folder = Folder::new();
    let Some(called) = folder.in_namespaces(&CHANGE.replace("SCL", SCL)) else { return };
    assert_eq!(called.out(), "publisher: 0\nagain: 0\nsubscriber: 0\n", "{}", called.err());
    let read = |name| fs::read_to_string(folder.path(name)).expect(name);
    let messages: Vec<serde_json::Value> = read("read")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .filter(|line| line["sequence"].is_number())
        .collect();
    // No message is missing at the change, and the state goes on.
    let first = messages.iter().take_while(|message| message["state"] == 1);
    let sequence: Vec<u64> = first.filter_map(|message| message["sequence"].as_u64()).collect();
    assert_eq!(sequence, (0..sequence.len() as u64).collect::<Vec<_>>());
    assert!(sequence.len() > 5, "{messages:?}");
    assert!(messages.iter().any(|message| message["state"] == 2), "{messages:?}");
    for words in ["key 2 is accepted, which begins at", "key 1 is no longer accepted"] {
        assert!(read("said").contains(words), "{words}: {}", read("said"));
    }
    assert!(read("published").contains("before it was key 1"), "{}", read("published"));
}

/// Values by sockets, with a key of HMAC: a refused line, two writers, a reader that goes, and the end.
const SOCKETS: &str = r#"
ip link add eth0 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up
(umask 077; echo 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f hmac-sha256-128 > key)
(umask 077; echo 000102030405060708090a0b0c0d0e0f > other)
of="--scl SCL --control-block gcbTrip --key key"
until_in() { for i in $(seq 300); do grep -q "$1" $2 && return; sleep 0.05; done; echo "no $1 in $2"; }
"$A" goose subscribe eth1 $of --wait --socket heard > out 2> said & S=$!
"$A" goose subscribe eth1 --scl SCL --control-block gcbTrip --key other --wait > none 2> refused & O=$!
until_in listening out; until_in listening none
"$A" goose publish eth0 $of --state numbers --first --trust-clock --socket values 2> published & P=$!
for i in $(seq 100); do [ -S values ] && break; sleep 0.05; done
stat -c '%a' heard values
python3 - <<'END'
import json, socket, time
def connect(name):
    one = socket.socket(socket.AF_UNIX); one.settimeout(20); one.connect(name); return one
reader, gone = connect("heard"), connect("heard")
gone.close()
lines = reader.makefile()
assert json.loads(lines.readline()) == {"listening": True}
def event(state):
    for line in lines:
        line = json.loads(line)
        if line.get("state") == state and line.get("sequence") == 0:
            return line["values"]["antedateLD0/GGIO1.IntIn1.stVal"]
one, two = connect("values"), connect("values")
one.sendall(b'{"GGIO1.Ind1.stVal": true, "GGIO1.IntIn1.stVal": 1}\n')
print("first", event(1))
two.sendall(b'{"GGIO1.IntIn1.stVal": 2}\n{"GGIO1.IntIn1.stVal": "x"}\n')
print("second", event(2), two.makefile().readline().strip())
END
until_in 'no writer is at the socket' published
kill $P; wait $P; echo "publisher: $?"
kill $S $O; wait $S; echo "subscriber: $?"; wait $O
ls heard values 2>&1 | wc -l
"$A" goose publish eth0 $of --encrypt --state numbers < /dev/null 2> encrypted; echo "encrypted: $?"
"#;

#[test]
fn sockets_carry_values() {
    let folder = Folder::new();
    let Some(called) = folder.in_namespaces(&SOCKETS.replace("SCL", SCL)) else { return };
    let read = |name| fs::read_to_string(folder.path(name)).expect(name);
    assert_eq!(
        called.out(),
        "660\n660\nfirst 1\nsecond 2 {\"error\":\"`GGIO1.IntIn1.stVal` is \\\"x\\\"; it must be a whole number of 32 bits\",\"refused\":2}\n\
         publisher: 1\nsubscriber: 0\n2\nencrypted: 2\n",
        "{} {} {}",
        called.err(),
        read("published"),
        read("said")
    );
    assert!(
        read("published").contains("line 2 of writer 2: `GGIO1.IntIn1.stVal` is"),
        "{}",
        read("published")
    );
    assert!(!read("none").contains("\"sequence\""), "{}", read("none"));
    assert!(read("encrypted").contains("hmac-sha256-128, which does not encrypt"), "{}", read("encrypted"));
}

/// The second stream of the example, authenticated and routed.
const STREAMS: &str = r#"
ip link add eth0 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up && ip link set lo up
(umask 077; echo 000102030405060708090a0b0c0d0e0f > key)
of="--scl SCL --control-block MSVCB02 --key key"
until_in() { for i in $(seq 300); do grep -q "$1" $2 && return; sleep 0.05; done; echo "no $1 in $2"; }
"$A" sampled subscribe eth1 $of --seconds 3 > ethernet 2> said & S=$!
"$A" sampled subscribe --routed 127.0.0.1:10200 $of --seconds 4 > routed 2> told & R=$!
until_in listening ethernet; until_in listening routed
"$A" sampled publish eth0 $of --state numbers --first --seconds 1 > published
"$A" sampled publish eth0 $of --state numbers --to 127.0.0.1:10200 --seconds 1 > sent
wait $S; echo "ethernet: $?"; wait $R; echo "routed: $?"
"#;

#[test]
fn streams_of_an_scl_file_arrive() {
    let folder = Folder::new();
    let scl = SCL.replace("antedate.scd", "merging-unit.scd");
    let listed = folder.antedate(&["goose", "list", &scl]);
    assert_eq!(listed.status(), 0, "{}", listed.err());
    assert!(listed.out().contains("4800 samples in a second, 2 in a frame; svID antedateMU0102, confRev 2"));
    let Some(called) = folder.in_namespaces(&STREAMS.replace("SCL", &scl)) else { return };
    assert_eq!(called.out(), "ethernet: 0\nrouted: 0\n", "{}", called.err());
    for name in ["ethernet", "routed"] {
        let text = fs::read_to_string(folder.path(name)).expect(name);
        let lines: Vec<serde_json::Value> =
            text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let sum = |what: &str| lines.iter().filter_map(|line| line[what].as_u64()).sum::<u64>();
        // A busy machine may lose some.
        assert!(sum("frames") > 2000 && sum("samples") == 2 * sum("frames"), "{name}: {text}");
        assert_eq!((sum("refused"), sum("other")), (0, 0), "{name}: {text}");
        let shown =
            lines.iter().filter_map(|line| line["values"].as_object()).find(|values| !values.is_empty());
        let shown = shown.expect("values");
        assert_eq!(shown.len(), 16);
        assert_eq!(shown["antedateMUMU01/TCTR1.AmpSv.q"], "good");
    }
}

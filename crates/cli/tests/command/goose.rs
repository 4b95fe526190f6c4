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

//! MQTT: the envelope handled by a broker, and the messages that distribute keys.

use antedate_channel::mqtt::envelope::Envelope;
use antedate_channel::mqtt::enrol::{self, Code, Request};
use antedate_channel::mqtt::rotation::{self, Recipient, Rotation};
use antedate_channel::mqtt::{Algorithm, Group, Publisher, Reserved, topic};

const TOPIC: &str = "plant/press7/force";
const PAYLOAD: &[u8] = br#"{"kN":81.5}"#;

/// A message on a protected topic: the input itself, and a genuine message changed by the input.
/// Only the genuine payload is delivered, once.
pub fn mqtt_envelope(data: &[u8]) {
    if let Ok(envelope) = Envelope::parse(data) {
        assert!((1..=64).contains(&envelope.publisher.len()) && envelope.ciphertext.len() <= data.len());
    }
    let text = String::from_utf8_lossy(data);
    if topic::check_name(&text).is_ok() {
        assert!(topic::check_filter(&text).is_ok() && topic::matches(&text, &text));
    }
    let algorithm = Algorithm::ALL[usize::from(data.first().copied().unwrap_or_default()) % 6];
    let mut group = Group::new("line 4", algorithm);
    group.install(1, &[7; 32]);
    let mut publisher =
        Publisher::new(&group.material(1, b"press 7").expect("material"), Reserved::new(1, 9));
    let (mut genuine, mut out) = (Vec::new(), Vec::new());
    publisher.seal(TOPIC, PAYLOAD, &mut genuine).expect("sealed");
    // libFuzzer observes comparisons and can assemble the genuine message; the COSE_Encrypt0 tag
    // may precede it.
    if data.strip_prefix(&[0xd0]).unwrap_or(data) != genuine {
        assert!(group.open(TOPIC, data, &mut out).is_err() && out.is_empty());
    }
    let mut changed = genuine.clone();
    for pair in data.chunks_exact(2) {
        let at = usize::from(pair[0]) % changed.len();
        changed[at] ^= pair[1];
    }
    changed.truncate(changed.len() - data.len() % 2);
    if changed != genuine {
        assert!(group.open(TOPIC, &changed, &mut out).is_err() && out.is_empty());
    }
    assert!(group.open(TOPIC, &genuine, &mut out).is_ok());
    assert_eq!(out, PAYLOAD);
    assert!(group.open(TOPIC, &genuine, &mut out).is_err());
}

/// A message on the rotation topic: the input itself, and a genuine rotation changed by the input.
/// Only the genuine one delivers a key.
pub fn mqtt_keys(data: &[u8]) {
    let (manager, device) = ([0x11; 32], [1; 32]);
    let public = rotation::manager_public(&manager);
    let open = |message: &[u8]| rotation::open("line 4", message, &public, b"press 7", &device);
    let next = Rotation { epoch: 2, algorithm: Algorithm::A128Gcm, secret: [0x77; 32].into(), grace: 60, past: vec![[0x42; 32].into()] };
    let member = Recipient { name: b"press 7", public: rotation::device_public(&device) };
    let mut counter = 0u8;
    let random = |out: &mut [u8]| {
        counter += 1;
        out.fill(counter);
        Ok::<_, ()>(())
    };
    let genuine = rotation::seal("line 4", &next, &manager, &[member], random).expect("sealed");
    if data != genuine {
        assert!(open(data).is_err() && rotation::members("line 4", data, &public).is_err());
    }
    let mut changed = genuine.clone();
    for three in data.chunks_exact(3) {
        let at = (usize::from(three[0]) << 8 | usize::from(three[1])) % changed.len();
        changed[at] ^= three[2];
    }
    if changed != genuine {
        assert!(open(&changed).is_err());
    }
    assert!(open(&genuine).is_ok_and(|rotation| rotation.epoch == 2 && *rotation.secret == [0x77; 32]));
}

/// A message of an enrolment: the input itself, and a genuine one changed by the input. Only the genuine
/// one is believed.
pub fn mqtt_enrol(data: &[u8]) {
    let fill = |octet: u8| {
        move |out: &mut [u8]| {
            out.fill(octet);
            Ok::<_, ()>(())
        }
    };
    let code = Code::new(fill(9)).expect("a code");
    let wish = Request {
        name: "press7".into(),
        public: rotation::device_public(&[1; 32]),
        verify: rotation::manager_public(&[2; 32]),
    };
    let request = enrol::request("line4", &wish, &code, fill(7)).expect("a request");
    let answer = enrol::answer("line4", &request, "group = \"line4\"", &code);
    assert!(data == request || enrol::open_request("line4", data, &code).is_err());
    assert!(data == answer || enrol::open_answer("line4", &request, data, &code).is_err());
    for genuine in [&request, &answer] {
        let mut changed = genuine.clone();
        for pair in data.chunks_exact(2) {
            let at = usize::from(pair[0]) % changed.len();
            changed[at] ^= pair[1];
        }
        if changed != *genuine {
            assert!(enrol::open_request("line4", &changed, &code).is_err());
            assert!(enrol::open_answer("line4", &request, &changed, &code).is_err());
        }
    }
    if let Ok(text) = str::from_utf8(data)
        && let Ok(read) = text.parse::<Code>()
    {
        assert_eq!(read.to_text().parse::<Code>(), Ok(read));
    }
    assert_eq!(enrol::open_request("line4", &request, &code), Ok(wish));
}

/// Octets of an application or a broker at the proxy.
pub fn mqtt_packet(data: &[u8]) {
    antedate_mqtt_proxy::exercise_packets(data);
}

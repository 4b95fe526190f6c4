//! A fleet: messages of NATS, which is trusted with nothing, and signed messages in general.

use antedate_channel::sealed::{self, Heading, Reader, author_public, device_public};
use antedate_fleet::authority::{Authority, Reading, Signing};
use antedate_fleet::document::{self, Document};
use antedate_fleet::enrol::{self, Request, Token, is_name};
use antedate_fleet::identity::{Identity, Seed};
use antedate_fleet::report::{self, Event, Report};
use ed25519_dalek::{Signer, SigningKey};

const AUTHOR: [u8; 32] = [3; 32];
const READER: [u8; 32] = [4; 32];
const NAME: &[u8] = b"press";
/// A time at which documents of this file are valid.
const NOW: u64 = 1_800_000_000;

fn random(out: &mut [u8]) -> Result<(), ()> {
    out.fill(7);
    Ok(())
}

/// A string of CBOR with this major type, of up to 65,535 octets.
fn string(major: u8, octets: &[u8], out: &mut Vec<u8>) {
    let len = octets.len().min(0xffff);
    out.push(major << 5 | 25);
    out.extend_from_slice(&(len as u16).to_be_bytes());
    out.extend_from_slice(&octets[..len]);
}

/// A COSE_Sign1 with any payload.
fn signed(payload: &[u8]) -> Vec<u8> {
    // The Sig_structure, whose lengths are the shortest ones.
    let short = |octets: &[u8], out: &mut Vec<u8>| match octets.len() {
        len @ 0..=23 => out.push(0x40 | len as u8),
        len @ 24..=255 => out.extend_from_slice(&[0x58, len as u8]),
        len => {
            out.push(0x59);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
    };
    let payload = &payload[..payload.len().min(0xffff)];
    let mut message = b"\x84\x6aSignature1\x43\xa1\x01\x27\x4e\x82\x66a test\x65press".to_vec();
    short(payload, &mut message);
    message.extend_from_slice(payload);
    let signature = SigningKey::from_bytes(&AUTHOR).sign(&message).to_bytes();
    let mut out = vec![0xd2, 0x84, 0x43, 0xa1, 0x01, 0x27, 0xa0];
    string(2, payload, &mut out);
    string(2, &signature, &mut out);
    out
}

/// A sealed message: the input itself, the input signed by the author, and a genuine one changed by
/// the input. Only the genuine content comes out.
pub fn sealed_open(data: &[u8]) {
    let heading = Heading { purpose: "a test", subject: "press" };
    let author = author_public(&AUTHOR);
    let open = |message: &[u8]| sealed::open(heading, message, &author, NAME, &READER);
    let readers = [Reader { name: NAME, public: device_public(&READER) }];
    let genuine = sealed::seal(heading, b"content", &AUTHOR, &readers, random).expect("sealed");
    let allowed = |message: &[u8]| {
        if let Ok(content) = open(message) {
            assert_eq!(&**content, b"content");
        }
    };
    allowed(data);
    let _ = sealed::readers(heading, data, &author);
    // Everything behind the signature.
    let of_author = signed(data);
    allowed(&of_author);
    let _ = sealed::readers(heading, &of_author, &author);
    let mut changed = genuine.clone();
    for pair in data.chunks_exact(2) {
        let at = usize::from(pair[0]) % changed.len();
        changed[at] ^= pair[1];
    }
    if changed != genuine {
        assert!(open(&changed).is_err());
    }
    assert_eq!(&**open(&genuine).expect("genuine"), b"content");
    // Any content comes back.
    let sealed = sealed::seal(heading, data, &AUTHOR, &readers, random).expect("sealed");
    assert_eq!(&**open(&sealed).expect("sealed here"), data);
}

fn device() -> Identity {
    Identity::of(Seed::of([1; 32]))
}

fn signing() -> Signing {
    Signing::of(Seed::of([9; 32]))
}

fn reading() -> Reading {
    Reading::of(Seed::of([8; 32]))
}

/// A message on a device's subject: the input itself, which is never a document, and the input as
/// what the authority signed. A document is for this device, new, and within its time.
pub fn fleet_document(data: &[u8]) {
    let (device, authority) = (device(), Authority::of(&signing(), &reading()));
    let id = device.public().id();
    assert!(Document::open(data, &authority, &device, NOW, 0).is_err());
    let heading = Heading { purpose: "antedate-fleet document", subject: &id };
    let readers = [Reader { name: id.as_bytes(), public: device.public().read }];
    let sealed = sealed::seal(heading, data, &signing().documents(), &readers, random).expect("sealed");
    let Ok(document) = Document::open(&sealed, &authority, &device, NOW, 3) else { return };
    assert!(sealed.len() <= document::MAX_LEN && document.device == id);
    assert!(document.version > 3 && document.not_before <= NOW && NOW < document.expires);
    // What a device reads, the authority writes.
    let again = document.seal(&signing(), &device.public()).expect("sealed");
    assert_eq!(Document::open(&again, &authority, &device, NOW, 3).expect("a document"), document);
}

/// A message of a device: the input itself, which is never a report, and the input as what the device
/// signed.
pub fn fleet_report(data: &[u8]) {
    let (device, authority) = (device(), Authority::of(&signing(), &reading()));
    let (id, keys) = (device.public().id(), device.public());
    assert!(report::open::<Report>(data, &keys, &reading()).is_err());
    assert!(report::open::<Event>(data, &keys, &reading()).is_err());
    let sealed = |purpose| {
        let heading = Heading { purpose, subject: &id };
        let readers = [Reader { name: b"authority", public: authority.reports }];
        sealed::seal(heading, data, &device.signing(), &readers, random).expect("sealed")
    };
    let message = sealed("antedate-fleet report");
    if let Ok(read) = report::open::<Report>(&message, &keys, &reading()) {
        let again = report::seal(&read, &device, &authority).expect("sealed");
        if again.len() <= report::MAX_LEN {
            assert_eq!(report::open::<Report>(&again, &keys, &reading()), Ok(read));
        }
    }
    let message = sealed("antedate-fleet event");
    assert!(report::open::<Report>(&message, &keys, &reading()).is_err());
    let _ = report::open::<Event>(&message, &keys, &reading());
}

/// A request for membership, which anyone with an invitation writes, and a token. What an operator
/// sees has letters only.
pub fn fleet_request(data: &[u8]) {
    let device = device();
    let id = device.public().id();
    if let Ok(request) = Request::read(&id, data) {
        assert!(data.len() <= enrol::MAX_LEN && request.keys == device.public());
        assert!([&request.name, &request.antedate].iter().all(|text| text.is_empty() || is_name(text)));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let token = text.parse::<Token>().ok();
    if let Some(token) = &token {
        assert_eq!(token.to_string().parse::<Token>().as_ref(), Ok(token));
    }
    let written = Request::write(&device, text, "0.1.0", token.as_ref());
    let request = Request::read(&id, &written).expect("its own request");
    assert_eq!(request.name, if is_name(text) { text } else { "" });
    let proven = request.proof.zip(token.as_ref());
    assert_eq!(proven.is_some_and(|(proof, token)| proof.is_of(token, &device.public())), token.is_some());
}

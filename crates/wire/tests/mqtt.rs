//! The full parser and the mote's reader of an envelope agree.

use antedate_wire::mqtt::{Envelope, HEAD_MAX, Head};
use proptest::prelude::*;

fn message(head: &Head<'_>, sequence: u64, ciphertext: &[u8]) -> Vec<u8> {
    let mut bytes = [0; HEAD_MAX];
    let len = head.emit(sequence, ciphertext.len(), &mut bytes).expect("there is room");
    [&bytes[..len], ciphertext].concat()
}

#[test]
fn ciphertext_of_any_length_is_read() {
    let head = Head { algorithm: 10, epoch: 1, publisher: b"p7" };
    for len in [1, 22, 23, 24, 25, 26, 253, 254, 255, 256, 257, 258, 259, 65_534, 65_535, 65_536, 70_000] {
        let ciphertext = vec![7; len];
        let whole = message(&head, 1, &ciphertext);
        assert_eq!(head.read(&whole), Some((1, &ciphertext[..])), "{len}");
        assert_eq!(head.read(&whole[..whole.len() - 1]), None, "{len}, truncated");
        assert_eq!(head.read(&[&whole[..], &[0]].concat()), None, "{len}, with something behind it");
    }
}

#[test]
fn foreign_or_nondeterministic_is_not_read() {
    let head = Head { algorithm: 10, epoch: 1, publisher: b"p7" };
    let whole = message(&head, 0x1234, &[9; 16]);
    for other in [
        Head { algorithm: 1, ..head },
        Head { epoch: 2, ..head },
        Head { publisher: b"p8", ..head },
        Head { publisher: b"p", ..head },
    ] {
        assert_eq!(other.read(&whole), None, "{other:?}");
    }
    // The length of the sequence number in two bytes: valid CBOR, but not its deterministic
    // encoding.
    let at = whole.windows(3).position(|bytes| bytes == [0x42, 0x12, 0x34]).expect("the number");
    let longer = [&whole[..at], &[0x58, 2], &whole[at + 1..]].concat();
    assert!(Envelope::parse(&longer).is_ok_and(|envelope| envelope.sequence == 0x1234));
    assert_eq!(head.read(&longer), None);
    let tagged = [&[0xd0], &whole[..]].concat();
    assert!(Envelope::parse(&tagged).is_ok());
    assert_eq!(head.read(&tagged), None);
}

proptest! {
    #[test]
    fn both_readers_read_an_envelope(
        algorithm in prop_oneof![-70_000i64..70_000, Just(i64::from(i32::MIN)), Just(i64::from(i32::MAX) - 1)],
        epoch: u32,
        publisher in prop::collection::vec(any::<u8>(), 1..=64),
        sequence in 1u64..,
        ciphertext in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let head = Head { algorithm, epoch, publisher: &publisher };
        let whole = message(&head, sequence, &ciphertext);
        prop_assert_eq!(head.read(&whole), Some((sequence, &ciphertext[..])));
        let envelope = Envelope::parse(&whole).expect("an envelope");
        prop_assert_eq!((envelope.algorithm, envelope.epoch, envelope.publisher), (algorithm, epoch, &publisher[..]));
        prop_assert_eq!((envelope.sequence, envelope.ciphertext), (sequence, &ciphertext[..]));
    }

    #[test]
    fn mote_reader_agrees_with_parser(
        sequence in 1u64..,
        ciphertext in prop::collection::vec(any::<u8>(), 0..40),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let head = Head { algorithm: 10, epoch: 300, publisher: b"press 7" };
        let mut whole = message(&head, sequence, &ciphertext);
        for (at, to) in changes {
            let at = at.index(whole.len());
            whole[at] = to;
        }
        if let Some((number, text)) = head.read(&whole) {
            let envelope = Envelope::parse(&whole).expect("an envelope");
            prop_assert_eq!((envelope.sequence, envelope.ciphertext), (number, text));
            prop_assert_eq!((envelope.algorithm, envelope.epoch, envelope.publisher), (10, 300, &b"press 7"[..]));
        }
    }
}

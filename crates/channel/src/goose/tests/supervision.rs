//! What is wrong with the publishers of a control block.

use super::super::{Expected, Supervision, Trouble};
use super::*;

const EXPECTED: Expected<'static> = Expected {
    gocb_ref: b"antedateLD0/LLN0$GO$gcbTrip",
    dat_set: b"antedateLD0/LLN0$dsTrip",
    go_id: b"antedate",
    appid: 0x1000,
    conf_rev: 3,
};
const ONE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const TWO: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn changes(supervision: &mut Supervision) -> Vec<(Trouble, bool)> {
    core::iter::from_fn(|| supervision.next_change()).collect()
}

/// Its `timeAllowedToLive` is 500 ms.
fn heard(supervision: &mut Supervision, source: [u8; 6], message: &Message<'_>, now: u64) -> bool {
    supervision.heard(source, message, &EXPECTED, true, now)
}

#[test]
fn missing_publisher_begins_and_ends() {
    let mut supervision = Supervision::new(0, 2000);
    supervision.look(1999);
    assert_eq!((changes(&mut supervision), supervision.due()), (vec![], 2000));
    supervision.look(2000);
    assert_eq!(changes(&mut supervision), [(Trouble::Missing, true)]);
    supervision.look(3000);
    assert_eq!(changes(&mut supervision), [], "told once");
    assert!(heard(&mut supervision, ONE, &message(&[]), 3100));
    assert_eq!(changes(&mut supervision), [(Trouble::Missing, false)]);
    supervision.look(3599);
    assert!(!supervision.has(Trouble::Missing));
    assert_eq!(supervision.due(), 3600);
    supervision.look(3600);
    assert_eq!(changes(&mut supervision), [(Trouble::Missing, true)]);
}

#[test]
fn other_configuration_is_not_delivered() {
    let mut supervision = Supervision::new(0, 2000);
    let good = message(&[]);
    let revised = Message { conf_rev: 4, ..good };
    assert!(!heard(&mut supervision, ONE, &revised, 1));
    assert_eq!(changes(&mut supervision), [(Trouble::Revision, true)]);
    let of = |publisher| Message { publisher, ..good };
    for wrong in [
        of(goose::Publisher { dat_set: b"other", ..good.publisher }),
        of(goose::Publisher { go_id: Some(b"other"), ..good.publisher }),
        of(goose::Publisher { go_id: None, ..good.publisher }),
        Message { appid: 0x1001, ..good },
    ] {
        assert!(heard(&mut supervision, ONE, &good, 2));
        changes(&mut supervision);
        assert!(!heard(&mut supervision, ONE, &wrong, 2));
        assert_eq!(changes(&mut supervision), [(Trouble::Configuration, true)]);
    }
    assert!(!supervision.heard(ONE, &good, &EXPECTED, false, 3), "other entries");
    assert!(heard(&mut supervision, ONE, &good, 4));
    assert_eq!(changes(&mut supervision), [(Trouble::Configuration, false)]);
    // Without goID, the reference stands for it.
    let default = Expected { go_id: EXPECTED.gocb_ref, ..EXPECTED };
    let without = of(goose::Publisher { go_id: None, ..good.publisher });
    assert!(supervision.heard(ONE, &without, &default, true, 5));
}

#[test]
fn second_publisher_is_told() {
    let mut supervision = Supervision::new(0, 2000);
    heard(&mut supervision, ONE, &message(&[]), 0);
    heard(&mut supervision, TWO, &message(&[]), 100);
    assert_eq!(changes(&mut supervision), [(Trouble::Duplicate, true)]);
    assert!(supervision.sources().eq([ONE, TWO]));
    heard(&mut supervision, TWO, &message(&[]), 400);
    assert_eq!(supervision.due(), 500, "the first one may be gone then");
    supervision.look(500);
    assert_eq!(changes(&mut supervision), [(Trouble::Duplicate, false)]);
    assert!(!supervision.has(Trouble::Missing));
    // A device that was exchanged after a while is none.
    supervision.look(900);
    heard(&mut supervision, ONE, &message(&[]), 901);
    assert!(!supervision.has(Trouble::Duplicate) && !supervision.has(Trouble::Missing));
}

#[test]
fn sources_are_bounded() {
    let mut supervision = Supervision::new(0, 2000);
    for source in 0..100 {
        heard(&mut supervision, [source; 6], &message(&[]), 1);
    }
    assert_eq!(supervision.sources().count(), 16);
    assert_eq!(supervision.sources().last(), Some([99; 6]));
}

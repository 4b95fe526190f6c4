//! Each rule of the file and of a reservation.

use std::io;

use super::*;

fn key(key: u8) -> KeyId {
    KeyId::new("kind", &[key])
}

fn place(place: u32) -> Place {
    let [a, b, c, d] = place.to_be_bytes();
    Place([0, 0, 0, 0, a, b, c, d])
}

/// The next number of a key, and the bound of its first place, after a power cut.
fn durable(medium: &Medium, of: KeyId) -> (u64, u64) {
    medium.restart();
    let state = open(medium).unwrap();
    (state.next(&of).unwrap(), state.bound(&of, OWN))
}

#[test]
fn limits_and_bounds_never_fall() {
    let medium = made();
    let mut state = open(&medium).unwrap();
    for (limits, expected) in [
        (&[100][..], 100),
        (&[50], 100),
        (&[101], 101),
        // One call may name a key twice.
        (&[300, 200], 300),
        (&[200, 400], 400),
        (&[0], 400),
    ] {
        let limits: Vec<_> = limits.iter().map(|limit| (key(1), *limit)).collect();
        state.reserve(&limits).unwrap();
        assert_eq!(state.next(&key(1)).unwrap(), expected);
        let bounds: Vec<_> = limits.iter().map(|(key, limit)| (*key, OWN, *limit)).collect();
        state.raise(&bounds).unwrap();
        assert_eq!(state.bound(&key(1), OWN), expected);
        assert_eq!(durable(&medium, key(1)), (expected, expected));
    }
    // Others are apart.
    assert_eq!((state.next(&key(2)).unwrap(), state.bound(&key(2), OWN)), (1, 1));
    assert_eq!((state.bound(&key(1), place(1)), state.next(&KeyId::new("other", &[1])).unwrap()), (1, 1));
}

#[test]
fn failed_write_changes_nothing() {
    type Act = fn(&mut NumberFile<Medium>) -> Result<(), NumbersError>;
    let acts: [Act; 5] = [
        |state| state.reserve(&[(key(1), 100), (key(2), 100)]),
        |state| state.raise(&[(key(1), OWN, 100), (key(2), OWN, 9)]),
        |state| state.raise_with(&[(key(1), OWN, 100)], || Ok(())),
        |state| state.forget_bounds(&[key(1)]),
        |state| state.forget_numbers(&[key(1)], (key(2), OWN, 9)),
    ];
    for (at, act) in acts.into_iter().enumerate() {
        for step in 0..4 {
            let medium = made();
            let mut state = open(&medium).unwrap();
            state.reserve(&[(key(1), 7)]).unwrap();
            state.raise(&[(key(1), OWN, 5)]).unwrap();
            medium.cut_at(step, Keep::Nothing);
            let error = act(&mut state).unwrap_err();
            assert!(matches!(error.kind, NumbersErrorKind::Io { .. }), "{error}");
            // The durable records are still in force.
            assert_eq!((state.next(&key(1)).unwrap(), state.bound(&key(1), OWN)), (7, 5), "{at} {step}");
            assert_eq!((state.next(&key(2)).unwrap(), state.bound(&key(2), OWN)), (1, 1), "{at} {step}");
            assert_eq!(durable(&medium, key(1)), (7, 5), "{at} {step}");
        }
    }
    // An act that fails prevents the write, after the new file is complete.
    let medium = made();
    let mut state = open(&medium).unwrap();
    let refused = state.raise_with(&[(key(1), OWN, 5)], || Err(io::ErrorKind::BrokenPipe.into()));
    assert!(refused.unwrap_err().to_string().contains("pass on what was received"));
    assert_eq!((state.bound(&key(1), OWN), durable(&medium, key(1)).1), (1, 1));
    let mut done = false;
    state
        .raise_with(&[(key(1), OWN, 5)], || {
            done = true;
            Ok(())
        })
        .unwrap();
    assert_eq!((done, durable(&medium, key(1)).1), (true, 5));
}

#[test]
fn clean_stop_writes_exact_numbers() {
    let stop = |next: &[(KeyId, u64)]| {
        let medium = made();
        let mut state = open(&medium).unwrap();
        state.reserve(&[(key(1), 50), (key(2), 60)]).unwrap();
        drop(state);
        let mut state = open(&medium).unwrap();
        state.reserve(&[(key(1), 100)]).unwrap();
        state.close(next, &[(key(1), OWN, 9), (key(1), OWN, 8)]).unwrap();
        let state = open(&medium).unwrap();
        assert_eq!(state.bound(&key(1), OWN), 9);
        [1, 2, 3].map(|one| state.next(&key(one)).unwrap())
    };
    assert_eq!(stop(&[]), [100, 60, 1], "what is not told keeps its reservation");
    assert_eq!(stop(&[(key(1), 70)]), [70, 60, 1]);
    // Neither below the number at opening, nor above the reservation.
    assert_eq!(stop(&[(key(1), 50)]), [50, 60, 1]);
    assert_eq!(stop(&[(key(1), 49)]), [50, 60, 1]);
    assert_eq!(stop(&[(key(1), 100)]), [100, 60, 1]);
    assert_eq!(stop(&[(key(1), 101)]), [100, 60, 1]);
    // Of two users of a key, the higher one counts, whatever the order.
    assert_eq!(stop(&[(key(1), 80), (key(1), 60)]), [80, 60, 1]);
    assert_eq!(stop(&[(key(1), 60), (key(2), 99), (key(1), 80)]), [80, 60, 1]);
    // A key that was never reserved starts at 1.
    assert_eq!(stop(&[(key(3), 5)]), [100, 60, 1]);
}

#[test]
fn failed_stop_keeps_the_reservation() {
    for step in 0..4 {
        let medium = made();
        let mut state = open(&medium).unwrap();
        state.reserve(&[(key(1), 50)]).unwrap();
        medium.cut_at(step, Keep::Nothing);
        assert!(state.close(&[(key(1), 9)], &[]).is_err());
        assert_eq!(durable(&medium, key(1)).0, 50, "{step}");
    }
}

#[test]
fn key_keeps_its_salt() {
    let salted = |salt: u8| key(1).with_salt("salt", &[salt]).with_label(2);
    let mut state = open(&made()).unwrap();
    state.reserve(&[(salted(1), 9)]).unwrap();
    assert_eq!(state.next(&salted(1).with_label(3)).unwrap(), 9, "a label is for people");
    for other in [salted(2), key(1).with_label(2)] {
        let refused = [
            state.next(&other).map(drop),
            state.reserve(&[(other, 20)]),
            Reservation::open(&state, other, 99).map(drop),
        ];
        for error in refused {
            assert!(matches!(error.unwrap_err().kind, NumbersErrorKind::OtherSalt { label: 2 }));
        }
    }
    assert!(state.close(&[(salted(2), 9)], &[]).is_err());
    // A key without a salt does not get one.
    let mut state = open(&made()).unwrap();
    state.reserve(&[(key(1), 9)]).unwrap();
    assert!(matches!(state.next(&salted(1)).unwrap_err().kind, NumbersErrorKind::OtherSalt { .. }));
}

#[test]
fn records_are_bounded() {
    let numbered = |number: u32| KeyId::new("kind", &number.to_be_bytes());
    let full = |result: Result<(), NumbersError>| matches!(result.unwrap_err().kind, NumbersErrorKind::Full);
    // Keys alone: 10,000.
    let mut state = open(&made()).unwrap();
    let all: Vec<_> = (0..9_999).map(|number| (numbered(number), 2)).collect();
    state.reserve(&all).unwrap();
    state.reserve(&[(numbered(9_999), 2)]).unwrap();
    assert!(full(state.reserve(&[(numbered(10_000), 2)])));
    assert!(full(state.raise(&[(key(1), OWN, 2)])));
    state.reserve(&[(numbered(5), 9)]).unwrap();
    assert_eq!(state.next(&numbered(5)).unwrap(), 9, "a known key goes on");
    // Places alone: 9,000, so that sending goes on.
    let mut state = open(&made()).unwrap();
    let all: Vec<_> = (0..8_999).map(|number| (key(1), place(number), 2)).collect();
    state.raise(&all).unwrap();
    state.raise(&[(key(1), place(8_999), 2)]).unwrap();
    assert!(full(state.raise(&[(key(1), place(9_000), 2)])));
    state.raise(&[(key(1), place(5), 9)]).unwrap();
    assert_eq!(state.bound(&key(1), place(5)), 9, "a known place goes on");
    // The rest is for keys.
    let rest: Vec<_> = (0..1_000).map(|number| (numbered(number), 2)).collect();
    state.reserve(&rest).unwrap();
    assert!(full(state.reserve(&[(numbered(1_000), 2)])));
}

#[test]
fn forgetting_writes_only_what_is_known() {
    let medium = made();
    let mut state = open(&medium).unwrap();
    state.reserve(&[(key(1), 7), (key(2), 8)]).unwrap();
    state.raise(&[(key(1), OWN, 5), (key(1), place(2), 6), (key(2), OWN, 4)]).unwrap();
    // A write would fail.
    medium.cut_at(0, Keep::Nothing);
    state.forget_bounds(&[key(3)]).unwrap();
    state.forget_bounds(&[]).unwrap();
    state.forget_numbers(&[key(3)], (key(9), OWN, 5)).unwrap();
    assert!(!medium.is_off());
    assert_eq!(state.bound(&key(9), OWN), 1);
    medium.restart();
    state.forget_bounds(&[key(1), key(3)]).unwrap();
    let bounds = [(key(1), OWN), (key(1), place(2)), (key(2), OWN)];
    assert_eq!(bounds.map(|(key, place)| state.bound(&key, place)), [1, 1, 4]);
    assert_eq!(state.next(&key(1)).unwrap(), 7, "numbers stay");
    state.forget_numbers(&[key(1)], (key(2), OWN, 3)).unwrap();
    assert_eq!((state.next(&key(1)).unwrap(), state.next(&key(2)).unwrap()), (1, 8));
    assert_eq!(state.bound(&key(2), OWN), 4, "a bound does not fall");
}

#[test]
fn reservation_hands_out_what_is_durable() {
    let medium = made();
    let mut state = open(&medium).unwrap();
    let mut numbers = Reservation::open(&state, key(1), 100).unwrap();
    assert_eq!((numbers.next(), numbers.limit(), numbers.end(), numbers.left()), (1, 1, 100, 0));
    assert_eq!(numbers.take(), None);
    numbers.extend(&mut state, 10).unwrap();
    assert_eq!((numbers.limit(), numbers.left(), durable(&medium, key(1)).0), (11, 10, 11));
    for number in 1..11 {
        assert_eq!(numbers.take(), Some(number));
    }
    assert_eq!((numbers.take(), numbers.next(), numbers.is_exhausted()), (None, 11, false));
    // A failure leaves the limit. After the renaming, a power cut ends the process too.
    for step in 0..3 {
        medium.cut_at(step, Keep::Nothing);
        assert!(numbers.extend(&mut state, 10).is_err());
        assert_eq!((numbers.limit(), numbers.take()), (11, None));
        medium.restart();
    }
    // The cipher's range ends it.
    numbers.extend(&mut state, 1000).unwrap();
    assert_eq!((numbers.limit(), numbers.left()), (100, 89));
    numbers.spend_below(99);
    assert_eq!((numbers.take(), numbers.take(), numbers.is_exhausted()), (Some(99), None, true));
    numbers.extend(&mut state, 10).unwrap();
    assert_eq!((numbers.take(), durable(&medium, key(1)).0), (None, 100));
    // So it is found at the next start.
    let numbers = Reservation::open(&open(&medium).unwrap(), key(1), 90).unwrap();
    assert_eq!((numbers.next(), numbers.limit(), numbers.is_exhausted()), (90, 90, true));
}

#[test]
fn spending_moves_forward_within_the_limit() {
    let mut state = open(&made()).unwrap();
    let mut numbers = Reservation::open(&state, key(1), 100).unwrap();
    numbers.extend(&mut state, 10).unwrap();
    for (below, next) in [(5, 5), (3, 5), (11, 11), (12, 11)] {
        numbers.spend_below(below);
        assert_eq!((numbers.next(), numbers.left()), (next, 11 - next));
    }
}

#[test]
fn refill_waits_until_half_is_used() {
    let medium = made();
    let mut state = open(&medium).unwrap();
    let mut numbers = Reservation::open(&state, key(1), 25).unwrap();
    assert_eq!(numbers.refill(&mut state, 10).unwrap(), Some(11));
    numbers.spend_below(5);
    assert_eq!((numbers.left(), numbers.refill(&mut state, 10).unwrap()), (6, None));
    numbers.spend_below(6);
    assert_eq!((numbers.left(), numbers.refill(&mut state, 10).unwrap()), (5, Some(16)));
    numbers.spend_below(16);
    assert_eq!(numbers.refill(&mut state, 10).unwrap(), Some(25));
    numbers.spend_below(25);
    assert_eq!(numbers.refill(&mut state, 10).unwrap(), None, "the range ends");
    medium.cut_at(0, Keep::Nothing);
    let mut other = Reservation::open(&state, key(2), 25).unwrap();
    assert!(other.refill(&mut state, 10).is_err());
    assert_eq!(other.limit(), 1);
}

#[test]
fn several_keys_are_reserved_in_one_write() {
    let medium = made();
    let mut state = open(&medium).unwrap();
    let mut all = [1, 2].map(|one| Reservation::open(&state, key(one), 100).unwrap());
    Reservation::extend_all(&mut all, &mut state, 10).unwrap();
    assert_eq!(all.each_ref().map(Reservation::limit), [11, 11]);
    // One of them is at its end: the other goes on. In one write, both or none.
    all[0].spend_below(9);
    medium.cut_at(4, Keep::Nothing);
    Reservation::extend_all(&mut all, &mut state, 10).unwrap();
    assert_eq!((all.each_ref().map(Reservation::limit), medium.is_off()), ([19, 11], false));
    medium.restart();
    medium.cut_at(1, Keep::Nothing);
    all.iter_mut().for_each(|one| one.spend_below(u64::MAX));
    assert!(Reservation::extend_all(&mut all, &mut state, 10).is_err());
    assert_eq!(all.each_ref().map(Reservation::limit), [19, 11]);
    medium.restart();
    // Numbers above the own limit belong to another reservation.
    state.reserve(&[(key(1), 40)]).unwrap();
    all[0].extend(&mut state, 10).unwrap();
    assert_eq!((all[0].take(), all[0].limit()), (Some(40), 50));
}

#[test]
fn fleeting_numbers_are_never_written() {
    let medium = made();
    let mut state = open(&medium).unwrap();
    let mut numbers = Reservation::fleeting(key(1));
    medium.cut_at(0, Keep::Nothing);
    numbers.extend(&mut state, 10).unwrap();
    assert_eq!(numbers.refill(&mut state, 10).unwrap(), None);
    assert_eq!((numbers.take(), numbers.take(), numbers.key()), (Some(1), Some(2), key(1)));
    assert!(!medium.is_off());
    medium.restart();
    assert_eq!(durable(&medium, key(1)).0, 1);
}

#[test]
fn directory_is_the_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    drop(NumberFile::create(&path).unwrap());
    for (mode, fits) in [(0o700, true), (0o755, true), (0o720, false), (0o702, false)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let opened = NumberFile::open(&path).map(drop);
        assert_eq!((opened.is_ok(), inspect(&path).is_ok()), (fits, fits), "{mode:o}");
        if let Err(error) = opened {
            let shown = error.remedy().unwrap();
            assert!(matches!(error.kind, NumbersErrorKind::OpenToOthers { .. }), "{error}");
            assert_eq!(shown, format!("chmod 700 {}", path.display()));
        }
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let left: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [NAME], "the probe leaves nothing");
    let error = NumberFile::open(&path.join(NAME)).unwrap_err();
    assert!(matches!(error.kind, NumbersErrorKind::NotDirectory), "{error}");
    assert_eq!(error.remedy().as_deref(), Some("name a directory"));
}

#[test]
fn endless_file_is_not_read_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    drop(NumberFile::create(&path).unwrap());
    fs::remove_file(path.join(NAME)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path.join(NAME)).unwrap();
    let error = NumberFile::open(&path).unwrap_err();
    assert!(matches!(error.kind, NumbersErrorKind::Corrupt), "{error}");
}

#[test]
fn all_kinds_of_faults_are_told_apart() {
    let io = || io::Error::from(io::ErrorKind::PermissionDenied);
    let kinds = [
        NumbersErrorKind::NoDirectory,
        NumbersErrorKind::NotDirectory,
        NumbersErrorKind::OpenToOthers { mode: 0o777 },
        NumbersErrorKind::InUse,
        NumbersErrorKind::KeyInUse,
        NumbersErrorKind::Moved,
        NumbersErrorKind::Exchanged,
        NumbersErrorKind::Copied,
        NumbersErrorKind::OtherMachine,
        NumbersErrorKind::Older,
        NumbersErrorKind::Missing,
        NumbersErrorKind::Exists,
        NumbersErrorKind::Corrupt,
        NumbersErrorKind::Version,
        NumbersErrorKind::Full,
        NumbersErrorKind::OtherSalt { label: 3 },
        NumbersErrorKind::Exhausted,
        NumbersErrorKind::Io { doing: "write", error: io() },
    ];
    let texts: std::collections::BTreeSet<_> = kinds.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), kinds.len());
    assert!(texts.contains("the key of AN 3 was used with another salt before, so nonces could meet"));
    for kind in kinds {
        let error = NumbersError::new(Path::new("state"), kind);
        let common = error.remedy();
        let fault = format!("{:#}", error.into_fault(|_| "the bearer's own".to_owned()));
        assert!(fault.contains(common.as_deref().unwrap_or("the bearer's own")), "{fault}");
    }
}

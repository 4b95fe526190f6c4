//! Change of a group's key.

use super::*;

const NEXT: KeyPeriod = KeyPeriod { key: 8, ..PERIOD };

fn next_key() -> Key<Aes128Gcm> {
    Key::new(b"the key after it").unwrap()
}

fn later(form: Form) -> Layout {
    let destination = EthernetAddress([0x01, 0x0c, 0xcd, 0x01, 0x00, 0x01]);
    Layout::new(destination, EthernetAddress(SENDER), &message(&values(0)), form, NEXT).unwrap()
}

fn with_next(layout: &Layout) -> Publisher<'_, Aes128Gcm> {
    Publisher::new(next_key(), Counter::new(SENDER, 1, 10_000), layout).unwrap()
}

#[test]
fn key_changes_without_a_gap() {
    for form in FORMS {
        let (first, second) = (layout(form), later(form));
        let (mut before, mut reader) = (publisher(&first), subscriber(form, 0));
        assert_eq!(reader.receive(&event(&mut before, 1)).map(|got| got.st_num), Ok(1));
        let held_back = event(&mut before, 2);
        let mut after = with_next(&second).continued(&before.into_last()).unwrap();
        let repeated = repeat(&mut after);
        assert_eq!(reader.receive(&repeated), Err(Dropped::UnknownKey));
        assert!(reader.accept(next_key(), NEXT.key));
        assert!(!reader.accept(key(), NEXT.key), "a number is of one key");
        // States and sequence go on.
        let got = reader.receive(&repeated).unwrap();
        assert_eq!((got.st_num, got.sq_num, got.all_data), (2, 1, Values::Given(&values(2))));
        assert_eq!(reader.receive(&event(&mut after, 3)).map(|got| got.st_num), Ok(3));
        // What was held back is late, and another publisher may still have the first key.
        assert_eq!(reader.receive(&held_back), Err(Dropped::Late));
        let other = [2, 0, 0, 0, 0, 9];
        let slow =
            Layout::new(EthernetAddress([1; 6]), EthernetAddress(other), &message(&values(0)), form, PERIOD);
        let slow = slow.unwrap();
        let mut slow = Publisher::new(key(), Counter::new(other, 1, 100), &slow).unwrap();
        assert!(reader.receive(&event(&mut slow, 1)).is_ok());
        reader.forget(PERIOD.key);
        assert_eq!(reader.receive(&event(&mut slow, 2)), Err(Dropped::UnknownKey));
        assert_eq!(reader.keys().collect::<Vec<_>>(), [NEXT.key]);
    }
}

#[test]
fn change_is_final_after_a_restart() {
    let (first, second) = (layout(Form::Authenticated), later(Form::Authenticated));
    let mut reader = subscriber(Form::Authenticated, 0);
    assert!(reader.accept(next_key(), NEXT.key));
    let mut before = publisher(&first);
    let [one, held_back] = [event(&mut before, 1), event(&mut before, 2)];
    reader.receive(&one).unwrap();
    reader.receive(&event(&mut with_next(&second), 3)).unwrap();
    let mut new = subscriber(Form::Authenticated, 0);
    assert!(new.accept(next_key(), NEXT.key));
    reader.publishers().for_each(|(key, sender, lowest)| new.refuse_below(key, sender, lowest));
    assert_eq!(new.receive(&held_back), Err(Dropped::Late));
}

#[test]
fn routed_key_changes_too() {
    let of = |period| Layout::routed(&message(&values(0)), period).unwrap();
    let (first, second) = (of(PERIOD), of(NEXT));
    let mut reader = RoutedSubscriber::new(key(), PERIOD.key, Freshness::Counter);
    let mut before = publisher(&first);
    reader.receive(&event(&mut before, 1)).unwrap();
    let held_back = repeat(&mut before);
    let mut after = with_next(&second).continued(&before.into_last()).unwrap();
    assert!(reader.accept(next_key(), NEXT.key));
    assert_eq!(reader.receive(&repeat(&mut after)).map(|got| (got.st_num, got.sq_num)), Ok((1, 2)));
    assert_eq!(reader.receive(&held_back), Err(Dropped::Late));
}

#[test]
fn other_control_block_is_not_continued() {
    let (first, other) = (layout(Form::Authenticated), later(Form::Encrypted));
    assert!(with_next(&other).continued(&publisher(&first).into_last()).is_none());
}

#[test]
fn ring_holds_few_keys() {
    let mut reader = subscriber(Form::Authenticated, 0);
    let taken = (100..200).filter(|number| reader.accept(next_key(), *number)).count();
    assert_eq!(taken, MAX_KEYS - 1);
}

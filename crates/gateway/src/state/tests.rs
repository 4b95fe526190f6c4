use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::keys::{KeyFile, Member, SecretKey};
use crate::ledger::Ledger;
use antedate_channel::macsec::CipherSuite;

const OWN: Sci = Sci([2, 0, 0, 0, 0, 1, 0, 1]);
const PEER: Sci = Sci([2, 0, 0, 0, 0, 2, 0, 1]);

fn an(number: u8) -> An {
    An::new(number).unwrap()
}

fn association(number: u8, key: u8, salt: Option<u8>) -> Association {
    Association {
        an: an(number),
        key_id: [key; 16],
        key: SecretKey::new(&[key; 16]),
        salt: salt.map(|salt| [salt; 12]),
    }
}

fn keys(suite: CipherSuite) -> KeyFile {
    let salt = suite.is_xpn().then_some(9);
    let member =
        |name: &str, sci, ssci| Member { name: name.into(), sci, ssci: suite.is_xpn().then_some(ssci) };
    KeyFile {
        suite,
        associations: vec![association(0, 1, salt), association(1, 2, salt)],
        members: vec![member("own", OWN, 2), member("peer", PEER, 1)],
    }
}

/// A medium that forgets what was not synchronized, and whose power can be cut at any step or within it.
#[derive(Debug, Clone, Default)]
struct Medium(Rc<RefCell<Content>>);

#[derive(Debug, Default)]
struct Content {
    /// What a reader sees now.
    current: Option<Vec<u8>>,
    /// What survives for certain.
    durable: Option<Vec<u8>>,
    new: Vec<u8>,
    new_synced: bool,
    /// The step, counted from now, at which the power goes; `keep`: what of it reaches the medium.
    cut: Option<(u32, Keep)>,
    off: bool,
}

#[derive(Debug, Clone, Copy)]
enum Keep {
    /// Nothing that was not synchronized.
    Nothing,
    /// The new name; if the new content was not synchronized, only a part of that.
    Name,
}

impl Medium {
    /// Whether this step is the one that is not finished.
    fn step(&self) -> io::Result<()> {
        let mut content = self.0.borrow_mut();
        if content.off {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        match content.cut {
            Some((0, _)) => {
                content.off = true;
                Err(io::ErrorKind::BrokenPipe.into())
            }
            Some((steps, keep)) => {
                content.cut = Some((steps - 1, keep));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn cut_at(&self, step: u32, keep: Keep) {
        self.0.borrow_mut().cut = Some((step, keep));
    }

    /// The power comes back.
    fn restart(&self) {
        let mut content = self.0.borrow_mut();
        let keep = content.cut.take().map_or(Keep::Nothing, |(_, keep)| keep);
        if let Keep::Name = keep {
            content.durable = content.current.clone();
        }
        content.current = content.durable.clone();
        content.new_synced = false;
        content.off = false;
    }
}

impl Disk for Medium {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.borrow().current.clone())
    }

    fn write_new(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        let mut content = self.0.borrow_mut();
        content.new = bytes.to_vec();
        content.new_synced = false;
        Ok(())
    }

    fn sync_new(&mut self) -> io::Result<()> {
        self.step()?;
        self.0.borrow_mut().new_synced = true;
        Ok(())
    }

    fn replace(&mut self) -> io::Result<()> {
        // Cut here, the new name may still have reached the medium.
        let cut = self.step();
        let mut content = self.0.borrow_mut();
        if cut.is_ok() || matches!(content.cut, Some((0, Keep::Name))) && content.off {
            let whole = content.new.len();
            let kept = if content.new_synced { whole } else { whole / 2 };
            content.current = content.new.get(..kept).map(<[u8]>::to_vec);
        }
        cut
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.step()?;
        let mut content = self.0.borrow_mut();
        content.durable = content.current.clone();
        Ok(())
    }
}

fn made() -> Medium {
    let medium = Medium::default();
    let mut content = medium.0.borrow_mut();
    content.current = Some(Records::default().to_bytes());
    content.durable = content.current.clone();
    drop(content);
    medium
}

fn open(medium: &Medium) -> Result<StateFile<Medium>, StateError> {
    StateFile::on(Path::new("state"), medium.clone())
}

/// What happens to a gateway.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// It sends so many frames, as far as the limit lets it.
    Send(u8, u64),
    /// The control thread looks after the reservations.
    Refill(u8),
    /// The peer sent up to this packet number.
    Receive(u8, u64),
    /// The control thread writes what was received.
    Commit,
    /// It stops and starts again.
    Stop,
    /// It is killed and starts again.
    Kill,
    /// The power goes at this step of the next write.
    Cut(u32, Keep),
}

fn event() -> impl Strategy<Value = Event> {
    let keep = prop_oneof![Just(Keep::Nothing), Just(Keep::Name)];
    prop_oneof![
        5 => (0..2u8, 0..40u64).prop_map(|(an, count)| Event::Send(an, count)),
        5 => (0..2u8).prop_map(Event::Refill),
        2 => (0..2u8, 1..1000u64).prop_map(|(an, pn)| Event::Receive(an, pn)),
        2 => Just(Event::Commit),
        1 => Just(Event::Stop),
        1 => Just(Event::Kill),
        3 => (0..4u32, keep).prop_map(|(step, keep)| Event::Cut(step, keep)),
    ]
}

/// A gateway that sends in a world where its power may go at any time.
struct World {
    medium: Medium,
    keys: KeyFile,
    ledger: Option<Ledger<Medium>>,
    /// How far the forwarding thread is, and may go, by association.
    next: [u64; 2],
    limit: [u64; 2],
    /// Packet numbers below these are spent.
    spent: [u64; 2],
    /// What is known to be on the medium of each receive channel.
    committed: [u64; 2],
}

const RESERVE: u64 = 32;
/// The first packet number that the suites of 32 bits do not have.
const END: u64 = u32::MAX as u64;

impl World {
    fn new() -> Self {
        let mut world = Self {
            medium: made(),
            keys: keys(CipherSuite::GcmAes128),
            ledger: None,
            next: [0; 2],
            limit: [0; 2],
            spent: [1; 2],
            committed: [1; 2],
        };
        world.start();
        world
    }

    /// Starts it; if the power goes meanwhile, again.
    fn start(&mut self) {
        let ledger = loop {
            let state = open(&self.medium).expect("the state file is never damaged");
            match Ledger::open(state, &self.keys, OWN, RESERVE) {
                Ok(ledger) => break ledger,
                Err(_) => self.medium.restart(),
            }
        };
        for sa in ledger.transmit() {
            let index = sa.an.index();
            assert!(
                sa.next >= self.spent[index],
                "{} was spent, and {} comes next",
                self.spent[index] - 1,
                sa.next
            );
            self.next[index] = sa.next;
            self.limit[index] = sa.limit;
        }
        for sa in ledger.receive() {
            assert!(sa.lowest >= self.committed[sa.an.index()], "what was received can be replayed");
        }
        self.ledger = Some(ledger);
    }

    fn crash(&mut self) {
        self.ledger = None;
        self.medium.restart();
        self.start();
    }

    fn happen(&mut self, event: Event) {
        let off = self.medium.0.borrow().off;
        if off && !matches!(event, Event::Send(..)) {
            // The medium fails first; the forwarding thread may still send until the machine is down too.
            return self.crash();
        }
        let ledger = self.ledger.as_mut().expect("running");
        match event {
            Event::Send(index, count) => {
                let index = usize::from(index);
                for _ in 0..count.min(self.limit[index] - self.next[index]) {
                    assert!(self.next[index] >= self.spent[index], "spent twice");
                    self.spent[index] = self.next[index] + 1;
                    self.next[index] += 1;
                }
            }
            Event::Refill(index) => {
                let at = usize::from(index);
                if let Ok(Some(limit)) = ledger.refill(an(index), self.next[at]) {
                    assert!(limit > self.limit[at]);
                    self.limit[at] = limit;
                }
            }
            Event::Receive(index, pn) => ledger.received(PEER, an(index), pn),
            Event::Commit => {
                let lowest: Vec<_> = ledger.receive().iter().map(|sa| (sa.an.index(), sa.lowest)).collect();
                if ledger.commit().is_ok() {
                    lowest.into_iter().for_each(|(index, lowest)| self.committed[index] = lowest);
                }
            }
            Event::Stop => {
                let ledger = self.ledger.take().expect("running");
                let exact = [(an(0), self.next[0]), (an(1), self.next[1])];
                let closed = ledger.close(&exact).is_ok();
                self.medium.restart();
                let before = self.next;
                self.start();
                if closed {
                    assert_eq!(self.next, before, "a clean stop loses no packet number");
                }
            }
            Event::Kill => {
                // The machine lives on, so what was written is there, synchronized or not.
                self.ledger = None;
                let mut content = self.medium.0.borrow_mut();
                content.durable = content.current.clone();
                drop(content);
                self.start();
            }
            Event::Cut(step, keep) => self.medium.cut_at(step, keep),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_packet_number_is_spent_twice_whatever_happens(events in prop::collection::vec(event(), 1..120)) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
        world.crash();
    }
}

#[test]
fn the_medium_of_these_tests_does_lose_what_was_not_synchronized() {
    // A save that leaves out the synchronization of the content must be caught, otherwise the property proves nothing.
    let medium = made();
    let mut disk = medium.clone();
    disk.write_new(b"a new content").unwrap();
    disk.replace().unwrap();
    disk.sync_directory().unwrap();
    medium.restart();
    assert!(open(&medium).is_err_and(|error| matches!(error.kind, StateFault::Corrupt)));
}

#[test]
fn a_failed_write_moves_no_limit_and_loses_nothing() {
    for step in 0..4 {
        let medium = made();
        let mut ledger =
            Ledger::open(open(&medium).unwrap(), &keys(CipherSuite::GcmAes128), OWN, RESERVE).unwrap();
        medium.cut_at(step, Keep::Nothing);
        assert!(ledger.refill(an(0), 30).is_err(), "{step}");
        assert_eq!(ledger.transmit()[0].limit, 33, "{step}");
        medium.restart();
        assert_eq!(ledger.refill(an(0), 30).unwrap(), Some(62), "{step}");
    }
}

#[test]
fn an_unknown_key_begins_at_one_and_a_known_one_goes_on() {
    let medium = made();
    let keys = keys(CipherSuite::GcmAes128);
    let ledger = Ledger::open(open(&medium).unwrap(), &keys, OWN, RESERVE).unwrap();
    assert_eq!((ledger.transmit()[0].next, ledger.transmit()[0].limit), (1, 33));
    assert_eq!(ledger.encoding(), Some(an(0)));
    ledger.close(&[(an(0), 5)]).unwrap();
    let ledger = Ledger::open(open(&medium).unwrap(), &keys, OWN, RESERVE).unwrap();
    let next: Vec<u64> = ledger.transmit().iter().map(|sa| sa.next).collect();
    assert_eq!(next, [5, 33], "the one that nobody spoke of keeps its reservation");
}

#[test]
fn a_key_goes_on_under_another_an_or_sci() {
    let medium = made();
    let mut state = open(&medium).unwrap();
    state.reserve(&[(KeyId::of(&association(0, 7, None)), 100)]).unwrap();
    assert_eq!(state.next(&KeyId::of(&association(3, 7, None))).unwrap(), 100);
    assert_eq!(state.next(&KeyId::of(&association(0, 8, None))).unwrap(), 1);
}

#[test]
fn a_known_key_with_another_salt_is_refused() {
    let mut state = open(&made()).unwrap();
    state.reserve(&[(KeyId::of(&association(0, 7, Some(1))), 100)]).unwrap();
    let error = state.next(&KeyId::of(&association(0, 7, Some(2)))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "state: the key of AN 0 was used with another salt before, so nonces could meet"
    );
    assert!(error.remedy().starts_with("make new keys"));
}

#[test]
fn an_exhausted_association_gives_way_to_the_next() {
    let medium = made();
    let keys = keys(CipherSuite::GcmAes128);
    let mut state = open(&medium).unwrap();
    state.reserve(&[(KeyId::of(&keys.associations[0]), END - 10)]).unwrap();
    drop(state);
    let mut ledger = Ledger::open(open(&medium).unwrap(), &keys, OWN, RESERVE).unwrap();
    assert_eq!(ledger.transmit()[0].limit, END, "no limit beyond the last packet number");
    assert_eq!(ledger.refill(an(0), END).unwrap(), None);
    assert_eq!((ledger.encoding(), ledger.after(an(0))), (Some(an(1)), Some(an(1))));
    assert_eq!(ledger.after(an(1)), None);
    ledger.close(&[(an(0), END), (an(1), 1)]).unwrap();

    let mut state = open(&medium).unwrap();
    state.reserve(&[(KeyId::of(&keys.associations[1]), END)]).unwrap();
    let error = Ledger::open(state, &keys, OWN, RESERVE).unwrap_err();
    assert_eq!(error.to_string(), "state: no association has packet numbers left");
}

#[test]
fn two_associations_near_their_ends_do_not_take_turns() {
    let keys = keys(CipherSuite::GcmAes128);
    let mut state = open(&made()).unwrap();
    state
        .reserve(&keys.associations.iter().map(|sa| (KeyId::of(sa), END - 100)).collect::<Vec<_>>())
        .unwrap();
    let mut ledger = Ledger::open(state, &keys, OWN, RESERVE).unwrap();
    assert_eq!((ledger.encoding(), ledger.after(an(0))), (Some(an(0)), None));
    for next in [END - 80, END - 60, END - 40, END - 20, END] {
        ledger.refill(an(0), next).unwrap();
    }
    assert_eq!(ledger.after(an(0)), Some(an(1)), "only the exhausted one gives way");
}

#[test]
fn extended_packet_numbers_end_where_64_bits_do() {
    let medium = made();
    let keys = keys(CipherSuite::GcmAesXpn128);
    let mut state = open(&medium).unwrap();
    state.reserve(&[(KeyId::of(&keys.associations[0]), u64::MAX - 5)]).unwrap();
    let ledger = Ledger::open(state, &keys, OWN, RESERVE).unwrap();
    assert_eq!((ledger.transmit()[0].next, ledger.transmit()[0].limit), (u64::MAX - 5, u64::MAX));
}

#[test]
fn what_was_received_before_a_restart_is_not_acceptable_after_it() {
    let medium = made();
    let keys = keys(CipherSuite::GcmAes128);
    let mut ledger = Ledger::open(open(&medium).unwrap(), &keys, OWN, RESERVE).unwrap();
    ledger.received(PEER, an(0), 500);
    ledger.received(PEER, an(0), 400);
    ledger.received(OWN, an(0), 900);
    ledger.commit().unwrap();
    drop(ledger);
    let ledger = Ledger::open(open(&medium).unwrap(), &keys, OWN, RESERVE).unwrap();
    let lowest: Vec<_> = ledger.receive().iter().map(|sa| (sa.sci, sa.an, sa.lowest)).collect();
    assert_eq!(lowest, [(PEER, an(0), 500), (PEER, an(1), 1)]);
}

#[test]
fn a_directory_is_for_one_daemon_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    assert_eq!(kind(StateFile::open(&path)), "there is no such directory");
    let state = StateFile::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(path.join(disk::NAME)).unwrap().mode() & 0o777, 0o600);
    assert_eq!(kind(StateFile::open(&path)), "another process holds this state directory");
    assert_eq!(kind(StateFile::create(&path)), "another process holds this state directory");
    assert!(inspect(&path).is_ok());
    drop(state);
    let mut state = StateFile::open(&path).unwrap();
    let key = KeyId::of(&association(0, 7, None));
    state.reserve(&[(key, 100)]).unwrap();
    drop(state);
    assert_eq!(StateFile::open(&path).unwrap().next(&key).unwrap(), 100);
    assert_eq!(kind(StateFile::create(&path)), "there is a state file already");
}

#[test]
fn a_state_file_that_is_missing_or_damaged_is_no_new_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    drop(StateFile::create(&path).unwrap());
    let file = path.join(disk::NAME);
    fs::write(&file, "antedate packet numbers 1\n").unwrap();
    assert!(kind(StateFile::open(&path)).starts_with("the state file is damaged"));
    assert_eq!(kind(StateFile::create(&path)), "there is a state file already");
    fs::write(&file, "antedate packet numbers 9\n").unwrap();
    assert!(
        kind(StateFile::open(&path))
            .starts_with("the state file has a format that this version does not know")
    );
    fs::remove_file(&file).unwrap();
    assert!(kind(StateFile::open(&path)).starts_with("there is no state file, so nobody knows"));
    assert!(inspect(&path).is_err());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(kind(StateFile::open(&path)).contains("(mode 0770)"));
    assert_eq!(kind(StateFile::open(&file.with_file_name("../other"))), "there is no such directory");
}

fn kind<T>(result: Result<T, StateError>) -> String {
    result.map(drop).unwrap_err().kind.to_string()
}

#[test]
fn a_directory_that_cannot_be_written_is_a_fault_of_the_check() {
    // Root may write anywhere, apart from a file system that is read only by nature.
    let error = StateFile::create(Path::new("/proc/antedate")).unwrap_err();
    assert!(error.to_string().starts_with("/proc/antedate: cannot make the directory: "), "{error}");
}

#[test]
fn no_remedy_of_a_medium_leads_to_another_directory() {
    let remedy = |number| {
        let error = io::Error::from_raw_os_error(number);
        StateError { path: "state".into(), kind: StateFault::Io { doing: "write the state file", error } }
            .remedy()
    };
    assert_eq!([libc::ENOSPC, libc::EDQUOT].map(remedy), ["make room on its medium"; 2]);
    for number in [libc::EROFS, libc::EACCES, libc::EIO] {
        assert!(remedy(number).starts_with("make it writable"), "{}", remedy(number));
    }
}

#[test]
fn keys_are_forgotten_and_the_bound_is_known_or_neither_wherever_the_power_goes() {
    let key = |key: u8| KeyId::of_key("kind", &[key]);
    for (step, keep) in (0..4).flat_map(|step| [(step, Keep::Nothing), (step, Keep::Name)]) {
        let medium = made();
        let mut state = open(&medium).unwrap();
        state.reserve(&[(key(1), 7), (key(2), 8)]).unwrap();
        medium.cut_at(step, keep);
        state.forget_transmitted(&[key(1)], (key(3), OWN, 5)).unwrap_err();
        medium.restart();
        let mut state = open(&medium).unwrap();
        let known = (state.next(&key(1)).unwrap(), state.lowest(&key(3), OWN));
        assert!([(7, 1), (1, 5)].contains(&known), "{step} {keep:?}: {known:?}");
        assert_eq!(state.next(&key(2)).unwrap(), 8);
        state.forget_transmitted(&[key(1)], (key(3), OWN, 5)).unwrap();
        state.forget_transmitted(&[key(2)], (key(3), OWN, 4)).unwrap();
        let state = open(&medium).unwrap();
        let next = [1, 2].map(|one| state.next(&key(one)).unwrap());
        assert_eq!((next, state.lowest(&key(3), OWN)), ([1, 1], 5), "and the bound never falls");
    }
}

#[test]
fn a_full_file_has_room_for_the_bound_of_what_is_forgotten() {
    let medium = made();
    let mut state = open(&medium).unwrap();
    let key = |number: u32| KeyId::of_key("kind", &number.to_be_bytes());
    let all: Vec<_> = (0..10_000).map(|number| (key(number), 2)).collect();
    state.reserve(&all).unwrap();
    state.reserve(&[(key(10_000), 2)]).unwrap_err();
    state.forget_transmitted(&[key(3), key(4), key(10_000)], (key(0), OWN, 5)).unwrap();
    state.reserve(&[(key(10_000), 2)]).unwrap();
}

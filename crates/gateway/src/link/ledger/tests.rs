use std::path::Path;

use antedate_channel::macsec::CipherSuite;
use antedate_host::numbers::medium::{Keep, Medium};
use proptest::prelude::*;

use super::*;
use crate::config::keys::{Association, Member, SecretKey};
use crate::config::state::remedy;

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
    let member = |name: &str, sci, ssci| Member {
        name: name.into(),
        sci,
        ssci: suite.is_xpn().then_some(ssci),
        channels: 1,
    };
    KeyFile {
        suite,
        associations: vec![association(0, 1, salt), association(1, 2, salt)],
        members: vec![member("own", OWN, 2), member("peer", PEER, 1)],
    }
}

fn open(medium: &Medium) -> Result<NumberFile<Medium>, NumbersError> {
    NumberFile::on(Path::new("state"), medium.clone())
}

/// Events of a gateway.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// It sends this many frames in a channel, up to the limit.
    Send(u8, u8, u64),
    /// The main thread refills the reservations.
    Refill(u8),
    /// The peer sent up to this packet number.
    Receive(u8, u64),
    /// The main thread writes the bounds of receiving.
    Commit,
    /// It stops and starts again.
    Stop,
    /// It is killed and starts again.
    Kill,
    /// Power cut at this step of the next write.
    Cut(u32, Keep),
}

fn event() -> impl Strategy<Value = Event> {
    let keep = prop_oneof![Just(Keep::Nothing), Just(Keep::Name)];
    prop_oneof![
        5 => (0..2u8, 0..CHANNELS as u8, 0..40u64).prop_map(|(an, channel, count)| Event::Send(an, channel, count)),
        5 => (0..2u8).prop_map(Event::Refill),
        2 => (0..2u8, 1..1000u64).prop_map(|(an, pn)| Event::Receive(an, pn)),
        2 => Just(Event::Commit),
        1 => Just(Event::Stop),
        1 => Just(Event::Kill),
        3 => (0..4u32, keep).prop_map(|(step, keep)| Event::Cut(step, keep)),
    ]
}

/// A sending gateway, with power cuts.
struct World {
    medium: Medium,
    keys: KeyFile,
    ledger: Option<Ledger<Medium>>,
    /// Next packet numbers and limit of the forwarding threads, by association. Each has a channel,
    /// and all channels share the reservation.
    next: [[u64; CHANNELS]; 2],
    limit: [u64; 2],
    /// Packet numbers below these are spent.
    spent: [[u64; CHANNELS]; 2],
    /// The durable bound of each receive channel.
    committed: [u64; 2],
}

const CHANNELS: usize = 3;
const RESERVE: u64 = 32;
/// The first packet number beyond 32 bits.
const END: u64 = u32::MAX as u64;

fn highest(numbers: [u64; CHANNELS]) -> u64 {
    numbers.into_iter().max().unwrap()
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            medium: Medium::with_empty_file(),
            keys: keys(CipherSuite::GcmAes128),
            ledger: None,
            next: [[0; CHANNELS]; 2],
            limit: [0; 2],
            spent: [[1; CHANNELS]; 2],
            committed: [1; 2],
        };
        world.start();
        world
    }

    /// Starts it, and again after a power cut meanwhile.
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
            for spent in self.spent[index] {
                let next = sa.numbers.next();
                assert!(next >= spent, "{} was spent, and {next} comes next", spent - 1);
            }
            self.next[index] = [sa.numbers.next(); CHANNELS];
            self.limit[index] = sa.numbers.limit();
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
        if self.medium.is_off() && !matches!(event, Event::Send(..)) {
            // The medium fails first. The forwarding thread may still send until the machine is
            // off.
            return self.crash();
        }
        let ledger = self.ledger.as_mut().expect("running");
        match event {
            Event::Send(index, channel, count) => {
                let (index, channel) = (usize::from(index), usize::from(channel));
                let (next, spent) = (&mut self.next[index][channel], &mut self.spent[index][channel]);
                for _ in 0..count.min(self.limit[index] - *next) {
                    assert!(*next >= *spent, "spent twice");
                    *spent = *next + 1;
                    *next += 1;
                }
            }
            Event::Refill(index) => {
                let at = usize::from(index);
                if let Ok(Some(limit)) = ledger.refill(an(index), highest(self.next[at])) {
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
                let of = |index: u8| self.next[usize::from(index)].map(|next| (an(index), next));
                let closed = ledger.close(&[of(0), of(1)].concat()).is_ok();
                self.medium.restart();
                let before = self.next.map(|all| [highest(all); CHANNELS]);
                self.start();
                if closed {
                    assert_eq!(self.next, before, "a clean stop loses no packet number");
                }
            }
            Event::Kill => {
                // The machine stays on, so all writes survive, synchronized or not.
                self.ledger = None;
                self.medium.keep_all();
                self.start();
            }
            Event::Cut(step, keep) => self.medium.cut_at(step, keep),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_packet_number_is_spent_twice(events in prop::collection::vec(event(), 1..120)) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
        world.crash();
    }
}

#[test]
fn failed_write_moves_no_limit() {
    for step in 0..4 {
        let medium = Medium::with_empty_file();
        let mut ledger =
            Ledger::open(open(&medium).unwrap(), &keys(CipherSuite::GcmAes128), OWN, RESERVE).unwrap();
        medium.cut_at(step, Keep::Nothing);
        assert!(ledger.refill(an(0), 30).is_err(), "{step}");
        assert_eq!(ledger.transmit()[0].numbers.limit(), 33, "{step}");
        medium.restart();
        assert_eq!(ledger.refill(an(0), 30).unwrap(), Some(62), "{step}");
    }
}

#[test]
fn only_unknown_keys_begin_at_one() {
    let medium = Medium::with_empty_file();
    let keys = keys(CipherSuite::GcmAes128);
    let ledger = Ledger::open(open(&medium).unwrap(), &keys, OWN, RESERVE).unwrap();
    assert_eq!((ledger.transmit()[0].numbers.next(), ledger.transmit()[0].numbers.limit()), (1, 33));
    assert_eq!(ledger.encoding(), Some(an(0)));
    ledger.close(&[(an(0), 5)]).unwrap();
    let ledger = Ledger::open(open(&medium).unwrap(), &keys, OWN, RESERVE).unwrap();
    let next: Vec<u64> = ledger.transmit().iter().map(|sa| sa.numbers.next()).collect();
    assert_eq!(next, [5, 33], "the one that nobody spoke of keeps its reservation");
}

#[test]
fn key_continues_with_another_an_or_sci() {
    let medium = Medium::with_empty_file();
    let mut state = open(&medium).unwrap();
    state.reserve(&[(association(0, 7, None).numbers_id(), 100)]).unwrap();
    assert_eq!(state.next(&association(3, 7, None).numbers_id()).unwrap(), 100);
    assert_eq!(state.next(&association(0, 8, None).numbers_id()).unwrap(), 1);
}

#[test]
fn known_key_with_new_salt_is_refused() {
    let mut state = open(&Medium::with_empty_file()).unwrap();
    state.reserve(&[(association(0, 7, Some(1)).numbers_id(), 100)]).unwrap();
    let error = state.next(&association(0, 7, Some(2)).numbers_id()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "state: the key of AN 0 was used with another salt before, so nonces could meet"
    );
    assert!(remedy(&error).starts_with("make new keys"));
}

#[test]
fn exhausted_association_is_replaced() {
    let medium = Medium::with_empty_file();
    let keys = keys(CipherSuite::GcmAes128);
    let mut state = open(&medium).unwrap();
    state.reserve(&[(keys.associations[0].numbers_id(), END - 10)]).unwrap();
    drop(state);
    let mut ledger = Ledger::open(open(&medium).unwrap(), &keys, OWN, RESERVE).unwrap();
    assert_eq!(ledger.transmit()[0].numbers.limit(), END, "no limit beyond the last packet number");
    assert_eq!(ledger.refill(an(0), END).unwrap(), None);
    assert_eq!((ledger.encoding(), ledger.after(an(0))), (Some(an(1)), Some(an(1))));
    assert_eq!(ledger.after(an(1)), None);
    ledger.close(&[(an(0), END), (an(1), 1)]).unwrap();

    let mut state = open(&medium).unwrap();
    state.reserve(&[(keys.associations[1].numbers_id(), END)]).unwrap();
    let error = Ledger::open(state, &keys, OWN, RESERVE).unwrap_err();
    assert_eq!(error.to_string(), "state: no key has packet numbers left");
}

#[test]
fn ending_associations_do_not_alternate() {
    let keys = keys(CipherSuite::GcmAes128);
    let mut state = open(&Medium::with_empty_file()).unwrap();
    state
        .reserve(&keys.associations.iter().map(|sa| (sa.numbers_id(), END - 100)).collect::<Vec<_>>())
        .unwrap();
    let mut ledger = Ledger::open(state, &keys, OWN, RESERVE).unwrap();
    assert_eq!((ledger.encoding(), ledger.after(an(0))), (Some(an(0)), None));
    for next in [END - 80, END - 60, END - 40, END - 20, END] {
        ledger.refill(an(0), next).unwrap();
    }
    assert_eq!(ledger.after(an(0)), Some(an(1)), "only the exhausted one gives way");
}

#[test]
fn xpn_ends_at_64_bits() {
    let medium = Medium::with_empty_file();
    let keys = keys(CipherSuite::GcmAesXpn128);
    let mut state = open(&medium).unwrap();
    state.reserve(&[(keys.associations[0].numbers_id(), u64::MAX - 5)]).unwrap();
    let ledger = Ledger::open(state, &keys, OWN, RESERVE).unwrap();
    assert_eq!(
        (ledger.transmit()[0].numbers.next(), ledger.transmit()[0].numbers.limit()),
        (u64::MAX - 5, u64::MAX)
    );
}

#[test]
fn restart_keeps_receive_bounds() {
    let medium = Medium::with_empty_file();
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

/// `vectors/numbers/README.md`
#[test]
fn earlier_file_is_read_and_written_back() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/numbers/macsec");
    let directory = tempfile::tempdir().unwrap();
    let (key_file, file) = (directory.path().join("keys.toml"), directory.path().join("packet-numbers"));
    let text = std::fs::read_to_string(vectors.join("keys.toml")).unwrap();
    antedate_host::private_file::create(&key_file, &text).unwrap();
    std::fs::copy(vectors.join("packet-numbers"), &file).unwrap();
    let golden = std::fs::read(&file).unwrap();
    let keys = KeyFile::load(&key_file, antedate_host::process::user()).unwrap();
    let (press, hall) = (Sci([2, 0, 0x5e, 0x10, 0, 1, 0, 1]), Sci([2, 0, 0x5e, 0x10, 0, 2, 0, 1]));
    let ledger = Ledger::open(NumberFile::open(directory.path()).unwrap(), &keys, press, 1 << 20).unwrap();
    let next: Vec<_> = ledger.transmit().iter().map(|sa| (sa.an, sa.numbers.next())).collect();
    assert_eq!(next, [(an(0), 37), (an(1), 17)]);
    let lowest: Vec<_> = ledger.receive().iter().map(|sa| (sa.sci, sa.an, sa.lowest)).collect();
    assert_eq!(lowest, [(hall, an(0), 8), (hall, an(1), 1)]);
    assert_ne!(std::fs::read(&file).unwrap(), golden, "the reservation is on the disk");
    ledger.close(&next).unwrap();
    let records = |octets: &[u8]| {
        let text = String::from_utf8_lossy(octets).into_owned();
        let lines = text.lines().filter(|line| line.starts_with("transmit") || line.starts_with("receive"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let written = std::fs::read(&file).unwrap();
    assert!(written.starts_with(b"antedate packet numbers 2\nhome "));
    assert_eq!(records(&written), records(&golden));
}

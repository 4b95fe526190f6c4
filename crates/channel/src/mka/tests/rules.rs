//! Each rule of a participant, with peers that say anything under the right CAK.

mod channels;
mod keys;
mod listening;
mod searching;
mod serving;
mod timing;

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use antedate_wire::macsec::An;
use antedate_wire::mka::{
    ALGORITHM_AGILITY, Basic, Capability, DistributedSak, KeyUse, PeerList, Repr, SakUse, WrappedSak, Xpn,
};
use antedate_wire::{EthernetAddress, Sci};

use super::super::held::Held;
use super::super::keys::Secret;
use super::super::participant::Server;
use super::super::*;
use super::world::{CAK, sci};
use crate::macsec::CipherSuite;

const SECOND: Duration = Duration::from_secs(1);
const TINY: Duration = Duration::from_nanos(1);
const NAME: &[u8] = b"world";
const AN: [An; 4] = An::ALL;

fn cak() -> Cak {
    Cak::new(&CAK, NAME).unwrap()
}

/// The identifier of peer `n`, whose SCI is `sci(n)`.
fn member(n: u8) -> MemberIdentifier {
    MemberIdentifier([n; 12])
}

fn key(n: u8, number: u32) -> KeyIdentifier {
    KeyIdentifier { server: member(n), number }
}

/// An MKPDU of peer `n`, which claims to be key server, with a list of live peers.
fn mkpdu<'a>(n: u8, message: u32, live: &'a [u8], change: impl FnOnce(&mut Repr<'a>)) -> Vec<u8> {
    let sci = sci(usize::from(n));
    let basic = Basic {
        version: 2,
        priority: n,
        key_server: true,
        macsec_desired: true,
        capability: Capability::Confidentiality,
        sci,
        member: member(n),
        message,
        algorithm_agility: ALGORITHM_AGILITY,
        ckn: NAME,
    };
    let mut repr = Repr::new(EthernetAddress::PAE_GROUP, sci.address(), basic);
    repr.live = PeerList::new(live).ok().filter(|_| !live.is_empty());
    change(&mut repr);
    let mut out = vec![0; repr.buffer_len()];
    repr.emit(&mut out, |covered| cak().icv(covered)).unwrap();
    out
}

fn wrapped(octets: &[u8]) -> Vec<u8> {
    let (out, len) = cak().wrap(&Secret::new(octets));
    out[..len].to_vec()
}

fn sak(number: u32, wrapped: &[u8]) -> DistributedSak<'_> {
    DistributedSak::Sak(WrappedSak { an: AN[0], confidentiality_offset: 1, number, suite: None, wrapped })
}

/// Announces a key.
fn in_use(key: KeyIdentifier, receives: bool, transmits: bool) -> Option<SakUse> {
    let known = KeyUse { key, an: AN[0], receives, transmits, lowest_pn: 1 };
    Some(SakUse { keys: Some([known, KeyUse::default()]), ..SakUse::default() })
}

/// A participant of priority 200 with the SCI 0, and the time.
struct Bench {
    me: Participant,
    now: Duration,
    actions: Vec<Action>,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { priority: 200, ..Config::new(sci(0)) };
        change(&mut config);
        let me = Participant::new(cak(), config, &mut |out| out.fill(0xee));
        let mut bench = Self { me, now: 100 * SECOND, actions: Vec::new() };
        bench.tick(Duration::ZERO);
        bench
    }

    fn tick(&mut self, later: Duration) {
        self.now += later;
        self.me.tick(self.now, &mut |out| out.fill(0xdd));
        self.actions.extend(core::iter::from_fn(|| self.me.next_action()));
    }

    /// A list that names us with our last message.
    fn us(&self) -> Vec<u8> {
        PeerList::entry(self.me.member, self.me.message).to_vec()
    }

    fn hear(&mut self, frame: &[u8]) -> Result<(), Dropped> {
        self.me.receive(self.now, frame)
    }

    /// A live peer `n`, after its message 1.
    fn meet(&mut self, n: u8) {
        let us = self.us();
        self.hear(&mkpdu(n, 1, &us, |_| {})).unwrap();
        assert!(self.me.peers.get(member(n)).unwrap().is_live());
    }

    /// A key from peer 1, with which we receive.
    fn key_of_1(&mut self, message: u32, number: u32) {
        let (us, wrapped) = (self.us(), wrapped(&[number as u8; 16]));
        let key_an = AN[number as usize % 4];
        let frame = mkpdu(1, message, &us, |repr| {
            repr.distributed_sak = Some(DistributedSak::Sak(WrappedSak {
                an: key_an,
                confidentiality_offset: 1,
                number,
                suite: None,
                wrapped: &wrapped,
            }));
        });
        self.hear(&frame).unwrap();
        assert_eq!(self.me.latest.as_ref().map(|held| held.key), Some(key(1, number)));
        self.me.receives(key(1, number));
    }

    fn latest(&self) -> Option<KeyIdentifier> {
        self.me.latest.as_ref().map(|held| held.key)
    }

    fn sent(&mut self) -> usize {
        let sent = self.actions.iter().filter(|action| matches!(action, Action::Send(_))).count();
        self.actions.clear();
        sent
    }
}

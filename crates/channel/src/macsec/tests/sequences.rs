//! No packet number is used twice under one key, in any order of calls: installs, removals,
//! switches, reservations, preparation, frames, and restarts that keep only durable state.

use super::super::*;
use super::setup::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

#[derive(Debug, Clone)]
enum Call {
    Install { an: usize, key: u8, next: u64, reserve: u64 },
    Resume { an: usize, key: u8, reserve: u64 },
    Remove(usize),
    Switch(usize),
    Reserve { an: usize, more: u64 },
    Idle(u32),
    Protect(usize),
    Restart,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        2 => (0usize..4, 0u8..3, 1u64..60, 0u64..40)
            .prop_map(|(an, key, next, reserve)| Call::Install { an, key, next, reserve }),
        2 => (0usize..4, 0u8..3, 0u64..40).prop_map(|(an, key, reserve)| Call::Resume { an, key, reserve }),
        1 => (0usize..4).prop_map(Call::Remove),
        2 => (0usize..4).prop_map(Call::Switch),
        2 => (0usize..4, 0u64..30).prop_map(|(an, more)| Call::Reserve { an, more }),
        4 => (0u32..200).prop_map(Call::Idle),
        8 => (0usize..80).prop_map(Call::Protect),
        1 => Just(Call::Restart),
    ];
    prop::collection::vec(call, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_packet_number_is_used_twice(
        suite in prop::sample::select(&CipherSuite::ALL[..]),
        calls in calls(),
    ) {
        let config = transmit_config(suite);
        let mut transmit = Transmit::new(config).unwrap();
        // The caller's state: the installed keys, and the durable reservations.
        let mut installed: BTreeMap<usize, u8> = BTreeMap::new();
        let mut durable: BTreeMap<u8, u64> = BTreeMap::new();
        let mut restarted = false;
        let mut used = BTreeSet::new();
        for call in calls {
            match call {
                // Within one run any number may be requested. Wrong ones are refused.
                Call::Install { an, key, next, reserve } if !restarted => {
                    let limit = next + reserve;
                    durable.entry(key).and_modify(|known| *known = (*known).max(limit)).or_insert(limit);
                    if transmit.install(An::ALL[an], &sak(suite, key), next, limit).is_ok() {
                        installed.insert(an, key);
                    }
                }
                // After a restart only durable state tells the next number.
                Call::Install { an, key, reserve, .. } | Call::Resume { an, key, reserve } => {
                    let next = durable.get(&key).copied().unwrap_or(1);
                    let limit = next + reserve;
                    durable.insert(key, limit);
                    if transmit.install(An::ALL[an], &sak(suite, key), next, limit).is_ok() {
                        installed.insert(an, key);
                    }
                }
                Call::Remove(an) => {
                    transmit.remove(An::ALL[an]);
                    installed.remove(&an);
                }
                Call::Switch(an) => {
                    let result = transmit.set_encoding_sa(An::ALL[an]);
                    prop_assert_eq!(result.is_ok(), installed.contains_key(&an));
                }
                Call::Reserve { an, more } => {
                    if let Some(key) = installed.get(&an) {
                        let limit = durable[key] + more;
                        durable.insert(*key, limit);
                        transmit.reserve_until(An::ALL[an], limit);
                    }
                }
                Call::Idle(budget) => {
                    prop_assert!(transmit.idle(budget) <= budget);
                }
                Call::Protect(len) => {
                    let Some((an, pn)) = transmit.encoding() else {
                        prop_assert_eq!(protect(&mut transmit, &frame(len)), Err(ProtectError::NoSa));
                        continue;
                    };
                    let key = installed[&an.index()];
                    match protect(&mut transmit, &frame(len)) {
                        Ok(out) => {
                            prop_assert_eq!(out[14] & 3, an.number());
                            prop_assert_eq!(&out[16..20], &(pn as u32).to_be_bytes());
                            prop_assert!(pn < durable[&key], "number {} is not durable", pn);
                            prop_assert!(used.insert((key, pn)), "number {} of key {} twice", pn, key);
                        }
                        Err(error) => prop_assert_eq!(error, ProtectError::NotReserved),
                    }
                }
                Call::Restart => {
                    transmit = Transmit::new(config).unwrap();
                    installed.clear();
                    restarted = true;
                }
            }
        }
    }
}

//! What holds for any frame.

use super::super::narrowest::{Kind, Narrowest};
use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

/// A frame that begins like one of the known kinds, with arbitrary octets behind.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let tag = (prop::sample::select(vec![0x8100u16, 0x88a8, 0x9100]), any::<u16>());
    let begin = prop::sample::select(vec![
        (0x8892u16, &[][..]),
        (0x8892, &[0xfe, 0xfd, 4, 0, 0, 0, 0, 1, 0, 0, 0, 8, 1, 2, 0, 4]),
        (0x0800, &[]),
        (0x0800, &[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]),
        (0x0800, &[0x45, 0, 0, 40, 0, 0, 0, 9, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]),
        (0x86dd, &[0x60, 0, 0, 0, 0, 20, 44, 64]),
        (0x86dd, &[0x60, 0, 0, 0, 0, 20, 17, 64]),
        (0x0030, &[0xaa, 0xaa, 3]),
        (0x0030, &[]),
        (0x892f, &[0, 1, 0, 1]),
        (0x88cc, &[]),
        (0x05f0, &[]),
    ]);
    let tags = prop::collection::vec(tag, 0..6);
    (tags, begin, prop::collection::vec(any::<u8>(), 0..80)).prop_map(|(tags, (ethertype, begin), rest)| {
        let mut frame = stacked(&tags, ethertype, &[begin, &rest].concat());
        // Also frames below the least length of the medium.
        frame.truncate(14 + tags.len() * 4 + begin.len() + rest.len());
        frame
    })
}

/// The rule of each kind, and gates that pass it alone, and all but it.
static RULES: LazyLock<Vec<(Conditions, Gate, Gate)>> = LazyLock::new(|| {
    let rules = Traffic::NAMES.iter().flat_map(|(_, traffic)| traffic.rules());
    let with_gates = |conditions: Conditions| {
        let allowing = gate(&[], vec![allow(conditions.clone())]);
        let denying = gate(&[Traffic::All], vec![deny(conditions.clone())]);
        (conditions, allowing, denying)
    };
    rules.map(with_gates).collect()
});

proptest! {
    #[test]
    fn denied_is_whatever_would_be_allowed(frame in any_frame()) {
        for (conditions, allowing, denying) in RULES.iter() {
            let passes = |gate: &Gate| gate.decide(Way::Out, &frame).passes;
            prop_assert!(!passes(denying) || !passes(allowing), "{conditions}");
        }
    }

    #[test]
    fn narrowest_policy_passes_its_frame(frame in any_frame()) {
        let policy = match Narrowest::default().of(&frame) {
            Kind::Named(traffic) => Policy { allow: vec![traffic], rules: Vec::new(), ..Policy::default() },
            Kind::Rule(conditions) => Policy { allow: Vec::new(), rules: vec![allow(*conditions)], ..Policy::default() },
            Kind::Nothing => return Ok(()),
        };
        prop_assert!(Gate::new(&policy).decide(Way::Out, &frame).passes, "{policy:?}");
    }

    #[test]
    fn malformed_frames_never_pass(frame in any_frame()) {
        let verdict = gate(&[Traffic::All, Traffic::Profinet], vec![]).decide(Way::In, &frame);
        prop_assert_eq!(verdict.passes, verdict.class != Class::Malformed);
    }
}

use super::*;
use crate::config::policy::{Limit, Rule};

/// The decision on all cyclic frames for these rules, if it is one.
fn cyclic_of(allow: &[Traffic], denied: Option<Conditions>) -> Option<Decision> {
    let deny = |conditions| Rule {
        line: 1,
        direction: Direction::Both,
        conditions,
        action: Action::Deny,
        limit: Limit::default(),
    };
    let policy =
        Policy { rules: denied.map(deny).into_iter().collect(), allow: allow.to_vec(), ..Policy::default() };
    let compiled = Compiled::new(&policy, Way::In);
    let place = compiled.starts.partition_point(|start| *start <= 0x8892);
    compiled.buckets[place - 1].cyclic
}

#[test]
fn cyclic_frames_have_one_decision() {
    let list = |ids: &[RangeInclusive<u64>]| {
        Some(Conditions { frame_id: Ranges(ids.to_vec()), ..Conditions::default() })
    };
    let ids = |first, last| list(&[first..=last]);
    let all = || Some(Conditions::default());
    let vlan = || Some(Conditions { vlan: Ranges::one(7), ..Conditions::default() });
    let (passes, stops, falls) = (Some(Some((true, None))), Some(Some((false, Some(0)))), Some(None));
    for (allow, denied, expected) in [
        (&[Traffic::ProfinetRt][..], None, passes),
        (&[Traffic::All], None, passes),
        (&[Traffic::ProfinetDcpRead], None, falls),
        (&[Traffic::ProfinetRt, Traffic::ProfinetDcpRead], None, passes),
        (&[Traffic::ProfinetRt], all(), stops),
        (&[Traffic::ProfinetRt], ids(0x0000, 0xffff), stops),
        (&[Traffic::ProfinetRt], ids(0xfc00, 0xffff), passes),
        (&[Traffic::ProfinetRt], ids(0x0000, 0x7fff), passes),
        // Each of these tells some from others.
        (&[Traffic::ProfinetRt], ids(0x0000, 0x8000), None),
        (&[Traffic::ProfinetRt], ids(0x8001, 0x80ff), None),
        (&[Traffic::ProfinetRt], ids(0xfbff, 0xfbff), None),
        (&[Traffic::All], list(&[1..=2, 5..=6, 0x9000..=0xffff]), None),
        (&[Traffic::ProfinetRt], vlan(), None),
    ] {
        assert_eq!(cyclic_of(allow, denied.clone()), expected, "{allow:?} {denied:?}");
    }
}

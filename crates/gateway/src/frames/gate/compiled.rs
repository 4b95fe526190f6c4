//! The rules of one direction, compiled for a flat cost (bit-vector classification).
//!
//! The EtherType selects a bucket with the rules that it can fulfil. In a bucket each field that
//! a rule asks for has a table: intervals of its values, each with the set of rules that a value in
//! it fulfils. The sets of all fields are intersected, and the first rule left decides.
//!
//! Fields with several values in a frame (the tags of a stack, the subjects of a DCP Set) let an
//! `allow` match if all of them do, and a `deny` if one does. Values that are in another packet (the
//! ports of a later fragment) match each `deny` and no `allow`.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use antedate_wire::EtherType;

use super::head::{
    self, CutError, Head, Ip, LONGEST_LLC, Llc, NO_PORT, NO_PRIORITY, UNKNOWN_PORT, UNKNOWN_PROTOCOL,
    UNKNOWN_RPC,
};
use super::{Verdict, Way};
use crate::config::policy::conditions::UNTAGGED;
use crate::config::policy::{
    Action, AddressMatch, Class, Conditions, Dcp, Direction, IpPrefix, Policy, Ranges, Traffic,
};

/// The most words of a set of rules: 960 rules of the file, and 64 that kinds of traffic stand for.
const WORDS: usize = 16;

/// Words of a set in a bucket with so many rules: one of the sizes that have code of their own.
fn words(rules: usize) -> usize {
    match rules {
        0..=64 => 1,
        65..=128 => 2,
        _ => WORDS,
    }
}

/// The rules of one direction.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    /// The first EtherType of each bucket.
    starts: Box<[u16]>,
    buckets: Box<[Bucket]>,
}

/// A rule, and the kinds of `allow` behind the rules.
#[derive(Debug, Clone)]
struct Entry {
    conditions: Conditions,
    allows: bool,
    /// Its index in the file.
    rule: Option<usize>,
}

/// The header that a rule may read behind the Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    None,
    Llc,
    Profinet,
    Ipv4,
    Ipv6,
}

impl Layer {
    fn of(ethertype: u16) -> Self {
        match EtherType::from_number(ethertype) {
            EtherType::Unknown(0..=LONGEST_LLC) => Self::Llc,
            EtherType::Profinet => Self::Profinet,
            EtherType::Ipv4 => Self::Ipv4,
            EtherType::Ipv6 => Self::Ipv6,
            _ => Self::None,
        }
    }

    fn is_ip(self) -> bool {
        matches!(self, Self::Ipv4 | Self::Ipv6)
    }

    /// Whether a frame with this EtherType can fulfil the conditions.
    fn fits(self, conditions: &Conditions) -> bool {
        let families = [&conditions.source_ip, &conditions.destination_ip]
            .into_iter()
            .all(|prefixes| self.has(prefixes));
        (!conditions.is_llc() || self == Self::Llc)
            && (!conditions.is_profinet() || self == Self::Profinet)
            && (!conditions.is_ip() || self.is_ip() && families)
    }

    /// Whether one of the prefixes, if any, is of this version.
    fn has(self, prefixes: &[IpPrefix]) -> bool {
        prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.address.is_ipv4() == (self == Self::Ipv4))
    }
}

impl Compiled {
    pub(super) fn new(policy: &Policy, way: Way) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        for (index, rule) in policy.rules.iter().enumerate() {
            let applies = match rule.direction {
                Direction::Both => true,
                Direction::In => way == Way::In,
                Direction::Out => way == Way::Out,
            };
            if applies {
                let (conditions, allows) = (rule.conditions.clone(), rule.action == Action::Allow);
                entries.push(Entry { conditions, allows, rule: Some(index) });
            }
        }
        entries.extend(allowed(policy).map(|conditions| Entry { conditions, allows: true, rule: None }));

        let mut starts: Vec<u16> = KNOWN.iter().flat_map(|number| [*number, number + 1]).collect();
        starts.extend([0, LONGEST_LLC + 1]);
        for range in entries.iter().flat_map(|entry| &entry.conditions.ethertype.0) {
            starts.extend(u16::try_from(*range.start()));
            starts.extend(u16::try_from(*range.end() + 1));
        }
        starts.sort_unstable();
        starts.dedup();

        let (mut kept, mut buckets, mut last) = (Vec::new(), Vec::new(), None);
        for start in starts {
            let layer = Layer::of(start);
            let fits = |entry: &&Entry| {
                entry.conditions.ethertype.contains(start.into()) && layer.fits(&entry.conditions)
            };
            let fitting: Vec<&Entry> = entries.iter().filter(fits).collect();
            let rules: Vec<*const Entry> = fitting.iter().map(|entry| std::ptr::from_ref(*entry)).collect();
            let class = head::class_of(start);
            if last.as_ref() != Some(&(class, rules.clone())) {
                kept.push(start);
                buckets.push(Bucket::new(&fitting, layer, class));
                last = Some((class, rules));
            }
        }
        Self { starts: kept.into(), buckets: buckets.into() }
    }

    /// The decision on a frame.
    #[inline]
    pub(super) fn decide(&self, head: &Head<'_>) -> Verdict {
        let place = self.starts.partition_point(|start| *start <= head.ethertype);
        // The first bucket begins at zero.
        let Some(bucket) = self.buckets.get(place.wrapping_sub(1)) else { return Verdict::MALFORMED };
        let class = bucket.class.unwrap_or_else(|| head.class());
        if class == Class::Named(Traffic::ProfinetRt)
            && let Some(decision) = bucket.cyclic
        {
            let (passes, rule) = decision.unwrap_or((false, None));
            return Verdict { class, passes, rule };
        }
        match bucket.decide(head) {
            _ if class == Class::Malformed => Verdict::MALFORMED,
            Ok(Some((passes, rule))) => Verdict { class, passes, rule },
            Ok(None) => Verdict { class, passes: false, rule: None },
            Err(CutError) => Verdict::MALFORMED,
        }
    }
}

/// The EtherTypes behind LLC's lengths that have a class, or one that other fields decide.
static KNOWN: LazyLock<Vec<u16>> = LazyLock::new(|| {
    (LONGEST_LLC + 1..u16::MAX).filter(|number| head::class_of(*number) != Some(Class::Other)).collect()
});

/// What the kinds of `allow` stand for. Services of DCP that are allowed apart may come together.
fn allowed(policy: &Policy) -> impl Iterator<Item = Conditions> {
    let mut all: Vec<Conditions> = Vec::new();
    for conditions in policy.allow.iter().flat_map(|traffic| traffic.rules()) {
        if let Some(services) = conditions.dcp
            && let Some(set) = all.iter_mut().find_map(|other| other.dcp.as_mut())
        {
            *set = set.and(services);
        } else if !all.contains(&conditions) {
            all.push(conditions);
        }
    }
    all.into_iter()
}

/// Whether a frame passes, and the rule that decides. `None`: nothing matches.
type Decision = Option<(bool, Option<usize>)>;

/// The frame IDs of cyclic data ([`Traffic::ProfinetRt`]).
const CYCLIC: [u64; 2] = [0x8000, 0xfbff];

/// A field with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Source,
    Destination,
    Vlan,
    Priority,
    FrameId,
    Dcp,
    Dsap,
    Ssap,
    Snap,
    Protocol,
    SourcePort,
    DestinationPort,
    Port,
    LaterFragment,
    Rpc,
}

/// The rules for some EtherTypes.
#[derive(Debug, Clone)]
struct Bucket {
    /// The class of its frames, unless other fields decide.
    class: Option<Class>,
    /// The decision on all cyclic Profinet frames, if it is the same for all. They are in a hurry.
    cyclic: Option<Decision>,
    layer: Layer,
    /// Whether a rule asks for a field behind the Ethernet header.
    reads_layer: bool,
    numbers: Box<[(Field, Table<u64>)]>,
    addresses: Box<[(End, Table<u128>)]>,
    /// The rules that deny, as a set.
    denies: Box<[u64]>,
    /// Whether each rule allows, and its index in the file.
    rules: Box<[(bool, Option<usize>)]>,
}

/// Which address of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Destination,
}

impl Bucket {
    fn new(fitting: &[&Entry], layer: Layer, class: Option<Class>) -> Self {
        // Nothing comes behind a rule that each frame of the bucket fulfils.
        let plain = |entry: &Entry| {
            Conditions { ethertype: Ranges::default(), ..entry.conditions.clone() } == Conditions::default()
        };
        let end = fitting.iter().position(|entry| plain(entry)).map_or(fitting.len(), |last| last + 1);
        // More than the reader of the file lets through: nothing passes.
        let entries = if end > WORDS * 64 { &[] } else { fitting.get(..end).unwrap_or_default() };
        let mut denies = vec![0; words(entries.len())];
        set_bits(&mut denies, |index| entries.get(index).is_some_and(|entry| !entry.allows));

        let mut numbers = Vec::new();
        let mut add =
            |field: Field, of: &dyn Fn(&Conditions) -> Ranges, unknown: Option<u64>, more: &[u64]| {
                let all: Vec<(Ranges, bool)> =
                    entries.iter().map(|entry| (of(&entry.conditions), entry.allows)).collect();
                if all.iter().all(|(ranges, _)| ranges.is_any()) {
                    return;
                }
                let starts =
                    all.iter().flat_map(|(ranges, _)| &ranges.0).flat_map(|r| [*r.start(), *r.end() + 1]);
                let starts = starts.chain(unknown).chain(more.iter().copied()).chain([0]).collect();
                let holds = |index: usize, value: u64| {
                    let Some((ranges, allows)) = all.get(index) else { return false };
                    ranges.contains(value) || (Some(value) == unknown && !allows)
                };
                numbers.push((field, Table::new(starts, entries.len(), holds)));
            };
        let macs = |of: &[AddressMatch]| Ranges(of.iter().map(AddressMatch::range).collect());
        add(Field::Source, &|c| macs(&c.source), None, &[]);
        add(Field::Destination, &|c| macs(&c.destination), None, &[]);
        add(Field::Vlan, &|c| c.vlan.clone(), None, &[]);
        add(Field::Priority, &|c| c.priority.clone(), None, &[NO_PRIORITY]);
        add(Field::FrameId, &|c| c.frame_id.clone(), None, &[]);
        add(Field::Dsap, &|c| c.dsap.clone(), None, &[]);
        add(Field::Ssap, &|c| c.ssap.clone(), None, &[]);
        add(Field::Snap, &|c| c.snap.clone(), None, &[u64::MAX]);
        add(Field::Protocol, &|c| c.ip_protocol.clone(), Some(UNKNOWN_PROTOCOL), &[]);
        add(Field::SourcePort, &|c| c.source_port.clone(), Some(UNKNOWN_PORT), &[NO_PORT]);
        add(Field::DestinationPort, &|c| c.destination_port.clone(), Some(UNKNOWN_PORT), &[NO_PORT]);
        add(Field::Port, &|c| c.port.clone(), Some(UNKNOWN_PORT), &[NO_PORT]);
        let later =
            |c: &Conditions| c.later_fragment.map_or_else(Ranges::default, |is| Ranges::one(is.into()));
        add(Field::LaterFragment, &later, None, &[]);
        let rpc = |c: &Conditions| if c.profinet_rpc { Ranges::one(1) } else { Ranges::default() };
        add(Field::Rpc, &rpc, Some(UNKNOWN_RPC), &[]);
        if entries.iter().any(|entry| entry.conditions.dcp.is_some()) {
            let holds = |index: usize, value: u64| {
                let Some(entry) = entries.get(index) else { return false };
                let (Some(set), is) = (entry.conditions.dcp, Dcp(value as u8)) else { return true };
                if entry.allows { set.holds(is) && value != 0 } else { set.meets(is) }
            };
            let starts = (0..Dcp::SETS as u64).collect();
            numbers.push((Field::Dcp, Table::with(starts, entries.len(), holds, true)));
        }

        let mut addresses = Vec::new();
        for end in [End::Source, End::Destination] {
            let of = |entry: &&Entry| -> Vec<RangeInclusive<u128>> {
                let prefixes = match end {
                    End::Source => &entry.conditions.source_ip,
                    End::Destination => &entry.conditions.destination_ip,
                };
                let of_version = prefixes.iter().filter(|p| p.address.is_ipv4() == (layer == Layer::Ipv4));
                of_version.map(IpPrefix::range).collect()
            };
            let all: Vec<_> = entries.iter().map(of).collect();
            if all.iter().any(|ranges| !ranges.is_empty()) {
                let starts = all.iter().flatten().flat_map(|r| [Some(*r.start()), r.end().checked_add(1)]);
                let starts = starts.flatten().chain([0]).collect();
                let holds = |index: usize, value: u128| {
                    let ranges: &[_] = all.get(index).map_or(&[], Vec::as_slice);
                    ranges.is_empty() || ranges.iter().any(|range| range.contains(&value))
                };
                addresses.push((end, Table::new(starts, entries.len(), holds)));
            }
        }
        let in_header = |(field, _): &(Field, _)| {
            matches!(field, Field::Source | Field::Destination | Field::Vlan | Field::Priority)
        };
        Self {
            class,
            cyclic: cyclic(entries, layer, &numbers),
            layer,
            reads_layer: !addresses.is_empty() || !numbers.iter().all(in_header),
            numbers: numbers.into(),
            addresses: addresses.into(),
            denies: denies.into(),
            rules: entries.iter().map(|entry| (entry.allows, entry.rule)).collect(),
        }
    }

    /// Whether the frame passes, and the rule that decides. `None`: nothing matches.
    #[inline]
    fn decide(&self, head: &Head<'_>) -> Result<Decision, CutError> {
        if self.numbers.is_empty() && self.addresses.is_empty() {
            return Ok(self.rules.first().copied());
        }
        match self.denies.len() {
            1 => self.decide_in::<1>(head),
            2 => self.decide_in::<2>(head),
            _ => self.decide_in::<WORDS>(head),
        }
    }

    #[inline]
    fn decide_in<const N: usize>(&self, head: &Head<'_>) -> Result<Decision, CutError> {
        let mut live = [u64::MAX; N];
        match self.layer {
            Layer::Ipv4 | Layer::Ipv6 if self.reads_layer => {
                let ip = head.ip()?;
                for (end, table) in &self.addresses {
                    let address = match end {
                        End::Source => ip.source,
                        End::Destination => ip.destination,
                    };
                    intersect(&mut live, table.row(address));
                }
                self.narrow(&mut live, head, Some(&ip), None)?;
            }
            Layer::Llc if self.reads_layer => self.narrow(&mut live, head, None, Some(&head.llc()?))?,
            _ => self.narrow(&mut live, head, None, None)?,
        }
        let first = live.iter().enumerate().find(|(_, word)| **word != 0);
        Ok(first.and_then(|(at, word)| self.rules.get(at * 64 + word.trailing_zeros() as usize).copied()))
    }

    #[inline]
    fn narrow<const N: usize>(
        &self,
        live: &mut [u64; N],
        head: &Head<'_>,
        ip: Option<&Ip<'_>>,
        llc: Option<&Llc>,
    ) -> Result<(), CutError> {
        for (field, table) in &self.numbers {
            let value = match (field, ip, llc) {
                (Field::Source, ..) => head.source,
                (Field::Destination, ..) => head.destination,
                (Field::Vlan, ..) if head.tags().is_empty() => UNTAGGED,
                (Field::Vlan, ..) => {
                    self.each_tag(live, table, &vlans(head.tags()));
                    continue;
                }
                (Field::Priority, ..) if head.tags().is_empty() => NO_PRIORITY,
                (Field::Priority, ..) => {
                    let priorities = std::array::from_fn::<_, 4, _>(|at| {
                        head.tags().get(at).map(|tag| u64::from(*tag >> 13))
                    });
                    self.each_tag(live, table, &priorities);
                    continue;
                }
                (Field::FrameId, ..) => head.frame_id()?,
                (Field::Dcp, ..) => {
                    intersect(live, table.direct(head.dcp()?.0.into()));
                    continue;
                }
                (Field::Dsap, _, Some(llc)) => llc.dsap,
                (Field::Ssap, _, Some(llc)) => llc.ssap,
                (Field::Snap, _, Some(llc)) => llc.snap,
                (Field::Protocol, Some(ip), _) => ip.protocol,
                (Field::SourcePort, Some(ip), _) => ip.source_port,
                (Field::DestinationPort, Some(ip), _) => ip.destination_port,
                (Field::Port, Some(ip), _) => {
                    let one: &[u64; N] = table.row(ip.source_port);
                    let other: &[u64; N] = table.row(ip.destination_port);
                    (0..N).for_each(|at| live[at] &= one[at] | other[at]);
                    continue;
                }
                (Field::LaterFragment, Some(ip), _) => ip.is_later.into(),
                (Field::Rpc, Some(ip), _) => ip.rpc(),
                // No rule of another layer is in this bucket.
                _ => return Err(CutError),
            };
            intersect(live, table.row(value));
        }
        Ok(())
    }

    /// Keeps the rules that allow and match all values, and those that deny and match one.
    #[inline(never)]
    fn each_tag<const N: usize>(&self, live: &mut [u64; N], table: &Table<u64>, values: &[Option<u64>]) {
        let (mut any, mut all) = ([0; N], [u64::MAX; N]);
        for value in values.iter().flatten() {
            let row: &[u64; N] = table.row(*value);
            (0..N).for_each(|at| (any[at], all[at]) = (any[at] | row[at], all[at] & row[at]));
        }
        for (at, (word, denies)) in live.iter_mut().zip(&self.denies).enumerate() {
            *word &= any[at] & denies | all[at] & !denies;
        }
    }
}

/// The decision on cyclic frames, unless a rule tells some from others.
fn cyclic(entries: &[&Entry], layer: Layer, numbers: &[(Field, Table<u64>)]) -> Option<Decision> {
    let is_same = |(field, table): &(Field, Table<u64>)| {
        let [first, last] = CYCLIC.map(|id| table.starts.partition_point(|start| *start <= id));
        *field == Field::Dcp || (*field == Field::FrameId && first == last)
    };
    let matches =
        |entry: &&&Entry| entry.conditions.dcp.is_none() && entry.conditions.frame_id.contains(CYCLIC[0]);
    let decision = || entries.iter().find(matches).map(|entry| (entry.allows, entry.rule));
    (layer == Layer::Profinet && numbers.iter().all(is_same)).then(decision)
}

/// The VLANs of a stack: 0 if no tag has another.
fn vlans(tags: &[u16]) -> [Option<u64>; 4] {
    let mut ids =
        std::array::from_fn(|at| tags.get(at).map(|tag| u64::from(tag & 0x0fff)).filter(|id| *id != 0));
    if ids.iter().all(Option::is_none) {
        ids[0] = Some(0);
    }
    ids
}

#[inline]
fn intersect<const N: usize>(live: &mut [u64; N], row: &[u64; N]) {
    (0..N).for_each(|at| live[at] &= row[at]);
}

fn set_bits(words: &mut [u64], holds: impl Fn(usize) -> bool) {
    for (at, word) in words.iter_mut().enumerate() {
        *word = (0..64).filter(|bit| holds(at * 64 + bit)).fold(0, |word, bit| word | 1 << bit);
    }
}

/// The rules that each value of a field fulfils.
#[derive(Debug, Clone)]
struct Table<T> {
    /// The first value of each interval.
    starts: Box<[T]>,
    /// The set of rules of each interval, one after the other.
    rows: Box<[u64]>,
}

impl<T: Copy + Ord> Table<T> {
    fn new(starts: Vec<T>, rules: usize, holds: impl Fn(usize, T) -> bool) -> Self {
        Self::with(starts, rules, holds, false)
    }

    /// With a row for each start, though it has the rules of the last.
    fn with(mut starts: Vec<T>, rules: usize, holds: impl Fn(usize, T) -> bool, each: bool) -> Self {
        starts.sort_unstable();
        starts.dedup();
        let words = words(rules);
        let (mut kept, mut rows) = (Vec::new(), Vec::<u64>::new());
        for start in starts {
            let mut row = vec![0; words];
            set_bits(&mut row, |index| holds(index, start));
            if each || !rows.ends_with(&row) || kept.is_empty() {
                kept.push(start);
                rows.extend(row);
            }
        }
        Self { starts: kept.into(), rows: rows.into() }
    }

    /// The rules that this value fulfils. `N` is the number of words of the bucket.
    #[inline]
    fn row<const N: usize>(&self, value: T) -> &[u64; N] {
        self.at(self.starts.partition_point(|start| *start <= value).wrapping_sub(1))
    }

    #[inline]
    fn at<const N: usize>(&self, index: usize) -> &[u64; N] {
        // None: of no interval, so that nothing passes.
        self.rows.as_chunks::<N>().0.get(index).unwrap_or(&[0; N])
    }
}

impl Table<u64> {
    /// As [`Self::row`], for a table that has a row for each value.
    #[inline]
    fn direct<const N: usize>(&self, value: u64) -> &[u64; N] {
        self.at(value as usize)
    }
}

#[cfg(test)]
mod tests;

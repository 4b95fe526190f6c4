use super::*;
use antedate_wire::EthernetAddress;
use antedate_wire::hello::Uplinks;

const MS: u64 = 1_000_000;
const INTERVAL: u64 = 10 * MS;

/// Gateways with two ways between them, each of which can be cut for one direction.
struct World {
    ends: Vec<End>,
    now: u64,
    /// By sender, receiver and way.
    cuts: Vec<(usize, usize, usize)>,
}

struct End {
    ways: Ways,
    links: [bool; 2],
    sequence: u32,
    id: u32,
    seen: Seen,
    /// The other end of each of its cables: its first uplink may be on the second way.
    crossed: bool,
}

fn sci(number: usize) -> Sci {
    Sci::new(EthernetAddress([2, 0, 0, 0, 0, number as u8]), 1)
}

fn end(number: usize, preempt: bool) -> End {
    let settings = Waiting { hello: None, preempt };
    End {
        ways: Ways::new(sci(number), &settings, Duration::from_millis(10)),
        links: [true; 2],
        sequence: 0,
        id: 1,
        seen: Seen::default(),
        crossed: false,
    }
}

impl World {
    fn new(count: usize) -> Self {
        Self { ends: (0..count).map(|number| end(number, false)).collect(), now: INTERVAL, cuts: Vec::new() }
    }

    /// One interval: all look and say hello.
    fn round(&mut self) {
        self.now += INTERVAL;
        for from in 0..self.ends.len() {
            let (now, end) = (self.now, &mut self.ends[from]);
            end.seen = end.ways.look(end.links, now);
            let seen = end.seen.clone();
            end.sequence += 1;
            for uplink in 0..2 {
                let end = &self.ends[from];
                let hello = Repr {
                    source: sci(from).address(),
                    id: end.id,
                    sequence: end.sequence,
                    from: sci(from),
                    interval_ms: 10,
                    field_down: false,
                    uplinks: Some(Uplinks {
                        by_second: uplink == 1,
                        second_carries: seen.second_carries,
                        heard: &seen.heard,
                    }),
                };
                let way = uplink ^ usize::from(end.crossed);
                if !end.links[uplink] {
                    continue;
                }
                for to in (0..self.ends.len()).filter(|to| *to != from) {
                    let end = &mut self.ends[to];
                    let arrives = way ^ usize::from(end.crossed);
                    if end.links[arrives] && !self.cuts.contains(&(from, to, way)) {
                        end.ways.heard(arrives == 1, &hello, now);
                    }
                }
            }
        }
    }

    fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| self.round());
    }

    /// The ways by which all carry.
    fn ways(&self) -> Vec<usize> {
        let way = |end: &End| usize::from(end.seen.second_carries) ^ usize::from(end.crossed);
        self.ends.iter().map(way).collect()
    }

    fn switches(&self) -> Vec<u64> {
        self.ends.iter().map(|end| end.seen.switches).collect()
    }
}

#[test]
fn each_cut_has_all_take_the_other_way() {
    // Of both directions, or of one.
    for cuts in [vec![(0, 1, 0), (1, 0, 0)], vec![(0, 1, 0)], vec![(1, 0, 0)]] {
        let mut world = World::new(2);
        world.rounds(20);
        assert_eq!((world.ways(), world.switches()), (vec![0; 2], vec![0; 2]));
        world.cuts.clone_from(&cuts);
        world.rounds(6);
        assert_eq!(world.ways(), [1; 2], "{cuts:?}");
        assert!(world.ends.iter().all(|end| end.seen.cause == Some(Cause::Hellos)));
        assert!(world.ends.iter().all(|end| end.seen.lame[0].is_some() && end.seen.lame[1].is_none()));
        // Repaired, it waits.
        world.cuts.clear();
        world.rounds(200);
        assert_eq!((world.ways(), world.switches()), (vec![1; 2], vec![1; 2]));
        assert!(world.ends.iter().all(|end| end.seen.lame == [None; 2]));
    }
}

#[test]
fn lost_link_is_taken_at_once() {
    let mut world = World::new(2);
    world.rounds(5);
    world.ends[0].links[0] = false;
    world.round();
    assert_eq!(world.ways()[0], 1);
    assert_eq!(world.ends[0].seen.cause, Some(Cause::Link));
    assert_eq!(world.ends[0].seen.lame[0], Some(Lame::Link));
    world.rounds(5);
    assert_eq!(world.ways(), [1; 2], "the other one hears nothing by it");
    world.ends[0].links = [false; 2];
    world.rounds(20);
    assert_eq!(world.ways()[0], 1, "no way is better than none");
}

#[test]
fn two_half_ways_make_one() {
    let mut world = World::new(2);
    world.rounds(5);
    // The first way passes frames of one, the second those of the other.
    world.cuts = vec![(0, 1, 0), (1, 0, 1)];
    world.rounds(10);
    assert_eq!(world.ways(), [1, 0]);
    assert!(world.switches().iter().all(|count| *count <= 2));
}

#[test]
fn most_gateways_decide() {
    let mut world = World::new(4);
    world.rounds(5);
    // One of four is lost by the first way, and then two by the second.
    world.cuts = (0..3).flat_map(|other| [(other, 3, 0), (3, other, 0)]).collect();
    world.rounds(10);
    assert_eq!(world.ways(), [1; 4]);
    for other in [2, 3] {
        world
            .cuts
            .extend((0..4).filter(|one| *one != other).flat_map(|one| [(one, other, 1), (other, one, 1)]));
    }
    world.rounds(10);
    assert_eq!(world.ways()[..3], [0; 3]);
}

#[test]
fn crossed_cables_change_nothing() {
    let mut world = World::new(2);
    world.ends[1].crossed = true;
    // Each begins with its first uplink: one follows the other.
    world.rounds(200);
    let way = world.ways()[0];
    assert_eq!(world.ways(), [way; 2]);
    let before = world.switches();
    world.rounds(500);
    assert_eq!(world.switches(), before, "it lasts");
    world.cuts = vec![(0, 1, way)];
    world.rounds(6);
    assert_eq!(world.ways(), [1 - way; 2]);
}

#[test]
fn restarted_gateway_does_as_the_others() {
    for restarted in [0, 1] {
        let mut world = World::new(2);
        world.rounds(5);
        world.cuts = vec![(0, 1, 0), (1, 0, 0)];
        world.rounds(10);
        world.cuts.clear();
        world.rounds(10);
        assert_eq!(world.ways(), [1; 2]);
        world.ends[restarted] = End { id: 2, ..end(restarted, false) };
        world.rounds(200);
        assert_eq!(world.ways(), [1; 2], "{restarted}");
        assert_eq!(world.switches()[1 - restarted], 1, "the running one stays");
    }
}

#[test]
fn both_started_at_once_agree() {
    for late in [0, 1] {
        let mut world = World::new(2);
        // The first link of one comes later.
        world.ends[late].links[0] = false;
        world.rounds(7);
        world.ends[late].links[0] = true;
        world.rounds(200);
        let ways = world.ways();
        assert_eq!(ways[0], ways[1]);
    }
}

#[test]
fn preferred_uplink_is_taken_back() {
    let mut world = World::new(2);
    world.ends.iter_mut().for_each(|end| end.ways.preempt = true);
    world.rounds(5);
    world.cuts = vec![(0, 1, 0)];
    world.rounds(10);
    world.cuts.clear();
    world.rounds(SURE as usize);
    assert_eq!(world.ways(), [1; 2], "not before it is sure");
    world.rounds(10);
    assert_eq!(world.ways(), [0; 2]);
    assert!(world.ends.iter().all(|end| end.seen.cause == Some(Cause::Preferred)));
}

#[test]
fn held_hellos_keep_no_way_alive() {
    let mut ways = end(0, false).ways;
    let hears = hello::heard(sci(0), [true; 2]);
    let hello = |sequence: u32, by_second: bool| Repr {
        source: sci(1).address(),
        id: 1,
        sequence,
        from: sci(1),
        interval_ms: 10,
        field_down: false,
        uplinks: Some(Uplinks { by_second, second_carries: false, heard: &hears }),
    };
    let links = [true; 2];
    assert!(ways.heard(false, &hello(1, false), 1) && ways.heard(true, &hello(2, true), 1));
    assert_eq!(ways.look(links, MS).lame, [None; 2]);
    // Somebody repeats the hellos of the first uplink, and those of the second go on.
    for number in 1..20u32 {
        let now = u64::from(number) * INTERVAL;
        assert!(!ways.heard(false, &hello(1, false), now), "a late one is no news");
        ways.heard(true, &hello(number + 2, true), now);
    }
    let seen = ways.look(links, 20 * INTERVAL);
    assert!(seen.second_carries && seen.lame[0] == Some(Lame::Unheard(sci(1))), "{seen:?}");
    // Its own come back, and those of a gateway without a second uplink.
    let own = Repr { from: sci(0), ..hello(99, false) };
    let single = Repr { uplinks: None, from: sci(2), ..hello(99, false) };
    assert!(!ways.heard(false, &own, 20 * INTERVAL) && !ways.heard(false, &single, 20 * INTERVAL));
    assert_eq!(ways.others.len(), 1);
}

#[test]
fn pause_of_the_clock_changes_nothing() {
    let mut world = World::new(2);
    world.rounds(5);
    // This process, or its machine, stood still.
    world.now += 3_600_000 * MS;
    world.rounds(100);
    assert_eq!((world.ways(), world.switches()), (vec![0; 2], vec![0; 2]));
    // The hellos that waited meanwhile come one by one, and each is looked at.
    let heard = hello::heard(sci(0), [true; 2]);
    let (mut now, ways) = (world.now + 3_600_000 * MS, &mut world.ends[0].ways);
    for sequence in 200..210 {
        for by_second in [true, false] {
            let uplinks = Uplinks { by_second, second_carries: false, heard: &heard };
            let hello = Repr {
                source: sci(1).address(),
                id: 1,
                sequence,
                from: sci(1),
                interval_ms: 10,
                field_down: false,
                uplinks: Some(uplinks),
            };
            ways.heard(by_second, &hello, now);
            let seen = ways.look([true; 2], now);
            assert_eq!((seen.switches, seen.lame), (0, [None; 2]), "{sequence} {by_second}");
            now += MS;
        }
    }
}

#[test]
fn memory_is_bounded() {
    let mut ways = end(0, false).ways;
    for number in 1..200 {
        let hello = Repr {
            source: sci(number).address(),
            id: 1,
            sequence: 1,
            from: sci(number),
            interval_ms: 1000,
            field_down: false,
            uplinks: Some(Uplinks { by_second: false, second_carries: false, heard: &[] }),
        };
        ways.heard(false, &hello, number as u64);
    }
    assert_eq!(ways.others.len(), MAX_HEARD);
    assert_eq!(ways.look([true; 2], 200).heard.len(), MAX_HEARD * HEARD_LEN);
}

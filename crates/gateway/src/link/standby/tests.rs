use antedate_wire::EthernetAddress;

use super::*;

const MS: u64 = 1_000_000;
const INTERVAL: u64 = 20;
const ALL: Ports = Ports { field: true, uplink: true, keys: true };

fn settings(priority: u8, preempt: bool) -> StandbySettings {
    StandbySettings { group: 1, priority, hello: std::time::Duration::from_millis(INTERVAL), preempt }
}

fn sci(number: u8) -> Sci {
    Sci::new(EthernetAddress([2, 0, 0, 0, 0, number]), 1)
}

/// Numbers that repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A gateway of the world, whose times are in milliseconds.
struct Gateway {
    standby: Standby,
    alive: bool,
    /// The whole process stands, or the thread that says hello.
    stands: u64,
    silent: u64,
    next: u64,
    field: bool,
    uplink: bool,
    far: bool,
    inbox: Vec<(u64, Via, Hello<'static>)>,
    /// Since when it could forward.
    could: Option<u64>,
}

/// Two gateways at one field segment and one uplink, and one far away.
struct World {
    gateways: [Gateway; 2],
    now: u64,
    /// Whether the segments join the two.
    field: bool,
    uplink: bool,
    /// Of a hundred hellos, those that are lost.
    loss: u64,
    random: Random,
    ids: u64,
    /// The last time at which nothing joined the two.
    apart: u64,
    /// Milliseconds with two that forward.
    both: u64,
    /// All hellos of the field.
    recorded: Vec<Hello<'static>>,
}

impl World {
    fn new(priorities: [u8; 2], preempt: bool, seed: u64) -> Self {
        let gateway = |number: u8| Gateway {
            standby: Standby::new(
                sci(number),
                settings(priorities[usize::from(number)], preempt),
                u64::from(number) + 1,
                0,
            ),
            alive: true,
            stands: 0,
            silent: 0,
            next: u64::from(number),
            field: true,
            uplink: true,
            far: true,
            inbox: Vec::new(),
            could: None,
        };
        Self {
            gateways: [gateway(0), gateway(1)],
            now: 0,
            field: true,
            uplink: true,
            loss: 0,
            random: Random(seed),
            ids: 10,
            apart: 0,
            both: 0,
            recorded: Vec::new(),
        }
    }

    fn restart(&mut self, number: usize) {
        self.ids += 1;
        let Gateway { standby, .. } = &self.gateways[number];
        let new = Standby::new(standby.own, standby.settings, self.ids, self.now * MS);
        let gateway = &mut self.gateways[number];
        (gateway.standby, gateway.alive, gateway.could) = (new, true, None);
        gateway.inbox.clear();
    }

    fn look(&mut self, number: usize) {
        let gateway = &mut self.gateways[number];
        let ports = Ports { field: gateway.field, uplink: gateway.uplink, keys: true };
        let hello = gateway.standby.look(ports, &[], self.now * MS);
        gateway.standby.said(self.now * MS);
        gateway.next = self.now + INTERVAL;
        let [a, b] = &self.gateways;
        let ways = [
            (Via::Field, self.field && a.field && b.field),
            (Via::Uplink, self.uplink && a.uplink && b.uplink),
        ];
        if ways[0].1 {
            self.recorded.push(hello);
        }
        for (way, carries) in ways {
            if carries && self.random.below(100) >= self.loss {
                let at = self.now + self.random.below(3);
                self.gateways[1 - number].inbox.push((at, way, hello));
            }
        }
    }

    fn forwards(&self, number: usize) -> bool {
        let gateway = &self.gateways[number];
        gateway.alive && gateway.stands <= self.now && gateway.standby.role.forwards(|| self.now * MS)
    }

    fn step(&mut self) {
        for number in 0..2 {
            let now = self.now;
            let gateway = &mut self.gateways[number];
            if !gateway.alive {
                gateway.inbox.clear();
                continue;
            }
            if gateway.stands > now {
                continue;
            }
            if gateway.far && gateway.uplink && now.is_multiple_of(INTERVAL) {
                gateway.standby.heard_far(sci(9), INTERVAL as u16, now * MS);
            }
            let (due, later) =
                std::mem::take(&mut gateway.inbox).into_iter().partition(|(at, ..)| *at <= now);
            gateway.inbox = later;
            let _: &Vec<_> = &due;
            let mut look = false;
            for (_, way, hello) in due {
                look |= gateway.standby.heard(way, &hello, now * MS).1;
            }
            let at = gateway.standby.due(gateway.next * MS);
            if gateway.silent <= now && (look || at <= now * MS) {
                self.look(number);
            }
        }
        let [a, b] = &self.gateways;
        let joined = self.field && a.field && b.field || self.uplink && a.uplink && b.uplink;
        let can = |gateway: &Gateway| gateway.alive && gateway.field && gateway.uplink;
        if !joined && a.alive && b.alive {
            self.apart = self.now;
        }
        let forward = [0, 1].map(|number| self.forwards(number));
        if forward == [true; 2] {
            self.both += 1;
            assert!(
                self.loss > 0 || self.now <= self.apart + 3 * INTERVAL && self.apart > 0,
                "both at {} ms: {:#?} {:#?}",
                self.now,
                self.gateways[0].standby,
                self.gateways[1].standby
            );
        }
        let could = [0, 1].map(|number| {
            let gateway = &mut self.gateways[number];
            let well = can(gateway) && gateway.far && gateway.stands.max(gateway.silent) <= self.now;
            gateway.could = well.then(|| gateway.could.unwrap_or(self.now));
            gateway.could.is_some_and(|since| self.now > since + 600)
        });
        let others = [self.gateways[1].could.is_none(), self.gateways[0].could.is_none()];
        for number in 0..2 {
            // The other one could not for as long.
            if could[number] && others[number] && self.alone(number) {
                assert!(forward[number], "{number} at {}: {:#?}", self.now, self.gateways[number].standby);
            }
        }
        self.now += 1;
    }

    /// Whether the other gateway is dead, and nobody holds the task.
    fn alone(&self, number: usize) -> bool {
        let other = &self.gateways[1 - number];
        !other.alive && self.gateways[number].standby.others.iter().all(|one| !one.is_there(self.now * MS))
    }

    fn run(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// The one that forwards.
    fn one(&self) -> usize {
        match [self.forwards(0), self.forwards(1)] {
            [true, false] => 0,
            [false, true] => 1,
            other => {
                panic!("{other:?} at {}: {:#?}", self.now, self.gateways.each_ref().map(|one| &one.standby))
            }
        }
    }

    /// Milliseconds until the other one forwards.
    fn takeover(&mut self, from: usize) -> u64 {
        let start = self.now;
        while !self.forwards(1 - from) {
            self.step();
            assert!(self.now < start + 1000, "nobody takes over");
        }
        self.now - start
    }
}

#[test]
fn one_of_two_forwards_from_the_start() {
    for seed in 0..100 {
        let mut world = World::new([100, 100], false, seed);
        world.gateways[1].next = seed % 50;
        world.run(1000);
        world.one();
        assert_eq!(world.both, 0);
    }
}

#[test]
fn killed_gateway_is_replaced_in_three_hellos() {
    let mut longest = 0;
    for seed in 0..200 {
        let mut world = World::new([100, 100], false, seed);
        world.run(1000 + seed % 40);
        let one = world.one();
        world.gateways[one].alive = false;
        longest = longest.max(world.takeover(one));
        world.run(500);
        // It comes back, and the other one goes on.
        world.restart(one);
        world.run(1000);
        assert_eq!((world.one(), world.both), (1 - one, 0));
    }
    assert!((3 * INTERVAL..=3 * INTERVAL + 8).contains(&longest), "{longest}");
}

#[test]
fn lost_link_is_handed_over_at_once() {
    for seed in 0..50 {
        for cut in 0..3 {
            let mut world = World::new([100, 100], false, seed);
            world.run(1000 + seed);
            let one = world.one();
            let gateway = &mut world.gateways[one];
            let ways = [&mut gateway.field, &mut gateway.uplink, &mut gateway.far];
            *ways.into_iter().nth(cut).expect("three ways") = false;
            let took = world.takeover(one);
            // Who hears nobody by an uplink with a link misses three hellos first.
            let bound = if cut == 2 { 5 * INTERVAL } else { INTERVAL + 5 };
            assert!(took <= bound, "{took} ms, cut {cut}");
            world.run(300);
            let gateway = &mut world.gateways[one];
            (gateway.field, gateway.uplink, gateway.far) = (true, true, true);
            world.run(500);
            assert_eq!((world.one(), world.both), (1 - one, 0));
        }
    }
}

#[test]
fn stopped_gateway_does_not_go_on() {
    for seed in 0..200 {
        let mut world = World::new([100, 100], false, seed);
        world.run(1000);
        let one = world.one();
        world.gateways[one].stands = world.now + seed;
        world.run(seed + 500);
        world.one();
        // The thread that says hello alone.
        let one = world.one();
        world.gateways[one].silent = world.now + seed;
        world.run(seed + 500);
        world.one();
        assert_eq!(world.both, 0);
    }
}

#[test]
fn one_way_between_them_suffices() {
    for seed in 0..50 {
        for field in [true, false] {
            let mut world = World::new([100, 100], false, seed);
            world.run(1000);
            let one = world.one();
            (world.field, world.uplink) = (field, !field);
            world.run(500);
            assert_eq!(world.one(), one);
            // A new process is known by the remaining way too.
            world.gateways[1 - one].alive = false;
            world.run(300);
            world.restart(1 - one);
            world.run(1000);
            assert_eq!((world.one(), world.both), (one, 0));
        }
    }
}

#[test]
fn parts_that_join_again_have_one() {
    for seed in 0..100 {
        let mut world = World::new([100, 100], false, seed);
        world.run(1000 + seed);
        let one = world.one();
        (world.field, world.uplink) = (false, false);
        world.run(500);
        assert!(world.forwards(0) && world.forwards(1), "not parallel");
        let before = world.both;
        if seed % 2 == 0 {
            world.field = true
        } else {
            world.uplink = true
        }
        world.run(500);
        // The one that took over holds the higher term.
        assert_eq!(world.one(), 1 - one);
        assert!(world.both - before <= INTERVAL + 4, "{} ms", world.both - before);
    }
}

#[test]
fn preferred_gateway_takes_back_if_told_so() {
    for (preempt, seed) in [(false, 1), (true, 2), (true, 3)] {
        let mut world = World::new([100, 200], preempt, seed);
        world.run(3000);
        if preempt {
            assert_eq!(world.one(), 1);
        }
        world.gateways[1].alive = false;
        world.run(500);
        assert_eq!(world.one(), 0);
        world.restart(1);
        world.run(600);
        assert_eq!(world.one(), 0, "it proves itself first");
        world.run(2000);
        assert_eq!((world.one(), world.both), (usize::from(preempt), 0));
    }
}

#[test]
fn random_faults_never_leave_two_or_none() {
    for seed in 0..300 {
        let mut world = World::new([100, 100 + (seed % 2) as u8], seed % 5 == 0, seed);
        for _ in 0..60 {
            let number = world.random.below(2) as usize;
            let time = world.random.below(200);
            match world.random.below(10) {
                0 => world.gateways[number].alive = false,
                1 | 2 => world.restart(number),
                3 => world.gateways[number].stands = world.now + time,
                4 => world.gateways[number].silent = world.now + time,
                5 => world.gateways[number].field ^= true,
                6 => world.gateways[number].uplink ^= true,
                7 => world.gateways[number].far ^= true,
                // A way between them is cut, and at times both.
                8 => world.field ^= true,
                _ => world.uplink ^= true,
            }
            let pause = world.random.below(400);
            world.run(pause);
        }
        repaired(&mut world);
    }
}

#[test]
fn lost_hellos_are_survived() {
    let mut both = 0;
    for seed in 0..30 {
        let mut world = World::new([100, 100], false, seed);
        world.loss = 20;
        world.run(10_000);
        both += world.both;
        repaired(&mut world);
    }
    // Three hellos must be lost by both ways: 4 in 10,000 of a gateway's hellos.
    assert!(both < 300, "{both} ms of 300 s");
}

fn repaired(world: &mut World) {
    (world.field, world.uplink, world.loss) = (true, true, 0);
    for number in 0..2 {
        let gateway = &mut world.gateways[number];
        (gateway.field, gateway.uplink, gateway.far) = (true, true, true);
        if !gateway.alive {
            world.restart(number);
        }
    }
    world.run(1500);
    world.one();
}

/// A stranger at the field has recorded all hellos.
#[test]
fn recorded_hellos_change_nothing() {
    for seed in 0..20 {
        let mut world = World::new([100, 100], false, seed);
        // Several lives of each.
        for round in 0..6 {
            world.run(800);
            world.restart(round % 2);
        }
        world.run(1000);
        let one = world.one();
        let recorded = world.recorded.clone();
        for hello in recorded.iter().chain(recorded.iter().rev()) {
            for number in 0..2 {
                let now = world.now * MS;
                let _ = world.gateways[number].standby.heard(Via::Field, hello, now);
            }
            if world.random.below(4) == 0 {
                world.step();
                assert_eq!(world.one(), one);
            }
        }
        assert!(world.gateways[0].standby.refused > 100);
        // By the field alone, too.
        world.uplink = false;
        for hello in &recorded {
            for number in 0..2 {
                let now = world.now * MS;
                let _ = world.gateways[number].standby.heard(Via::Field, hello, now);
            }
            world.step();
            assert_eq!((world.one(), world.both), (one, 0));
        }
    }
}

#[test]
fn members_that_say_nothing_count_as_there() {
    let mut one = Standby::new(sci(1), settings(100, false), 1, 0);
    one.heard_far(sci(9), INTERVAL as u16, 0);
    let unable = |one: &mut Standby, members: &[Sci], at: u64| {
        let _ = one.look(ALL, members, at * MS);
        one.seen(at * MS).unable
    };
    for at in (0..400).step_by(20) {
        let _ = one.look(ALL, &[], at * MS);
    }
    assert_eq!(unable(&mut one, &[], 400), Some(Unable::Far));
    assert_eq!(unable(&mut one, &[sci(9)], 410), Some(Unable::Far), "key agreement notices later");
    assert_eq!(unable(&mut one, &[sci(9), sci(8)], 420), None);
    for (ports, reason) in [
        (Ports { field: false, ..ALL }, Unable::Field),
        (Ports { uplink: false, ..ALL }, Unable::Uplink),
        (Ports { keys: false, ..ALL }, Unable::Keys),
    ] {
        let _ = one.look(ports, &[sci(8)], 430 * MS);
        assert_eq!(one.seen(430 * MS).unable, Some(reason));
        assert!(!reason.words().is_empty());
    }
    assert!(Unable::Far.words() != Unable::Listens.words());
}

#[test]
fn stranger_at_the_field_is_told() {
    let (mut one, mut other) =
        (Standby::new(sci(1), settings(100, false), 1, 0), Standby::new(sci(2), settings(100, false), 2, 0));
    other.settings.group = 2;
    let hello = other.look(ALL, &[], 0);
    let _ = one.heard(Via::Uplink, &hello, 0);
    assert!(!one.seen(0).stranger, "it is far away");
    let _ = one.heard(Via::Field, &hello, 0);
    assert!(one.seen(0).stranger && !one.seen(2_000 * MS).stranger);
}

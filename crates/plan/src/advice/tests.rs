use super::*;
use crate::bearer::{Path, Tsch, Via};
use crate::budget::{ScenarioError, answer};
use crate::schedule::Work;

/// Pseudo-random numbers of a linear congruence.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    fn often(&mut self) -> bool {
        self.below(3) > 0
    }
}

/// A scenario that owns its parts.
#[derive(Clone, Debug)]
struct Owned {
    device: Device,
    receiver: Option<Device>,
    bearer: Bearer,
    cipher: Option<Cipher>,
    antedated: bool,
    work: Vec<Work>,
    messages: Vec<Message>,
}

impl Owned {
    fn answer(&self, advise: bool) -> Result<Answer, ScenarioError> {
        answer(&Scenario {
            device: &self.device,
            receiver: self.receiver.as_ref(),
            bearer: &self.bearer,
            cipher: self.cipher,
            antedated: self.antedated,
            work: &self.work,
            messages: &self.messages,
            advise,
        })
    }

    /// The scenario with changes as a reader of the file would apply them: by its keys.
    fn follow(&self, changes: &Changes) -> Self {
        let find = |name: &String| device::find(name).expect("a device that is built in");
        let mut new = self.clone();
        if let Some(name) = &changes.platform {
            new.device = find(name);
        }
        if let Some(name) = &changes.receiver {
            new.receiver = Some(find(name));
        }
        match changes.cipher {
            Some("any") => new.cipher = None,
            Some(name) => new.cipher = Some(Cipher::find(name).expect("a cipher")),
            None => {}
        }
        new.antedated = changes.antedated.unwrap_or(new.antedated);
        if let Some(bearer) = &changes.bearer {
            new.bearer = bearer.clone();
        }
        for change in &changes.messages {
            let named = new.messages.iter_mut().find(|message| message.name == change.name);
            let message = named.expect("a message of this name");
            *message = change.of(message);
        }
        new
    }
}

fn random_bearer(random: &mut Random) -> Bearer {
    let switches = random.below(5) as u32;
    let other_frame = random.of(&[0, 1522]);
    let path = Path { switches, other_frame, ..Path::default() };
    let slots = random.of(&[7, 31, 101]);
    let wan = |rate_mbit| Bearer::Wireguard {
        rate_mbit,
        delay_ms: vec![(0.5, 6.0), (0.999, 14.0), (1.0, 40.0)],
        quantile: 0.999,
    };
    let simple = match random.below(6) {
        0 => Bearer::None,
        1 => Bearer::Gigabit(path),
        2 => Bearer::Tsch(Tsch::new(slots, 1 + random.below(2) as u32, 1 + random.below(3) as u32)),
        3 => Bearer::SixLowpan { wait_ms: random.of(&[0.0, 60.0]), hops: 1 + random.below(3) as u32 },
        4 => wan(random.of(&[0.5, 20.0])),
        _ => Bearer::FastEthernet(path),
    };
    match (random.below(5), simple) {
        (0, over @ (Bearer::FastEthernet(_) | Bearer::Gigabit(_))) => Bearer::Relayed {
            via: random.of(&[Via::Gateway, Via::Overlay]),
            added_us: Vec::new(),
            each_us: None,
            quantile: 0.999,
            over: Box::new(over),
        },
        (1, Bearer::None) => Bearer::None,
        (1, over) => {
            Bearer::Mqtt { broker_ms: random.of(&[0.0, 0.5, 50.0]), topic: 32, over: Box::new(over) }
        }
        (_, simple) => simple,
    }
}

fn random_scenario(random: &mut Random) -> Owned {
    let bearer = random_bearer(random);
    let mut device = random.of(&device::all());
    let cipher = (random.often() && !bearer.protects()).then(|| random.of(&Cipher::ALL));
    while cipher.is_some_and(|cipher| device.costs(cipher).is_none()) {
        device = random.of(&device::all());
    }
    let mut receiver = random.often().then(|| random.of(&device::all()));
    if receiver.as_ref().is_some_and(|device| cipher.is_some_and(|one| device.costs(one).is_none())) {
        receiver = None;
    }
    let work = (0..random.below(3))
        .map(|_| Work { period_ms: random.of(&[1.0, 5.0, 20.0]), cost_ms: random.of(&[0.1, 0.4, 2.0]) })
        .collect();
    let messages = (0..1 + random.below(3))
        .map(|at| {
            let size = random.of(&[16, 46, 112, 185, 400, 1000, 1400]);
            let known = random.below(size + 1);
            let front = if random.often() { known } else { random.below(known + 1) };
            let new = size - known;
            let new_blocks =
                if new == 0 { 0 } else { new.div_ceil(16) + random.below(1 + new - new.div_ceil(16)) };
            Message {
                name: format!("message {at}"),
                size,
                known,
                front,
                new_blocks,
                period_ms: random.of(&[1.0, 2.0, 10.0, 50.0, 1000.0]),
                deadline_ms: random.of(&[0.3, 1.0, 2.0, 3.0, 10.0, 100.0, 1000.0]),
            }
        })
        .collect();
    Owned { device, receiver, bearer, cipher, antedated: random.often(), work, messages }
}

#[test]
fn followed_advice_meets_the_deadline() {
    let mut random = Random(44);
    let (mut late, mut helped, mut combined, mut longer, mut none) = (0, 0, 0, 0, 0);
    for _ in 0..700 {
        let scenario = random_scenario(&mut random);
        let first = scenario.answer(true).expect("an answer");
        for (at, one) in first.messages.iter().enumerate().filter(|(_, one)| !one.meets) {
            late += 1;
            let text = one.advice.as_deref().expect("an advice");
            let Some(changes) = &one.changes else {
                assert!(text.starts_with("none of"), "{text}");
                none += 1;
                continue;
            };
            let again = scenario.follow(changes).answer(false).expect("an answer to followed advice");
            assert!(again.messages[at].meets, "{scenario:?}\n{text}\n{changes:?}\n{again:?}");
            for (before, after) in first.messages.iter().zip(&again.messages) {
                assert!(after.meets || !before.meets, "{scenario:?}\n{text}");
            }
            longer += usize::from(text.starts_with("none of"));
            helped += usize::from(!text.starts_with("none of"));
            let parts = [
                changes.platform.is_some(),
                changes.receiver.is_some(),
                changes.cipher.is_some(),
                changes.antedated.is_some(),
                changes.bearer.is_some(),
                !changes.messages.is_empty(),
            ];
            combined += usize::from(parts.into_iter().filter(|part| *part).count() > 1);
        }
        if let Some(Advice { text, changes }) = &first.advice {
            let again = scenario.follow(changes).answer(false).expect("an answer to followed advice");
            assert!(again.meets, "{scenario:?}\n{text}");
        }
    }
    // Each kind occurs.
    assert!(
        late > 300 && helped > 150 && combined > 50 && longer > 50,
        "{late} {helped} {combined} {longer} {none}"
    );
}

/// Where the advice is that nothing known helps, no device, cipher and bearer does.
#[test]
fn no_known_combination_is_missed() {
    let mut random = Random(4);
    let mut hopeless = 0;
    for _ in 0..400 {
        let scenario = random_scenario(&mut random);
        let first = scenario.answer(true).expect("an answer");
        let hopeless_ones: Vec<usize> = (0..first.messages.len())
            .filter(|at| {
                first.messages[*at].advice.as_deref().is_some_and(|text| text.starts_with("none of"))
            })
            .collect();
        if hopeless_ones.is_empty() {
            continue;
        }
        hopeless += 1;
        let mut bearers = scenario.bearer.better();
        bearers.push(scenario.bearer.clone());
        let ciphers: Vec<Option<Cipher>> = if scenario.bearer.protects() {
            vec![None]
        } else {
            Cipher::ALL.into_iter().map(Some).chain([None]).collect()
        };
        for device in device::all().into_iter().chain([scenario.device.clone()]) {
            for cipher in &ciphers {
                for bearer in &bearers {
                    let (device, bearer) = (device.clone(), bearer.clone());
                    let changed =
                        Owned { device, bearer, cipher: *cipher, antedated: true, ..scenario.clone() };
                    let Ok(after) = changed.answer(false) else { continue };
                    let broken = first.messages.iter().zip(&after.messages).any(|(a, b)| a.meets && !b.meets);
                    for at in &hopeless_ones {
                        assert!(broken || !after.messages[*at].meets, "{scenario:?}\n{changed:?}");
                    }
                }
            }
        }
    }
    assert!(hopeless > 50, "{hopeless}");
}

#[test]
fn all_late_messages_get_one_advice() {
    let message = |name: &str, size| Message {
        name: name.into(),
        size,
        known: size - 16,
        front: size - 16,
        new_blocks: 1,
        period_ms: 100.0,
        deadline_ms: 3.0,
    };
    let scenario = Owned {
        device: device::find("msp430-16mhz").expect("a device"),
        receiver: None,
        bearer: Bearer::FastEthernet(Path::default()),
        cipher: Some(Cipher::Ccm8),
        antedated: false,
        work: Vec::new(),
        messages: vec![message("a", 400), message("b", 300)],
    };
    let answer = scenario.answer(true).expect("an answer");
    let advice = answer.advice.expect("an advice for both");
    assert_eq!(advice.changes.antedated, Some(true), "{advice:?}");
    assert!(advice.text.contains("antedated = true"));
}

#[test]
fn slow_broker_is_overloaded() {
    let over = Box::new(Bearer::Gigabit(Path::default()));
    let mut scenario = Owned {
        device: device::find("cortex-m3-32mhz").expect("a device"),
        receiver: None,
        bearer: Bearer::Mqtt { broker_ms: 50.0, topic: 32, over },
        cipher: None,
        antedated: true,
        work: Vec::new(),
        messages: vec![Message {
            name: "m".into(),
            size: 48,
            known: 32,
            front: 32,
            new_blocks: 1,
            period_ms: 1.0,
            deadline_ms: 1000.0,
        }],
    };
    let answer = scenario.answer(true).expect("an answer");
    let one = &answer.messages[0];
    assert!(!one.meets && one.limit.contains("the broker serves"), "{one:?}");
    assert!((answer.bearer_load - 50.0).abs() < 1e-9, "{answer:?}");
    assert!(
        one.advice.as_deref().is_some_and(|text| text.contains("a period of 64.000 ms would")),
        "{one:?}"
    );
    scenario.messages[0].period_ms = 64.0;
    assert!(scenario.answer(true).is_ok_and(|answer| answer.meets));
}

use super::*;
use crate::bearer::{Path, Tsch};
use crate::device;

fn message(size: usize, known: usize, deadline_ms: f64) -> Message {
    let new_blocks = (size - known).div_ceil(16);
    Message { name: "m".into(), size, period_ms: 100.0, deadline_ms, known, front: known, new_blocks }
}

fn ask(
    device: &str,
    bearer: &Bearer,
    cipher: Option<Cipher>,
    antedated: bool,
    messages: &[Message],
) -> Result<Answer, ScenarioError> {
    let device = device::find(device).expect("a device");
    answer(&Scenario {
        device: &device,
        receiver: None,
        bearer,
        cipher,
        antedated,
        work: &[],
        messages,
        advise: true,
    })
}

#[test]
fn breakdown_and_margin_add_up() {
    let bearer = Bearer::FastEthernet(Path { switches: 2, ..Path::default() });
    let answer = ask("msp430-16mhz", &bearer, None, true, &[message(112, 96, 5.0)]).expect("an answer");
    let one = &answer.messages[0];
    assert!(one.meets && answer.meets);
    assert!((one.latency_ms + one.margin_ms - 5.0).abs() < 1e-9);
    assert!((one.breakdown.latency() - one.latency_ms).abs() < 1e-12);
    assert!(
        one.breakdown.preparation_ms > one.breakdown.online_ms && one.joules_a_day > 0.0 && one.memory > 112
    );
}

#[test]
fn missed_deadline_gets_cheapest_advice() {
    let none = Bearer::None;
    let advice = |known, deadline, cipher, antedated| {
        let answer = ask("msp430-16mhz-aes", &none, cipher, antedated, &[message(1520, known, deadline)])
            .expect("an answer");
        let one = answer.messages[0].clone();
        assert!(!one.meets && !answer.meets && one.margin_ms < 0.0, "{one:?}");
        one.advice.expect("an advice")
    };
    let ccm = Some(Cipher::Ccm8);
    assert!(advice(0, 35.0, ccm, false).contains("antedated"));
    assert!(advice(1488, 5.0, ccm, false).contains("antedated"));
    assert!(advice(16, 5.0, ccm, true).contains("static"));
    assert!(advice(1520 - 32, 0.0001, None, true).contains("none of"));
}

#[test]
fn late_preparation_costs_the_fallback() {
    let busy = [Work { period_ms: 10.0, cost_ms: 9.99 }];
    let device = device::find("msp430-16mhz").expect("a device");
    let messages = [message(1000, 984, 20.0)];
    let scenario = Scenario {
        device: &device,
        receiver: None,
        bearer: &Bearer::None,
        cipher: Some(Cipher::Ccm8),
        antedated: true,
        work: &busy,
        messages: &messages,
        advise: true,
    };
    let late = answer(&scenario).expect("an answer").messages[0].clone();
    assert!(!late.schedule.in_time && late.limit.contains("prepar"), "{late:?}");
    let unmodified = answer(&Scenario { antedated: false, work: &[], ..scenario }).expect("an answer");
    assert!((late.breakdown.online_ms - unmodified.messages[0].breakdown.online_ms).abs() < 1e-9);
}

#[test]
fn impossible_messages_are_refused() {
    let refused = |change: fn(&mut Message), contains: &str| {
        let mut wrong = message(100, 50, 1.0);
        change(&mut wrong);
        let fault = ask("msp430-16mhz", &Bearer::None, None, true, &[wrong]).expect_err("a fault");
        assert!(fault.what.contains(contains), "{fault:?}");
    };
    refused(|m| m.size = 0, "1 to 65536");
    refused(|m| m.known = 101, "static bytes");
    refused(|m| m.front = 60, "static bytes");
    refused(|m| m.period_ms = 0.0, "period_ms");
    refused(|m| m.deadline_ms = f64::NAN, "deadline_ms");
    refused(|m| m.new_blocks = 0, "new_blocks");
    refused(|m| m.new_blocks = 3, "new_blocks");
    refused(|m| m.new_blocks = 51, "new_blocks");
    assert!(ask("msp430-16mhz", &Bearer::None, None, true, &[]).is_err());
    let fault = ask("msp430-16mhz-aes", &Bearer::None, Some(Cipher::Gcm), true, &[message(9, 0, 1.0)]);
    assert!(fault.is_err_and(|fault| fault.what.contains("aes-128-gcm") && fault.remedy.contains("ccm")));
}

#[test]
fn thousand_messages_are_answered() {
    let messages: Vec<Message> = (1..=1000)
        .map(|i| Message { period_ms: 50_000.0 + f64::from(i), ..message(16 + i as usize, 16, 1.0) })
        .collect();
    let answer =
        ask("cortex-m3-32mhz", &Bearer::Gigabit(Path::default()), None, true, &messages).expect("an answer");
    assert_eq!(answer.messages.len(), 1000);
    assert!(answer.load < 1.0 && answer.messages.iter().all(|message| message.schedule.ready_ms.is_some()));
}

#[test]
fn block_costs_replace_the_line() {
    use crate::device::Line;
    let line = Line { fixed: 9.0, block: 2.0, partial: 0.5, unit: 4.0, ..Line::default() };
    assert_eq!([line.at(20), line.at(64), line.at(65)], [17.5, 21.0, 27.5]);
    let blocks = Line { blocks: vec![10.0, 30.0], ..line };
    assert_eq!([16, 32, 20, 64].map(|bytes| blocks.at(bytes)), [10.0, 30.0, 30.5, 34.0]);
    let partials = Line { partials: vec![11.0, 31.0], ..blocks };
    assert_eq!([16, 9, 20, 63].map(|bytes| partials.at(bytes)), [10.0, 11.0, 31.0, 35.0]);
}

#[test]
fn overload_never_meets_a_deadline() {
    // 1000 bytes take 16 ms on the mote, prepared or not.
    let fast = Message { period_ms: 2.0, ..message(1000, 0, 1000.0) };
    let answered = ask("msp430-16mhz", &Bearer::None, Some(Cipher::Ccm8), true, &[fast]).expect("an answer");
    let one = &answered.messages[0];
    assert!(!one.meets && one.limit.contains("the device seals") && answered.load > 1.0, "{one:?}");
    // One frame a second, and ten messages.
    let tsch = Bearer::Tsch(Tsch::new(100, 1, 1));
    let answered =
        ask("cortex-m3-32mhz", &tsch, None, true, &[message(40, 32, 10_000.0)]).expect("an answer");
    let one = &answered.messages[0];
    assert!((answered.bearer_load - 10.0).abs() < 1e-9 && !one.meets, "{answered:?}");
    assert!(
        one.limit.contains("the bearer carries")
            && one.advice.as_deref().is_some_and(|advice| advice.contains("16 cells a hop")),
        "{one:?}"
    );
    // One message takes 0.2 of the tunnel's 0.5 Mbit/s; three do not fit.
    let wan = Bearer::Wireguard { rate_mbit: 0.5, delay_ms: vec![(1.0, 5.0)], quantile: 0.999 };
    let bulk = Message { period_ms: 50.0, ..message(1000, 968, 90.0) };
    for (count, meets) in [(1, true), (3, false)] {
        let answered =
            ask("cortex-m3-32mhz", &wan, None, true, &vec![bulk.clone(); count]).expect("an answer");
        assert_eq!((answered.meets, answered.load < 1.0), (meets, true), "{answered:?}");
    }
}

#[test]
fn advice_accounts_for_other_messages() {
    // Sealing the second message takes longer than the first one may wait, with any change to the first.
    let slow = Message { period_ms: 10_000.0, name: "slow".into(), ..message(1520, 0, 10_000.0) };
    let bearer = Bearer::Gigabit(Path::default());
    let asked = ask("msp430-16mhz", &bearer, None, true, &[message(112, 96, 2.0), slow.clone()]);
    let one = asked.expect("an answer").messages[0].clone();
    let advice = one.advice.expect("late");
    assert!(!one.meets && !advice.contains("and prepare before"), "{advice}");
    // Alone the first message meets its deadline.
    assert!(
        ask("msp430-16mhz", &bearer, None, true, &[message(112, 96, 2.0)]).is_ok_and(|answer| answer.meets)
    );
}

#[test]
fn messages_queue_on_the_bearer() {
    let path = Path { switches: 2, ..Path::default() };
    let bearer = Bearer::FastEthernet(path);
    let long = Message { name: "long".into(), ..message(1400, 1384, 100.0) };
    let asked = |messages: &[Message]| {
        ask("cortex-m3-32mhz", &bearer, Some(Cipher::Ccm8), true, messages).expect("an answer").messages
    };
    let alone = asked(&[message(46, 30, 1.0)]);
    assert_eq!(alone[0].breakdown.queueing_ms, 0.0);
    let [short, long] = &asked(&[message(46, 30, 1.0), long])[..] else { panic!("two messages") };
    // A frame of 1400 + 29 + 18 bytes and the 20 around it takes 117.36 us, the short one's 9.04.
    // The long frame delays the short one once on the device's link, and by the difference on each
    // of the two further links.
    let [first, second] = [1467.0 * 0.08e-3, 113.0 * 0.08e-3];
    assert!((short.breakdown.queueing_ms - (first + 2.0 * (first - second))).abs() < 1e-9, "{short:?}");
    assert!((long.breakdown.queueing_ms - second).abs() < 1e-9, "{long:?}");
    assert!((short.breakdown.latency() - short.latency_ms).abs() < 1e-12);
    // The limit names the deciding part.
    let fast = Bearer::Gigabit(path);
    let late = [message(46, 30, 0.45), Message { name: "long".into(), ..message(1400, 1384, 100.0) }];
    let advice = asked(&late)[0].clone();
    let there = ask("cortex-m3-32mhz", &fast, Some(Cipher::Ccm8), true, &late).expect("an answer");
    assert!(!advice.meets && there.messages[0].meets, "{advice:?} {there:?}");
    assert!(advice.advice.as_deref().is_some_and(|advice| advice.contains("gigabit")), "{advice:?}");
    assert!(advice.limit.contains("on the bearer"), "{advice:?}");
}

#[test]
fn opening_is_counted_apart_from_sealing() {
    let device = device::find("cortex-m3-32mhz").expect("a device");
    let costs = device.costs(Cipher::Ccm8).expect("its costs").clone();
    let of = |device: &device::Device| {
        let (bearer, messages) = (Bearer::None, [message(112, 96, 100.0)]);
        let scenario = Scenario {
            device,
            receiver: Some(device),
            bearer: &bearer,
            cipher: Some(Cipher::Ccm8),
            antedated: true,
            work: &[],
            messages: &messages,
            advise: false,
        };
        answer(&scenario).expect("an answer").messages[0].breakdown
    };
    // The receiver has no template: it opens more than the sender seals at its deadline.
    let expected = device::opening(&costs, Way::Template, 112).expect("known");
    let counted = of(&device);
    assert!((counted.receiving_ms - device.ms(expected)).abs() < 1e-9, "{counted:?}");
    assert!(counted.receiving_ms > 5.0 * counted.online_ms, "{counted:?}");
    // A platform file of before knows sealing alone.
    let costs = device::Costs { open: None, ..costs };
    let older = of(&device::Device { ccm8: Some(costs), ..device });
    assert_eq!(older.receiving_ms, older.online_ms);
}

use super::*;
use crate::bearer::Path;

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
) -> Result<Answer, Fault> {
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
fn a_breakdown_adds_up_and_the_margin_is_what_it_leaves() {
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
fn what_does_not_meet_gets_the_cheapest_change_that_does() {
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
fn late_preparation_costs_what_the_unmodified_cipher_does() {
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
fn what_cannot_be_is_refused_with_its_reason() {
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
    assert!(ask("msp430-16mhz", &Bearer::None, None, true, &[]).is_err());
    let fault = ask("msp430-16mhz-aes", &Bearer::None, Some(Cipher::Gcm), true, &[message(9, 0, 1.0)]);
    assert!(fault.is_err_and(|fault| fault.what.contains("aes-128-gcm") && fault.remedy.contains("ccm")));
}

#[test]
fn a_thousand_messages_are_answered_in_far_less_than_as_many_squared_steps() {
    let messages: Vec<Message> = (1..=1000)
        .map(|i| Message { period_ms: 50_000.0 + f64::from(i), ..message(16 + i as usize, 16, 1.0) })
        .collect();
    let answer =
        ask("cortex-m3-32mhz", &Bearer::Gigabit(Path::default()), None, true, &messages).expect("an answer");
    assert_eq!(answer.messages.len(), 1000);
    assert!(answer.load < 1.0 && answer.messages.iter().all(|message| message.schedule.ready_ms.is_some()));
}

#[test]
fn a_cost_by_blocks_stands_in_the_place_of_the_line() {
    use crate::device::Line;
    let line = Line { fixed: 9.0, block: 2.0, partial: 0.5, unit: 4.0, ..Line::default() };
    assert_eq!([line.at(20), line.at(64), line.at(65)], [17.5, 21.0, 27.5]);
    let blocks = Line { blocks: vec![10.0, 30.0], ..line };
    assert_eq!([16, 32, 20, 64].map(|bytes| blocks.at(bytes)), [10.0, 30.0, 30.5, 34.0]);
    let partials = Line { partials: vec![11.0, 31.0], ..blocks };
    assert_eq!([16, 9, 20, 63].map(|bytes| partials.at(bytes)), [10.0, 11.0, 31.0, 35.0]);
}

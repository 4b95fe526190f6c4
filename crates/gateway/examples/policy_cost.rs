//! The policy's decision on one frame, many times, for counting instructions:
//! `policy_cost RULES FRAME ROUNDS`. `cargo xtask bench policy` runs it.

use std::hint::black_box;

use antedate_gateway::config::policy::{
    Action, AddressMatch, Conditions, Direction, Limit, Policy, Ranges, Rule, Traffic,
};
use antedate_gateway::frames::gate::{Gate, Way};
use antedate_wire::EthernetAddress;

/// A rule that no frame here fulfils. Five kinds take turns: each field has many values.
fn rule(number: u64) -> Rule {
    let conditions = match number % 5 {
        0 => Conditions {
            ip_protocol: Ranges::one(17),
            port: Ranges::one(1000 + number),
            ..Default::default()
        },
        1 => Conditions { vlan: Ranges::one(100 + number % 900), ..Default::default() },
        2 => {
            let address = EthernetAddress([2, 0, 1, 0, (number >> 8) as u8, number as u8]);
            Conditions { source: vec![AddressMatch { address, prefix: 48 }], ..Default::default() }
        }
        3 => Conditions { frame_id: Ranges::one(0x8100 + number), ..Default::default() },
        _ => Conditions { ethertype: Ranges::one(0x9800 + number), ..Default::default() },
    };
    Rule { line: 1, direction: Direction::Both, conditions, action: Action::Deny, limit: Limit::default() }
}

fn frame(name: &str) -> Vec<u8> {
    let addresses = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let rest: &[u8] = match name {
        "profinet" => &[0x88, 0x92, 0x80, 1],
        "tagged" => &[0x81, 0, 0xc0, 5, 0x88, 0x92, 0x80, 1],
        _ => &[
            0x08, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc0, 0, 0x88, 0x94,
        ],
    };
    let mut frame = [&addresses[..], rest].concat();
    frame.resize(64, 0);
    frame
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rules, name, rounds] = arguments.as_slice() else { panic!("policy_cost RULES FRAME ROUNDS") };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let policy = Policy {
        rules: (0..number(rules)).map(rule).collect(),
        allow: vec![Traffic::Profinet],
        ..Policy::default()
    };
    let (gate, frame) = (Gate::new(&policy), frame(name));
    let passed = (0..number(rounds)).filter(|_| black_box(&gate).decide(Way::Out, black_box(&frame)).passes);
    assert_eq!(passed.count() as u64, number(rounds), "the frame passes");
}

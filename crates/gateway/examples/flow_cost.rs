//! The watch of a cyclic flow beside the policy's decision, for counting instructions:
//! `flow_cost FLOWS ROUNDS on|off`. `cargo xtask bench policy` runs it.

use std::hint::black_box;

use antedate_gateway::config::policy::{Policy, Traffic};
use antedate_gateway::frames::gate::{Gate, Way};
use antedate_gateway::run::flows::Table;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flows, rounds, watch] = arguments.as_slice() else { panic!("flow_cost FLOWS ROUNDS on|off") };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let policy = Policy { rules: Vec::new(), allow: vec![Traffic::Profinet], ..Policy::default() };
    let (gate, table) = (Gate::new(&policy), Table::default());
    if watch == "off" {
        table.watch(0);
    }
    let mut frames: Vec<Vec<u8>> = (0..number(flows))
        .map(|flow| {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, flow as u8, 0x88, 0x92, 0x80, 1];
            frame.resize(64, 0);
            frame
        })
        .collect();
    let mut now = 1_000_000_000;
    for round in 0..number(rounds) {
        now += 1_000_000 + round % 7 * 1_000;
        for frame in &mut frames {
            let verdict = black_box(&gate).decide(Way::Out, black_box(frame));
            assert!(verdict.passes, "the frame passes");
            black_box(&table).hear(now, verdict.class, frame);
        }
    }
}

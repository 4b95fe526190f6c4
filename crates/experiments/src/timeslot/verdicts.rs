//! Each printed time beside ours, row by row.

use antedate_plan::strategy::{LEVELS, Strategy};
use antedate_plan::timeslot::{least_duration, shortest};

use super::{Mote, Report};

/// Milliseconds by which a time may be longer: half of the last printed digit.
const ROUNDING: f64 = 0.005;

/// Lists the times that are longer than printed, unmodified or antedated, with the reasons.
pub(super) fn printed(report: &mut Report, mote: &Mote) {
    let (mut rows, mut longer) = (0, Vec::new());
    for (level, name) in LEVELS.iter().enumerate() {
        for strategy in Strategy::ALL {
            let [offset, ack_delay, duration] = mote.paper[level][strategy as usize];
            let least = least_duration(offset, ack_delay);
            for (way, operations) in ["unmodified", "antedated"].iter().zip(mote.operations(level, strategy))
            {
                let ours = shortest(mote.platform.tx_offset, mote.platform.tx_ack_delay, &operations);
                for (metric, ours, printed) in [
                    ("TsTxOffset", ours.tx_offset, offset),
                    ("TsTxAckDelay", ours.tx_ack_delay, ack_delay),
                    ("TsSlotDuration", ours.duration, duration),
                ] {
                    rows += 1;
                    if ours <= printed + ROUNDING {
                        continue;
                    }
                    let reason = if metric == "TsSlotDuration" && duration < least - ROUNDING {
                        format!("equation 1 gives {least:.2} for the printed offsets")
                    } else if strategy == Strategy::Software {
                        "the node costs more".into()
                    } else {
                        "the engine is a model".into()
                    };
                    longer.push(format!(
                        "{name} {} {way} {metric} {ours:.2} for {printed:.2} ({reason})",
                        strategy.name()
                    ));
                }
            }
        }
    }
    let list = if longer.is_empty() { "none".to_owned() } else { longer.join("; ") };
    let name = mote.platform.name;
    report.check(
        format!("{name}: times longer than printed: {} of {rows}, at most 0: {list}", longer.len()),
        longer.is_empty(),
    );
}

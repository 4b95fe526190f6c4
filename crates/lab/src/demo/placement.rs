//! Cores of the processes.
//!
//! A frame's way is shortest without a wake-up on another core, so the controller shares a core
//! with its gateway, and so does the device. Further cores go to the wire, the tap and the live
//! view. With two cores those run beside the device, at lower priority than every thread with a
//! deadline.

use serde::{Deserialize, Serialize};

/// Cores by role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Controller and gateway A.
    pub plc_side: Vec<usize>,
    /// Device and gateway B.
    pub device_side: Vec<usize>,
    /// The emulated wire from A to B.
    pub wire_a_to_b: Vec<usize>,
    /// The emulated wire from B to A.
    pub wire_b_to_a: Vec<usize>,
    /// The tap and this program.
    pub observers: Vec<usize>,
}

impl Placement {
    /// The placement on this process's cores.
    #[must_use]
    pub fn on(cpus: &[usize]) -> Self {
        let (plc, device, wire, observers) = match *cpus {
            [] => (vec![0], vec![0], vec![0], vec![0]),
            [only] => (vec![only], vec![only], vec![only], vec![only]),
            [first, second] => (vec![first], vec![second], vec![], vec![first, second]),
            [first, second, third] => (vec![first], vec![second], vec![third], vec![third]),
            [first, second, third, ref rest @ ..] => (vec![first], vec![second], vec![third], rest.to_vec()),
        };
        // With two cores the wire runs on the core of the frame's next station.
        let next = |side: &Vec<usize>| if wire.is_empty() { side.clone() } else { wire.clone() };
        Self {
            wire_a_to_b: next(&device),
            wire_b_to_a: next(&plc),
            plc_side: plc,
            device_side: device,
            observers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_are_one_for_each_side() {
        let placement = Placement::on(&[0, 1]);
        assert_eq!((placement.plc_side, placement.device_side), (vec![0], vec![1]));
        assert_eq!((placement.wire_a_to_b, placement.wire_b_to_a), (vec![1], vec![0]));
    }

    #[test]
    fn more_cores_are_for_wire_and_observers() {
        let placement = Placement::on(&[2, 3, 4, 5, 6]);
        assert_eq!((placement.wire_a_to_b, placement.observers), (vec![4], vec![5, 6]));
        assert_eq!(Placement::on(&[7]).observers, [7]);
    }
}

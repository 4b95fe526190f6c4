//! Pure models, without I/O: does a message meet its deadline, how short can a TSCH timeslot be, what does it cost, and what limits it.
//!
//! For messages of any kind:
//!
//! - [`device`]: what sealing takes on a device, prepared and not,
//! - [`bearer`]: how long a packet is on its way,
//! - [`schedule`]: when preparations are done beside a device's other work,
//! - [`budget`]: all of these together; margin, breakdown, limit, advice.
//!
//! For MQTT on motes: [`publish`], frames, round trips, CPU share and power.
//!
//! For the slots of TSCH:
//!
//! - [`timeslot`]: equations 1 and 2 of sciancalepore2016,
//! - [`platform`]: the two motes of the paper, from its figures and their datasheets,
//! - [`strategy`]: software, hybrid and hardware, each as it is and antedated, over costs that were counted on emulated motes,
//! - [`counts`]: what software was counted to take,
//! - [`energy`]: what a slot takes,
//! - [`tsch`]: a schedule, a platform and a level in; slot, latency, rate and energy out.

#![forbid(unsafe_code)]

pub mod bearer;
pub mod budget;
pub mod counts;
pub mod device;
pub mod energy;
pub mod platform;
pub mod publish;
mod queue;
pub mod schedule;
pub mod strategy;
pub mod timeslot;
pub mod tsch;

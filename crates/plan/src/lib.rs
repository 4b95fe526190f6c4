//! Pure models, without I/O: how short a TSCH timeslot can be on a platform, what it costs, and what limits it.
//!
//! - [`timeslot`]: equations 1 and 2 of sciancalepore2016,
//! - [`platform`]: the two motes of the paper, from its figures and their datasheets,
//! - [`strategy`]: software, hybrid and hardware, each as it is and antedated, over costs that were counted on emulated motes,
//! - [`counts`]: what software was counted to take,
//! - [`energy`]: what a slot takes,
//! - [`tsch`]: a schedule, a platform and a level in; slot, latency, rate and energy out.

#![forbid(unsafe_code)]

pub mod counts;
pub mod energy;
pub mod platform;
pub mod strategy;
pub mod timeslot;
pub mod tsch;

//! Pure models without I/O: message deadlines, TSCH timeslots, energy and the limiting factor.
//!
//! For messages of any kind:
//!
//! - [`device`]: the cost of sealing on a device, prepared and unprepared,
//! - [`bearer`]: the transit time of a packet,
//! - [`schedule`]: preparations beside a device's other work,
//! - [`budget`]: all of these together: margin, breakdown, limit,
//! - [`advice`]: the changes with which late messages meet their deadlines.
//!
//! For MQTT on motes: [`publish`], with frames, round trips, CPU share and power.
//!
//! For the slots of TSCH:
//!
//! - [`timeslot`]: equations 1 and 2 of sciancalepore2016,
//! - [`platform`]: the two motes of the paper, from its figures and their datasheets,
//! - [`strategy`]: software, hybrid and hardware, unmodified and antedated, over costs counted on
//!   emulated motes,
//! - [`counts`]: the counted costs of software,
//! - [`energy`]: the energy of a slot,
//! - [`tsch`]: a schedule, a platform and a level in; slot, latency, rate and energy out.

#![forbid(unsafe_code)]

pub mod advice;
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

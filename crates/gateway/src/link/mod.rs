//! MACsec on the uplink (IEEE 802.1AE), or no protection.
//!
//! - [`path`]: the data path of both directions; [`express`]: frames that do not wait behind others
//! - [`vouch`]: delay protection across a stall
//! - [`worker`]: the forwarding thread; [`further`]: those behind the first of several
//! - [`message`], [`snapshot`]: messages to it and its state
//! - `outer`: VLAN tags in front of the SecTAG; [`clock`]: the transparent clock of PTP
//! - `warm`: preparation and rehearsal of the data path
//! - [`agreement`]: MACsec Key Agreement; [`fastest`]: the order of cipher suites on this CPU
//! - [`echo`]: protected echoes between gateways; [`probe`]: the path MTU by such echoes;
//!   [`symptoms`]: forged frames, for the watch
//! - [`ways`]: the uplink that carries, of two
//! - [`ledger`]: packet numbers of static keys, reserved on disk in advance
//! - [`channels`]: secure channels and ports of a configuration
//! - [`daemon`]: the main thread; [`report`]: the status

pub mod agreement;
pub mod channels;
pub mod clock;
pub mod daemon;
pub mod echo;
pub mod express;
pub mod fastest;
pub mod further;
pub mod ledger;
pub mod loops;
pub mod machines;
pub mod message;
mod outer;
pub mod pair;
pub mod path;
pub mod probe;
pub mod report;
pub mod snapshot;
pub mod spread;
pub mod standby;
pub mod symptoms;
pub mod vouch;
mod warm;
pub mod ways;
pub mod worker;

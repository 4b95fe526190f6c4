//! GOOSE and sampled values as engineers configure them: by an SCL file (IEC 61850-6).
//!
//! - [`scl`]: the control blocks of an ICD, CID or SCD file, with their addresses and data sets
//! - [`control`]: a control block of GOOSE
//! - [`stream`]: one of sampled values, and its samples
//! - [`types`]: the types of data attributes and their encodings
//! - [`values`]: the values of a data set as JSON, by the names of their data attributes
//! - [`clock`]: times in the form of IEC 61850 and as text
//!
//! Retransmission, supervision and protection are in `antedate_channel::goose`.

#![forbid(unsafe_code)]

pub mod clock;
pub mod control;
pub mod scl;
pub mod stream;
pub mod types;
pub mod values;

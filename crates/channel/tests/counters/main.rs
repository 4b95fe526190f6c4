//! All short lives of each counter, with crashes: no nonce repeats under one key.
//!
//! - `reserved`: numbers of static keys, kept by a state file
//! - `fresh`: keys that are new after each start

mod fresh;
mod reserved;

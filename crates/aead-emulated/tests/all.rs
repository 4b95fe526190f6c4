//! The integration tests of `antedate-aead` on the emulated CPU: `build.rs` lists their files.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::all, missing_docs, rust_2018_idioms, reason = "the original is linted")]

extern crate antedate_aead_emulated as antedate_aead;

include!(concat!(env!("OUT_DIR"), "/tests.rs"));

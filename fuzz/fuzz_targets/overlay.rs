//! libFuzzer's entry to [`antedate_fuzz::overlay::overlay`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::overlay::overlay(data));

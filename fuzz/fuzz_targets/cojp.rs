//! libFuzzer's entry to [`antedate_fuzz::dot15d4::cojp`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::dot15d4::cojp(data));

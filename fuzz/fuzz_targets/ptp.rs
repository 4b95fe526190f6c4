//! libFuzzer's entry to [`antedate_fuzz::wire::ptp`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::wire::ptp(data));

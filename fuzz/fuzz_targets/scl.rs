//! libFuzzer's entry to [`antedate_fuzz::scl::scl`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::scl::scl(data));

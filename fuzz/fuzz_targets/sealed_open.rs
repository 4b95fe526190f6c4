//! libFuzzer's entry to [`antedate_fuzz::fleet::sealed_open`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::fleet::sealed_open(data));

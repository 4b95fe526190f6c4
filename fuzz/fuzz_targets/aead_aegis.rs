//! libFuzzer's entry to [`antedate_fuzz::suites::aead_aegis`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::suites::aead_aegis(data));

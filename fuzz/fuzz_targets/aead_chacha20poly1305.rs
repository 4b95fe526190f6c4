//! libFuzzer's entry to [`antedate_fuzz::suites::aead_chacha20poly1305`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::suites::aead_chacha20poly1305(data));

//! libFuzzer's entry to [`antedate_fuzz::suites::cbc_pkcs7`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::suites::cbc_pkcs7(data));

//! libFuzzer's entry to [`antedate_fuzz::dtls::dtls_credentials`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::dtls::dtls_credentials(data));

//! libFuzzer's entry to [`antedate_fuzz::channel::macsec_validate`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::channel::macsec_validate(data));

//! libFuzzer's entry to [`antedate_fuzz::channel::macsec_world`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::channel::macsec_world(data));

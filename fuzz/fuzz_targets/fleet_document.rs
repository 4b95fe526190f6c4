//! libFuzzer's entry to [`antedate_fuzz::fleet::fleet_document`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::fleet::fleet_document(data));

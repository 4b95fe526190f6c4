//! libFuzzer's entry to [`antedate_fuzz::mqtt::mqtt_enrol`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::mqtt::mqtt_enrol(data));

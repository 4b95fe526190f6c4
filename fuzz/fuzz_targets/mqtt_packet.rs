//! libFuzzer's entry to [`antedate_fuzz::mqtt::mqtt_packet`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::mqtt::mqtt_packet(data));

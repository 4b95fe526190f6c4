//! libFuzzer's entry to [`antedate_fuzz::channel::mka_participant`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::channel::mka_participant(data));

//! libFuzzer's entry to [`antedate_fuzz::wire::mka`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::wire::mka(data));

//! libFuzzer's entry to [`antedate_fuzz::channel::fragments`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::channel::fragments(data));

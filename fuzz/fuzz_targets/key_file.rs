//! libFuzzer's entry to [`antedate_fuzz::gateway::key_file`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::gateway::key_file(data));

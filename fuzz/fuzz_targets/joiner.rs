//! libFuzzer's entry to [`antedate_fuzz::gateway::joiner`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::gateway::joiner(data));

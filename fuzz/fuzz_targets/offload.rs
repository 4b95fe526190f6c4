//! libFuzzer's entry to [`antedate_fuzz::gateway::offload`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::gateway::offload(data));

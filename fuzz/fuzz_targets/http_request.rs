//! libFuzzer's entry to [`antedate_fuzz::gateway::http_request`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::gateway::http_request(data));

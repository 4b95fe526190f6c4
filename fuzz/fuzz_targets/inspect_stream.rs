//! libFuzzer's entry to [`antedate_fuzz::inspect::inspect_stream`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::inspect::inspect_stream(data));

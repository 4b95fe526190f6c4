//! libFuzzer's entry to [`antedate_fuzz::differential::reassembly`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::differential::reassembly(data));

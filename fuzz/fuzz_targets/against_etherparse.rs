//! libFuzzer's entry to [`antedate_fuzz::differential::against_etherparse`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::differential::against_etherparse(data));

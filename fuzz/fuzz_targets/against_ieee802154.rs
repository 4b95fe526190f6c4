//! libFuzzer's entry to [`antedate_fuzz::differential::against_ieee802154`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::differential::against_ieee802154(data));

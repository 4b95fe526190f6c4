//! libFuzzer's entry to [`antedate_fuzz::wireguard::wireguard_message`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::wireguard::wireguard_message(data));

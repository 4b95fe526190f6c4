//! libFuzzer's entry to [`antedate_fuzz::wireguard::wireguard_receive`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| antedate_fuzz::wireguard::wireguard_receive(data));

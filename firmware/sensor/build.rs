//! Gives the chip's memory to the linker script of `cortex-m-rt` or `riscv-rt`.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let chip = match variable("CARGO_CFG_TARGET_ARCH").as_str() {
        "riscv32" => "virt",
        _ if env::var_os("CARGO_FEATURE_NRF52840").is_some() => "nrf52840",
        _ => "stm32f405",
    };
    let memory = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("memory").join(chip).with_extension("x");
    let out = PathBuf::from(variable("OUT_DIR"));
    fs::copy(&memory, out.join("memory.x")).expect("the memory of the chip");
    println!("cargo::rustc-link-search={}", out.display());
    if chip == "virt" {
        println!("cargo::rustc-link-arg-bins=-Tmemory.x");
    }
    println!("cargo::rustc-link-arg-bins=-Tlink.x");
    println!("cargo::rerun-if-changed=memory");
}

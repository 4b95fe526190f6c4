//! Passes the linker script's location to the linker.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-link-arg-bins=-T{here}/memory.ld");
    println!("cargo::rerun-if-changed=memory.ld");
}

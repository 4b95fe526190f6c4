//! Tells the CPUs of ARMv7-M and ARMv8-M Mainline: a stable compiler shows no feature that tells them from
//! smaller ones.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(armv7m)");
    let target = std::env::var("TARGET").unwrap_or_default();
    if ["thumbv7m-", "thumbv7em-", "thumbv8m.main-"].iter().any(|cpu| target.starts_with(cpu)) {
        println!("cargo::rustc-cfg=armv7m");
    }
}

//! Compiles the calls into Intel's library for IPsec where its header is installed (Debian:
//! libipsec-mb-dev).

fn main() {
    let header = "/usr/include/intel-ipsec-mb.h";
    println!("cargo::rustc-check-cfg=cfg(ipsec_mb)");
    println!("cargo::rerun-if-changed={header}");
    println!("cargo::rerun-if-changed=src/peers/c/ipsec_mb.c");
    if std::path::Path::new(header).exists() {
        cc::Build::new().file("src/peers/c/ipsec_mb.c").opt_level(3).compile("antedate_bench_ipsec_mb");
        println!("cargo::rustc-link-lib=IPSec_MB");
        println!("cargo::rustc-cfg=ipsec_mb");
    }
}

//! The integration tests as one program: the ciphers, which are generic, are compiled once.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod cbc;
mod ccm;
mod duplex;
mod flows;
mod frames;
mod front_pools;
mod fronts;
mod ocb3;
mod open_standby;
mod pools;
mod properties;
mod streams;
mod templates;
mod vectors;
mod wiped;

mod common;
#[path = "common/morus.rs"]
mod morus;

#[test]
fn each_file_is_a_module() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else { continue };
        // The other program has a feature of its own.
        let is_one = include_str!("all.rs").contains(&format!("\nmod {module};\n"));
        assert!(is_one || ["all", "rustcrypto"].contains(&module), "{name} is not compiled");
    }
}

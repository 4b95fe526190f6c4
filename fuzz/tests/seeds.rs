//! Runs every body on its seeds, on every prefix of them, and on copies with one octet changed.

use antedate_fuzz::{TARGETS, seeds};

#[test]
fn bodies_hold_on_seeds_and_mutations() {
    for (target, body) in TARGETS {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{target} has no seeds");
        body(&[]);
        for seed in seeds {
            body(&seed);
            for at in 0..seed.len().min(80) {
                body(&seed[..at]);
                for change in [0x01, 0x80, 0xff] {
                    let mut changed = seed.clone();
                    changed[at] ^= change;
                    body(&changed);
                }
            }
        }
    }
}

#[test]
fn targets_and_seed_files_match() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz_targets");
    let files = std::fs::read_dir(directory).expect(directory).flatten();
    let mut names: Vec<String> =
        files.filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    assert!(names.iter().eq(TARGETS.iter().map(|(target, _)| target)), "{names:?}");
}

//! Writes the seeds of every target to `corpus/`, where libFuzzer reads them.

fn main() -> std::io::Result<()> {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, _) in antedate_fuzz::TARGETS {
        let directory = corpus.join(target);
        std::fs::create_dir_all(&directory)?;
        for (i, seed) in antedate_fuzz::seeds(target).iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{i:03}")), seed)?;
        }
    }
    Ok(())
}

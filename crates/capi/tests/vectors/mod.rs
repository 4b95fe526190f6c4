//! The known answers of `vectors/`, as blocks of fields.

use std::collections::BTreeMap;

pub(crate) type Block = BTreeMap<String, String>;

pub(crate) fn blocks(name: &str) -> Vec<Block> {
    let path = format!("{}/../../vectors/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the vectors are there");
    let fields = |block: &str| -> Block {
        let lines = block.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(" = ").or(line.split_once(" =")));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    text.split("\n\n").map(fields).filter(|block| !block.is_empty()).collect()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits = |i| u8::from_str_radix(&text[i..i + 2], 16).expect("digits");
    (0..text.len()).step_by(2).map(digits).collect()
}

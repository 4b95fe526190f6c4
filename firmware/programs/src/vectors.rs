//! Known answers from the files in `vectors/`, read at compile time: images contain none of the
//! text.

/// A field's bytes, in the block that starts with `name`. A missing block or field fails to
/// compile.
pub(crate) const fn field<const LEN: usize>(text: &str, name: &str, field: &str) -> [u8; LEN] {
    let text = text.as_bytes();
    let block = find(text, 0, "Name = ", name.as_bytes());
    let mut at = find(text, block, field, b" = ");
    let mut bytes = [0; LEN];
    let mut i = 0;
    while i < LEN {
        bytes[i] = digit(text[at]) << 4 | digit(text[at + 1]);
        at += 2;
        i += 1;
    }
    assert!(at == text.len() || text[at] == b'\n');
    bytes
}

/// The offset after a line that starts with `line` followed by `then`.
const fn find(text: &[u8], from: usize, line: &str, then: &[u8]) -> usize {
    let line = line.as_bytes();
    let mut at = from;
    loop {
        let begins = at == 0 || text[at - 1] == b'\n' || at == from;
        if begins && matches(text, at, line) && matches(text, at + line.len(), then) {
            let end = at + line.len() + then.len();
            if line[line.len() - 1] != b' ' || text[end] == b'\n' {
                return end + (text[end] == b'\n') as usize;
            }
        }
        at += 1;
    }
}

const fn matches(text: &[u8], at: usize, what: &[u8]) -> bool {
    let mut i = 0;
    while i < what.len() {
        if text[at + i] != what[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn digit(c: u8) -> u8 {
    match c {
        b'0'..=b'9' => c - b'0',
        b'a'..=b'f' => c - b'a' + 10,
        _ => panic!("not a hexadecimal digit"),
    }
}

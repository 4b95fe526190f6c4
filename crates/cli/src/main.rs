//! The `antedate` command.

fn main() {}

//! Set-up, demo, test, bench and peers of the workspace.

fn main() {}

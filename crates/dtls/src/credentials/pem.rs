//! Files of certificates and keys as OpenSSL writes them (RFC 7468), by rustls-pki-types.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use antedate_host::fault::Fault;
use pki_types::pem::{self, SectionKind};

/// The largest file with certificates or public keys in octets: more than 100,000 peers.
const MAX_LEN: u64 = 32 << 20;

/// Reads a file that says whom to trust. Others may read it, but not write to it.
pub(crate) fn read_public(file: &Path, remedy: &'static str) -> Result<Vec<u8>, Fault> {
    let cannot = |error| Fault::of_io(file, "read this file", &error, remedy);
    let open = fs::File::open(file).map_err(cannot)?;
    let mode = open.metadata().map_err(cannot)?.mode();
    if mode & 0o002 != 0 {
        let what = format!("everybody may write to this file (mode {:04o})", mode & 0o7777);
        return Err(Fault::of_file(file, what, format!("chmod o-w {}", file.display())));
    }
    let mut octets = Vec::new();
    open.take(MAX_LEN + 1).read_to_end(&mut octets).map_err(cannot)?;
    if octets.len() as u64 > MAX_LEN {
        return Err(Fault::of_file(file, "longer than 32 MiB", remedy));
    }
    Ok(octets)
}

/// The sections of a text in PEM.
pub(crate) fn sections(mut text: &[u8]) -> Result<Vec<(SectionKind, Vec<u8>)>, pem::Error> {
    let mut all = Vec::new();
    loop {
        match pem::from_buf(&mut text) {
            Ok(Some(section)) => all.push(section),
            Ok(None) => return Ok(all),
            Err(error) => return Err(error),
        }
    }
}

/// The words for a file with a wrong section.
pub(crate) fn wrong_form(error: &pem::Error) -> String {
    format!("the PEM form is wrong: {error}")
}

/// The sections of one kind in a file.
pub(crate) fn load(file: &Path, kind: SectionKind, remedy: &'static str) -> Result<Vec<Vec<u8>>, Fault> {
    let octets = read_public(file, remedy)?;
    let all = sections(&octets).map_err(|error| Fault::of_file(file, wrong_form(&error), remedy))?;
    Ok(all.into_iter().filter(|(found, _)| *found == kind).map(|(_, octets)| octets).collect())
}

//! Reads `[metrics]` and `[page]`.

use std::net::SocketAddr;
use std::path::Path;

use antedate_host::document::{Field, Section};

use super::{all, path};
use crate::config::Lines;
use crate::config::http::Http;

/// The keys of an endpoint.
pub(super) struct Keys {
    pub(super) section: &'static str,
    pub(super) listen: &'static str,
    pub(super) token_file: &'static str,
    pub(super) names: &'static str,
    /// The usual port.
    pub(super) port: u16,
}

pub(super) const METRICS: Keys = Keys {
    section: "metrics",
    listen: "metrics.listen",
    token_file: "metrics.token_file",
    names: "metrics.names",
    port: 9464,
};
pub(super) const PAGE: Keys = Keys {
    section: "page",
    listen: "page.listen",
    token_file: "page.token_file",
    names: "page.names",
    port: 9465,
};

/// `Some(None)`: there is no section.
pub(super) fn http(
    mut section: Section<'_, '_>,
    keys: &Keys,
    base: &Path,
    lines: &mut Lines,
) -> Option<Option<Http>> {
    lines.note(keys.section, section.line());
    if !section.is_present() {
        section.finish();
        return Some(None);
    }
    let token_file = section.get("token_file").map(|field| {
        lines.note(keys.token_file, Some(field.line()));
        path(&field, base, "name the file with the token that clients show")
    });
    let names = section.get("names").map(|field| {
        lines.note(keys.names, Some(field.line()));
        field.array()?.iter().map(name).collect::<Option<Vec<_>>>()
    });
    let remedy = format!("give an address and a port, e.g. listen = \"127.0.0.1:{}\"", keys.port);
    let listen = section.required("listen", &remedy).and_then(|field| {
        lines.note(keys.listen, Some(field.line()));
        listen(&field, token_file.is_some(), &remedy)
    });
    section.finish();
    let (listen, token_file, names) = (listen?, all(token_file)?, all(names)?.unwrap_or_default());
    let Keys { section, token_file: token_key, .. } = *keys;
    Some(Some(Http { section, token_key, listen, token_file, names }))
}

fn listen(field: &Field<'_, '_>, with_token: bool, remedy: &str) -> Option<SocketAddr> {
    let text = field.string()?;
    let at = text.parse::<SocketAddr>().ok().filter(|at| at.port() != 0);
    match at {
        Some(at) if at.ip().is_loopback() || with_token => return Some(at),
        Some(at) => field.fault(
            format!("{at} can be reached from other machines, and nobody is asked who they are"),
            "give a loopback address and an SSH tunnel, or a token_file, and a proxy with TLS in front",
        ),
        None => field.fault(format!("\"{text}\" is no address and port"), remedy),
    }
    None
}

/// A host name.
fn name(field: &Field<'_, '_>) -> Option<String> {
    let text = field.string()?;
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if text.is_empty() || text.len() > 253 || !text.chars().all(legal) {
        field.fault(
            format!("\"{text}\" is no host name"),
            "give a name without a port, e.g. \"gateway.example\"",
        );
        return None;
    }
    Some(text.to_owned())
}

//! `[metrics]` and `[page]`: what a gateway shows over HTTP, where, and to whom.

use std::net::SocketAddr;
use std::path::PathBuf;

use antedate_host::fault::Fault;

use crate::run::http::token::Token;

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Its section of the file: `metrics` or `page`.
    pub section: &'static str,
    /// The key of [`token_file`](Self::token_file).
    pub token_key: &'static str,
    /// The address and port. Without a token it is one of loopback.
    pub listen: SocketAddr,
    /// The file of the token that clients have to show, if any.
    pub token_file: Option<PathBuf>,
    /// Names of this machine, by which clients may ask.
    pub names: Vec<String>,
}

impl Http {
    /// Reads the token.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn token(&self, user: u32) -> Result<Option<Token>, Fault> {
        self.token_file.as_ref().map(|file| Token::load(file, user)).transpose()
    }
}

//! The endpoints of a running gateway, which a reload may open, move and close.

use std::sync::Arc;

use antedate_host::fault::Fault;
use antedate_host::process;

use super::{Endpoint, Guard, Listening, Site, listen};
use crate::config::Config;
use crate::config::http::Http;
use crate::run::control::StatusSource;
use crate::run::metrics::Metrics;
use crate::run::page::Page;

/// The endpoints that are open.
#[derive(Debug, Default)]
pub struct Endpoints {
    metrics: Option<Endpoint>,
    page: Option<Endpoint>,
}

/// A prepared change of the endpoints.
#[derive(Debug)]
pub struct Moves {
    metrics: Move,
    page: Move,
}

/// A prepared change of an endpoint.
#[derive(Debug)]
enum Move {
    /// It is closed, or stays so.
    Off,
    /// It stays, for these clients.
    Stay(Guard),
    /// It answers here.
    To(Listening, Guard),
}

impl Endpoints {
    /// Opens the sockets of other addresses, and reads the tokens.
    ///
    /// # Errors
    /// When a socket cannot be opened, or a token cannot be read.
    pub fn prepare(&self, config: &Config) -> Result<Moves, Fault> {
        Ok(Moves {
            metrics: prepare(self.metrics.as_ref(), config, config.metrics.as_ref())?,
            page: prepare(self.page.as_ref(), config, config.page.as_ref())?,
        })
    }

    /// Makes the change.
    pub fn apply(&mut self, moves: Moves, source: &Arc<dyn StatusSource>) {
        let Self { metrics, page } = self;
        apply(metrics, moves.metrics, "metrics", || Box::new(Metrics::new(Arc::clone(source))));
        let status = Arc::clone(source);
        apply(page, moves.page, "page", move || Box::new(Page::new(move || Some(status.status()))));
    }
}

fn prepare(present: Option<&Endpoint>, config: &Config, wanted: Option<&Http>) -> Result<Move, Fault> {
    let Some(wanted) = wanted else { return Ok(Move::Off) };
    let token = wanted.token(process::user()).map_err(|fault| config.at(wanted.token_key, fault))?;
    let guard = Guard { token, names: wanted.names.clone() };
    if present.is_some_and(|present| present.address() == wanted.listen) {
        return Ok(Move::Stay(guard));
    }
    Ok(Move::To(listen(&config.file, wanted.section, wanted.listen)?, guard))
}

fn apply(present: &mut Option<Endpoint>, to: Move, name: &str, site: impl FnOnce() -> Box<dyn Site>) {
    match to {
        Move::Off => *present = None,
        Move::Stay(guard) => present.iter().for_each(|endpoint| endpoint.admit(guard.clone())),
        Move::To(listening, guard) => {
            *present = None;
            let at = listening.address();
            match listening.serve(name, guard, site()) {
                Ok(endpoint) => {
                    tracing::info!("{name}: shown on http://{at}/");
                    *present = Some(endpoint);
                }
                Err(error) => tracing::error!(%error, "no thread for [{name}]"),
            }
        }
    }
}

//! The way to membership, on the device.

use crate::authority::Authority;
use crate::document::{Body, Document, DocumentError, Welcome};
use crate::engine::{Engine, EngineError};
use crate::enrol::{Request, Token};
use crate::identity::Identity;
use crate::subjects::{REQUESTS, WELCOMES};

/// Why a device does not become a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// NATS does not answer, or forbids it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The answer is not from the fleet's authority, or the clock is wrong.
    #[error("the answer is not taken: {0}")]
    Answer(#[from] DocumentError),
}

/// Publishes the device's request.
///
/// # Errors
/// When NATS does not store it.
pub async fn ask(
    engine: &Engine,
    identity: &Identity,
    name: &str,
    antedate: &str,
    token: Option<&Token>,
) -> Result<(), EngineError> {
    let request = Request::write(identity, name, antedate, token);
    engine.put(&REQUESTS, &identity.public().id(), request).await
}

/// The authority's answer, if there is one.
///
/// # Errors
/// [`JoinError`].
pub async fn answer(
    engine: &Engine,
    identity: &Identity,
    authority: &Authority,
    now: u64,
) -> Result<Option<Welcome>, JoinError> {
    let Some(stored) = engine.last(&WELCOMES, &identity.public().id()).await? else { return Ok(None) };
    match Document::open(&stored.payload, authority, identity, now, 0)?.body {
        Body::Welcome(welcome) => Ok(Some(welcome)),
        other => Err(DocumentError::UnknownKind(other.kind().into()).into()),
    }
}

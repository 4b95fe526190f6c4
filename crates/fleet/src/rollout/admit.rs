//! New members.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};

use super::{AT_ONCE, Rollout, RolloutError};
use crate::document::{Body, CLOCKS_DIFFER, Document, Welcome};
use crate::engine::{Engine, EngineError};
use crate::enrol::Request;
use crate::home::{Home, Member};
use crate::identity::is_id;
use crate::login;
use crate::now;
use crate::subjects::{REQUESTS, WELCOMES};

impl Rollout<'_> {
    /// Requests that wait for an approval. Forged ones are left out.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn pending(home: &Home, engine: &Engine) -> Result<Vec<Request>, EngineError> {
        let stored = engine.all(&REQUESTS, false).await?;
        let requests = stored.iter().filter_map(|one| Request::read(&one.id, &one.payload).ok());
        Ok(requests.filter(|request| !home.devices.contains_key(&request.keys.id())).collect())
    }

    /// Makes devices members: name, role and cell each. The answers are published.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn admit(
        &mut self,
        all: Vec<(Request, String, String, String)>,
    ) -> Result<usize, RolloutError> {
        if !all.is_empty() {
            self.look_at_clock().await?;
        }
        let time = now();
        let pass_ends = time + self.home.fleet.pass_days * 86_400;
        let mut welcomes = Vec::new();
        for (request, name, role, cell) in all {
            let (keys, id) = (request.keys, request.keys.id());
            debug_assert!(is_id(&id));
            // The cell has its key before its first member.
            self.home.cell(&cell)?;
            let welcome = Welcome {
                name: name.clone(),
                role: role.clone(),
                pass: login::device(self.signing, &id, &keys.login, time, pass_ends),
            };
            let document = Document {
                device: id.clone(),
                version: 1,
                not_before: time.saturating_sub(CLOCKS_DIFFER),
                expires: time + 90 * 86_400,
                body: Body::Welcome(welcome),
            };
            let message = document.seal(self.signing, &keys);
            let message = message.map_err(|error| RolloutError::Seal { device: name.clone(), error })?;
            let mut member = Member::new(&name, &role, &cell, keys);
            member.pass_ends = pass_ends;
            self.home.devices.insert(id.clone(), member);
            welcomes.push((id, message));
        }
        self.home.save()?;
        let engine = self.engine;
        let count = welcomes.len();
        let puts = welcomes.into_iter().map(|(id, message)| async move {
            engine.put(&WELCOMES, &id, message).await?;
            engine.forget(&REQUESTS, &id).await
        });
        let mut puts = stream::iter(puts).buffer_unordered(AT_ONCE);
        while let Some(put) = puts.next().await {
            put?;
        }
        Ok(count)
    }

    /// Makes those members whose requests prove a token. Each token is for one device.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn admit_by_token(&mut self) -> Result<usize, RolloutError> {
        let mut all = Vec::new();
        let mut names: BTreeSet<String> =
            self.home.devices.values().map(|member| member.name.clone()).collect();
        for request in Self::pending(self.home, self.engine).await? {
            let Some(proof) = &request.proof else { continue };
            let time = now();
            let issued = self.home.tokens.iter_mut().find(|issued| {
                issued.used.is_empty()
                    && issued.expires > time
                    && issued.token().is_some_and(|token| proof.is_of(&token, &request.keys))
            });
            let Some(issued) = issued else { continue };
            issued.used = request.keys.id();
            let proposed = request.name.clone();
            let name = if proposed.is_empty() || names.contains(&proposed) {
                format!("{}-{}", issued.role, request.keys.id())
            } else {
                proposed
            };
            names.insert(name.clone());
            let (role, cell) = (issued.role.clone(), issued.cell.clone());
            all.push((request, name, role, cell));
        }
        self.admit(all).await
    }
}

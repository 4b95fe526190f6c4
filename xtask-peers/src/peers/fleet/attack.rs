//! What is forbidden, tried with the passes of each role.

use super::PATIENCE;
use antedate_fleet::agent::state::State;
use antedate_fleet::authority::Signing;
use antedate_fleet::document::{Body, Document, Settings};
use antedate_fleet::engine::{Access, Engine, EngineError};
use antedate_fleet::home::{Home, Invitation};
use antedate_fleet::login;
use antedate_fleet::now;
use antedate_fleet::subjects::{DOCUMENTS, EVENTS, REQUESTS, STATUS, WELCOMES};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use xtask::shell::until;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
    runtime.block_on(work)
}

/// A document of somebody without the authority's key.
pub(super) fn forged(home: &Home, id: &str, version: u64) -> Result<Vec<u8>, String> {
    let files = BTreeMap::from([("gateway.toml".to_owned(), "# forged\n".to_owned())]);
    let keys = home.devices.get(id).and_then(|member| member.keys()).ok_or("no such device")?;
    let document = Document {
        device: id.to_owned(),
        version,
        not_before: 0,
        expires: now() + 1000,
        body: Body::Settings(Settings { files, ..Settings::default() }),
    };
    document.seal(&Signing::generate().map_err(text)?, &keys).map_err(text)
}

/// The present document of a device, as an operator of NATS can copy it.
pub(super) fn copy(home: &Home, id: &str) -> Result<Vec<u8>, String> {
    let access = home.access().map_err(text)?;
    block_on(async {
        let engine = Engine::connect(&access).await.map_err(text)?;
        let found = engine.last(&DOCUMENTS, id).await.map_err(text)?;
        found.map(|stored| stored.payload.to_vec()).ok_or_else(|| "there is no document".to_owned())
    })
}

/// Publishes as the operator, with a stolen pass.
pub(super) fn put(home: &Home, id: &str, document: Vec<u8>) -> Result<(), String> {
    let access = home.access().map_err(text)?;
    block_on(async {
        let engine = Engine::connect(&access).await.map_err(text)?;
        engine.put(&DOCUMENTS, id, document).await.map_err(text)
    })
}

/// How many of the secrets are keys. Names follow.
const KEYS: usize = 2;

/// Looks for secrets in everything that the operator's pass can read. Returns how many messages
/// there were.
pub(super) fn read_all(home: &Home, secrets: &[&str]) -> Result<usize, String> {
    let access = home.access().map_err(text)?;
    block_on(async {
        let engine = Engine::connect(&access).await.map_err(text)?;
        let mut count = 0;
        for stream in [DOCUMENTS, WELCOMES, STATUS, EVENTS, REQUESTS] {
            for message in engine.all(&stream, true).await.map_err(text)? {
                count += 1;
                // A request shows the name that its device proposes.
                let secrets = if stream == REQUESTS { &secrets[..KEYS] } else { secrets };
                for secret in secrets {
                    let found =
                        message.payload.windows(secret.len()).any(|window| window == secret.as_bytes());
                    if found {
                        return Err(format!(
                            "{} shows \"{secret}\" in the clear",
                            stream.subject(&message.id)
                        ));
                    }
                }
            }
        }
        Ok(count)
    })
}

/// Subjects that a user must not use, and one that it must.
async fn forbidden(
    access: &Access,
    allowed: &str,
    subjects: &[String],
    unheard: &[String],
) -> Result<usize, String> {
    let engine = Engine::connect(access).await.map_err(text)?;
    engine.try_request(allowed.to_owned(), Vec::new()).await.map_err(|e| format!("{allowed}: {e}"))?;
    for subject in subjects {
        match engine.try_request(subject.clone(), b"{}".to_vec()).await {
            Err(EngineError::Forbidden(_)) => {}
            other => return Err(format!("{access:?} is not stopped at {subject}: {other:?}")),
        }
    }
    for subject in unheard {
        match engine.try_hear(subject.clone()).await {
            Err(EngineError::Forbidden(_)) => {}
            other => return Err(format!("{access:?} may listen to {subject}: {other:?}")),
        }
    }
    Ok(subjects.len() + unheard.len())
}

/// Tries with a stolen device, an invitation and the operator's pass. Returns how many tries failed.
pub(super) fn permissions(
    home: &Home,
    device: &Path,
    other: &str,
    invitation: &Path,
) -> Result<usize, String> {
    let state = State::of(device);
    let identity = state.identity(false).map_err(text)?;
    let member = state.membership().map_err(text)?.ok_or("no member")?;
    let access = state.access(&member, &identity).map_err(text)?;
    let own = identity.public().id();
    let stolen = [
        DOCUMENTS.subject(&own),
        DOCUMENTS.subject(other),
        DOCUMENTS.last(other),
        STATUS.subject(other),
        EVENTS.subject(other),
        REQUESTS.subject(&own),
        WELCOMES.last(other),
        STATUS.last(other),
        format!("$JS.API.STREAM.MSG.GET.{}", DOCUMENTS.name),
        format!("$JS.API.CONSUMER.CREATE.{}", DOCUMENTS.name),
        format!("$JS.API.CONSUMER.CREATE.{}.x.{}", DOCUMENTS.name, DOCUMENTS.subject(other)),
        format!("$JS.API.STREAM.PURGE.{}", DOCUMENTS.name),
        format!("$JS.API.STREAM.DELETE.{}", DOCUMENTS.name),
        "$JS.API.STREAM.NAMES".to_owned(),
        "$SYS.REQ.CLAIMS.UPDATE".to_owned(),
    ];
    let certificates = home.access().map_err(text)?.certificates;
    let invited = Invitation::load(invitation).map_err(text)?.access(certificates);
    let asked = [
        DOCUMENTS.subject(other),
        DOCUMENTS.last(other),
        STATUS.last(other),
        WELCOMES.subject(other),
        format!("$JS.API.STREAM.DELETE.{}", REQUESTS.name),
        "$JS.API.STREAM.NAMES".to_owned(),
    ];
    let operator = home.access().map_err(text)?;
    // It may delete streams. It must not admit anybody.
    let claims = ["$SYS.REQ.CLAIMS.UPDATE".to_owned(), "$SYS.REQ.SERVER.PING".to_owned()];
    let all = [
        "fleet.>".to_owned(),
        DOCUMENTS.subject(other),
        "_INBOX.>".to_owned(),
        "_INBOX_operator.>".to_owned(),
    ];
    block_on(async {
        let tried = forbidden(&access, &DOCUMENTS.last(&own), &stolen, &all).await?
            + forbidden(&invited, &WELCOMES.last(other), &asked, &all).await?
            + forbidden(&operator, "$JS.API.STREAM.NAMES", &claims, &["$SYS.>".to_owned()]).await?;
        Ok(tried)
    })
}

/// Tries with the pass of a leaf node. Returns how many tries failed.
pub(super) fn leaf(home: &Home, name: &str) -> Result<usize, String> {
    let signing = home.signing(None).map_err(text)?;
    let [file, _] = login::leaf(&signing, name, now(), now() + 1000);
    let pass = file.lines().nth(1).ok_or("no pass")?.to_owned();
    let access =
        Access { user: "leaf".into(), pass, secret: signing.leaf(name), ..home.access().map_err(text)? };
    let other = "abcdefghijklmnop";
    let forbidden_ones = [
        DOCUMENTS.subject(other),
        WELCOMES.subject(other),
        STATUS.last(other),
        REQUESTS.last(other),
        format!("$JS.API.CONSUMER.CREATE.{}", DOCUMENTS.name),
        format!("$JS.API.STREAM.PURGE.{}", DOCUMENTS.name),
        format!("$JS.API.STREAM.DELETE.{}", DOCUMENTS.name),
        "$JS.API.STREAM.NAMES".to_owned(),
        "$SYS.REQ.CLAIMS.UPDATE".to_owned(),
    ];
    let unheard = [STATUS.subject("*"), EVENTS.subject(other), REQUESTS.subject(other)];
    block_on(forbidden(&access, &DOCUMENTS.last(other), &forbidden_ones, &unheard))
}

/// Whether NATS still admits a device.
pub(super) fn is_admitted(device: &Path) -> Result<bool, String> {
    let state = State::of(device);
    let identity = state.identity(false).map_err(text)?;
    let member = state.membership().map_err(text)?.ok_or("no member")?;
    admitted(&state.access(&member, &identity).map_err(text)?)
}

/// Waits until NATS does not admit a device any more: the servers hear of a revocation one by one.
pub(super) fn not_admitted(device: &Path) -> Result<(), String> {
    until("NATS refuses a revoked device", PATIENCE, || match is_admitted(device) {
        Ok(true) => None,
        Ok(false) => Some(Ok(())),
        Err(why) => Some(Err(why)),
    })?
}

/// Whether NATS admits it. What is no answer is no verdict: a busy server may take its time.
fn admitted(access: &Access) -> Result<bool, String> {
    let mut last = String::new();
    let ask = || match block_on(async { Ok(Engine::connect(access).await.map(drop)) }).ok()? {
        Ok(()) => Some(true),
        Err(EngineError::NotAdmitted(_)) => Some(false),
        Err(error) => {
            last = error.to_string();
            None
        }
    };
    until("a verdict of NATS on a pass", PATIENCE, ask).map_err(|e| format!("{e}: {last}"))
}

/// Whether a pass of the device is admitted before its end and after it.
pub(super) fn end_of_a_pass(home: &Home, device: &Path) -> Result<(bool, bool), String> {
    let state = State::of(device);
    let identity = state.identity(false).map_err(text)?;
    let mut member = state.membership().map_err(text)?.ok_or("no member")?;
    let keys = identity.public();
    let signing = home.signing(None).map_err(text)?;
    // A busy machine may not connect within the shorter times.
    for seconds in [2, 10, 40] {
        let ends = now() + seconds;
        member.pass = login::device(&signing, &keys.id(), &keys.login, now(), ends);
        let access = state.access(&member, &identity).map_err(text)?;
        let before = admitted(&access)?;
        if !before && now() >= ends {
            continue;
        }
        while now() <= ends {
            std::thread::sleep(Duration::from_millis(100));
        }
        return Ok((before, admitted(&access)?));
    }
    Err("no connection within 40 s".into())
}

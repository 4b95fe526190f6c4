//! A leaf node between a device and a real NATS server.

#![cfg(feature = "nats")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::path::Path;
use std::time::{Duration, Instant};

use antedate_fleet::engine::{Access, Engine, EngineError};
use antedate_fleet::home::{Home, Member};
use antedate_fleet::identity::{Identity, Seed};
use antedate_fleet::login;
use antedate_fleet::now;
use antedate_fleet::server::{Leaf, Node, Trust, configuration, leaf_configuration, with_leaf_nodes};
use antedate_fleet::subjects::{DOCUMENTS, EVENTS, STATUS};
use futures_util::StreamExt;
use zeroize::Zeroizing;

mod nats;
use nats::{Server, free_port, is_here, start};

/// The longest time for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again until there is an answer.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The servers of a fleet: one that stores, and a leaf node. Returns the leaf node's address too.
fn servers(home: &Home, place: &Path, port: u16) -> ([Server; 2], String) {
    let signing = home.signing(None).unwrap();
    let trust = Trust::of(&signing, "plant", now(), &[]);
    let node = Node {
        name: "n1".into(),
        listen: format!("127.0.0.1:{port}"),
        cluster: String::new(),
        routes: Vec::new(),
        tls: None,
    };
    let (hub, listen) = (free_port(), format!("127.0.0.1:{}", free_port()));
    let text = configuration("plant", &trust, &node, &place.join("data"));
    let leaf = Leaf {
        name: "hall".into(),
        listen: listen.clone(),
        hubs: vec![format!("127.0.0.1:{hub}")],
        credentials: place.to_owned(),
        tls: None,
    };
    let files = [
        ("n1.conf", with_leaf_nodes(&text, &trust, hub).unwrap()),
        ("leaf-hall.conf", leaf_configuration("plant", &trust, &leaf, &place.join("leaf-data"))),
    ];
    for (name, text) in &files {
        std::fs::write(place.join(name), text).unwrap();
    }
    let [own, system] = login::leaf(&signing, "hall", now(), now() + 86_400);
    std::fs::write(place.join("leaf-hall.creds"), &*own).unwrap();
    std::fs::write(place.join("leaf-hall-system.creds"), &*system).unwrap();
    (files.map(|(name, _)| start(&place.join(name))), listen)
}

async fn forbidden(engine: &Engine, subject: String) {
    let tried = engine.try_request(subject.clone(), b"{}".to_vec()).await;
    assert!(matches!(tried, Err(EngineError::Forbidden(_))), "{subject}: {tried:?}");
}

#[test]
fn leaf_node_carries_all_of_a_device() {
    if !is_here("a leaf node of NATS") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let address = [format!("nats://127.0.0.1:{port}")];
    let mut home = Home::create(&directory.path().join("fleet"), "plant", &address, 1, "").unwrap();
    let (_servers, leaf) = servers(&home, directory.path(), port);
    let signing = home.signing(None).unwrap();
    let identity = Identity::of(Seed::of([7; 32]));
    let (keys, id) = (identity.public(), identity.public().id());
    home.devices.insert(id.clone(), Member::new("press", "publisher", "", keys));
    let device = Access {
        servers: vec![format!("nats://{leaf}")],
        user: id.clone(),
        pass: login::device(&signing, &id, &keys.login, now(), now() + 86_400),
        newer: Default::default(),
        secret: identity.login(),
        certificates: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let operator = home.access().unwrap();
        let operator = until("the server", async || {
            let engine = Engine::connect(&operator).await.ok()?;
            engine.set_up(1).await.ok().map(|()| engine)
        })
        .await;
        // NATS's clock is this machine's.
        assert!(operator.time().await.unwrap().abs_diff(now()) < 30);
        let near = until("the leaf node", async || Engine::connect(&device).await.ok()).await;
        until("JetStream over the leaf node", async || near.last(&DOCUMENTS, &id).await.ok()).await;
        let mut heard = near.hear(DOCUMENTS.subject(&id)).await.unwrap();
        // Published again, as a rollout does: the cluster hears late of who listens behind a leaf node.
        let message = until("a document", async || {
            operator.put(&DOCUMENTS, &id, b"sealed".to_vec()).await.unwrap();
            tokio::time::timeout(Duration::from_secs(1), heard.next()).await.ok()?
        })
        .await;
        assert_eq!(&*message.payload, b"sealed");
        assert_eq!(&*near.last(&DOCUMENTS, &id).await.unwrap().unwrap().payload, b"sealed");
        let report = until("a report", async || {
            near.tell(&STATUS, &id, b"report".to_vec()).await.unwrap();
            operator.last(&STATUS, &id).await.unwrap()
        })
        .await;
        assert_eq!(&*report.payload, b"report");

        // The pass of a leaf node that was stolen.
        let stolen = |ends: u64| {
            let [file, _] = login::leaf(&signing, "hall", now() - 100, ends);
            let pass = file.lines().nth(1).unwrap().to_owned();
            let secret = Zeroizing::new(*signing.leaf("hall"));
            Access { user: "leaf".into(), pass, secret, ..home.access().unwrap() }
        };
        let ended = Engine::connect(&stolen(now() - 1)).await;
        assert!(matches!(ended, Err(EngineError::NotAdmitted(_))), "{ended:?}");
        let thief = Engine::connect(&stolen(now() + 86_400)).await.unwrap();
        thief.last(&DOCUMENTS, &id).await.unwrap();
        for subject in [
            DOCUMENTS.subject(&id),
            STATUS.last(&id),
            format!("$JS.API.STREAM.PURGE.{}", DOCUMENTS.name),
            format!("$JS.API.STREAM.DELETE.{}", DOCUMENTS.name),
            format!("$JS.API.CONSUMER.CREATE.{}", STATUS.name),
            "$SYS.REQ.CLAIMS.UPDATE".to_owned(),
        ] {
            forbidden(&thief, subject).await;
        }
        for subject in [STATUS.subject("*"), EVENTS.subject(&id)] {
            let heard = thief.try_hear(subject.clone()).await;
            assert!(matches!(heard, Err(EngineError::Forbidden(_))), "{subject}: {heard:?}");
        }

        // A device that is revoked is out at the leaf node too.
        home.devices.get_mut(&id).unwrap().revoked = now();
        let token = login::account(&signing, "plant", now() + 1, &home.revoked());
        Engine::connect(&home.system_access(&signing)).await.unwrap().set_account(token).await.unwrap();
        until("the leaf node's refusal", async || match Engine::connect(&device).await {
            Err(EngineError::NotAdmitted(_)) => Some(()),
            _ => None,
        })
        .await;
    });
}

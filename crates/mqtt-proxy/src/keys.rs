//! The connection that follows the rotations of the groups' keys.

use std::rc::Rc;
use std::time::Duration;

use antedate_host::fault::Fault;
use antedate_mqtt::guard::Verdict;
use antedate_mqtt_client::{Client, ConnectionLostError, Event, Qos, Settings};

use crate::shared::Shared;

/// The first pause between attempts, and the longest.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// Follows rotations for ever. Groups with static keys have none.
pub(crate) async fn follow(shared: Rc<Shared>, settings: Settings) -> Result<(), Fault> {
    let topics = shared.guard.borrow().rotation_topics();
    if topics.is_empty() {
        return std::future::pending().await;
    }
    let mut client = Client::new(&settings)?;
    let (mut pause, mut told) = (PAUSE, false);
    loop {
        match client.next().await {
            Ok(Event::Connected { .. }) => {
                if std::mem::take(&mut told) {
                    tracing::info!("the connection for the groups' keys is there again");
                }
                pause = PAUSE;
                // The queue of a new connection has room.
                let _ = client.subscribe(&topics, Qos::AtLeastOnce);
            }
            Ok(Event::Subscribed { granted: false }) => {
                tracing::warn!(
                    "the broker does not grant the subscription to {} (remedy: permit its user to read them)",
                    topics.join(", ")
                );
            }
            Ok(Event::Message(message)) => {
                let mut none = Vec::new();
                let verdict = shared.guard.borrow_mut().open(&message.topic, &message.payload, &mut none);
                match verdict {
                    Verdict::Rotated { group, epoch } => {
                        tracing::info!("group {group}: epoch {epoch} begins");
                        shared.rotated();
                    }
                    Verdict::NoRotation(why) => {
                        shared.refuse(&settings.client_id, "no rotation", &message.topic, &why.to_string());
                    }
                    _ => {}
                }
                client.ack(&message);
            }
            Ok(_) => {}
            Err(error) => {
                // Connections of applications tell that the broker is away.
                let is_own = !matches!(error, ConnectionLostError::Broken { .. });
                if is_own && !std::mem::replace(&mut told, true) {
                    tracing::warn!(
                        "no connection for the groups' keys: {error} (remedy: {})",
                        error.remedy()
                    );
                }
                tracing::debug!(%error, "the connection for keys ended");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
        }
    }
}

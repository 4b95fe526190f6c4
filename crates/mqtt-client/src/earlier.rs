//! The session of an earlier process, for MQTT 5.
//!
//! A broker may keep a session whose client has started again. The library then refuses each request
//! with a packet identifier, a subscription too, unless it has a record of the session. A subscriber
//! has no publishes on their way, and knows what it received by its state directory, so the record is
//! empty and is written nowhere.

use std::future::{Future, ready};
use std::pin::Pin;

use rumqttc_five::{PersistedAckMode, PersistedSession, SessionStore, SessionStoreError, SessionStoreKey};

type Done<'a, T> = Pin<Box<dyn Future<Output = Result<T, SessionStoreError>> + Send + 'a>>;

/// A record without content.
#[derive(Debug)]
pub(crate) struct Earlier {
    pub(crate) inflight: u16,
    /// The seconds for which the broker keeps the session.
    pub(crate) expiry: Option<u32>,
}

/// The library's version of the record.
const VERSION: u16 = 1;

impl SessionStore for Earlier {
    fn load<'a>(&'a self, key: &'a SessionStoreKey) -> Done<'a, Option<PersistedSession>> {
        let session = PersistedSession {
            format_version: VERSION,
            client_id: key.client_id().to_owned(),
            clean_start: false,
            session_expiry_interval: self.expiry,
            outgoing_inflight_upper_limit: Some(self.inflight),
            ack_mode: PersistedAckMode::Manual,
            last_pkid: 0,
            last_puback: 0,
            replay: Vec::new(),
            incoming_qos2: Vec::new(),
        };
        Box::pin(ready(Ok(Some(session))))
    }

    fn save<'a>(&'a self, _: &'a SessionStoreKey, _: &'a PersistedSession) -> Done<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    fn clear<'a>(&'a self, _: &'a SessionStoreKey) -> Done<'a, ()> {
        Box::pin(ready(Ok(())))
    }
}

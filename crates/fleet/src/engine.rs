//! The connection to NATS. Nothing here is trusted with content.

use std::future::{Future, IntoFuture};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::context::Context;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{self, DiscardPolicy, StorageType};
use async_nats::{Auth, Client, ConnectErrorKind, ConnectOptions, Event, RequestErrorKind, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use crate::identity;
pub use crate::login::Access;
use crate::subjects::{self, STATUS, Stream};

/// The time for one request.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time for which a cluster may elect a leader.
const ELECTION: Duration = Duration::from_secs(20);
/// Where the time is asked, in place of a device.
const CLOCK: &str = "clock";
/// Requests on their way at a time.
const AT_ONCE: usize = 64;
/// The longest pause between two tries to connect.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Why something at NATS failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// No server answers.
    #[error("no NATS server of {servers} answers: {why}")]
    NoServer {
        /// The addresses.
        servers: String,
        /// The reason.
        why: String,
    },
    /// A server does not accept the pass.
    #[error(
        "the NATS server at {0} does not accept this pass: it belongs to another fleet, is revoked, or has expired"
    )]
    NotAdmitted(String),
    /// The user may not do this.
    #[error("NATS forbids it: {0}")]
    Forbidden(String),
    /// A server answers with an error, or not in time.
    #[error("NATS: {0}")]
    Failed(String),
}

/// A change of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is there.
    Up,
    /// It is lost.
    Down,
    /// A server refuses something.
    Refused(String),
}

/// A connection.
#[derive(Clone)]
pub struct Engine {
    client: Client,
    context: Context,
    complaint: Arc<Mutex<String>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

/// A stored message.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The identifier in its subject.
    pub id: String,
    /// Its content.
    pub payload: Bytes,
    /// Seconds since 1970 by the server's clock.
    pub time: u64,
}

fn options(
    access: &Access,
    complaint: Arc<Mutex<String>>,
    changes: Option<UnboundedSender<Change>>,
) -> ConnectOptions {
    let (pass, secret, newer) = (access.pass.clone(), access.secret.clone(), Arc::clone(&access.newer));
    let mut options = ConnectOptions::with_auth_callback(move |nonce| {
        let newer = newer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (pass, secret) = (if newer.is_empty() { pass.clone() } else { newer }, secret.clone());
        async move {
            let mut auth = Auth::new();
            auth.jwt = Some(pass);
            auth.signature = Some(identity::sign(&secret, &nonce).to_vec());
            Ok(auth)
        }
    });
    options = options
        .name(format!("antedate {}", access.user))
        .custom_inbox_prefix(subjects::inbox(&access.user))
        .connection_timeout(PATIENCE)
        .request_timeout(Some(PATIENCE))
        .ping_interval(Duration::from_secs(20))
        .event_callback(move |event| {
            let change = match event {
                Event::Connected => Some(Change::Up),
                Event::Disconnected | Event::Closed => Some(Change::Down),
                Event::ServerError(error) => Some(Change::Refused(error.to_string())),
                Event::ClientError(error) => Some(Change::Refused(error.to_string())),
                _ => None,
            };
            if let Some(Change::Refused(what)) = &change {
                *complaint.lock().unwrap_or_else(PoisonError::into_inner) = what.clone();
            }
            if let (Some(changes), Some(change)) = (&changes, change) {
                let _ = changes.send(change);
            }
            async {}
        });
    if let Some(file) = &access.certificates {
        options = options.add_root_certificates(file.clone());
    }
    // A server's first words are in the clear, and may be anybody's: they neither name other servers
    // nor talk a client out of TLS.
    let wants_tls = access.servers.iter().any(|server| server.starts_with("tls://"));
    options.require_tls(wants_tls).ignore_discovered_servers()
}

/// The pause before the next try.
async fn again(why: &str) {
    tracing::debug!(why, "tried again");
    tokio::time::sleep(Duration::from_millis(500)).await;
}

fn is_violation(complaint: &str) -> bool {
    complaint.to_lowercase().contains("permissions violation")
}

/// The pause before a try: doubled each time, with a part that differs from device to device, so
/// that a thousand do not come at once.
fn pause(attempt: usize, spread: u64) -> Duration {
    let whole = Duration::from_millis(250).saturating_mul(1 << attempt.min(9)).min(PAUSE_MAX);
    whole / 2 + whole.mul_f64((spread % 1000) as f64 / 2000.0)
}

impl Engine {
    fn of(client: Client, complaint: Arc<Mutex<String>>) -> Self {
        let mut context = async_nats::jetstream::new(client.clone());
        context.set_timeout(PATIENCE);
        Self { client, context, complaint }
    }

    /// Connects once.
    ///
    /// # Errors
    /// When no server answers, or admits.
    pub async fn connect(access: &Access) -> Result<Self, EngineError> {
        let complaint = Arc::default();
        let connect = options(access, Arc::clone(&complaint), None).max_reconnects(Some(3));
        let servers = access.servers.join(", ");
        let client = connect.connect(&access.servers[..]).await.map_err(|error| match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                EngineError::NotAdmitted(servers)
            }
            _ => EngineError::NoServer { servers, why: error.to_string() },
        })?;
        Ok(Self::of(client, complaint))
    }

    /// Connects, now or whenever a server answers, and again after each loss. `changes` hears of it.
    ///
    /// # Errors
    /// When an address has another form.
    pub async fn stay(access: &Access, changes: UnboundedSender<Change>) -> Result<Self, EngineError> {
        let complaint = Arc::default();
        let spread = access.secret.iter().fold(7u64, |sum, octet| sum.wrapping_mul(31) ^ u64::from(*octet));
        let connect = options(access, Arc::clone(&complaint), Some(changes))
            .max_reconnects(None)
            .retry_on_initial_connect()
            .reconnect_delay_callback(move |attempt| pause(attempt, spread));
        let servers = access.servers.join(", ");
        let client = connect.connect(&access.servers[..]).await;
        let client = client.map_err(|error| EngineError::NoServer { servers, why: error.to_string() })?;
        Ok(Self::of(client, complaint))
    }

    /// The error of a request: a server's complaint says more than a missing answer.
    fn failed(&self, error: impl std::fmt::Display) -> EngineError {
        let mut complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        let said = std::mem::take(&mut *complaint);
        if is_violation(&said) {
            return EngineError::Forbidden(said);
        }
        let text = error.to_string();
        EngineError::Failed(if said.is_empty() { text } else { format!("{text} ({said})") })
    }

    /// Waits for an answer, or for a server's complaint, which comes instead of one.
    async fn answer<T, E: std::fmt::Display>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, EngineError> {
        let forbidden = async {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let said = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
                if is_violation(&said) {
                    return;
                }
            }
        };
        tokio::select! {
            answer = answer => answer.map_err(|error| self.failed(error)),
            () = forbidden => Err(self.failed("forbidden")),
        }
    }

    /// Makes the streams, or sets them right. `replicas` is 1 for a single server.
    ///
    /// # Errors
    /// When NATS refuses.
    pub async fn set_up(&self, replicas: usize) -> Result<(), EngineError> {
        for one in subjects::ALL {
            let Stream { name, per_subject, message, octets, days, refuses, .. } = one;
            let config = stream::Config {
                name: name.to_owned(),
                subjects: vec![one.subject("*")],
                max_messages_per_subject: per_subject,
                max_message_size: i32::try_from(message).unwrap_or(i32::MAX),
                max_bytes: octets,
                max_age: Duration::from_secs(days * 86_400),
                discard: if refuses { DiscardPolicy::New } else { DiscardPolicy::Old },
                storage: StorageType::File,
                num_replicas: replicas,
                allow_direct: true,
                ..stream::Config::default()
            };
            if self.context.get_stream(name).await.is_ok() {
                self.context.update_stream(&config).await.map_err(|error| self.failed(error))?;
            } else {
                self.context.create_stream(config).await.map_err(|error| self.failed(error))?;
            }
        }
        Ok(())
    }

    /// Stores a message of a device, and waits until it is stored. Tries again while a cluster elects
    /// another leader, as after the loss of a server.
    ///
    /// # Errors
    /// When NATS forbids it, or does not store it in time.
    pub async fn put(&self, stream: &Stream, id: &str, payload: impl Into<Bytes>) -> Result<(), EngineError> {
        let (payload, end) = (payload.into(), Instant::now() + ELECTION);
        loop {
            match self.put_once(stream, id, payload.clone()).await {
                Err(EngineError::Failed(why)) if Instant::now() < end => again(&why).await,
                other => return other,
            }
        }
    }

    /// As [`Self::put`], once.
    pub(crate) async fn put_once(
        &self,
        stream: &Stream,
        id: &str,
        payload: Bytes,
    ) -> Result<(), EngineError> {
        let sent = self.context.publish(stream.subject(id), payload).await;
        let stored = sent.map_err(|error| self.failed(error))?;
        self.answer(stored.into_future()).await.map(drop)
    }

    /// NATS's clock, in seconds since 1970: the time at which it stores a message of no device.
    ///
    /// # Errors
    /// When NATS does not store it, or does not show it in time.
    pub async fn time(&self) -> Result<u64, EngineError> {
        let mut mark = [0; 16];
        crate::random(&mut mark).map_err(|error| EngineError::Failed(error.to_string()))?;
        self.put_once(&STATUS, CLOCK, mark.to_vec().into()).await?;
        // Another server may answer, which follows a moment later.
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            match self.last(&STATUS, CLOCK).await? {
                Some(stored) if *stored.payload == mark => return Ok(stored.time),
                _ => again("the clock's message is not there yet").await,
            }
        }
        Err(self.failed("the clock's message is not shown"))
    }

    /// Sends a message of a device without waiting. The next one replaces it anyway.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn tell(&self, stream: &Stream, id: &str, payload: Vec<u8>) -> Result<(), EngineError> {
        self.client.publish(stream.subject(id), payload.into()).await.map_err(|error| self.failed(error))
    }

    /// The last message of a device. Any server that has the stream answers, also without a majority.
    ///
    /// # Errors
    /// When NATS forbids it, or does not answer in time.
    pub async fn last(&self, stream: &Stream, id: &str) -> Result<Option<Stored>, EngineError> {
        let asked = self.client.request(stream.last(id), Bytes::new());
        let answer = async {
            asked.await.map_err(|error| match error.kind() {
                RequestErrorKind::NoResponders => {
                    format!("nobody has {}: is this server set up by `antedate fleet init`?", stream.name)
                }
                _ => error.to_string(),
            })
        };
        let answer = self.answer(answer).await?;
        match answer.status.map(|status| status.as_u16()) {
            None | Some(200) => {}
            Some(404) => return Ok(None),
            Some(code) => return Err(self.failed(format!("status {code}"))),
        }
        let message = StreamMessage::try_from(answer).map_err(|error| self.failed(error))?;
        let time = u64::try_from(message.time.unix_timestamp()).unwrap_or_default();
        Ok(Some(Stored { id: id.to_owned(), payload: message.payload, time }))
    }

    /// The last messages of some devices. Tries again while NATS does not answer, as after the loss of a
    /// server.
    ///
    /// # Errors
    /// As [`Self::last`].
    pub async fn last_of(&self, stream: &Stream, ids: &[&str]) -> Result<Vec<Stored>, EngineError> {
        let end = Instant::now() + ELECTION;
        let asked = ids.iter().map(|id| async move {
            loop {
                match self.last(stream, id).await {
                    Err(EngineError::Failed(why)) if Instant::now() < end => again(&why).await,
                    other => return other,
                }
            }
        });
        let mut answers = futures_util::stream::iter(asked).buffer_unordered(AT_ONCE);
        let mut all = Vec::new();
        while let Some(answer) = answers.next().await {
            all.extend(answer?);
        }
        Ok(all)
    }

    /// The last message of each device, or with `history` all messages.
    ///
    /// # Errors
    /// When NATS forbids it, or does not answer in time.
    pub async fn all(&self, stream: &Stream, history: bool) -> Result<Vec<Stored>, EngineError> {
        let end = Instant::now() + ELECTION;
        loop {
            match self.read_all(stream, history).await {
                Err(EngineError::Failed(why)) if Instant::now() < end => again(&why).await,
                other => return other,
            }
        }
    }

    async fn read_all(&self, stream: &Stream, history: bool) -> Result<Vec<Stored>, EngineError> {
        let found = self.context.get_stream(stream.name).await;
        let found = found.map_err(|error| {
            self.failed(format!("{error}: is this server set up by `antedate fleet init`?"))
        })?;
        let config = pull::Config {
            deliver_policy: if history { DeliverPolicy::All } else { DeliverPolicy::LastPerSubject },
            ack_policy: AckPolicy::None,
            filter_subject: stream.subject("*"),
            inactive_threshold: Duration::from_secs(30),
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer = found.create_consumer(config).await.map_err(|error| self.failed(error))?;
        let mut all = Vec::new();
        loop {
            let batch = consumer.fetch().max_messages(1000).messages().await;
            let mut batch = batch.map_err(|error| self.failed(error))?;
            let mut pending = 0;
            // A batch has no end of its own when the server that has the consumer is lost.
            let silent =
                |_| self.failed(format!("no message of {} in {} s", stream.name, PATIENCE.as_secs()));
            while let Some(message) = timeout(PATIENCE, batch.next()).await.map_err(silent)? {
                let message = message.map_err(|error| self.failed(error))?;
                let info = message.info().map_err(|error| self.failed(error))?;
                pending = info.pending;
                let time = u64::try_from(info.published.unix_timestamp()).unwrap_or_default();
                if let Some(id) = stream.id(message.subject.as_str()) {
                    all.push(Stored { id: id.to_owned(), payload: message.payload.clone(), time });
                }
            }
            if pending == 0 {
                return Ok(all);
            }
        }
    }

    /// Hears messages of a subject as they are published.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn hear(&self, subject: String) -> Result<Subscriber, EngineError> {
        self.client.subscribe(subject).await.map_err(|error| self.failed(error))
    }

    /// Removes a device's messages from a stream.
    ///
    /// # Errors
    /// When NATS refuses.
    pub async fn forget(&self, stream: &Stream, id: &str) -> Result<(), EngineError> {
        let found = self.context.get_stream(stream.name).await.map_err(|error| self.failed(error))?;
        found.purge().filter(stream.subject(id)).await.map(drop).map_err(|error| self.failed(error))
    }

    /// Publishes the token of an account, as the system's user.
    ///
    /// # Errors
    /// When no server takes it.
    pub async fn set_account(&self, token: String) -> Result<(), EngineError> {
        let answer = self.client.request("$SYS.REQ.CLAIMS.UPDATE", token.into()).await;
        let answer = answer.map_err(|error| self.failed(error))?;
        let text = String::from_utf8_lossy(&answer.payload);
        if text.contains("\"code\":200") || text.contains("\"code\": 200") {
            return Ok(());
        }
        Err(EngineError::Failed(format!("the account is not changed: {text}")))
    }

    /// Asks on any subject, to try what is forbidden.
    ///
    /// # Errors
    /// When NATS forbids it, or nobody answers.
    pub async fn try_request(&self, subject: String, payload: Vec<u8>) -> Result<Bytes, EngineError> {
        self.answer(self.client.request(subject, payload.into())).await.map(|answer| answer.payload)
    }

    /// Listens to any subject for a moment, to try what is forbidden.
    ///
    /// # Errors
    /// When NATS forbids it.
    pub async fn try_hear(&self, subject: String) -> Result<(), EngineError> {
        let heard = self.hear(subject).await?;
        self.flush().await?;
        let moment = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<(), EngineError>(())
        };
        let tried = self.answer(moment).await;
        drop(heard);
        tried
    }

    /// Waits until all that was published is with a server.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn flush(&self) -> Result<(), EngineError> {
        self.client.flush().await.map_err(|error| self.failed(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use zeroize::Zeroizing;

    /// What NATS says of a stream.
    const STREAM: &str = r#"{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"s","subjects":["s"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1},"created":"2026-01-01T00:00:00Z","state":{"messages":1,"bytes":1,"first_seq":1,"first_ts":"2026-01-01T00:00:00Z","last_seq":1,"last_ts":"2026-01-01T00:00:00Z","consumer_count":0}}"#;
    /// What NATS says of a consumer.
    const CONSUMER: &str = r#"{"type":"io.nats.jetstream.api.v1.consumer_create_response","stream_name":"s","name":"c","created":"2026-01-01T00:00:00Z","config":{"name":"c","deliver_policy":"all","ack_policy":"none","replay_policy":"instant","num_replicas":1},"delivered":{"consumer_seq":0,"stream_seq":0},"ack_floor":{"consumer_seq":0,"stream_seq":0},"num_ack_pending":0,"num_redelivered":0,"num_waiting":0,"num_pending":1}"#;

    #[test]
    fn pauses_grow_and_differ() {
        assert!(pause(0, 0) < pause(3, 0) && pause(3, 0) < pause(9, 0));
        assert!(pause(usize::MAX, 999) <= PAUSE_MAX);
        assert_ne!(pause(5, 1), pause(5, 500));
    }

    /// Serves one client as NATS does, until the request for messages: that one has no answer.
    fn server_without_messages(listener: &TcpListener) -> std::io::Result<()> {
        let (stream, _) = listener.accept()?;
        let (mut lines, mut out) = (BufReader::new(stream.try_clone()?), stream);
        write!(
            out,
            "INFO {{\"server_id\":\"n\",\"version\":\"2.10.0\",\"headers\":true,\"max_payload\":1048576}}\r\n"
        )?;
        let mut line = String::new();
        let mut inbox = String::new();
        while lines.read_line(&mut line)? != 0 {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["PING"] => write!(out, "PONG\r\n")?,
                ["SUB", subject, number] => inbox = format!("{subject} {number}"),
                ["PUB" | "HPUB", subject, reply, .., size] => {
                    let mut body = vec![0; size.parse::<usize>().unwrap() + 2];
                    lines.read_exact(&mut body)?;
                    let content = if subject.contains("STREAM.INFO") {
                        STREAM
                    } else if subject.contains("CONSUMER.CREATE") {
                        CONSUMER
                    } else {
                        ""
                    };
                    let number = inbox.rsplit(' ').next().unwrap();
                    if !content.is_empty() {
                        write!(out, "MSG {reply} {number} {}\r\n{content}\r\n", content.len())?;
                    }
                }
                _ => {}
            }
            line.clear();
        }
        Ok(())
    }

    #[test]
    fn lost_batch_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = vec![format!("nats://{}", listener.local_addr().unwrap())];
        let server = std::thread::spawn(move || server_without_messages(&listener));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let access = Access {
            servers,
            user: "operator".into(),
            pass: "ey".into(),
            newer: Arc::default(),
            secret: Zeroizing::new([1; 32]),
            certificates: None,
        };
        let error = runtime.block_on(async {
            let engine = Engine::connect(&access).await.unwrap();
            timeout(PATIENCE * 3, engine.read_all(&subjects::STATUS, false))
                .await
                .expect("an end")
                .unwrap_err()
        });
        assert!(error.to_string().contains("no message of"), "{error}");
        drop(runtime);
        server.join().unwrap().unwrap();
    }

    #[test]
    fn first_words_name_no_server_without_tls() {
        let [first, named] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let (at, other) = (first.local_addr().unwrap(), named.local_addr().unwrap());
        let access = Access {
            servers: vec![format!("tls://{at}")],
            user: "operator".into(),
            pass: "ey".into(),
            newer: Arc::default(),
            secret: Zeroizing::new([1; 32]),
            certificates: None,
        };
        // Somebody on the way says it in the clear, and ends the connection, more than once.
        let liar = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = first.accept().unwrap();
                let info = format!("{{\"server_id\":\"n\",\"connect_urls\":[\"{other}\"]}}");
                write!(stream, "INFO {info}\r\n").unwrap();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (changes, _heard) = tokio::sync::mpsc::unbounded_channel();
        runtime.block_on(async {
            let _engine = Engine::stay(&access, changes).await.unwrap();
            tokio::time::sleep(Duration::from_secs(4)).await;
        });
        named.set_nonblocking(true).unwrap();
        assert!(named.accept().is_err(), "it goes where a cleartext line sends it");
        liar.join().unwrap();
    }

    #[test]
    fn silent_server_is_told_with_its_address() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // A port that this test holds, and where nobody listens.
        let held = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = format!("nats://127.0.0.1:{}", held.local_addr().unwrap().port());
        let access = Access {
            servers: vec![server.clone()],
            user: "operator".into(),
            pass: "ey".into(),
            newer: Arc::default(),
            secret: Zeroizing::new([1; 32]),
            certificates: None,
        };
        let error = runtime.block_on(Engine::connect(&access)).unwrap_err();
        assert!(matches!(&error, EngineError::NoServer { servers, .. } if *servers == server), "{error}");
    }
}

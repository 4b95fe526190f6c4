//! `antedate mqtt sub`.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use antedate_channel::mqtt::Opened;
use antedate_host::notify::Life;
use antedate_mqtt_client::{Message, Qos};
use clap::Args;

use super::connection::{Arrival, Link, Why, block_on};
use super::lines::{Form, Format};
use super::options::{Broker, Patience, Protection, WillArguments, qos};
use super::properties::PropertyArguments;
use crate::failure::{Done, Failure};
use crate::output;

/// Subscribe.
#[derive(Args)]
#[command(
    after_help = "Refused messages are said on standard error, and the subscriber goes on.\nExample:\n  antedate mqtt sub --keys line4.toml -t 'plant/line4/#' -v\n\n  # over a WebSocket, with properties of MQTT 5\n  antedate mqtt sub --keys line4.toml -L ws://broker.example:8080 -t 'plant/line4/#' -V 5 -F '%t %C %P %p'"
)]
pub(crate) struct Sub {
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    protection: Protection,
    /// The publisher's name, for the will [default: the device's]
    #[arg(long, value_name = "NAME", value_parser = super::keygen::name)]
    publisher: Option<String>,
    /// A filter; may be given more than once
    #[arg(short = 't', long = "topic", required_unless_present = "url")]
    topics: Vec<String>,
    /// At most once, at least once, exactly once
    #[arg(short = 'q', long, default_value = "0", value_parser = qos)]
    qos: Qos,
    /// The broker keeps the session while this client is away (needs -i)
    #[arg(short = 'c', long, requires = "id")]
    disable_clean_session: bool,
    /// Ends after this many payloads
    #[arg(short = 'C', value_name = "COUNT")]
    count: Option<u64>,
    /// Ends so many seconds after the first connection attempt. Fetching a key before that takes at
    /// most as long
    #[arg(short = 'W', value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Prints the topic before each payload, and control characters of both as \n, \r or \xNN
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Prints publisher, epoch, sequence number and age before each payload (and before its topic).
    /// The age in seconds is of topics with a most age; a - otherwise. Control characters as with -v
    #[arg(long)]
    origin: bool,
    /// Prints a JSON object for each message: the fields of mosquitto_sub's %j, publisher, epoch,
    /// sequence, and sealed (seconds since 1970) on topics with a most age
    #[arg(long, conflicts_with_all = ["verbose", "origin", "format"])]
    json: bool,
    /// The form of a message, as mosquitto_sub's: %t topic, %p payload, %x %X in hexadecimal, %l
    /// length, %m %q %r packet identifier, QoS and retain, %I %U time, %j JSON; of MQTT 5 %C content
    /// type, %R response topic, %D correlation data, %E expiry interval, %P user properties, %S
    /// identifiers of subscriptions
    #[arg(short = 'F', value_name = "FORMAT", value_parser = Format::parse, conflicts_with_all = ["verbose", "origin"])]
    format: Option<Format>,
    /// Does not print what the broker had retained
    #[arg(short = 'R')]
    no_retained: bool,
    /// Prints no newline after a payload
    #[arg(short = 'N')]
    no_newline: bool,
    #[command(flatten)]
    properties: PropertyArguments,
    #[command(flatten)]
    will: WillArguments,
}

/// Interval of writing received numbers, for messages that do not wait for it, and their most.
const WRITE_EVERY: Duration = Duration::from_secs(1);
const UNWRITTEN_MAX: usize = 4096;
/// Most messages of a batch, and about its most octets.
const BATCH_MAX: usize = 500;
const BATCH_OCTETS: usize = 1 << 20;

impl Sub {
    pub(crate) fn run(mut self) -> Done {
        self.topics.extend(self.broker.topic_of_url());
        if self.topics.is_empty() {
            return Err(Failure::usage("there is no topic", "give it with -t, or behind the host of -L"));
        }
        for filter in &self.topics {
            antedate_channel::mqtt::topic::check_filter(filter).map_err(|why| {
                Failure::usage(format!("-t {filter}: {why}"), "write a filter as for mosquitto_sub")
            })?;
        }
        let guard = self.protection.guard(self.publisher.clone())?;
        let mut settings = self.broker.settings_with(&self.properties)?;
        // The library misreads messages with the identifiers of three filters, or of two.
        if settings.properties.subscribe.1.is_some() && self.topics.len() > 1 {
            return Err(Failure::usage(
                "-D subscribe subscription-identifier: there is more than one filter, and a message may be of several",
                "leave the identifier out, or run a command for each filter",
            ));
        }
        settings.clean = !self.disable_clean_session;
        self.protection.confine(Some(&settings));
        let keep_trying = self.patience.keeps_trying();
        if keep_trying {
            // A service, whose log an operator reads.
            for group in guard.ageless() {
                output::tell(format_args!("antedate: {}", super::keygen::ageless(group)));
            }
        }
        let (mut seen, mut refused) = (0, Refused::default());
        let done = block_on(async {
            // Before the broker answers, for which a service waits.
            let life = tokio::spawn(signs(Life::begin()));
            let wanted = (self.topics.clone(), self.qos);
            let limit = self.timeout.map(Duration::from_secs);
            let mut link =
                Link::with_will(&settings, guard, wanted, &self.will, (limit, keep_trying)).await?;
            // Counted from here, since fetching a key first could exhaust a short time. A time
            // beyond the clock's range means never.
            let end = limit.and_then(|limit| Instant::now().checked_add(limit));
            let mut written = Instant::now();
            let enough = |seen| self.count.is_some_and(|count| seen >= count);
            while !enough(seen)
                && end.is_none_or(|end| Instant::now() < end)
                && !link.stop.load(Ordering::Relaxed)
            {
                let turn = link.turn(Duration::from_millis(100));
                // Includes a connection attempt.
                let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
                let arrival = tokio::time::timeout(left, turn).await.unwrap_or(Ok(Arrival::Nothing))?;
                let mut batch = Batch { no_retained: self.no_retained, ..Batch::default() };
                let room = self.count.map_or(u64::MAX, |count| count - seen);
                let ended = batch.fill(&mut link, arrival, room, &mut refused).await;
                match self.deliver(&mut link, batch).await? {
                    Some(payloads) => seen += payloads,
                    None => return Ok(()),
                }
                ended?;
                let due = link.guard.unwritten() >= UNWRITTEN_MAX || written.elapsed() > WRITE_EVERY;
                if due && link.guard.unwritten() > 0 {
                    link.guard.flush()?;
                    written = Instant::now();
                }
            }
            let keyless = link.guard.epochs().next().is_none();
            let late = !enough(seen)
                && end.is_some_and(|end| Instant::now() >= end)
                && (!link.is_subscribed() || keyless);
            let missing = link.missing();
            life.abort();
            link.finish().await?;
            match late {
                true => Err(Failure::Verdict(format!("when the time was over {missing}"))),
                false => Ok(()),
            }
        });
        refused.sum();
        done?;
        match self.count {
            Some(count) if seen < count => {
                Err(Failure::Verdict(format!("{seen} of {count} payloads came before the end")))
            }
            _ => Ok(()),
        }
    }

    /// Prints a batch, and acknowledges it. Returns the number of payloads, and `None` once nobody
    /// reads them.
    async fn deliver(&self, link: &mut Link, batch: Batch) -> Result<Option<u64>, Failure> {
        link.guard.check_store()?;
        let mut unprinted = None;
        let mut print = || {
            self.print(&batch).map_err(|error| {
                let kind = error.kind();
                unprinted = Some(error);
                kind.into()
            })
        };
        let delivered = if batch.durable {
            // Durable before it is acknowledged: a repeated message is recognised.
            link.guard.deliver(print)
        } else {
            // `unprinted` reports a failure.
            let _ = print();
            Ok(())
        };
        if let Some(error) = unprinted {
            // Unprinted messages are not recorded as received.
            link.leave().await;
            return output::unwritten(&error).map(|()| None);
        }
        delivered?;
        for (message, _) in &batch.messages {
            link.client.ack(message);
        }
        Ok(Some(batch.payloads))
    }

    fn form(&self) -> Form {
        match &self.format {
            Some(format) => Form::Format(format.clone()),
            None if self.json => Form::Json,
            None if self.origin || self.verbose => Form::Line { origin: self.origin, topic: self.verbose },
            None => Form::Payload,
        }
    }

    fn print(&self, batch: &Batch) -> std::io::Result<()> {
        if batch.payloads == 0 {
            return Ok(());
        }
        let form = self.form();
        let mut text = Vec::with_capacity(batch.octets);
        for (message, payload) in &batch.messages {
            let Some((payload, opened)) = payload else { continue };
            form.put(message, payload, opened, &mut text);
            // As in mosquitto_sub, an empty payload alone is no line.
            let unseen = payload.is_empty() && matches!(form, Form::Payload);
            if !(self.no_newline || unseen) {
                text.push(b'\n');
            }
        }
        let mut out = std::io::stdout().lock();
        out.write_all(&text).and_then(|()| out.flush())
    }
}

/// Signs of life to a service manager, as long as the event loop turns.
async fn signs(mut life: Life) {
    while let Some(every) = life.every() {
        tokio::time::sleep(every).await;
        life.sign();
    }
    std::future::pending().await
}

/// An opened payload and its origin.
type Payload = (Vec<u8>, Opened);

/// The messages that have come already, made durable by one write and printed together.
#[derive(Default)]
struct Batch {
    /// In the order of their arrival, in which they must be acknowledged [MQTT-4.6.0-2]. Refused
    /// ones have no payload.
    messages: Vec<(Message, Option<Payload>)>,
    payloads: u64,
    octets: usize,
    /// Whether a payload is of QoS 1 or 2.
    durable: bool,
    /// Whether retained ones are received without a payload to print.
    no_retained: bool,
}

impl Batch {
    /// Takes an arrival and those that wait behind it. An error ends the batch, which counts.
    async fn fill(&mut self, link: &mut Link, first: Arrival, room: u64, refused: &mut Refused) -> Done {
        let mut arrival = first;
        loop {
            match arrival {
                // An empty payload that the broker retains says that there is none any more.
                Arrival::Payload(message, payload, _)
                    if message.retain && (self.no_retained || payload.is_empty()) =>
                {
                    self.durable |= message.qos > 0;
                    self.messages.push((message, None));
                }
                Arrival::Payload(message, payload, opened) => {
                    self.payloads += 1;
                    self.octets += message.topic.len() + payload.len() + 2;
                    self.durable |= message.qos > 0;
                    self.messages.push((message, Some((payload, opened))));
                }
                Arrival::Refused(message, why) => {
                    refused.say(&message.topic, why);
                    self.messages.push((message, None));
                }
                Arrival::Nothing => {}
            }
            let full = self.messages.len() >= BATCH_MAX || self.octets >= BATCH_OCTETS;
            if full || self.payloads >= room || self.messages.is_empty() || !link.has_more() {
                return Ok(());
            }
            arrival = link.turn(Duration::ZERO).await?;
        }
    }
}

/// Refusals by kind. Each kind is reported at once, then ever more rarely, so the log cannot be
/// flooded.
#[derive(Default)]
struct Refused(BTreeMap<String, u64>);

impl Refused {
    fn say(&mut self, topic: &str, Why { kind, text, remedy }: Why) {
        if let Some(count) = self.count(kind) {
            let times = if count > 10 { format!(" ({count} times)") } else { String::new() };
            output::tell(format_args!("antedate: {topic}: refused{times}: {text} (remedy: {remedy})"));
        }
    }

    /// Counts a refusal. Returns the count if it is to be reported.
    fn count(&mut self, kind: String) -> Option<u64> {
        let count = self.0.entry(kind).or_default();
        *count += 1;
        (*count <= 10 || count.is_power_of_two()).then_some(*count)
    }

    fn sum(&self) {
        let sum: u64 = self.0.values().sum();
        if sum > 0 {
            output::tell(format_args!("antedate: {sum} messages refused"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use antedate_channel::mqtt::{Algorithm, Group, Material, Publisher, Reserved};

    #[test]
    fn invented_names_do_not_flood_the_log() {
        let (mut group, mut refused) = (Group::new("g", Algorithm::A128Gcm), Refused::default());
        group.install(1, &[1; 32]);
        let mut said = 0;
        for name in 0..3000u32 {
            let name: Vec<u8> = name.to_string().bytes().map(|digit| digit + b'A' - b'0').collect();
            let material = Material::derive("g", Algorithm::A128Gcm, 1, &[2; 32], &name).expect("a name");
            let mut envelope = Vec::new();
            let mut publisher = Publisher::new(&material, Reserved::new(1, 2));
            publisher.seal("t", b"x", &mut envelope).expect("sealed");
            let refusal = group.open("t", &envelope, &mut Vec::new()).expect_err("another key");
            said += usize::from(refused.count(refusal.name().into()).is_some());
        }
        assert_eq!((said, refused.0.values().sum::<u64>()), (18, 3000));
    }
}

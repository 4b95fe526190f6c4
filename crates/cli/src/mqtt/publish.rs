//! `antedate mqtt pub`.

use std::collections::VecDeque;
use std::future::ready;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use antedate_channel::mqtt::PayloadTemplate;
use antedate_mqtt_client::Qos;
use clap::{ArgGroup, Args};
use tokio::sync::mpsc;

use super::connection::{Link, block_on};
use super::options::{Broker, Patience, Protection, WillArguments, qos};
use super::properties::PropertyArguments;
use crate::failure::{Done, Failure};

/// Publish.
#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true).args(["message", "file", "lines", "null_message", "template"])))]
#[command(
    after_help = "Example:\n  antedate mqtt pub --keys line4.toml --state /var/lib/antedate/press7 --publisher press7 \\\n    -t plant/line4/press7/force -m '{\"kN\":81.5}'\n\n  # over a WebSocket with TLS, with properties of MQTT 5\n  antedate mqtt pub --keys line4.toml --state /var/lib/antedate/press7 --publisher press7 \\\n    -L wss://broker.example/plant/line4/press7/force -m 81.5 -D publish content-type text/plain -D publish user-property unit kN"
)]
pub(crate) struct Pub {
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    protection: Protection,
    /// The publisher's name, unique in the group [default: the device's]
    #[arg(long, value_name = "NAME", value_parser = super::keygen::name)]
    publisher: Option<String>,
    /// The topic
    #[arg(short = 't', long, default_value = "", hide_default_value = true)]
    topic: String,
    /// The payload
    #[arg(short = 'm', long, allow_hyphen_values = true)]
    message: Option<String>,
    /// A file whose content is the payload, - for standard input
    #[arg(short = 'f', long)]
    file: Option<PathBuf>,
    /// Each line of standard input is a payload; empty lines are skipped
    #[arg(short = 'l', long = "stdin-line")]
    lines: bool,
    /// An empty payload. With -r it clears the retained message for all members: the broker retains the
    /// sealed empty one in its place
    #[arg(short = 'n', long)]
    null_message: bool,
    /// A payload with holes (runs of @), prepared before its values come; each line of standard
    /// input has the values of one; empty lines have none
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    template: Option<String>,
    /// At most once, at least once, exactly once
    #[arg(short = 'q', long, default_value = "0", value_parser = qos)]
    qos: Qos,
    /// The broker keeps the message for later subscribers
    #[arg(short = 'r', long)]
    retain: bool,
    #[command(flatten)]
    properties: PropertyArguments,
    #[command(flatten)]
    will: WillArguments,
}

/// Most publishes that wait while more are read.
const WINDOW: usize = 500;
/// Octets of standard input that are read at once.
const INPUT: usize = 64 * 1024;

impl Pub {
    pub(crate) fn run(mut self) -> Done {
        match (self.topic.is_empty(), self.broker.topic_of_url()) {
            (true, Some(topic)) => self.topic = topic,
            (false, None) => {}
            (true, None) => {
                return Err(Failure::usage("there is no topic", "give it with -t, or behind the host of -L"));
            }
            (false, Some(_)) => {
                return Err(Failure::usage("-t and -L both have a topic", "give one of them"));
            }
        }
        let template = self.template.as_ref().map(|text| {
            PayloadTemplate::marked(&self.topic, text.as_bytes()).map_err(|error| {
                Failure::usage(format!("--template: {error}"), "write @ for each byte of a value")
            })
        });
        let template = template.transpose()?;
        let whole = self.whole()?;
        let guard = self.protection.guard(self.publisher.clone())?;
        if !guard.covers(&self.topic) {
            return Err(antedate_mqtt::guard::SealError::NoGroup(self.topic).into());
        }
        let settings = self.broker.settings_with(&self.properties)?;
        self.protection.confine(Some(&settings));
        let keep_trying = self.patience.keeps_trying();
        block_on(async {
            let mut link =
                Link::with_will(&settings, guard, (Vec::new(), self.qos), &self.will, (None, keep_trying))
                    .await?;
            link.settle().await?;
            let sent = match whole {
                _ if link.stop.load(Ordering::Relaxed) && !link.guard.has_keys() => {
                    Err(Failure::Verdict("stopped before the key came".into()))
                }
                Some(payload) => self.publish(&mut link, &payload),
                None => self.stream(&mut link, template).await,
            };
            // Accepted publishes are sent, even if the next could not be sealed.
            while link.waiting() > 0 && !link.stop.load(Ordering::Relaxed) {
                match link.turn(Duration::from_millis(200)).await {
                    Ok(arrival) => link.told(arrival),
                    Err(failure) => return sent.and(Err(failure)),
                }
            }
            let waiting = link.waiting();
            link.finish().await?;
            sent?;
            if waiting > 0 {
                return Err(Failure::Verdict(format!("stopped, and {waiting} messages were not confirmed")));
            }
            Ok(())
        })
    }

    /// The payload, unless payloads come line by line.
    fn whole(&self) -> Result<Option<Vec<u8>>, Failure> {
        if let Some(message) = &self.message {
            return Ok(Some(message.clone().into_bytes()));
        }
        if self.null_message {
            return Ok(Some(Vec::new()));
        }
        let Some(file) = &self.file else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = if file.as_os_str() == "-" {
            std::io::stdin().read_to_end(&mut bytes).map(drop)
        } else {
            std::fs::read(file).map(|read| bytes = read)
        };
        read.map_err(|error| {
            Failure::usage(format!("{}: {error}", file.display()), "give a file that can be read")
        })?;
        Ok(Some(bytes))
    }

    fn publish(&self, link: &mut Link, payload: &[u8]) -> Done {
        let mut envelope = Vec::new();
        link.guard.seal(&self.topic, payload, &mut envelope)?;
        link.send(&self.topic, envelope, self.qos, self.retain)
    }

    /// Publishes each line, or with a template a payload with each line's values.
    async fn stream(&self, link: &mut Link, template: Option<PayloadTemplate>) -> Done {
        let (sender, mut batches) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut input = BufReader::with_capacity(INPUT, std::io::stdin());
            while let Some(batch) = lines(&mut input) {
                let failed = batch.last().is_some_and(Result::is_err);
                if sender.blocking_send(batch).is_err() || failed {
                    break;
                }
            }
        });
        let mut read = VecDeque::new();
        loop {
            if link.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            // Prepared before the values come. A failure is reported with the values.
            if let Some(template) = &template {
                let _ = link.guard.antedate(template);
            }
            let has_room = link.is_connected() && link.waiting() < WINDOW;
            let line = tokio::select! {
                biased;
                () = ready(()), if has_room && !read.is_empty() => read.pop_front(),
                batch = batches.recv(), if has_room => match batch {
                    Some(batch) => {
                        read.extend(batch);
                        continue;
                    }
                    None => None,
                },
                turned = link.turn(Duration::from_millis(200)) => {
                    let arrival = turned?;
                    link.told(arrival);
                    continue;
                }
            };
            let Some(line) = line else { return Ok(()) };
            let line = line.map_err(|error| {
                Failure::usage(format!("standard input: {error}"), "give lines that can be read")
            })?;
            match &template {
                // Like mosquitto_pub.
                None if line.is_empty() => {}
                Some(_) if line.trim_ascii().is_empty() => {}
                None => self.publish(link, &line)?,
                Some(template) => {
                    let mut envelope = Vec::new();
                    let values = values(template, &line)?;
                    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                    link.guard.seal_values(template, &values, &mut envelope)?;
                    link.send(&self.topic, envelope, self.qos, self.retain)?;
                }
            }
        }
    }
}

/// The next line, and those behind it that have come already. `None` at the end.
fn lines<R: Read>(input: &mut BufReader<R>) -> Option<Vec<io::Result<Vec<u8>>>> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        let read = input.read_until(b'\n', &mut line).map(|count| {
            line.pop_if(|last| *last == b'\n');
            (count > 0).then_some(line)
        });
        let failed = read.is_err();
        lines.extend(read.transpose());
        // Another one would have to be waited for.
        if failed || lines.len() >= WINDOW || !input.buffer().contains(&b'\n') {
            return (!lines.is_empty()).then_some(lines);
        }
    }
}

/// The words of a line, padded in front with spaces to the holes' lengths.
fn values(template: &PayloadTemplate, line: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    if words.len() != template.holes().len() {
        let what = format!(
            "a line has {} values, but the template has {} holes",
            words.len(),
            template.holes().len()
        );
        return Err(Failure::usage(
            what,
            "write the values of one publish on a line, with spaces between them",
        ));
    }
    let padded = words.iter().zip(template.holes()).map(|(word, hole)| {
        let mut value = vec![b' '; hole.len().saturating_sub(word.len())];
        value.extend_from_slice(word);
        value
    });
    Ok(padded.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_have_come_are_read_together() {
        let all = |text: &[u8], capacity| {
            let mut input = BufReader::with_capacity(capacity, text);
            let batches = std::iter::from_fn(|| lines(&mut input));
            batches
                .map(|batch| batch.into_iter().map(|line| line.expect("read")).collect())
                .collect::<Vec<Vec<_>>>()
        };
        assert_eq!(all(b"one\n\nthree", 64), [vec![b"one".to_vec(), vec![]], vec![b"three".to_vec()]]);
        assert_eq!(all(b"one\ntwo\n", 4), [[b"one".to_vec()], [b"two".to_vec()]]);
        let many = b"x\n".repeat(WINDOW + 1);
        assert_eq!(all(&many, many.len()).iter().map(Vec::len).collect::<Vec<_>>(), [WINDOW, 1]);
        assert!(all(b"", 64).is_empty());
    }

    #[test]
    fn values_are_the_words_of_a_line() {
        let template = PayloadTemplate::marked("t", b"{\"a\":@@@@,\"b\":@@}").expect("a template");
        let found = values(&template, b" 1.5  22\r").expect("two values");
        assert_eq!(found, [b" 1.5".to_vec(), b"22".to_vec()]);
        assert!(values(&template, b"1").is_err());
    }
}

//! `antedate mqtt enrol` on the device; `admit` and `replace` at the manager.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use antedate_channel::mqtt::enrol::{self, Code, EnrolError, Request, fingerprint};
use antedate_host::fault::Fault;
use antedate_host::private_file;
use antedate_mqtt::file::{Device, GroupFile};
use antedate_mqtt::guard::Guard;
use antedate_mqtt::manage::{self, Announcement};
use antedate_mqtt_client::Qos;
use clap::Args;

use super::connection::{Arrival, Link, block_on};
use super::options::{Broker, Patience};
use crate::failure::{Done, Failure, ValueError};
use crate::output;

/// Interval of publishing a request again, because another client may have overwritten it.
const AGAIN: Duration = Duration::from_secs(10);
/// The longest request or answer in a file: a group file with all members.
const MESSAGE_MAX: u64 = 8 << 20;
/// Most unconfirmed announcements.
const WAITING_MAX: usize = 256;

fn code(text: &str) -> Result<Code, ValueError> {
    text.parse::<Code>().map_err(ValueError::new)
}

/// The topic of a device's request.
fn request_topic(group: &str, name: &str) -> String {
    format!("antedate/enrol/{group}/{name}")
}

/// The topic of the manager's answer.
fn answer_topic(group: &str, name: &str) -> String {
    format!("antedate/enrol/{group}/{name}/answer")
}

/// Enrol.
#[derive(Args)]
pub(crate) struct Enrol {
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    patience: Patience,
    /// The name of the group
    #[arg(long, value_name = "NAME", value_parser = super::keygen::name)]
    group: String,
    /// The device's own key. It is made if there is none
    #[arg(long, value_name = "FILE")]
    device: PathBuf,
    /// The device's name, for a key that is made
    #[arg(long, value_name = "NAME", value_parser = super::keygen::name)]
    name: Option<String>,
    /// The group file to write, for --keys of the other commands
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
    /// Seconds to wait for the manager's answer
    #[arg(short = 'W', value_name = "SECONDS", default_value_t = 3600)]
    timeout: u64,
    /// Without a broker: writes the request into this file, for the manager's --request
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Without a broker: the manager's answer to --request, whose code --code gives
    #[arg(long, value_name = "FILE", requires = "request")]
    answer: Option<PathBuf>,
    /// The code that --request showed
    #[arg(long, value_name = "CODE", value_parser = code, requires = "answer")]
    code: Option<Code>,
}

impl Enrol {
    pub(crate) fn run(self) -> Done {
        if self.keys.exists() {
            let what = format!("{}: exists already", self.keys.display());
            return Err(Failure::usage(what, "give --keys another name, or move the old file away"));
        }
        if let (Some(request), Some(answer)) = (&self.request, &self.answer) {
            let code = self.code.clone().map_or_else(read_code, Ok)?;
            return self.answered(&read(request)?, &read(answer)?, &code);
        }
        let device = self.device()?;
        let (public, verify) = (device.public(), device.verify());
        let code = Code::new(getrandom::fill).map_err(no_random)?;
        let wish = Request { name: device.name.clone(), public, verify };
        let request = enrol::request(&self.group, &wish, &code, getrandom::fill).map_err(no_random)?;
        let shown = format!(
            "{}: fingerprint {}\ncode {}\n",
            device.name,
            fingerprint(&public, &verify),
            *code.to_text()
        );
        if let Some(file) = &self.request {
            write(file, &request)?;
            return output::print(&format!(
                "{shown}at the manager: antedate mqtt admit --group FILE --request {0} --answer ANSWER {1}, then here --answer ANSWER\n",
                file.display(),
                device.name
            ));
        }
        let shown = format!("{shown}at the manager: antedate mqtt admit --group FILE {}\n", device.name);
        let answer = self.ask(&device.name, &request, &code, &shown)?;
        self.answered(&request, &answer, &code)
    }

    /// The device's own key, made if there is none.
    fn device(&self) -> Result<Device, Failure> {
        if self.device.exists() {
            let device = Device::load(&self.device)?;
            return match &self.name {
                Some(name) if *name != device.name => Err(Failure::usage(
                    format!("{}: is of {}, not of {name}", self.device.display(), device.name),
                    "leave --name out, or give --device another file",
                )),
                _ => Ok(device),
            };
        }
        let name = self.name.clone().ok_or_else(|| {
            let what = format!("{}: there is no such file", self.device.display());
            Failure::usage(what, "give the device's name with --name, and the key is made")
        })?;
        let device = Device { name, secret: manage::random()? };
        private_file::create(&self.device, &device.to_text())?;
        Ok(device)
    }

    /// Publishes the request until it is answered. Shows the code once the broker is there: nobody
    /// shall carry one to the manager for nothing.
    fn ask(&self, name: &str, request: &[u8], code: &Code, shown: &str) -> Result<Vec<u8>, Failure> {
        let settings = self.broker.settings()?;
        let (asks, answers) = (request_topic(&self.group, name), answer_topic(&self.group, name));
        let end = Instant::now().checked_add(Duration::from_secs(self.timeout));
        block_on(async {
            let mut link = Link::new(
                &settings,
                nobody(),
                vec![answers.clone()],
                Qos::AtLeastOnce,
                self.patience.keeps_trying(),
            )?;
            link.send(&asks, request.to_vec(), Qos::AtLeastOnce, true)?;
            let (mut sent, mut told, mut unseen) = (Instant::now(), None, true);
            let answer = loop {
                if link.is_connected() && link.is_subscribed() && std::mem::take(&mut unseen) {
                    output::print(shown)?;
                }
                if end.is_some_and(|end| Instant::now() >= end) || link.stop.load(Ordering::Relaxed) {
                    let why = format!("the manager of {} has not answered", self.group);
                    return Err(Failure::Verdict(format!(
                        "{why} (remedy: let it call antedate mqtt admit with the code meanwhile, or give -W more)"
                    )));
                }
                if let Arrival::Refused(message, _) = link.turn(Duration::from_millis(200)).await? {
                    link.client.ack(&message);
                    match enrol::open_answer(&self.group, request, &message.payload, code) {
                        Ok(_) => break message.payload,
                        // The last answer, or somebody's. It is said once of each kind.
                        Err(why) if !message.payload.is_empty() && told != Some(why) => {
                            output::tell(format_args!("antedate: {answers}: {why}; waiting on"));
                            told = Some(why);
                        }
                        Err(_) => {}
                    }
                }
                if link.is_connected() && link.waiting() == 0 && sent.elapsed() > AGAIN {
                    link.send(&asks, request.to_vec(), Qos::AtLeastOnce, true)?;
                    sent = Instant::now();
                }
            };
            let over =
                [asks.clone(), answers.clone()].map(|topic| Ok(Announcement { topic, message: Vec::new() }));
            publish(&mut link, over.into_iter()).await?;
            link.finish().await?;
            Ok(answer)
        })
    }

    /// Writes the group file of an answer.
    fn answered(&self, request: &[u8], answer: &[u8], code: &Code) -> Done {
        let text = enrol::open_answer(&self.group, request, answer, code).map_err(|why| {
            Failure::usage(format!("the answer {why}"), "give the answer to this request, with its code")
        })?;
        let group = GroupFile::parse(&self.keys, &text)?;
        if group.group != self.group || group.manager.is_none() {
            return Err(Failure::usage(
                "the answer has no file of this group with a manager",
                "look which version of antedate the manager has",
            ));
        }
        private_file::create(&self.keys, &text)?;
        output::print(&format!(
            "{}: group {} with the topics {}\n",
            self.keys.display(),
            group.group,
            group.topics.join(" ")
        ))
    }
}

/// What the manager needs to know a request.
#[derive(Args)]
struct Asked {
    #[command(flatten)]
    broker: Broker,
    /// The manager's group file
    #[arg(long, value_name = "FILE")]
    group: PathBuf,
    /// The code that the device shows. Without it, it is read from standard input, where `ps` does not
    /// show it
    #[arg(long, value_name = "CODE", value_parser = code)]
    code: Option<Code>,
    /// Seconds to wait for the device's request
    #[arg(short = 'W', value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// The device's request in a file, instead of at the broker
    #[arg(long, value_name = "FILE", requires = "answer")]
    request: Option<PathBuf>,
    /// The file for the answer to --request
    #[arg(long, value_name = "FILE", requires = "request")]
    answer: Option<PathBuf>,
}

/// What a change of the members leaves to publish.
enum Change {
    /// The newest key for the named member alone.
    One,
    /// The newest key for all.
    All,
}

impl Asked {
    /// Finds the request of a named device, lets `change` change the group, and publishes the key and
    /// the answer.
    fn serve(
        self,
        name: &str,
        change: impl FnOnce(&mut manage::Manager, &Request, &Code) -> Result<Change, Failure>,
    ) -> Done {
        let settings = self.broker.settings()?;
        let mut manager = manage::Manager::open(&self.group)?;
        let code = self.code.clone().map_or_else(read_code, Ok)?;
        let group = manager.group().group.clone();
        let (asks, answers) = (request_topic(&group, name), answer_topic(&group, name));
        let given = self.request.as_deref().map(read).transpose()?;
        if let Some(request) = &given {
            known(&group, name, request, &code)?;
        }
        let filters = if given.is_none() { vec![asks.clone()] } else { Vec::new() };
        block_on(async {
            let mut link = Link::new(&settings, nobody(), filters, Qos::AtLeastOnce, false)?;
            let request = match given {
                Some(request) => request,
                None => self.wait(&mut link, &group, name, &code).await?,
            };
            let device = known(&group, name, &request, &code)?;
            let change = change(&mut manager, &device, &code)?;
            let text = manager.group().to_checked_text(true)?;
            let answer = enrol::answer(&group, &request, &text, &code);
            let again = || {
                format!(
                    "the file has the change; the same command publishes the rest: {}",
                    self.group.display()
                )
            };
            let published = async {
                match change {
                    Change::One => publish(&mut link, [manager.announcement_for(name)].into_iter()).await?,
                    Change::All => publish(&mut link, manager.announcements()).await?,
                };
                match &self.answer {
                    Some(file) => write(file, &answer)?,
                    None => {
                        let last = [(answers, answer), (asks, Vec::new())];
                        let last = last.map(|(topic, message)| Ok(Announcement { topic, message }));
                        publish(&mut link, last.into_iter()).await?;
                    }
                }
                link.finish().await
            };
            published.await.map_err(|failure| match failure {
                Failure::Verdict(why) => Failure::Verdict(format!("{why}; {}", again())),
                other => other,
            })?;
            let shown = fingerprint(&device.public, &device.verify);
            output::print(&format!(
                "group {group}: {name} is a member from epoch {} on, fingerprint {shown}\n",
                manager.group().epoch()
            ))?;
            if !manager.group().signed.is_empty() {
                output::tell(format_args!(
                    "antedate: group {group} has signed topics: give the other members its new file too (antedate keygen mqtt --for-members)"
                ));
            }
            Ok(())
        })
    }

    /// The retained request of a device, with this code.
    async fn wait(&self, link: &mut Link, group: &str, name: &str, code: &Code) -> Result<Vec<u8>, Failure> {
        let end = Instant::now().checked_add(Duration::from_secs(self.timeout));
        let mut seen: Option<EnrolError> = None;
        loop {
            if let Arrival::Refused(message, _) = link.turn(Duration::from_millis(200)).await? {
                link.client.ack(&message);
                match enrol::open_request(group, &message.payload, code) {
                    Ok(_) => return Ok(message.payload),
                    Err(_) if message.payload.is_empty() => {}
                    Err(why) => {
                        if seen != Some(why) {
                            output::tell(format_args!("antedate: {}: {why}; waiting on", message.topic));
                        }
                        seen = Some(why);
                    }
                }
            }
            if link.stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end) {
                let why = match seen {
                    Some(EnrolError::Code) => {
                        "the request there was made with another code, or not by the device"
                    }
                    Some(_) => "what is there is no request of a device",
                    None => "no request is there",
                };
                return Err(Failure::usage(
                    format!("{}: {why}, and nobody was admitted", request_topic(group, name)),
                    "compare the code with the device's, let antedate mqtt enrol run there, or carry the request in a file (--request)",
                ));
            }
        }
    }
}

/// Admit.
#[derive(Args)]
pub(crate) struct Admit {
    #[command(flatten)]
    asked: Asked,
    /// The device's name
    #[arg(value_parser = super::keygen::name)]
    name: String,
    /// The device reads only
    #[arg(long)]
    reader: bool,
}

impl Admit {
    pub(crate) fn run(self) -> Done {
        let Self { asked, name, reader } = self;
        asked.serve(&name, |manager, device, code| {
            manager.admit(device, code, !reader)?;
            Ok(Change::One)
        })
    }
}

/// Replace.
#[derive(Args)]
pub(crate) struct Replace {
    #[command(flatten)]
    asked: Asked,
    /// The member's name, which the new device keeps
    #[arg(value_parser = super::keygen::name)]
    name: String,
    /// The new device's public key, for one that does not enrol
    #[arg(long, value_name = "PUBLIC[:VERIFY]", value_parser = super::keygen::keys, conflicts_with_all = ["code", "request"])]
    public: Option<([u8; 32], Option<[u8; 32]>)>,
}

impl Replace {
    pub(crate) fn run(self) -> Done {
        let Self { asked, name, public } = self;
        let Some((public, verify)) = public else {
            return asked.serve(&name, |manager, device, code| {
                manager.replace(device, Some(code))?;
                // A second call publishes again what the first may not have.
                Ok(Change::All)
            });
        };
        let device = Request { name: name.clone(), public, verify: verify.unwrap_or_default() };
        let settings = asked.broker.settings()?;
        let mut manager = manage::Manager::open(&asked.group)?;
        block_on(async {
            let mut link = Link::new(&settings, nobody(), Vec::new(), Qos::AtLeastOnce, false)?;
            link.settle().await?;
            manager.replace(&device, None)?;
            let published = publish(&mut link, manager.announcements()).await;
            published.map_err(|failure| unpublished(failure, &asked.group))?;
            link.finish().await?;
            output::print(&format!(
                "group {}: {name} has another device from epoch {} on\n",
                manager.group().group,
                manager.group().epoch()
            ))
        })
    }
}

/// What remains to do after a key could not be published.
pub(super) fn unpublished(failure: Failure, group: &Path) -> Failure {
    match failure {
        Failure::Verdict(why) => Failure::Verdict(format!(
            "{why}; the new key is in the file: antedate mqtt rotate --again --group {} publishes it",
            group.display()
        )),
        other => other,
    }
}

/// A guard without groups: whatever arrives is not sealed.
fn nobody() -> Guard {
    Guard::new(Vec::new(), None, None, None)
}

/// Publishes messages that the broker retains, and waits until it has confirmed all. Returns their
/// number and the length of the longest.
pub(super) async fn publish(
    link: &mut Link,
    messages: impl Iterator<Item = Result<Announcement, Fault>>,
) -> Result<(usize, usize), Failure> {
    let (mut count, mut longest) = (0, 0);
    for one in messages {
        let Announcement { topic, message } = one?;
        longest = longest.max(message.len());
        count += 1;
        link.send(&topic, message, Qos::AtLeastOnce, true)?;
        drain(link, WAITING_MAX).await?;
    }
    drain(link, 1).await?;
    if link.waiting() > 0 {
        return Err(Failure::Verdict("stopped before the broker had confirmed it".into()));
    }
    Ok((count, longest))
}

/// Waits until fewer publishes than these are unconfirmed.
async fn drain(link: &mut Link, below: usize) -> Done {
    while link.waiting() >= below && !link.stop.load(Ordering::Relaxed) {
        // Late requests of devices are not wanted any more.
        if let Arrival::Refused(message, _) = link.turn(Duration::from_millis(200)).await? {
            link.client.ack(&message);
        }
    }
    Ok(())
}

/// The request of a named device.
fn known(group: &str, name: &str, request: &[u8], code: &Code) -> Result<Request, Failure> {
    let device = enrol::open_request(group, request, code).map_err(|why| {
        Failure::usage(format!("the request {why}"), "compare the code with the one that the device shows")
    })?;
    if device.name != name {
        let what = format!("the request is of {}, not of {name}", device.name);
        return Err(Failure::usage(what, "give the name of the device that shows this code"));
    }
    Ok(device)
}

/// The code, from standard input.
fn read_code() -> Result<Code, Failure> {
    output::tell("antedate: type the code that the device shows");
    let mut line = zeroize::Zeroizing::new(String::with_capacity(128));
    let read = std::io::stdin().lock().read_line(&mut line);
    let wrong =
        |why: String| Failure::usage(why, "give the code with --code, or as a line on standard input");
    read.map_err(|error| wrong(format!("no code: {error}")))?;
    line.trim().parse().map_err(|error: enrol::CodeError| wrong(error.to_string()))
}

fn no_random(error: getrandom::Error) -> Failure {
    Failure::usage(format!("the system gives no random numbers: {error}"), "no code can be made here")
}

/// Reads a request or an answer.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |error| Fault::of_io(file, "read", &error, "give the file that the other side wrote");
    let length = std::fs::metadata(file).map_err(cannot)?.len();
    if length > MESSAGE_MAX {
        return Err(Fault::of_file(
            file,
            "is too long for an enrolment",
            "give the file that the other side wrote",
        )
        .into());
    }
    Ok(std::fs::read(file).map_err(cannot)?)
}

/// Writes a request or an answer, which are no secrets.
fn write(file: &Path, message: &[u8]) -> Done {
    let cannot =
        |error| Fault::of_io(file, "write", &error, "give a file in a directory that you can write to");
    Ok(std::fs::write(file, message).map_err(cannot)?)
}

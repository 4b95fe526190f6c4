//! The options of `mosquitto_pub` and `mosquitto_sub`, and of the protection.

use std::path::PathBuf;

use antedate_hardening::confine::{Capability, Needs};
use antedate_hardening::stack;
use antedate_host::{private_file, process};
use antedate_mqtt::guard::{Guard, SealError};
use antedate_mqtt::load::Files;
use antedate_mqtt_client::{Properties, Qos, Settings, Tls, Version, Will};
use clap::Args;

use super::properties::PropertyArguments;
use super::url::Url;
use crate::failure::{Failure, ValueError};
use crate::gateway::run::trust_agent;
use crate::hardened;
use crate::output;

/// Debian's directory of trusted authorities, for `-L mqtts://` without another one.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs";
/// The longest password file: MQTT's longest password is 65,535 octets.
const PASSWORD_MAX: usize = (1 << 16) + 2;

/// The broker and the protocol.
#[derive(Args)]
pub(super) struct Broker {
    /// Prints this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// The broker
    #[arg(short = 'h', long, default_value = "localhost")]
    host: String,
    /// Its port [default: 1883, 8883 with TLS, 80 and 443 with a WebSocket]
    #[arg(short = 'p', long)]
    port: Option<u16>,
    /// The client identifier [default: a random one]
    #[arg(short = 'i', long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: Option<String>,
    /// The user at the broker
    #[arg(short = 'u', long)]
    username: Option<String>,
    /// The user's password
    #[arg(short = 'P', long, requires = "username", allow_hyphen_values = true)]
    pw: Option<String>,
    /// A file whose first line is the password, for which `ps` shows no password
    #[arg(long, value_name = "FILE", requires = "username", conflicts_with = "pw")]
    pw_file: Option<PathBuf>,
    #[arg(
        help = "Broker, user, password and topic in one: mqtt(s)://[USER[:PASSWORD]@]HOST[:PORT][/TOPIC]; ws(s):// over a WebSocket"
    )]
    #[arg(short = 'L', long, value_parser = Url::parse, conflicts_with_all = ["host", "port", "username", "pw"])]
    url: Option<Url>,
    /// Certificates (PEM) to verify the broker's; turns TLS on
    #[arg(long, value_name = "FILE")]
    cafile: Option<PathBuf>,
    /// A directory of such files; turns TLS on
    #[arg(long, value_name = "DIRECTORY")]
    capath: Option<PathBuf>,
    /// The client's own certificate and those up to its authority (PEM), for a broker that asks for it
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Takes a broker's certificate of any name, if its authority is known. Any host with such a
    /// certificate can then read topics and drop payloads
    #[arg(long)]
    insecure: bool,
    /// Connects over a WebSocket, as -L ws://HOST (wss:// with TLS)
    #[arg(long)]
    ws: bool,
    /// The path of the WebSocket at the broker
    #[arg(long, value_name = "PATH", default_value = "/mqtt")]
    ws_path: String,
    /// A pre-shared key, which the TLS library does not have
    #[arg(long, hide = true)]
    psk: Option<String>,
    /// Its name
    #[arg(long, hide = true)]
    psk_identity: Option<String>,
    /// The protocol: 311 (or mqttv311) or 5 (or mqttv5) [default: 311, or 5 with -D]
    #[arg(short = 'V', long, value_parser = version)]
    protocol_version: Option<Version>,
    /// Seconds between keep-alive messages
    #[arg(short = 'k', long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(5..))]
    keepalive: u16,
}

/// The patience with a broker.
#[derive(Args)]
pub(super) struct Patience {
    /// Waits as long as it takes for a broker that is away or refuses this client [default in a systemd
    /// service]
    #[arg(long)]
    keep_trying: bool,
}

fn version(text: &str) -> Result<Version, ValueError> {
    match text {
        "311" | "mqttv311" => Ok(Version::V311),
        "5" | "mqttv5" => Ok(Version::V5),
        _ => Err(ValueError::new("give 311 or 5")),
    }
}

pub(super) fn qos(text: &str) -> Result<Qos, ValueError> {
    match text {
        "0" => Ok(Qos::AtMostOnce),
        "1" => Ok(Qos::AtLeastOnce),
        "2" => Ok(Qos::ExactlyOnce),
        _ => Err(ValueError::new("give 0, 1 or 2")),
    }
}

impl Patience {
    /// Whether to wait for a broker that is away. A service manager tells its service so by the
    /// process it started (`systemd.exec(5)`); a child of that process is a command.
    pub(super) fn keeps_trying(&self) -> bool {
        let service = std::env::var("SYSTEMD_EXEC_PID");
        self.keep_trying || service.is_ok_and(|id| id == std::process::id().to_string())
    }
}

impl Broker {
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let id = match &self.id {
            Some(id) => id.clone(),
            None => {
                let mut bytes = [0; 8];
                getrandom::fill(&mut bytes).map_err(|error| {
                    Failure::usage(
                        format!("the system gives no random numbers: {error}"),
                        "name the client with -i",
                    )
                })?;
                format!("antedate-{}", antedate_host::hex::hex(&bytes))
            }
        };
        if self.psk.is_some() || self.psk_identity.is_some() {
            return Err(Failure::usage(
                "--psk: TLS with pre-shared keys is not part of this program",
                "give the broker a certificate and name its authority with --cafile, or let stunnel (PSKsecrets) carry the connection",
            ));
        }
        let tls = self.tls()?;
        let url = self.url.as_ref();
        let web = self.ws || url.is_some_and(|url| url.web);
        let port = self.port.or(url.and_then(|url| url.port));
        let port = port.unwrap_or(match (web, tls.is_some()) {
            (false, false) => 1883,
            (false, true) => 8883,
            (true, false) => 80,
            (true, true) => 443,
        });
        let login = match (&self.username, url) {
            (Some(user), _) => Some((user.clone(), self.password()?)),
            (None, url) => url.and_then(|url| url.login.clone()),
        };
        Ok(Settings {
            version: self.protocol_version.unwrap_or_default(),
            websocket: web.then(|| self.ws_path.clone()),
            keep_alive: self.keepalive,
            login,
            tls,
            ..Settings::new(&id, url.map_or(&self.host, |url| &url.host), port)
        })
    }

    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let asked = self.url.as_ref().is_some_and(|url| url.tls);
        if self.cafile.is_none() && self.capath.is_none() && !asked {
            return match (self.insecure, &self.cert) {
                (false, None) => Ok(None),
                _ => Err(Failure::usage(
                    "--cert and --insecure are for TLS, which is not on",
                    "name the authority of the broker's certificate with --cafile or --capath",
                )),
            };
        }
        if self.insecure {
            output::tell(format_args!(
                "antedate: --insecure: the name in the broker's certificate is not compared, so another host of its authority can take \
                 its place (remedy: give -h the name in the certificate)"
            ));
        }
        let system = self.cafile.is_none() && self.capath.is_none();
        Ok(Some(Tls {
            cafile: self.cafile.clone(),
            capath: if system { Some(SYSTEM_AUTHORITIES.into()) } else { self.capath.clone() },
            identity: self.cert.clone().zip(self.key.clone()),
            any_name: self.insecure,
        }))
    }

    /// The password, of the option or its file.
    fn password(&self) -> Result<String, Failure> {
        let Some(file) = &self.pw_file else { return Ok(self.pw.clone().unwrap_or_default()) };
        let mut bytes = zeroize::Zeroizing::new(vec![0; PASSWORD_MAX]);
        let length = private_file::read(file, process::user(), &mut bytes)?;
        let line = bytes[..length].split(|octet| *octet == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = str::from_utf8(line).ok().filter(|text| !text.is_empty()).ok_or_else(|| {
            Failure::usage(
                format!("{}: its first line is no password", file.display()),
                "write the password as text into its first line",
            )
        })?;
        Ok(text.to_owned())
    }

    /// The same with properties, which only version 5 has.
    pub(super) fn settings_with(&self, given: &PropertyArguments) -> Result<Settings, Failure> {
        let mut settings = self.settings()?;
        settings.properties = given.read()?;
        if settings.properties != Properties::default() {
            if self.protocol_version == Some(Version::V311) {
                return Err(Failure::usage("-D: MQTT 3.1.1 has no properties", "leave -V out, or give -V 5"));
            }
            settings.version = Version::V5;
        }
        Ok(settings)
    }

    /// The topic of `-L`.
    pub(super) fn topic_of_url(&self) -> Option<String> {
        self.url.as_ref().and_then(|url| url.topic.clone())
    }
}

/// Protection of the payloads.
#[derive(Args)]
pub(super) struct Protection {
    /// A group file (antedate keygen mqtt); may be given more than once
    #[arg(long, value_name = "FILE", required = true)]
    keys: Vec<PathBuf>,
    /// The device's own key, for groups with a manager
    #[arg(long, value_name = "FILE")]
    device: Option<PathBuf>,
    /// The files of --keys and --device are written by the agent of a fleet, as another user of this group:
    /// takes them with mode 0640
    #[arg(long)]
    agent: bool,
    /// A directory for the sequence numbers (antedate mqtt init)
    #[arg(long, value_name = "DIRECTORY")]
    state: Option<PathBuf>,
}

impl Protection {
    /// Reads the keys. The memory is closed before, and the stack is wiped.
    pub(super) fn guard(&self, publisher: Option<String>) -> Result<Guard, Failure> {
        if let Some(warning) = hardened::close_memory() {
            output::tell(format_args!("antedate: {warning}"));
        }
        if let (true, Some(file)) = (self.agent, self.keys.first()) {
            trust_agent(file)?;
        }
        stack::wiped(|| self.read(publisher))
    }

    /// Gives up the rights that a client does not need, once all options are read. It writes its
    /// state, and looks up the broker if it has one.
    pub(super) fn confine(&self, broker: Option<&Settings>) {
        self.confine_to(broker, Vec::new(), Vec::new());
    }

    /// As [`confine`](Self::confine), for a server with these directories of sockets.
    pub(super) fn confine_more(
        &self,
        broker: &Settings,
        sockets: Vec<PathBuf>,
        capabilities: Vec<Capability>,
    ) {
        self.confine_to(Some(broker), sockets, capabilities);
    }

    /// Whether there is a state directory.
    pub(super) const fn has_state(&self) -> bool {
        self.state.is_some()
    }

    fn confine_to(&self, broker: Option<&Settings>, sockets: Vec<PathBuf>, capabilities: Vec<Capability>) {
        let needs = Needs {
            capabilities,
            writes: self.state.iter().cloned().chain(sockets).collect(),
            reads: broker.iter().filter_map(|broker| broker.tls.as_ref()).flat_map(Tls::files).collect(),
            names: broker.is_some(),
        };
        if let Some(warning) = hardened::confine(&needs) {
            output::tell(format_args!("antedate: {warning}"));
        }
    }

    fn read(&self, publisher: Option<String>) -> Result<Guard, Failure> {
        let files = Files { keys: self.keys.clone(), device: self.device.clone(), state: self.state.clone() };
        let (guard, warnings) = files.load(publisher)?;
        for text in warnings {
            output::tell(format_args!("antedate: {text}"));
        }
        Ok(guard)
    }
}

impl From<SealError> for Failure {
    fn from(error: SealError) -> Self {
        match error {
            SealError::State(fault) => fault.into(),
            other => Self::usage(other.to_string(), other.remedy()),
        }
    }
}

/// The last will.
#[derive(Args, Clone, Default)]
pub(super) struct WillArguments {
    /// The topic on which the broker publishes the will when this client is gone
    #[arg(long, value_name = "TOPIC", requires = "will_payload")]
    will_topic: Option<String>,
    /// The will's payload, sealed like any other
    #[arg(long, value_name = "TEXT", requires = "will_topic", allow_hyphen_values = true)]
    will_payload: Option<String>,
    /// The will's QoS
    #[arg(long, default_value = "0", value_parser = qos, requires = "will_topic")]
    will_qos: Qos,
    /// The will is retained
    #[arg(long, requires = "will_topic")]
    will_retain: bool,
}

impl WillArguments {
    /// Whether a will is given.
    pub(super) const fn is_given(&self) -> bool {
        self.will_topic.is_some()
    }

    /// Seals the will.
    pub(super) fn seal(&self, guard: &mut Guard) -> Result<Option<Will>, SealError> {
        let (Some(topic), Some(text)) = (&self.will_topic, &self.will_payload) else { return Ok(None) };
        let mut payload = Vec::new();
        guard.seal(topic, text.as_bytes(), &mut payload)?;
        Ok(Some(Will { topic: topic.clone(), payload, qos: self.will_qos, retain: self.will_retain }))
    }
}

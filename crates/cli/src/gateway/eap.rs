//! `antedate gateway eap`: the CAK of an EAP-TLS authentication by wpa_supplicant or hostapd.

mod told;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use antedate_channel::mka::Cak;
use antedate_gateway::config::cak::CakFile;
use antedate_gateway::config::{Config, Keys, Macsec, Protection};
use antedate_gateway::run::control::{Request, ask};
use antedate_gateway::sys::interface;
use antedate_host::fault::Fault;
use antedate_host::{process, replace};
use antedate_wire::EthernetAddress;
use clap::Args;
use zeroize::Zeroizing;

use crate::failure::{Done, Failure};
use crate::hardened;
use crate::output;
use told::{Listener, Told};

/// Octets of the longest line: the program also prints whole certificates.
const LINE: usize = 1 << 16;

#[derive(Args)]
pub(crate) struct Eap {
    /// The configuration of the gateway, with `cak_file`.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bits of the CAK; both ends need the same, and wpa_supplicant's own MACsec needs 128.
    #[arg(long, value_name = "BITS", default_value_t = 128, value_parser = parse_bits)]
    bits: u16,
    /// wpa_supplicant or hostapd with its arguments, among them -K -d.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

fn parse_bits(text: &str) -> Result<u16, &'static str> {
    match text {
        "128" => Ok(128),
        "256" => Ok(256),
        _ => Err("a CAK has 128 or 256 bits"),
    }
}

/// The gateway that the keys are for.
struct Receiver {
    cak_file: PathBuf,
    socket: PathBuf,
    own: EthernetAddress,
    long: bool,
}

impl Eap {
    pub(crate) fn run(self) -> Done {
        if let Some(warning) = hardened::close_memory() {
            output::tell(format_args!("warning: {warning}"));
        }
        let config = Config::load(&self.file)?;
        let Protection::Macsec(Macsec { keys: Keys::Agreed(settings), .. }) = &config.protection else {
            let remedy = "write cak_file in [macsec], which this command fills";
            return Err(Fault::of_file(&self.file, "has no cak_file", remedy).into());
        };
        let uplink = config.uplink.interface.as_str();
        let own = interface::address(uplink).ok_or_else(|| {
            Fault::of_file(&self.file, format!("there is no interface {uplink}"), "see `ip link`")
        })?;
        let receiver = Receiver {
            cak_file: settings.cak_file.clone(),
            socket: config.control.socket.clone(),
            own: EthernetAddress(own),
            long: self.bits == 256,
        };
        let Some((program, arguments)) = self.program.split_first() else { return Ok(()) };
        let started =
            Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| {
            let what = format!("cannot be started: {error}");
            Fault::of_file(program.as_ref(), what, "name wpa_supplicant or hostapd behind `--`")
        })?;
        let outcome = receiver.listen(program, &mut child);
        if outcome.is_err() {
            // It may have ended.
            let _ = child.kill();
        }
        let status = child.wait();
        outcome?;
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(ended(program, &status.to_string())),
            Err(error) => Err(ended(program, &error.to_string())),
        }
    }
}

fn ended(program: &str, why: &str) -> Failure {
    Fault::of_file(program.as_ref(), format!("ended: {why}"), "run it alone to see why").into()
}

impl Receiver {
    /// Reads the program's output to its end.
    fn listen(&self, program: &str, child: &mut Child) -> Done {
        let Some(output) = child.stdout.take() else { return Ok(()) };
        let mut lines = BufReader::new(output);
        let mut line = Zeroizing::new(Vec::with_capacity(LINE));
        let mut listener = Listener::default();
        let unread = |error: std::io::Error| {
            Fault::of_file(program.as_ref(), format!("cannot be heard: {error}"), "start it again")
        };
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line).map_err(unread)? == 0 {
                return Ok(());
            }
            let text = std::str::from_utf8(&line).unwrap_or_default();
            match listener.hear(text.trim_end()) {
                None => {}
                Some(Told::Event(event)) => output::tell(event),
                Some(Told::Hidden) => {
                    let remedy = "add -K, which shows them to this command alone";
                    return Err(Fault::of_file(program.as_ref(), "hides its keys", remedy).into());
                }
                Some(Told::Success { keys, peer }) => {
                    let addresses = [self.own, peer];
                    let cak = Cak::of_eap(&keys.msk, &keys.session, addresses, self.long);
                    self.take(cak, peer)?;
                }
            }
        }
    }

    /// Puts a CAK into the gateway's file, and has it read.
    fn take(&self, cak: Cak, peer: EthernetAddress) -> Done {
        let file: &Path = &self.cak_file;
        let before = if file.exists() { Some(CakFile::load(file, process::user())?) } else { None };
        let renewed = CakFile::renewed(cak, before);
        let name = renewed.entries.first().map(|entry| entry.name()).unwrap_or_default();
        replace::replace(file, renewed.to_text().as_bytes())?;
        output::tell(format_args!("{peer} is authenticated: CAK {name} in {}", file.display()));
        if !self.socket.exists() {
            output::tell("the gateway does not run yet, and reads the CAK when it starts");
            return Ok(());
        }
        match ask(&self.socket, Request::Reload {}) {
            Ok(reply) if reply.ok => output::tell(reply.message),
            // The file has the key; the next reload or start takes it.
            Ok(reply) => output::tell(format_args!("not taken yet: {}; {}", reply.message, reply.remedy)),
            Err(fault) => output::tell(format_args!("not taken yet: {fault:#}")),
        }
        Ok(())
    }
}

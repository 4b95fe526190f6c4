//! `antedate gateway check FILE`.

use std::fmt::Write;
use std::path::PathBuf;

use antedate_gateway::config::keys::channels;
use antedate_gateway::config::tunnel_keys::encode;
use antedate_gateway::config::{Checked, Keyed, check, machine::ThisMachine};
use clap::Args;

use crate::failure::Done;
use crate::gateway::run::trust_agent;
use crate::output;

#[derive(Args)]
pub(crate) struct Check {
    /// The configuration.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// FILE is written by the agent of a fleet, as another user of this group. Run this as the
    /// gateway's user, in the agent's group.
    #[arg(long)]
    agent: bool,
}

impl Check {
    pub(crate) fn run(self) -> Done {
        if self.agent {
            trust_agent(&self.file)?;
        }
        let checked = check(&self.file, &ThisMachine)?;
        for warning in &checked.warnings {
            output::tell(format_args!("warning: {warning}"));
        }
        output::print(&summary(&checked))
    }
}

/// Describes the checked configuration.
fn summary(checked: &Checked) -> String {
    let mut text = format!("{}: ready to run\n", checked.config.file.display());
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<10} {value}");
    };
    line("field", format!("{}, payloads of {} octets", checked.field.name, checked.field.mtu));
    line("uplink", format!("{}, payloads of {} octets", checked.uplink.name, checked.uplink_mtu()));
    for (name, leave) in ["field io", "uplink io"].into_iter().zip(&checked.leave) {
        line(name, format!("{}: {}", leave.name(), leave.why));
    }
    match &checked.protection {
        Keyed::Macsec { keys, own, .. } => {
            let name = keys.member(*own).map_or("", |member| member.name.as_str());
            line("protected", format!("MACsec, {}", keys.suite.name()));
            line("as", format!("{name} ({own})"));
            let workers = checked.config.run.threads.channels() as u16;
            if workers > 1 {
                let first = own.port();
                let ports = format!("SCIs of the ports {first} to {}", first + workers - 1);
                line("workers", format!("{workers}, each in a secure channel of its own: {ports}"));
            }
            for peer in keys.peers(*own).filter(|peer| !channels::is_further(&peer.name)) {
                let several =
                    if peer.channels > 1 { format!(", {} channels", peer.channels) } else { String::new() };
                line("with", format!("{} ({}){several}", peer.name, peer.sci));
            }
        }
        Keyed::Agreed { settings, cak, own, .. } => {
            let suite = checked.protection.cipher();
            line("protected", format!("MACsec, {suite}, keys agreed upon by MKA"));
            line("as", format!("{own}, key server priority {}", settings.priority));
            let workers = checked.config.run.threads.channels() as u16;
            if workers > 1 {
                let first = own.port();
                let ports = format!("SCIs of the ports {first} to {}", first + workers - 1);
                line(
                    "workers",
                    format!(
                        "{workers}, each in a secure channel of its own if all members take them: {ports}"
                    ),
                );
            }
            for entry in &cak.entries {
                let many = cak.entries.len() > 1;
                let preference = if many { format!(", priority {}", entry.priority) } else { String::new() };
                let (bits, name) = (entry.bits(), entry.name());
                line("with", format!("holders of a {bits}-bit CAK named {name}{preference}"));
            }
            let to = settings.destinations.iter().map(ToString::to_string).collect::<Vec<_>>();
            line("speaks to", if to.len() > 1 { "whatever reaches the others".into() } else { to.concat() });
        }
        Keyed::Overlay { overlay, public, .. } => {
            let secured = if public.is_some() { "VXLAN in WireGuard" } else { "no: VXLAN alone" };
            line("protected", format!("{secured}, network {}", overlay.vni));
            if let Some(public) = public {
                line("as", format!("{} ({})", *encode(public), overlay.address));
            }
            line("listens", overlay.listen.to_string());
            let workers = checked.config.run.threads.channels();
            if workers > 1 {
                line("workers", format!("{workers}, each with the sessions of its peers"));
            }
            for peer in &overlay.peers {
                let place = match (peer.endpoint, &peer.host) {
                    (Some(at), _) => at.to_string(),
                    (None, Some((host, port))) => format!("{host}:{port}"),
                    (None, None) => "wherever it is".to_owned(),
                };
                line("with", format!("{} ({}) at {place}", peer.name, peer.address));
            }
        }
        Keyed::Plain => line("protected", "no".to_owned()),
    }
    let policy = &checked.config.policy;
    let named: Vec<&str> = policy.allow.iter().map(|traffic| traffic.name()).collect();
    line(
        "passes",
        match (named.is_empty(), policy.rules.len()) {
            (true, 0) => "nothing".to_owned(),
            (true, rules) => format!("by {rules} rule(s)"),
            (false, 0) => named.join(", "),
            (false, rules) => format!("{}, after {rules} rule(s)", named.join(", ")),
        },
    );
    text
}

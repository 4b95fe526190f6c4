//! `antedate fleet leaf`: a NATS server of a site.

use std::fs;
use std::path::PathBuf;

use antedate_fleet::home::{INVITATION, Invitation};
use antedate_fleet::login;
use antedate_fleet::now;
use antedate_fleet::server::{self, Trust, leaf_configuration, with_leaf_nodes};
use antedate_host::fault::Fault;
use antedate_host::replace::replace;
use clap::Args;

use super::{Key, Place, manage};
use crate::failure::{Done, Failure, ValueError};
use crate::output;

#[derive(Args)]
pub(crate) struct Leaf {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    key: Key,
    /// The site's name.
    #[arg(value_name = "NAME", value_parser = manage::name)]
    name: String,
    /// The address at which its devices find it.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = address)]
    listen: String,
    /// The port of the fleet's servers for leaf nodes.
    #[arg(long, value_name = "PORT", default_value_t = 7422)]
    port: u16,
    /// The directory of its data on its machine.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/nats")]
    data: PathBuf,
    /// The directory of its two files of credentials on its machine.
    #[arg(long, value_name = "DIR", default_value = "/etc/nats")]
    credentials: PathBuf,
    /// The directory on its machine with its certificate leaf-NAME.pem, its key leaf-NAME.key, and
    /// ca.pem. Required in a fleet with certificates.
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
}

fn address(text: &str) -> Result<String, ValueError> {
    let form = || ValueError::new("write HOST or HOST:PORT, e.g. 10.1.0.1:4222");
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "4222"));
    let is_host = !host.is_empty()
        && host.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"-._".contains(&octet));
    match port.parse::<u16>() {
        Ok(port) if port != 0 && is_host => Ok(format!("{host}:{port}")),
        _ => Err(form()),
    }
}

/// The host of a server's address.
fn host(server: &str) -> &str {
    let place = server.split_once("://").map_or(server, |(_, place)| place);
    place.rsplit_once(':').map_or(place, |(host, _)| host)
}

impl Leaf {
    pub(crate) fn run(self) -> Done {
        let home = self.place.open()?;
        let signing = self.key.load(&home)?;
        if self.tls.is_none() && !home.fleet.certificates.is_empty() {
            return Err(Failure::usage(
                "the devices of this fleet speak TLS alone",
                "give --tls with the leaf node's directory of certificates",
            ));
        }
        let trust = Trust::of(&signing, &home.fleet.name, now(), &home.revoked());
        let directory = home.directory().join("nats");
        let leaf = server::Leaf {
            name: self.name.clone(),
            listen: self.listen.clone(),
            hubs: home.fleet.servers.iter().map(|server| format!("{}:{}", host(server), self.port)).collect(),
            credentials: self.credentials.clone(),
            tls: self.tls.clone(),
        };
        let name = format!("leaf-{}", self.name);
        let text = leaf_configuration(&home.fleet.name, &trust, &leaf, &self.data);
        replace(&directory.join(format!("{name}.conf")), text.as_bytes())?;
        let [own, system] = login::leaf(&signing, &self.name, now());
        for (file, text) in [(format!("{name}.creds"), own), (format!("{name}-system.creds"), system)] {
            replace(&directory.join(file), text.as_bytes())?;
        }
        let scheme = if self.tls.is_some() { "tls" } else { "nats" };
        let invitation = format!("invitation-{}.json", self.name);
        Invitation::load(&home.directory().join(INVITATION))?
            .write_for(vec![format!("{scheme}://{}", self.listen)], &home.directory().join(&invitation))?;
        let mut opened = Vec::new();
        let entries = fs::read_dir(&directory)
            .map_err(|error| Fault::of_io(&directory, "read the directory", &error, "run as its owner"))?;
        for entry in entries.flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            if file.starts_with("leaf-") || !file.ends_with(".conf") {
                continue;
            }
            let text = fs::read_to_string(entry.path()).map_err(|error| {
                Fault::of_io(&entry.path(), "read the configuration", &error, "run as its owner")
            })?;
            if let Some(text) = with_leaf_nodes(&text, &trust, self.port) {
                replace(&entry.path(), text.as_bytes())?;
                opened.push(file);
            }
        }
        opened.sort();
        let mut said = format!(
            "{}: the leaf node {}\n  nats/{name}.conf              its configuration\n  \
             nats/{name}.creds, nats/{name}-system.creds  secret, for {} on its machine\n  \
             {invitation}         for the devices behind it\n",
            home.directory().display(),
            self.name,
            self.credentials.display()
        );
        if !opened.is_empty() {
            said.push_str(&format!(
                "{} let leaf nodes in at port {} now: copy them to their servers, and start these again, one \
                 after the other\n",
                opened.join(", "),
                self.port
            ));
        }
        output::print(&said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        assert_eq!(address("10.1.0.1"), Ok("10.1.0.1:4222".to_owned()));
        assert_eq!(address("hall.example:4333"), Ok("hall.example:4333".to_owned()));
        for wrong in ["", ":1", "a:0", "a:x", "a b", "a\"b"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        assert_eq!((host("tls://n1.example:4222"), host("10.0.0.1")), ("n1.example", "10.0.0.1"));
    }
}

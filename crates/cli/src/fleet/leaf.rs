//! `antedate fleet leaf`: a NATS server of a site.

use std::fs;
use std::path::PathBuf;

use antedate_fleet::authority::Signing;
use antedate_fleet::home::{Home, INVITATION, Invitation};
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

/// Writes the passes of a leaf node, which end as those of devices.
fn write_passes(home: &Home, signing: &Signing, name: &str) -> Result<(), Fault> {
    let ends = now() + home.fleet.pass_days * 86_400;
    let texts = login::leaf(signing, name, now(), ends);
    for (text, end) in texts.iter().zip(["", "-system"]) {
        let file = home.directory().join("nats").join(format!("leaf-{name}{end}.creds"));
        replace(&file, text.as_bytes())?;
    }
    Ok(())
}

/// Renews the passes of leaf nodes that end within so many seconds, or never. Returns their names.
pub(super) fn renew(home: &Home, signing: &Signing, within: u64) -> Result<Vec<String>, Fault> {
    let directory = home.directory().join("nats");
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_prefix("leaf-").and_then(|rest| rest.strip_suffix(".conf")) else {
            continue;
        };
        let text = fs::read_to_string(directory.join(format!("leaf-{name}.creds"))).unwrap_or_default();
        if login::end_of_credentials(&text) < now().saturating_add(within) {
            write_passes(home, signing, name)?;
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
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
        write_passes(&home, &signing, &self.name)?;
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
             nats/{name}.creds, nats/{name}-system.creds  secret, for {} on its machine; valid {} days\n  \
             {invitation}         for the devices behind it\n",
            home.directory().display(),
            self.name,
            self.credentials.display(),
            home.fleet.pass_days
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
    fn leaf_passes_are_renewed_before_their_end() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::create(&place.path().join("fleet"), "plant", &[], 1, "").unwrap();
        let signing = home.signing(None).unwrap();
        let nats = home.directory().join("nats");
        fs::create_dir_all(&nats).unwrap();
        assert!(renew(&home, &signing, u64::MAX).unwrap().is_empty());
        for name in ["hall", "yard"] {
            fs::write(nats.join(format!("leaf-{name}.conf")), "").unwrap();
            write_passes(&home, &signing, name).unwrap();
        }
        let end = |file: &str| login::end_of_credentials(&fs::read_to_string(nats.join(file)).unwrap());
        assert!(end("leaf-hall.creds").abs_diff(now() + 400 * 86_400) < 60);
        assert!(renew(&home, &signing, 399 * 86_400).unwrap().is_empty());
        // One of an earlier version has no end.
        fs::write(nats.join("leaf-hall.creds"), "x\n").unwrap();
        assert_eq!(renew(&home, &signing, 1).unwrap(), ["hall"]);
        assert_eq!(renew(&home, &signing, 401 * 86_400).unwrap(), ["hall", "yard"]);
        assert!(end("leaf-yard-system.creds") > now());
    }

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

//! Configurations of NATS servers for a fleet.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::authority::Signing;
use crate::login;

/// A server of a cluster, or the only one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name, unique in the cluster.
    pub name: String,
    /// The address and port for clients.
    pub listen: String,
    /// The address and port for the other servers. Empty for a single one.
    pub cluster: String,
    /// Addresses of the other servers.
    pub routes: Vec<String>,
    /// The directory on its machine with `NAME.pem`, `NAME.key` and the authority's `ca.pem`, for TLS. `None`
    /// without TLS.
    pub tls: Option<PathBuf>,
}

/// What all servers know of the fleet: public names and tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    operator: String,
    system: (String, String),
    account: (String, String),
}

impl Trust {
    /// That of a fleet.
    #[must_use]
    pub fn of(signing: &Signing, fleet: &str, now: u64) -> Self {
        Self {
            operator: login::operator(signing, fleet, now),
            system: (login::system_account_name(signing), login::system_account(signing, now)),
            account: (login::account_name(signing), login::account(signing, fleet, now, &[])),
        }
    }
}

/// The configuration of a server whose data is in `directory`.
#[must_use]
pub fn configuration(fleet: &str, trust: &Trust, node: &Node, directory: &Path) -> String {
    let (system, account) = (&trust.system, &trust.account);
    let path = directory.display();
    let tls = node.tls.as_ref().map(|tls| {
        let (tls, name) = (tls.display(), &node.name);
        format!("cert_file: \"{tls}/{name}.pem\", key_file: \"{tls}/{name}.key\"")
    });
    let clients = tls.as_ref().map_or_else(
        || "# Between machines, use TLS: antedate fleet init --certificates FILE --tls DIR".to_owned(),
        |files| format!("tls {{ {files} }}"),
    );
    let mut text = format!(
        "# A NATS server of the fleet \"{fleet}\". It holds no secret of the fleet.\n\
         server_name: \"{}\"\nlisten: \"{}\"\nmax_payload: 1MB\n\
         {clients}\n\
         jetstream {{ store_dir: \"{path}/jetstream\" }}\n\
         operator: {}\nsystem_account: {}\n\
         resolver {{ type: full, dir: \"{path}/accounts\", allow_delete: false, interval: \"2m\" }}\n\
         resolver_preload {{\n  {}: {}\n  {}: {}\n}}\n",
        node.name, node.listen, trust.operator, system.0, system.0, system.1, account.0, account.1
    );
    if !node.cluster.is_empty() {
        let routes: Vec<String> =
            node.routes.iter().map(|route| format!("\"nats-route://{route}\"")).collect();
        let between = match (&tls, &node.tls) {
            (Some(files), Some(tls)) => format!(", tls {{ {files}, ca_file: \"{}/ca.pem\" }}", tls.display()),
            _ => String::new(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "cluster {{ name: \"{fleet}\", listen: \"{}\", routes: [{}]{between} }}",
            node.cluster,
            routes.join(", ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Seed;
    use antedate_host::hex::hex;

    #[test]
    fn server_gets_no_secret() {
        let signing = Signing::of(Seed::of([1; 32]));
        let trust = Trust::of(&signing, "plant", 5);
        let node = Node {
            name: "n1".into(),
            listen: "127.0.0.1:4222".into(),
            cluster: "127.0.0.1:6222".into(),
            routes: vec!["127.0.0.1:6223".into()],
            tls: None,
        };
        let text = configuration("plant", &trust, &node, Path::new("/var/lib/nats"));
        for secret in [signing.operator(), signing.account(), signing.documents(), signing.system_user()] {
            assert!(!text.contains(&hex(&*secret)));
        }
        assert!(!text.contains("\nSU") && text.contains("nats-route://127.0.0.1:6223"), "{text}");
        assert!(!text.contains("cert_file"), "{text}");
        let secured = Node { tls: Some("/etc/nats".into()), ..node };
        let text = configuration("plant", &trust, &secured, Path::new("/var/lib/nats"));
        // For clients, and between servers.
        assert_eq!(
            text.matches("cert_file: \"/etc/nats/n1.pem\", key_file: \"/etc/nats/n1.key\"").count(),
            2
        );
        assert_eq!(text.matches("ca_file: \"/etc/nats/ca.pem\"").count(), 1);
    }
}

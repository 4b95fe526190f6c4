//! Configurations of NATS servers for a fleet.

use std::fmt::Write;
use std::path::Path;

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
    let mut text = format!(
        "# A NATS server of the fleet \"{fleet}\". It holds no secret of the fleet.\n\
         server_name: \"{}\"\nlisten: \"{}\"\nmax_payload: 1MB\n\
         # Between machines, use TLS: tls {{ cert_file: ..., key_file: ... }}\n\
         jetstream {{ store_dir: \"{path}/jetstream\" }}\n\
         operator: {}\nsystem_account: {}\n\
         resolver {{ type: full, dir: \"{path}/accounts\", allow_delete: false, interval: \"2m\" }}\n\
         resolver_preload {{\n  {}: {}\n  {}: {}\n}}\n",
        node.name, node.listen, trust.operator, system.0, system.0, system.1, account.0, account.1
    );
    if !node.cluster.is_empty() {
        let routes: Vec<String> =
            node.routes.iter().map(|route| format!("\"nats-route://{route}\"")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "cluster {{ name: \"{fleet}\", listen: \"{}\", routes: [{}] }}",
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
        };
        let text = configuration("plant", &trust, &node, Path::new("/var/lib/nats"));
        for secret in [signing.operator(), signing.account(), signing.documents(), signing.system_user()] {
            assert!(!text.contains(&hex(&*secret)));
        }
        assert!(!text.contains("\nSU") && text.contains("nats-route://127.0.0.1:6223"), "{text}");
    }
}

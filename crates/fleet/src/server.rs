//! Configurations of NATS servers for a fleet.
//!
//! A *leaf node* is a server of a site. Its devices speak to it, and it to the cluster, over one
//! connection. It stores nothing, so JetStream and its requests are the cluster's: both sides name the
//! fleet's account in `default_js_domain`, or NATS would not let these requests pass (2.9 and later).

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
    /// That of a fleet. The passes of `revoked` users are void.
    #[must_use]
    pub fn of(signing: &Signing, fleet: &str, now: u64, revoked: &[String]) -> Self {
        Self {
            operator: login::operator(signing, fleet, now),
            system: (login::system_account_name(signing), login::system_account(signing, now)),
            account: (login::account_name(signing), login::account(signing, fleet, now, revoked)),
        }
    }
}

/// The configuration of a server whose data is in `directory`.
#[must_use]
pub fn configuration(fleet: &str, trust: &Trust, node: &Node, directory: &Path) -> String {
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
         jetstream {{ store_dir: \"{path}/jetstream\" }}\n",
        node.name, node.listen
    );
    text.push_str(&trusted(trust, directory));
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

/// Whom a server trusts.
fn trusted(trust: &Trust, directory: &Path) -> String {
    let (system, account, path) = (&trust.system, &trust.account, directory.display());
    format!(
        "operator: {}\nsystem_account: {}\n\
         resolver {{ type: full, dir: \"{path}/accounts\", allow_delete: false, interval: \"2m\" }}\n\
         resolver_preload {{\n  {}: {}\n  {}: {}\n}}\n",
        trust.operator, system.0, system.0, system.1, account.0, account.1
    )
}

/// A leaf node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Its name, unique in the fleet.
    pub name: String,
    /// The address and port for its devices.
    pub listen: String,
    /// Addresses and ports of the fleet's servers for leaf nodes.
    pub hubs: Vec<String>,
    /// The directory on its machine with `leaf-NAME.creds` and `leaf-NAME-system.creds`.
    pub credentials: PathBuf,
    /// The directory on its machine with `leaf-NAME.pem`, `leaf-NAME.key` and the authority's `ca.pem`,
    /// for TLS.
    pub tls: Option<PathBuf>,
}

/// The configuration of a leaf node whose data is in `directory`.
#[must_use]
pub fn leaf_configuration(fleet: &str, trust: &Trust, leaf: &Leaf, directory: &Path) -> String {
    let name = &leaf.name;
    let clients = leaf.tls.as_ref().map_or_else(
        || "# Between machines, use TLS: antedate fleet leaf --tls DIR".to_owned(),
        |tls| {
            let tls = tls.display();
            format!("tls {{ cert_file: \"{tls}/leaf-{name}.pem\", key_file: \"{tls}/leaf-{name}.key\" }}")
        },
    );
    let between = leaf
        .tls
        .as_ref()
        .map_or_else(String::new, |tls| format!(", tls {{ ca_file: \"{}/ca.pem\" }}", tls.display()));
    let hubs: Vec<String> = leaf.hubs.iter().map(|hub| format!("\"nats-leaf://{hub}\"")).collect();
    let (hubs, place) = (hubs.join(", "), leaf.credentials.display());
    let remote = |account: &str, file: &str| {
        format!(
            "  {{ urls: [{hubs}], account: {account}, credentials: \"{place}/{file}.creds\"{between} }}\n"
        )
    };
    format!(
        "# A leaf node of the fleet \"{fleet}\". Its two files of credentials are secret.\n\
         server_name: \"leaf-{name}\"\nlisten: \"{}\"\nmax_payload: 1MB\n{clients}\n{}\
         leafnodes {{ remotes: [\n{}{}] }}\ndefault_js_domain: {{ {}: \"\" }}\n",
        leaf.listen,
        trusted(trust, directory),
        remote(&trust.account.0, &format!("leaf-{name}")),
        remote(&trust.system.0, &format!("leaf-{name}-system")),
        trust.account.0
    )
}

/// The configuration of a server with what it needs for leaf nodes at a port. `None` if it has that.
#[must_use]
pub fn with_leaf_nodes(configuration: &str, trust: &Trust, port: u16) -> Option<String> {
    if configuration.lines().any(|line| line.starts_with("leafnodes")) {
        return None;
    }
    let line = |begin: &str| configuration.lines().find(|line| line.starts_with(begin));
    let listen = line("listen: \"").and_then(|line| line.split('"').nth(1)).unwrap_or_default();
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
    let tls = line("tls {").map_or_else(String::new, |tls| format!(", {tls}"));
    Some(format!(
        "{configuration}leafnodes {{ listen: \"{host}:{port}\"{tls} }}\ndefault_js_domain: {{ {}: \"\" }}\n",
        trust.account.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Seed;
    use antedate_host::hex::hex;

    #[test]
    fn server_gets_no_secret() {
        let signing = Signing::of(Seed::of([1; 32]));
        let trust = Trust::of(&signing, "plant", 5, &[]);
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

    #[test]
    fn leaf_node_stores_nothing_and_servers_let_it_in() {
        let signing = Signing::of(Seed::of([1; 32]));
        let trust = Trust::of(&signing, "plant", 5, &[]);
        let leaf = Leaf {
            name: "hall".into(),
            listen: "10.1.0.1:4222".into(),
            hubs: vec!["10.0.0.1:7422".into()],
            credentials: "/etc/nats".into(),
            tls: Some("/etc/nats/tls".into()),
        };
        let text = leaf_configuration("plant", &trust, &leaf, Path::new("/var/lib/nats"));
        assert!(!text.contains("jetstream") && text.contains("\"nats-leaf://10.0.0.1:7422\""), "{text}");
        assert!(text.contains("/etc/nats/leaf-hall-system.creds") && text.contains("ca.pem"), "{text}");
        assert!(!text.contains("SEED"), "{text}");
        let node = Node {
            name: "n1".into(),
            listen: "10.0.0.1:4222".into(),
            cluster: String::new(),
            routes: Vec::new(),
            tls: Some("/etc/nats".into()),
        };
        let text = configuration("plant", &trust, &node, Path::new("/var/lib/nats"));
        let open = with_leaf_nodes(&text, &trust, 7422).unwrap();
        let line = open.lines().find(|line| line.starts_with("leafnodes")).unwrap();
        assert!(line.contains("\"10.0.0.1:7422\", tls { cert_file"), "{line}");
        assert!(open.contains("default_js_domain"), "{open}");
        assert_eq!(with_leaf_nodes(&open, &trust, 7422), None);
    }
}

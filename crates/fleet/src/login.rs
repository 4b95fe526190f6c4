//! Passes of NATS: JSON web tokens that the fleet's keys sign (NATS's decentralised authentication).
//!
//! Servers know the operator's public key alone. So a new device needs no change of a server's
//! configuration, and a server cannot admit anybody by itself.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use antedate_channel::sealed::author_public;

use crate::authority::Signing;
use crate::identity::sign;
use crate::nkey::{self, Kind, base32};
use crate::subjects::{self, Permissions};

/// Who connects, and where to.
#[derive(Clone)]
pub struct Access {
    /// Addresses, such as `nats://host:4222` or `tls://host:4222`.
    pub servers: Vec<String>,
    /// The user, of which its inbox has the name.
    pub user: String,
    /// Its pass.
    pub pass: String,
    /// A newer pass that came since, for the next connection, or empty.
    pub newer: Arc<Mutex<String>>,
    /// The key of the pass.
    pub secret: Zeroizing<[u8; 32]>,
    /// A file with the certificates of authorities for TLS. `None` for those of the system.
    pub certificates: Option<PathBuf>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Access({} at {:?})", self.user, self.servers)
    }
}

/// Writes a token.
fn token(issuer: Kind, secret: &[u8; 32], subject: &str, name: &str, now: u64, nats: Value) -> String {
    let claims = json!({ "iat": now, "name": name, "sub": subject, "nats": nats });
    signed(issuer, secret, claims)
}

/// Signs claims.
fn signed(issuer: Kind, secret: &[u8; 32], mut claims: Value) -> String {
    claims["iss"] = Value::String(nkey::public(issuer, &author_public(secret)));
    let digest: [u8; 32] = Sha256::digest(claims.to_string().as_bytes()).into();
    claims["jti"] = Value::String(base32(&digest));
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(secret, signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// The operator's token, which servers trust.
#[must_use]
pub fn operator(signing: &Signing, fleet: &str, now: u64) -> String {
    let secret = signing.operator();
    let subject = nkey::public(Kind::Operator, &author_public(&secret));
    let system = system_account_name(signing);
    let nats = json!({ "type": "operator", "version": 2, "system_account": system });
    token(Kind::Operator, &secret, &subject, fleet, now, nats)
}

/// The name of the fleet's account.
#[must_use]
pub fn account_name(signing: &Signing) -> String {
    nkey::public(Kind::Account, &author_public(&signing.account()))
}

/// The name of the system account.
#[must_use]
pub fn system_account_name(signing: &Signing) -> String {
    nkey::public(Kind::Account, &author_public(&signing.system()))
}

fn limits(storage: i64) -> Value {
    json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": storage, "disk_storage": storage, "streams": storage, "consumer": storage
    })
}

/// The token of the fleet's account. `revoked` are users whose passes of before `now` are void.
#[must_use]
pub fn account(signing: &Signing, fleet: &str, now: u64, revoked: &[String]) -> String {
    let revocations: serde_json::Map<String, Value> =
        revoked.iter().map(|user| (user.clone(), json!(now))).collect();
    let nats = json!({
        "type": "account", "version": 2, "limits": limits(-1), "revocations": revocations,
        "default_permissions": { "pub": {}, "sub": {} }
    });
    token(Kind::Operator, &signing.operator(), &account_name(signing), fleet, now, nats)
}

/// The token of the system account.
#[must_use]
pub fn system_account(signing: &Signing, now: u64) -> String {
    let nats = json!({
        "type": "account", "version": 2, "limits": limits(0), "default_permissions": { "pub": {}, "sub": {} }
    });
    token(Kind::Operator, &signing.operator(), &system_account_name(signing), "SYS", now, nats)
}

fn user(issuer: &[u8; 32], login: &[u8; 32], name: &str, now: u64, permissions: &Permissions) -> String {
    let subject = nkey::public(Kind::User, login);
    token(Kind::Account, issuer, &subject, name, now, of_user(permissions))
}

fn of_user(permissions: &Permissions) -> Value {
    json!({
        "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1,
        "pub": { "allow": permissions.publish }, "sub": { "allow": permissions.subscribe }
    })
}

/// The pass of a member, valid until `ends` in seconds since 1970.
#[must_use]
pub fn device(signing: &Signing, id: &str, login: &[u8; 32], now: u64, ends: u64) -> String {
    let subject = nkey::public(Kind::User, login);
    let nats = of_user(&subjects::device(id));
    let claims = json!({ "iat": now, "exp": ends, "name": id, "sub": subject, "nats": nats });
    signed(Kind::Account, &signing.account(), claims)
}

/// Begin and end of a pass's validity, in seconds since 1970. Without a signature's check, and 0 for one
/// that has no end.
#[must_use]
pub fn validity(pass: &str) -> (u64, u64) {
    let claims = pass.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims: Value = claims.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let at = |key: &str| claims[key].as_u64().unwrap_or_default();
    (at("iat"), at("exp"))
}

/// The pass of invitations.
#[must_use]
pub fn invited(signing: &Signing, login: &[u8; 32], now: u64) -> String {
    user(&signing.account(), login, "invited", now, &subjects::invited())
}

/// The pass of the operator.
#[must_use]
pub fn fleet_operator(signing: &Signing, login: &[u8; 32], now: u64) -> String {
    user(&signing.account(), login, "operator", now, &subjects::operator())
}

/// The two passes of a leaf node with their keys, which are derived from the signing key: for the fleet's
/// account, and for the system account, valid until `ends` in seconds since 1970. As NATS's files of
/// credentials.
#[must_use]
pub fn leaf(signing: &Signing, name: &str, now: u64, ends: u64) -> [Zeroizing<String>; 2] {
    let (own, system) = (signing.leaf(name), signing.leaf_system(name));
    let title = format!("leaf {name}");
    let mut allowed = of_user(&subjects::leaf());
    allowed["sub"]["deny"] = json!(subjects::hidden_from_leaf());
    let pass = |issuer: &[u8; 32], secret: &[u8; 32], nats: Value| {
        let subject = nkey::public(Kind::User, &author_public(secret));
        let claims = json!({ "iat": now, "exp": ends, "name": title, "sub": subject, "nats": nats });
        credentials(&signed(Kind::Account, issuer, claims), secret)
    };
    let of_system = of_user(&subjects::leaf_system());
    [pass(&signing.account(), &own, allowed), pass(&signing.system(), &system, of_system)]
}

/// The end of the pass in a file of credentials, in seconds since 1970. 0 if it has none.
#[must_use]
pub fn end_of_credentials(text: &str) -> u64 {
    text.lines().nth(1).map_or(0, |pass| validity(pass).1)
}

/// A pass and its key in the form of NATS's tools.
fn credentials(pass: &str, secret: &[u8; 32]) -> Zeroizing<String> {
    let seed = nkey::seed(Kind::User, secret);
    Zeroizing::new(format!(
        "-----BEGIN NATS USER JWT-----\n{pass}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        *seed
    ))
}

/// The pass of the user who changes accounts, whose key is derived from the signing key.
#[must_use]
pub fn system_user(signing: &Signing, now: u64) -> String {
    let permissions = Permissions {
        publish: vec!["$SYS.REQ.CLAIMS.UPDATE".into()],
        subscribe: vec![format!("{}.>", subjects::inbox("system"))],
    };
    user(&signing.system(), &author_public(&signing.system_user()), "system", now, &permissions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Seed;

    fn claims(token: &str) -> Value {
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else { panic!("three parts: {token}") };
        assert_eq!(URL_SAFE_NO_PAD.decode(signature).unwrap().len(), 64);
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
        assert_eq!(header["alg"], "ed25519-nkey");
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
    }

    #[test]
    fn passes_name_their_issuers() {
        let signing = Signing::of(Seed::of([1; 32]));
        let operator = claims(&operator(&signing, "plant", 5));
        assert_eq!(operator["iss"], operator["sub"]);
        let account = claims(&account(&signing, "plant", 5, &["UX".into()]));
        assert_eq!(account["iss"], operator["sub"]);
        assert_eq!(account["nats"]["revocations"]["UX"], 5);
        let pass = device(&signing, "abcdefghijklmnop", &[7; 32], 5, 1000);
        assert_eq!((validity(&pass), validity("x.y")), ((5, 1000), (0, 0)));
        let device = claims(&pass);
        assert_eq!(device["exp"], 1000);
        assert_eq!(device["iss"], account["sub"]);
        assert_eq!(device["nats"]["sub"]["allow"][1], "fleet.document.abcdefghijklmnop");
        for file in leaf(&signing, "hall", 5, 1000) {
            assert_eq!((end_of_credentials(&file), end_of_credentials("x")), (1000, 0));
        }
        let system = claims(&system_account(&signing, 5));
        assert_eq!(system["nats"]["limits"]["disk_storage"], 0);
        assert_eq!(claims(&system_user(&signing, 5))["iss"], system["sub"]);
    }
}
